"""Batches built without a Python call per example.

If examples are rows of arrays, perhaps with a transform of the library on the first part and a selection of examples,
a batch is one gather of rows per array and one call of the transform. whole_batches() finds out whether a data set
is of this kind; the batches equal those that default_batchify_fn builds from single examples.
"""
from ... import _core
from ..._core import NDArray, ndarray

_NUMPY_TYPES = ("float32", "float64", "float16", "uint8", "int8", "int32", "int64", "bool")


class _Rows:
    """Row i of every array; arrays are NDArrays or NumPy arrays."""

    def __init__(self, arrays):
        self.arrays, self.single = arrays, len(arrays) == 1

    def gather(self, rows):
        import numpy
        rows = numpy.asarray(rows)
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or not len(rows):
            return None
        found = []
        for array in self.arrays:
            n = len(array)
            if rows.min() < -n or rows.max() >= n:
                raise IndexError(f"DataLoader: the sampler returned index "
                                 f"{rows.max() if rows.max() >= n else rows.min()} for a "
                                 f"data set of {n} examples")
            if isinstance(array, NDArray):
                where = _core.array(rows if rows.min() >= 0 else rows % n, ctx=array.context, dtype="int64")
                rows_of = array.as_nd_ndarray().take(where.as_nd_ndarray())
                found.append(rows_of.as_np_ndarray() if isinstance(array, ndarray) else rows_of)
            else:
                found.append(_core.array(array[rows], dtype=array.dtype))
        return found


class _First:
    """Applies a transform that takes batches to the first part."""

    def __init__(self, base, transform):
        self.base, self.transform, self.single = base, transform, base.single

    def gather(self, rows):
        parts = self.base.gather(rows)
        if parts is not None:
            parts[0] = self.transform(parts[0])
        return parts


class _Chosen:
    """Example i is example indices[i] of another data set."""

    def __init__(self, base, indices):
        self.base, self.indices, self.single = base, indices, base.single

    def gather(self, rows):
        try:
            return self.base.gather([self.indices[i] for i in rows])
        except TypeError:
            return None


def whole_batches(dataset):
    """An object with gather(indices) -> list of arrays (None: build this batch from single examples) and `single`;
    None for other data sets."""
    from . import dataset as kinds
    from .vision import datasets as files
    kind = type(dataset)
    if kind is kinds._TransformedDataset:
        return _transformed(dataset)
    if kind is kinds._SampledDataset:
        base = whole_batches(dataset._data)
        return base and _Chosen(base, dataset._indices)
    if kind is kinds.ArrayDataset:
        arrays = dataset._data
    elif kind is kinds.SimpleDataset:
        arrays = [dataset._data]
    elif kind in (files.MNIST, files.FashionMNIST, files.CIFAR10, files.CIFAR100) and dataset._transform is None:
        arrays = dataset._parts()
    else:
        return None
    return _Rows(arrays) if all(map(_has_rows, arrays)) else None


def _transformed(dataset):
    from .dataset import _TransformFirst
    base = whole_batches(dataset._data)
    if base is None:
        return None
    fn = dataset._fn
    if type(fn) is _TransformFirst:
        fn = fn._fn
    elif not base.single:
        return None
    return _First(base, fn) if _core.takes_batches(fn) else None


def made_by_library(dataset):
    """Whether nearly all work for an example is in the library, which releases the GIL: then threads are faster than
    processes, whose results must be transferred."""
    from . import dataset as kinds
    from .vision import datasets as files
    kind = type(dataset)
    if kind is kinds._TransformedDataset:
        fn = dataset._fn._fn if type(dataset._fn) is kinds._TransformFirst else dataset._fn
        return _core.runs_in_c(fn) and made_by_library(dataset._data)
    if kind is kinds._SampledDataset:
        return made_by_library(dataset._data)
    if kind in (files.ImageRecordDataset, files.ImageFolderDataset):
        return dataset._transform is None
    return kind is files.ImageListDataset or whole_batches(dataset) is not None


def _has_rows(array):
    if isinstance(array, NDArray):
        return len(array.shape) > 0
    kind = type(array)
    if kind.__module__ != "numpy" or kind.__name__ != "ndarray":
        return False
    return array.ndim > 0 and str(array.dtype) in _NUMPY_TYPES
