"""Batches, their descriptions, iterators over arrays and over other iterators."""
import threading
from collections import namedtuple

from .. import _core
from .. import ndarray as nd
from .._core import NDArray

__all__ = ["DataDesc", "DataBatch", "DataIter", "ResizeIter", "PrefetchingIter", "NDArrayIter", "MXDataIter"]


class DataDesc(namedtuple("DataDesc", ["name", "shape"])):
    """Name, shape, element type and layout of an array in a batch; compares and unpacks as (name, shape)."""

    def __new__(cls, name, shape, dtype=None, layout="NCHW"):
        self = super().__new__(cls, name, tuple(shape))
        self.dtype, self.layout = _float32() if dtype is None else dtype, layout
        return self

    def __repr__(self):
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    @staticmethod
    def get_batch_axis(layout):
        """Index of the axis N of a layout; 0 if there is no layout."""
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(shapes, types):
        """Descriptions from lists of (name, shape) and (name, type)."""
        if types is None:
            return [DataDesc(name, shape) for name, shape in shapes]
        kinds = dict(types)
        return [DataDesc(name, shape, kinds[name]) for name, shape in shapes]


def _float32():
    import numpy
    return numpy.float32


class DataBatch:
    """Lists of arrays data and label; pad: the number of padding examples at the end; index: indices of the
    examples."""

    def __init__(self, data, label=None, pad=None, index=None, bucket_key=None, provide_data=None, provide_label=None):
        for name, value in (("data", data), ("label", label)):
            if value is not None and not isinstance(value, (list, tuple)):
                raise AssertionError(f"DataBatch: {name} must be a list of NDArrays, got {type(value).__name__}")
        self.data, self.label, self.pad, self.index = data, label, pad, index
        self.bucket_key, self.provide_data, self.provide_label = bucket_key, provide_data, provide_label

    def __str__(self):
        shapes = [[x.shape for x in arrays] if arrays else None for arrays in (self.data, self.label)]
        return f"{type(self).__name__}: data shapes: {shapes[0]} label shapes: {shapes[1]}"


class DataIter:
    """Base of iterators: subclasses have next(), or iter_next(), getdata(), getlabel(), getpad() and getindex()."""

    def __init__(self, batch_size=0):
        self.batch_size = batch_size

    def __iter__(self):
        return self

    def reset(self):
        """Rewinds to the beginning."""

    def next(self):
        """The next batch; StopIteration at the end."""
        if not self.iter_next():
            raise StopIteration
        return DataBatch(data=self.getdata(), label=self.getlabel(), pad=self.getpad(), index=self.getindex())

    def __next__(self):
        return self.next()

    def iter_next(self):
        """Advances to the next batch; False at the end."""

    def getdata(self):
        """Arrays of the current batch."""

    def getlabel(self):
        """Labels of the current batch."""

    def getindex(self):
        """Indices of the examples of the current batch; None if they are not known."""
        return None

    def getpad(self):
        """The number of padding examples at the end of the current batch."""


class MXDataIter(DataIter):
    """Base of the iterators over files."""


class _Held(DataIter):
    """An iterator that holds its current batch."""

    current_batch = None

    def getdata(self):
        return self.current_batch.data

    def getlabel(self):
        return self.current_batch.label

    def getindex(self):
        return self.current_batch.index

    def getpad(self):
        return self.current_batch.pad


class ResizeIter(_Held):
    """Another iterator with `size` batches per epoch; it is restarted when it ends."""

    def __init__(self, data_iter, size, reset_internal=True):
        super().__init__(data_iter.batch_size)
        self.data_iter, self.size, self.reset_internal, self.cur = data_iter, size, reset_internal, 0
        self.provide_data, self.provide_label = data_iter.provide_data, data_iter.provide_label
        if hasattr(data_iter, "default_bucket_key"):
            self.default_bucket_key = data_iter.default_bucket_key

    def reset(self):
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def iter_next(self):
        if self.cur == self.size:
            return False
        try:
            self.current_batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            self.current_batch = self.data_iter.next()
        self.cur += 1
        return True


