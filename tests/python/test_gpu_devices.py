"""Parameters on several devices of one process: cpu(0) with cpu(1) everywhere, with gpu(0) where there is one."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import _core, autograd, gluon, nd
from mxnet.gluon import nn

LISTS = {"cpu": [mx.cpu(0)], "cpus": [mx.cpu(0), mx.cpu(1)], "three": [mx.cpu(0), mx.cpu(1), mx.cpu(2)],
         "gpu": [mx.gpu(0)], "both": [mx.cpu(0), mx.gpu(0)], "reversed": [mx.gpu(0), mx.cpu(0), mx.cpu(1)]}
BATCH = 12


@pytest.fixture(params=LISTS)
def contexts(request):
    found = LISTS[request.param]
    if mx.gpu(0) in found and not mx.num_gpus():
        pytest.skip("there is no GPU")
    return found


def network():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, activation="relu"), nn.MaxPool2D(2), nn.Dense(10, activation="tanh"), nn.Dense(3))
    return net


def trained(contexts, hybrid, optimizer="sgd", kvstore="device", update_on_kvstore=None, split=False, **arguments):
    """(losses, parameters by context) after some steps on the same data, whatever it is split over."""
    mx.random.seed(4)
    random = np.random.RandomState(0)
    data, label = random.normal(size=(BATCH, 2, 9, 9)).astype("float32"), random.randint(0, 3, BATCH)
    with mx.cpu():
        net = network()
        net.initialize(mx.init.Xavier())
        net(nd.array(data))
        net.collect_params().reset_ctx(contexts)
    if hybrid:
        net.hybridize()
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.1}, kvstore=kvstore,
                            update_on_kvstore=update_on_kvstore, **arguments)
    losses = []
    for _ in range(5):
        parts = zip(gluon.utils.split_and_load(data, contexts), gluon.utils.split_and_load(label, contexts))
        with autograd.record():
            values = [criterion(net(x), y) for x, y in parts]
        autograd.backward(values)
        if split:
            trainer.allreduce_grads()
            trainer.update(BATCH)
        else:
            trainer.step(BATCH)
        losses.append(sum(v.sum().asscalar() for v in values))
    return losses, [[p.data(c).asnumpy() for p in net.collect_params().values()] for c in contexts]


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_training_is_that_of_one_device(contexts, hybrid, optimizer):
    wanted, (reference,) = trained([mx.cpu(0)], False, optimizer)
    losses, copies = trained(contexts, hybrid, optimizer)
    np.testing.assert_allclose(losses, wanted, rtol=1e-3)
    for copy in copies:
        for ours, theirs, first in zip(copy, reference, copies[0]):
            np.testing.assert_array_equal(ours, first)  # the copies are alike
            np.testing.assert_allclose(ours, theirs, rtol=5e-3, atol=5e-4)


@pytest.mark.parametrize("kvstore", ["local", "device", "nccl"])  # without a store each context follows its own gradient
def test_stores(contexts, kvstore):
    wanted, _ = trained([mx.cpu(0)], False)
    np.testing.assert_allclose(trained(contexts, False, kvstore=kvstore)[0], wanted, rtol=1e-3)
    split, copies = trained(contexts, False, kvstore=kvstore, update_on_kvstore=False, split=True)
    np.testing.assert_allclose(split, wanted, rtol=1e-3)
    for copy in copies:
        for ours, first in zip(copy, copies[0]):
            np.testing.assert_array_equal(ours, first)


def test_sums_over_devices(contexts):
    for dtype in ("float32", "float64", "float16", "int32"):
        arrays = [nd.array([[1, 2], [3, 4]], ctx=c, dtype=dtype) * (i + 1) for i, c in enumerate(contexts)]
        _core.all_reduce(arrays)
        factor = sum(range(1, len(contexts) + 1))
        for array, context in zip(arrays, contexts):
            assert array.context == context and array.dtype == np.dtype(dtype)
            np.testing.assert_array_equal(array.asnumpy(), np.array([[1, 2], [3, 4]]) * factor)
    if len(contexts) > 1:
        with pytest.raises(ValueError, match="differs from the first"):
            _core.all_reduce([nd.ones((2,), ctx=contexts[0]), nd.ones((3,), ctx=contexts[1])])


def test_key_value_stores(contexts):
    store = mx.kv.create("device")
    store.init("w", nd.zeros((2, 3), ctx=contexts[0]))
    store.push("w", [nd.ones((2, 3), ctx=c) * (i + 1) for i, c in enumerate(contexts)])
    out = [nd.zeros((2, 3), ctx=c) for c in contexts]
    store.pull("w", out)
    for array, context in zip(out, contexts):
        assert array.context == context and (array.asnumpy() == sum(range(1, len(contexts) + 1))).all()


def test_compressed_gradients(contexts):
    """Two bits per element, with what is lost added to the next gradient: in the long run nothing is lost."""
    net = nn.Dense(1, in_units=2, use_bias=False)
    net.initialize(mx.init.Zero(), ctx=contexts)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0},
                            compression_params={"type": "2bit", "threshold": 0.25})
    for _ in range(40):
        with autograd.record():
            losses = [(net(nd.array([[0.1, -0.05]], ctx=c))).sum() for c in contexts]
        autograd.backward(losses)
        trainer.step(len(contexts))
    for context in contexts:
        np.testing.assert_allclose(net.weight.data(context).asnumpy(), [[-4, 2]], atol=0.26)


def test_copies_between_devices(contexts):
    x = np.arange(300000, dtype="float32").reshape(100, 3000)
    array = nd.array(x, ctx=contexts[0])
    for context in contexts[1:] + contexts:
        array = (array.as_in_context(context) + 1)
        x = x + 1
        assert array.context == context
    np.testing.assert_array_equal(array.asnumpy(), x)
    target = nd.zeros((100, 3000), ctx=contexts[0])
    array.copyto(target)
    np.testing.assert_array_equal(target.asnumpy(), x)
