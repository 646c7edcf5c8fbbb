"""GPUs as contexts: errors where there is none, and with one the same numbers as on the CPU.

The whole suite runs on a GPU with MXNET_TEST_DEFAULT_CTX="gpu(0)" (`make test-gpu`); here is what needs both devices.
"""
import os
import subprocess
import sys

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

needs_gpu = pytest.mark.skipif("mx.num_gpus() == 0", reason="there is no GPU")


# ---- machines without a GPU -----------------------------------------------------------------------------------------

def test_import_touches_no_driver():
    """Nothing of CUDA is opened by importing the package and computing on the CPU."""
    program = "import mxnet as mx; mx.nd.ones((2,)).asnumpy(); mx.nd.waitall(); print(open('/proc/self/maps').read())"
    maps = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "libcuda" not in maps and "libgluon_cuda" not in maps


@pytest.mark.skipif("mx.num_gpus() > 0", reason="there is a GPU")
def test_no_gpu_is_a_clear_error():
    for call in (lambda: nd.zeros((2,), ctx=mx.gpu(0)), lambda: nd.ones((2,)).as_in_context(mx.gpu(0)),
                 lambda: mx.context.gpu_memory_info(0), lambda: mx.gpu(0).empty_cache(),
                 lambda: nn.Dense(2, in_units=2).initialize(ctx=mx.gpu(0))):
        with pytest.raises(mx.MXNetError, match=r"gpu\(0\)"):
            call()
    assert nd.ones((2,)).sum().asscalar() == 2


def test_a_file_that_is_no_library(tmp_path):
    """A CUDA part that cannot be opened is an error that says why, and the CPU still works."""
    fake = tmp_path / "libgluon_cuda.so"
    fake.write_text("not a library")
    program = ("import mxnet as mx\nassert mx.num_gpus() == 0\n"
               "try:\n    mx.nd.zeros((1,), ctx=mx.gpu(0))\nexcept mx.MXNetError as e:\n    print(e)\n"
               "print(mx.nd.ones((3,)).sum().asscalar())")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env=dict(os.environ, GLUON_CUDA_LIBRARY=str(fake)), check=True)
    assert "gpu(0)" in done.stdout and "libgluon_cuda.so" in done.stdout and "3.0" in done.stdout


# ---- machines with one ------------------------------------------------------------------------------------------------

@needs_gpu
def test_arrays_travel():
    for dtype in ("float32", "float64", "float16", "int8", "uint8", "int32", "int64"):
        x = np.arange(24).reshape(2, 3, 4).astype(dtype)
        there = nd.array(x, ctx=mx.gpu(0), dtype=dtype)
        assert there.context == mx.gpu(0)
        np.testing.assert_array_equal(there.asnumpy(), x)
        back = there.as_in_context(mx.cpu())
        assert back.context == mx.cpu()
        np.testing.assert_array_equal(back.asnumpy(), x)
        np.testing.assert_array_equal(there[1, 1:].asnumpy(), x[1, 1:])
        there[0] = 7
        assert (there.asnumpy()[0] == 7).all()


@needs_gpu
def test_wrong_devices():
    with pytest.raises(mx.MXNetError, match=r"gpu\(97\)"):
        nd.zeros((1,), ctx=mx.gpu(97))
    with pytest.raises(mx.MXNetError, match="cpu"):
        nd.ones((2,), ctx=mx.gpu(0)) + nd.ones((2,), ctx=mx.cpu())


