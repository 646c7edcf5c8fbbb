"""Whatever a subclass overrides runs: imperatively, hybridized, inside other blocks, with super()."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn, rnn
from mxnet.gluon.contrib.nn import Concurrent, HybridConcurrent

pytestmark = pytest.mark.usefixtures("on_host")  # rules of blocks, the same on every device


def doubled(base):
    """A subclass of a hybrid class whose hybrid_forward doubles the inherited result."""
    class Doubled(base):
        def hybrid_forward(self, F, *args, **kwargs):
            return super().hybrid_forward(F, *args, **kwargs) * 2
    return Doubled


def around(base):
    """A subclass whose forward doubles the inherited result and counts its calls."""
    class Around(base):
        calls = 0

        def forward(self, *args):
            self.calls += 1
            return super().forward(*args) * 2
    return Around


def called(base):
    class Called(base):
        def __call__(self, *args):
            return super().__call__(*args) * 2
    return Called


def fill(net, *children):
    net.add(*children)
    return net


CASES = {
    "HybridSequential": (nn.HybridSequential, lambda c: fill(c(), nn.Dense(3, in_units=2), nn.Dense(2, in_units=3))),
    "HybridConcurrent": (HybridConcurrent, lambda c: fill(c(axis=1), nn.Dense(1, in_units=2), nn.Dense(2, in_units=2))),
    "HybridConcatenate": (nn.HybridConcatenate, lambda c: fill(c(axis=1), nn.Dense(1, in_units=2))),
    "Dense": (nn.Dense, lambda c: c(3)),
    "Dense relu": (nn.Dense, lambda c: c(3, activation="relu", in_units=2)),
    "BatchNorm": (nn.BatchNorm, lambda c: c()),
    "LayerNorm": (nn.LayerNorm, lambda c: c()),
    "Embedding": (nn.Embedding, lambda c: c(5, 3)),
    "PReLU": (nn.PReLU, lambda c: c()),
    "Activation": (nn.Activation, lambda c: c("tanh")),
    "Flatten": (nn.Flatten, lambda c: c()),
    "Identity": (nn.Identity, lambda c: c()),
    "HybridLambda": (nn.HybridLambda, lambda c: c("relu")),
}
PLAIN = {
    "Sequential": (nn.Sequential, lambda c: fill(c(), nn.Dense(3, in_units=2))),
    "Concurrent": (Concurrent, lambda c: fill(c(axis=1), nn.Dense(3, in_units=2), nn.Dense(1, in_units=2))),
    "Lambda": (nn.Lambda, lambda c: c(lambda x: x + 1)),
}
X = nd.array([[1, 2], [3, 0]])


def results(net, wrap=None, hybrid=True):
    """Results in all ways of running it; [0] is the imperative one."""
    net.initialize(mx.init.One())
    outer = net
    if wrap:
        outer = wrap()
        outer.add(net)
    found = [outer(X)]
    if hybrid:
        for flags in ({}, {"static_alloc": True, "static_shape": True}):
            outer.hybridize(**flags)
            found += [outer(X), outer(X)]
        with autograd.record(train_mode=False):
            found.append(outer(X))
    return [f.asnumpy() for f in found]


@pytest.mark.parametrize("wrap", [None, nn.Sequential, nn.HybridSequential])
@pytest.mark.parametrize("override", [doubled, around, called])
@pytest.mark.parametrize("name", list(CASES))
def test_hybrid_overrides(name, override, wrap):
    base, make = CASES[name]
    wanted = results(make(base), wrap)[0] * 2
    for got in results(make(override(base)), wrap):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.parametrize("wrap", [None, nn.Sequential])
@pytest.mark.parametrize("override", [around, called])
@pytest.mark.parametrize("name", list(PLAIN))
def test_plain_overrides(name, override, wrap):
    base, make = PLAIN[name]
    wanted = results(make(base), wrap, hybrid=False)[0] * 2
    for got in results(make(override(base)), wrap, hybrid=False):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_override_without_super():
    class Backwards(nn.HybridSequential):
        def hybrid_forward(self, F, x):
            for child in reversed(self._children.values()):
                x = child(x)
            return x

    net = Backwards()
    net.add(nn.HybridLambda(lambda F, x: x + 1), nn.HybridLambda(lambda F, x: x * 3))
    outer = nn.HybridSequential()
    outer.add(net, nn.Flatten())
    for _ in range(2):
        assert net(X).asnumpy().tolist() == outer(X).asnumpy().tolist() == (X * 3 + 1).asnumpy().tolist()
        outer.hybridize()


class Preparing(gluon.HybridBlock):
    """forward takes what a plan cannot."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(2)
        self.seen = []
        self.traced = 0

    def forward(self, x, how=None, options=None):
        self.seen.append(how)
        scale = (options or {}).get("scale", 1)
        if x.sum().asscalar() > 100:
            return x * 0
        y = super().forward(x * scale, x * 0 if how is None else x)
        return y if how != "dict" else {"y": y, "n": 3}

    def hybrid_forward(self, F, x, more):
        self.traced += F is mx.sym
        return self.fc(x) + more


