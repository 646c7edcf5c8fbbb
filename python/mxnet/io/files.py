"""Iterators over files of numbers: CSV, LibSVM and MNIST's idx."""
from .. import _core
from .. import ndarray as nd
from .io import DataBatch, DataDesc, MXDataIter

__all__ = ["CSVIter", "MNISTIter", "LibSVMIter"]


class _RowsIter(MXDataIter):
    """Batches of rows of arrays in memory. The last batch is filled up from the beginning; with round_batch the next epoch
    starts after those examples, otherwise every epoch starts at 0."""

    def __init__(self, data, label, batch_size, names, round_batch=True, order=None):
        super().__init__(batch_size)
        if batch_size < 1:
            raise ValueError(f"{type(self).__name__}: batch_size is {batch_size}, expected at least 1")
        self._arrays, self._names, self._round, self._order = (data, label), names, round_batch, order
        self._length, self._next, self._start = data.shape[0], 0, 0
        self._batch = None

    @property
    def provide_data(self):
        """Description of the data."""
        return [self._described(0)]

    @property
    def provide_label(self):
        """Description of the labels."""
        return [self._described(1)]

    def _described(self, i):
        x = self._arrays[i]
        return DataDesc(self._names[i], (self.batch_size,) + x.shape[1:], x.dtype)

    def reset(self):
        self._next = self._start

    def iter_next(self):
        if self._next >= self._length:
            return False
        rows = [i % self._length for i in range(self._next, self._next + self.batch_size)]
        self._next += self.batch_size
        pad = max(0, self._next - self._length)
        self._start = pad % self._length if self._round else 0
        if self._order is not None:
            rows = [self._order[i] for i in rows]
        taken = _core.array(rows, ctx=self._arrays[0].context, dtype="int64")
        self._batch = DataBatch([nd.take(self._arrays[0], taken)], [nd.take(self._arrays[1], taken)], pad,
                                self._index(rows))
        return True

    def _index(self, rows):
        import numpy
        return numpy.array(rows, dtype="uint64")

    def next(self):
        """The next batch."""
        if self.iter_next():
            return self._batch
        raise StopIteration

    def getdata(self):
        return self._batch.data[0]

    def getlabel(self):
        return self._batch.label[0]

    def getpad(self):
        return self._batch.pad

    def getindex(self):
        return self._batch.index


def _part(n, num_parts, part_index, who):
    """Begin and end of one part of n examples."""
    if not 0 <= part_index < num_parts:
        raise ValueError(f"{who}: part_index {part_index} is not one of {num_parts} parts")
    length = n // num_parts
    return part_index * length, n if num_parts == 1 else (part_index + 1) * length


class CSVIter(_RowsIter):
    """Batches of the lines of a text file of numbers separated by commas; each line has data_shape elements.  Labels
    come from label_csv, or are zero."""

    def __init__(self, data_csv, data_shape, batch_size, label_csv="NULL", label_shape=(1,), round_batch=True,
                 prefetch_buffer=4, ctx="cpu", dtype=None, data_name="data", label_name="softmax_label"):
        data = _csv(data_csv, data_shape, dtype, "data")
        if label_csv in (None, "NULL", ""):
            label = nd.zeros((data.shape[0],) + _shape(label_shape), ctx=data.context, dtype=dtype or "float32")
        else:
            label = _csv(label_csv, label_shape, dtype, "label")
        if label.shape[0] != data.shape[0]:
            raise ValueError(f"CSVIter: '{data_csv}' has {data.shape[0]} lines, '{label_csv}' has {label.shape[0]}")
        if label.ndim == 2 and label.shape[1] == 1:
            label = label.reshape((-1,))
        super().__init__(data, label, batch_size, (data_name, label_name), round_batch)


def _shape(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _csv(path, shape, dtype, what):
    table, shape = _core.load_csv(path, dtype), _shape(shape)
    size = 1
    for n in shape:
        size *= n
    if table.shape[1] != size:
        raise ValueError(f"CSVIter: '{path}' has {table.shape[1]} numbers in a line, {what}_shape {shape} needs {size}")
    return table.reshape((-1,) + shape)


class MNISTIter(_RowsIter):
    """Batches of images in [0, 1], (1, 28, 28) or flat (784), and labels, from two idx files (gzip or not).  An
    incomplete last batch is left out.  Other keywords (old programs pass input_shape or data_shape) are ignored."""

    def __init__(self, image="./train-images-idx3-ubyte", label="./train-labels-idx1-ubyte", batch_size=128,
                 shuffle=True,
                 flat=False, seed=0, silent=False, num_parts=1, part_index=0, prefetch_buffer=4, ctx="cpu", dtype=None,
                 data_name="data", label_name="softmax_label", **ignored):
        images, labels = _core.load_idx(image), _core.load_idx(label)
        if images.ndim != 3 or labels.ndim != 1 or images.shape[0] != labels.shape[0]:
            raise ValueError(f"MNISTIter: '{image}' {images.shape} and '{label}' {labels.shape} do not match")
        begin, end = _part(images.shape[0], num_parts, part_index, "MNISTIter")
        n = (end - begin) // batch_size * batch_size
        if n == 0:
            raise ValueError(f"MNISTIter: batch_size {batch_size} is greater than the {end - begin} examples")
        images = images[begin:end].astype(dtype or "float32") / 256
        images = images.reshape((end - begin, -1) if flat else (end - begin, 1) + images.shape[1:])
        order = None
        if shuffle:
            import random
            order = list(range(end - begin))
            random.Random(seed).shuffle(order)
        super().__init__(images, labels[begin:end].astype(dtype or "float32"), batch_size, (data_name, label_name),
                         False, order)
        self._length = n

    def _index(self, rows):
        import numpy
        return numpy.zeros(len(rows), dtype="uint64")  # MNISTIter does not number its examples


class LibSVMIter(_RowsIter):
    """Batches of lines "label column:value ..." as csr arrays.  Labels come from the lines, or from label_libsvm: then
    they are rows of label_shape, read from its columns."""

    def __init__(self, data_libsvm, data_shape, batch_size, label_libsvm="NULL", label_shape=(1,), num_parts=1,
                 part_index=0, round_batch=True, prefetch_buffer=4, ctx="cpu", dtype=None, data_name="data",
                 label_name="softmax_label"):
        shape = _shape(data_shape)
        if len(shape) != 1:
            raise ValueError(f"LibSVMIter: data_shape is {shape}, expected (columns,)")
        data, label = _core.load_libsvm(data_libsvm, shape[0], dtype)
        if label_libsvm not in (None, "NULL", ""):
            label = _core.load_libsvm(label_libsvm, _shape(label_shape)[0], dtype)[0].tostype("default")
            label = label.reshape((-1,)) if label.shape[1] == 1 else label
        if label.shape[0] != data.shape[0]:
            raise ValueError(f"LibSVMIter: '{data_libsvm}' has {data.shape[0]} examples, '{label_libsvm}' has "
                             f"{label.shape[0]}")
        begin, end = _part(data.shape[0], num_parts, part_index, "LibSVMIter")
        super().__init__(data[begin:end], label[begin:end], batch_size, (data_name, label_name), round_batch)
