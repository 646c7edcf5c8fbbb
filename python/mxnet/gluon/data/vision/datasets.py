"""Image data sets.

Nothing is downloaded: the files must be in root or in the usual places (MXNET_HOME/datasets/<name>; Debian's
package dataset-fashion-mnist), and errors say how to get them.
"""
import os
import warnings

from .... import _core
from ....base import MXNetError
from ..dataset import ArrayDataset, Dataset, RecordFileDataset

__all__ = ["MNIST", "FashionMNIST", "CIFAR10", "CIFAR100", "ImageRecordDataset", "ImageFolderDataset",
           "ImageListDataset"]


class _FileDataset(ArrayDataset):
    """Images and labels that are entirely in memory: _data is a uint8 NDArray (N, H, W, C), _label a NumPy array."""

    def __init__(self, root, transform):
        self._root = None if root is None else os.path.expanduser(root)
        self._transform = transform
        self._data, label = self._get_data()
        self._label = label.asnumpy()

    def __getitem__(self, idx):
        if self._transform is not None:
            return self._transform(self._data[idx], self._label[idx])
        return self._data[idx], self._label[idx]

    def __len__(self):
        return len(self._label)

    def _parts(self):
        return [self._data, self._label]

    def _get_data(self):
        """Loads from root or, if the files are not there, from the usual places."""
        try:
            return self._load(self._root)
        except MXNetError:
            if self._root is None or os.path.exists(os.path.join(self._root, self._first_file())) or \
                    os.path.exists(os.path.join(self._root, self._first_file() + ".gz")):
                raise
            try:
                return self._load(None)
            except MXNetError:
                pass
            raise

    def _load(self, root):
        """(images, labels)"""
        raise NotImplementedError(f"{type(self).__name__} does not override _load, which reads its files")

    def _first_file(self):
        """Name of a file that must be in root."""
        raise NotImplementedError(f"{type(self).__name__} does not override _first_file, which names its first file")


class MNIST(_FileDataset):
    """Handwritten digits, (28, 28, 1), from the four idx files in root (gzip or not)."""

    _name = "mnist"

    def __init__(self, root=None, train=True, transform=None):
        self._train = train
        super().__init__(root, transform)

    def _load(self, root):
        return _core.load_mnist(self._name, root, self._train)

    def _first_file(self):
        return f"{'train' if self._train else 't10k'}-images-idx3-ubyte"


class FashionMNIST(MNIST):
    """Articles of clothing, (28, 28, 1); without root also from Debian's package dataset-fashion-mnist."""

    _name = "fashion-mnist"


class CIFAR10(_FileDataset):
    """Photographs of ten classes, (32, 32, 3), from the .bin files in root."""

    _classes, _fine_label = 10, False

    def __init__(self, root=None, train=True, transform=None):
        self._train = train
        super().__init__(root, transform)

    def _load(self, root):
        return _core.load_cifar(self._classes, root, self._train, self._fine_label)

    def _first_file(self):
        return "data_batch_1.bin" if self._train else "test_batch.bin"


class CIFAR100(CIFAR10):
    """Photographs of 20 classes, with fine_label of 100 classes."""

    _classes = 100

    def __init__(self, root=None, fine_label=False, train=True, transform=None):
        self._fine_label = fine_label
        super().__init__(root, train, transform)

    def _first_file(self):
        return "train.bin" if self._train else "test.bin"


class ImageRecordDataset(RecordFileDataset):
    """Images and labels of a .rec file with its .idx file next to it.  flag: 1 colour, 0 gray, -1 as stored."""

    def __init__(self, filename, flag=1, transform=None):
        super().__init__(filename)
        self._flag, self._transform = flag, transform

    def __getitem__(self, idx):
        header, payload = _unpack(super().__getitem__(idx))
        image = _core.imdecode(payload, self._flag, True)
        return (image, header) if self._transform is None else self._transform(image, header)


def _unpack(record):
    flag, label, _, _, payload = _core.record_unpack(record)
    return (label.asnumpy() if flag else label), payload


class ImageFolderDataset(Dataset):
    """root/cat/1.jpg, root/dog/2.png ...: every folder is a class; synsets are their names, items (path, label)."""

    def __init__(self, root, flag=1, transform=None):
        self._root, self._flag, self._transform = os.path.expanduser(root), flag, transform
        self.synsets, self.items = [], []
        self._list_images(self._root)

    def _list_images(self, root):
        if not os.path.isdir(root):
            raise FileNotFoundError(f"ImageFolderDataset: '{root}' is not a folder; expected one with a folder of images "
                                    f"per class")
        self.synsets, self.items, left_out = _core.image_folder(root)
        for sentence in left_out:
            warnings.warn(f"ImageFolderDataset: {sentence}", stacklevel=4)

    def __getitem__(self, idx):
        path, label = self.items[idx]
        image = _core.imread(path, self._flag, True)
        return (image, label) if self._transform is None else self._transform(image, label)

    def __len__(self):
        return len(self.items)


class ImageListDataset(Dataset):
    """Images named by a list: a .lst file with lines "number TAB label [TAB label ...] TAB path", or a Python list of
    [label, path]; paths are relative to root."""

    def __init__(self, root=".", imglist=None, flag=1):
        self._root, self._flag = os.path.expanduser(root), flag
        self._imglist, self._imgkeys = {}, []
        for key, label, path in _read_list(os.path.join(self._root, imglist) if isinstance(imglist, str) else imglist):
            self._imglist[key] = (label, os.path.join(self._root, path))
            self._imgkeys.append(key)

    def __getitem__(self, idx):
        label, path = self._imglist[self._imgkeys[idx]]
        return _core.imread(path, self._flag, True), label

    def __len__(self):
        return len(self._imgkeys)


def _read_list(source):
    """(key, label, path) of every image; one label is a number, several are a NumPy array."""
    import numpy
    if isinstance(source, str):
        from ....image._lists import read_list
        return [(key, label[0] if len(label) == 1 else label, path) for key, label, path in read_list(source)]
    if not isinstance(source, (list, tuple)):
        raise ValueError(f"ImageListDataset: imglist must be the name of a .lst file or a list, got "
                         f"{type(source).__name__}")
    rows = []
    for i, (label, path) in enumerate(source):
        label = numpy.asarray(label, dtype="float32").reshape(-1)
        rows.append((str(i), label[0] if len(label) == 1 else label, path))
    return rows
