"""copy.copy, copy.deepcopy and pickle: networks, parameters, trainers, data; their uses; what cannot be pickled."""
import copy
import importlib
import io
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn, rnn
from mxnet.gluon.data.vision import transforms

WAYS = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda x: pickle.loads(pickle.dumps(x)),
        "pickle 2": lambda x: pickle.loads(pickle.dumps(x, 2))}
DEEP = {name: way for name, way in WAYS.items() if name != "copy"}


class Net(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.body = nn.HybridSequential()
            self.body.add(nn.Dense(4, activation="relu"), nn.BatchNorm(), nn.Dense(3))
            self.scale = self.params.get("scale", shape=(1, 3), init=mx.init.One())
            self.shift = self.params.get_constant("shift", nd.array([[1, 2, 3]]))
        self.note = {"list": [1, 2]}

    def hybrid_forward(self, F, x, scale, shift):
        return F.broadcast_add(F.broadcast_mul(self.body(x), scale), shift)


class Plain(gluon.Block):
    def __init__(self):
        super().__init__()
        self.net = Net()
        self.parts = (self.net, [1, self.net])

    def forward(self, x):
        return self.net(x)


class OwnDense(nn.Dense):
    def hybrid_forward(self, F, x, weight, bias=None):
        return super().hybrid_forward(F, x, weight, bias) * 2


class OwnCell(rnn.LSTMCell):
    def state_info(self, batch_size=0):
        return super().state_info(batch_size)

    def hybrid_forward(self, F, inputs, states, *args, **kwargs):
        output, states = super().hybrid_forward(F, inputs, states, *args, **kwargs)
        return output + 1, states


def double(x):
    return x * 2


def activation(x, name=None):
    return x.tanh() * 2


def doubled(F, x):
    return x * 2


def of_symbol():
    data = mx.sym.var("data")
    out = mx.sym.FullyConnected(mx.sym.BatchNorm(data, name="bn"), num_hidden=2, name="fc")
    return gluon.SymbolBlock(out, [data])


def concurrent():
    net = gluon.contrib.nn.HybridConcurrent(axis=1)
    net.add(nn.Dense(2), nn.Dense(3))
    return net


def sequence(make):
    net = make()
    net.add(nn.Dense(4, activation="tanh"), nn.Dropout(0.5), nn.LayerNorm(), nn.Dense(2, use_bias=False))
    return net


def shared():
    net = nn.Sequential()
    first = nn.Dense(6, in_units=6)
    net.add(first, nn.Dense(6, in_units=6, params=first.params), first)
    return net


# Block and the shape of its input.
NETWORKS = {
    "Dense": (lambda: nn.Dense(3, activation="relu"), (2, 6)), "not hybrid": (Plain, (2, 6)), "hybrid": (Net, (2, 6)),
    "Sequential": (lambda: sequence(nn.Sequential), (2, 6)), "Lambda": (lambda: nn.Lambda(double), (2, 6)),
    "HybridSequential": (lambda: sequence(nn.HybridSequential), (2, 6)),
    "HybridLambda": (lambda: nn.HybridLambda("tanh"), (2, 6)), "function": (lambda: nn.HybridLambda(doubled), (2, 6)),
    "own layer": (lambda: OwnDense(3), (2, 6)), "symbol": (of_symbol, (2, 6)), "concurrent": (concurrent, (2, 6)),
    "Conv2D": (lambda: nn.Conv2D(3, 3, strides=2, padding=1, dilation=2, groups=1), (2, 3, 9, 9)),
    "Conv2DTranspose": (lambda: nn.Conv2DTranspose(3, 3, output_padding=1, strides=2), (2, 3, 5, 5)),
    "MaxPool2D": (lambda: nn.MaxPool2D(3, 2, ceil_mode=True), (2, 3, 8, 8)), "PReLU": (nn.PReLU, (2, 6)),
    "Embedding": (lambda: nn.Embedding(9, 3), (2, 2)), "InstanceNorm": (nn.InstanceNorm, (2, 3, 4)),
    "LSTM": (lambda: rnn.LSTM(3, 2, bidirectional=True, dropout=0.1), (4, 2, 6)), "shared": (shared, (2, 6)),
    "GRU": (lambda: rnn.GRU(3, layout="NTC"), (2, 4, 6)),
    "resnet": (lambda: gluon.model_zoo.vision.resnet18_v1(classes=5, thumbnail=True), (1, 3, 8, 8)),
    "mobilenet": (lambda: gluon.model_zoo.vision.mobilenet_v2_0_25(classes=5), (1, 3, 32, 32)),
    "mobilenet 3": (lambda: gluon.model_zoo.vision.mobilenet_v3_small(classes=5), (1, 3, 32, 32)),
}


def values(shape):
    return nd.array(np.random.RandomState(1).rand(*shape))


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_networks(name, way, hybridize):
    make, shape = NETWORKS[name]
    net, x = make(), values(shape)
    early = WAYS[way](net)  # neither initialized nor called
    net.initialize(mx.init.Uniform(0.5))
    waiting = DEEP[way](net) if way in DEEP else None
    if hybridize and isinstance(net, gluon.HybridBlock):
        net.hybridize()
    wanted = net(x).asnumpy()
    other = WAYS[way](net)
    assert type(other) is type(net) and other is not net and repr(other) == repr(net)
    assert other.name == net.name and other.prefix == net.prefix
    assert list(other.collect_params()) == list(net.collect_params()) == list(early.collect_params())
    np.testing.assert_array_equal(other(x).asnumpy(), wanted)
    for mine, theirs in zip(net.collect_params().values(), other.collect_params().values()):
        assert (mine is theirs) == (way == "copy")
        np.testing.assert_array_equal(mine.data().asnumpy(), theirs.data().asnumpy())
    assert getattr(other, "_active", None) == getattr(net, "_active", None)
    if way != "copy":
        early.initialize()
        assert early(x).shape == wanted.shape
        assert waiting(x).shape == wanted.shape
        for p in other.collect_params().values():
            p.set_data(p.data() + 1)
        np.testing.assert_array_equal(net(x).asnumpy(), wanted)


@pytest.mark.parametrize("way", sorted(DEEP))
def test_copies_learn_on_their_own(way):
    net, x = Net(), values((4, 6))
    net.initialize()
    net.hybridize()
    loss = gluon.loss.L2Loss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})

    def step(network, by):
        with autograd.record():
            value = loss(network(x), nd.ones((4, 3)))
        value.backward()
        by.step(4)

    def weights(network):
        return [p.data().asnumpy() for p in network.collect_params().values()]

    step(net, trainer)
    other, second = DEEP[way]((net, trainer))
    assert second._params[0] is other.collect_params()[second._params[0].name]
    before = weights(net)
    step(other, second)
    for a, b in zip(before, weights(net)):
        np.testing.assert_array_equal(a, b)
    step(net, trainer)
    for a, b in zip(weights(other), weights(net)):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    assert second._optimizer is not trainer._optimizer and second._optimizer.num_update == 2


