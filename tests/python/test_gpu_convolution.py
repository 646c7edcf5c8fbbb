"""Convolutions on the GPU compared with float64 on the CPU: sizes that our own kernel takes (convolution_small.cu), whose
tiles meet their borders in many ways.  In TF32 or, with GLUON_CUDA_TF32=0, nearly in the precision of float32."""
import os

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

pytestmark = pytest.mark.skipif("mx.num_gpus() == 0", reason="there is no GPU")

TOLERANCE = 3e-6 if os.environ.get("GLUON_CUDA_TF32") == "0" else 2e-3

#         batch, channels, image, results, kernel, stride, pad, dilation
CASES = [(64, 1, (28, 28), 20, (5, 5), 1, 0, 1),
         (64, 20, (12, 12), 50, (5, 5), 1, 0, 1),
         (64, 3, (32, 32), 16, (3, 3), 1, 1, 1),
         (1, 64, (14, 14), 64, (3, 3), 1, 1, 1),
         (2, 3, (9, 7), 5, (3, 2), 2, 1, 1),
         (3, 1, (17, 19), 1, (4, 3), 1, 2, 1),
         (8, 16, (13, 13), 24, (3, 3), 2, 1, 1),
         (4, 8, (20, 20), 33, (3, 3), 1, 2, 2),
         (64, 64, (7, 7), 64, (1, 1), 1, 0, 1),
         (1, 3, (64, 64), 64, (7, 7), 2, 3, 1),
         (7, 2, (31, 5), 9, (1, 5), 1, 0, 1),
         (1, 2, (12, 500), 8, (3, 3), 1, 1, 1),
         (33, 5, (11, 11), 40, (3, 3), 3, 0, 1),
         (2, 48, (10, 10), 130, (3, 3), 1, 1, 1)]


def results(context, dtype, hybrid, case):
    """The output and the gradients of data, weight and bias."""
    batch, channels, image, count, kernel, stride, pad, dilation = case
    draw = np.random.RandomState(1)
    x, weight, bias = (draw.uniform(-1, 1, shape).astype("float32")
                       for shape in ((batch, channels, *image), (count, channels, *kernel), (count,)))
    net = gluon.nn.Conv2D(count, kernel, strides=stride, padding=pad, dilation=dilation, in_channels=channels)
    net.cast(dtype)
    net.initialize(ctx=context)
    net.weight.set_data(nd.array(weight, dtype=dtype))
    net.bias.set_data(nd.array(bias, dtype=dtype))
    if hybrid:
        net.hybridize(static_alloc=True, static_shape=True)
    x = nd.array(x, ctx=context, dtype=dtype)
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward(nd.array(draw.uniform(-1, 1, y.shape).astype("float32"), ctx=context, dtype=dtype))
    return [a.asnumpy() for a in (y, x.grad, net.weight.grad(), net.bias.grad())]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution(case):
    wanted = results(mx.cpu(0), "float64", False, case)
    for hybrid in (False, True):  # hybridized, the gradients of weight and bias are made together
        for got, want, what in zip(results(mx.gpu(0), "float32", hybrid, case), wanted, ("y", "dx", "dw", "db")):
            np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE * np.abs(want).max(), err_msg=what)


@pytest.mark.parametrize("shape", [(2, 3, 6, 7), (5, 20, 4, 4)], ids=str)
def test_deconvolution(shape):
    """Forward it is the gradient of the data, with a bias."""
    draw = np.random.RandomState(2)
    x, weight, bias = (draw.uniform(-1, 1, s).astype("float32") for s in (shape, (shape[1], 6, 3, 3), (6,)))
    here, there = (nd.Deconvolution(*(nd.array(a, ctx=context, dtype=dtype) for a in (x, weight, bias)), kernel=(3, 3),
                                    num_filter=6, pad=(1, 1), no_bias=False).asnumpy()
                   for context, dtype in ((mx.cpu(0), "float64"), (mx.gpu(0), "float32")))
    np.testing.assert_allclose(there, here, rtol=0, atol=TOLERANCE * np.abs(here).max())


# ---- depthwise, channels last -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("kernel,stride,pad,size", [(3, 1, 1, (9, 30)), (3, 2, 1, (10, 17)), (5, 1, 2, (8, 8)), (5, 2, 1, (11, 9)), (3, 1, 0, (6, 40))])
def test_depthwise(dtype, kernel, stride, pad, size):
    """A hybridized network of depthwise convolutions with relu6 gives the CPU's results and gradients."""
    def outcome(context, hybridize):
        mx.random.seed(2)
        net = nn.HybridSequential()
        net.add(nn.Conv2D(16, 1, in_channels=8), nn.BatchNorm(), nn.HybridLambda(lambda F, x: F.clip(x, 0, 6)),
                nn.Conv2D(16, kernel, stride, pad, groups=16, in_channels=16), nn.BatchNorm(),
                nn.HybridLambda(lambda F, x: F.clip(x, 0, 1)), nn.Conv2D(8, 1, in_channels=16))
        net.initialize(mx.init.Normal(0.5), ctx=mx.cpu())
        net(nd.zeros((1, 8, *size)))
        net.collect_params().reset_ctx(context)
        net.cast(dtype if hybridize else "float32")
        if hybridize:
            net.hybridize()
        x = nd.array(np.random.RandomState(4).normal(size=(3, 8, *size)), ctx=context).astype(dtype)
        x = x if hybridize else x.astype("float32")
        x.attach_grad()
        with autograd.record():
            y = net(x)
            (y * y).sum().backward()
        gradients = {name.split("_", 1)[1]: p.grad() for name, p in net.collect_params().items() if p.grad_req != "null"}
        return [a.astype("float64").asnumpy() for a in (y, x.grad, *gradients.values(), net(x))]
    tolerance = {"float32": 5e-3, "float16": 3e-2, "bfloat16": 2e-1}[dtype]
    for got, wanted in zip(outcome(mx.gpu(0), True), outcome(mx.cpu(), False)):
        wrong = np.abs(got - wanted) > tolerance * (np.abs(wanted).max() + 1e-9)
        assert wrong.sum() <= max(2, 0.02 * wrong.size)  # a number at the edge of a clip may be on the other side after rounding
