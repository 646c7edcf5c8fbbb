"""Functions of mx.np that are glue: arrays from data, arguments that NumPy spells in several ways, lists of results."""
import numpy as _np

from .. import _core
from .._core import NDArray, NumpySymbol, ndarray
from ._functions import FUNCTIONS as _op

__all__ = ["array", "asarray", "empty", "empty_like", "full_like", "zeros_like", "ones_like", "identity", "copy", "shape", "ndim",
           "size", "split", "array_split", "hsplit", "vsplit", "dsplit", "atleast_1d", "atleast_2d", "atleast_3d",
           "broadcast_arrays", "tensordot", "einsum", "average", "rot90", "fliplr", "flipud", "rollaxis",
           "pad", "diff", "polyval", "set_printoptions", "isscalar", "full", "tile", "roll",
           "may_share_memory", "shares_memory", "ascontiguousarray", "repeat"]


def _plain(value):
    """Nested lists without arrays inside: those of mx.np become lists, too."""
    if isinstance(value, NDArray):
        return value.asnumpy()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _default(dtype):
    return dtype if dtype is not None else "float64" if _core.is_np_default_dtype() else "float32"


def array(object, dtype=None, ctx=None):
    """An array from data: lists and numbers have the default type, arrays keep theirs."""
    before = _core.set_np_array(True)
    try:
        if isinstance(object, NDArray):
            dtype = object.dtype if dtype is None else dtype
            return _core.array(object.as_nd_ndarray(), ctx, dtype)
        if isinstance(object, (_np.ndarray, _np.generic)) or hasattr(object, "__array_interface__"):
            object = _np.asarray(object)
            if dtype is None:
                dtype = object.dtype if object.dtype.name in _KEPT else _default(None)
        elif isinstance(object, (list, tuple)):
            object = _np.asarray(_plain(object), dtype=None if dtype is None else _np.dtype(_name(dtype)))
            if dtype is None and object.dtype == bool:
                dtype = "bool"
        if object is None:
            raise TypeError("np.array: expected data, got None")
        return _core.array(object, ctx, _default(dtype))
    finally:
        _core.set_np_array(before)


_KEPT = {"float16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool"}


def _name(dtype):
    name = getattr(dtype, "__name__", None) or str(dtype)
    return name if name in _KEPT else _np.dtype(dtype).name


def asarray(a, dtype=None, ctx=None):
    """The array itself if it is one already, else one made of it."""
    if isinstance(a, (ndarray, NumpySymbol)) and dtype is None and ctx is None:
        return a
    return array(a, dtype, ctx)


ascontiguousarray = asarray


def empty(shape, dtype=None, order="C", ctx=None):
    """An array whose elements are not set."""
    before = _core.set_np_array(True)
    try:
        return _core.empty(shape, ctx, _default(dtype))
    finally:
        _core.set_np_array(before)


def full(shape, fill_value, dtype=None, order="C", ctx=None, out=None):
    """An array of one value: a number, or an array that is broadcast."""
    if isinstance(fill_value, NDArray):
        made = _op["broadcast_to"](fill_value.astype(_default(dtype)), shape)
        return made if out is None else _written(made, out)
    if dtype is None and isinstance(fill_value, bool):
        dtype = "bool"
    return _op["full"](shape=shape, fill_value=float(fill_value), dtype=_default(dtype), ctx=ctx, out=out)


def _written(made, out):
    out[()] = made
    return out


def _masked(result, where, out):
    """The result where the mask is true; elsewhere what `out` has, or 0."""
    if out is None:
        return _op["where"](where, result, _op["full_like"](result))
    out[()] = _op["where"](where, result, out)
    return out


def _like(name, a, dtype, ctx, out):
    if isinstance(a, NumpySymbol):
        return _op["full_like"](a, fill_value=1.0 if name == "ones" else 0.0, dtype=dtype)
    return _op[name](shape=a.shape, dtype=dtype or a.dtype, ctx=ctx or getattr(a, "ctx", None), out=out)


def zeros_like(a, dtype=None, order="C", ctx=None, out=None):
    """Zeros in the shape and type of another array."""
    return _like("zeros", a, dtype, ctx, out)


def ones_like(a, dtype=None, order="C", ctx=None, out=None):
    """Ones in the shape and type of another array."""
    return _like("ones", a, dtype, ctx, out)


def empty_like(prototype, dtype=None, order="C", subok=False, shape=None):
    """An array in the shape and type of another one, whose elements are not set."""
    return empty(prototype.shape if shape is None else shape, dtype or prototype.dtype, ctx=prototype.ctx)


def full_like(a, fill_value, dtype=None, order="C", ctx=None, out=None):
    """One value in the shape and type of another array."""
    if isinstance(a, NumpySymbol):
        return _op["full_like"](a, fill_value=float(fill_value), dtype=dtype)
    return full(a.shape, fill_value, dtype or a.dtype, ctx=ctx or a.ctx, out=out)


