"""Sizes that the operators' own samples do not reach, on the GPU compared with the CPU: matrices of several blocks, long rows,
places that are named twice; and the same random numbers."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, nd

pytestmark = pytest.mark.skipif("mx.num_gpus() == 0", reason="there is no GPU")


def waves(*shape):
    return np.cos(np.arange(np.prod(shape)) * 1.7).reshape(shape)


def arrays(values, context, dtype):
    return [nd.array(value, ctx=context, dtype=dtype) for value in values]


def with_gradients(function, values, context, dtype):
    """Results and gradients as NumPy arrays."""
    inputs = arrays(values, context, dtype)
    for x in inputs:
        x.attach_grad()
    mx.random.seed(5)
    with autograd.record():
        results = function(*inputs)
        results = list(results) if isinstance(results, (list, tuple)) else [results]
    autograd.backward(results, [nd.ones_like(y) * 0.7 for y in results])
    return [x.asnumpy() for x in results + [x.grad for x in inputs]]


def same(function, *values, dtype="float64", tolerance=1e-9, gradient=True):
    def run(context):
        if gradient:
            return with_gradients(function, values, context, dtype)
        mx.random.seed(5)
        with context:
            results = function(*arrays(values, context, dtype))
        return [x.asnumpy() for x in (results if isinstance(results, (list, tuple)) else [results])]

    for here, there in zip(run(mx.cpu(0)), run(mx.gpu(0))):
        assert here.shape == there.shape
        scale = max(float(np.abs(here).max(initial=0)), 1e-3) if here.size else 1.0
        np.testing.assert_allclose(there, here, rtol=tolerance, atol=tolerance * scale)


# ---- linear algebra ------------------------------------------------------------------------------------------------

SIZES = [(1, 1), (3, 7), (2, 32), (5, 33), (2, 100), (1, 300), (70, 65)]


def triangle(batch, n, lower):
    matrix = np.tril(waves(batch, n, n)) + np.eye(n) * (3 + n / 3)
    return matrix if lower else matrix.transpose(0, 2, 1)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("batch, n", SIZES)
def test_cholesky(batch, n, lower):
    matrix = waves(batch, n, n)
    same(lambda x: nd.linalg.potrf(x, lower=lower), np.matmul(matrix, matrix.transpose(0, 2, 1)) + np.eye(n) * n)
    same(lambda x: nd.linalg.potri(x, lower=lower), triangle(batch, n, lower))


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("batch, n", [(3, 7), (5, 33), (2, 100)])
def test_triangular(batch, n, lower, transpose, right):
    other = waves(batch, *((41, n) if right else (n, 5)))
    for operator in (nd.linalg.trsm, nd.linalg.trmm):
        same(lambda a, b: operator(a, b, lower=lower, transpose=transpose, rightside=right, alpha=1.5),  # noqa: B023
             triangle(batch, n, lower), other)


@pytest.mark.parametrize("batch, n", SIZES)
def test_lu(batch, n):
    matrix = np.random.RandomState(n).uniform(-1, 1, (batch, n, n))
    same(nd.linalg.inverse, matrix + 2 * np.eye(n), tolerance=1e-7)
    same(nd.linalg.slogdet, matrix, gradient=False)
    same(nd.linalg.det, matrix / np.sqrt(n), tolerance=1e-7)


def test_values_that_are_wrong():
    """No call waits for them: they are raised, once, when values are next read on the host; results are intact."""
    factor = nd.linalg.potrf(nd.array(-np.eye(40), ctx=mx.gpu(0)))
    with pytest.raises(mx.MXNetError, match="_linalg_potrf: matrix 0 is not positive definite"):
        factor.asnumpy()
    assert np.isnan(factor.asnumpy()[0, 0])
    inverse = nd.linalg.inverse(nd.array(np.stack([np.eye(40) * 2, np.ones((40, 40))]), ctx=mx.gpu(0)))
    with pytest.raises(mx.MXNetError, match="_linalg_inverse: matrix 1 is singular"):
        inverse.asnumpy()
    np.testing.assert_allclose(inverse[0].asnumpy(), np.eye(40) / 2)
    for call in (lambda x, i: nd.gather_nd(x, i), lambda x, i: nd.scatter_nd(x[0], i, shape=(2, 3)),
                 lambda x, i: nd.contrib.index_copy(x, i[0], x)):
        result = call(nd.ones((2, 2), ctx=mx.gpu(0)), nd.array([[0, 7], [0, 1]], ctx=mx.gpu(0)))
        with pytest.raises(IndexError, match="index 7 is outside an axis of size 2"):
            result.asnumpy()
        assert result.asnumpy().size
    with pytest.raises(IndexError, match="index 9 is outside axis 1 of size 3"):  # seen on the host
        nd.ones((2, 3), ctx=mx.gpu(0))[[0, 1], [2, 9]] = 1


@pytest.mark.parametrize("batch, n", SIZES)
def test_eigenvalues_and_rows(batch, n):
    matrix = np.random.RandomState(n).uniform(-1, 1, (batch, n, n))
    vectors, values = nd.linalg.syevd(nd.array(matrix + matrix.transpose(0, 2, 1), ctx=mx.gpu(0), dtype="float64"))
    vectors, values = vectors.asnumpy(), values.asnumpy()
    np.testing.assert_allclose(np.matmul(vectors.transpose(0, 2, 1) * values[:, None, :], vectors),
                               matrix + matrix.transpose(0, 2, 1), atol=1e-10)
    same(nd.linalg.gelqf, np.concatenate([matrix, waves(batch, n, 2)], axis=2))


def test_products_along_another_axis():
    same(lambda a, b, c: nd.linalg.gemm(a, b, c, axis=1, alpha=2, beta=0.5), waves(2, 6, 3, 4), waves(2, 4, 3, 5),
         waves(2, 6, 3, 5))
    same(lambda a, b: nd.linalg.gemm2(a, b, axis=1), waves(2, 6, 3, 4), waves(2, 4, 3, 5))


# ---- rows ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("n", [1, 2, 3, 12, 97, 100, 1000, 1024])
def test_fourier(n):
    same(nd.contrib.fft, waves(5, n))
    same(nd.contrib.ifft, waves(5, 2 * n))


@pytest.mark.parametrize("shape, axis", [((100003,), None), ((7, 5000), 1), ((3, 40, 500), 0), ((300, 3), 0)])
def test_running_sums(shape, axis):
    same(lambda x: nd.cumsum(x, axis=axis), waves(*shape))


def test_places_named_twice():
    places = np.random.RandomState(0).randint(0, 60, (2, 5000))
    same(lambda v, p: nd.scatter_nd(v, p, shape=(60, 60)), waves(5000), places, gradient=False, tolerance=0)
    same(lambda x, v, p: nd.contrib.index_copy(x, p, v), waves(60, 4), waves(5000, 4), places[0], gradient=False,
         tolerance=0)


def test_mask():
    mask = np.random.RandomState(0).randint(0, 2, 50000)
    same(lambda x, m: nd.contrib.boolean_mask(x, m), waves(50000, 3), mask, gradient=False, tolerance=0)
    same(lambda x: nd.contrib.boolean_mask(x, nd.array(mask, ctx=x.context)), waves(50000, 3), tolerance=0)


def test_histogram():
    same(lambda x: nd.histogram(x, bins=50), waves(100000), gradient=False, tolerance=1e-12)


# ---- random numbers ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("n", [1, 2, 33, 1025, 30000])
def test_shuffle(n):
    same(nd.random.shuffle, np.arange(3 * n).reshape(n, 3), gradient=False, tolerance=0)


@pytest.mark.parametrize("name, parameters", [
    ("gamma", (0.3, 2)), ("gamma", (7, 2)), ("exponential", (2,)), ("poisson", (3,)), ("poisson", (300,)),
    ("negative_binomial", (4, 0.3)), ("generalized_negative_binomial", (5, 0.2))])
def test_distributions(name, parameters):
    draw = getattr(nd.random, name)
    same(lambda: draw(*parameters, shape=(50, 211), dtype="float64"), gradient=False)
    same(lambda *p: draw(*p, shape=(77,)), *[np.full((2, 3), p) for p in parameters], gradient=False)


def test_classes():
    chances = np.abs(waves(6, 1000)) / 1000
    same(lambda p: nd.random.multinomial(p, shape=500, get_prob=True), chances, gradient=False)
    same(lambda: nd._internal._sample_unique_zipfian(5000, shape=(3, 2000)), gradient=False, tolerance=0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("shape, attributes", [
    ((2, 3, 8, 6), {"kernel": (2, 2), "stride": (2, 2)}), ((1, 2, 7, 9), {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}),
    ((2, 5, 4, 6), {"kernel": (2, 3), "layout": "NHWC"}), ((2, 3, 9), {"global_pool": True}), ((1, 2, 4, 5, 6), {"kernel": (2, 2, 3)}),
])
def test_max_pooling_is_differentiated_twice(shape, attributes, dtype):
    def twice(context):
        x = nd.array(np.random.RandomState(1).permutation(int(np.prod(shape))).reshape(shape) / 100, ctx=context).astype(dtype)
        head = nd.ones_like(nd.Pooling(x, pool_type="max", **attributes)) * 3
        x.attach_grad()
        head.attach_grad()
        with autograd.record():
            y = nd.Pooling(x, pool_type="max", **attributes)
            first = autograd.grad(y, x, head_grads=head, create_graph=True, retain_graph=True)[0]
            z = (first * first * x).sum()
        z.backward()
        return first.asnumpy(), x.grad.asnumpy(), head.grad.asnumpy()

    for here, there in zip(twice(mx.cpu()), twice(mx.gpu(0))):
        np.testing.assert_allclose(there, here, rtol=2e-3 if dtype == "float16" else 1e-6, atol=1e-6)
