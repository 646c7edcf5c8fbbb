"""Random arrays, shapes and matrices for tests."""
import random as _random

import numpy as np

from .. import _core
from ..context import Context, current_context
from ..ndarray import array, NDArray

_default = [None]  # the context of set_default_context


def default_context():
    """The context that tests compute on: set_default_context, MXNET_TEST_DEFAULT_CTX, or the current one."""
    import os
    if _default[0] is None and os.environ.get("MXNET_TEST_DEFAULT_CTX"):
        return Context.from_text(os.environ["MXNET_TEST_DEFAULT_CTX"])
    return _default[0] or current_context()


def set_default_context(ctx):
    """Sets default_context() and the current context."""
    _default[0] = ctx
    _core.set_current_context(ctx)


def default_dtype():
    """The element type of tests: float32."""
    return np.float32


def list_gpus():
    """Numbers of the GPUs that can be used."""
    return range(_core.num_gpus())


# ---- shapes --------------------------------------------------------------------------------------------------------

def rand_shape_nd(num_dim, dim=10, allow_zero_size=False):
    """A shape with num_dim axes, each of size at most dim."""
    return tuple(int(n) for n in np.random.randint(0 if allow_zero_size else 1, dim + 1, size=num_dim))


def rand_shape_2d(dim0=10, dim1=10, allow_zero_size=False):
    """A shape with two axes of at most the given sizes."""
    low = 0 if allow_zero_size else 1
    return tuple(int(np.random.randint(low, d + 1)) for d in (dim0, dim1))


def rand_shape_3d(dim0=10, dim1=10, dim2=10, allow_zero_size=False):
    """A shape with three axes of at most the given sizes."""
    low = 0 if allow_zero_size else 1
    return tuple(int(np.random.randint(low, d + 1)) for d in (dim0, dim1, dim2))


def rand_coord_2d(x_low, x_high, y_low, y_high):
    """A random point of a rectangle, upper bounds excluded."""
    return int(np.random.randint(x_low, x_high)), int(np.random.randint(y_low, y_high))


# ---- arrays --------------------------------------------------------------------------------------------------------

