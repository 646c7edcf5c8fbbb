"""Image data sets.

Files are looked for in root, then in the usual places (MXNET_HOME/datasets/<name>; Debian's package
dataset-fashion-mnist); if they are nowhere, they are downloaded into root.
"""
import os
import warnings

from .... import _core, _download
from ....base import MXNetError, data_dir
from ...utils import _get_repo_file_url, download
from ..dataset import Dataset, RecordFileDataset, _DownloadedDataset

__all__ = ["MNIST", "FashionMNIST", "CIFAR10", "CIFAR100", "ImageRecordDataset", "ImageFolderDataset",
           "ImageListDataset"]


class _FileDataset(_DownloadedDataset):
    """Published images and labels: _data is a uint8 NDArray (N, H, W, C), _label a NumPy array.

    Subclasses say what is read (_load), which files that needs (_files) and how they are downloaded (_download).
    """

    _namespace = None  # folder of the files in the repository

    def __init__(self, root, transform):
        super().__init__(os.path.join(data_dir(), "datasets", self._namespace) if root is None else root, transform)

    def _get_data(self):
        if self._is_in(self._root):
            data, label = self._load(self._root)
        else:
            try:
                data, label = self._load(None)
            except MXNetError as error:
                self._get_files(error)
                data, label = self._load(self._root)
        self._data, self._label = data, label.asnumpy()

    def _is_in(self, folder):
        return any(os.path.exists(os.path.join(folder, name)) or os.path.exists(os.path.join(folder, name + ".gz"))
                   for name in self._files())

    def _get_files(self, missing):
        try:
            self._download()
        except _download.DownloadError as error:
            try:
                self._load(self._root)  # fails: says what belongs where
            except MXNetError as wanted:
                missing = wanted
            raise type(error)(f"{missing}; downloading failed, too: {error}") from error

    def _load(self, root):
        """(images, labels)"""
        raise NotImplementedError(f"{type(self).__name__} does not override _load, which reads its files")

    def _files(self):
        """Names of the files; if one of them is in root, nothing is downloaded."""
        raise NotImplementedError(f"{type(self).__name__} does not override _files, which names its files")

    def _download(self):
        """Downloads what is missing into root."""
        raise NotImplementedError(f"{type(self).__name__} does not override _download, which gets its files")


class MNIST(_FileDataset):
    """Handwritten digits, (28, 28, 1), from the four idx files in root (gzip or not)."""

    _name = _namespace = "mnist"
    _train_data = ("train-images-idx3-ubyte.gz", "6c95f4b05d2bf285e1bfb0e7960c31bd3b3f8a7d")
    _train_label = ("train-labels-idx1-ubyte.gz", "2a80914081dc54586dbdf242f9805a6b8d2a15fc")
    _test_data = ("t10k-images-idx3-ubyte.gz", "c3a25af1f52dad7f726cce8cacb138654b760d48")
    _test_label = ("t10k-labels-idx1-ubyte.gz", "763e7fa3757d93b0cdec073cef058b2004252c17")

    def __init__(self, root=None, train=True, transform=None):
        self._train = train
        super().__init__(root, transform)

    def _load(self, root):
        return _core.load_mnist(self._name, root, self._train)

    def _wanted(self):
        return (self._train_data, self._train_label) if self._train else (self._test_data, self._test_label)

    def _files(self):
        return [name[:-len(".gz")] for name, _ in self._wanted()]

    def _download(self):
        for name, sha1 in self._wanted():
            download(_get_repo_file_url("gluon/dataset/" + self._namespace, name),
                     path=os.path.join(self._root, name), sha1_hash=sha1)


class FashionMNIST(MNIST):
    """Articles of clothing, (28, 28, 1); without root also from Debian's package dataset-fashion-mnist."""

    _name = _namespace = "fashion-mnist"
    _train_data = ("train-images-idx3-ubyte.gz", "0cf37b0d40ed5169c6b3aba31069a9770ac9043d")
    _train_label = ("train-labels-idx1-ubyte.gz", "236021d52f1e40852b06a4c3008d8de8aef1e40b")
    _test_data = ("t10k-images-idx3-ubyte.gz", "626ed6a7c06dd17c0eec72fa3be1740f146a2863")
    _test_label = ("t10k-labels-idx1-ubyte.gz", "17f9ab60e7257a1620f4ad76bbbaf857c3920701")


class CIFAR10(_FileDataset):
    """Photographs of ten classes, (32, 32, 3), from the .bin files in root."""

    _namespace = "cifar10"
    _archive_file = ("cifar-10-binary.tar.gz", "fab780a1e191a7eda0f345501ccd62d20f7ed891")
    _classes, _fine_label = 10, False

    def __init__(self, root=None, train=True, transform=None):
        self._train = train
        super().__init__(root, transform)

    def _load(self, root):
        return _core.load_cifar(self._classes, root, self._train, self._fine_label)

    def _files(self):
        return [f"data_batch_{i}.bin" for i in range(1, 6)] if self._train else ["test_batch.bin"]

    def _download(self):
        name, sha1 = self._archive_file
        archive = download(_get_repo_file_url("gluon/dataset/" + self._namespace, name),
                           path=os.path.join(self._root, name), sha1_hash=sha1)
        _download.unpack(archive, self._root)


class CIFAR100(CIFAR10):
    """Photographs of 20 classes, with fine_label of 100 classes."""

    _namespace = "cifar100"
    _archive_file = ("cifar-100-binary.tar.gz", "a0bb982c76b83111308126cc779a992fa506b90b")
    _classes = 100

    def __init__(self, root=None, fine_label=False, train=True, transform=None):
        self._fine_label = fine_label
        super().__init__(root, train, transform)

    def _files(self):
        return ["train.bin" if self._train else "test.bin"]


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
