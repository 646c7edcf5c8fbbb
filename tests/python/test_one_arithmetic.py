"""One arithmetic: on the CPU a training program gives the same bits imperatively, hybridized and as fused steps, with one
thread and with several, and after a resume.  (tests/gluon/test_one_arithmetic.c goes through the classes that only C has.)"""
import numpy as np
import pytest

import mxnet as mx
from mxnet import _core, autograd, gluon, nd, optimizer
from mxnet.gluon import nn, rnn
from hybrid_cases import LAYERS, LOSSES, Residual, inputs_of

pytestmark = pytest.mark.usefixtures("on_host")
STEPS = 3
SGD = ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01})


@pytest.fixture(autouse=True)
def threads():
    before = _core.num_threads()
    yield
    _core.set_num_threads(before)


class Program:
    """A network, a loss and an optimizer, made anew for every run; `others`: further inputs of the network."""

    def __init__(self, make, data, label=None, loss=gluon.loss.L2Loss, optimizer=SGD, others=()):
        self.make, self.data, self.label, self.loss, self.optimizer, self.others = make, data, label, loss, optimizer, others

    def open(self, way):
        mx.random.seed(3)
        self.net, self.criterion = self.make(), self.loss()
        self.net.initialize(mx.init.Uniform(0.4))
        out = self.net(self.data, *self.others)
        if self.label is None:
            self.label = nd.array(np.random.RandomState(7).uniform(-1, 1, out.shape))
        if way != "imperative":
            self.net.hybridize()
            self.criterion.hybridize()
        self.trainer = gluon.Trainer(self.net.collect_params(), *self.optimizer)

    def step(self):
        with autograd.record():
            loss = self.criterion(self.net(self.data, *self.others), self.label)
        loss.backward()
        self.trainer.step(self.data.shape[0])
        return loss

    def resume(self, folder):
        self.net.save_parameters(str(folder / "net.params"))
        self.trainer.save_states(str(folder / "trainer.states"))
        self.open("imperative")
        self.net.load_parameters(str(folder / "net.params"))
        self.trainer.load_states(str(folder / "trainer.states"))

    def run(self, way, threads, folder=None):
        """The losses and parameters of all steps, as bytes by name."""
        _core.set_num_threads(threads)
        self.open(way)
        whole = gluon.TrainStep(self.net, self.criterion, self.trainer) if way == "whole" else None
        found = {}
        for k in range(STEPS):
            if folder and k == STEPS - 1:
                self.resume(folder)
            mx.random.seed(k)
            loss = whole(self.data, self.label) if whole else self.step()
            found[k, "loss"] = loss.asnumpy().tobytes()
            for i, p in enumerate(self.net.collect_params().values()):
                found[k, i] = p.data().asnumpy().tobytes()
        return found

    def check(self, folder):
        measure = self.run("imperative", 1)
        ways = [("imperative", 3), ("hybridized", 1), ("hybridized", 3)]
        ways += [("whole", 1), ("whole", 3)] if not self.others else []
        for way, threads in ways:
            assert self.run(way, threads) == measure, (way, threads)
        assert self.run("imperative", 1, folder) == measure, "resumed"


def behind(make):
    """The layer between two trained layers: the first one gets its gradient through it."""
    def network():
        net = nn.HybridSequential(prefix="net_")
        with net.name_scope():
            net.add(make(), nn.Dense(4, activation="relu"), nn.Dense(3))
        return net
    return network


@pytest.mark.parametrize("name", list(LAYERS))
def test_layers(name, tmp_path):
    make, inputs = LAYERS[name][0], inputs_of(name)
    Program(behind(make) if len(inputs) == 1 else make, inputs[0], others=inputs[1:]).check(tmp_path)


@pytest.mark.parametrize("name", list(LOSSES))
def test_losses(name, tmp_path):
    make, inputs = LOSSES[name][0], inputs_of(name)
    shape, rest = inputs[0].shape, inputs[2:]

    class Weighted(gluon.HybridBlock):
        """The loss with the inputs after the label, if it has some, as constants."""

        def __init__(self):
            super().__init__()
            self.loss = make()

        def hybrid_forward(self, F, x, label):
            return self.loss(x, label, *rest)

    def network():
        net = nn.HybridSequential(prefix="net_")
        with net.name_scope():
            net.add(nn.Dense(6, activation="tanh", flatten=False), nn.Dense(shape[-1], flatten=False))
        return net

    Program(network, inputs[0], inputs[1], make if not rest else Weighted).check(tmp_path)


