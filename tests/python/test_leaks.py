"""Memory does not grow: over many training steps, blocks created and dropped, and failures.

Two counters are watched: what the library has handed out (exact: after a warm-up not one block may be added), and the
resident memory of the process (which also sees Python's side; some room for the interpreter's own arenas).
"""
import ctypes
import gc
import sys

import pytest

import mxnet as mx
from mxnet import _core, autograd, gluon, nd
from mxnet.gluon import nn

MANY = 10000
ROOM = 2 << 20  # bytes of resident memory that may come and go


def live():
    gc.collect()
    counters = _core.memory_in_use()
    return counters["live_blocks"], counters["live_bytes"]


def check(work, resident, many=MANY, warm=500):
    """Runs `work` many times; neither counter may have grown."""
    for _ in range(warm):
        work()
    blocks, size = live()
    before = resident()
    for _ in range(many):
        work()
    assert live() == (blocks, size)
    grown = resident() - before
    assert grown < ROOM, f"{many} times: resident memory grew by {grown} bytes"


def small_net(hybrid=True):
    net = (nn.HybridSequential if hybrid else nn.Sequential)()
    net.add(nn.Dense(8, activation="relu"), nn.Dense(2))
    net.initialize()
    return net


def training(net):
    """A step of the usual loop on a small network."""
    data, label = nd.random.uniform(shape=(4, 6)), nd.array([0, 1, 0, 1])
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})

    def step():
        with autograd.record():
            loss = criterion(net(data), label)
        loss.backward()
        trainer.step(4)
        return loss
    return step


def test_the_check_itself(resident):
    kept = []
    with pytest.raises(AssertionError):
        check(lambda: kept.append(nd.ones((4,))), resident, many=100, warm=5)
    kept.clear()


def test_training(resident):
    check(training(small_net()), resident)


def test_training_hybridized(resident):
    net = small_net()
    net.hybridize()
    check(training(net), resident)


@pytest.mark.skipif(not hasattr(gluon, "TrainStep"), reason="there is no whole-step plan here")
def test_training_in_one_plan(resident):
    net = small_net()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    step = gluon.TrainStep(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
    data, label = nd.random.uniform(shape=(4, 6)), nd.array([0, 1, 0, 1])
    check(lambda: step(data, label), resident)


def test_training_with_a_class_of_ones_own(resident):
    class Net(gluon.Block):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2 = nn.Dense(8), nn.Dense(2)

        def forward(self, x):
            return self.fc2(nd.relu(self.fc1(x)))
    net = Net()
    net.initialize()
    check(training(net), resident)


def test_operators(resident):
    x = nd.random.uniform(shape=(4, 4))

    def work():
        y = nd.concat(x, x + 1, dim=0).reshape((2, -1))
        y[0] = 3
        y[:, 1:3] *= 2
        nd.split(y, 2, axis=1)
        y.sum().asscalar()
        nd.softmax(y, axis=-1, out=y)
        list(iter(x))
        y.astype("float64").asnumpy()
        str(y.context), y.shape, y.dtype, repr(x[0])
    check(work, resident, many=MANY // 5)


def test_blocks(resident):
    def work():
        net = nn.HybridSequential(prefix="net_")  # a given name: automatic ones are counted per kind
        with net.name_scope():
            net.add(nn.Dense(4, in_units=3, activation="relu"), nn.Dense(2, in_units=4))
        net.initialize()
        net.collect_params()
    check(work, resident)


def test_blocks_that_run(resident):
    x = nd.ones((2, 3))

    def work():
        net = nn.HybridSequential(prefix="net_")
        with net.name_scope():
            net.add(nn.Dense(4), nn.Dense(2))
        net.initialize()
        net(x)
        net.hybridize()
        net(x)
    check(work, resident, many=MANY // 10)


def test_cycles_are_found(resident):
    class Net(gluon.Block):
        def __init__(self):
            super().__init__(prefix="net_")
            self.fc = nn.Dense(4, in_units=3, prefix="fc_")
            self.step = lambda: self  # a cycle through Python

        def forward(self, x):
            return self.fc(x)
    x = nd.ones((2, 3))

    def work():
        net = Net()
        net.initialize()
        net(x)
    check(work, resident, many=MANY // 5)


def test_trainers(resident):
    net = small_net()
    net(nd.ones((2, 6)))

    def work():
        for name in ("sgd", "adam", "rmsprop"):
            gluon.Trainer(net.collect_params(), name, {"learning_rate": 0.1}).learning_rate
    check(work, resident, many=MANY // 10)


def test_functions(resident):
    class Twice(autograd.Function):
        def forward(self, x):
            self.save_for_backward(x)
            return 2 * x

        def backward(self, dy):
            return 2 * dy
    x = nd.ones((3,))
    x.attach_grad()

    def work():
        with autograd.record():
            y = Twice()(x) * Twice()(x)
        y.backward()
    check(work, resident, many=MANY // 5)


def failures():
    net, x = small_net(), nd.ones((2, 6))
    net(x)
    fresh = nn.Dense(3)

    def shape():
        x + nd.ones((5,))

    def keyword():
        nd.softmax(x, axes=1)

    def value():
        nd.softmax(x, axis="left")

    def block():
        net(nd.ones((2, 7)))

    def object_():
        nd.dot(x, object())

    def uninitialized():
        fresh.weight.data()

    def backward():
        x.backward()

    def index():
        x[17]

    def attribute():
        x.no_such_attribute
    return [shape, keyword, value, block, object_, uninitialized, backward, index, attribute]


@pytest.mark.parametrize("failure", failures(), ids=lambda f: f.__name__)
def test_exceptions(failure, resident):
    def work():
        try:
            failure()
        except Exception:
            return
        raise AssertionError("it did not fail")
    check(work, resident, many=MANY)


def test_exceptions_of_callbacks(resident):
    class Net(gluon.Block):
        def forward(self, x):
            raise KeyError("mine")
    net, x = nn.Sequential(), nd.ones((2,))
    net.add(Net())

    def work():
        try:
            with autograd.record():
                net(x + 1)
        except KeyError:
            pass
    check(work, resident)


def test_references():
    """Objects passed in keep the counts they had."""
    shape, x = (2, 3), nd.ones((6,))
    name = "softmax_output"
    before = sys.getrefcount(shape), sys.getrefcount(x), sys.getrefcount(name), sys.getrefcount(None)
    for _ in range(2000):
        x.reshape(shape)
        nd.softmax(x, axis=-1)
        x + x
        x[1:3]
    after = sys.getrefcount(shape), sys.getrefcount(x), sys.getrefcount(name), sys.getrefcount(None)
    assert after[:3] == before[:3] and abs(after[3] - before[3]) < 100
    assert mx.nd.ones((1,)) is not None


@pytest.mark.parametrize("wrap", [False, True])
def test_handles_of_callbacks(resident, wrap):
    """Arrays that monitors and operator hooks get are released, whether they are wrapped or not."""
    def note(*arguments):
        if wrap:
            nd.NDArray(ctypes.c_void_p(arguments[-1]))

    executor = mx.sym.exp(mx.sym.var("x") * 2).simple_bind(mx.cpu(), x=(300,))
    executor.set_monitor_callback(note, monitor_all=True)
    check(executor.forward, resident, many=2000)
    net, x = small_net(), nd.ones((2, 3))
    net.initialize()
    net(x)
    net.hybridize()
    net.register_op_hook(note, monitor_all=True)
    check(lambda: net(x), resident, many=500)
