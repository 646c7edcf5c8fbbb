"""Methods of NDArray in addition to those of the C type: operators, and a few methods in Python."""
from .. import _core, autograd  # noqa: F401
from .._core import NDArray
from . import _internal, _register


def broadcast_to(self, shape):
    """The array broadcast to `shape`; 0 keeps an axis, missing leading axes are added."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if len(shape) < self.ndim:
        raise ValueError(f"broadcast_to: an array of shape {self.shape} does not broadcast to {shape}")
    source = (1,) * (len(shape) - self.ndim) + self.shape
    for have, want in zip(source, shape):  # -1: a size that is still being inferred
        if have != -1 and want not in (0, have) and have != 1:
            raise ValueError(f"broadcast_to: an array of shape {self.shape} does not broadcast to {shape}")
    array = self if len(source) == self.ndim else self.reshape(source)
    return _register.OPERATORS["broadcast_to"](array, shape=shape)


def broadcast_like(self, other):
    """The array broadcast to the shape of another."""
    return self.broadcast_to(other.shape)


def expand_dims(self, axis, inplace=False):
    """A copy with a new axis of size 1; inplace: the same memory in that shape."""
    op = _register.OPERATORS["expand_dims"]
    return (op.view if inplace else op)(self, axis=axis)


def squeeze(self, axis=None, inplace=False):
    """A copy without its axes of size 1, or without those named; inplace: the same memory in that shape."""
    op = _register.OPERATORS["squeeze"]
    return (op.view if inplace else op)(self, axis=axis)


def flatten(self, inplace=False):
    """A copy with all axes but the first merged; inplace: the same memory in that shape."""
    op = _register.OPERATORS["Flatten"]
    return (op.view if inplace else op)(self)


def split_v2(self, indices_or_sections, axis=0, squeeze_axis=False):
    """Parts of the array: see nd.split_v2."""
    from .ndarray import split_v2 as function
    return function(self, indices_or_sections, axis, squeeze_axis)


def slice_assign(self, rhs, begin, end, step):
    """Writes rhs to the region begin:end:step, in place."""
    return _internal._slice_assign(self, rhs, begin=begin, end=end, step=step, out=self)


def slice_assign_scalar(self, value, begin, end, step):
    """Writes a number to the region begin:end:step, in place."""
    return _internal._slice_assign_scalar(self, scalar=value, begin=begin, end=end, step=step, out=self)


def tostype(self, stype):
    """A copy in another storage type: 'default', 'row_sparse' or 'csr'."""
    made = _core.tostype(self, stype)
    return self.copy() if made is self else made


def attach_grad(self, grad_req="write", stype=None):
    """Marks the array as a variable: backward() writes its gradient to .grad."""
    _core.attach_grad(self, grad_req, stype)


def backward(self, out_grad=None, retain_graph=False, train_mode=True):
    """Computes the gradients of this array with respect to all variables that it depends on."""
    _core.backward([self], None if out_grad is None else [out_grad], retain_graph, train_mode)


def _repr_html_(self):
    from ._html import repr_html
    return repr_html(self)


def __getstate__(self):
    return {"handle": _core.pack(self)}


def __setstate__(self, state):
    if not isinstance(state, dict) or "handle" not in state:
        raise TypeError(f"__setstate__: expected a dict with the key 'handle', got {type(state).__name__}")
    _core.rebind(self, _core.unpack(state["handle"]))


def _basic_indexing_slice_is_contiguous(slices, shape):
    """Whether x[slices], with one slice per axis, is contiguous in memory: then it is a view of x."""
    sizes = [len(range(*s.indices(n))) for s, n in zip(slices, shape)]
    steps = [s.indices(n)[2] for s, n in zip(slices, shape)]
    first = next((i for i, size in enumerate(sizes) if size != 1), len(sizes))
    whole = all(size == n and step == 1 for size, n, step in list(zip(sizes, shape, steps))[first + 1:])
    return 0 in sizes or first == len(sizes) or (steps[first] == 1 and whole)


def _slice(self, start, stop):
    """Rows start to stop, a view of the array."""
    return self[start:stop]


def _add_all():
    for name in _core.operator_methods():
        _core.add_method(name, _register.OPERATORS[name])
    for method in (broadcast_to, broadcast_like, expand_dims, squeeze, flatten, split_v2, slice_assign,
                   slice_assign_scalar, tostype, attach_grad, backward, _repr_html_, __getstate__, __setstate__):
        _core.add_method(method.__name__, method)
    _core.add_method("_basic_indexing_slice_is_contiguous", staticmethod(_basic_indexing_slice_is_contiguous))
    _core.add_method("_slice", _slice)
    for old, new in (("div", "truediv"), ("rdiv", "rtruediv"), ("idiv", "itruediv")):  # names of Python 2
        _core.add_method(f"__{old}__", getattr(NDArray, f"__{new}__"))


_add_all()
