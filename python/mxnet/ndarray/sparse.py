"""What dense arrays can offer of mx.nd.sparse.

All arrays are dense.  Operators of this module compute the same values as their dense namesakes; making an array of
storage type 'csr' or 'row_sparse' is refused with UnsupportedError.
"""
from .._core import NDArray
from ..error import UnsupportedError
from . import _register
from . import ndarray as _nd
from .ndarray import add, divide, multiply, subtract  # noqa: F401

globals().update({name: op for name, op in _register.family("sparse").items() if not name.startswith("_")})


def _refuse(who, stype):
    raise UnsupportedError(f"{who}: arrays of storage type '{stype}' are not there: all arrays are dense; "
                           "use nd.array, nd.zeros and the dense operators")


class _Absent(type):
    """Storage types that no array has: isinstance() is always False, making one is refused."""

    def __call__(cls, *args, **kwargs):
        _refuse(cls.__name__, cls.stype)

    def __instancecheck__(cls, instance):
        return False


class BaseSparseNDArray(metaclass=_Absent):
    """The base of sparse arrays; there are none."""

    stype = "sparse"


class CSRNDArray(BaseSparseNDArray):
    """Compressed rows; there are no such arrays."""

    stype = "csr"


class RowSparseNDArray(BaseSparseNDArray):
    """Few rows of many; there are no such arrays."""

    stype = "row_sparse"


def csr_matrix(arg1, shape=None, ctx=None, dtype=None):
    """Refused: there is no storage of type 'csr'."""
    _refuse("csr_matrix", "csr")


def row_sparse_array(arg1, shape=None, ctx=None, dtype=None):
    """Refused: there is no storage of type 'row_sparse'."""
    _refuse("row_sparse_array", "row_sparse")


def zeros(stype, shape, ctx=None, dtype=None, **kwargs):
    """An array of zeros; stype must be 'default'."""
    return _nd.zeros(shape, ctx=ctx, dtype=dtype, stype=stype, **kwargs)


def empty(stype, shape, ctx=None, dtype=None):
    """An array whose elements are not set; stype must be 'default'."""
    return _nd.empty(shape, ctx=ctx, dtype=dtype, stype=stype)


def array(source_array, ctx=None, dtype=None):
    """Refused for sparse sources (SciPy's matrices); dense ones belong to nd.array."""
    if isinstance(source_array, NDArray):
        return _nd.array(source_array, ctx=ctx, dtype=dtype)
    if hasattr(source_array, "tocsr"):
        _refuse("array", "csr")
    raise ValueError(f"sparse.array: a sparse array is wanted, got {type(source_array).__name__}; "
                     "nd.array takes dense ones")


def cast_storage(data, stype, out=None):
    """The array with another storage type: only 'default' is there."""
    if stype != "default":
        _refuse("cast_storage", stype)
    if out is None:
        return data.copy()
    out[:] = data
    return out


def retain(data, indices, **kwargs):
    """Refused: it takes a row_sparse array."""
    _refuse("retain", "row_sparse")


# Dense operators that the classic module has under this name too.
for _name in ("arccos", "arccosh", "cos", "cosh", "gamma", "gammaln", "negative"):
    globals().setdefault(_name, _register.OPERATORS[_name])