@needs_gpu
def test_memory_that_does_not_fit():
    """An array that does not fit is an error; the process, its arrays and the device still work."""
    keep = nd.arange(5, ctx=mx.gpu(0))
    free, total = mx.context.gpu_memory_info(0)
    assert 0 < free <= total
    with pytest.raises(mx.MXNetError, match="bytes"):
        nd.zeros((total // 4 + 1024, 4), ctx=mx.gpu(0))
    assert (keep + 1).sum().asscalar() == 15
    mx.gpu(0).empty_cache()


@needs_gpu
def test_memory_in_use():
    """The memory of arrays is counted, without cached memory; the peak stays."""
    before, most = mx.context.gpu_memory_used(0)
    big = nd.zeros((1 << 28,), ctx=mx.gpu(0))
    during, most_then = mx.context.gpu_memory_used(0)
    assert before + (1 << 30) <= during <= before + (1 << 30) + (64 << 20) and most_then >= max(during, most)
    del big
    after, most_later = mx.context.gpu_memory_used(0)
    assert after < during and most_later == most_then


@needs_gpu
def test_random_numbers_are_those_of_the_cpu():
    for draw in (lambda c: nd.random.uniform(-1, 2, (1000,), ctx=c), lambda c: nd.random.normal(1, 2, (333,), ctx=c),
                 lambda c: nd.random.randint(0, 100, (77,), ctx=c),
                 lambda c: nd.random.normal(0, 1, (65,), dtype="float64", ctx=c)):
        mx.random.seed(7)
        here = draw(mx.cpu()).asnumpy()
        mx.random.seed(7)
        there = draw(mx.gpu(0)).asnumpy()
        np.testing.assert_allclose(here, there, rtol=2e-5, atol=2e-6)
    x = nd.ones((400,))
    kept = []
    for context in (mx.cpu(), mx.gpu(0)):
        mx.random.seed(3)
        with autograd.train_mode():
            kept.append(nd.Dropout(x.as_in_context(context), p=0.3).asnumpy())
    np.testing.assert_allclose(kept[0], kept[1], rtol=1e-6)


def networks():
    lenet = nn.HybridSequential()
    lenet.add(nn.Conv2D(6, 5, padding=2, activation="relu"), nn.MaxPool2D(2, 2), nn.Conv2D(16, 5, activation="tanh"),
              nn.BatchNorm(), nn.AvgPool2D(2, 2), nn.Flatten(), nn.Dense(30, activation="relu"), nn.Dropout(0.3), nn.Dense(10))
    mlp = nn.HybridSequential()
    mlp.add(nn.Dense(32, activation="sigmoid"), nn.LayerNorm(), nn.Dense(10))
    return {"lenet": (lenet, (8, 1, 28, 28)), "mlp": (mlp, (8, 20))}


def train(name, context, hybrid, whole, optimizer="sgd", arguments=None):
    mx.random.seed(11)
    np.random.seed(11)
    net, shape = networks()[name]
    x = np.random.uniform(-1, 1, shape).astype("float32")
    label = np.random.randint(0, 10, shape[0]).astype("float32")
    net.initialize(mx.init.Xavier(), ctx=mx.cpu())
    net(nd.array(x, ctx=mx.cpu()))
    net.collect_params().reset_ctx(context)
    if hybrid:
        net.hybridize()
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), optimizer, arguments or {"learning_rate": 0.1})
    x, label = nd.array(x, ctx=context), nd.array(label, ctx=context)
    step = gluon.TrainStep(net, loss, trainer) if whole else None
    losses = []
    mx.random.seed(5)
    for _ in range(4):
        if whole:
            value = step(x, label)
        else:
            with autograd.record():
                value = loss(net(x), label)
            value.backward()
            trainer.step(shape[0])
        losses.append(value.asnumpy())
    return np.array(losses), {k.split("_", 1)[-1]: v.data(context).asnumpy() for k, v in net.collect_params().items()}


