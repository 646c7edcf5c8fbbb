"""Inputs by keyword: in calls of blocks and in hybrid_forward of layers and losses, also through super()."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import gluon, nd
from mxnet.gluon import nn, rnn
from mxnet.gluon import loss as losses

pytestmark = pytest.mark.usefixtures("on_host")  # rules of blocks, the same on every device

X, Y = nd.array([[1, 2], [3, 0]]), nd.array([[0.5, 1], [1, 0]])
LOSSES = {
    "L2Loss": ("pred", "label"), "L1Loss": ("pred", "label"), "HuberLoss": ("pred", "label"),
    "HingeLoss": ("pred", "label"), "SquaredHingeLoss": ("pred", "label"), "LogisticLoss": ("pred", "label"),
    "PoissonNLLLoss": ("pred", "target"), "KLDivLoss": ("pred", "label"), "SDMLLoss": ("x1", "x2"),
    "SigmoidBinaryCrossEntropyLoss": ("pred", "label"), "TripletLoss": ("pred", "positive", "negative"),
    "CosineEmbeddingLoss": ("input1", "input2", "label"),
}


def same(a, b):
    np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-6)


@pytest.mark.parametrize("name", list(LOSSES))
def test_losses(name):
    base = getattr(losses, name)

    class Derived(base):
        def hybrid_forward(self, F, **kwargs):
            return super().hybrid_forward(F, **kwargs)

        def forward(self, *args):
            return self.hybrid_forward(mx.nd, **dict(zip(LOSSES[name], args)))

    loss, arrays = base(), [X, Y, nd.array([1, -1])][:len(LOSSES[name])]
    if name == "TripletLoss":
        arrays[2] = Y + 1
    wanted = loss(*arrays)
    words = dict(zip(LOSSES[name], arrays))
    same(loss.hybrid_forward(mx.nd, **words), wanted)
    same(loss.hybrid_forward(mx.nd, arrays[0], **dict(list(words.items())[1:])), wanted)
    same(loss(**words), wanted)
    same(Derived()(*arrays), wanted)
    loss.hybridize()
    same(loss(**dict(reversed(words.items()))), wanted)
    with pytest.raises(TypeError, match="unexpected keyword 'nonsense'"):
        loss.hybrid_forward(mx.nd, *arrays, nonsense=X)
    with pytest.raises(TypeError, match="two values"):
        loss(*arrays, **{LOSSES[name][0]: X})
    with pytest.raises(ValueError, match="missing|at least"):
        loss(**{LOSSES[name][1]: X})
    with pytest.raises(ValueError, match="0 inputs"):
        loss.hybrid_forward(mx.nd)


def test_softmax_and_ctc():
    loss, label = losses.SoftmaxCELoss(), nd.array([0, 1])
    weight = nd.array([[2], [3]])
    same(loss(pred=X, label=label, sample_weight=weight), loss(X, label, weight))
    same(loss(X, sample_weight=weight, label=label), loss(X, label, weight))
    bce = losses.SigmoidBCELoss()
    same(bce(X, Y, pos_weight=nd.array([[2, 1]])), bce(X, Y, None, nd.array([[2, 1]])))
    ctc = losses.CTCLoss()
    pred, label = nd.random.uniform(shape=(2, 5, 4)), nd.array([[1, 2], [0, -1]])
    lengths = nd.array([4, 5])
    same(ctc(pred, label, pred_lengths=lengths), ctc(pred, label, lengths))
    same(ctc.hybrid_forward(mx.nd, pred=pred, label=label, label_lengths=nd.array([2, 1])),
         ctc(pred, label, None, nd.array([2, 1])))


@pytest.mark.parametrize("make, name", [
    (lambda: nn.Dense(3, activation="relu"), "x"), (lambda: nn.Embedding(5, 2), "x"), (lambda: nn.BatchNorm(), "x"),
    (lambda: nn.LayerNorm(), "data"), (lambda: nn.InstanceNorm(), "x"), (lambda: nn.PReLU(), "x"),
    (lambda: nn.Activation("relu"), "x"), (lambda: nn.Dropout(0.5), "x"), (lambda: nn.Flatten(), "x")])
def test_layers(make, name):
    net = make()
    net.initialize()
    wanted = net(X)
    same(net(**{name: X}), wanted)
    own = {key: p.data() for key, p in net._reg_params.items()}
    same(net.hybrid_forward(mx.nd, **{name: X}, **own), wanted)
    same(net.hybrid_forward(mx.nd, X, *own.values()), wanted)
    with pytest.raises(TypeError, match="unexpected keyword"):
        net(nonsense=X)


class Net(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.w = self.params.get("w", shape=(2, 2), init="ones")

    def hybrid_forward(self, F, x, mask=None, other=None, w=None):
        y = F.dot(x, w)
        y = y if mask is None else y * mask
        return y if other is None else y + other


def test_blocks_of_users():
    net = Net()
    net.initialize()
    outer = nn.Sequential()
    outer.add(net)
    for _ in range(3):
        for words, args in (({"x": X}, (X,)), ({"x": X, "other": Y}, (X, None, Y)),
                            ({"other": Y, "mask": X, "x": X}, (X, X, Y))):
            same(net(**words), net(*args))
            net.hybridize(net._active)  # for inputs of another pattern
        same(outer(x=X), net(X))
        net.hybridize()
    assert net(x=mx.sym.var("data"), other=mx.sym.var("b")).list_arguments() == ["data", net.w.name, "b"]
    with pytest.raises(TypeError, match="'x' is missing"):
        net(mask=X)
    with pytest.raises(TypeError, match="unexpected keyword 'w'; its inputs are: x mask other"):
        net(X, w=X)


def test_forward_takes_keywords_as_they_are():
    class Plain(gluon.Block):
        def forward(self, x, *, scale=1, text="", **rest):
            return x * scale + len(text) + len(rest)

    class Hybrid(gluon.HybridBlock):
        def forward(self, x, scale=1, text=""):
            return super().forward(x) * scale + len(text)

        def hybrid_forward(self, F, x):
            return x + 1

    same(Plain()(X, scale=2, text="ab", more=1), X * 2 + 3)
    net = Hybrid()
    for _ in range(2):
        same(net(X, text="abc", scale=3), (X + 1) * 3 + 3)
        net.hybridize()


def test_cells_and_layers_of_cells():
    cell = rnn.LSTMCell(3, input_size=2)
    cell.initialize()
    states = cell.begin_state(2)
    same(cell(inputs=X, states=states)[0], cell(X, states)[0])
    same(cell(X, states=states)[0], cell(X, states)[0])

    class Own(rnn.HybridRecurrentCell):
        def state_info(self, batch_size=0):
            return [{"shape": (batch_size, 2), "__layout__": "NC"}]

        def _alias(self):
            return "own"

        def hybrid_forward(self, F, inputs, states):
            return inputs + states[0], [inputs]

    own = Own()
    for _ in range(2):
        same(own(states=[Y], inputs=X)[0], X + Y)
        own.hybridize()
    layer = rnn.GRU(3, input_size=2)
    layer.initialize()
    x = nd.ones((4, 2, 2))
    same(layer(inputs=x, states=layer.begin_state(2))[0], layer(x))