def test_structure_of_copies():
    net = Plain()
    other = copy.deepcopy(net)
    assert other.net is other.parts[0] is other.parts[1][1]
    assert other.net.note == {"list": [1, 2]} and other.net.note is not net.net.note
    assert other.net.scale is other.net.params[other.net.scale.name] and other.net.scale is not net.net.scale
    assert isinstance(other.net.shift, gluon.Constant) and other.net.shift.value.asnumpy().tolist() == [[1, 2, 3]]
    twice = pickle.loads(pickle.dumps(shared()))
    assert twice[0].weight is twice[1].weight and twice[0] is twice[2]
    with net.name_scope():
        inside = copy.deepcopy(net.net)
    assert inside.name == net.net.name
    inside.body.add(nn.Dense(1))
    assert len(net.net.body) == 3 and len(inside.body) == 4
    with inside.name_scope():  # numbers go on where those of the original are
        assert nn.Dense(1).name == net.net.prefix + "dense2"
    with net.net.name_scope():
        assert nn.Dense(1).name == net.net.prefix + "dense2"


def test_a_block_may_contain_itself_and_others():
    net = Net()
    net.me, net.friends = [net], {"a": nn.Dense(2)}
    for way in DEEP.values():
        other = way(net)
        assert other.me[0] is other and other.friends["a"] is not net.friends["a"]


