"""Sparse arrays: mx.nd.sparse.

    row_sparse   few rows of many: data (rows, ...) and the indices of the rows
    csr          a matrix with few elements: data, their columns (indices), and where each row begins (indptr)

Operators that support sparse arrays take and return them (dot, +, -, *, sum, retain, optimizer updates ...); all
others raise an error that suggests tostype('default').
"""
from .. import _core
from .._core import NDArray
from ..base import NotSupportedForSparseNDArray
from . import _register
from . import ndarray as _nd
from .ndarray import add, divide, multiply, subtract  # noqa: F401

_slice = slice  # an operator of this module has that name, too

globals().update({name: op for name, op in _register.family("sparse").items() if not name.startswith("_")})


def _whole(key):
    return key is Ellipsis or (isinstance(key, _slice) and key == _slice(None))


class BaseSparseNDArray(NDArray):
    """Base of row_sparse and csr arrays."""

    __slots__ = ()
    __hash__ = NDArray.__hash__

    @property
    def data(self):
        """The stored values."""
        return _core.sparse_parts(self)[0]

    @data.setter
    def data(self, value):
        _core.sparse_set(self, value, *_core.sparse_parts(self)[1:])

    @property
    def _data(self):
        """A copy of the stored values."""
        return self.data.copy()

    @property
    def indices(self):
        """Indices of the stored rows, or columns of the stored elements; int64, ascending."""
        return _core.sparse_parts(self)[1]

    @indices.setter
    def indices(self, value):
        data, _, indptr = _core.sparse_parts(self)
        _core.sparse_set(self, data, _index(value, self.context), indptr)

    @property
    def _num_aux(self):
        return 2 if self.stype == "csr" else 1

    def asnumpy(self):
        """A dense NumPy array with a copy of the elements."""
        return self.tostype("default").asnumpy()

    def __array__(self, dtype=None, copy=None):
        result = self.asnumpy()
        return result if dtype is None else result.astype(dtype)

    def todense(self):
        """A dense copy."""
        return self.tostype("default")

    def tostype(self, stype):
        """The array in another storage type; itself if it already has it."""
        if stype not in (self.stype, "default"):
            raise ValueError(f"cast_storage from {self.stype} to {stype} is not supported; convert to 'default' first")
        return _core.tostype(self, stype)

    def check_format(self, full_check=True):
        """Checks the parts; they are always valid, since invalid arrays cannot be created."""
        data, indices, indptr = _core.sparse_parts(self)
        _core.sparse_set(self, data, indices, indptr)

    def copyto(self, other):
        """Copies to another array, sparse or dense, or to a context as a new array."""
        if not isinstance(other, NDArray):
            return super().copyto(other) if other != self.context else self.copy()
        if other is self:
            import warnings
            warnings.warn("copyto: the array is copied to itself", RuntimeWarning, stacklevel=2)
            return False
        other[:] = self
        return other

    def __setitem__(self, key, value):
        if not _whole(key):
            raise ValueError(f"{type(self).__name__}: only all of a sparse array can be assigned: x[:] = value")
        if _is_number(value) and value == 0:
            value = zeros(self.stype, self.shape, ctx=self.context, dtype=self.dtype)
        if not isinstance(value, NDArray):
            value = _nd.full(self.shape, value, ctx=self.context, dtype=self.dtype) if _is_number(value) \
                else _nd.array(value, ctx=self.context, dtype=self.dtype)
        if value.shape != self.shape:
            raise ValueError(f"{type(self).__name__}: an array of shape {value.shape} was given, "
                             f"expected {self.shape}")
        value = value.as_in_context(self.context).astype(self.dtype, copy=False)
        value = _core.tostype(_core.tostype(value, "default") if value.stype not in (self.stype, "default") else value,
                              self.stype).copy()
        _core.sparse_set(self, *_core.sparse_parts(value))

    def __reduce__(self):
        data, indices, indptr = _core.sparse_parts(self)
        return _remake, (self.stype, self.shape, data, indices, indptr)

    def __iter__(self):
        for i in range(self.shape[0]):
            yield self[i]

    def __bool__(self):
        raise ValueError("The truth value of a sparse array is ambiguous")