class PrefetchingIter(_Held):
    """Batches of one or several iterators, each prefetched by a thread; those of several are merged.
    rename_data, rename_label: one dict from old to new names per iterator."""

    def __init__(self, iters, rename_data=None, rename_label=None):
        self.iters = iters if isinstance(iters, list) else [iters]
        if not self.iters:
            raise AssertionError("PrefetchingIter: expected at least one iterator")
        self.n_iter = len(self.iters)
        self.rename_data, self.rename_label = rename_data, rename_label
        super().__init__(self.provide_data[0][1][0])
        self._ahead = [_Ahead(it) for it in self.iters]

    @property
    def provide_data(self):
        """Descriptions of the data of all iterators."""
        return self._described("provide_data", self.rename_data)

    @property
    def provide_label(self):
        """Descriptions of the labels of all iterators."""
        return self._described("provide_label", self.rename_label)

    def _described(self, what, renamed):
        found = []
        for i, it in enumerate(self.iters):
            for desc in getattr(it, what):
                desc = desc if isinstance(desc, DataDesc) else DataDesc(*desc)
                name = renamed[i].get(desc.name, desc.name) if renamed else desc.name
                found.append(DataDesc(name, desc.shape, desc.dtype, desc.layout))
        return found

    def reset(self):
        for ahead in self._ahead:
            ahead.reset()

    def iter_next(self):
        batches = [ahead.take() for ahead in self._ahead]
        ended = [batch is None for batch in batches]
        if any(ended):
            if not all(ended):
                raise AssertionError("PrefetchingIter: the iterators have different numbers of batches")
            return False
        if len({batch.pad for batch in batches}) > 1:
            raise AssertionError("PrefetchingIter: the iterators' batches are padded differently")
        self.current_batch = DataBatch(sum([batch.data for batch in batches], []),
                                       sum([batch.label for batch in batches], []), batches[0].pad, batches[0].index,
                                       provide_data=self.provide_data, provide_label=self.provide_label)
        return True

    def next(self):
        """The next batch."""
        if self.iter_next():
            return self.current_batch
        raise StopIteration


class _Ahead:
    """One batch of an iterator, computed by a short-lived thread."""

    def __init__(self, source):
        self._source, self._thread, self._result, self._ended = source, None, None, False
        self._start()

    def _start(self):
        def run():
            try:
                self._result = (self._source.next(), None)
            except StopIteration:
                self._result = (None, None)
            except BaseException as error:  # noqa: B902 - raised again where the batch is requested
                self._result = (None, error)
        self._thread = threading.Thread(target=run, name="mxnet-prefetch", daemon=True)
        self._thread.start()

    def _wait(self):
        self._thread.join()
        result, self._result = self._result, (None, None)
        return result

    def take(self):
        if self._ended:
            return None
        batch, error = self._wait()
        self._ended = batch is None
        if error is not None:
            raise error
        if batch is not None:
            self._start()
        return batch

    def reset(self):
        self._wait()
        self._source.reset()
        self._ended = False
        self._start()


