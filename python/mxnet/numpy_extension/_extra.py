"""Functions of mx.npx that are more than an operator under another name."""
from ..numpy._functions import EXTENSION


def save(file, arr):
    """Writes an array, a list of arrays or a dict of names and arrays to a file; see nd.save."""
    from ..ndarray import save as write
    from ..util import np_shape
    with np_shape(True):
        write(file, arr)


def load(file):
    """Arrays of a file, as arrays of mx.np."""
    from ..ndarray import load as read
    from ..util import np_array, np_shape
    with np_array(True), np_shape(True):
        return read(file)


def nonzero(a):
    """The places of elements that are not 0, one row each: shape (n, a.ndim)."""
    from ..numpy import argwhere
    return argwhere(a)


def one_hot(data, depth=None, on_value=1.0, off_value=0.0, dtype="float32", out=None):
    """Rows with on_value at the index and off_value elsewhere."""
    return EXTENSION["one_hot"](data, depth=depth, on_value=on_value, off_value=off_value, dtype=dtype, out=out)


EXTRA = {"save": save, "load": load, "nonzero": nonzero}