def identity(n, dtype=None, ctx=None):
    """The identity matrix."""
    return _op["eye"](N=n, dtype=_default(dtype), ctx=ctx)


def copy(a, out=None):
    """A copy of an array."""
    return asarray(a).copy() if out is None else _written(a, out)


def shape(a):
    """The shape of an array or of nested lists."""
    return a.shape if hasattr(a, "shape") else _np.shape(_plain(a))


def ndim(a):
    """The number of axes."""
    return len(shape(a))


def size(a, axis=None):
    """The number of elements, or the size of an axis."""
    sizes = shape(a)
    return sizes[axis] if axis is not None else int(_np.prod(sizes, dtype=_np.int64))


def isscalar(element):
    """Whether it is a number."""
    return _np.isscalar(element)


def may_share_memory(a, b, max_work=None):
    """Whether two arrays may share memory."""
    host = a.ctx.device_type == b.ctx.device_type == "cpu"
    return host and _np.may_share_memory(_np.asarray(a), _np.asarray(b))


# ---- parts -----------------------------------------------------------------------------------------------------------

def _parts(ary, axis, **how):
    parts = _op["split"](ary, axis=axis, **how)
    return list(parts) if isinstance(parts, (list, tuple)) else [parts]


def _cuts(indices):
    return tuple(int(i) for i in indices)


def split(ary, indices_or_sections, axis=0):
    """Equal parts (an int: how many), or parts that begin at given indices."""
    if isinstance(indices_or_sections, int):
        if indices_or_sections < 1:
            raise ValueError("np.split: the number of parts must be at least 1")
        return _parts(ary, axis, sections=indices_or_sections)
    return _parts(ary, axis, indices=_cuts(indices_or_sections))


def array_split(ary, indices_or_sections, axis=0):
    """Parts whose sizes differ by 1 at most (an int: how many), or parts that begin at given indices."""
    if not isinstance(indices_or_sections, int):
        return split(ary, indices_or_sections, axis)
    small, longer = divmod(ary.shape[axis], indices_or_sections)
    sizes = [small + 1] * longer + [small] * (indices_or_sections - longer)
    return _parts(ary, axis, indices=_cuts(_np.cumsum(sizes)[:-1]))


def hsplit(ary, indices_or_sections):
    """Parts along the second axis, of a vector along its only one."""
    return split(ary, indices_or_sections, 0 if ary.ndim == 1 else 1)


def vsplit(ary, indices_or_sections):
    """Parts along the first axis."""
    if ary.ndim < 2:
        raise ValueError("np.vsplit: wanted at least two axes")
    return split(ary, indices_or_sections, 0)


def dsplit(ary, indices_or_sections):
    """Parts along the third axis."""
    if ary.ndim < 3:
        raise ValueError("np.dsplit: wanted at least three axes")
    return split(ary, indices_or_sections, 2)


def _at_least(arys, grow):
    grown = [grow(asarray(a)) for a in arys]
    return grown[0] if len(grown) == 1 else grown


def atleast_1d(*arys):
    """Arrays with at least one axis."""
    return _at_least(arys, lambda a: a if a.ndim else a.reshape(1))


def atleast_2d(*arys):
    """Arrays with at least two axes, new ones in front."""
    return _at_least(arys, lambda a: a if a.ndim > 1 else a.reshape(1, -1))


def atleast_3d(*arys):
    """Arrays with at least three axes."""
    def grow(a):
        return a if a.ndim > 2 else a.reshape(1, -1, 1) if a.ndim < 2 else _op["expand_dims"](a, 2)
    return _at_least(arys, grow)


def broadcast_arrays(*args):
    """The arrays broadcast to their common shape."""
    together = _np.broadcast_shapes(*(shape(a) for a in args))
    return [_op["broadcast_to"](a, together) for a in args]


# ---- arguments in several spellings ---------------------------------------------------------------------------------

def tile(A, reps):
    """The array repeated as a whole."""
    return _op["tile"](A, reps=(reps,) if isinstance(reps, int) else tuple(int(r) for r in reps))


def repeat(a, repeats, axis=None):
    """Each element repeated, the same number of times or as often as a list says."""
    if isinstance(repeats, (int, _np.integer)):
        return _op["repeat"](a, repeats=int(repeats), axis=axis)
    a, axis = (a.reshape(-1), 0) if axis is None else (a, axis)
    places = _np.repeat(_np.arange(a.shape[axis]), _plain(repeats))
    return _op["take"](a, array(places, dtype="int64", ctx=a.ctx), axis=axis)


def roll(a, shift, axis=None):
    """Elements moved along axes; those that leave enter at the other end."""
    return _op["roll"](a, shift=shift, axis=axis)


