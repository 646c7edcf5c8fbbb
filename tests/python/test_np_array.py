"""mx.np.ndarray: indexing, printing, exchange, classes of results; the switch; gluon with arrays of mx.np."""
import pickle
import threading

import numpy as onp
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd, np, npx
from mxnet.gluon import nn


@pytest.fixture
def switched():
    npx.set_np()
    yield
    npx.reset_np()


# ---- the array -------------------------------------------------------------------------------------------------------------

KEYS = [0, -1, (1, 2), slice(None), (slice(None), 1), (Ellipsis, 0), None, (slice(1), None, 2), [0, 1, 0], ([0, 1], [2, 0]),
        (slice(None), [0, 2]), onp.array([[0, 1], [1, 0]]), (onp.array([True, False]),), [True, False], (slice(None), [True, False, True]),
        onp.array([[True, False, True], [False, False, True]]), onp.zeros((2, 3), bool), slice(None, None, -1), (0, slice(0, 0)),
        (onp.array([True, True]), 1), ()]


@pytest.mark.parametrize("number", range(len(KEYS)))
def test_indexing(number):
    key, a = KEYS[number], onp.arange(6, dtype="float32").reshape(2, 3)
    x = np.array(a)

    def ours(part):
        return np.array(part, dtype=part.dtype) if isinstance(part, onp.ndarray) else part
    mine = tuple(ours(part) for part in key) if isinstance(key, tuple) else ours(key)
    for form in (key, mine):
        assert x[form].shape == a[key].shape and type(x[form]) is np.ndarray
        assert onp.array_equal(x[form].asnumpy(), a[key]), form
        y, b = x.copy(), a.copy()
        y[form], b[key] = 7, 7
        assert onp.array_equal(y.asnumpy(), b)
        value = onp.asarray(onp.random.uniform(size=a[key].shape), "float32")
        y[form], b[key] = np.array(value), value
        assert onp.array_equal(y.asnumpy(), b)


def test_indexing_errors():
    x = np.ones((2, 3))
    for key in (2, (0, 0, 0), onp.array([True, False, True]), (slice(None), np.array([True, False])), np.ones((3, 3), dtype="bool")):
        with pytest.raises(IndexError):
            x[key]
    with pytest.raises(TypeError):
        iter(np.array(1.0))
    with pytest.raises(TypeError):
        len(np.array(1.0))
    assert [float(row) for row in np.arange(3)] == [0, 1, 2] and [row.shape for row in np.ones((2, 3))] == [(3,), (3,)]


def test_printing_of_truth_values(on_host):
    for values in ([True, False], [[True, True], [False, True]], [True], [[False]], [], [True, False] * 30, [[True] * 40]):
        wanted = onp.array(values, dtype=bool)
        assert str(np.array(values, dtype=bool)) == str(wanted)
        if wanted.size:
            assert str(nd.array(values, dtype=bool)).split("\n<")[0] == "\n" + str(wanted)


def test_printing(on_host):
    assert repr(np.array([1, 2.5])) == "array([1. , 2.5])" and str(np.array([1, 2.5])) == "[1.  2.5]"
    assert repr(np.array(3)) == "array(3.)" and repr(np.zeros((0, 3))) == "array([], shape=(0, 3))"
    assert repr(np.array([1], dtype="int32")) == "array([1], dtype=int32)"
    assert repr(np.array([1], dtype="int64")) == "array([1], dtype=int64)"
    assert repr(np.array([1.0], dtype="float64")) == "array([1.], dtype=float64)"
    assert repr(np.array([True])) == "array([ True])"
    assert f"{np.array(2.0):.3f}" == "2.000"


def test_both_classes_share_the_array():
    x = np.ones((2, 2))
    y = x.as_nd_ndarray()
    y[:] = 3
    assert type(y) is nd.NDArray and x.sum() == 12 and type(y.as_np_ndarray()) is np.ndarray
    x.attach_grad()
    with autograd.record():
        z = (x * 2).as_nd_ndarray().sum()
    z.backward()
    assert x.grad.asnumpy().tolist() == y.grad.asnumpy().tolist() == [[2, 2], [2, 2]]
    assert type(x.grad) is np.ndarray and type(y.grad) is nd.NDArray
    for mixed in (lambda: x + y, lambda: y + x, lambda: np.add(x, y), lambda: nd.broadcast_add(x, y), lambda: np.exp(y)):
        with pytest.raises(TypeError, match="as_n[pd]_ndarray"):
            mixed()


