"""Every distribution of mx.np.random: shapes, types, moments against NumPy's, and gradients of the parameters.

With the same seed the same numbers are drawn, so a draw is a function of its parameters and differences show its gradient.
"""
import inspect

import numpy as onp
import pytest

import mxnet as mx
from mxnet import _core, autograd, np, npx

TABLE = sorted(name.split(".")[-1] for name in _core.np_operators() if name.startswith("np.random.") and not name.endswith("randint"))
SAMPLED = {"gamma": "shape", "beta": "a b", "chisquare": "df"}  # parameters through which no gradient flows: rejection


def parameters(name):
    names = [p.name for p in inspect.signature(getattr(np.random, name)).parameters.values()]
    return [p for p in names if p not in ("size", "dtype", "ctx", "out", "name")]


def values(name, shape=()):
    """Parameters for which all moments exist."""
    start = {"pareto": 5.0, "low": -1.0, "high": 2.0, "loc": 0.5, "mean": 0.5, "sigma": 0.4, "df": 4.0}
    return {p: onp.full(shape, start.get(p, start.get(name, 1.5))) for p in parameters(name)}


@pytest.mark.parametrize("name", TABLE)
def test_shapes_and_types(name):
    function = getattr(np.random, name)
    given = {p: float(v) for p, v in values(name).items()}
    for size, shape in ((None, ()), (3, (3,)), ((2, 3), (2, 3)), ((0, 2), (0, 2)), ((), ())):
        x = function(**given, size=size)
        assert type(x) is np.ndarray and x.shape == shape and x.dtype == "float32"
    arrays = {p: np.array(v) for p, v in values(name, (2, 1)).items()}
    assert function(**arrays).shape == (2, 1) and function(**arrays, size=(4, 2, 3)).shape == (4, 2, 3)
    assert function(**given, size=2, ctx=mx.current_context()).ctx == mx.current_context()
    if "dtype" in inspect.signature(function).parameters:
        assert function(**given, size=2, dtype="float64").dtype == "float64"


@pytest.mark.parametrize("name", TABLE)
def test_moments(name):
    given = {p: float(v) for p, v in values(name).items()}
    mine = getattr(np.random, name)(**given, size=60000).asnumpy()
    wanted = getattr(onp.random, name)(*given.values(), size=60000)
    assert abs(mine.mean() - wanted.mean()) < 0.05 * wanted.std() and abs(mine.std() / wanted.std() - 1) < 0.1


@pytest.mark.parametrize("name", TABLE)
def test_gradients(name):
    function, step = getattr(np.random, name), 1e-5
    for parameter in set(parameters(name)) - set(SAMPLED.get(name, "").split()):
        def total(value):
            mx.random.seed(11)
            given = {p: np.array(v, dtype="float64") for p, v in values(name, (3,)).items()}
            given[parameter] = value
            how = {"dtype": "float64"} if "dtype" in inspect.signature(function).parameters else {}
            return (function(**given, **how) * np.array([1, 2, 3], dtype="float64")).sum()
        x = np.array(values(name, (3,))[parameter], dtype="float64")
        x.attach_grad()
        with autograd.record():
            y = total(x)
        y.backward()
        numeric = [(total(x + step * np.array(e, dtype="float64")).item() - total(x - step * np.array(e, dtype="float64")).item()) / (2 * step)
                   for e in onp.eye(3)]
        onp.testing.assert_allclose(x.grad.asnumpy(), numeric, rtol=2e-3, atol=2e-3)


def test_other_draws():
    assert npx.random.normal_n(np.zeros(3), 1.0, batch_shape=(2,)).shape == (2, 3) == npx.random.uniform_n(np.zeros(3), batch_shape=2).shape
    ones = npx.random.bernoulli(prob=np.array([0.0, 1.0]), size=(50, 2)).asnumpy()
    assert not ones[:, 0].any() and ones[:, 1].all()
    assert set(npx.random.bernoulli(logit=0.0, size=200).asnumpy().tolist()) == {0.0, 1.0}
    assert np.random.randint(3, size=(2, 2), dtype="int32").dtype == "int32" and int(np.random.randint(5, 6)) == 5
    for bad in (lambda: np.random.randint(3, 3), lambda: np.random.choice(3, 5, replace=False), lambda: npx.random.bernoulli()):
        with pytest.raises(ValueError):
            bad()
    npx.random.seed(3)
    first = np.random.normal(size=4).asnumpy()
    npx.random.seed(3)
    assert onp.array_equal(first, np.random.normal(size=4).asnumpy())
