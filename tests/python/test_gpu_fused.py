"""What runs fused on a GPU gives the CPU's numbers: updates of all parameters, products, chains compiled at run time."""
import os
import subprocess
import sys

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

pytestmark = pytest.mark.skipif("mx.num_gpus() == 0", reason="there is no GPU")

TOLERANCE = {"float32": 1e-5, "float16": 5e-3, "bfloat16": 4e-2}


def close(got, wanted, dtype="float32"):
    got, wanted = (x.astype("float64").asnumpy() if isinstance(x, nd.NDArray) else x for x in (got, wanted))
    np.testing.assert_allclose(got, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * (np.abs(wanted).max() + 1e-9))


# ---- updates of all parameters ----------------------------------------------------------------------------------------

def trained(context, optimizer, options, whole, dtype, layers):
    mx.random.seed(5)
    net = nn.HybridSequential()
    for _ in range(layers):
        net.add(nn.Dense(17, activation="relu"))
    net.add(nn.Dense(4))
    net.initialize(mx.init.Xavier(), ctx=mx.cpu(0))
    net(nd.ones((2, 9), ctx=mx.cpu(0)))
    net.collect_params().reset_ctx(context)
    net.cast(dtype)
    net.hybridize()
    for i, parameter in enumerate(net.collect_params().values()):
        parameter.lr_mult = 1 + 0.1 * (i % 7)
    loss, trainer = gluon.loss.SoftmaxCrossEntropyLoss(), gluon.Trainer(net.collect_params(), optimizer, options)
    numbers = np.random.RandomState(1)
    x = nd.array(numbers.rand(8, 9), ctx=context).astype(dtype)
    y = nd.array(numbers.randint(0, 4, 8), ctx=context)
    step = gluon.TrainStep(net, loss, trainer)
    for _ in range(3):
        if whole:
            step(x, y)
            continue
        with autograd.record():
            value = loss(net(x), y)
        value.backward()
        trainer.step(8)
    assert not whole or step.compiled
    return np.concatenate([p.data(context).astype("float64").asnumpy().ravel() for p in net.collect_params().values()])


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("optimizer", ["sgd", "nag", "adam", "rmsprop", "ftrl", "adagrad"])
def test_updates_of_all_parameters(optimizer, dtype, whole):
    options = {"learning_rate": 0.01, "wd": 0.01, "multi_precision": dtype != "float32"}
    cpu, gpu = (trained(context, optimizer, options, whole, dtype, 3) for context in (mx.cpu(0), mx.gpu(0)))
    # rmsprop's first steps divide tiny gradients by their own size: roundings to 8 bits become steps of lr_mult * 0.03.
    allowed = {"float32": 2e-4, "float16": 2e-2, "bfloat16": 8e-2 if optimizer == "rmsprop" else 2e-2}[dtype]
    np.testing.assert_allclose(gpu, cpu, atol=allowed)


def test_more_tensors_than_one_launch_takes():
    options = {"learning_rate": 0.01, "momentum": 0.9}
    cpu, gpu = (trained(context, "sgd", options, False, "float32", 300) for context in (mx.cpu(0), mx.gpu(0)))
    np.testing.assert_allclose(gpu, cpu, atol=2e-4)


# ---- products ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
@pytest.mark.parametrize("rows, features, hidden", [(64, 784, 256), (1, 100, 10), (7, 13, 5), (128, 64, 1), (3, 1, 8)])
def test_dense_with_its_gradients(rows, features, hidden, dtype):
    """Bias, relu and the gradient of the bias are parts of the products."""
    results, values = [], np.random.RandomState(3)
    x, w, b, g = (values.uniform(-1, 1, s) for s in ((rows, features), (hidden, features), (hidden,), (rows, hidden)))
    for context, kind in ((mx.gpu(0), dtype), (mx.cpu(0), "float64")):
        net = nn.Dense(hidden, in_units=features)
        rectified = nn.Dense(hidden, in_units=features, activation="relu", params=net.params)
        net.initialize(ctx=context)
        net.cast(kind)
        net.weight.set_data(nd.array(w, dtype=dtype).astype(kind))
        net.bias.set_data(nd.array(b, dtype=dtype).astype(kind))
        net.hybridize()
        rectified.hybridize()
        data, ograd = (nd.array(v, dtype=dtype).astype(kind).as_in_context(context) for v in (x, g))
        data.attach_grad()
        for _ in range(2):
            with autograd.record():
                y = net(data)
            y.backward(ograd)
        results.append([y, data.grad, net.weight.grad(context), net.bias.grad(context), rectified(data)])
    for got, wanted in zip(*results):
        close(got, wanted, "float16" if dtype == "float32" and os.environ.get("GLUON_CUDA_TF32") != "0" else dtype)