def test_classes_of_results():
    x = np.ones((2, 3))
    for y in (x.copy(), x.T, x.astype("int32"), x.detach(), x.as_in_ctx(x.ctx), x[0], x.sum(), -x, abs(x), x > 1, x.reshape(3, 2),
              x.reshape((3, -1)), x.transpose(1, 0), x.flatten(), npx.relu(x), npx.softmax(x), nd.relu(x), np.split(x, 1)[0], x @ x.T):
        assert type(y) is np.ndarray
    assert type(nd.ones(2) + 1) is type(nd.zeros(3)) is nd.NDArray
    assert x.dtype == onp.float32 and isinstance(x.dtype, onp.dtype) and x.itemsize == 4 and x.nbytes == 24
    assert x.item(1) == 1 and x.item(1, 2) == 1 and np.array(2).item() == 2.0
    assert x.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_in_place():
    x = np.ones(3)
    y = x
    x += 1
    x *= np.array([1, 2, 3])
    assert y is x and x.asnumpy().tolist() == [2, 4, 6]
    i = np.ones(2, dtype="int32")
    i += 2
    assert i.dtype == "int32" and i.asnumpy().tolist() == [3, 3]
    with pytest.raises(TypeError):
        i += 1.5
    out = np.zeros(3)
    assert np.exp(x, out=out) is out and np.add(x, 1, out=out).asnumpy().tolist() == [3, 5, 7]
    with pytest.raises(ValueError):
        np.add(x, 1, out=np.zeros(2))


def test_refused():
    x = np.ones((2, 3))
    for error, call in [(TypeError, lambda: ~x), (TypeError, lambda: -np.array([True])), (TypeError, lambda: x & x),
                        (ValueError, lambda: x + np.ones(2)), (ValueError, lambda: x.reshape(4, 2)), (ValueError, lambda: bool(x)),
                        (TypeError, lambda: float(x)), (TypeError, lambda: x + "a"), (TypeError, lambda: np.exp()),
                        (ValueError, lambda: x.transpose(0, 0)), (ValueError, lambda: np.broadcast_to(x, (2, 2))),
                        (TypeError, lambda: np.sum(x, no_such=1)), (ValueError, lambda: x.max(axis=4))]:
        with pytest.raises(error):
            call()


def test_numpy_protocols(on_host):
    x, a = np.array([1, 2, 3]), onp.array([1, 2, 3], "float32")
    for y in (onp.add(x, 1), onp.exp(x), onp.mean(x), onp.concatenate([x, x]), a + x, x + a, a * x, onp.where(x > 1, x, 0), onp.linalg.norm(x)):
        assert type(y) is np.ndarray
    assert onp.asarray(x).tolist() == [1, 2, 3] and onp.array_equal(x, a)
    exchange = onp.from_dlpack if hasattr(onp, "from_dlpack") else onp._from_dlpack  # NumPy 1.22
    assert exchange(x).tolist() == [1, 2, 3]
    y = pickle.loads(pickle.dumps(x))
    assert type(y) is np.ndarray and y.asnumpy().tolist() == [1, 2, 3]


# ---- the switch --------------------------------------------------------------------------------------------------------------

def test_switch():
    assert not npx.is_np_array() and not npx.is_np_shape()
    npx.set_np()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(npx.is_np_array()))
    thread.start()
    thread.join()
    assert npx.is_np_array() and npx.is_np_shape() and seen == [False]
    npx.reset_np()
    assert not npx.is_np_array() and not npx.is_np_shape()
    with mx.util.np_array(True):
        assert npx.is_np_array()
        with mx.util.np_array(False):
            assert not npx.is_np_array()

    @mx.use_np
    def inside():
        return npx.is_np_array(), npx.is_np_shape()

    @mx.use_np
    class Net:
        def __init__(self):
            self.made = npx.is_np_array()

    assert inside() == (True, True) and Net().made and not npx.is_np_array()


def test_layers_take_and_give_both_classes():
    net = nn.Dense(2)
    net.initialize()
    x = onp.random.rand(3, 4).astype("float32")
    for _ in range(2):
        a, b = net(np.array(x)), net(nd.array(x))
        assert type(a) is np.ndarray and type(b) is nd.NDArray and onp.array_equal(a.asnumpy(), b.asnumpy())
        net.hybridize()