def test_hooks_and_exports_of_copies(tmp_path):
    net = nn.Dense(2)
    net.initialize()
    net.register_forward_hook(note_call)
    net.hybridize()
    net(nd.ones((1, 3)))
    for way in DEEP.values():
        CALLS.clear()
        other = way(net)
        other.export(str(tmp_path / "net"))
        other(nd.ones((1, 3)))
        assert CALLS == [other.name]
        again = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
        np.testing.assert_array_equal(again(nd.ones((1, 3))).asnumpy(), net(nd.ones((1, 3))).asnumpy())


CALLS = []


def note_call(block, inputs, outputs):
    CALLS.append(block.name)


def test_residual_networks_of_other_blocks():
    net = gluon.model_zoo.vision.ResNetV1(Residual, [1, 1], [4, 4, 8], classes=3, thumbnail=True)
    net.initialize()
    x = values((1, 3, 8, 8))
    wanted = net(x).asnumpy()
    for way in DEEP.values():
        np.testing.assert_array_equal(way(net)(x).asnumpy(), wanted)


class Residual(gluon.HybridBlock):
    def __init__(self, channels, stride, downsample=False, in_channels=0, **kwargs):
        super().__init__(**kwargs)
        self.conv = nn.Conv2D(channels, 3, stride, 1, in_channels=in_channels)

    def hybrid_forward(self, F, x):
        return F.relu(self.conv(x))


# ---- cells ----------------------------------------------------------------------------------------------------------

def stack():
    cells = rnn.HybridSequentialRNNCell()
    cells.add(rnn.LSTMCell(3))
    cells.add(rnn.DropoutCell(0.5))
    cells.add(rnn.ResidualCell(rnn.GRUCell(3)))
    return cells


CELLS = {"RNNCell": lambda: rnn.RNNCell(3), "LSTMCell": lambda: rnn.LSTMCell(3, activation="relu"), "stack": stack,
         "own": lambda: OwnCell(3), "zoneout": lambda: rnn.ZoneoutCell(rnn.LSTMCell(3), 0.1, 0.2),
         "function": lambda: rnn.RNNCell(3, activation=activation),
         "bidirectional": lambda: rnn.BidirectionalCell(rnn.LSTMCell(3), OwnCell(3)),
         "variational": lambda: gluon.contrib.rnn.VariationalDropoutCell(rnn.LSTMCell(3), 0.1)}


@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("name", sorted(CELLS))
def test_cells(name, way):
    cell, x = CELLS[name](), values((2, 4, 3))
    cell.initialize()
    wanted, states = cell.unroll(4, x, merge_outputs=True)
    other = WAYS[way](cell)
    assert repr(other) == repr(cell) and other.state_info(2) == cell.state_info(2)
    output, new = other.unroll(4, x, merge_outputs=True)
    np.testing.assert_array_equal(output.asnumpy(), wanted.asnumpy())
    for a, b in zip(states, new):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
    if name in ("zoneout", "variational"):
        assert other.base_cell._modified
        with pytest.raises(Exception, match="modifier"):
            other.base_cell.begin_state(2)


# ---- parameters -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("way", sorted(WAYS))
def test_parameters(way):
    p = gluon.Parameter("w", shape=(2,), dtype="float64", lr_mult=2, wd_mult=3, grad_req="add", init=mx.init.One())
    p.mine = [5]
    early = WAYS[way](p)
    assert repr(early) == repr(p) and not early._is_initialized and isinstance(early.init, mx.init.One)
    p.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    with autograd.record():
        y = (p.data(mx.cpu(1)) * 3).sum()
    y.backward()
    q = WAYS[way](p)
    assert (q.name, q.lr_mult, q.wd_mult, q.grad_req, q.dtype, q.mine) == ("w", 2, 3, "add", "float64", [5])
    assert q.list_ctx() == p.list_ctx() and q.data(mx.cpu(1)).asnumpy().tolist() == [1, 1]
    assert q.grad(mx.cpu(1)).asnumpy().tolist() == [3, 3] and q.grad(mx.cpu(0)).asnumpy().tolist() == [0, 0]
    with autograd.record():
        y = (q.data(mx.cpu(1)) * 4).sum()
    y.backward()
    assert q.grad(mx.cpu(1)).asnumpy().tolist() == [7, 7]
    if way != "copy":
        assert p.grad(mx.cpu(1)).asnumpy().tolist() == [3, 3]
        early.initialize()
        assert early.data().asnumpy().tolist() == [1, 1]


