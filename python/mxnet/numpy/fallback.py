"""Functions of NumPy without an operator: they run on copies of the elements, and results become arrays again.

These are functions that MXNet runs in NumPy, too, or does not have.  They have no gradient and cannot be hybridized: while
recording, those that give floats of floats are refused.
"""
import functools

import numpy as _np

from .. import _core
from .._core import ndarray
from ..error import UnsupportedError

_NAMES = """
    apply_along_axis apply_over_axes choose correlate convolve digitize fill_diagonal frexp geomspace gradient histogram2d
    histogram_bin_edges histogramdd i0 in1d interp intersect1d isin ix_ lexsort min_scalar_type nanmedian nanpercentile
    nanquantile nextafter packbits piecewise poly polyadd polydiv polyfit polyint polymul polysub promote_types
    ravel_multi_index real result_type roots searchsorted select setdiff1d setxor1d spacing trim_zeros union1d unpackbits
    unwrap tril_indices tril_indices_from triu_indices triu_indices_from can_cast mask_indices genfromtxt""".split()
_LINALG = ["lstsq"]


def _to_numpy(value):
    if isinstance(value, ndarray):
        return value.asnumpy()
    if isinstance(value, (list, tuple)):
        return type(value)(_to_numpy(item) for item in value)
    if isinstance(value, dict):
        return {key: _to_numpy(item) for key, item in value.items()}
    return value


def _from_numpy(value, narrow):
    from ._arrays import array
    if isinstance(value, _np.ndarray) or isinstance(value, _np.generic):
        if value.dtype == _np.float64 and narrow:
            value = value.astype(_np.float32)
        return array(value, dtype=value.dtype) if value.dtype.kind in "fiub" else value
    if isinstance(value, (list, tuple)):
        made = [_from_numpy(item, narrow) for item in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return value


def _has_float64(value):
    if isinstance(value, (list, tuple)):
        return any(_has_float64(item) for item in value)
    return getattr(value, "dtype", None) == _np.float64


def _any_float(value):
    if isinstance(value, (list, tuple)):
        return any(_any_float(item) for item in value)
    return isinstance(value, ndarray) and _np.dtype(value.dtype).kind == "f"


def _check_recording(function, args, result):
    if _core.is_recording() and _any_float(args) and _any_float(result):
        raise UnsupportedError(f"np.{function.__name__} runs on copies of the elements and has no gradient: call it in "
                               "autograd.pause(), or outside of autograd.record()")


def on_copies(function):
    """The function of NumPy on copies of its arrays; float64 results of other arrays become float32."""
    @functools.wraps(function)
    def run(*args, **kwargs):
        out = kwargs.pop("out", None)
        kwargs.pop("ctx", None)
        narrow = not _has_float64(args) and not _has_float64(tuple(kwargs.values()))
        result = _from_numpy(function(*_to_numpy(args), **_to_numpy(kwargs)), narrow)
        _check_recording(function, (*args, *kwargs.values()), result)
        if out is None:
            return result
        out[()] = result
        return out
    return run


def _table(module, names):
    return {name: on_copies(getattr(module, name)) for name in names if hasattr(module, name)}


FUNCTIONS = _table(_np, _NAMES)
LINALG = _table(_np.linalg, _LINALG)
if "in1d" not in FUNCTIONS:
    FUNCTIONS["in1d"] = on_copies(lambda ar1, ar2, assume_unique=False, invert=False: _np.isin(
        _np.ravel(ar1), ar2, assume_unique=assume_unique, invert=invert))


def _removed(name):
    def function(*args, **kwargs):
        raise UnsupportedError(f"np.{name}: NumPy has removed its financial functions; the package numpy_financial has it")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Removed from NumPy: see the package numpy_financial."
    return function


FUNCTIONS.update({name: _removed(name) for name in ("mirr", "npv", "ppmt", "pv", "rate")})