@pytest.mark.parametrize("hybridized", [False, True])
def test_training(switched, hybridized):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, activation="relu"), nn.BatchNorm(), nn.MaxPool2D(), nn.Flatten(), nn.Dense(8, activation="tanh"),
            nn.Dropout(0.2), nn.LayerNorm(), nn.Dense(3))
    net.initialize(mx.init.Xavier())
    if hybridized:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    loss, metric = gluon.loss.SoftmaxCrossEntropyLoss(), mx.metric.Accuracy()
    x, y = np.random.normal(size=(12, 1, 8, 8)), np.arange(12) % 3
    data = gluon.data.DataLoader(gluon.data.ArrayDataset(x, y), batch_size=4, shuffle=True)
    losses = []
    for _ in range(15):
        for xs, ys in data:
            assert type(xs) is type(ys) is np.ndarray and xs.shape == (4, 1, 8, 8)
            with autograd.record():
                out = net(xs)
                value = loss(out, ys)
            value.backward()
            trainer.step(4)
            metric.update(ys, out)
        losses.append(float(value.mean()))
    assert type(out) is type(value) is type(net[0].weight.data()) is type(net[0].weight.grad()) is np.ndarray
    assert losses[-1] < losses[0] / 2 and metric.get()[1] > 0.5


class Both(nn.HybridBlock):
    """hybrid_forward with F.np and F.npx."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(3)
        self.scale = self.params.get("scale", shape=(3,), init="ones")

    def hybrid_forward(self, F, x, scale):
        h = F.npx.relu(self.dense(x)) * scale + 1
        return (F.np.sum(h, axis=1), F.np.mean(h) / 2, h > 1, h[:, 0], h.reshape(-1), F.npx.softmax(h, axis=-1), h @ h.T,
                F.np.concatenate([h, F.np.zeros_like(h)], axis=1), h.sum(), -h, 1 - h, F.np.expand_dims(h, 0))


def test_hybrid_forward(switched):
    net, x = Both(), np.random.normal(size=(2, 4))
    net.initialize()
    plain = net(x)
    net.hybridize()
    compiled = net(x)
    for a, b in zip(plain, compiled):
        assert type(a) is type(b) is np.ndarray and a.shape == b.shape and a.dtype == b.dtype
        onp.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-6)
    x.attach_grad()
    with autograd.record():
        net(x)[0].sum().backward()
    hybrid = x.grad.copy()
    net.hybridize(False)
    with autograd.record():
        net(x)[0].sum().backward()
    onp.testing.assert_allclose(x.grad.asnumpy(), hybrid.asnumpy(), rtol=1e-6)


def test_forward_alone_is_traced(switched):
    """A hybridized block with forward and without F is compiled; one that reads values runs in Python."""
    seen = []

    class Net(nn.HybridBlock):
        def __init__(self):
            super().__init__()
            self.dense, self.scale = nn.Dense(3), self.params.get("scale", shape=(3,), init="ones")

        def forward(self, x):
            seen.append(type(x))
            h = self.dense(x) * self.scale.data()
            return np.tanh(h).sum(axis=-1), h.reshape(x.shape[0], -1), np.concatenate([h, np.ones((x.shape[0], 1))], axis=1)

    net, x = Net(), np.random.normal(size=(2, 4))
    net.initialize()
    plain = net(x)
    net.hybridize()
    for _ in range(3):
        for a, b in zip(plain, net(x)):
            onp.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-6)
    assert seen == [np.ndarray, mx.sym.np._Symbol]
    with autograd.record():
        net(x)[0].sum().backward()
    assert float(np.abs(net.scale.grad()).sum()) > 0

    class Reads(nn.HybridBlock):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x

    net = Reads()
    net.hybridize()
    assert net(np.ones(2)).tolist() == [2, 2] and net(-np.ones(2)).tolist() == [-1, -1]


class Rows(gluon.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return np.ones(3) * i, i


@pytest.mark.parametrize("how", [{}, {"num_workers": 2}, {"num_workers": 1, "thread_pool": True}], ids=["here", "processes", "threads"])
def test_loaders(switched, how):
    for data in (Rows(), gluon.data.ArrayDataset(np.arange(12).reshape(4, 3), np.arange(4))):
        for x, y in gluon.data.DataLoader(data, 2, **how):
            assert type(x) is type(y) is np.ndarray and x.shape == (2, 3) and y.shape == (2,)


LOSSES = ["L2Loss", "L1Loss", "SigmoidBCELoss", "KLDivLoss", "HuberLoss", "HingeLoss", "SquaredHingeLoss", "LogisticLoss", "PoissonNLLLoss"]


@pytest.mark.parametrize("name", LOSSES)
def test_losses_equal_those_of_nd(name):
    loss, p, q = getattr(gluon.loss, name)(), onp.random.rand(4, 3).astype("float32"), onp.random.rand(4, 3).astype("float32")
    a, b = loss(np.array(p), np.array(q)), loss(nd.array(p), nd.array(q))
    assert type(a) is np.ndarray and onp.array_equal(a.asnumpy(), b.asnumpy())


def test_custom_initializer_and_function(switched):
    class Far(mx.init.Initializer):
        def _init_weight(self, name, data):
            data[:] = np.random.uniform(-10, 10, data.shape)
            data *= np.abs(data) >= 5

    net = nn.Dense(8, in_units=8)
    net.initialize(Far())
    weight = net.weight.data().asnumpy()
    assert ((weight == 0) | (abs(weight) >= 5)).all()

    class Square(autograd.Function):
        def forward(self, x):
            assert type(x) is np.ndarray
            self.save_for_backward(x)
            return x * x

        def backward(self, gradient):
            return 2 * self.saved_tensors[0] * gradient

    x = np.arange(3)
    x.attach_grad()
    with autograd.record():
        Square()(x).sum().backward()
    assert x.grad.tolist() == [0, 2, 4]


def test_plain_block(switched):
    class Net(nn.Block):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.weight = self.params.get("weight", shape=(3, 2))
            self.dense = nn.Dense(3)

        def forward(self, x):
            return np.dot(npx.relu(self.dense(x)), self.weight.data()) + np.ones(2)

    net = Net()
    net.initialize()
    y = net(np.ones((2, 5)))
    assert type(y) is np.ndarray and y.shape == (2, 2)


def test_recurrent_layers(switched):
    for layer in (gluon.rnn.LSTM(4), gluon.rnn.GRU(4, num_layers=2), gluon.rnn.RNN(4)):
        layer.initialize()
        out, state = layer(np.ones((5, 2, 3)), layer.begin_state(batch_size=2))
        assert type(out) is np.ndarray and all(type(s) is np.ndarray for s in state)
    cell = gluon.rnn.LSTMCell(4)
    cell.initialize()
    out, state = cell(np.ones((2, 3)), cell.begin_state(batch_size=2))
    assert type(out) is type(state[0]) is np.ndarray


def test_symbols(tmp_path):
    a, b = mx.sym.var("a").as_np_ndarray(), mx.sym.var("b").as_np_ndarray()
    y = mx.sym.np.sum(a * 2 + mx.sym.npx.relu(b), axis=1)
    assert type(y) is mx.sym.np._Symbol and sorted(y.list_arguments()) == ["a", "b"]
    out = y.eval(a=nd.ones((2, 3)), b=nd.ones((2, 3)))[0]
    assert out.asnumpy().tolist() == [9, 9]


def test_files(tmp_path):
    path = str(tmp_path / "x.params")
    npx.save(path, {"a": np.ones((2, 3)), "b": np.array(3.0), "c": np.zeros((0, 2))})
    back = npx.load(path)
    assert {k: v.shape for k, v in back.items()} == {"a": (2, 3), "b": (), "c": (0, 2)}
    assert all(type(v) is np.ndarray for v in back.values())
    npx.save(path, [np.ones(2)])
    assert npx.load(path)[0].asnumpy().tolist() == [1, 1]


def test_extension():
    x = onp.random.randn(2, 3).astype("float32")
    y = np.array(x)
    onp.testing.assert_allclose(npx.sigmoid(y).asnumpy(), 1 / (1 + onp.exp(-x)), rtol=1e-5)
    onp.testing.assert_allclose(npx.log_softmax(y).asnumpy(), x - onp.log(onp.exp(x).sum(1, keepdims=True)), rtol=1e-4, atol=1e-5)
    assert npx.one_hot(np.array([0, 2]), 3).asnumpy().tolist() == [[1, 0, 0], [0, 0, 1]]
    assert npx.pick(y, np.array([0, 2])).asnumpy().tolist() == [x[0, 0], x[1, 2]]
    assert npx.topk(y, k=2).shape == (2, 2) and npx.batch_flatten(np.ones((2, 3, 4))).shape == (2, 12)
    assert npx.sequence_mask(np.ones((3, 2)), np.array([1, 2]), use_sequence_length=True).asnumpy().tolist() == [[1, 1], [0, 1], [0, 0]]
    assert npx.reshape(np.ones((2, 3, 4)), (-2, -5)).shape == (2, 12) and npx.reshape(np.ones((6, 4)), (-6, 2, -1, -4)).shape == (2, 3, 4)
    assert npx.nonzero(np.array([0, 3, 0, 1])).asnumpy().tolist() == [[1], [3]]
    assert abs(float(npx.random.bernoulli(0.3, size=(4000,)).mean()) - 0.3) < 0.05
