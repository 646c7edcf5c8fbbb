"""Functions of mx.np that choose, count and remove elements: glue for arguments that NumPy spells in several ways."""
import numpy as _np

from ._arrays import _default, _plain, array, asarray
from ._functions import FUNCTIONS as _op
from .fallback import on_copies

__all__ = ["nonzero", "unique", "delete", "insert", "histogram", "percentile", "quantile", "nanpercentile", "nanquantile", "cov",
           "corrcoef", "allclose", "array_equal", "array_equiv", "diag_indices_from", "linspace", "indices", "where", "meshgrid"]


def where(condition, x=None, y=None):
    """x where the condition holds, else y; without them the places where it holds, one array per axis."""
    if (x is None) != (y is None):
        raise ValueError("np.where: x and y are given both or not at all")
    return nonzero(condition) if x is None else _op["where"](condition, x, y)


def nonzero(a):
    """The places of elements that are not 0, one array per axis."""
    a = asarray(a)
    places = _op["argwhere"](a)
    return tuple(places[:, axis] for axis in range(a.ndim))


def unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None):
    """The distinct elements in ascending order; with axis the distinct parts along it."""
    how = dict(return_index=return_index, return_inverse=return_inverse, return_counts=return_counts)
    return _op["unique"](ar, **how) if axis is None else on_copies(_np.unique)(ar, **how, axis=axis)


def _indices(obj, size):
    """Indices in the form that the operator takes: a number or an array of integers or bool."""
    if isinstance(obj, slice):
        obj = _np.arange(size)[obj]
    if isinstance(obj, (list, tuple, _np.ndarray)):
        obj = _np.asarray(_plain(obj))
        if obj.size and obj.dtype.kind == "f":
            raise IndexError("indices must be integers")
        obj = obj if obj.dtype == bool else obj.astype(_np.int64)
        return int(obj) if obj.ndim == 0 and obj.dtype != bool else array(obj, dtype=obj.dtype)
    return obj


def _size_along(arr, axis):
    return arr.size if axis is None else arr.shape[axis]


def delete(arr, obj, axis=None):
    """The array without the places obj: an index, a slice, a list of indices or a mask."""
    arr = asarray(arr)
    return _op["delete"](arr, _indices(obj, _size_along(arr, axis)), axis=axis)


def insert(arr, obj, values, axis=None):
    """The array with values before the places obj: an index, a slice or a list of indices."""
    arr = asarray(arr)
    obj = _indices(obj, _size_along(arr, axis))
    if getattr(obj, "dtype", None) == bool:
        obj = _op["flatnonzero"](obj)
    return _op["insert"](arr, obj, values, axis=axis)


def histogram(a, bins=10, range=None, normed=None, weights=None, density=None):
    """How many elements are in each bin, and the edges of the bins; bins is their number or the list of edges."""
    if weights is not None or isinstance(bins, str):
        return on_copies(_np.histogram)(a, bins, range=range, density=density or normed, weights=weights)
    if isinstance(bins, (int, _np.integer)):
        return _op["histogram"](a, bins=int(bins), range=range, density=bool(density or normed))
    edges = array(bins)
    if bool((edges[1:] < edges[:-1]).any()):
        raise ValueError("np.histogram: the edges must be in ascending order")
    return _op["histogram"](a, edges, density=bool(density or normed))


_OWN = ("linear", "lower", "higher", "midpoint", "nearest")


def _between(name, a, q, method, out, **how):
    if method not in _OWN:
        return on_copies(getattr(_np, name))(a, q, method=method, out=out, **how)
    q = array(q, dtype="float64", ctx=getattr(a, "ctx", None)) if isinstance(q, (list, tuple, _np.ndarray)) else q
    return _op[name](a, q, interpolation=method, out=out, **how)


def percentile(a, q, axis=None, out=None, overwrite_input=None, interpolation="linear", keepdims=False, method=None):
    """Elements below which q percent of all elements are, along axes."""
    return _between("percentile", a, q, method or interpolation, out, axis=axis, keepdims=keepdims)


def quantile(a, q, axis=None, out=None, overwrite_input=None, interpolation="linear", keepdims=False, method=None):
    """Elements below which the part q of all elements is, along axes."""
    return _between("quantile", a, q, method or interpolation, out, axis=axis, keepdims=keepdims)


