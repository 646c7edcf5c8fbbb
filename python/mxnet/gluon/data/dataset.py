"""Data sets: numbered examples."""
from ..._core import NDArray, shard

__all__ = ["Dataset", "SimpleDataset", "ArrayDataset", "RecordFileDataset"]


class Dataset:
    """Numbered examples.  Subclasses have __getitem__(i) and __len__()."""

    def __getitem__(self, idx):
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")

    def __len__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __len__")

    def transform(self, fn, lazy=True):
        """Applies fn to every example, whose parts are its arguments; lazy: on access."""
        changed = _TransformedDataset(self, fn)
        return changed if lazy else SimpleDataset([changed[i] for i in range(len(changed))])

    def transform_first(self, fn, lazy=True):
        """Applies fn to the first part of every example: the image, not the label."""
        return self.transform(_TransformFirst(fn), lazy)

    def filter(self, fn):
        """The examples for which fn(example) holds."""
        from .sampler import FilterSampler
        return self.sample(FilterSampler(fn, self))

    def sample(self, sampler):
        """The examples that a sampler selects."""
        from .sampler import Sampler
        if not isinstance(sampler, Sampler):
            raise TypeError(f"Dataset.sample: expected a Sampler, got {type(sampler).__name__}")
        return _SampledDataset(self, list(sampler))

    def take(self, count):
        """The first count examples; all of them if count is None or more than there are."""
        if count is not None and count < 0:
            raise ValueError(f"Dataset.take: count must not be negative, got {count}")
        if count is None or count > len(self):
            count = len(self)
        return _SampledDataset(self, range(count))

    def shard(self, num_shards, index):
        """Shard `index` of num_shards shards of nearly equal length."""
        if not 0 <= index < num_shards:
            raise AssertionError(f"Dataset.shard: index {index} is not one of {num_shards} shards")
        start, count = shard(len(self), num_shards, index)
        return _SampledDataset(self, range(start, start + count))


class _TransformFirst:
    """fn on the first argument, the others unchanged; a class, so that it can be pickled for worker processes."""

    def __init__(self, fn):
        self._fn = fn

    def __call__(self, first, *rest):
        return (self._fn(first),) + rest if rest else self._fn(first)


class _TransformedDataset(Dataset):
    def __init__(self, dataset, fn):
        self._data, self._fn = dataset, fn

    def __len__(self):
        return len(self._data)

    def __getitem__(self, idx):
        item = self._data[idx]
        return self._fn(*item) if isinstance(item, tuple) else self._fn(item)


class _SampledDataset(Dataset):
    def __init__(self, dataset, indices):
        self._data, self._indices = dataset, indices

    def __len__(self):
        return len(self._indices)

    def __getitem__(self, idx):
        return self._data[self._indices[idx]]


class SimpleDataset(Dataset):
    """A list, an array or anything else with len() and []."""

    def __init__(self, data):
        self._data = data

    def __len__(self):
        return len(self._data)

    def __getitem__(self, idx):
        return self._data[idx]


class ArrayDataset(Dataset):
    """Example i is element i of every argument: ArrayDataset(features, labels)."""

    def __init__(self, *args):
        if not args:
            raise AssertionError("ArrayDataset: expected at least one array")
        self._length = len(args[0])
        self._data = []
        for i, data in enumerate(args):
            if len(data) != self._length:
                raise AssertionError(f"ArrayDataset: argument {i} has {len(data)} examples, argument 0 has "
                                     f"{self._length}")
            if isinstance(data, NDArray) and len(data.shape) == 1:
                data = data.asnumpy()  # labels become numbers
            self._data.append(data)

    def __getitem__(self, idx):
        if len(self._data) == 1:
            return self._data[0][idx]
        return tuple(data[idx] for data in self._data)

    def __len__(self):
        return self._length


class RecordFileDataset(Dataset):
    """Records of a .rec file with an .idx file next to it: every example is bytes."""

    def __init__(self, filename):
        import os
        from ... import recordio
        self.filename = filename
        self.idx_file = os.path.splitext(filename)[0] + ".idx"
        self._record = recordio.MXIndexedRecordIO(self.idx_file, filename, "r")

    def __getitem__(self, idx):
        return self._record.read_idx(self._record.keys[idx])

    def __len__(self):
        return len(self._record.keys)


class _DownloadedDataset(Dataset):
    """Examples (_data[i], _label[i]) of published files: a subclass's _get_data() fills both from the folder _root."""

    def __init__(self, root, transform):
        import os
        self._transform, self._data, self._label = transform, None, None
        self._root = os.path.expanduser(os.fspath(root))
        self._get_data()

    def __getitem__(self, idx):
        if self._transform is not None:
            return self._transform(self._data[idx], self._label[idx])
        return self._data[idx], self._label[idx]

    def __len__(self):
        return len(self._label)

    def _parts(self):
        return [self._data, self._label]

    def _get_data(self):
        raise NotImplementedError(f"{type(self).__name__} does not override _get_data, which reads its files")


# Names under which libraries import these classes.
_LazyTransformDataset, _TransformFirstClosure = _TransformedDataset, _TransformFirst
