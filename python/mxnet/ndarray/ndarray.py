"""Creating, combining, saving and exchanging arrays."""
from .. import _core
from .._core import (NDArray, array, empty as _empty,  # noqa: F401
                     add, subtract, multiply, divide, true_divide, modulo, power, maximum, minimum, hypot, equal,
                     not_equal, greater, greater_equal, lesser, lesser_equal, logical_and, logical_or, logical_xor)
from . import _internal
from . import op as _op

__all__ = ["NDArray", "array", "empty", "zeros", "ones", "full", "arange", "linspace", "eye", "concatenate", "einsum", "moveaxis",
           "split_v2", "histogram", "onehot_encode", "fill_element_0index", "imdecode", "Custom", "waitall", "save",
           "load",
           "load_frombuffer", "loads", "from_numpy", "from_dlpack", "to_dlpack_for_read", "to_dlpack_for_write", "add",
           "subtract", "multiply",
           "divide", "true_divide", "modulo", "power", "maximum", "minimum", "hypot", "equal", "not_equal", "greater",
           "greater_equal", "lesser", "lesser_equal", "logical_and", "logical_or", "logical_xor",
           "indexing_key_expand_implicit_axes", "get_indexing_dispatch_code", "get_oshape_of_gather_nd_op",
           "check_boolean_array_dimension"]


def _rebuild(cls, data, shape, dtype, ctx):
    """An array from pickled bytes; on the CPU if its context does not exist."""
    from ..context import num_gpus
    if not (isinstance(cls, type) and issubclass(cls, NDArray)):
        raise TypeError(f"a pickled array is of the class {cls!r}, expected NDArray or a subclass")
    made = _core.from_bytes(data, shape, dtype)
    if ctx is not None and (ctx.device_type != "gpu" or ctx.device_id < num_gpus()):
        made = made.as_in_context(ctx)
    return made if cls is NDArray else cls(made)


# ---- creation -------------------------------------------------------------------------------------------------------

def empty(shape, ctx=None, dtype=None, stype=None):
    """An array whose elements are not set; a sparse one has none."""
    if stype not in (None, "default"):
        return _core.sparse_zeros(stype, shape, ctx, dtype)
    return _empty(shape, ctx, dtype)


def zeros(shape, ctx=None, dtype=None, stype=None, **kwargs):
    """An array of zeros."""
    if stype not in (None, "default"):
        return _core.sparse_zeros(stype, shape, ctx, dtype)
    return _internal._zeros(shape=shape, ctx=ctx, dtype="float32" if dtype is None else dtype, **kwargs)


def ones(shape, ctx=None, dtype=None, **kwargs):
    """An array of ones."""
    return _internal._ones(shape=shape, ctx=ctx, dtype="float32" if dtype is None else dtype, **kwargs)


def full(shape, val, ctx=None, dtype="float32", out=None):
    """An array filled with one value."""
    if isinstance(val, NDArray):
        val = val.asscalar()
    if out is not None:
        out[:] = val
        return out
    return _internal._full(shape=shape, value=val, ctx=ctx, dtype="float32" if dtype is None else dtype)


def arange(start, stop=None, step=1.0, repeat=1, infer_range=None, ctx=None, dtype="float32"):
    """Numbers from start (0 if only one bound is given) to stop, excluding stop, each repeated `repeat` times."""
    return _internal._arange(start=start, stop=stop, step=step, repeat=repeat, ctx=ctx,
                             dtype="float32" if dtype is None else dtype)


def linspace(start, stop, num, endpoint=True, ctx=None, dtype="float32"):
    """`num` evenly spaced numbers from start to stop."""
    return _internal._linspace(start=start, stop=stop, num=num, endpoint=endpoint, ctx=ctx,
                               dtype="float32" if dtype is None else dtype)


def eye(N, M=0, k=0, ctx=None, dtype=None, **kwargs):
    """An N x M matrix (M 0: N x N) with ones on diagonal k."""
    return _internal._eye(N=N, M=M, k=k, ctx=ctx, dtype="float32" if dtype is None else dtype, **kwargs)


# ---- combining ------------------------------------------------------------------------------------------------------

def concatenate(arrays, axis=0, always_copy=True):
    """Arrays joined along an axis; a single one is returned as it is unless always_copy."""
    if not isinstance(arrays, (list, tuple)) or not arrays:
        raise AssertionError("concatenate: expected a list with at least one NDArray")
    if len(arrays) == 1 and not always_copy:
        return arrays[0]
    return _op.concat(*arrays, dim=axis)


def _axis_list(axes, ndim, who):
    axes = [axes] if isinstance(axes, int) else list(axes)
    for axis in axes:
        if not -ndim <= axis < ndim:
            raise ValueError(f"moveaxis: {who} {axis} is out of bounds for an array with {ndim} axes")
    axes = [axis % ndim for axis in axes]
    if len(set(axes)) != len(axes):
        raise ValueError(f"moveaxis: {who} names an axis twice")
    return axes