def random_arrays(*shapes):
    """Normal numbers in NumPy arrays of the given shapes; one array if one shape is given."""
    arrays = [np.array(np.random.randn(*shape), dtype=default_dtype()) for shape in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def random_uniform_arrays(*shapes, **kwargs):
    """Uniform numbers in a list of NumPy arrays; low=, high=, dtype=."""
    low, high = kwargs.pop("low", 0.0), kwargs.pop("high", 1.0)
    dtype = kwargs.pop("dtype", default_dtype())
    if kwargs:
        raise TypeError(f"random_uniform_arrays: unknown keywords {', '.join(kwargs)}")
    return [np.random.uniform(low, high, size=shape).astype(dtype) for shape in shapes]


def random_sample(population, k):
    """k elements of a population, in their original order."""
    chosen = sorted(_random.sample(range(len(population)), k))
    return [population[i] for i in chosen]


def rand_ndarray(shape, stype="default", density=None, dtype=None, modifier_func=None, shuffle_csr_indices=False,
                 distribution=None, ctx=None):
    """Uniform numbers in [-1, 1) in an array."""
    if stype != "default":
        return create_sparse_array(shape, stype, density=0.5 if density is None else density, dtype=dtype,
                                   modifier_func=modifier_func)
    values = np.random.uniform(-1, 1, size=shape)
    if modifier_func is not None:
        values = np.vectorize(modifier_func)(values)
    return array(values, ctx=ctx or default_context(), dtype=dtype or default_dtype())


def rand_sparse_ndarray(shape, stype, density=None, dtype=None, distribution=None, data_init=None, rsp_indices=None,
                        modifier_func=None, shuffle_csr_indices=False, ctx=None):
    """A random sparse array and its parts as NumPy arrays: (values, rows), or (indptr, columns, values) of a csr.

    density: share of stored rows or elements; rsp_indices: the stored rows; data_init: one value for all of them.
    """
    from ..ndarray import sparse
    density = np.random.rand() if density is None else density
    dtype = default_dtype() if dtype is None else dtype
    count = shape[0] if stype == "row_sparse" else int(np.prod(shape))
    there = np.flatnonzero(np.random.rand(count) < density)
    if stype == "row_sparse" and rsp_indices is not None:
        there = np.array(sorted(rsp_indices), dtype="int64")
    size = (len(there),) + tuple(shape[1:]) if stype == "row_sparse" else (len(there),)
    values = np.random.uniform(-1, 1, size) if data_init is None else np.full(size, data_init)
    if modifier_func is not None:
        values = np.vectorize(modifier_func, otypes=[float])(values)
    values = values.astype(dtype)
    if stype == "row_sparse":
        return sparse.row_sparse_array((values, there), shape=shape, ctx=ctx, dtype=dtype), (values, there)
    rows, columns = there // shape[1], there % shape[1]
    starts = np.searchsorted(rows, np.arange(shape[0] + 1))
    return (sparse.csr_matrix((values, columns, starts), shape=shape, ctx=ctx, dtype=dtype),
            (starts, columns, values))


def create_sparse_array(shape, stype, data_init=None, rsp_indices=None, dtype=None, modifier_func=None, density=0.5,
                        shuffle_csr_indices=False):
    """A random sparse array."""
    return rand_sparse_ndarray(shape, stype, density, dtype, None, data_init, rsp_indices, modifier_func)[0]


def create_sparse_array_zd(shape, stype, density, data_init=None, rsp_indices=None, dtype=None, modifier_func=None,
                           shuffle_csr_indices=False):
    """A random sparse array; with density 0 it is empty."""
    rsp_indices = [] if density == 0 else rsp_indices
    return create_sparse_array(shape, stype, data_init, rsp_indices, dtype, modifier_func, density)


def shuffle_csr_column_indices(csr):
    """Raises an error: the columns of a row are always ascending."""
    from ..error import UnsupportedError
    raise UnsupportedError("shuffle_csr_column_indices: the columns of a csr array are always in order")


def create_2d_tensor(rows, columns, dtype=np.int64):
    """A matrix whose rows contain their own index."""
    return array(np.arange(rows).reshape(rows, 1).repeat(columns, axis=1), dtype=dtype)


def create_vector(size, dtype=np.int64):
    """0, 1, 2 ..."""
    return array(np.arange(size), dtype=dtype)


def assign_each(the_input, function):
    """function(element) for every element."""
    values = np.array(the_input)
    return values if function is None else np.vectorize(function, otypes=[values.dtype])(values)


def assign_each2(input1, input2, function):
    """function(a, b) for every pair of elements."""
    values = np.array(input1)
    return values if function is None else np.vectorize(function, otypes=[values.dtype])(values, input2)


def same_array(array1, array2):
    """Whether two NDArrays share their memory."""
    if not isinstance(array1, NDArray) or array1.shape != array2.shape:
        return False
    array1[:] += 1
    equal = np.array_equal(array1.asnumpy(), array2.asnumpy())
    array1[:] -= 1
    return bool(equal and np.array_equal(array1.asnumpy(), array2.asnumpy()))


# ---- reductions ----------------------------------------------------------------------------------------------------

def np_reduce(dat, axis, keepdims, numpy_reduce_func):
    """A NumPy reduction over one or several axes; keepdims applies to any number of axes."""
    axes = range(dat.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    axes = sorted(a % dat.ndim for a in axes)
    result = dat
    for a in reversed(axes):
        result = numpy_reduce_func(result, axis=a)
    return result.reshape([1 if i in axes else n for i, n in enumerate(dat.shape)]) if keepdims else result


def collapse_sum_like(a, shape):
    """Sums of `a` over the axes along which an array of `shape` would be broadcast to it."""
    extra = a.ndim - len(shape)
    if extra < 0:
        raise AssertionError(f"collapse_sum_like: {a.shape} has fewer axes than {shape}")
    total = a.sum(axis=tuple(range(extra))) if extra else a
    for i, size in enumerate(shape):
        if size != total.shape[i]:
            total = total.sum(axis=i, keepdims=True)
    return total


# ---- matrices ------------------------------------------------------------------------------------------------------

def get_identity_mat(size):
    """The identity as an NDArray."""
    return array(np.eye(size))


def get_identity_mat_batch(size):
    """Two identities, shape (2, size, size)."""
    return array(np.array([np.eye(size)] * 2))


def new_orthonormal_matrix_2d(n):
    """A random orthonormal matrix."""
    q, _ = np.linalg.qr(np.random.uniform(-1, 1, (n, n)))
    return q


def new_matrix_with_real_eigvals_2d(n):
    """A random matrix whose eigenvalues are real and well apart."""
    q = new_orthonormal_matrix_2d(n)
    upper = np.triu(np.random.uniform(-1, 1, (n, n)), 1) + np.diag(np.arange(1, n + 1) * 1.5)
    return q @ upper @ q.T


def new_sym_matrix_with_real_eigvals_2d(n):
    """A random symmetric matrix whose eigenvalues are well apart."""
    q = new_orthonormal_matrix_2d(n)
    return q @ np.diag(np.arange(1, n + 1) * 1.5) @ q.T


def _stack_of(make, shape):
    count = int(np.prod(shape[:-2])) if len(shape) > 2 else 1
    return np.array([make(shape[-1]) for _ in range(count)]).reshape(shape)


def new_matrix_with_real_eigvals_nd(shape):
    """A stack of such matrices."""
    return _stack_of(new_matrix_with_real_eigvals_2d, shape)


def new_sym_matrix_with_real_eigvals_nd(shape):
    """A stack of such matrices."""
    return _stack_of(new_sym_matrix_with_real_eigvals_2d, shape)