@pytest.mark.parametrize("way", sorted(DEEP))
def test_deferred_parameters_and_constants(way):
    p = gluon.Parameter("w", shape=(0, 2), allow_deferred_init=True)
    p.initialize(mx.init.Constant(4), ctx=mx.cpu(1))
    q = DEEP[way](p)
    q.shape = (1, 2)
    q._finish_deferred_init()
    assert q.data().asnumpy().tolist() == [[4, 4]] and q.list_ctx() == [mx.cpu(1)] and p.shape == (0, 2)
    c = gluon.Constant("c", [[1, 2]])
    d = DEEP[way](c)
    d.initialize()
    assert d.data().asnumpy().tolist() == [[1, 2]] and d.grad_req == "null" and type(d) is gluon.Constant
    assert DEEP[way](d).data().asnumpy().tolist() == [[1, 2]]


@pytest.mark.parametrize("way", sorted(WAYS))
def test_dictionaries_of_parameters(way):
    shared_ones = gluon.ParameterDict("a_")
    shared_ones.get("w", shape=(2,))
    params = gluon.ParameterDict("a_", shared=shared_ones)
    params.get("v", shape=(3,))
    params.initialize()
    other = WAYS[way](params)
    assert other.prefix == "a_" and list(other) == ["a_v"] and repr(other) == repr(params)
    assert (other["a_v"] is params["a_v"]) == (way == "copy")
    assert other.get("w").shape == (2,) and "a_w" not in params
    np.testing.assert_array_equal(other["a_v"].data().asnumpy(), params["a_v"].data().asnumpy())


# ---- other objects --------------------------------------------------------------------------------------------------

def losses():
    pred, label = values((4, 3)), nd.array([0, 1, 2, 1])
    return {"softmax": (gluon.loss.SoftmaxCrossEntropyLoss(axis=-1, weight=0.5), (pred, label)),
            "huber": (gluon.loss.HuberLoss(rho=0.7), (pred, pred * 2)),
            "triplet": (gluon.loss.TripletLoss(margin=2), (pred, pred * 2, pred + 1))}


@pytest.mark.parametrize("way", sorted(WAYS))
def test_losses_and_transforms(way):
    for loss, inputs in losses().values():
        np.testing.assert_array_equal(WAYS[way](loss)(*inputs).asnumpy(), loss(*inputs).asnumpy())
    image = nd.array(np.random.RandomState(2).randint(0, 255, (6, 8, 3)), dtype="uint8")
    chain = transforms.Compose([transforms.Resize(4), transforms.CenterCrop(3), transforms.ToTensor(),
                                transforms.Normalize((0.1, 0.2, 0.3), 0.5)])
    np.testing.assert_array_equal(WAYS[way](chain)(image).asnumpy(), chain(image).asnumpy())
    for transform in (transforms.RandomResizedCrop(4), transforms.RandomColorJitter(0.1, 0.1, 0.1, 0.1),
                      transforms.RandomFlipLeftRight(), transforms.Cast("float16"), transforms.RandomLighting(0.1)):
        assert repr(WAYS[way](transform)) == repr(transform)