def moveaxis(tensor, source, destination):
    """The array with axes `source` moved to positions `destination`; the others keep their order."""
    source = _axis_list(source, tensor.ndim, "source")
    destination = _axis_list(destination, tensor.ndim, "destination")
    if len(source) != len(destination):
        raise ValueError(f"moveaxis: {len(source)} sources but {len(destination)} destinations")
    order = [axis for axis in range(tensor.ndim) if axis not in source]
    for to, axis in sorted(zip(destination, source)):
        order.insert(to, axis)
    return _op.transpose(tensor, axes=order)


def einsum(subscripts, *operands):
    """Einstein's summation, as numpy.einsum writes it: einsum("bij,bjk->bik", a, b) is batch_dot(a, b).

    A label that the result lacks is summed over, a repeated one takes the diagonal, "..." stands for axes that are
    broadcast.  Without "->" the result has the labels that occur once, in alphabetic order.
    """
    return _core.einsum(subscripts, operands)


def split_v2(ary, indices_or_sections, axis=0, squeeze_axis=False):
    """Parts of an array along an axis: equal ones (an int), or cut before the given indices (a tuple)."""
    if isinstance(indices_or_sections, int):
        parts = _internal._split_v2(ary, sections=indices_or_sections, axis=axis, squeeze_axis=squeeze_axis)
    elif isinstance(indices_or_sections, (tuple, list)):
        indices = [0] + [int(i) for i in indices_or_sections]
        parts = _internal._split_v2(ary, indices=indices, axis=axis, squeeze_axis=squeeze_axis)
    else:
        raise ValueError(f"split_v2: indices_or_sections must be an int or a tuple of ints, "
                         f"got {type(indices_or_sections).__name__}")
    return parts


def histogram(a, bins=10, range=None):
    """(counts, edges): how many elements fall into each of `bins` equal bins, or between given edges."""
    if isinstance(bins, NDArray):
        return _internal._histogram(a, bins)
    if not isinstance(bins, int):
        raise ValueError(f"histogram: bins must be an int or an NDArray of edges, got {type(bins).__name__}")
    if range is None:
        range = (float(a.min().asscalar()), float(a.max().asscalar()))
    return _internal._histogram(a, bin_cnt=bins, range=(float(range[0]), float(range[1])))


def onehot_encode(indices, out):
    """Writes one-hot rows of the indices to `out`, shape (number of indices, depth)."""
    if out.ndim != 2 or indices.ndim != 1 or out.shape[0] != indices.shape[0]:
        raise ValueError(f"onehot_encode: indices of shape {indices.shape} do not fit out of shape {out.shape}")
    out[:] = _op.one_hot(indices, depth=out.shape[1], dtype=out.dtype)
    return out


def fill_element_0index(lhs, mhs, rhs):
    """A copy of the matrix lhs in which element rhs[i] of row i is mhs[i]."""
    result = lhs.copy()
    result[_internal._arange(start=0, stop=lhs.shape[0], ctx=lhs.context), rhs] = mhs
    return result


def imdecode(str_img, clip_rect=(0, 0, 0, 0), out=None, index=0, channels=3, mean=None):
    """Decodes the bytes of an image file to an array (1, channels, height, width), optionally cropped, minus a mean."""
    from .. import image
    decoded = image.imdecode(str_img, flag=0 if channels == 1 else 1)
    x0, y0, x1, y1 = clip_rect
    if x1 > x0 and y1 > y0:
        decoded = decoded[y0:y1, x0:x1]
    decoded = _op.expand_dims(_op.transpose(decoded.astype("float32"), axes=(2, 0, 1)), axis=0)
    if mean is not None:
        decoded = _op.broadcast_sub(decoded, mean.reshape((1,) + mean.shape[-3:]))
    if out is None:
        return decoded
    if out.ndim == 4 and out.shape[0] > 1:
        out[index] = decoded[0]
    else:
        out[:] = decoded.reshape(out.shape)
    return out


def Custom(*args, **kwargs):
    """An operator written in Python: nd.Custom(data, op_type="name"); see mx.operator."""
    from ..operator import custom
    return custom(*args, **kwargs)


def waitall():
    """Waits until all queued work is done."""
    _core.wait_all()


# ---- files ----------------------------------------------------------------------------------------------------------

