"""Names of mxnet.ndarray.ndarray that are not documented, but that libraries import."""
import numpy as np

from .. import _core
from .._core import NDArray

__all__ = ["NDArrayBase", "_DTYPE_MX_TO_NP", "_DTYPE_NP_TO_MX", "_GRAD_REQ_MAP", "_STORAGE_TYPE_CSR",
           "_STORAGE_TYPE_DEFAULT", "_STORAGE_TYPE_ID_TO_STR", "_STORAGE_TYPE_ROW_SPARSE", "_STORAGE_TYPE_STR_TO_ID",
           "_STORAGE_TYPE_UNDEFINED", "_get_broadcast_shape", "_get_index_range", "_is_advanced_index",
           "_new_alloc_handle", "_new_empty_handle", "py_slice"]

NDArrayBase = NDArray
py_slice = slice

_STORAGE_TYPE_UNDEFINED, _STORAGE_TYPE_DEFAULT, _STORAGE_TYPE_ROW_SPARSE, _STORAGE_TYPE_CSR = -1, 0, 1, 2
_STORAGE_TYPE_STR_TO_ID = {"undefined": -1, "default": 0, "row_sparse": 1, "csr": 2}
_STORAGE_TYPE_ID_TO_STR = {number: name for name, number in _STORAGE_TYPE_STR_TO_ID.items()}
_GRAD_REQ_MAP = {"null": 0, "write": 1, "add": 3}
_DTYPE_NP_TO_MX = {None: -1, np.float32: 0, np.float64: 1, np.float16: 2, np.uint8: 3, np.int32: 4, np.int8: 5,
                   np.int64: 6, np.bool_: 7}
_DTYPE_MX_TO_NP = {number: dtype for dtype, number in _DTYPE_NP_TO_MX.items()}


def _new_empty_handle():
    """The handle of an array without elements."""
    return _core.empty((0,), None, None).handle


def _new_alloc_handle(shape, ctx, delay_alloc, dtype=np.float32):
    """The handle of a new array whose elements are not set; it is allocated at once."""
    return _core.empty(shape, ctx, dtype).handle


def _get_index_range(start, stop, length, step=1):
    """start, stop and step of a slice over an axis of this length, as range() takes them."""
    if step == 0:
        raise ValueError("a slice cannot have the step 0")
    return slice(start, stop, step).indices(length)


def _get_broadcast_shape(shape1, shape2):
    """The shape to which both shapes broadcast."""
    return np.broadcast_shapes(shape1, shape2)


def _is_advanced_index(idx):
    """Whether an index is an array or a list, which selects elements one by one."""
    return isinstance(idx, (NDArray, np.ndarray, list, tuple))