@pytest.mark.parametrize("way", sorted(WAYS))
def test_learning_objects(way):
    schedule = mx.lr_scheduler.FactorScheduler(3, 0.5, base_lr=0.4)
    optimizer = mx.optimizer.SGD(momentum=0.9, lr_scheduler=schedule)
    updater = mx.optimizer.get_updater(optimizer)
    weight, grad = nd.ones((3,)), nd.ones((3,))
    updater(0, grad, weight)
    other, copied = WAYS[way](updater), weight.copy()
    updater(0, grad, weight)
    other(0, grad, copied)
    if way != "copy":
        np.testing.assert_array_equal(weight.asnumpy(), copied.asnumpy())
        assert other.optimizer is not optimizer and other.optimizer.num_update == 2
    metric = mx.metric.CompositeEvalMetric(["acc", mx.metric.F1(), mx.metric.CustomMetric(metric_value)])
    metric.update([nd.array([0, 1])], [nd.array([[0.8, 0.2], [0.9, 0.1]])])
    assert WAYS[way](metric).get() == metric.get()
    for init in (mx.init.Xavier(magnitude=2), mx.init.Mixed(["bias", ".*"], [mx.init.Zero(), mx.init.One()])):
        array = nd.zeros((2, 2))
        mx.random.seed(1)
        init(mx.init.InitDesc("fc_weight"), array)
        second = nd.zeros((2, 2))
        mx.random.seed(1)
        WAYS[way](init)(mx.init.InitDesc("fc_weight"), second)
        np.testing.assert_array_equal(array.asnumpy(), second.asnumpy())


def metric_value(label, pred):
    return 0.25


@pytest.mark.parametrize("way", sorted(WAYS))
def test_data(way):
    data = gluon.data.ArrayDataset(values((6, 2)), np.arange(6)).transform_first(double)
    other = WAYS[way](data)
    assert [label for _, label in other] == list(range(6))
    np.testing.assert_array_equal(other[3][0].asnumpy(), data[3][0].asnumpy())
    for sampler in (gluon.data.BatchSampler(gluon.data.SequentialSampler(5), 2, "keep"),
                    gluon.data.FilterSampler(bool, [0, 1, 2])):
        assert list(WAYS[way](sampler)) == list(sampler)
    loader = WAYS[way](gluon.data.DataLoader(data, 4, num_workers=0, last_batch="keep"))
    assert [batch[0].shape for batch in loader] == [(4, 2), (2, 2)]


def one_step(trainer):
    p = trainer._params[0]
    for ctx in p.list_ctx():
        with autograd.record():
            y = p.data(ctx).sum()
        y.backward()
    trainer.step(2)


class OwnSGD(mx.optimizer.Optimizer):
    """An optimizer in Python, whose states are its own."""

    def create_state(self, index, weight):
        return [nd.zeros(weight.shape, ctx=weight.context)]

    def update(self, index, weight, grad, state):
        state[0] += grad * self.rescale_grad
        weight -= self.lr * state[0]


@pytest.mark.parametrize("contexts", [1, 2])
@pytest.mark.parametrize("store", ["device", None])
@pytest.mark.parametrize("optimizer", ["sgd", OwnSGD])
@pytest.mark.parametrize("way", sorted(WAYS))
def test_trainers_keep_states(way, optimizer, store, contexts):
    p = gluon.Parameter("w", shape=(2,))
    p.initialize(mx.init.One(), ctx=[mx.cpu(i) for i in range(contexts)])
    rule = mx.optimizer.SGD(momentum=0.9, learning_rate=0.1, rescale_grad=0.5) if optimizer == "sgd" else \
        OwnSGD(learning_rate=0.1, rescale_grad=0.5)
    trainer = gluon.Trainer([p], rule, kvstore=store)
    one_step(trainer)
    other = WAYS[way](trainer)
    assert other.learning_rate == 0.1 and other._scale == 0.5 and type(other.optimizer) is type(rule)
    mine = other._params[0]
    assert (mine is p) == (way == "copy") and mine._trainer is other
    if way == "copy":
        return
    before = p.data(mx.cpu(0)).asnumpy()
    one_step(other)
    np.testing.assert_array_equal(p.data(mx.cpu(0)).asnumpy(), before)
    one_step(trainer)
    for ctx in p.list_ctx():
        np.testing.assert_allclose(mine.data(ctx).asnumpy(), p.data(ctx).asnumpy(), rtol=1e-6)