class NDArrayIter(DataIter):
    """Batches of arrays: an array, a list or a dict of them, NDArray or NumPy, whose first axis is the example.  The
    number of examples is that of the first array; csr arrays need last_batch_handle='discard'.

    last_batch_handle: 'pad' fills the last batch from the beginning, 'discard' leaves it out, 'roll_over' starts the next
    epoch with it. shuffle uses numpy.random, see numpy.random.seed().
    """

    def __init__(self, data, label=None, batch_size=1, shuffle=False, last_batch_handle="pad", data_name="data",
                 label_name="softmax_label", layout="NCHW"):
        super().__init__(batch_size)
        import numpy
        if last_batch_handle not in ("pad", "discard", "roll_over"):
            raise ValueError(f"NDArrayIter: last_batch_handle is {last_batch_handle!r}, expected 'pad', 'discard' or "
                             f"'roll_over'")
        self.data = _named_arrays(data, False, data_name)
        self.label = _named_arrays(label, True, label_name)
        self.data_list = [x for _, x in self.data + self.label]
        self.num_source, self.num_data = len(self.data_list), self.data_list[0].shape[0]
        for name, x in self.data + self.label:
            if x.shape[0] < self.num_data:  # of longer ones the rest is not used
                raise ValueError(f"NDArrayIter: '{name}' has {x.shape[0]} examples, '{self.data[0][0]}' has "
                                 f"{self.num_data}")
            if x.stype == "csr" and last_batch_handle != "discard":
                raise NotImplementedError(f"NDArrayIter: '{name}' is a csr array, for which last_batch_handle must be "
                                          f"'discard', got {last_batch_handle!r}")
        self.idx, self.shuffle = numpy.arange(self.num_data), shuffle
        self.last_batch_handle, self.layout = last_batch_handle, layout
        self._shuffled = numpy.arange(self.num_data)
        self._left = []  # indices of examples that roll over
        self._rows, self._pad = None, 0
        self.reset()

    @property
    def provide_data(self):
        """Descriptions of the data."""
        return self._described(self.data)

    @property
    def provide_label(self):
        """Descriptions of the labels."""
        return self._described(self.label)

    def _described(self, arrays):
        return [DataDesc(name, (self.batch_size,) + x.shape[1:], x.dtype, self.layout) for name, x in arrays]

    def hard_reset(self):
        """Rewinds to the beginning; nothing rolls over."""
        self._left = []
        self._begin()

    def reset(self):
        if self.last_batch_handle == "roll_over" and self._rows is not None:
            rest = self._order[self._next:]
            self._left = [int(i) for i in rest] if len(rest) < self.batch_size else []
        self._begin()

    def _begin(self):
        import numpy
        if self.shuffle:
            numpy.random.shuffle(self.idx)
            self._shuffled = self._shuffled[self.idx]  # each epoch shuffles the order of the one before
        self._order = numpy.concatenate([numpy.array(self._left, dtype=self.idx.dtype), self._shuffled])
        self._carried, self._left = len(self._left), []
        self._next, self._rows = 0, None
        self.cursor = -self.batch_size

    def iter_next(self):
        import numpy
        left = len(self._order) - self._next
        if left <= 0 or (left < self.batch_size and self.last_batch_handle != "pad"):
            self._rows = self._order[:0]
            return False
        self._pad = max(0, self.batch_size - left)
        rows = self._order[self._next:self._next + self.batch_size]
        if self._pad:
            rows = numpy.concatenate([rows, numpy.resize(self._order, self._pad)])
        if self._next == 0 and self._carried:  # number of rolled-over examples at the start of the batch
            self._pad = self._carried
        self._next += self.batch_size
        self.cursor += self.batch_size
        self._rows = rows
        return True

    def _take(self, arrays):
        if self._rows is None or not len(self._rows):
            raise AssertionError("NDArrayIter: there is no current batch; call iter_next() first")
        first = int(self._rows[0])
        if not self.shuffle and int(self._rows[-1]) - first == len(self._rows) - 1:
            return [x[first:first + len(self._rows)].copy() for _, x in arrays]
        rows = _core.array(self._rows, dtype="int64")
        return [nd.take(x, rows.as_in_context(x.context)) for _, x in arrays]

    def getdata(self):
        return self._take(self.data)

    def _getdata(self, data_source, start=None, end=None):
        """Examples start to end of (name, array) pairs, in their original order."""
        if start is None and end is None:
            raise AssertionError("NDArrayIter._getdata: start or end must be given")
        return [x[start or 0:x.shape[0] if end is None else end] for _, x in data_source]

    def getlabel(self):
        return self._take(self.label)

    def getpad(self):
        return self._pad


def _named_arrays(source, may_be_empty, name):
    """A list of (name, NDArray): names are sorted for dicts and numbered for lists."""
    if source is None:
        source = []
        if not may_be_empty:
            raise AssertionError("NDArrayIter: data is None")
    if isinstance(source, (list, tuple)):
        if not source and not may_be_empty:
            raise AssertionError("NDArrayIter: data is an empty list")
        named = [(name if len(source) == 1 else f"_{i}_{name}", x) for i, x in enumerate(source)]
    else:
        named = sorted(source.items()) if isinstance(source, dict) else [(name, source)]
    return [(key, _as_array(x, key)) for key, x in named]


def _as_array(x, name):
    if isinstance(x, NDArray):
        return x.tostype("default") if x.stype == "row_sparse" else x  # rows of it are batches
    if isinstance(x, (str, bytes)) or not hasattr(x, "shape"):
        raise TypeError(f"NDArrayIter: '{name}' is {type(x).__name__}, expected NDArrays or NumPy arrays, a list or a "
                        f"dict of "
                        "them")
    return nd.array(x)
