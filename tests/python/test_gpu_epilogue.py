"""Convolution, bias, addend and limits in one kernel, in predictions of hybridized networks on the GPU, compared with the CPU."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import gluon, nd

pytestmark = pytest.mark.skipif("mx.num_gpus() == 0", reason="there is no GPU")

TOLERANCES = {"float32": 2e-3, "float16": 4e-3, "bfloat16": 3e-2}
LIMITS = {"none": None, "relu": None, "relu6": (0, 6), "band": (-1, 2)}


class Body(gluon.HybridBlock):
    """A convolution on the result of another one, perhaps plus that result, then limits."""

    def __init__(self, filters, limits, residual, **options):
        super().__init__()
        self.limits, self.residual = limits, residual
        with self.name_scope():
            self.first = gluon.nn.Conv2D(filters, 1)
            self.second = gluon.nn.Conv2D(filters, **options)
            self.norm = gluon.nn.BatchNorm()

    def hybrid_forward(self, F, x):
        x = self.first(x)
        y = self.norm(self.second(x))
        y = x + y if self.residual else y
        return y if self.limits == "none" else F.relu(y) if self.limits == "relu" else F.clip(y, *LIMITS[self.limits])


def predict(context, dtype, make, shape, calls=1):
    """The result of a few equal calls of the network; parameters depend only on their shapes."""
    net = make()
    net.initialize(ctx=context)
    draw = np.random.RandomState(3)
    x = draw.uniform(-2, 2, shape)
    net(nd.array(x, ctx=context))
    for parameter in net.collect_params().values():
        scale = 1 / np.sqrt(max(1, np.prod(parameter.shape[1:])))
        low = .5 if "var" in parameter.name or "gamma" in parameter.name else -1
        parameter.set_data(nd.array(draw.uniform(low, 1, parameter.shape) * (2 * scale if len(parameter.shape) > 1 else 1)))
    net.cast(dtype)
    net.hybridize(static_alloc=True, static_shape=True)
    x = nd.array(x, ctx=context).astype(dtype)
    for _ in range(calls):
        y = net(x)
    return y.astype("float32").asnumpy()


def compare(dtype, make, shape):
    want = predict(mx.cpu(0), "float32", make, shape)
    got = predict(mx.gpu(0), dtype, make, shape, calls=4)  # the first one measures, later ones are replayed
    np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCES[dtype] * np.abs(want).max())


CASES = [dict(kernel_size=1), dict(kernel_size=3, padding=1), dict(kernel_size=5, padding=2), dict(kernel_size=3, padding=2, dilation=2),
         dict(kernel_size=(1, 3), padding=(0, 1))]


@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize("limits", list(LIMITS))
@pytest.mark.parametrize("residual", [False, True], ids=["alone", "residual"])
def test_endings(dtype, limits, residual):
    for case, shape, filters in zip(CASES, [(2, 8, 9, 7), (1, 16, 14, 14), (3, 8, 13, 6), (1, 24, 7, 7), (5, 40, 5, 9)],
                                    (64, 256, 24, 136, 40)):
        compare(dtype, lambda: Body(filters, limits, residual, **case), shape)


@pytest.mark.parametrize("dtype", list(TOLERANCES))
def test_strides(dtype):
    for kernel, pad in ((1, 0), (3, 1), (2, 0)):
        compare(dtype, lambda: Body(32, "relu", False, kernel_size=kernel, padding=pad, strides=2), (2, 16, 15, 12))


@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize("kernel,stride", [(3, 1), (3, 2), (5, 1), (5, 2)])
def test_depthwise(dtype, kernel, stride):
    for limits in LIMITS:
        compare(dtype, lambda: Body(16, limits, stride == 1, kernel_size=kernel, padding=kernel // 2, strides=stride, groups=16),
                (2, 8, 11, 9))


@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize("kernel,filters", [(7, 64), (3, 32)])
def test_stem(dtype, kernel, filters):
    def make():
        net = gluon.nn.HybridSequential()
        net.add(gluon.nn.Conv2D(filters, kernel, 2, kernel // 2, use_bias=False), gluon.nn.BatchNorm(), gluon.nn.Activation("relu"),
                gluon.nn.MaxPool2D(3, 2, 1))
        return net
    compare(dtype, make, (2, 3, 64, 60))


def test_nan_is_kept():
    """An image with NaN gives NaN, whatever the kernel and the limits; other images of the batch do not change."""
    for limits in LIMITS:
        for batch in (2, 64):
            net = Body(64, limits, True, kernel_size=3, padding=1)
            net.initialize(ctx=mx.gpu(0))
            x = nd.random.uniform(shape=(batch, 16, 14, 14), ctx=mx.gpu(0))
            net(x)
            net.hybridize(static_alloc=True, static_shape=True)
            x[1] = float("nan")
            y = net(x).asnumpy()
            assert np.isnan(y[1]).all() and not np.isnan(y[0]).any()


def test_parameters_change():
    """Weights that kernels request early are those of the call."""
    net = Body(64, "relu", True, kernel_size=3, padding=1)
    net.initialize(ctx=mx.gpu(0))
    x = nd.random.uniform(shape=(1, 16, 14, 14), ctx=mx.gpu(0))
    net(x)
    net.hybridize(static_alloc=True, static_shape=True)
    for step in range(6):
        for parameter in net.collect_params(".*weight|.*bias").values():
            parameter.set_data(parameter.data() + .1)
        got = net(x).asnumpy()
        net.hybridize(False)
        want = net(x).asnumpy()
        net.hybridize(static_alloc=True, static_shape=True)
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-3 * np.abs(want).max())
