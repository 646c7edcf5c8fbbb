"""The first convolution of networks for images on a GPU: pixels as channels, few channels on tensor cores, and transposes in
tiles, compared with the CPU.

Float32 has kernels of its own only as TF32: the last test runs this file with the other setting of GLUON_CUDA_TF32.
"""
import os
import subprocess
import sys

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, nd
from mxnet.gluon import nn

pytestmark = pytest.mark.skipif("mx.num_gpus() == 0", reason="there is no GPU")
EXACT = os.environ.get("GLUON_CUDA_TF32") == "0"
TOLERANCES = {"float32": 1e-4 if EXACT else 2e-3, "float16": 5e-3, "bfloat16": 2e-2}
SIZES = [(1, 5, 7), (2, 9, 100), (3, 6, 115), (2, 12, 116), (2, 7, 231), (40, 18, 115)]


def close(got, wanted, tolerance):
    assert np.isfinite(got).all() and abs(got - wanted).max() <= tolerance * abs(wanted).max()


def convolved(data, weight, dtype, context):
    """Result and gradient of the weight; the CPU computes in float32 with numbers of the type."""
    x, w = (nd.array(v, ctx=context).astype(dtype) for v in (data, weight))
    if context == mx.cpu():
        x, w = x.astype("float32"), w.astype("float32")
    w.attach_grad()
    with autograd.record():
        y = nd.Convolution(x, w, kernel=weight.shape[1:3], num_filter=weight.shape[0], no_bias=True, layout="NHWC")
    head = np.random.RandomState(5).randn(*y.shape)
    y.backward(nd.array(head, ctx=context).astype(dtype).astype(y.dtype))
    return [v.astype("float32").asnumpy() for v in (y, w.grad)]


@pytest.mark.parametrize("dtype,channels", [("float32", 12), ("bfloat16", 16), ("float16", 16)])
@pytest.mark.parametrize("window", [(2, 2), (4, 4), (2, 4)])
@pytest.mark.parametrize("filters", [32, 64])
def test_few_channels(dtype, channels, window, filters):
    random = np.random.RandomState(0)
    for size in SIZES:
        data = random.randn(*size, channels).astype("float32")
        weight = random.randn(filters, *window, channels).astype("float32")
        for got, wanted in zip(convolved(data, weight, dtype, mx.gpu(0)), convolved(data, weight, dtype, mx.cpu())):
            close(got, wanted, TOLERANCES[dtype])


@pytest.mark.parametrize("kernel,pad,shape", [((7, 7), (3, 3), (8, 3, 64, 64)), ((3, 3), (1, 1), (4, 3, 33, 47)),
                                              ((5, 2), (0, 1), (4, 1, 30, 29)), ((4, 6), (2, 0), (4, 4, 31, 40))])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_strides_of_two(kernel, pad, shape, dtype):
    """Hybridized, results and gradients."""
    data, seen = np.random.RandomState(1).randn(*shape).astype("float32"), {}
    for context in (mx.cpu(), mx.gpu(0)):
        mx.random.seed(1)
        net = nn.Conv2D(32, kernel, (2, 2), pad, in_channels=shape[1])
        net.initialize(mx.init.Xavier(), ctx=mx.cpu())
        net.collect_params().reset_ctx(context)
        x = nd.array(data, ctx=context)
        if context == mx.gpu(0):
            net.cast(dtype)
            x = x.astype(dtype)
        net.hybridize(static_alloc=True, static_shape=True)
        for _ in range(3):
            with autograd.record():
                y = net(x)
            y.backward(nd.array(np.random.RandomState(2).randn(*y.shape), ctx=context).astype(y.dtype))
        grads = [p.grad(context) for p in net.collect_params().values()]
        seen[context.device_type] = [v.astype("float32").asnumpy() for v in (y, *grads)]
    for got, wanted in zip(seen["gpu"], seen["cpu"]):
        close(got, wanted, TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "uint8"])
def test_transposes(dtype):
    random = np.random.RandomState(0)
    for shape, axes in [((64, 64, 3, 3), (0, 2, 3, 1)), ((512, 3, 3, 512), (0, 3, 1, 2)), ((2, 3, 224, 224), (0, 2, 3, 1)),
                        ((33, 1025), (1, 0)), ((1025, 2), (1, 0)), ((2, 700), (1, 0)), ((5, 7, 11, 13), (3, 2, 1, 0)),
                        ((4, 6, 8, 10), (2, 0, 3, 1)), ((3, 40, 50), (1, 0, 2)), ((3, 4, 5, 6, 7), (4, 0, 2, 1, 3)),
                        ((128, 100, 37), (0, 2, 1)), ((1, 2049, 3), (2, 1, 0))]:
        x = (random.rand(*shape) * 200).astype(dtype)
        assert np.array_equal(nd.transpose(nd.array(x, ctx=mx.gpu(0), dtype=dtype), axes=axes).asnumpy(), x.transpose(axes))


@pytest.mark.skipif(bool(os.environ.get("GLUON_PICTURES_ONCE")), reason="run by the other")
def test_the_other_precision():
    environment = dict(os.environ, GLUON_CUDA_TF32="1" if EXACT else "0", GLUON_PICTURES_ONCE="1")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", "float32", __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
