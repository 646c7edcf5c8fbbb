"""Blocks: structure, names, parameters, files, hooks; lifetimes."""
import gc
import weakref

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn


class Net(gluon.Block):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.hidden = nn.Dense(4, activation="relu")
            self.output = nn.Dense(2)

    def forward(self, x):
        return self.output(self.hidden(x))


# ---- structure -----------------------------------------------------------------------------------------------------

def test_names_and_children():
    net = Net(prefix="net_")
    assert net.name == "net" and net.prefix == "net_"
    assert list(net._children) == ["hidden", "output"]
    assert list(net.collect_params().keys()) == ["net_dense0_weight", "net_dense0_bias", "net_dense1_weight",
                                                 "net_dense1_bias"]
    assert list(net.collect_params(".*weight").keys()) == ["net_dense0_weight", "net_dense1_weight"]
    assert list(net.params.keys()) == []
    outer = nn.Sequential(prefix="outer_")
    with outer.name_scope():
        outer.add(nn.Dense(1), nn.Dense(1), Net())
    assert [child.name for child in outer] == ["outer_dense0", "outer_dense1", "outer_net0"]
    assert len(outer) == 3 and outer[2].hidden.weight.name == "outer_net0_dense0_weight"
    assert len(outer[0:2]) == 2 and outer[0:2][1] is outer[1]


def test_repr():
    assert repr(Net()) == ("Net(\n  (hidden): Dense(None -> 4, Activation(relu))\n"
                           "  (output): Dense(None -> 2, linear)\n)")
    net = nn.HybridSequential()
    net.add(nn.Dense(2, in_units=3))
    assert repr(net) == "HybridSequential(\n  (0): Dense(3 -> 2, linear)\n)"


def test_attributes_keep_their_kind():
    net = Net()
    with pytest.raises(TypeError):
        net.hidden = 3
    net.hidden = nn.Dense(7)
    assert net.hidden._units == 7
    net.number = 5
    assert net.number == 5
    with pytest.raises(ValueError):
        nn.HybridSequential().add(Net())
    with pytest.raises(TypeError):
        net.register_child(3)
    with pytest.raises(AttributeError):
        net.nothing
    with pytest.raises(AttributeError, match="super"):
        class Bad(gluon.Block):
            def __init__(self):
                self.child = nn.Dense(2)
        Bad()


def test_lists_of_blocks_are_warned_about():
    net = Net()
    net.layers = [nn.Dense(1)]
    with pytest.warns(UserWarning, match="layers"):
        net.collect_params()


def test_apply_and_cast():
    net = Net()
    seen = []
    assert net.apply(lambda block: seen.append(type(block).__name__)) is net
    assert seen[-1] == "Net" and seen.count("Dense") == 2
    net.initialize()
    net(nd.ones((1, 3)))
    net.cast("float64")
    assert net.hidden.weight.data().dtype == np.float64
    assert net(nd.ones((1, 3), dtype="float64")).dtype == np.float64


def test_shared_parameters():
    first = nn.Dense(3, in_units=3, prefix="a_")
    second = nn.Dense(3, in_units=3, prefix="b_", params=first.params)
    first.initialize()
    assert second.weight is first.weight
    net = nn.HybridSequential()
    net.add(first, second)
    x = nd.random.uniform(shape=(2, 3))
    with autograd.record():
        loss = net(x).sum()
    loss.backward()
    wanted = first.weight.grad().copy()
    net.hybridize()
    with autograd.record():
        loss = net(x).sum()
    loss.backward()
    np.testing.assert_allclose(first.weight.grad().asnumpy(), wanted.asnumpy(), rtol=1e-5)


# ---- running -------------------------------------------------------------------------------------------------------

def test_forward_is_wanted():
    class Empty(gluon.Block):
        pass

    class EmptyHybrid(gluon.HybridBlock):
        pass

    with pytest.raises(NotImplementedError):
        Empty()(nd.ones((1,)))
    with pytest.raises(NotImplementedError):
        EmptyHybrid()(nd.ones((1,)))


def test_deferred_parameters():
    net = Net()
    net.initialize()
    with pytest.raises(gluon.DeferredInitializationError):
        net.hidden.weight.data()
    net(nd.ones((2, 5)))
    assert net.hidden.weight.shape == (4, 5)
    fresh = Net()
    with pytest.raises(RuntimeError):
        fresh(nd.ones((2, 5)))
    with pytest.raises(mx.MXNetError):
        net(nd.ones((2, 6)))


def test_hooks():
    net = Net()
    net.initialize()
    calls = []
    before = net.register_forward_pre_hook(lambda block, inputs: calls.append(("before", block, len(inputs))))
    after = net.hidden.register_forward_hook(lambda block, inputs, out: calls.append(("after", block, out.shape)))
    net(nd.ones((1, 3)))
    assert calls == [("before", net, 1), ("after", net.hidden, (1, 4))]
    before.detach()
    with after:
        pass
    calls.clear()
    net(nd.ones((1, 3)))
    assert not calls

    def fails(block, inputs):
        raise KeyError("hook")
    net.register_forward_pre_hook(fails)
    with pytest.raises(KeyError):
        net(nd.ones((1, 3)))


def test_symbols_through_plain_blocks():
    net = Net(prefix="n_")
    out = net(mx.sym.var("x"))
    assert out.list_arguments() == ["x", "n_dense0_weight", "n_dense0_bias", "n_dense1_weight", "n_dense1_bias"]