def nanpercentile(a, q, axis=None, out=None, overwrite_input=False, interpolation="linear", keepdims=False, method=None):
    """Elements below which q percent of all elements that are not NaN are, along axes; computed by NumPy."""
    return on_copies(_np.nanpercentile)(a, q, axis=axis, out=out, method=method or interpolation, keepdims=keepdims)


def nanquantile(a, q, axis=None, out=None, overwrite_input=False, interpolation="linear", keepdims=False, method=None):
    """Elements below which the part q of all elements that are not NaN is, along axes; computed by NumPy."""
    return on_copies(_np.nanquantile)(a, q, axis=axis, out=out, method=method or interpolation, keepdims=keepdims)


def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None):
    """The covariances of variables, whose observations are columns; fweights, aweights: weights of observations."""
    if fweights is not None or aweights is not None:
        return on_copies(_np.cov)(m, y, rowvar, bias, ddof, fweights, aweights)
    return _op["cov"](m, y, rowvar=rowvar, bias=bias, ddof=ddof)


def corrcoef(x, y=None, rowvar=True, bias=None, ddof=None):
    """The correlations of variables, whose observations are columns; bias and ddof have no effect."""
    return _op["corrcoef"](x, y, rowvar=rowvar)


def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all elements are equal up to a tolerance."""
    return bool(_op["all"](_op["isclose"](a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)))


def array_equal(a1, a2, equal_nan=False):
    """Whether two arrays have the same shape and the same elements."""
    a1, a2 = asarray(a1), asarray(a2)
    if a1.shape != a2.shape:
        return False
    same = _op["equal"](a1, a2)
    if equal_nan:
        same = _op["logical_or"](same, _op["logical_and"](_op["isnan"](a1), _op["isnan"](a2)))
    return bool(_op["all"](same))


def array_equiv(a1, a2):
    """Whether two arrays have the same elements after broadcasting."""
    try:
        return bool(_op["all"](_op["equal"](a1, a2)))
    except ValueError:
        return False


def diag_indices_from(arr):
    """The places of the main diagonal, one array per axis."""
    if arr.ndim < 2 or len(set(arr.shape)) != 1:
        raise ValueError("np.diag_indices_from: wanted at least two axes of equal size")
    places = _op["arange"](0, arr.shape[0], dtype="int64", ctx=arr.ctx)
    return (places,) * arr.ndim


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, ctx=None):
    """Numbers at equal distances from start to stop, which may be arrays; retstep: their distance as well."""
    parts = num - 1 if endpoint else num
    if not (hasattr(start, "shape") or hasattr(stop, "shape")):
        made = _op["linspace"](start=start, stop=stop, num=num, endpoint=endpoint, dtype=_default(dtype), ctx=ctx)
        return (made, (stop - start) / parts if parts else float("nan")) if retstep else made
    width = _op["subtract"](stop, start)
    share = _op["linspace"](start=0, stop=1, num=num, endpoint=endpoint, dtype=_default(None), ctx=width.ctx)
    made = _op["add"](_op["multiply"](share.reshape((-1,) + (1,) * width.ndim), width), start)
    made = made if axis == 0 else _op["moveaxis"](made, 0, axis)
    made = made if dtype is None else made.astype(dtype)
    return (made, width / parts if parts else width * float("nan")) if retstep else made


def meshgrid(*xi, indexing="xy"):
    """Coordinates of a grid, one array per axis; indexing is 'xy' or 'ij'."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"np.meshgrid: indexing is 'xy' or 'ij', got {indexing!r}")
    n, grids = len(xi), []
    places = list(range(n))
    if indexing == "xy" and n > 1:
        places[0], places[1] = 1, 0
    together = [0] * n
    for x, place in zip(xi, places):
        together[place] = asarray(x).size
    for x, place in zip(xi, places):
        one = [1] * n
        one[place] = -1
        grids.append(_op["broadcast_to"](asarray(x).reshape(one), tuple(together)))
    return grids


def indices(dimensions, dtype=None, ctx=None):
    """The numbers of the places along each axis: shape (len(dimensions), *dimensions)."""
    return _op["indices"](dimensions=tuple(dimensions), dtype=dtype or "int32", ctx=ctx)