def _refused(name):
    def method(self, *args, **kwargs):
        raise NotSupportedForSparseNDArray(getattr(NDArray, name), "tostype('default') first", *args)
    method.__name__ = name
    method.__doc__ = "Raises an error: only dense arrays support it; use tostype('default') first."
    return method


for _name in ("reshape", "asscalar", "item", "tolist", "__dlpack__", "to_dlpack_for_read", "to_dlpack_for_write",
              "broadcast_to", "broadcast_like", "expand_dims", "squeeze", "flatten", "split_v2", "slice_assign",
              "slice_assign_scalar"):
    if hasattr(NDArray, _name):
        setattr(BaseSparseNDArray, _name, _refused(_name))


class RowSparseNDArray(BaseSparseNDArray):
    """An array that stores only some rows; all others are zero."""

    __slots__ = ()
    __hash__ = NDArray.__hash__

    def __getitem__(self, key):
        if _whole(key):
            return self
        raise NotImplementedError("RowSparseNDArray: only x[:] is supported; retain() returns rows, tostype('default') "
                                  "an array that can be indexed")

    def retain(self, indices):
        """The rows with the given indices; see sparse.retain."""
        return retain(self, indices)


class CSRNDArray(BaseSparseNDArray):
    """A matrix in compressed rows."""

    __slots__ = ()
    __hash__ = NDArray.__hash__

    @property
    def indptr(self):
        """Where each row begins among the elements; int64, one more than rows."""
        return _core.sparse_parts(self)[2]

    @indptr.setter
    def indptr(self, value):
        data, indices, _ = _core.sparse_parts(self)
        _core.sparse_set(self, data, indices, _index(value, self.context))

    def __getitem__(self, key):
        rows = self.shape[0]
        if isinstance(key, tuple):
            raise ValueError("CSRNDArray: rows can be indexed, not columns; use tostype('default') first")
        if _whole(key):
            return self
        if isinstance(key, _slice):
            begin, end, step = key.indices(rows)
            if step != 1:
                raise ValueError("CSRNDArray: only slices of rows with step 1 are supported")
            return _core.csr_rows(self, begin, max(begin, end))
        if hasattr(key, "__index__"):
            row = key.__index__()
            if not -rows <= row < rows:
                raise IndexError(f"CSRNDArray: row {row} is out of bounds for an array with {rows} rows")
            row %= rows
            return _core.csr_rows(self, row, row + 1)
        raise ValueError(f"CSRNDArray: {type(key).__name__} is not an index; expected an int or a slice of rows")

    def asscipy(self):
        """A scipy.sparse.csr_matrix with copies of the parts."""
        from scipy import sparse as scipy_sparse
        data, indices, indptr = _core.sparse_parts(self)
        return scipy_sparse.csr_matrix((data.asnumpy(), indices.asnumpy(), indptr.asnumpy()), shape=self.shape,
                                       dtype=self.dtype)


_core.set_sparse_classes(RowSparseNDArray, CSRNDArray)


# ---- making ---------------------------------------------------------------------------------------------------------

def _is_number(value):
    import numbers
    return isinstance(value, numbers.Number)


def _index(source, ctx):
    """An index array as int64."""
    if isinstance(source, NDArray):
        return source.as_in_context(ctx) if source.context != ctx else source
    import numpy
    numbers = numpy.asarray(source)
    if numbers.size and numbers.dtype.kind not in "iu":
        raise TypeError(f"sparse array: indices must be integers, got {numbers.dtype}")
    return _nd.array(numbers, ctx=ctx, dtype="int64")


def _values(source, ctx, dtype):
    if dtype is None:
        dtype = getattr(source, "dtype", "float32")
    return _nd.array(source, ctx=ctx, dtype=dtype)


def _context(ctx):
    from ..context import current_context
    return current_context() if ctx is None else ctx


def _remake(stype, shape, data, indices, indptr):
    return _core.sparse_make(stype, shape, data, indices, indptr)


def _cast(source, ctx, dtype, stype, shape):
    if isinstance(source, BaseSparseNDArray) and source.stype != stype:
        source = source.tostype("default")
    made = _core.tostype(_values(source, ctx, dtype), stype)
    if shape is not None and tuple(shape) != made.shape:
        raise ValueError(f"{stype}: the array has shape {made.shape}, expected {tuple(shape)}")
    return made


