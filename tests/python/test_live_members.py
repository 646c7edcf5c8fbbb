"""Dictionaries and attributes of blocks that programs read and write: what is changed is what runs."""
import copy
import pickle
from collections import OrderedDict

import numpy as np
import pytest

import mxnet as mx
from mxnet import gluon, nd
from mxnet.gluon import nn

pytestmark = pytest.mark.usefixtures("on_host")  # rules of blocks, the same on every device

X = nd.array([[1, 2], [3, 0]])


def ones(*children, cls=nn.HybridSequential):
    net = cls()
    net.add(*children)
    net.initialize(mx.init.One())
    return net


def plus(n):
    return nn.HybridLambda(lambda F, x: x + n)


def times(n):
    return nn.HybridLambda(lambda F, x: x * n)


# ---- children ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("cls", [nn.Sequential, nn.HybridSequential])
def test_children_are_live(cls):
    net = ones(plus(1), times(3), plus(5), cls=cls)
    children = net._children
    assert isinstance(children, OrderedDict) and list(children) == ["0", "1", "2"]
    assert net._children is children

    def check(wanted):
        for _ in range(2):
            assert net(X).asnumpy().tolist() == wanted.asnumpy().tolist()
            if cls is nn.HybridSequential:
                net.hybridize()

    check((X + 1) * 3 + 5)
    popped = children.pop("1")
    check(X + 6)
    assert len(net) == 2 and popped not in net
    children["1"] = popped
    check((X + 6) * 3)
    children.move_to_end("1", last=False)
    check(X * 3 + 6)
    del children["0"]
    check(X * 3 + 5)
    children.clear()
    assert len(net) == 0 and not net.collect_params()
    net.add(plus(7))
    assert list(children) == ["0"]
    check(X + 7)
    children.update({"a": times(2), "b": plus(1)})
    check((X + 7) * 2 + 1)
    assert children.popitem()[0] == "b"
    net._children = OrderedDict([("x", times(10))])
    check(X * 10)
    assert children.setdefault("x", None) is net._children["x"]
    assert net._children is children and list(children) == ["x"]


def test_children_count_everywhere(tmp_path):
    net = nn.HybridSequential(prefix="n_")
    with net.name_scope():
        net.add(nn.Dense(2, in_units=2))
        net._children["mine"] = nn.Dense(3, in_units=2)
    assert list(net.collect_params()) == ["n_dense0_weight", "n_dense0_bias", "n_dense1_weight", "n_dense1_bias"]
    net.initialize()
    seen = []
    net.apply(lambda block: seen.append(type(block).__name__))
    assert seen == ["Dense", "Dense", "HybridSequential"]
    net.hybridize()
    assert net._children["mine"]._active
    net.save_parameters(str(tmp_path / "p"))
    assert list(nd.load(str(tmp_path / "p"))) == ["0.weight", "0.bias", "mine.weight", "mine.bias"]
    net.cast("float64")
    assert net._children["mine"].weight.dtype == "float64"
    assert net(X.astype("float64")).shape == (2, 3)


def test_children_of_networks_made_in_c():
    net = gluon.model_zoo.vision.resnet18_v1(classes=10)
    output = net.output  # asked for first: the order is that of the network all the same
    assert list(net._children) == ["features", "output"] and net._children["output"] is output
    before = len(net.features)
    net.features._children.popitem()
    assert len(net.features) == before - 1
    net._children["output"] = nn.Dense(3)
    net.initialize()
    assert net(nd.ones((1, 3, 32, 32))).shape == (1, 3)


def test_bad_children_change_nothing():
    net = ones(plus(1))
    for bad in (None, 3, "text", gluon.Parameter("p")):
        with pytest.raises(TypeError, match="expected a Block"):
            net._children["1"] = bad
    with pytest.raises(ValueError, match="cannot be its parent"):
        net._children["1"] = net
    with pytest.raises(KeyError):
        net._children.pop("9")
    assert net._children.pop("9", None) is None
    assert list(net._children) == ["0"]
    assert (net(X) == X + 1).asnumpy().all()


def test_copies_are_ordinary_dictionaries():
    net = ones(plus(1))
    for other in (copy.copy(net._children), net._children.copy(), dict(net._children), OrderedDict(net._children)):
        other.clear()
    assert len(net) == 1
    assert type(pickle.loads(pickle.dumps(gluon.ParameterDict()._params))) is OrderedDict
    children = net._children
    del net
    children.clear()  # its block is gone


# ---- parameters -------------------------------------------------------------------------------------------------------

