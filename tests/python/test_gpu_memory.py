"""Host memory runs out while a GPU works: an error each time, and everything still works."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

pytestmark = pytest.mark.skipif("mx.num_gpus() == 0", reason="there is no GPU")


def failing(work, most=4000):
    """Runs work() with its first, second, third ... allocation failing, until none fails any more; what was said."""
    said = []
    for n in range(1, most):
        mx._core.fail_allocation(n)
        try:
            result = work()
            mx._core.fail_allocation(0)
            return said, result
        except (MemoryError, mx.MXNetError) as error:
            mx._core.fail_allocation(0)
            assert "memory" in str(error), str(error)
            said.append(str(error))
    raise AssertionError("it never worked")


def test_operators():
    x = np.arange(12, dtype="float32").reshape(3, 4)
    operators = [
        lambda: nd.array(x, ctx=mx.gpu(0)).asnumpy(),
        lambda: nd.dot(nd.array(x, ctx=mx.gpu(0)), nd.ones((4, 5), ctx=mx.gpu(0))).asnumpy(),
        lambda: nd.Convolution(nd.ones((1, 2, 5, 5), ctx=mx.gpu(0)), nd.ones((3, 2, 3, 3), ctx=mx.gpu(0)),
                               no_bias=True, kernel=(3, 3), num_filter=3).asnumpy(),
        lambda: nd.topk(nd.array(x, ctx=mx.gpu(0)), k=2).asnumpy(),
        lambda: nd.array(np.ones((600, 600), "float32"), ctx=mx.gpu(0)).asnumpy(),
        lambda: nd.array(np.ones((300, 300), "float32"), ctx=mx.cpu_pinned()).as_in_context(mx.gpu(0)).asnumpy(),
    ]
    for work in operators:
        said, result = failing(work)
        np.testing.assert_array_equal(result, work())
        assert said


def test_operators_are_named():
    """Also where a container of the CUDA part could not grow: the choice of a product is stored in one."""
    said, _ = failing(lambda: nd.dot(nd.ones((130, 70), ctx=mx.gpu(0)), nd.ones((70, 90), ctx=mx.gpu(0))).asnumpy())
    assert any("dot: out of memory on the host" in text for text in said), said


@pytest.mark.parametrize("whole", [False, True])
def test_training(whole):
    """Recording, binding and running of plans."""
    def train():
        mx.random.seed(1)
        net = nn.HybridSequential()
        net.add(nn.Conv2D(2, 3, activation="relu"), nn.MaxPool2D(), nn.Dense(4, activation="tanh"), nn.Dense(3))
        net.initialize(ctx=mx.gpu(0))
        net.hybridize(static_alloc=True, static_shape=True)
        x, y = nd.ones((2, 1, 8, 8), ctx=mx.gpu(0)), nd.array([0, 2], ctx=mx.gpu(0))
        loss = gluon.loss.SoftmaxCrossEntropyLoss()
        net(x)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
        step = gluon.TrainStep(net, loss, trainer) if whole else None
        for _ in range(4):
            if whole:
                value = step(x, y)
            else:
                with autograd.record():
                    value = loss(net(x), y)
                value.backward()
                trainer.step(2)
        return value.asnumpy()

    want = train()
    for n in list(range(1, 300, 3)) + list(range(300, 6000, 97)):
        mx._core.fail_allocation(n)
        try:
            train()
        except (MemoryError, mx.MXNetError) as error:
            assert "memory" in str(error), str(error)
        finally:
            mx._core.fail_allocation(0)
    np.testing.assert_allclose(train(), want, rtol=1e-5)
