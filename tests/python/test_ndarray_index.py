"""x[key] and x[key] = value against NumPy."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, nd

BASIC = [0, -1, (1, 2), (0, -1, 3), slice(None), slice(1, 2), slice(None, None, -1), (slice(None), 1), (Ellipsis, 0),
         (0, Ellipsis), (slice(0, 2), slice(1, 3), slice(None, None, 2)), None, (None, 0, None), (slice(5, 9),),
         (slice(None), slice(-2, None)), (1, slice(None, None, -2)), np.int64(1), (Ellipsis,), (slice(2, 0, -1), 0)]
ADVANCED = [[0, 1], np.array([1, 0, 1]), ([0, 1], [1, 2]), (slice(None), [2, 0]), ([0, 1], slice(None), [3, 0]),
            (0, [1, 2]), ([[0, 1], [1, 0]],), (slice(0, 1), [0, 2], 1), (np.array([[0], [1]]), np.array([0, 2])),
            range(2), ([-1, -2],), (Ellipsis, [0, 3])]


def to_classic(expected):
    """Classic arrays have at least one axis."""
    return expected.reshape(1) if expected.ndim == 0 else expected


@pytest.mark.parametrize("key", BASIC + ADVANCED, ids=str)
def test_read(key):
    a = np.arange(24.0, dtype="float32").reshape(2, 3, 4)
    x = nd.array(a)
    expected = to_classic(np.asarray(a[key]))
    result = x[key]
    assert result.shape == expected.shape
    assert np.array_equal(result.asnumpy(), expected)


@pytest.mark.parametrize("key", BASIC + ADVANCED, ids=str)
@pytest.mark.parametrize("value", ["number", "array", "numpy", "list"])
def test_write(key, value):
    a = np.zeros((2, 3, 4), "float32")
    x = nd.array(a)
    new = np.random.uniform(1, 2, np.shape(a[key])).astype("float32")
    if any(isinstance(k, (list, range, np.ndarray)) for k in (key if isinstance(key, tuple) else (key,))):
        new = np.full(np.shape(a[key]), 3, "float32")  # places may repeat: the last write is not defined
    given = {"number": 7, "array": nd.array(new), "numpy": new, "list": new.tolist()}[value]
    if value == "list" and not new.size:
        pytest.skip("an empty list has no shape")
    a[key] = 7 if value == "number" else new
    x[key] = given
    assert np.array_equal(x.asnumpy(), a)


def test_index_arrays_of_ndarrays():
    a = np.arange(12.0).reshape(3, 4)
    x = nd.array(a)
    for dtype in ("float32", "int32", "int64"):
        i = nd.array([2, 0], dtype=dtype)
        assert np.array_equal(x[i].asnumpy(), a[[2, 0]])
        assert np.array_equal(x[i, nd.array([1, 3])].asnumpy(), a[[2, 0], [1, 3]])
    x[nd.array([0, 1]), nd.array([0, 1])] = nd.array([50, 60])
    assert x[0, 0].asscalar() == 50 and x[1, 1].asscalar() == 60


def test_broadcast_writes():
    x = nd.zeros((2, 3))
    x[:] = nd.array([1, 2, 3])
    x[1] = 5
    x[:, 0] = np.array([8, 9])
    assert x.asnumpy().tolist() == [[8, 2, 3], [9, 5, 5]]
    x[0] = nd.array([[1, 1, 1]])
    x[:] = nd.array([[4], [6]])
    assert x.asnumpy().tolist() == [[4, 4, 4], [6, 6, 6]]
    x[:] = nd.array([1, 2, 3], dtype="float64")
    assert x.dtype is np.float32


@pytest.mark.parametrize("key, kind", [
    (5, IndexError), (-3, IndexError), ((0, 9), IndexError), ((0, 0, 0), IndexError),
    ((Ellipsis, Ellipsis), IndexError),
    ("a", ValueError), (1.5, ValueError), ({}, ValueError), ((0, "a"), ValueError), (object(), ValueError),
    ([True, False], ValueError), (np.array([True, False]), ValueError), (slice(None, None, 0), IndexError),
    ([5], IndexError), ([[0, 1], [0]], (ValueError, TypeError, IndexError)), (slice("a"), TypeError),
    ((0,) * 100, IndexError),
    (2**70, (IndexError, OverflowError))])
def test_wrong_keys(key, kind):
    x = nd.zeros((2, 3))
    with pytest.raises(kind):
        x[key]
    with pytest.raises(kind):
        x[key] = 1
    assert not x.asnumpy().any()


@pytest.mark.parametrize("value", ["a", object(), None, {}, [1, [2]], lambda: 1])
def test_wrong_values(value):
    x = nd.zeros((2, 3))
    with pytest.raises(TypeError):
        x[0] = value
    with pytest.raises(TypeError):
        x[:] = value


def test_wrong_shapes_and_delete():
    x = nd.zeros((2, 3))
    for value in (nd.ones((4,)), np.ones((3, 3)), [1, 2]):
        with pytest.raises(ValueError):
            x[:] = value
    with pytest.raises(TypeError):
        del x[0]


def test_iteration():
    assert [r.asnumpy().tolist() for r in nd.array([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    assert list(nd.zeros((0, 3))) == []
    a, b = nd.array([1, 2])
    assert a.shape == (1,) and b.asscalar() == 2


def test_gradient_flows_through_indexing():
    x = nd.array([[1, 2, 3], [4, 5, 6]])
    x.attach_grad()
    with autograd.record():
        y = (x[0] * 2).sum() + x[:, ::2].sum() + x[[1, 1], [0, 0]].sum()
    y.backward()
    assert x.grad.asnumpy().tolist() == [[3, 2, 3], [3, 0, 1]]


def test_writing_into_recorded_arrays_is_refused():
    x = nd.ones((2,))
    x.attach_grad()
    with autograd.record():
        y = x * 2
        for write in (lambda: x.__setitem__(0, 1), lambda: y.__setitem__(slice(None), 1), lambda: x.__iadd__(1)):
            with pytest.raises(mx.MXNetError):
                write()
    x[:] = 3  # outside it is what an update does
    assert x.asnumpy().tolist() == [3, 3]