# ---- chains -----------------------------------------------------------------------------------------------------------

CHAINS = {
    "add relu": lambda F, a, b: F.relu(a + b),
    "scalars": lambda F, a, b: ((a * 2.5 - 1) / 3 + 0.25) * b - (1 - a),
    "powers": lambda F, a, b: (F.abs(a) + 1) ** 3 * (F.abs(b) + 2) ** -0.5,
    "functions": lambda F, a, b: F.tanh(F.exp(F.sin(a) * 0.5) + F.sigmoid(b)) - F.log(F.abs(b) + 1),
    "comparisons": lambda F, a, b: (a > b) * a + (a <= b) * b * 2,
}


class Chain(gluon.HybridBlock):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F, a, b):
        return self.function(F, a, b)


@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
@pytest.mark.parametrize("name", sorted(CHAINS))
def test_chains(name, dtype):
    for shape in ((5,), (4099,), (64, 257)):
        results, values = [], [np.random.uniform(-2, 2, shape) for _ in range(2)]
        for context, kind in ((mx.gpu(0), dtype), (mx.cpu(0), "float64")):
            a, b = (nd.array(v, dtype=dtype).astype(kind).as_in_context(context) for v in values)
            a.attach_grad()
            net = Chain(CHAINS[name])
            net.hybridize()
            with autograd.record():
                y = net(a, b)
            y.backward()
            results.append([y, a.grad])
        for got, wanted in zip(*results):
            close(got, wanted, dtype)


UNARY = {  # by where they are defined
    (-2, 2): "abs square exp expm1 sin cos arctan sinh cosh tanh arcsinh erf relu sigmoid log_sigmoid softsign mish degrees "
             "radians sign rint round ceil floor trunc fix negative",
    (0.3, 3): "sqrt rsqrt cbrt rcbrt reciprocal log log10 log2 log1p gamma gammaln",
    (-0.5, 0.5): "tan arcsin arccos arctanh erfinv",
    (1.2, 3): "arccosh",
}
BINARY = ("add sub mul div mod maximum minimum hypot power equal not_equal greater greater_equal lesser lesser_equal "
          "logical_and logical_or logical_xor")


