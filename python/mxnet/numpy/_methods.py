"""Methods of mx.np.ndarray in addition to those of the C type: functions of mx.np, printing, NumPy's protocols."""
import numpy as _np

from .. import _core
from .._core import NDArray, NumpySymbol, ndarray
from ._functions import EXTENSION as _npx, FUNCTIONS as _op

# Functions of mx.np whose first argument is the array.
_METHODS = """abs all any argmax argmin argsort cos cumsum diag dot exp expand_dims fix flip log max mean min
    moveaxis nansum power prod ravel round sin sort split sqrt square squeeze std sum swapaxes take tile trace tril triu var
    sign floor ceil trunc rint""".split()


def reshape(self, *shape, **kwargs):
    """The elements in another shape: x.reshape(2, 3), x.reshape((2, 3)); one size may be -1."""
    order = kwargs.pop("order", "C")
    shape = kwargs.pop("newshape", kwargs.pop("shape", shape))
    if kwargs:
        raise TypeError(f"reshape: unknown keyword {next(iter(kwargs))!r}")
    if len(shape) == 1 and not isinstance(shape[0], (int, _np.integer)):
        shape = shape[0]
    return _op["reshape"](self, tuple(shape), order=order)


def transpose(self, *axes):
    """The axes in another order; without arguments in reverse order."""
    axes = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
    return _op["transpose"](self, axes if axes else None)


def flatten(self, order="C"):
    """A copy with one axis."""
    return _op["ravel"](self).copy() if isinstance(self, NDArray) else _op["ravel"](self)


def astype(self, dtype, order="K", casting="unsafe", subok=True, copy=True):
    """The array with another type."""
    if casting != "unsafe" or order not in ("K", "C"):
        raise ValueError("astype: only casting='unsafe' and the order of C are supported")
    return NDArray.astype(self, _type(dtype), copy=copy)


def _type(dtype):
    return {int: "int64", float: "float64", bool: "bool"}.get(dtype, dtype) if isinstance(dtype, type) else dtype


def get_dtype(self):
    """The type of the elements, a numpy.dtype."""
    return _np.dtype(NDArray.dtype.__get__(self))


def item(self, *args):
    """An element as a Python number: the only one, or that at a place."""
    if args:
        place = args[0] if len(args) == 1 else args
        self = self[place] if isinstance(place, tuple) else self.reshape(-1)[place]
    if self.size != 1:
        raise ValueError("item: only an array with one element is a number")
    return NDArray.item(self)


def clip(self, min=None, max=None, out=None):
    """The elements limited to the range from min to max."""
    return _op["clip"](self, min, max, out=out)


def repeat(self, repeats, axis=None):
    """Each element repeated."""
    from ._arrays import repeat as function
    return function(self, repeats, axis)


def nonzero(self):
    """The places of elements that are not 0, one array per axis."""
    from ._places import nonzero as function
    return function(self)


def broadcast_to(self, shape):
    """Repeated to a shape by broadcasting."""
    return _op["broadcast_to"](self, shape)


def slice_assign_scalar(self, value, begin, end, step):
    """Writes a number to the region begin:end:step, in place."""
    self[tuple(slice(*part) for part in zip(begin, end, step or [None] * len(begin)))] = value
    return self


def fill(self, value):
    """Writes a number to all elements."""
    self[()] = value


def attach_grad(self, grad_req="write", stype=None):
    """Marks the array as a variable: backward() writes its gradient to .grad."""
    _core.attach_grad(self, grad_req, stype)


# ---- printing ---------------------------------------------------------------------------------------------------------

def _context(self):
    return "" if self.ctx.device_type == "cpu" else f"ctx={self.ctx}"


def __repr__(self):
    """As NumPy prints; the type is written unless it is the default or bool, the context unless it is the CPU."""
    if self._is_abstract:
        return f"<abstract {self.shape} {self.dtype}>"
    text = repr(self.asnumpy())
    if str(self.dtype) == "float32":
        text = text.replace(", dtype=float32", "").replace(",\n      dtype=float32", "")
    elif str(self.dtype) not in text and str(self.dtype) != "bool":
        text = text[:-1] + f", dtype={self.dtype})"
    where = _context(self)
    return text[:-1] + f", {where})" if where else text


def __str__(self):
    """As NumPy prints; the context follows unless it is the CPU."""
    if self._is_abstract:
        return repr(self)
    where = _context(self)
    return f"{self.asnumpy()} @{where[4:]}" if where else str(self.asnumpy())


# ---- NumPy's protocols -----------------------------------------------------------------------------------------------

def _is_ours(value):
    if isinstance(value, (list, tuple)):
        return all(_is_ours(item) for item in value)
    return not isinstance(value, _np.ndarray)


def __array_function__(self, func, types, args, kwargs):
    """numpy.f(x) of our arrays is mx.np.f(x)."""
    from .. import numpy as ours
    place = ours
    for part in func.__module__.split(".")[1:]:
        place = getattr(place, part, place) if part in ("linalg", "random") else place
    function = getattr(place, func.__name__, None)
    if function is None:
        raise TypeError(f"numpy.{func.__name__}: mx.np has no such function; convert with asnumpy()")
    return function(*args, **kwargs)


def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
    """numpy.add(x, y) of our arrays is mx.np.add(x, y)."""
    from .. import numpy as ours
    names = {"true_divide": "divide", "conjugate": "positive"}
    function = getattr(ours, names.get(ufunc.__name__, ufunc.__name__), None)
    if method != "__call__" or function is None:
        return NotImplemented
    out = kwargs.pop("out", None)
    if out is not None:
        out = out[0] if isinstance(out, tuple) else out
        if isinstance(out, _np.ndarray):
            out[...] = function(*inputs, **kwargs).asnumpy()
            return out
        kwargs["out"] = out
    return function(*inputs, **kwargs)


def __reduce__(self):
    """Pickles as the elements and the context."""
    return _rebuild, (type(self), self.asnumpy(), str(self.ctx))


def _rebuild(cls, elements, ctx):
    from ..context import Context
    from ._arrays import array
    kind, _, number = ctx.rstrip(")").partition("(")
    return array(elements, dtype=elements.dtype, ctx=Context(kind, int(number or 0)))


def _add_all():
    own = (reshape, transpose, flatten, astype, item, clip, repeat, nonzero, broadcast_to, slice_assign_scalar, fill, attach_grad)
    for cls in (ndarray, NumpySymbol):
        for name in _METHODS:
            _core.set_member(cls, name, _op[name])
        for method in own:
            if cls is ndarray or method in (reshape, transpose, flatten, broadcast_to, repeat, clip):
                _core.set_member(cls, method.__name__, method)
        _core.set_member(cls, "T", property(lambda self: _op["transpose"](self)))
    for method in (__repr__, __str__, __array_function__, __array_ufunc__, __reduce__):
        _core.set_member(ndarray, method.__name__, method)
    _core.set_member(ndarray, "dtype", property(get_dtype))
    _core.set_member(ndarray, "itemsize", property(lambda self: self.dtype.itemsize))
    _core.set_member(ndarray, "nbytes", property(lambda self: self.size * self.dtype.itemsize))
    _core.set_member(ndarray, "_arange_like", _npx.get("arange_like"))


_add_all()