def test_a_store_that_was_given_is_made_again_by_its_name():
    p = gluon.Parameter("w", shape=(2,))
    p.initialize(mx.init.One())
    trainer = gluon.Trainer([p], "sgd", kvstore=mx.kv.create("local"))
    one_step(trainer)
    other = pickle.loads(pickle.dumps(trainer))
    one_step(other)
    assert other._kvstore.type == "local" and other._kvstore is not trainer._kvstore


def test_every_class_is_found_by_its_name():
    for part in ("cnn", "nn", "rnn"):
        importlib.import_module("mxnet.gluon.contrib." + part)
    wrong = []
    for cls in all_classes(gluon.Block):
        if cls.__module__.startswith("mxnet") and not cls.__name__.startswith("_"):
            found = getattr(importlib.import_module(cls.__module__), cls.__qualname__, None)
            if found is None or not issubclass(found, cls):  # a subclass may have taken the place
                wrong.append(f"{cls.__module__}.{cls.__qualname__}")
    assert not wrong


def all_classes(cls):
    found = [cls]
    for below in cls.__subclasses__():
        found += all_classes(below)
    return found


# ---- uses -----------------------------------------------------------------------------------------------------------

def test_running_mean_of_weights():
    """An exponential moving average of a network while it trains; buffers are copied, too."""
    net = Net()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(values((4, 6)))
    mean, by_hand = copy.deepcopy(net), None
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    names = [name for name, p in net.collect_params().items() if p.grad_req != "null"]
    by_hand = {name: net.collect_params()[name].data().asnumpy() for name in names}
    for _ in range(5):
        with autograd.record():
            loss = gluon.loss.L2Loss()(net(values((4, 6))), nd.ones((4, 3)))
        loss.backward()
        trainer.step(4)
        ours, theirs = mean.collect_params(), net.collect_params()
        for name in names:
            ours[name].set_data(0.9 * ours[name].data() + 0.1 * theirs[name].data())
            by_hand[name] = 0.9 * by_hand[name] + 0.1 * theirs[name].data().asnumpy()
    for name in names:
        np.testing.assert_allclose(mean.collect_params()[name].data().asnumpy(), by_hand[name], rtol=1e-5, atol=1e-6)
    assert not np.allclose(mean(values((4, 6))).asnumpy(), net(values((4, 6))).asnumpy())


def test_target_network():
    net = sequence(nn.HybridSequential)
    net.initialize()
    x = values((2, 6))
    net(x)
    target = copy.deepcopy(net)
    np.testing.assert_array_equal(target(x).asnumpy(), net(x).asnumpy())
    for p in net.collect_params().values():
        p.set_data(p.data() * 3)
    assert not np.array_equal(target(x).asnumpy(), net(x).asnumpy())
    for ours, theirs in zip(target.collect_params().values(), net.collect_params().values()):
        ours.set_data(theirs.data())
    np.testing.assert_array_equal(target(x).asnumpy(), net(x).asnumpy())


PROGRAM = """
import pickle, sys
import numpy as np
import test_copying
net, trainer, x = pickle.load(open(sys.argv[1], "rb"))
from mxnet import autograd, gluon
with autograd.record():
    loss = gluon.loss.L2Loss()(net(x), x[:, :3])
loss.backward()
trainer.step(4)
pickle.dump([p.data().asnumpy() for p in net.collect_params().values()], open(sys.argv[2], "wb"))
"""


def test_another_process_goes_on_training(tmp_path):
    net, x = Net(), values((4, 6))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})

    def step():
        with autograd.record():
            loss = gluon.loss.L2Loss()(net(x), x[:, :3])
        loss.backward()
        trainer.step(4)

    step()
    sent, came = tmp_path / "sent", tmp_path / "came"
    sent.write_bytes(pickle.dumps((net, trainer, x)))
    step()
    paths = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
    subprocess.run([sys.executable, "-c", PROGRAM, str(sent), str(came)], check=True,
                   env={**os.environ, "PYTHONPATH": paths})
    for p, theirs in zip(net.collect_params().values(), pickle.loads(came.read_bytes())):
        np.testing.assert_allclose(p.data().asnumpy(), theirs, rtol=1e-5, atol=1e-7)