@pytest.mark.parametrize("shape", [(64, 64), (63, 5)])
def test_every_function_in_a_chain(shape):
    """Each stands between two others, forward and backward, whether or not all elements are read four at a time."""
    numbers = np.random.RandomState(1)
    cases = [(lambda F, a, b, name=name: (getattr(F, name)(a * 1.25) + 0.25) * b, [low / 1.25, high / 1.25])
             for (low, high), names in UNARY.items() for name in names.split()]
    cases += [(lambda F, a, b, name=name: (getattr(F, "broadcast_" + name)(a * 1.5, b) + 0.25) * a, [0.3, 3])
              for name in BINARY.split()]
    cases += [(lambda F, a, b: (2 - a) / (3 / b) + 2 ** a + a ** 1.7 + (a > 1) * 2 + a % 0.7 + 0.7 % b, [0.3, 3])]
    for function, interval in cases:
        results, values = [], [numbers.uniform(*interval, shape).astype("float32") for _ in range(2)]
        for context, kind in ((mx.gpu(0), "float32"), (mx.cpu(0), "float64")):
            a, b = (nd.array(v, ctx=context, dtype=kind) for v in values)
            a.attach_grad()
            b.attach_grad()
            net = Chain(function)
            net.hybridize()
            with autograd.record():
                y = net(a, b)
            y.backward()
            results.append([y, a.grad, b.grad])
        for got, wanted in zip(*results):
            wanted = wanted.asnumpy()
            np.testing.assert_allclose(got.asnumpy(), wanted, rtol=2e-4, atol=2e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
def test_chains_of_arrays_that_begin_anywhere(dtype):
    """One plan, captured once: its arrays move, and four elements cannot always be read at once."""
    net = Chain(CHAINS["functions"])
    net.hybridize(static_alloc=True, static_shape=True)
    values = np.random.RandomState(2).uniform(-2, 2, 5000)
    here = nd.array(values, ctx=mx.cpu(0), dtype=dtype).astype("float64").asnumpy()
    there = nd.array(values, ctx=mx.gpu(0), dtype=dtype)
    for begin in (0, 0, 0, 1, 2, 3, 4, 7, 8, 0):
        a, b = here[begin:begin + 4096], here[10:10 + 4096]
        wanted = np.tanh(np.exp(np.sin(a) * 0.5) + 1 / (1 + np.exp(-b))) - np.log(np.abs(b) + 1)
        close(net(there[begin:begin + 4096], there[10:10 + 4096]), wanted, dtype)


def test_kernels_are_kept_and_damaged_files_do_no_harm(tmp_path):
    program = """
import mxnet as mx
from mxnet import nd, gluon
net = gluon.nn.HybridLambda(lambda F, x: F.tanh(F.sin(x) * 2 + 1) * 3)
net.hybridize()
print(net(nd.ones((5,), ctx=mx.gpu(0))).asnumpy().tolist())
"""
    environment = dict(os.environ, GLUON_KERNEL_CACHE=str(tmp_path / "kernels"))

    def run():
        return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True,
                              check=True).stdout
    first = run()
    files = sorted((tmp_path / "kernels").glob("*"))
    if not files:
        pytest.skip("there is no NVRTC")
    whole = files[0].read_bytes()
    for damaged in (b"", whole[:100], whole[:-1], whole[:200] + b"x" + whole[201:], b"x" * len(whole)):
        files[0].write_bytes(damaged)
        assert run() == first
        assert files[0].read_bytes() == whole


# ---- small calls that wait to be launched together --------------------------------------------------------------------

def test_small_calls_keep_their_order():
    """Whatever comes between them (products, copies, writes into views, uploads), calls see what was made before them."""
    gpu, numbers = mx.gpu(0), np.random.RandomState(11)
    values = [numbers.uniform(-1, 1, (16,)).astype("float32") for _ in range(5)]
    arrays = [nd.array(v, ctx=gpu) for v in values]
    large = numbers.uniform(-1, 1, (100000,)).astype("float32")
    for step in range(1500):
        i, j, k, kind = (int(n) for n in (*numbers.randint(0, 5, 3), numbers.randint(0, 9)))
        (a, b), (x, y) = (arrays[i], arrays[j]), (values[i], values[j])
        if kind < 3:
            made, wanted = a + b, x + y
        elif kind == 3:
            made, wanted = nd.tanh(a) * b - 0.5, np.tanh(x) * y - 0.5
        elif kind == 4:
            a[3:7] = b[1:5]
            values[i] = x = np.concatenate([x[:3], y[1:5], x[7:]])
            made, wanted = a * 2, x * 2
        elif kind == 5:
            made = nd.dot(a.reshape((4, 4)), b.reshape((4, 4))).reshape((16,))
            wanted = (x.reshape(4, 4) @ y.reshape(4, 4)).ravel()
        elif kind == 6:
            at = int(numbers.randint(0, 99984))
            made, wanted = nd.array(large, ctx=gpu)[at:at + 16] + a, large[at:at + 16] + x
        elif kind == 7:
            made, wanted = a.copyto(mx.cpu(0)).as_in_context(gpu) + 1, x + 1
        else:
            made, wanted = a.sum() * nd.ones((16,), ctx=gpu), np.full(16, x.sum())
        arrays[k], values[k] = made / (1 + nd.abs(made).max()), (wanted / (1 + np.abs(wanted).max())).astype("float32")
        if step % 50 == 0:
            for n, array in enumerate(arrays):
                np.testing.assert_allclose(array.asnumpy(), values[n], atol=5e-3)
                values[n] = array.asnumpy()