def save(fname, data):
    """Writes an array, a list of arrays, or a dict of names and arrays.

    The suffix chooses the format: .safetensors, .npz or .npy (one array); any other name is a .params file.
    """
    if isinstance(data, NDArray):
        data = [data]
    if isinstance(data, dict):
        names, arrays = list(data), list(data.values())
        if not all(isinstance(name, str) for name in names):
            raise TypeError("save: the keys of the dict must be strings")
    elif isinstance(data, (list, tuple)):
        names, arrays = None, list(data)
    else:
        raise ValueError(f"save: expected an NDArray, a list of them or a dict of names and NDArrays, "
                         f"got {type(data).__name__}")
    for item in arrays:
        if not isinstance(item, NDArray):
            raise TypeError(f"save: only NDArrays can be written, got {type(item).__name__}")
    _core.save(fname, arrays, names)


def load(fname):
    """Arrays of a .params, safetensors, NPZ, NPY, HDF5 or .keras file (its contents say which): a dict if they have names, else a
    list."""
    return _core.load(fname)


def load_frombuffer(buf):
    """The same as load, from the bytes of such a file."""
    return _core.load_buffer(buf)


loads = load_frombuffer


# ---- exchange -------------------------------------------------------------------------------------------------------

def _adopted(ndarray):
    """An array over the memory, writable even if the NumPy array is read-only because its memory is shared already."""
    if not ndarray.flags["WRITEABLE"]:
        try:
            ndarray.flags["WRITEABLE"] = True
        except ValueError:
            pass  # the memory itself is read-only: a mapped file, the bytes of a string
    made = _core.adopt(ndarray)
    ndarray.flags["WRITEABLE"] = False
    return made


def from_numpy(ndarray, zero_copy=True, array_cls=NDArray):
    """An array over the memory of a contiguous NumPy array, or a copy of it.

    While the memory is shared, the NumPy array is read-only, so that it cannot change unnoticed.
    """
    if not hasattr(ndarray, "flags"):
        raise AttributeError(f"from_numpy: expected a NumPy array, got {type(ndarray).__name__}")
    if not zero_copy:
        made = array(ndarray, dtype=ndarray.dtype)
    elif not ndarray.flags["C_CONTIGUOUS"]:
        raise ValueError("from_numpy: only an array that is contiguous in C order can share its memory")
    else:
        made = _adopted(ndarray)
    return made if array_cls is NDArray else array_cls(made)


def from_dlpack(dlpack):
    """An array over the memory of a DLPack capsule, or of an object that can export one."""
    return _core.from_dlpack(dlpack)


def to_dlpack_for_read(data):
    """A DLPack capsule of the array, for reading."""
    return data.to_dlpack_for_read()


def to_dlpack_for_write(data):
    """A DLPack capsule of the array, for reading and writing."""
    return data.to_dlpack_for_write()


# ---- keys of x[key] -------------------------------------------------------------------------------------------------

def indexing_key_expand_implicit_axes(key, shape):
    """(key, position): the key with `...` and missing axes written as slices; position of the ellipsis or -1."""
    key = key if isinstance(key, tuple) else (key,)
    taken = sum(1 for k in key if k is not None and k is not Ellipsis)
    places = [i for i, k in enumerate(key) if k is Ellipsis]
    if len(places) > 1:
        raise IndexError("an index may have one ellipsis only")
    if taken > len(shape):
        raise IndexError(f"too many indices ({taken}) for an array with {len(shape)} axes")
    fill = (slice(None),) * (len(shape) - taken)
    if places:
        return key[:places[0]] + fill + key[places[0] + 1:], places[0]
    return key + fill, -1


def get_indexing_dispatch_code(key):
    """0: basic indexing (integers, slices, None, ...); 1: with index arrays; -1: not a legal key."""
    key = key if isinstance(key, tuple) else (key,)
    code = 0
    for k in key:
        if isinstance(k, (NDArray, list, tuple, range)) or hasattr(k, "__array__") and getattr(k, "ndim", 0):
            code = 1
        elif not (k is None or k is Ellipsis or isinstance(k, slice) or hasattr(k, "__index__")):
            return -1
    return code


def get_oshape_of_gather_nd_op(dshape, ishape):
    """Shape of gather_nd's result from the shapes of data and indices."""
    if not ishape:
        raise ValueError("gather_nd: the indices need at least one axis")
    return tuple(ishape[1:]) + tuple(dshape[ishape[0]:])


def check_boolean_array_dimension(array_shape, axis, bool_shape):
    """IndexError unless a boolean index of bool_shape fits array_shape from `axis` on."""
    for i, size in enumerate(bool_shape):
        if array_shape[axis + i] != size:
            raise IndexError(f"a boolean index of size {size} does not fit axis {axis + i} "
                             f"of size {array_shape[axis + i]}")


def __getattr__(name):
    """Names that libraries import from here; they need NumPy, which is loaded with the first of them."""
    if not name.startswith("__"):
        from . import _private
        if name in _private.__all__:
            return getattr(_private, name)
    raise AttributeError(f"module 'mxnet.ndarray.ndarray' has no attribute '{name}'")