@needs_gpu
@pytest.mark.parametrize("name", ["lenet", "mlp"])
@pytest.mark.parametrize("hybrid, whole", [(False, False), (True, False), (True, True)])
def test_training_is_that_of_the_cpu(name, hybrid, whole):
    tolerance = 1e-1 if os.environ.get("GLUON_CUDA_TF32") != "0" else 2e-4
    here, ours = train(name, mx.cpu(), hybrid, whole)
    there, theirs = train(name, mx.gpu(0), hybrid, whole)
    np.testing.assert_allclose(here, there, rtol=tolerance, atol=tolerance)
    for a, b in zip(ours.values(), theirs.values()):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@needs_gpu
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop", "adagrad", "nag", "ftrl", "adadelta", "adamax", "nadam", "signum"])
def test_optimizers(optimizer):
    arguments = {} if optimizer == "adadelta" else {"learning_rate": 0.01}
    here, _ = train("mlp", mx.cpu(), False, False, optimizer, arguments)
    there, _ = train("mlp", mx.gpu(0), False, False, optimizer, arguments)
    np.testing.assert_allclose(here, there, rtol=3e-2, atol=3e-2)


def recurrent(context, kind, arguments, x):
    net = getattr(gluon.rnn, kind)(6, **arguments)
    mx.random.seed(2)
    net.initialize(mx.init.Uniform(0.5), ctx=mx.cpu())
    net(nd.array(x, ctx=mx.cpu()))
    net.collect_params().reset_ctx(context)
    x = nd.array(x, ctx=context)
    x.attach_grad()
    mx.random.seed(9)
    with autograd.record():
        y = net(x)
        (y * y).sum().backward()
    return [y.asnumpy(), x.grad.asnumpy()] + [p.grad(context).asnumpy() for p in net.collect_params().values()]


@needs_gpu
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("arguments", [{}, {"num_layers": 2, "bidirectional": True}, {"num_layers": 3, "dropout": 0.3}])
def test_recurrent_layers(kind, arguments):
    x = np.random.RandomState(0).uniform(-1, 1, (5, 3, 4)).astype("float32")
    tolerance = 1e-1 if os.environ.get("GLUON_CUDA_TF32") != "0" else 2e-4
    for here, there in zip(recurrent(mx.cpu(), kind, arguments, x), recurrent(mx.gpu(0), kind, arguments, x)):
        np.testing.assert_allclose(here, there, rtol=tolerance, atol=tolerance)


@needs_gpu
def test_sorting():
    x = np.random.RandomState(1).permutation(60).reshape(3, 4, 5).astype("float32")
    there = nd.array(x, ctx=mx.gpu(0))
    for axis in (0, 1, 2, -1):
        np.testing.assert_array_equal(nd.sort(there, axis=axis).asnumpy(), np.sort(x, axis))
        np.testing.assert_array_equal(nd.argsort(there, axis=axis, is_ascend=False).asnumpy(), np.argsort(-x, axis))
        np.testing.assert_array_equal(nd.topk(there, k=2, axis=axis, ret_typ="value").asnumpy(),
                                      -np.sort(-x, axis).take([0, 1], axis))


@needs_gpu
def test_files_and_devices(tmp_path):
    """Parameters saved from a GPU are read on the CPU and the other way round."""
    net = nn.Dense(3, in_units=4)
    net.initialize(ctx=mx.gpu(0))
    net.save_parameters(str(tmp_path / "net.params"))
    other = nn.Dense(3, in_units=4)
    other.load_parameters(str(tmp_path / "net.params"), ctx=mx.cpu())
    np.testing.assert_array_equal(net.weight.data().asnumpy(), other.weight.data().asnumpy())


@needs_gpu
def test_two_devices_in_one_trainer():
    """Parameters on a list of contexts: gradients are added up over the devices."""
    contexts = [mx.cpu(0), mx.gpu(0)]
    net = nn.Dense(2, in_units=3)
    net.initialize(mx.init.One(), ctx=contexts)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    parts = gluon.utils.split_and_load(nd.arange(12).reshape((4, 3)), contexts)
    with autograd.record():
        losses = [net(x).sum() for x in parts]
    for value in losses:
        value.backward()
    trainer.step(4)
    wanted = 1 - 0.5 / 4 * np.arange(12).reshape(4, 3).sum(axis=0)
    for context in contexts:
        np.testing.assert_allclose(net.weight.data(context).asnumpy(), [wanted, wanted], rtol=1e-6)