# ---- residual blocks ----------------------------------------------------------------------------------------------------

class Residual(gluon.HybridBlock):
    """x + dense(gelu(dense(norm(x)))): additions are part of the product and of the gradient of the normalisation."""

    def __init__(self, units, twice):
        super().__init__()
        self._twice = twice
        with self.name_scope():
            self.norm = nn.LayerNorm(in_channels=units)
            self.wide = nn.Dense(2 * units, flatten=False, in_units=units)
            self.gelu = nn.GELU()
            self.narrow = nn.Dense(units, flatten=False, in_units=2 * units)

    def hybrid_forward(self, F, x):
        y = self.narrow(self.gelu(self.wide(self.norm(x))))
        return x + y + y if self._twice else x + y  # y is read twice: the addition stays a step of its own


def gradients_of_blocks(context, dtype, units, twice):
    mx.random.seed(3)
    net = nn.HybridSequential()
    for _ in range(3):
        net.add(Residual(units, twice))
    net.initialize(mx.init.Xavier(), ctx=mx.cpu(0))
    net.collect_params().reset_ctx(context)
    net.cast(dtype)
    net.hybridize()
    numbers = np.random.RandomState(2)
    x, g = (nd.array(numbers.normal(size=(4, 50, units)), ctx=context).astype(dtype) for _ in range(2))
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward(g)
    return [v.astype("float32").asnumpy() for v in [y, x.grad] + [p.grad(context) for p in net.collect_params().values()]]


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("dtype, units", [("float32", 96), ("float32", 37), ("float16", 64), ("bfloat16", 768), ("bfloat16", 2048)])
def test_residual_blocks(dtype, units, twice):
    bound = {"float32": 2e-3, "float16": 2e-2, "bfloat16": 1e-1}[dtype]
    cpu = gradients_of_blocks(mx.cpu(0), "float32", units, twice)
    for got, wanted in zip(gradients_of_blocks(mx.gpu(0), dtype, units, twice), cpu):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=bound * np.abs(wanted).max())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gelu_of_narrow_types(dtype):
    x = np.linspace(-8, 8, 4099).astype("float32")
    outcome = []
    for context in (mx.cpu(0), mx.gpu(0)):
        v = nd.array(x, ctx=context).astype(dtype)
        v.attach_grad()
        with autograd.record():
            y = nd.LeakyReLU(v, act_type="gelu")
        y.backward(nd.ones_like(y))
        outcome.append([y.astype("float32").asnumpy(), v.grad.astype("float32").asnumpy()])
    for got, wanted in zip(outcome[1], outcome[0]):
        np.testing.assert_allclose(got, wanted, rtol={"float16": 2e-3, "bfloat16": 1e-2}[dtype], atol=2e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("rows, hidden", [(1000, 768), (17, 264), (5000, 8), (300, 37)])
def test_gradient_of_a_bias(dtype, rows, hidden):
    """The sums of columns, whichever kernel is chosen."""
    net = nn.Dense(hidden, in_units=64)
    net.initialize(ctx=mx.gpu(0))
    net.cast(dtype)
    net.hybridize()
    g = np.random.RandomState(1).normal(size=(rows, hidden)).astype("float32")
    x = nd.random.normal(shape=(rows, 64), ctx=mx.gpu(0)).astype(dtype)
    for _ in range(2):
        with autograd.record():
            y = net(x)
        y.backward(nd.array(g, ctx=mx.gpu(0)).astype(dtype))
    got = net.bias.grad(mx.gpu(0)).astype("float32").asnumpy()
    np.testing.assert_allclose(got, g.sum(0), rtol=2e-2, atol=2e-2 * np.sqrt(rows))