class Scale(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.w = self.params.get("w", shape=(1,), init="ones")

    def hybrid_forward(self, F, x, w):
        return F.broadcast_mul(x, w)


@pytest.mark.parametrize("hybridize", [False, True])
def test_registered_parameters_are_live(hybridize):
    net = Scale()
    net.initialize()
    if hybridize:
        net.hybridize()
    assert net._reg_params == {"w": net.w}
    assert (net(X) == X).asnumpy().all()
    other = gluon.Parameter("other", shape=(1,), init=mx.init.Constant(3))
    other.initialize()
    net._reg_params["w"] = other
    assert (net(X) == X * 3).asnumpy().all()

    dense = nn.Dense(2, in_units=2)
    dense.initialize(mx.init.One())
    if hybridize:
        dense.hybridize()
    wanted = dense(X).asnumpy()
    twice = gluon.Parameter("twice", shape=(2, 2), init=mx.init.Constant(2))
    twice.initialize()
    dense._reg_params["weight"] = twice
    np.testing.assert_allclose(dense(X).asnumpy(), wanted * 2)
    bias = dense._reg_params.pop("bias")
    assert list(dense._reg_params) == ["weight"]
    np.testing.assert_allclose(dense(X).asnumpy(), wanted * 2)
    dense._reg_params["bias"] = bias
    assert list(dense._collect_params_with_prefix()) == ["weight", "bias"]
    with pytest.raises(TypeError, match="expected a Parameter"):
        dense._reg_params["bias"] = X


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_parameter_class_of_its_own(hybridize):
    """A parameter that drops or scales its weight whenever it is read, as language models have."""
    class Halved(gluon.Parameter):
        def __init__(self, parameter):
            super().__init__(parameter.name, shape=parameter.shape, init="ones")

        def data(self, ctx=None):
            return super().data(ctx) / 2

        def var(self):
            return super().var() / 2

    for net in (Scale(), nn.Dense(2, in_units=2, use_bias=False)):
        name, old = list(net._reg_params.items())[0]
        net.initialize(mx.init.One())
        wanted = net(X).asnumpy() / 2
        new = Halved(old)
        net.params._params[old.name] = new
        net._reg_params[name] = new
        net.initialize()
        if hybridize:
            net.hybridize()
        for _ in range(2):
            np.testing.assert_allclose(net(X).asnumpy(), wanted)
        assert net.collect_params()[old.name] is new
        with mx.autograd.record():
            y = net(X).sum()
        y.backward()
        assert new.grad().asnumpy().sum() == {"w": 3, "weight": 6}[name]


def test_parameter_dictionaries_are_live():
    params = gluon.ParameterDict("p_")
    a, b = params.get("a", shape=(1,)), params.get("b", shape=(1,))
    assert isinstance(params._params, OrderedDict) and params._params is params._params
    assert params._params == {"p_a": a, "p_b": b}
    assert params._params.pop("p_a") is a
    assert list(params) == ["p_b"] and "p_a" not in params
    params._params["p_c"] = c = gluon.Parameter("p_c", shape=(2,))
    assert list(params.items()) == [("p_b", b), ("p_c", c)] and params["p_c"] is c
    d = params.get("d", shape=(1,))
    assert params._params["p_d"] is d
    params._params = {"x": a}
    assert list(params.items()) == [("x", a)]
    params._params.clear()
    assert not len(params)


# ---- options of layers --------------------------------------------------------------------------------------------------

KWARGS = [
    (lambda: nn.Conv1D(4, 3), {"kernel": (3,), "stride": (1,), "dilate": (1,), "pad": (0,), "num_filter": 4,
                               "num_group": 1, "no_bias": False, "layout": "NCW"}),
    (lambda: nn.Conv2D(4, 3, strides=2, padding=1, use_bias=False),
     {"kernel": (3, 3), "stride": (2, 2), "dilate": (1, 1), "pad": (1, 1), "num_filter": 4, "num_group": 1,
      "no_bias": True, "layout": "NCHW"}),
    (lambda: nn.Conv2DTranspose(4, 3, output_padding=1, strides=2),
     {"kernel": (3, 3), "stride": (2, 2), "dilate": (1, 1), "pad": (0, 0), "num_filter": 4, "num_group": 1,
      "no_bias": False, "layout": "NCHW", "adj": (1, 1)}),
    (lambda: nn.BatchNorm(scale=False), {"axis": 1, "eps": 1e-05, "momentum": 0.9, "fix_gamma": True,
                                         "use_global_stats": False}),
    (lambda: nn.BatchNormReLU(), {"axis": 1, "eps": 1e-05, "momentum": 0.9, "fix_gamma": False,
                                  "use_global_stats": False}),
    (lambda: gluon.contrib.nn.SyncBatchNorm(prefix="s_"),
     {"eps": 1e-05, "momentum": 0.9, "fix_gamma": False, "use_global_stats": False, "ndev": 1, "key": "s_"}),
    (lambda: nn.LayerNorm(), {"eps": 1e-05, "axis": -1, "center": True, "scale": True}),
    (lambda: nn.InstanceNorm(), {"eps": 1e-05, "axis": 1, "center": True, "scale": False}),
    (lambda: nn.GroupNorm(2), {"eps": 1e-05, "num_groups": 2, "center": True, "scale": True}),
    (lambda: nn.Embedding(5, 3), {"input_dim": 5, "output_dim": 3, "dtype": "float32", "sparse_grad": False}),
    (lambda: nn.MaxPool2D(), {"kernel": (2, 2), "stride": (2, 2), "pad": (0, 0), "global_pool": False,
                              "pool_type": "max", "layout": "NCHW", "pooling_convention": "valid"}),
    (lambda: nn.AvgPool1D(3, 2, 1, ceil_mode=True),
     {"kernel": (3,), "stride": (2,), "pad": (1,), "global_pool": False, "pool_type": "avg", "layout": "NCW",
      "pooling_convention": "full", "count_include_pad": True}),
    (lambda: nn.GlobalAvgPool2D(), {"kernel": (1, 1), "stride": (1, 1), "pad": (0, 0), "global_pool": True,
                                    "pool_type": "avg", "layout": "NCHW", "pooling_convention": "full"}),
]


@pytest.mark.parametrize("make, wanted", KWARGS)
def test_keywords_of_the_operator(make, wanted):
    layer = make()
    assert layer._kwargs == wanted and list(layer._kwargs) == list(wanted)
    assert layer._kwargs is layer._kwargs
    assert repr(layer._kwargs) == repr(wanted)


@pytest.mark.parametrize("hybridize", [False, True])
def test_written_keywords(hybridize):
    x = nd.random.uniform(shape=(1, 3, 8, 8))
    conv = nn.Conv2D(4, 3, strides=2, in_channels=3)
    pool, norm = nn.MaxPool2D(), nn.BatchNorm(in_channels=3)
    for layer in (conv, pool, norm):
        layer.initialize()
        if hybridize:
            layer.hybridize()
        layer(x)
    conv._kwargs["stride"] = (1, 1)
    conv._kwargs["pad"] = (1, 1)
    assert conv(x).shape == (1, 4, 8, 8)
    assert repr(conv) == "Conv2D(3 -> 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))"
    wanted = nd.Convolution(x, conv.weight.data(), conv.bias.data(), **conv._kwargs)
    np.testing.assert_allclose(conv(x).asnumpy(), wanted.asnumpy(), rtol=1e-4, atol=1e-5)
    pool._kwargs.update(pool_type="avg", stride=(1, 1))
    assert pool(x).shape == (1, 3, 7, 7)
    np.testing.assert_allclose(pool(x).asnumpy(), nd.Pooling(x, kernel=(2, 2), pool_type="avg").asnumpy(), rtol=1e-5)
    norm._kwargs["eps"] = 1.0
    norm.running_var.set_data(nd.ones((3,)) * 3)
    np.testing.assert_allclose(norm(x).asnumpy(), x.asnumpy() / 2, rtol=1e-5)
    with pytest.raises((TypeError, ValueError, mx.MXNetError)):
        conv._kwargs["stride"] = "nonsense"
    assert conv._kwargs["stride"] == (1, 1)
    conv._kwargs["mine"] = object()  # the operator does not have it
    assert conv(x).shape == (1, 4, 8, 8)


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_library_reads_them_in_its_own_forward(hybridize):
    class WeightStandardized(nn.Conv2D):
        def hybrid_forward(self, F, x, weight, bias=None):
            weight = F.broadcast_sub(weight, F.mean(weight, axis=(1, 2, 3), keepdims=True))
            return getattr(F, self._op_name)(x, weight, bias, name="fwd", **self._kwargs)

    class Frozen(nn.BatchNorm):
        def hybrid_forward(self, F, x, gamma, beta, running_mean, running_var):
            return F.BatchNorm(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs) * 2

    conv, norm = WeightStandardized(4, 3, in_channels=3), Frozen()
    net = nn.HybridSequential()
    net.add(norm, conv)
    net.initialize()
    if hybridize:
        net.hybridize()
    assert abs(net(nd.ones((1, 3, 5, 5))).asnumpy()).max() < 1e-4
    norm._kwargs["use_global_stats"] = True
    conv._kwargs["stride"] = (2, 2)
    assert net(nd.ones((1, 3, 5, 5))).shape == (1, 4, 2, 2)


@pytest.mark.parametrize("hybridize", [False, True])
def test_written_options(hybridize):
    drop, dense, leaky = nn.Dropout(0.0), nn.Dense(2, in_units=2), nn.LeakyReLU(0.1)
    for layer in (drop, dense, leaky):
        layer.initialize()
        if hybridize:
            layer.hybridize()
        layer(X)
    drop._rate = 1
    with mx.autograd.train_mode():
        assert (drop(X).asnumpy() == 0).all()
    leaky._alpha = 0.5
    assert leaky(-X).asnumpy().tolist() == [[-0.5, -1], [-1.5, 0]]
    dense._units, dense._in_units = 3, 2
    dense.weight._shape = (3, 2)
    dense.weight.shape, dense.bias._shape = (3, 2), (3,)
    dense.initialize(mx.init.One(), force_reinit=True)
    assert dense(X).shape == (2, 3) and repr(dense) == "Dense(2 -> 3, linear)"
    conv = nn.Conv2D(4, 3)
    conv._channels = 7
    assert conv._channels == 7 and conv._kwargs["num_filter"] == 4


def test_options_that_do_not_fit():
    drop, act, leaky = nn.Dropout(0.5), nn.Activation("relu"), nn.LeakyReLU(0.1)
    for layer, name, value in ((drop, "_rate", "anything"), (act, "_activation", 5), (act, "_act_type", 5)):
        with pytest.raises((TypeError, ValueError), match=type(layer).__name__):
            setattr(layer, name, value)
    assert drop._rate == 0.5 and act._act_type == "relu" and leaky(-X).asnumpy()[0, 0] == np.float32(-0.1)
    leaky._alpha = "0.5"
    assert leaky(-X).asnumpy()[0, 0] == -0.5
    act._act_type = "tanh"
    assert act(X).asnumpy().tolist() == nd.tanh(X).asnumpy().tolist()
    act._activation = nd.relu  # an object of another kind is the user's own attribute
    assert act._activation is nd.relu
    loss = gluon.loss.L1Loss(weight=2)
    loss._weight = None
    assert loss(nd.ones((1, 1)), nd.zeros((1, 1))).asscalar() == 1

    class Own(nn.Dropout):
        def hybrid_forward(self, F, x):
            return x + 1

    own = Own(0.5)
    own._rate = "anything"
    assert own._rate == "anything" and own(X).asnumpy()[0, 0] == X.asnumpy()[0, 0] + 1
    with pytest.raises(AttributeError):
        drop.rate  # options are attributes with an underscore only


@pytest.mark.parametrize("hybridize", [False, True])
def test_hooks_are_dictionaries(hybridize):
    net, seen = nn.HybridSequential(), []
    net.add(nn.Dense(2, in_units=2))
    net.initialize()
    if hybridize:
        net.hybridize()
    handle = net.register_forward_hook(lambda *unused: seen.append("after"))
    net.register_forward_pre_hook(lambda *unused: seen.append("before"))
    assert isinstance(net._forward_hooks, dict) and len(net._forward_hooks) == len(net._forward_pre_hooks) == 1
    net(X)
    assert seen == ["before", "after"]
    net._forward_hooks.clear()
    handle.detach()  # has gone already
    net(X)
    net._forward_pre_hooks.clear()
    net(X)
    assert seen == ["before", "after", "before"]
    net[0]._forward_hooks[5] = lambda *unused: seen.append("child")
    net(X)
    del net[0]._forward_hooks[5]
    net(X)
    net._forward_hooks = {1: lambda *unused: seen.append("assigned")}
    net(X)
    net._forward_hooks = {}
    net(X)
    assert seen == ["before", "after", "before", "child", "assigned"]
    with pytest.raises(RuntimeError, match="already has a hook"):
        handle.attach(net._forward_hooks, print)


def test_hooks_of_copies():
    layer = nn.Dense(2, in_units=2)
    layer.initialize()
    layer.register_forward_hook(_note_call)
    other = copy.deepcopy(layer)
    CALLS.clear()
    other(X)
    assert len(CALLS) == 1 and len(other._forward_hooks) == 1
    other._forward_hooks.clear()
    other(X)
    layer(X)
    assert len(CALLS) == 2


CALLS = []


def _note_call(*unused):
    CALLS.append(1)


FORMS = [("nn.Conv2DTranspose(3, 3, strides=2, output_padding=1).outpad", (1, 1)), ("nn.Conv1DTranspose(3, 3).outpad", (0,)),
         ("contrib.nn.PixelShuffle1D(2)._factor", 2), ("contrib.nn.PixelShuffle2D(2)._factors", (2, 2)),
         ("contrib.nn.PixelShuffle2D((2, 3))._factors", (2, 3)), ("contrib.nn.PixelShuffle3D(2)._factors", (2, 2, 2)),
         ("nn.ReflectionPad2D(2)._padding", (0, 0, 0, 0, 2, 2, 2, 2)),
         ("nn.ReflectionPad2D((0, 0, 0, 0, 1, 1, 2, 2))._padding", (0, 0, 0, 0, 1, 1, 2, 2)),
         ("gluon.rnn.LSTM(3)._lstm_state_clip_min", None), ("gluon.rnn.GRU(3)._lstm_state_clip_nan", False),
         ("gluon.rnn.LSTM(3, state_clip_min=-1, state_clip_max=1, state_clip_nan=True)._lstm_state_clip_max", 1),
         ("gluon.rnn.LSTM(3)._i2h_bias_initializer", "zeros"), ("gluon.loss.SDMLLoss(0.2).smoothing_parameter", 0.2),
         ("repr(gluon.loss.SDMLLoss().kl_loss)", "KLDivLoss(batch_axis=0, w=None)"), ("gluon.rnn.RNN(3).skip_states", None),
         ("contrib.cnn.DeformableConvolution(4, 3, num_deformable_group=2)._kwargs_offset['num_filter']", 36),
         ("contrib.cnn.ModulatedDeformableConvolution(4, 3, num_deformable_group=2)._kwargs_offset['num_filter']", 54),
         ("contrib.cnn.ModulatedDeformableConvolution(4, 3, num_deformable_group=2).offset_split_index", 36),
         ("contrib.cnn.DeformableConvolution(4)._kwargs_deformable_conv",
          {"kernel": (1, 1), "stride": (1, 1), "dilate": (1, 1), "pad": (0, 0), "num_filter": 4, "num_group": 1,
           "num_deformable_group": 1, "no_bias": False, "layout": "NCHW"}),
         ("contrib.rnn.Conv2DLSTMCell((1, 4, 4), 3, 3, 3)._state_shape", (3, 2, 2)),
         ("contrib.rnn.Conv2DLSTMCell((4, 5, 2), 3, 3, 3, i2h_pad=1, conv_layout='NHWC')._state_shape", (4, 5, 3)),
         ("contrib.rnn.Conv1DGRUCell((1, 4), 3, 3, 3)._h2h_pad", (1,)), ("nn.Lambda('relu')._func_impl(X).shape", (2, 2))]


@pytest.mark.parametrize("expression, wanted", FORMS, ids=[expression for expression, _ in FORMS])
def test_attributes_in_the_forms_that_libraries_read(expression, wanted):
    assert eval(expression, {"nn": nn, "gluon": gluon, "contrib": gluon.contrib, "X": X}) == wanted


def test_numbers_and_texts_as_they_were_given():
    assert repr(nn.Dropout(0)) == "Dropout(p = 0, axes=())" and repr(nn.Dropout(0.0)) == "Dropout(p = 0.0, axes=())"
    assert repr(nn.Dropout(rate=1)) == "Dropout(p = 1, axes=())" and nn.Dropout(0)._rate == 0
    assert repr(nn.LeakyReLU(1)) == "LeakyReLU(1)"
    assert repr(gluon.loss.SoftmaxCELoss(weight=1)) == "SoftmaxCrossEntropyLoss(batch_axis=0, w=1)"
    assert repr(gluon.loss.L1Loss(2.0)) == "L1Loss(batch_axis=0, w=2.0)"
    assert repr(gluon.loss.CTCLoss()) == "CTCLoss(batch_axis=0, w=None)"
    assert gluon.loss.CTCLoss(label_layout="TN")._batch_axis == 1


def test_other_attributes():
    assert nn.Conv2D(2, 3).act is None and repr(nn.Conv2D(2, 3, activation="relu").act) == "Activation(relu)"
    assert nn.Dense(2).act is None
    assert nn.Conv2D(2, 3)._op_name == "Convolution" and nn.Conv1DTranspose(2, 3)._op_name == "Deconvolution"
    assert nn.Activation("relu")._act_type == "relu"
    assert nn.BatchNormReLU().fuse_relu and not nn.BatchNorm().fuse_relu
