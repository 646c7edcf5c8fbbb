"""Functions that combine examples into a batch."""
from ... import _core
from ..._core import NDArray
from ...context import current_context
from ...error import ShapeError

__all__ = ["Stack", "Pad", "Append", "Group", "AsList"]


# Replacements of NumPy types that arrays do not have, by type character: int16, uint16, uint32, uint64, longdouble.
_NEAREST = {"h": "int32", "H": "int32", "I": "int64", "L": "int64", "Q": "int64", "g": "float64"}


def _nearest(dtype):
    return _NEAREST.get(dtype.char, dtype)


def to_array(x):
    """An NDArray with the values and, if supported, the type of a NumPy array."""
    if x.dtype.kind not in "fiub":
        raise TypeError(f"a batch cannot be built from {x.dtype} values, only from numbers; give the DataLoader a "
                        f"batchify_fn for "
                        "others")
    return _core.array(x, dtype=_nearest(x.dtype))


def _check_equal(items):
    """Raises for examples of different shapes, which cannot be stacked."""
    for i, item in enumerate(items):
        if getattr(item, "shape", ()) != getattr(items[0], "shape", ()):
            raise ShapeError(f"a batch cannot be stacked: example 0 has shape {items[0].shape}, example {i} has "
                             f"{getattr(item, 'shape', ())}; batchify_fn=batchify.Pad() pads them to one shape")


def stack(items):
    """One array with a new first axis."""
    _check_equal(items)
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
        arrays = [x if isinstance(x, NDArray) else to_array(numpy.asarray(x)) for x in data]
        dtype = self._dtype and _nearest(numpy.dtype(self._dtype))
        made = _core.pad_batch(arrays, self._val, self._axis, self._round_to or 0, dtype, self._lengths)
        here = current_context()
        return tuple(x.as_in_context(here) for x in made) if self._lengths else made.as_in_context(here)


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
