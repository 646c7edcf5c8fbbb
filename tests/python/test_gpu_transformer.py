"""The kernels around attention on a GPU give the CPU's numbers: normalisation, gelu between dense layers, embeddings, products."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

pytestmark = pytest.mark.skipif("mx.num_gpus() == 0", reason="there is no GPU")

TOLERANCE = {"float32": 1e-3, "float16": 5e-3, "bfloat16": 4e-2}  # products of float32 may be TF32
NARROW = ["float16", "bfloat16"]


def compare(results, dtype):
    """Results and gradients of the GPU against those of the CPU in float64."""
    for got, wanted in zip(*results):
        wanted = wanted.asnumpy()
        np.testing.assert_allclose(got.astype("float64").asnumpy(), wanted, rtol=TOLERANCE[dtype],
                                   atol=TOLERANCE[dtype] * (np.abs(wanted).max() + 1e-9))


def trained(make, shape, dtype, steps=1, seed=0):
    """Output, gradients of data and of all parameters: on the GPU in dtype, on the CPU in float64, from the same numbers."""
    numbers, results = np.random.RandomState(seed), []
    data = numbers.uniform(-2, 2, shape)
    values, slope = {}, None
    for context, kind in ((mx.gpu(0), dtype), (mx.cpu(0), "float64")):
        net = make()
        net.initialize(ctx=context)
        net.cast(kind)
        x = nd.array(data, dtype=dtype).astype(kind).as_in_context(context)
        x.attach_grad()
        net.hybridize()
        net(x)
        for i, p in enumerate(net.collect_params().values()):
            values.setdefault(i, numbers.uniform(-1, 1, p.shape) / np.sqrt(p.shape[-1]) + (len(p.shape) == 1))
            p.set_data(nd.array(values[i], dtype=dtype).astype(kind))
        for _ in range(steps):
            with autograd.record():
                y = net(x)
            slope = numbers.uniform(-1, 1, y.shape) if slope is None else slope
            y.backward(nd.array(slope, dtype=dtype).astype(kind).as_in_context(context))
        results.append([y, x.grad] + [p.grad(context) for p in net.collect_params().values()])
    return results


# ---- LayerNorm ----------------------------------------------------------------------------------------------------------

class Residual(gluon.HybridBlock):
    """x + norm(x): the addition is part of the gradient's kernel."""

    def __init__(self, units):
        super().__init__()
        with self.name_scope():
            self.norm = nn.LayerNorm(in_channels=units)

    def hybrid_forward(self, F, x):
        return x + self.norm(x)


@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
@pytest.mark.parametrize("rows, units", [(1, 8), (3, 16), (37, 256), (16, 264), (700, 768), (4001, 768), (9, 1000),
                                         (130, 2048), (67, 4096), (5, 8192), (11, 100)])
def test_gradient_of_layer_norm(rows, units, dtype):
    compare(trained(lambda: nn.LayerNorm(in_channels=units), (rows, units), dtype), dtype)
    compare(trained(lambda: Residual(units), (rows, units), dtype), dtype)


# ---- gelu between dense layers ------------------------------------------------------------------------------------------

def perceptron(hidden, units, flatten):
    net = nn.HybridSequential()
    net.add(nn.Dense(hidden, flatten=flatten), nn.GELU(), nn.Dense(units, flatten=flatten))
    return net


@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
@pytest.mark.parametrize("shape, hidden", [((3, 5, 16), 64), ((2, 3, 8), 13), ((130, 24), 40), ((4, 300, 32), 3072),
                                           ((1, 8), 4104), ((7, 6), 7)])
def test_gelu_between_dense_layers(shape, hidden, dtype):
    for steps in (1, 3):  # plans are captured in the second run
        compare(trained(lambda: perceptron(hidden, 16, len(shape) == 2), shape, dtype, steps), dtype)


# ---- embeddings ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
@pytest.mark.parametrize("words, units, count", [(50, 64, 700), (1000, 768, 37), (7, 8, 1), (20, 12, 90), (3, 16, 4000)])
def test_gradient_of_an_embedding(words, units, count, dtype):
    """Words occur several times, some not at all; indices outside are limited."""
    numbers, results = np.random.RandomState(4), []
    indices = numbers.randint(-2, max(words - 3, 2) + 4, (count,))
    weight, slope = numbers.uniform(-1, 1, (words, units)), numbers.uniform(-1, 1, (count, units))
    for context, kind in ((mx.gpu(0), dtype), (mx.cpu(0), "float64")):
        net = nn.Embedding(words, units)
        net.initialize(ctx=context)
        net.cast(kind)
        net.weight.set_data(nd.array(weight, dtype=dtype).astype(kind))
        net.hybridize()
        with autograd.record():
            y = net(nd.array(indices, ctx=context))
        y.backward(nd.array(slope, dtype=dtype).astype(kind).as_in_context(context))
        results.append([y, net.weight.grad(context)])
    compare(results, dtype)


# ---- large products -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("rows, features, hidden", [(8192, 768, 768), (2048, 2304, 1024), (4096, 520, 2056)])
def test_large_products(rows, features, hidden, dtype):
    """Of many operations: the library's algorithms and others are timed."""
    numbers = np.random.RandomState(6)
    x, w, b, g = (nd.array(numbers.uniform(-1, 1, s), dtype=dtype).astype("float32").asnumpy()
                  for s in ((rows, features), (hidden, features), (hidden,), (rows, hidden)))
    net = nn.Dense(hidden, in_units=features)
    net.initialize(ctx=mx.gpu(0))
    net.cast(dtype)
    net.weight.set_data(nd.array(w).astype(dtype))
    net.bias.set_data(nd.array(b).astype(dtype))
    net.hybridize()
    data, slope = (nd.array(v, ctx=mx.gpu(0)).astype(dtype) for v in (x, g))
    data.attach_grad()
    for _ in range(3):
        with autograd.record():
            y = net(data)
        y.backward(slope)
    weight, bias = net.weight.grad(mx.gpu(0)), net.bias.grad(mx.gpu(0))
    for got, wanted in ((y, x @ w.T + b), (data.grad, g @ w), (weight, g.T @ x), (bias, g.sum(0))):
        np.testing.assert_allclose(got.astype("float32").asnumpy(), wanted, rtol=TOLERANCE[dtype],
                                   atol=TOLERANCE[dtype] * np.abs(wanted).max())
