"""A DataLoader as an iterator of batches."""
from .. import ndarray as nd
from ..io import DataDesc, DataIter

__all__ = ["DataLoaderIter"]


class DataLoaderIter(DataIter):
    """Lets modules read from a gluon.data.DataLoader of (data, label) batches."""

    def __init__(self, loader, data_name="data", label_name="softmax_label", dtype="float32"):
        super().__init__()
        self._loader, self._iter, self.dtype = loader, iter(loader), dtype
        data, label = next(self._iter)
        self.batch_size = data.shape[0]
        self.provide_data = [DataDesc(data_name, data.shape, dtype)]
        self.provide_label = [DataDesc(label_name, label.shape, dtype)]
        self._current = None
        self.reset()

    def reset(self):
        """Rewinds to the beginning."""
        self._iter = iter(self._loader)

    def iter_next(self):
        """Advances to the next batch; False at the end."""
        self._current = next(self._iter, None)
        return self._current is not None

    def _whole(self, array):
        """The last batch may be smaller: it is padded with zeros."""
        array = array.astype(self.dtype, copy=False)
        if not self.getpad():
            return [array]
        full = nd.zeros((self.batch_size,) + array.shape[1:], ctx=array.context, dtype=self.dtype)
        full[:array.shape[0]] = array
        return [full]

    def getdata(self):
        """Data of the batch."""
        return self._whole(self._current[0])

    def getlabel(self):
        """Labels of the batch."""
        return self._whole(self._current[1])

    def getpad(self):
        """The number of padding examples at the end of the batch."""
        return self.batch_size - self._current[0].shape[0]

    def getindex(self):
        """Indices of the examples are not known."""
        return None