def test_forward_runs_at_every_call_and_only_super_is_compiled():
    net = Preparing()
    net.initialize(mx.init.One())
    wanted = [net(X), net(X, "more"), net(X, "dict", {"scale": 2})["y"], net(X * 100)]
    net.hybridize()
    for _ in range(3):
        got = [net(X), net(X, "more"), net(X, "dict", {"scale": 2})["y"], net(X * 100)]
        for a, b in zip(got, wanted):
            np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-6)
    assert len(net.seen) == 16
    assert 1 <= net.traced <= 2  # for the plan, and perhaps before to infer shapes
    assert net(X, "dict")["n"] == 3


def test_export_of_a_block_with_its_own_forward(tmp_path):
    net = Preparing()
    net.initialize()
    net.hybridize()
    wanted = net(X, None, {"scale": 2})
    net.export(str(tmp_path / "net"))
    back = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data0", "data1"],
                                     str(tmp_path / "net-0000.params"))
    np.testing.assert_allclose(back(X * 2, X * 0).asnumpy(), wanted.asnumpy(), rtol=1e-6)


def test_forward_alone_runs_in_python():
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.fc = nn.Dense(2)

        def forward(self, x):
            return self.fc(x) if x[0, 0].asscalar() > 0 else x

    net = Net()
    net.initialize(mx.init.One())
    net.hybridize()
    for _ in range(3):
        assert net(X).asnumpy().tolist() == [[3, 3], [3, 3]]
        assert net(-X).asnumpy().tolist() == (-X).asnumpy().tolist()
    with autograd.record():
        loss = net(X).sum()
    loss.backward()
    assert net.fc.weight.grad().asnumpy().tolist() == [[4, 2], [4, 2]]


def test_methods_of_one_object():
    net = nn.HybridSequential()
    net.add(nn.Dense(2, in_units=2), nn.Dense(2, in_units=2))
    net.initialize(mx.init.One())
    net.hybridize()
    before = net(X).asnumpy()
    first = net[0]
    first.forward = lambda x: nn.Dense.forward(first, x) * 2
    np.testing.assert_allclose(net(X).asnumpy(), before * 2)
    del first.forward
    np.testing.assert_allclose(net(X).asnumpy(), before)
    net[1].hybrid_forward = lambda F, x, **kwargs: x
    np.testing.assert_allclose(net(X).asnumpy(), before / 2)


