"""How examples become a batch."""
from ..._core import NDArray

__all__ = ["Stack", "Pad", "Append", "Group", "AsList"]


def _np(x):
    return x.asnumpy() if isinstance(x, NDArray) else x


# What NumPy's types that arrays do not have become.
_NEAREST = {"int16": "int32", "uint16": "int32", "uint32": "int64", "uint64": "int64", "longdouble": "float64",
            "float128": "float64"}


def to_array(x):
    """An NDArray with the values and, where there is one, the type of a NumPy array."""
    from ... import ndarray as nd
    if x.dtype.kind not in "fiub":
        raise TypeError(f"a batch cannot be made of {x.dtype} values, only of numbers; give the DataLoader a "
                        f"batchify_fn for "
                        "others")
    return nd.array(x, dtype=_NEAREST.get(x.dtype.name, x.dtype))


def stack(items):
    """One array with a new first axis."""
    if isinstance(items[0], NDArray):
        from ... import ndarray as nd
        return nd.stack(*items)
    import numpy
    return to_array(numpy.asarray(items))


class Stack:
    """Stacks arrays of equal shape."""

    def __init__(self, use_shared_mem=False):
        self._shared = use_shared_mem

    def __call__(self, data):
        return stack(data)


class Pad:
    """Stacks arrays after padding them with `val` to the longest along every axis (or along `axis`)."""

    def __init__(self, axis=None, val=0, num_shards=1, ret_length=False, dtype=None, round_to=None,
                 use_shared_mem=False):
        self._axis, self._val, self._lengths, self._dtype, self._round_to = axis, val, ret_length, dtype, round_to

    def __call__(self, data):
        import numpy
        from ... import ndarray as nd
        arrays = [numpy.asarray(_np(x)) for x in data]
        shape = [max(x.shape[i] for x in arrays) for i in range(arrays[0].ndim)]
        if self._round_to:
            step = self._round_to
            shape = [-(-n // step) * step if self._axis in (None, i) else n for i, n in enumerate(shape)]
        dtype = self._dtype or arrays[0].dtype
        out = numpy.full([len(arrays)] + shape, self._val, dtype=dtype)
        for i, x in enumerate(arrays):
            out[(i,) + tuple(slice(0, n) for n in x.shape)] = x
        batch = to_array(out)
        if not self._lengths:
            return batch
        axis = self._axis or 0
        return batch, nd.array([x.shape[axis] for x in arrays], dtype="int32")


class Append:
    """A list of arrays, each with a first axis of one (expand): for examples of different shapes."""

    def __init__(self, expand=True, batch_axis=0, use_shared_mem=False):
        self._expand, self._batch_axis = expand, batch_axis

    def __call__(self, data):
        from ... import ndarray as nd
        arrays = [x if isinstance(x, NDArray) else nd.array(x) for x in data]
        return [x.expand_dims(axis=self._batch_axis) for x in arrays] if self._expand else arrays


class Group:
    """One function per part of the examples: Group(Stack(), Pad())."""

    def __init__(self, fn, *args):
        self._fn = tuple(fn) if isinstance(fn, (list, tuple)) else (fn,) + args

    def __call__(self, data):
        if len(data[0]) != len(self._fn):
            raise AssertionError(f"Group: examples have {len(data[0])} parts, there are {len(self._fn)} functions")
        return tuple(fn([item[i] for item in data]) for i, fn in enumerate(self._fn))


class AsList:
    """The examples as they are, in a list."""

    def __call__(self, data):
        return list(data)


Tuple = Group
List = AsList
