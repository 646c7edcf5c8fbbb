"""Whatever a caller holds never changes: results of earlier calls, states, batches, losses of fused steps."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn, rnn

FLAGS = [{}, {"static_alloc": True}, {"static_alloc": True, "static_shape": True}]


class Several(gluon.HybridBlock):
    """Several results, one of them used inside, one nested."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(3, in_units=2)

    def hybrid_forward(self, F, x):
        y = self.fc(x)
        return y, [F.relu(y), x * 2], y + 1


def flat(value):
    return sum((flat(v) for v in value), []) if isinstance(value, (list, tuple)) else [value]


def check_held(call, n=4):
    """Calls n times and compares what the caller holds with what it was right after each call."""
    held, before = [], []
    for i in range(n):
        held.append(flat(call(i)))
        before.append([a.asnumpy() for a in held[-1]])
    for now, then in zip(held, before):
        for a, b in zip(now, then):
            np.testing.assert_array_equal(a.asnumpy(), b)
    assert any((before[0][k] != before[1][k]).any() for k in range(len(before[0])))


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("make", [lambda: nn.Dense(3, in_units=2), Several])
def test_results_of_earlier_calls(make, flags):
    net = make()
    net.initialize()
    net.hybridize(**flags)
    x = nd.array([[1, 2], [3, 4]])
    check_held(lambda i: net(x * (i + 1)))

    def recorded(i):
        with autograd.record():
            return net(x * (i + 1))

    def trained(i):
        with autograd.record():
            out = net(x * (i + 1))
            total = sum(a.sum() for a in flat(out))
        total.backward()
        return out

    check_held(recorded)
    check_held(trained)
    check_held(lambda i: [trained, recorded][i % 2](i))


@pytest.mark.parametrize("flags", FLAGS)
def test_views_and_other_libraries_hold_results(flags):
    net = nn.Dense(3, in_units=2)
    net.initialize()
    net.hybridize(**flags)
    x = nd.array([[1, 2], [3, 4]])
    check_held(lambda i: net(x * (i + 1)).reshape((6,)))
    check_held(lambda i: net(x * (i + 1))[1:])
    check_held(lambda i: nd.from_dlpack(net(x * (i + 1))))
    if x.context.device_type == "gpu":
        return  # NumPy takes no arrays from there
    arrays = [np.from_dlpack(net(x * (i + 1))) for i in range(3)]
    assert not (arrays[0] == arrays[1]).all() and not (arrays[1] == arrays[2]).all()


@pytest.mark.parametrize("flags", FLAGS)
def test_translation_loop(flags):
    """A decoder that collects one array per step and carries states."""
    cell = rnn.LSTMCell(4, input_size=3)
    cell.initialize()
    cell.hybridize(**flags)
    x = nd.random.uniform(shape=(2, 3))
    states = cell.begin_state(2)
    outputs, wanted = [], []
    for _ in range(4):
        out, states = cell(x, states)
        outputs.append([out] + list(states))
        wanted.append([a.asnumpy() for a in outputs[-1]])
    for got, want in zip(outputs, wanted):
        for a, b in zip(got, want):
            np.testing.assert_array_equal(a.asnumpy(), b)


def test_losses_of_fused_steps():
    net = nn.HybridSequential()
    net.add(nn.Dense(4, activation="relu"), nn.Dense(2))
    net.initialize()
    net.hybridize(static_alloc=True, static_shape=True)
    x, y = nd.random.uniform(shape=(8, 3)), nd.array([0, 1] * 4)
    net(x)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    step = gluon.TrainStep(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
    check_held(lambda i: step(x, y))


@pytest.mark.parametrize("workers", [0, 2])
def test_batches(workers):
    data = gluon.data.ArrayDataset(nd.arange(48).reshape((12, 4)), nd.arange(12))
    loader = iter(gluon.data.DataLoader(data, 2, num_workers=workers))
    check_held(lambda i: list(next(loader)))


@pytest.mark.parametrize("flags", FLAGS)
def test_nested_hybridized_blocks(flags):
    inner = nn.HybridSequential()
    inner.add(nn.Dense(3, in_units=2), nn.Dense(2, in_units=3))
    outer = nn.Sequential()
    outer.add(inner, nn.Dense(2, in_units=2))
    outer.initialize()
    for block in (inner, outer[1]):
        block.hybridize(**flags)
    x = nd.ones((2, 2))
    check_held(lambda i: outer(x * (i + 1)))


def test_symbol_block():
    x = mx.sym.var("x")
    net = gluon.SymbolBlock(mx.sym.Group([x * 2, x + 1]), [x])
    net.hybridize(static_alloc=True, static_shape=True)
    check_held(lambda i: net(nd.ones((2,)) * i))