def work(net, data, i):
    return net(data[i][0].expand_dims(0)).asnumpy()


def test_spawned_processes_use_networks_and_data():
    import multiprocessing
    chain = transforms.Compose([transforms.ToTensor(), transforms.Normalize(0.5, 0.5)])
    images = nd.array(np.random.RandomState(3).randint(0, 255, (4, 5, 5, 3)), dtype="uint8")
    data = gluon.data.ArrayDataset(images, np.arange(4)).transform_first(chain)
    net = nn.HybridSequential()
    net.add(nn.Conv2D(2, 3), nn.Dense(2))
    net.initialize()
    net.hybridize()
    wanted = [work(net, data, i) for i in range(4)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        came = pool.starmap(work, [(net, data, i) for i in range(4)])
    np.testing.assert_allclose(came, wanted, rtol=1e-5)


def test_joblib():
    joblib = pytest.importorskip("joblib")
    net = Net()
    net.initialize()
    wanted = net(values((2, 6))).asnumpy()
    file = io.BytesIO()
    joblib.dump(net, file)
    file.seek(0)
    np.testing.assert_array_equal(joblib.load(file)(values((2, 6))).asnumpy(), wanted)


# ---- what cannot be copied ------------------------------------------------------------------------------------------

def test_members_that_cannot_be_copied_are_named():
    net = Plain()
    net.net.body[2].lock = threading.Lock()
    for way in DEEP.values():
        with pytest.raises(TypeError, match=rf"{net.net.body[2].name} \(Dense\).*'lock', a lock"):
            way(net)
    net = nn.Dense(2)
    net.rules = [lambda x: x]
    assert copy.deepcopy(net).rules[0](3) == 3
    with pytest.raises(pickle.PicklingError, match=r"dense.*'rules', a list, cannot be pickled"):
        pickle.dumps(net)
    p = gluon.Parameter("p", shape=(1,))
    p.file = (x for x in ())
    with pytest.raises(TypeError, match=r"p \(Parameter\): attribute 'file', a generator"):
        pickle.dumps(p)


class Forgetful(nn.Dense):
    def __init__(self, units):
        super().__init__(units)
        self.lock = threading.Lock()

    def __getstate__(self):
        return {key: value for key, value in self.__dict__.items() if key != "lock"}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.lock = "made again"


def test_subclasses_may_leave_members_out():
    net = Forgetful(2)
    net.word = "kept"
    net.initialize()
    net(nd.ones((1, 3)))
    for way in WAYS.values():
        other = way(net)
        assert other.lock == "made again" and other.word == "kept"
        np.testing.assert_array_equal(other(nd.ones((1, 3))).asnumpy(), net(nd.ones((1, 3))).asnumpy())


class Reduced(nn.Dense):
    def __reduce__(self):
        return Reduced, (self._units,)


def test_subclasses_may_pickle_in_their_own_way():
    assert pickle.loads(pickle.dumps(Reduced(7)))._units == 7


def test_unpickling_calls_nothing_but_ours():
    from mxnet import _copying
    for wrong in (print, "Dense", int, os.system):
        with pytest.raises(pickle.UnpicklingError):
            _copying._blank(wrong)
        with pytest.raises(pickle.UnpicklingError):
            _copying.restore(wrong, ({}, {}))
    with pytest.raises(TypeError, match="NDArray"):
        mx.nd.ndarray._rebuild(os.system, b"", (0,), "float32", None)
    with pytest.raises(TypeError, match="Symbol"):
        type(mx.sym.var("a")).__reduce__(mx.sym.var("a"))[0](os.system, "{}")
    net = nn.Dense(2)
    state = net._core_state()
    for key, value in (("entry", (0, "NoSuchLayer")), ("params", None), ("attributes", {"weight": 3}), ("options", [])):
        with pytest.raises((ValueError, TypeError)):
            nn.Dense.__new__(nn.Dense)._set_core_state({**state, key: value})
    with pytest.raises(ValueError, match="prefix"):
        nn.Dense.__new__(nn.Dense)._set_core_state({key: state[key] for key in state if key != "prefix"})
