"""Plans on a GPU run as captured launches (CUDA graphs): whatever moves or changes between two runs, the numbers are
those of the imperative calls."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

pytestmark = pytest.mark.skipif(not mx.context.num_gpus(), reason="needs a GPU")
BATCH, STEPS = 16, 8


def network(dropout):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 5, activation="relu"), nn.MaxPool2D(2, 2), nn.BatchNorm(), nn.Flatten(),
            nn.Dense(32, activation="relu"), nn.Dropout(dropout), nn.Dense(10))
    return net


def batches():
    rng = np.random.RandomState(5)
    return [(rng.rand(BATCH, 1, 28, 28).astype("float32"), rng.randint(0, 10, BATCH).astype("float32"))
            for _ in range(STEPS)]


def train(mode, optimizer, dropout, fresh):
    """Losses of some steps and the parameters after them; fresh: every batch has memory of its own."""
    context = mx.gpu(0)
    mx.random.seed(5)
    net, loss = network(dropout), gluon.loss.SoftmaxCrossEntropyLoss()
    net.initialize(mx.init.Xavier(), ctx=context)
    if mode != "imperative":
        net.hybridize()
        loss.hybridize()
    data = [(nd.array(x, ctx=context), nd.array(y, ctx=context)) for x, y in batches()]
    net(data[0][0])
    trainer = gluon.Trainer(net.collect_params(), optimizer[0], dict(optimizer[1]))
    step = gluon.TrainStep(net, loss, trainer)
    x, y = data[0][0].copy(), data[0][1].copy()
    losses = []
    mx.random.seed(7)
    for i in range(STEPS):
        if fresh:
            x, y = data[i]
        else:
            x[:], y[:] = data[i]
        if mode == "step":
            value = step(x, y)
        else:
            with autograd.record():
                value = loss(net(x), y)
            value.backward()
            trainer.step(BATCH)
        losses.append(value.mean().asnumpy())
        if i == STEPS // 2:
            trainer.set_learning_rate(trainer.learning_rate / 2)
    return np.array(losses), [p.data().asnumpy() for p in net.collect_params().values()]


@pytest.mark.parametrize("fresh", [False, True], ids=["same memory", "other memory"])
@pytest.mark.parametrize("dropout", [0, 0.5])
@pytest.mark.parametrize("optimizer", [("sgd", {"learning_rate": 0.02, "momentum": 0.9}), ("adam", {"learning_rate": 0.002}),
                                       ("nag", {"learning_rate": 0.01, "momentum": 0.9, "wd": 1e-3})], ids=lambda o: o[0])
@pytest.mark.parametrize("mode", ["hybridized", "step"])
def test_training_is_that_of_the_imperative_loop(mode, optimizer, dropout, fresh):
    losses, parameters = train(mode, optimizer, dropout, fresh)
    wanted_losses, wanted = train("imperative", optimizer, dropout, fresh)
    np.testing.assert_allclose(losses, wanted_losses, rtol=1e-4)
    if optimizer[0] != "adam":  # which blows rounding errors of tiny gradients up
        for p, w in zip(parameters, wanted):
            np.testing.assert_allclose(p, w, rtol=1e-3, atol=1e-4)


@pytest.fixture
def chain():
    """Enough small operators to be worth capturing, y = ((x w + b) ...), and the same in NumPy."""
    net = nn.HybridSequential()
    for _ in range(4):
        net.add(nn.Dense(8, activation="tanh", in_units=8))
    net.initialize(mx.init.Xavier(), ctx=mx.gpu(0))
    net.hybridize()

    def reference(x):
        for layer in net:
            x = np.tanh(x @ layer.weight.data().asnumpy().T + layer.bias.data().asnumpy())
        return x
    return net, reference


def close(y, wanted):
    np.testing.assert_allclose(y.asnumpy(), wanted, rtol=1e-3, atol=1e-4)


def test_results_that_are_held_stay(chain):
    net, reference = chain
    inputs = [np.random.rand(4, 8).astype("float32") for _ in range(8)]
    results = [net(nd.array(x, ctx=mx.gpu(0))) for x in inputs]
    for x, y in zip(inputs, results):
        close(y, reference(x))


def test_a_result_is_the_next_input(chain):
    net, reference = chain
    wanted = np.random.rand(4, 8).astype("float32")
    y = nd.array(wanted, ctx=mx.gpu(0))
    for _ in range(6):
        y, wanted = net(y), reference(wanted)
        close(y, wanted)


def test_views_of_one_array_are_inputs(chain):
    net, reference = chain
    x = nd.array(np.random.rand(6, 4, 8).astype("float32"), ctx=mx.gpu(0))
    for i in (0, 1, 2, 3, 4, 5, 0, 0, 3):
        close(net(x[i]), reference(x[i].asnumpy()))


def test_parameters_get_other_memory(chain, tmp_path):
    net, reference = chain
    x = np.random.rand(4, 8).astype("float32")
    for i in range(4):
        close(net(nd.array(x, ctx=mx.gpu(0))), reference(x))
    net.save_parameters(str(tmp_path / "p"))
    net.initialize(mx.init.Normal(0.5), ctx=mx.gpu(0), force_reinit=True)
    for i in range(3):
        close(net(nd.array(x, ctx=mx.gpu(0))), reference(x))
    net.load_parameters(str(tmp_path / "p"), ctx=mx.gpu(0))
    for i in range(3):
        close(net(nd.array(x, ctx=mx.gpu(0))), reference(x))


def test_several_calls_wait_for_their_backward(chain):
    net, _ = chain
    w = net[0].weight
    xs = [nd.array(np.random.rand(4, 8).astype("float32"), ctx=mx.gpu(0)) for _ in range(3)]

    def gradients():
        for _ in range(4):
            with autograd.record():
                total = sum(net(x).sum() for x in xs)
            total.backward()
            yield w.grad().asnumpy()
    hybridized = list(gradients())
    net.hybridize(False)
    wanted = next(gradients())
    for g in hybridized:
        np.testing.assert_allclose(g, wanted, rtol=1e-3, atol=1e-4)


def test_random_numbers_follow_the_seed():
    net = nn.HybridSequential()
    for _ in range(3):
        net.add(nn.Dense(16, in_units=16), nn.Dropout(0.5))
    net.initialize(ctx=mx.gpu(0))
    x = nd.ones((4, 16), ctx=mx.gpu(0))

    def draw():
        mx.random.seed(3)
        with autograd.train_mode():
            return [net(x).asnumpy() for _ in range(5)]
    imperative = draw()
    net.hybridize()
    draw()
    for a, b in zip(imperative, draw()):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_the_cache_is_emptied_between_runs(chain):
    net, reference = chain
    x = np.random.rand(4, 8).astype("float32")
    for _ in range(5):
        close(net(nd.array(x, ctx=mx.gpu(0))), reference(x))
        mx.gpu(0).empty_cache()
        nd.full((64, 64), np.nan, ctx=mx.gpu(0))


def test_a_failure_in_a_plan_leaves_it_usable(chain):
    net, reference = chain
    x = np.random.rand(4, 8).astype("float32")
    for _ in range(3):
        close(net(nd.array(x, ctx=mx.gpu(0))), reference(x))
    with pytest.raises(Exception):
        net(nd.ones((4, 9), ctx=mx.gpu(0)))
    close(net(nd.array(x, ctx=mx.gpu(0))), reference(x))


def test_constants_of_the_default_context():
    """Arrays that a forward creates without a context are on the device of the plan."""
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x * 2 + F.ones((4, 8)) + F.arange(8)

    net = Net()
    net.hybridize()
    with mx.cpu():
        for _ in range(3):
            y = net(nd.zeros((4, 8), ctx=mx.gpu(0)))
            np.testing.assert_array_equal(y.asnumpy(), np.ones((4, 8)) + np.arange(8))


def test_a_recurrent_network_on_another_than_the_default_context():
    net = gluon.rnn.LSTM(8, 2, input_size=4)
    net.initialize(mx.init.Xavier(), ctx=mx.gpu(0))
    with mx.cpu():
        x = nd.array(np.random.rand(5, 3, 4), ctx=mx.gpu(0))
        wanted = net(x).asnumpy()
        net.hybridize()
        for _ in range(3):
            np.testing.assert_allclose(net(x).asnumpy(), wanted, rtol=1e-4, atol=1e-5)