def test_cells():
    class Counting(rnn.LSTMCell):
        calls = 0

        def forward(self, inputs, states):
            self.calls += 1
            output, states = super().forward(inputs, states)
            return output * 2, states

    class Scaled(rnn.GRUCell):
        def hybrid_forward(self, F, inputs, states, **parameters):
            output, states = super().hybrid_forward(F, inputs, states, **parameters)
            return output * 2, states

    for base, cls in ((rnn.LSTMCell, Counting), (rnn.GRUCell, Scaled)):
        plain, cell = base(3, input_size=2), cls(3, input_size=2)
        plain.initialize(mx.init.One())
        cell.initialize(mx.init.One())
        wanted = plain(X, plain.begin_state(2))
        for _ in range(2):
            got = cell(X, cell.begin_state(2))
            np.testing.assert_allclose(got[0].asnumpy(), wanted[0].asnumpy() * 2, rtol=1e-6)
            np.testing.assert_allclose(got[1][0].asnumpy(), wanted[1][0].asnumpy(), rtol=1e-6)
            cell.hybridize()
        steps, _ = cell.unroll(3, nd.ones((2, 3, 2)), merge_outputs=True)
        wanted, _ = plain.unroll(3, nd.ones((2, 3, 2)), merge_outputs=True)
        np.testing.assert_allclose(steps.asnumpy(), wanted.asnumpy() * 2, rtol=1e-6)


@pytest.mark.parametrize("hybridize", [False, True])
def test_losses(hybridize):
    class Smooth(gluon.loss.SoftmaxCrossEntropyLoss):
        def hybrid_forward(self, F, pred, label, sample_weight=None):
            return super().hybrid_forward(F, pred, label, sample_weight) + 1

    class Forward(gluon.loss.L2Loss):
        def forward(self, pred, label):
            return super().forward(pred, label) + 1

    pred, label = nd.array([[1, 2], [3, 0]]), nd.array([0, 1])
    for cls, base in ((Smooth, gluon.loss.SoftmaxCrossEntropyLoss), (Forward, gluon.loss.L2Loss)):
        loss = cls()
        y = label if cls is Smooth else pred + 1
        if hybridize:
            loss.hybridize()
        np.testing.assert_allclose(loss(pred, y).asnumpy(), base()(pred, y).asnumpy() + 1, rtol=1e-6)


def test_training_step_and_hooks_see_overrides():
    net = around(nn.HybridSequential)()
    net.add(nn.Dense(2, in_units=2))
    net.initialize()
    seen = []
    net.register_forward_hook(lambda block, inputs, outputs: seen.append(outputs.asnumpy()))
    outer = nn.HybridSequential()
    outer.add(net)
    outer.hybridize()
    got = outer(X)
    np.testing.assert_array_equal(seen[-1], got.asnumpy())
    trainer = gluon.Trainer(outer.collect_params(), "sgd", {"learning_rate": 0.1})
    step = gluon.TrainStep(outer, gluon.loss.L2Loss(), trainer)
    wanted = gluon.loss.L2Loss()(outer(X), X).asnumpy()
    np.testing.assert_allclose(step(X, X).asnumpy(), wanted, rtol=1e-6)


def test_own_collect_params_of_children():
    class Frozen(nn.HybridSequential):
        def collect_params(self, select=None):
            return gluon.ParameterDict(self.prefix)

    net = nn.HybridSequential()
    frozen = Frozen()
    frozen.add(nn.Dense(2, in_units=2))
    net.add(frozen, nn.Dense(2, in_units=2))
    assert len(net.collect_params()) == 2
    assert len(net.collect_params(".*weight")) == 1


class Divided(nn.HybridBlock):
    """A layer that says itself which shape its parameter has."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.asked = 0
        with self.name_scope():
            self.scale = self.params.get("scale", shape=(0,), init="ones", allow_deferred_init=True)

    def infer_shape(self, x, *args):
        self.asked += 1
        self.scale.shape = (x.shape[1],)

    def hybrid_forward(self, F, x, scale):
        return F.broadcast_div(x, scale)


@pytest.mark.parametrize("hybridized", [False, True])
def test_infer_shape(hybridized):
    layer = Divided()
    layer.initialize()
    if hybridized:
        layer.hybridize()
    for _ in range(2):
        assert layer(mx.nd.ones((2, 5))).asnumpy().tolist() == [[1] * 5] * 2
    assert layer.asked == 1 and layer.scale.shape == (5,)