def tensordot(a, b, axes=2):
    """The sum of products over the last `axes` axes of a and the first of b, or over two lists of axes."""
    if isinstance(axes, int):
        if axes < 0:
            raise ValueError("np.tensordot: axes must not be negative")
        pair = tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes))
    else:
        pair = tuple((side,) if isinstance(side, int) else tuple(side) for side in axes)
    return _op["tensordot"](a, b, a_axes=pair[0], b_axes=pair[1])


def einsum(*operands, out=None, optimize=False):
    """Einstein's summation: np.einsum("ij,jk->ik", a, b)."""
    before = _core.set_np_array(True)
    shapes = _core.set_np_shape(True)
    try:
        made = _core.einsum(operands[0], operands[1:])
    finally:
        _core.set_np_array(before)
        _core.set_np_shape(shapes)
    if "->" in operands[0] and not operands[0].split("->")[1].strip() and made.ndim:
        made = made.reshape(())
    return made if out is None else _written(made, out)


def average(a, axis=None, weights=None, returned=False, out=None):
    """The mean, weighted by `weights` of the same shape or, along one axis, of its size."""
    if weights is None:
        mean = _op["mean"](a, axis=axis)
        total = full(mean.shape, a.size / max(mean.size, 1), a.dtype)
    else:
        if weights.shape != a.shape:
            if axis is None or weights.ndim != 1:
                raise TypeError("np.average: weights of another shape need one axis and have one")
            weights = weights.reshape([-1 if i == axis % a.ndim else 1 for i in range(a.ndim)])
        total = _op["sum"](weights * _op["ones"](shape=a.shape, dtype=weights.dtype, ctx=a.ctx), axis=axis)
        mean = _op["sum"](a * weights, axis=axis) / total
    mean = mean if out is None else _written(mean, out)
    return (mean, total) if returned else mean


def rot90(m, k=1, axes=(0, 1)):
    """The array turned by 90 degrees k times in the plane of two axes."""
    first, second = axes[0] % m.ndim, axes[1] % m.ndim
    if first == second:
        raise ValueError("np.rot90: the two axes must differ")
    k %= 4
    if k == 0:
        return m.copy()
    if k == 2:
        return _op["flip"](m, axis=(first, second))
    if k == 1:
        return _op["swapaxes"](_op["flip"](m, axis=second), first, second)
    return _op["flip"](_op["swapaxes"](m, first, second), axis=second)


def fliplr(m):
    """The second axis in reverse order."""
    return _op["flip"](m, axis=1)


def flipud(m):
    """The first axis in reverse order."""
    return _op["flip"](m, axis=0)


def rollaxis(a, axis, start=0):
    """An axis moved before another one."""
    axis = axis % a.ndim
    start = start + a.ndim if start < 0 else start
    return _op["moveaxis"](a, axis, start - 1 if axis < start else start)


def pad(x, pad_width=None, mode="constant", constant_values=0, **kwargs):
    """A border around the array; pad_width is (before, after) per axis, one pair, or one number."""
    widths = _np.broadcast_to(_np.asarray(_plain(pad_width), dtype=_np.int64), (x.ndim, 2))
    flat = tuple(int(width) for width in widths.reshape(-1))
    if mode in _MODES and not kwargs and _fits(x, widths, mode):
        if isinstance(constant_values, (int, float)):
            return _op["pad"](x, pad_width=flat, mode=mode, constant_values=float(constant_values))
    from .fallback import on_copies
    if mode == "constant":
        kwargs["constant_values"] = constant_values
    return on_copies(_np.pad)(x, widths, mode=mode, **kwargs)


_MODES = {"constant", "edge", "reflect", "symmetric", "maximum", "minimum", "mean", "wrap"}


def _fits(x, widths, mode):
    """Whether the border is not wider than what is reflected or repeated."""
    if mode not in ("reflect", "symmetric", "wrap"):
        return True
    return all(max(pair) < size + (mode != "reflect") for pair, size in zip(widths, x.shape))


def diff(a, n=1, axis=-1, prepend=None, append=None):
    """Differences of neighbours along an axis, n times."""
    if n < 0:
        raise ValueError("np.diff: n must not be negative")
    parts = [p for p in (prepend, a, append) if p is not None]
    a = a if len(parts) == 1 else _op["concatenate"](parts, axis=axis)
    axis = axis % a.ndim
    for _ in range(n):
        front = (slice(None),) * axis
        later, sooner = a[front + (slice(1, None),)], a[front + (slice(None, -1),)]
        a = later != sooner if str(a.dtype) == "bool" else later - sooner
    return a


def polyval(p, x):
    """The polynomial with coefficients p, the highest power first, at x."""
    value = _op["multiply"](x, 0) + p[0]
    for coefficient in p[1:]:
        value = value * x + coefficient
    return value


shares_memory = may_share_memory


def set_printoptions(precision=None, threshold=None, **kwarg):
    """How arrays are printed: numpy.set_printoptions."""
    _np.set_printoptions(precision=precision, threshold=threshold, **kwarg)
