"""Attention on a GPU compared with the CPU: every kind of rows, type, mask and size; long rows; steps of whole networks."""
import os
import subprocess
import sys

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

pytestmark = pytest.mark.skipif("mx.num_gpus() == 0", reason="there is no GPU")

GPU = mx.gpu(0)
TOLERANCE = {"float32": 5e-3, "float16": 1e-2, "bfloat16": 6e-2, "float64": 1e-9}


def arrays(roles, heads, kv_heads, queries, keys, size, batch=2, layout="NTC"):
    """Inputs of the operator as NumPy arrays."""
    kv_heads = kv_heads or heads
    columns = {"apart": (heads, kv_heads, kv_heads), "packed": (heads + 2 * kv_heads,), "interleaved": (3 * heads,),
               "kv_interleaved": (heads, 2 * kv_heads)}[roles]
    lengths = (queries, keys, keys)
    shapes = [(batch, lengths[i], c * size) for i, c in enumerate(columns)]
    return [np.random.normal(size=s if layout == "NTC" else (s[1], s[0], s[2])).astype("float32") for s in shapes]


def outcome(context, dtype, inputs, extra, **options):
    """Result and gradients as NumPy arrays; extra: mask and valid_length."""
    mx.random.seed(7)
    options.update({f"use_{'length' if name == 'valid_length' else name}": True for name in extra})
    given = [nd.array(x, ctx=context).astype(dtype) for x in inputs]
    for x in given:
        x.attach_grad()
    with autograd.record():
        y = nd.contrib.attention(*given, **{name: nd.array(x, ctx=context) for name, x in extra.items()}, **options)
        (y * nd.array(np.cos(np.arange(y.size)).reshape(y.shape), ctx=context).astype(dtype)).sum().backward()
    return [y.astype("float32").asnumpy()] + [x.grad.astype("float32").asnumpy() for x in given]


def compare(dtype, inputs, extra=None, **options):
    if dtype in ("float16", "bfloat16"):  # both sides start from the rounded numbers
        inputs = [nd.array(x).astype(dtype).astype("float32").asnumpy() for x in inputs]
    extra = extra or {}
    wanted = outcome(mx.cpu(), "float64" if dtype == "float64" else "float32", inputs, extra, **options)
    for name, got, want in zip(("output", "query", "key", "value"), outcome(GPU, dtype, inputs, extra, **options), wanted):
        scale = max(1.0, float(np.abs(want).max()))
        np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE[dtype] * scale, err_msg=name)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("roles", ["apart", "packed", "interleaved", "kv_interleaved"])
@pytest.mark.parametrize("layout", ["NTC", "TNC"])
def test_roles(dtype, roles, layout):
    length = 70
    inputs = arrays(roles, 3, 0, length, length if roles in ("packed", "interleaved") else 45, 16, layout=layout)
    compare(dtype, inputs, heads=3, roles=roles, layout=layout)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("size", [8, 24, 64, 72, 128, 200, 256, 5, 264])
@pytest.mark.parametrize("causal", [False, True])
def test_sizes(dtype, size, causal):
    compare(dtype, arrays("apart", 2, 0, 130, 150, size, batch=1), heads=2, causal=causal)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("causal", [False, True])
def test_grouped_queries_lengths_and_masks(dtype, causal):
    inputs, lengths = arrays("apart", 4, 2, 100, 133, 32, batch=3), np.array([133, 1, 77], "float32")
    mask = (np.random.uniform(size=(3, 4, 100, 133)) < 0.7).astype("float32")
    compare(dtype, inputs, heads=4, kv_heads=2, causal=causal)
    compare(dtype, inputs, {"valid_length": lengths}, heads=4, kv_heads=2, causal=causal)
    compare(dtype, inputs, {"mask": mask}, heads=4, kv_heads=2, causal=causal)
    compare(dtype, inputs, {"mask": mask[:1, :1], "valid_length": lengths}, heads=4, kv_heads=2)
    compare(dtype, inputs, {"mask": np.zeros((1, 100, 133), "float32")}, heads=4, kv_heads=2)  # sees nothing


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("causal", [False, True])
def test_shapes_of_fused_library_kernels(dtype, size, causal):
    """No mask, no dropout: cuDNN's kernels, where it has them."""
    for roles, layout in (("packed", "NTC"), ("interleaved", "TNC")):
        compare(dtype, arrays(roles, 2, 0, 256, 256, size, layout=layout), heads=2, roles=roles, layout=layout, causal=causal)
    compare(dtype, arrays("apart", 4, 2, 192, 192, size), heads=4, kv_heads=2, causal=causal)
    compare(dtype, arrays("apart", 2, 0, 100, 333, size), heads=2, scale=0.2)


