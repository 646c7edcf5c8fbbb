"""The fragments of the founding documents run unchanged.

The documents are next to the project (shared/seeds); if they are missing the tests are skipped, and test_gluon*.py
covers the same ground.  What a fragment leaves undefined (a data iterator, a number of outputs) is supplied by the test;
the documents' own typos are fixed in MENDED, and nowhere else.
"""
import os
import re

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

SEEDS = os.path.join(os.path.dirname(__file__), "..", "..", "..", "shared", "seeds")

# (document, text as it stands, text as it was meant)
MENDED = [
    ("000", "    …", "    return self.node(inputs, children_outputs)"),                 # an elided body
    ("002", "        with self.name_scope():\n    def", "        with self.name_scope():\n            pass\n    def"),
    ("002", "    def __init__(self, **kwargs):\n    def",                               # an empty body
     "    def __init__(self, **kwargs):\n        super(FancyMLP, self).__init__(**kwargs)\n    def"),
    ("002", "         x = F.slice(", "        x = F.slice("),                             # one space too many
    ("002", "return self.net(x))", "return self.net(x)"),                                # a stray parenthesis
    ("002", "plot_network(block(net_symbol))", "plot_network(net_symbol)"),              # a name that exists nowhere
    ("003", "        1 = loss(", "        l = loss("),                                   # a digit for a letter
    ("003", "    1.backward()", "    l.backward()"),
    ("003", "fix_gamma=Fal\n", "fix_gamma=False)\n"),                                    # lines cut off by a slide's edge
    ("003", "act_type='re\n", "act_type='relu')\n"),
    ("003", "num_filte\n", "num_filter=8, kernel=(3, 3))\n"),
]


def fragments(number):
    """Code blocks of a document, with typos fixed."""
    if not os.path.isdir(SEEDS):
        pytest.skip("the founding documents are not beside the project (shared/seeds)")
    name = next(f for f in sorted(os.listdir(SEEDS)) if f.startswith(number))
    with open(os.path.join(SEEDS, name), encoding="utf-8") as file:
        text = file.read()
    found = re.findall(r"^```[a-z]*\n(.*?)^```", text, re.S | re.M)
    for document, wrong, right in MENDED:
        if document == number:
            assert any(wrong in f for f in found), f"a mended slip is gone from the document: {wrong!r}"
            found = [f.replace(wrong, right) for f in found]
    return found


def with_text(found, *texts):
    """The fragments that contain all texts."""
    chosen = [f for f in found if all(t in f for t in texts)]
    assert chosen, f"no fragment contains {texts}"
    return chosen


def names(**more):
    return dict(mx=mx, nd=nd, gluon=gluon, nn=nn, autograd=autograd, np=np, __name__="seed", **more)


def batches(n=3, features=20, classes=10):
    """A data iterator: (data, label) pairs that can be learned."""
    rng = np.random.RandomState(0)
    x = rng.rand(n, 16, features).astype("float32")
    return [(nd.array(b), nd.array(b[:, :classes].argmax(axis=1))) for b in x]


def test_sequential_and_training_loop():
    found = fragments("000")
    space = names(num_outputs=10, train_data=batches(), softmax_cross_entropy=gluon.loss.SoftmaxCrossEntropyLoss())
    exec(with_text(found, "net = gluon.nn.Sequential()")[0], space)
    net = space["net"]
    net.initialize(mx.init.Xavier())
    space["trainer"] = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    x, label = space["train_data"][0]
    before = space["softmax_cross_entropy"](net(x), label).mean().asscalar()
    exec(with_text(found, "epochs = 10")[0], space)
    assert space["softmax_cross_entropy"](net(x), label).mean().asscalar() < before
    assert net[0].weight.name == "sequential0_dense0_weight" or net[0].weight.name.endswith("_dense0_weight")


def test_recursive_forward_over_a_tree():
    class Tree:
        def __init__(self, *children):
            self.children = children

    space = names()
    exec(with_text(fragments("000"), "def forward(self, F, inputs, tree)")[0], space)

    class Net(gluon.Block):
        def __init__(self):
            super().__init__()
            self.dense = nn.Dense(4, in_units=4)

        forward = space["forward"]

        def node(self, inputs, children):
            total = inputs
            for child in children:
                total = total + child
            return nd.tanh(self.dense(total))

    net = Net()
    net.initialize()
    tree = Tree(Tree(), Tree(Tree(), Tree()))
    with autograd.record():
        loss = net.forward(nd, nd.ones((1, 4)), tree).sum()
    loss.backward()
    assert float(net.dense.weight.grad().abs().sum().asscalar()) > 0


def test_hybrid_sequential():
    found = fragments("000")
    space = names()
    exec(with_text(found, "net = nn.HybridSequential()")[0], space)
    net, x = space["net"], nd.ones((3, 5))
    net.initialize()
    plain = net(x).asnumpy()
    exec(with_text(found, "net.hybridize()")[0], space)
    np.testing.assert_allclose(net(x).asnumpy(), plain, rtol=1e-6, atol=1e-7)


def test_building_blocks_document():
    """Document 001 from its first fragment to its last, as one program."""
    found = fragments("001")
    space = names()
    for code in found[:3]:
        exec(code, space)
    with pytest.raises(gluon.DeferredInitializationError):
        space["net"].fc1.weight.data()
    for code in found[3:5]:
        exec(code, space)
    net = space["net"]
    assert net.fc1.weight.shape == (120, 400)
    before = {name: p.data().asnumpy().copy() for name, p in net.collect_params().items()}
    grads = {name: p.grad().asnumpy().copy() for name, p in net.collect_params().items()}
    exec(found[5], space)
    for name, p in net.collect_params().items():
        np.testing.assert_allclose(p.data().asnumpy(), before[name] - 0.001 * grads[name], rtol=1e-5, atol=1e-7)
    exec(found[6], space)
    assert not np.array_equal(net.fc3.bias.data().asnumpy(), before[net.fc3.bias.name])


