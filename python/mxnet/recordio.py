"""Record files: byte strings one after the other (.rec), an index of them (.idx), images with labels in them."""
import os
import numbers
from collections import namedtuple

from . import _core
from ._core import NDArray

__all__ = ["MXRecordIO", "MXIndexedRecordIO", "IRHeader", "pack", "unpack", "pack_img", "unpack_img"]


class MXRecordIO:
    """A file of records: flag "w" writes, "r" reads.  A written file appears when it is closed.

        record = mx.recordio.MXRecordIO("train.rec", "w")
        record.write(b"bytes")
        record.close()
    """

    def __init__(self, uri, flag):
        self.uri, self.flag = os.fspath(uri), flag
        self.handle, self.pid, self.is_open = None, None, False
        self.open()

    def open(self):
        """Opens the file; for reading from its beginning."""
        if self.flag not in ("r", "w"):
            raise ValueError(f"{type(self).__name__}: flag is {self.flag!r}, expected 'r' or 'w'")
        self.writable = self.flag == "w"
        self.handle = self._open_file()
        self.pid, self.is_open = os.getpid(), True

    def _open_file(self):
        return _core.RecordWriter(self.uri) if self.writable else _core.RecordReader(self.uri)

    def close(self):
        """Closes the file; a written file appears now."""
        if not self.is_open:
            return
        self.is_open, handle, self.handle = False, self.handle, None
        if not self.writable or self.pid == os.getpid():  # a forked process must not finish its parent's file
            handle.close()
        self.pid = None

    def reset(self):
        """Rewinds to the beginning; a file open for writing is started again."""
        self.close()
        self.open()

    def read(self):
        """The next record as bytes; None at the end."""
        return self._reader("read").read()

    def write(self, buf):
        """Appends a record."""
        self._writer("write").write(buf)

    def tell(self):
        """Where the next record begins, in bytes."""
        self._check("tell")
        return self.handle.tell()

    def _check(self, what):
        if not self.is_open:
            raise RuntimeError(f"{type(self).__name__}.{what}: {self.uri} is closed")
        if self.pid == os.getpid():
            return
        if self.writable:
            raise RuntimeError(f"{type(self).__name__}.{what}: {self.uri} is being written by another process, "
                               f"which forked "
                               "this one")
        self.reset()  # readers of two processes do not disturb each other

    def _reader(self, what):
        self._check(what)
        if self.writable:
            raise AssertionError(f"{type(self).__name__}.{what}: {self.uri} is open for writing")
        return self.handle

    def _writer(self, what):
        self._check(what)
        if not self.writable:
            raise AssertionError(f"{type(self).__name__}.{what}: {self.uri} is open for reading")
        return self.handle

    def __getstate__(self):
        if self.writable and self.is_open:
            raise TypeError(f"{type(self).__name__}: {self.uri} is being written and cannot be pickled")
        state = dict(self.__dict__)
        del state["handle"], state["pid"]
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.handle, self.pid = None, None
        if state["is_open"]:
            self.is_open = False
            self.open()

    def __del__(self):
        if getattr(self, "is_open", False):
            self.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


class MXIndexedRecordIO(MXRecordIO):
    """Records with keys: the .idx file has their positions."""

    def __init__(self, idx_path, uri, flag, key_type=int):
        self.idx_path, self.key_type = os.fspath(idx_path), key_type
        self.idx, self.keys = {}, []
        super().__init__(uri, flag)

    def _open_file(self):
        self.idx, self.keys = {}, []
        if self.writable:
            return _core.RecordWriter(self.uri, self.idx_path)
        if not os.path.exists(self.idx_path):
            raise FileNotFoundError(f"{type(self).__name__}: there is no index file '{self.idx_path}'; it is written "
                                    f"together with '{self.uri}' by MXIndexedRecordIO")
        for text, position in _core.record_index(self.idx_path):
            key = self.key_type(text)
            self.idx[key] = position
            self.keys.append(key)
        return _core.RecordReader(self.uri)

    def seek(self, idx):
        """Seeks to the record with this key."""
        self._reader("seek").seek(self.idx[idx])

    def read_idx(self, idx):
        """The record with this key."""
        return self._reader("read_idx").read_at(self.idx[idx])

    def write_idx(self, idx, buf):
        """Appends a record under a key."""
        writer = self._writer("write_idx")
        key, position = self.key_type(idx), writer.tell()
        writer.write(buf, str(key))
        self.idx[key] = position
        self.keys.append(key)


IRHeader = namedtuple("HEADER", ["flag", "label", "id", "id2"])
IRHeader.__doc__ = "The header of an image record: flag (number of labels; 0: one), label, id, id2."


def pack(header, s):
    """A record from a header (flag, label, id, id2) and bytes; label is a number or a sequence of them."""
    header = IRHeader(*header)
    label = header.label
    if not isinstance(label, numbers.Number):
        import numpy
        label = numpy.ascontiguousarray(label.asnumpy() if isinstance(label, NDArray) else label,
                                        dtype="float32").reshape(-1)
    for name in ("id", "id2"):
        value = getattr(header, name)
        if not 0 <= value < 2 ** 64:
            raise ValueError(f"recordio.pack: {name} is {value}, expected 0 to 2**64 - 1")
    return _core.record_pack(label, header.id, header.id2, s)


def unpack(s):
    """(header, bytes) of a record."""
    flag, label, number, number2, payload = _core.record_unpack(s)
    return IRHeader(flag, label.asnumpy() if flag else label, number, number2), payload


def unpack_img(s, iscolor=-1):
    """(header, image) of a record: a NumPy array (H, W, 3) in the order blue, green, red, or (H, W) if it is gray.
    iscolor: 1 colour, 0 gray, -1 as stored."""
    header, payload = unpack(s)
    image = _core.imdecode(payload, iscolor, False).asnumpy()
    return header, image[:, :, 0] if image.shape[2] == 1 else image


def pack_img(header, img, quality=95, img_fmt=".jpg"):
    """A record from a header and an image (H, W, 3) in the order blue, green, red, or (H, W). quality: of JPEG 1 to
    100, of PNG the compression 0 to 9."""
    image = img if isinstance(img, NDArray) else _core.array(img, dtype="uint8")
    return pack(header, _core.imencode(image, img_fmt, quality, False))