def _is_size(value):
    return hasattr(value, "__index__") and not isinstance(value, NDArray) and getattr(value, "ndim", 0) == 0


def csr_matrix(arg1, shape=None, ctx=None, dtype=None):
    """A csr array from (data, indices, indptr), (data, (rows, columns)), a shape (M, N), or any matrix."""
    ctx = _context(ctx)
    if isinstance(arg1, tuple) and len(arg1) == 2 and all(_is_size(size) for size in arg1):
        if shape is not None and tuple(shape) != tuple(arg1):
            raise ValueError(f"csr_matrix: the shapes {tuple(arg1)} and {tuple(shape)} differ")
        return zeros("csr", arg1, ctx=ctx, dtype=dtype)
    if isinstance(arg1, tuple) and len(arg1) == 2:
        data, (rows, columns) = arg1
        return _core.sparse_triples(shape, _values(data, ctx, dtype), _index(rows, ctx).astype("int64"),
                                    _index(columns, ctx).astype("int64"))
    if isinstance(arg1, tuple) and len(arg1) == 3:
        data, indices, indptr = arg1
        return _core.sparse_make("csr", shape, _values(data, ctx, dtype), _index(indices, ctx).astype("int64"),
                                 _index(indptr, ctx).astype("int64"))
    if isinstance(arg1, tuple):
        raise ValueError(f"csr_matrix: a tuple of {len(arg1)} was given, expected (data, indices, indptr), "
                         "(data, (rows, columns)) or (M, N)")
    if hasattr(arg1, "tocsr"):
        return array(arg1, ctx=ctx, dtype=dtype)
    return _cast(arg1, ctx, dtype, "csr", shape)


def row_sparse_array(arg1, shape=None, ctx=None, dtype=None):
    """A row_sparse array from (data, indices), a shape, or any array."""
    ctx = _context(ctx)
    if isinstance(arg1, tuple) and arg1 and all(_is_size(size) for size in arg1):
        return zeros("row_sparse", arg1, ctx=ctx, dtype=dtype)
    if isinstance(arg1, tuple):
        if len(arg1) != 2:
            raise ValueError(f"row_sparse_array: a tuple of {len(arg1)} was given, expected (data, indices) or a shape")
        return _core.sparse_make("row_sparse", shape, _values(arg1[0], ctx, dtype),
                                 _index(arg1[1], ctx).astype("int64"))
    return _cast(arg1, ctx, dtype, "row_sparse", shape)


def zeros(stype, shape, ctx=None, dtype=None, **kwargs):
    """An array of zeros of a storage type."""
    if stype == "default":
        return _nd.zeros(shape, ctx=ctx, dtype=dtype, **kwargs)
    return _core.sparse_zeros(stype, shape, ctx, dtype)


def empty(stype, shape, ctx=None, dtype=None):
    """A sparse array without elements, or a dense one whose elements are not set."""
    return _nd.empty(shape, ctx=ctx, dtype=dtype) if stype == "default" else zeros(stype, shape, ctx, dtype)


def array(source_array, ctx=None, dtype=None):
    """A copy of a sparse array, or of a SciPy matrix as a csr array."""
    ctx = _context(ctx)
    if isinstance(source_array, BaseSparseNDArray):
        return source_array.astype(source_array.dtype if dtype is None else dtype).as_in_context(ctx)
    if hasattr(source_array, "tocsr"):
        matrix = source_array.tocsr()
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        return csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape, ctx=ctx,
                          dtype=matrix.dtype if dtype is None else dtype)
    if isinstance(source_array, NDArray):
        return _nd.array(source_array, ctx=ctx, dtype=dtype)
    raise ValueError(f"sparse.array: expected a sparse array or a SciPy matrix, got {type(source_array).__name__}; "
                     "nd.array takes dense ones")


def cast_storage(data, stype, out=None, **kwargs):
    """The array in another storage type."""
    made = data.tostype(stype)
    if out is None:
        return data.copy() if made is data else made
    out[:] = made
    return out


def retain(data, indices, **kwargs):
    """The rows of a row_sparse array with the given indices; zeros where it has none."""
    return _register.OPERATORS["_sparse_retain"](data, indices, **kwargs)