@pytest.mark.parametrize("which", range(2))
def test_slicing_hybrid_blocks(which):
    code = with_text(fragments("002"), "class HybridNet")[which]
    space = names()
    exec(code, space)
    x = nd.arange(2 * 3 * 4 * 4).reshape((2, 3, 4, 4))
    net = space["HybridNet"]()
    wanted = x.asnumpy()[:, :, 1:, 1:]
    np.testing.assert_array_equal(net(x).asnumpy(), wanted)
    net.hybridize()
    np.testing.assert_array_equal(net(x).asnumpy(), wanted)


def test_slicing_with_ndarray_logic():
    space = names()
    exec(with_text(fragments("002"), "class FancyMLP")[0], space)
    x = nd.arange(2 * 3 * 4 * 4).reshape((2, 3, 4, 4))
    np.testing.assert_array_equal(space["FancyMLP"]()(x).asnumpy(), x.asnumpy()[:, :, 1:, 1:])


def test_stacked_blocks():
    code = with_text(fragments("002"), "y = net(data)", "net = RecMLP()")[0]
    head, tail = code.split("net = RecMLP()")
    space = names(data=nd.ones((2, 7)))
    exec(head, space)
    exec("net = RecMLP()", space)
    space["net"].initialize()
    exec(tail, space)
    assert space["y"].shape == (2, 64)


def test_layer_with_an_initializer_of_its_own():
    code = re.search(r"```(gluon\.nn\.Dense\(weight_initializer.*?)```", _text("002")).group(1)
    layer = eval(code.replace("Dense(", "Dense(4, "), names())
    layer.initialize(mx.init.Zero())
    layer(nd.ones((2, 3)))
    assert float(layer.weight.data().abs().sum().asscalar()) > 0


def _text(number):
    fragments(number)
    name = next(f for f in sorted(os.listdir(SEEDS)) if f.startswith(number))
    with open(os.path.join(SEEDS, name), encoding="utf-8") as file:
        return file.read()


def test_gluon_at_a_glance():
    code = with_text(fragments("003"), "for data, label in get_batch()")[0]
    space = names(get_batch=lambda: batches())
    head, tail = code.split("loss = gluon")
    exec(head, space)
    space["net"].initialize()
    space["trainer"] = gluon.Trainer(space["net"].collect_params(), "sgd", {"learning_rate": 0.1})
    exec("loss = gluon" + tail, space)
    space["net"].hybridize()
    assert space["net"](batches()[0][0]).shape == (16, 10)


def test_symbols_go_through_networks():
    """Document 002, number 5: what is passed in is what comes out, and the graph can be drawn."""
    code = with_text(fragments("002"), 'net(mx.sym.var("x"))', "plot_network")[0]
    space = names()
    drawn = []
    plot = mx.viz.plot_network
    try:
        mx.viz.plot_network = lambda *args, **kwargs: drawn.append(plot(*args, **kwargs)) or drawn[-1]
        exec(code, space)
    finally:
        mx.viz.plot_network = plot
    symbol, net = space["net_symbol"], space["net"]
    assert isinstance(symbol, mx.sym.Symbol)
    weights = [name for name in symbol.list_arguments() if name != "x"]
    assert weights == list(net.collect_params().keys()) and len(weights) == 6
    assert symbol.infer_shape(x=(2, 7))[1] == [(2, 64)]
    assert drawn[0].source.count("FullyConnected") == 3
    net.initialize()
    x = nd.random.uniform(shape=(2, 7))
    wanted = net(x).asnumpy()
    values = {name: p.data() for name, p in net.collect_params().items()}
    np.testing.assert_allclose(symbol.eval(x=x, **values)[0].asnumpy(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("which", range(2))
def test_slicing_symbols(which):
    """Document 002, numbers 1 and 3, on symbols: x[:, :, 1:, 1:] and F.slice make the same node."""
    space = names()
    exec(with_text(fragments("002"), "class HybridNet")[which], space)
    symbol = space["HybridNet"]()(mx.sym.var("x"))
    x = nd.arange(2 * 3 * 4 * 4).reshape((2, 3, 4, 4))
    np.testing.assert_array_equal(symbol.eval(x=x)[0].asnumpy(), x.asnumpy()[:, :, 1:, 1:])


def test_residual_unit_written_with_symbols():
    """Document 003: the layers of a residual network as the symbol interface spells them."""
    code = with_text(fragments("003"), "sym.BatchNorm(data=data")[0]
    space = names(sym=mx.sym, data=mx.sym.Variable("data"))
    exec(code, space)
    conv = space["conv1"]
    assert conv.list_arguments()[:3] == ["data", space["bn1"].name + "_gamma", space["bn1"].name + "_beta"]
    assert conv.list_auxiliary_states() == [space["bn1"].name + "_moving_mean", space["bn1"].name + "_moving_var"]
    assert conv.infer_shape(data=(2, 4, 6, 6))[1] == [(2, 8, 4, 4)]
    executor = conv.simple_bind(mx.current_context(), data=(2, 4, 6, 6))
    assert executor.forward(is_train=True)[0].shape == (2, 8, 4, 4)
    executor.backward()