REPRODUCED = """
import numpy as np
import mxnet as mx
from mxnet import autograd, nd

def gradient(x):
    x.attach_grad()
    with autograd.record():
        y = nd.contrib.attention(x, heads=8, roles="packed", causal=True)
    y.backward(nd.cos(nd.arange(y.size // len(y), ctx=mx.gpu(0))).reshape((1,) + y.shape[1:]).broadcast_to(y.shape).astype("bfloat16"))
    return x.grad.astype("float32").asnumpy()

for length in (256, 3072):      # the weights of all entries at once; of a few at a time
    x = nd.random.normal(shape=(6, length, 3 * 8 * 64), ctx=mx.gpu(0)).astype("bfloat16")
    first = gradient(x)
    assert all(np.array_equal(first, gradient(x)) for _ in range(5)), length
    assert np.abs(first[5:] - gradient(x[5:])).max() < 0.02 * np.abs(first).max(), length
"""


def test_gradients_are_reproducible_where_this_is_asked_for():
    environment = dict(os.environ, MXNET_ENFORCE_DETERMINISM="1")
    run = subprocess.run([sys.executable, "-c", REPRODUCED], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_dropout_is_that_of_the_cpu(dtype):
    """The same seed drops the same weights."""
    compare(dtype, arrays("packed", 2, 0, 96, 96, 16), heads=2, roles="packed", causal=True, dropout=0.3)


def test_gradient_of_gradient():
    def second(context):
        x = nd.array(np.random.RandomState(3).normal(size=(1, 6, 24)), ctx=context, dtype="float64")
        x.attach_grad()
        with autograd.record():
            y = nd.contrib.attention(x, heads=2, roles="packed", causal=True)
            first = autograd.grad((y * y).sum(), x, create_graph=True, retain_graph=True)[0]
            (first * first).sum().backward()
        return x.grad.asnumpy()
    np.testing.assert_allclose(second(GPU), second(mx.cpu()), rtol=1e-8, atol=1e-9)


def test_long_sequences_need_memory_linear_in_length():
    x = nd.random.normal(shape=(1, 16384, 3 * 64), ctx=GPU).astype("bfloat16")
    x.attach_grad()
    before = mx.context.gpu_memory_used()[0]
    with autograd.record():
        y = nd.contrib.attention(x, heads=1, roles="packed", causal=True)
    y.backward()
    nd.waitall()
    assert np.isfinite(x.grad.astype("float32").asnumpy()).all()
    assert mx.context.gpu_memory_used()[1] - before < 200 << 20  # scores alone would be 512 MB


class Classifier(gluon.HybridBlock):
    """Scores of so many classes that rows are not aligned."""

    def __init__(self, classes, bias):
        super().__init__()
        with self.name_scope():
            self.inside = nn.Dense(32, flatten=False, in_units=16, activation="relu")
            self.scores = nn.Dense(classes, flatten=False, in_units=32, use_bias=bias)

    def hybrid_forward(self, F, x):
        return self.scores(self.inside(x))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("bias", [False, True])
def test_many_classes(dtype, bias):
    """A whole step on a GPU gives the parameters of an imperative one on the CPU; labels out of range are clipped alike."""
    def trained(context, whole):
        mx.random.seed(1)
        net, loss = Classifier(1501, bias), gluon.loss.SoftmaxCrossEntropyLoss()
        net.initialize(mx.init.Normal(0.2), ctx=mx.cpu())
        net.collect_params().reset_ctx(context)
        net.cast(dtype)
        rates = {"learning_rate": 0.5, "multi_precision": dtype != "float32"}
        trainer = gluon.Trainer(net.collect_params(), "sgd", rates)
        random = np.random.RandomState(5)
        x = nd.array(random.normal(size=(6, 4, 16)), ctx=context).astype(dtype)
        y = nd.array(random.randint(0, 1501, (6, 4)), ctx=context)
        y[0, 0], y[1, 1] = 5000, -3
        if whole:
            net.hybridize(static_alloc=True, static_shape=True)
            loss.hybridize()
            step = gluon.TrainStep(net, loss, trainer)
        for _ in range(3):
            if whole:
                step(x, y)
                continue
            with autograd.record():
                value = loss(net(x), y)
            value.backward()
            trainer.step(6)
        return [p.data().astype("float32").asnumpy() for p in net.collect_params().values()]
    for got, want in zip(trained(GPU, True), trained(mx.cpu(), False)):
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-3 if dtype == "float32" else 3e-2)
