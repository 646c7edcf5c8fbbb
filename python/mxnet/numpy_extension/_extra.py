"""Functions of mx.npx that are more than an operator under another name."""
from ..numpy._functions import EXTENSION, FUNCTIONS


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


def reshape(a, newshape, reverse=False, order="C"):
    """The elements in another shape; in newshape -1 is what is left, -2 copies a size, -3 skips a size of 1, -4 copies all
    that remain, -5 merges two axes, -6 splits one into the next two sizes."""
    newshape = (newshape,) if isinstance(newshape, int) else tuple(newshape)
    sizes, shape = list(a.shape), []
    if reverse:
        return reshape(a, _reversed(newshape, len(sizes)), order=order)
    at, place = 0, 0
    while place < len(newshape):
        code = newshape[place]
        if code >= 0 or code == -1:
            shape.append(code)
            at += 1
        elif code == -2:
            shape.append(sizes[at])
            at += 1
        elif code == -3:
            if sizes[at] != 1:
                raise ValueError(f"reshape: -3 skips an axis of size 1, axis {at} has size {sizes[at]}")
            at += 1
        elif code == -4:
            shape += sizes[at:]
            at = len(sizes)
        elif code == -5:
            shape.append(sizes[at] * sizes[at + 1])
            at += 2
        elif code == -6:
            first, second = newshape[place + 1:place + 3]
            size = sizes[at]
            first = size // second if first == -1 else first
            second = size // first if second == -1 else second
            shape += [first, second]
            at, place = at + 1, place + 2
        else:
            raise ValueError(f"reshape: {code} is not a code; they are -1 to -6")
        place += 1
    return FUNCTIONS["reshape"](a, shape)


def _reversed(newshape, ndim):
    raise NotImplementedError("npx.reshape: reverse=True is not supported")


def one_hot(data, depth=None, on_value=1.0, off_value=0.0, dtype="float32", out=None):
    """Rows with on_value at the index and off_value elsewhere."""
    return EXTENSION["one_hot"](data, depth=depth, on_value=on_value, off_value=off_value, dtype=dtype, out=out)


EXTRA = {"save": save, "load": load, "nonzero": nonzero, "reshape": reshape}