def test_containers_of_functions():
    x = nd.array([[-1, 2]])
    assert nn.Lambda("relu")(x).asnumpy().tolist() == [[0, 2]]
    assert nn.Lambda(lambda a: a * 2)(x).asnumpy().tolist() == [[-2, 4]]
    assert nn.HybridLambda(lambda F, a: F.relu(a))(x).asnumpy().tolist() == [[0, 2]]
    with pytest.raises(AssertionError):
        nn.Lambda("no_such_operator")
    joined = nn.Concatenate(axis=1)
    joined.add(nn.Identity(), nn.Lambda("relu"))
    assert joined(x).asnumpy().tolist() == [[-1, 2, 0, 2]]


def test_summary_of_branches(capsys):
    class Branches(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.a = nn.Dense(3)
                self.norm = nn.BatchNorm()
                self.again = nn.Dense(3, params=self.a.params)

        def hybrid_forward(self, F, x, y):
            return self.norm(self.a(x)), self.again(y)
    net = Branches()
    net.initialize()
    net.summary(nd.ones((2, 5)), nd.ones((4, 5)))
    text = capsys.readouterr().out
    for line in ("Input", "(2, 5), (4, 5)", "Dense-1", "(2, 3)", "BatchNorm-2", "Dense-3", "(4, 3)", "Total params: 48",
                 "Trainable params: 42", "Non-trainable params: 6", "graph: 18", "in model: 30"):
        assert line in text


def test_summary(capsys):
    net = Net()
    net.initialize()
    net.summary(nd.ones((2, 3)))
    assert "Dense" in capsys.readouterr().out


# ---- files ---------------------------------------------------------------------------------------------------------

def test_save_and_load(tmp_path):
    path = str(tmp_path / "net.params")
    net = Net()
    net.initialize()
    x = nd.random.uniform(shape=(2, 3))
    wanted = net(x)
    net.save_parameters(path)
    assert sorted(nd.load(path)) == ["hidden.bias", "hidden.weight", "output.bias", "output.weight"]
    other = Net()
    other.load_parameters(path)
    np.testing.assert_array_equal(other(x).asnumpy(), wanted.asnumpy())
    larger = nn.Sequential()
    larger.add(nn.Dense(2))
    with pytest.raises(AssertionError):
        larger.load_parameters(path)
    with pytest.raises(OSError):
        net.load_parameters(str(tmp_path / "absent"))


# ---- lifetimes -----------------------------------------------------------------------------------------------------

def test_blocks_die():
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=2), nn.HybridLambda(lambda F, x: F.relu(x)))
    net.initialize()
    net.hybridize()
    net.register_forward_hook(lambda *args: None)
    with autograd.record():
        out = net(nd.ones((1, 2)))
    out.backward()
    watched = weakref.ref(net)
    del net, out
    gc.collect()
    assert watched() is None


def test_memory_is_stable(resident):
    x, label = nd.ones((4, 6)), nd.ones((4,))
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()

    def round_trip():
        net = nn.HybridSequential()
        net.add(nn.Dense(5, in_units=6), nn.HybridLambda(lambda F, a: F.tanh(a) * 2), nn.Dense(2, in_units=5))
        net.initialize()
        net.hybridize()
        trainer = gluon.Trainer(net.collect_params(), "sgd")
        step = gluon.TrainStep(net, criterion, trainer)
        for _ in range(2):
            with autograd.record():
                loss = criterion(net(x), label)
            loss.backward()
            step(x, label)
        net(mx.sym.var("x")).tojson()

        class Fails(gluon.HybridBlock):
            def hybrid_forward(self, F, a):
                return a if a.sum() > 0 else -a
        bad = Fails()
        bad.hybridize()
        with pytest.raises(mx.MXNetError):
            bad(x)

    for _ in range(30):
        round_trip()
    gc.collect()
    before = resident()
    for _ in range(150):
        round_trip()
    gc.collect()
    assert resident() - before < 3 << 20


def test_subclass_of_a_layer_prints_under_its_own_name():
    class MyDense(nn.Dense):
        pass

    class Norm(nn.LayerNorm):
        pass

    class Flat(nn.Flatten):
        pass

    assert repr(MyDense(3, in_units=2)) == "MyDense(2 -> 3, linear)"
    assert repr(Norm()).startswith("Norm(eps=")
    assert repr(Flat()) == "Flat"


@pytest.mark.parametrize("hybridize", [False, True])
def test_layer_without_bias_takes_bias_none(hybridize):
    """A subclass hands bias=None on, as the layer's own hybrid_forward(F, x, weight, bias=None) would get it."""
    class Halved(nn.Conv2D):
        def hybrid_forward(self, F, x, weight, bias=None):
            return super().hybrid_forward(F, x, weight=weight * 0.5, bias=bias)

    plain, halved = nn.Conv2D(2, 3, use_bias=False), Halved(2, 3, use_bias=False)
    for net in (plain, halved):
        net.initialize(mx.init.One())
    if hybridize:
        halved.hybridize()
    x = nd.ones((1, 1, 4, 4))
    assert (halved(x) * 2 == plain(x)).asnumpy().all()
    with pytest.raises(TypeError, match="bias"):
        plain.hybrid_forward(nd, x, weight=plain.weight.data(), bias=nd.ones((2,)))