@pytest.mark.parametrize("options", [{}, {"wd": 0.01, "clip_gradient": 0.01}, {"momentum": 0.9}])
@pytest.mark.parametrize("name", sorted(set(optimizer.Optimizer.opt_registry) - {"test"}))
def test_optimizers(name, options, tmp_path):
    try:
        optimizer.create(name, **options)
    except (TypeError, AssertionError):
        pytest.skip("has no such option")

    def network():
        net = nn.HybridSequential(prefix="net_")
        with net.name_scope():
            net.add(nn.Dense(160, use_bias=False, activation="relu"), nn.Dense(5, use_bias=False))
        return net

    data = nd.array(np.random.uniform(-1, 1, (8, 256)))
    Program(network, data, optimizer=(name, options)).check(tmp_path)


def lenet():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(6, 5, padding=2, activation="relu"), nn.MaxPool2D(), nn.Conv2D(16, 5, activation="relu"),
                nn.MaxPool2D(), nn.Dense(120, activation="relu"), nn.Dropout(0.3), nn.Dense(10))
    return net


def residual():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3, strides=2), Residual(), nn.GlobalAvgPool2D(), nn.Dense(10))
    return net


def recurrent():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(rnn.LSTM(40, layout="NTC"), rnn.GRU(20, layout="NTC", bidirectional=True), nn.Dense(10))
    return net


@pytest.mark.parametrize("make, shape", [(lenet, (16, 1, 28, 28)), (residual, (16, 3, 24, 24)), (recurrent, (16, 12, 30))])
def test_networks(make, shape, tmp_path):
    data = nd.array(np.random.uniform(-1, 1, shape))
    label = nd.array(np.random.randint(0, 10, shape[0]))
    Program(make, data, label, gluon.loss.SoftmaxCrossEntropyLoss).check(tmp_path)


@pytest.mark.parametrize("shape, axis", [((4, 7), -1), ((3, 600), -1), ((2, 3000), -1), ((3, 5, 4, 33), 1)])
@pytest.mark.parametrize("dtype, label_dtype", [("float32", "float32"), ("float64", "float32"), ("float16", "float32"),
                                                ("float32", "float64"), ("float32", "int32")])
def test_cross_entropy_of_any_shape(shape, axis, dtype, label_dtype):
    """Plans compute it in one step, with the rounding of the operators one by one; large numbers and zero gradients, too."""
    loss = gluon.loss.SoftmaxCrossEntropyLoss(axis=axis)
    x = nd.array(np.random.normal(0, 30, shape), dtype=dtype)
    rest = tuple(n for i, n in enumerate(shape) if i != axis % len(shape))
    label = nd.array(np.random.randint(0, shape[axis], rest), dtype=label_dtype)
    x.attach_grad()
    found = []
    for active in (False, True, True):
        loss.hybridize(active)
        with autograd.record():
            out = loss(x, label)
        out.backward(nd.array(np.arange(out.size).reshape(out.shape) - 1, dtype=dtype))
        found.append((out.asnumpy().tobytes(), x.grad.asnumpy().tobytes()))
    assert found[0] == found[1] == found[2]


def test_chains_of_functions_do_not_look_at_neighbours():
    """exp, log and others have short forms for moderate numbers: the neighbours of a number must not matter."""
    class Chain(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            y = F.sigmoid(x) * F.sin(x) + F.cos(x)
            return F.exp(x * 0.5) + F.log(F.abs(x)) * y

    net = Chain()
    x = np.random.uniform(-4, 4, 40000).astype("float32")
    x[[5, 700, 1500, 9000, 20001]] = [200, -190, 0, 1e6, np.inf]
    data = nd.array(x)
    data.attach_grad()
    found = []
    for active, threads in ((False, 1), (False, 3), (True, 1), (True, 3)):
        _core.set_num_threads(threads)
        net.hybridize(active)
        with autograd.record():
            y = net(data)
        y.backward()
        found.append((y.asnumpy().tobytes(), data.grad.asnumpy().tobytes()))
    assert all(f == found[0] for f in found)
