"""Random numbers: shapes, types, parameters as numbers and arrays, distributions, seeds."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import nd
from mxnet.test_utils import chi_square_check, mean_check, var_check

SAMPLES = 100000


def test_shapes_and_types():
    assert nd.random.uniform().shape == (1,)
    assert nd.random.uniform(0, 1, 3).shape == (3,)
    assert nd.random.normal(shape=(2, 3), dtype="float64").dtype is np.float64
    assert nd.random.normal(0, 1, (2, 2), "float16").dtype is np.float16
    assert nd.random.randn(2, 3).shape == (2, 3)
    assert nd.random.randint(0, 10, shape=(3,)).dtype is np.int32
    assert nd.random.randint(0, 10, (3,), "int64").dtype is np.int64
    assert nd.random.multinomial(nd.array([0.5, 0.5]), shape=(2, 2)).shape == (2, 2)
    assert nd.random.uniform_like(nd.zeros((2, 3))).shape == (2, 3)
    out = nd.zeros((4,))
    assert nd.random.normal(5, 1, out=out) is out and out.asnumpy().all()
    for name in ("random_uniform", "random_normal", "random_gamma", "random_exponential", "random_poisson", "uniform",
                 "normal"):
        assert getattr(nd, name)(shape=(2,)).shape == (2,)
    assert mx.random.normal is nd.random.normal and mx.rnd is mx.random


def test_arrays_of_parameters():
    low, high = nd.array([[0, 10], [20, 30]]), nd.array([[1, 11], [21, 31]])
    x = nd.random.uniform(low, high, shape=5)
    assert x.shape == (2, 2, 5)
    assert ((x.asnumpy() >= low.asnumpy()[..., None]) & (x.asnumpy() < high.asnumpy()[..., None])).all()
    one = nd.array([1.0, 2.0])
    for call in (lambda: nd.random.normal(one, one, shape=(3,)), lambda: nd.random.gamma(one, one, shape=(3,)),
                 lambda: nd.random.exponential(one, shape=(3,)), lambda: nd.random.poisson(one, shape=(3,)),
                 lambda: nd.random.negative_binomial(one, nd.array([0.5, 0.2]), shape=(3,)),
                 lambda: nd.random.generalized_negative_binomial(one, one, shape=(3,))):
        assert call().shape == (2, 3)


def test_distributions():
    n = SAMPLES
    assert mean_check(lambda k: nd.random.normal(2, 3, shape=(k,)), 2, 3, n)
    assert var_check(lambda k: nd.random.normal(2, 3, shape=(k,)), 3, n)
    uniform = [(i / 10, (i + 1) / 10) for i in range(10)]
    assert chi_square_check(lambda k: nd.random.uniform(shape=(k,)), uniform, [0.1] * 10, n)[0] > 1e-4
    assert chi_square_check(lambda k: nd.random.randint(0, 5, shape=(k,)), list(range(5)), [0.2] * 5, n)[0] > 1e-4
    edges = [-np.log(1 - i / 8) * 2 for i in range(8)] + [1e9]
    buckets = list(zip(edges[:-1], edges[1:]))
    assert chi_square_check(lambda k: nd.random.exponential(2.0, shape=(k,)), buckets, [1 / 8] * 8, n)[0] > 1e-4
    assert chi_square_check(lambda k: nd.random.multinomial(nd.array([0.1, 0.2, 0.7]), shape=(k,)), [0, 1, 2],
                            [0.1, 0.2, 0.7], n)[0] > 1e-4
    from math import exp, factorial
    poisson = [exp(-3) * 3**k / factorial(k) for k in range(12)]
    assert chi_square_check(lambda k: nd.random.poisson(3, shape=(k,)), list(range(12)), poisson, n)[0] > 1e-4
    assert mean_check(lambda k: nd.random.gamma(2, 3, shape=(k,)), 6, np.sqrt(18), n)
    assert mean_check(lambda k: nd.random.negative_binomial(3, 0.4, shape=(k,)), 4.5, np.sqrt(11.25), n)
    assert mean_check(lambda k: nd.random.generalized_negative_binomial(2, 0.3, shape=(k,)), 2, np.sqrt(3.2), n)


def test_the_checks_can_fail():
    wrong = lambda k: nd.random.normal(0.1, 1, shape=(k,))  # noqa: E731
    assert not mean_check(wrong, 0, 1, SAMPLES)
    assert not var_check(lambda k: nd.random.normal(0, 1.1, shape=(k,)), 1, SAMPLES)
    assert chi_square_check(lambda k: nd.random.uniform(0, 1.1, shape=(k,)), [(0, 0.5), (0.5, 1)], [0.5, 0.5],
                            SAMPLES)[0] < 1e-6
    assert chi_square_check(lambda k: nd.random.randint(0, 2, shape=(k,)), [0, 1], [0.45, 0.55], SAMPLES)[0] < 1e-6


def test_multinomial_probabilities():
    p = np.array([[0.1, 0.9], [0.6, 0.4]], "float32")
    x, log = nd.random.multinomial(nd.array(p), shape=4, get_prob=True)
    assert x.shape == log.shape == (2, 4) and x.dtype is np.int32
    assert np.allclose(log.asnumpy(), np.log(np.take_along_axis(p, x.asnumpy(), 1)), atol=1e-5)


def test_shuffle():
    x = nd.arange(100).reshape((50, 2))
    y = nd.random.shuffle(x)
    assert sorted(y[:, 0].asnumpy()) == sorted(x[:, 0].asnumpy()) and (y[:, 1] - y[:, 0]).asnumpy().tolist() == [1] * 50
    assert y.asnumpy().tolist() != x.asnumpy().tolist()


def test_seed():
    draw = lambda: [nd.random.uniform(shape=(100,)).asnumpy(),
                    nd.random.normal(shape=(100000,)).asnumpy()]  # noqa: E731
    mx.random.seed(5)
    first = draw()
    mx.random.seed(5)
    assert all(np.array_equal(a, b) for a, b in zip(first, draw()))
    mx.random.seed(6, ctx=mx.current_context())
    assert not np.array_equal(first[0], draw()[0])
    mx.random.seed(np.int64(5))
    for wrong in ("a", 3.5, None, [1]):
        with pytest.raises(ValueError):
            mx.random.seed(wrong)
    with pytest.raises(ValueError):
        mx.random.seed(1, ctx="cpu")


@pytest.mark.parametrize("call, kind", [
    (lambda: nd.random.uniform(low="a"), ValueError), (lambda: nd.random.uniform(nd.ones(2), 3), AssertionError),
    (lambda: nd.random.uniform(None, 1), ValueError), (lambda: nd.random.exponential(0), ValueError),
    (lambda: nd.random.exponential("a"), ValueError), (lambda: nd.random.poisson(-1), ValueError),
    (lambda: nd.random.randint(0.5, 3), ValueError), (lambda: nd.random.randint(5, 3), ValueError),
    (lambda: nd.random.uniform(shape="a"), ValueError), (lambda: nd.random.uniform(foo=1), ValueError),
    (lambda: nd.random.normal(scale=-1), ValueError), (lambda: nd.random.multinomial([0.5]), TypeError),
    (lambda: nd.random.shuffle(3), TypeError), (lambda: nd.random.uniform(dtype="int16"), (ValueError, TypeError)),
])
def test_wrong_calls(call, kind):
    with pytest.raises(kind):
        call()


def test_rand_zipfian():
    samples, true, sampled = nd.contrib.rand_zipfian(nd.array([3]), 1000, 50)
    assert samples.shape == sampled.shape == (1000,)
    assert (samples.asnumpy() < 50).all() and (samples.asnumpy() >= 0).all()
    expected = np.log(5 / 4) / np.log(51) * 1000
    assert abs(true.asscalar() - expected) < 1e-3


def test_symbols_among_unknown_keywords():
    """Old programs pass data= to random symbols, which have no inputs."""
    for draw in (mx.sym.random.normal, mx.sym.random.uniform):
        symbol = draw(data=mx.sym.var("data"), shape=(2, 3))
        assert symbol.list_arguments() == [] and symbol.infer_shape()[1] == [(2, 3)]
        with pytest.raises(mx.MXNetError):
            draw(shape=(2,), foo=3)
    assert mx.sym.random.randn(2, 3, data=mx.sym.var("data")).infer_shape()[1] == [(2, 3)]
    with pytest.raises(mx.MXNetError):
        mx.nd.random.normal(data=mx.nd.ones(2))
