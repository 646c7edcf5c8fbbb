"""ImageIter: batches of images from a record file or a list of files, augmented in Python."""
import logging
import os
import random

from .. import _core, recordio
from .. import ndarray as nd
from ..context import cpu
from ..error import MXNetError
from ..io import DataBatch, DataIter
from ._lists import read_list
from .augment import CreateAugmenter
from .image import imdecode

__all__ = ["ImageIter"]


class ImageIter(DataIter):
    """Batches (N, C, H, W) of images from path_imgrec (a .rec file, with path_imgidx to shuffle it), path_imglist (a
    .lst file) or imglist (a list of [label, path]); paths are relative to path_root.

    aug_list: augmenters; other keywords are those of CreateAugmenter.  Images that cannot be decoded are skipped
    with a message. last_batch_handle: 'pad', 'discard' or 'roll_over'.
    """

    def __init__(self, batch_size, data_shape, label_width=1, path_imgrec=None, path_imglist=None, path_root=None,
                 path_imgidx=None, shuffle=False, part_index=0, num_parts=1, aug_list=None, imglist=None,
                 data_name="data",
                 label_name="softmax_label", dtype="float32", last_batch_handle="pad", **kwargs):
        super().__init__(batch_size)
        who = type(self).__name__
        if not (path_imgrec or path_imglist or isinstance(imglist, list)):
            raise AssertionError(f"{who}: expected one of path_imgrec, path_imglist and imglist (a list)")
        if _core.dtype_name(dtype) not in ("int32", "float32", "int64", "float64"):
            raise AssertionError(f"{who}: dtype is {dtype}, expected int32, float32, int64 or float64")
        if last_batch_handle not in ("pad", "discard", "roll_over"):
            raise NotImplementedError(f"{who}: last_batch_handle is {last_batch_handle!r}, expected 'pad', 'discard' "
                                      f"or 'roll_over'")
        self.check_data_shape(data_shape)
        self.dtype, self.last_batch_handle = dtype, last_batch_handle
        self.imgrec = self.imgidx = self.imglist = None
        self.path_root, self.shuffle = path_root, shuffle
        if path_imgrec:
            if path_imgidx:
                self.imgrec = recordio.MXIndexedRecordIO(path_imgidx, path_imgrec, "r")
                self.imgidx = list(self.imgrec.keys)
            else:
                self.imgrec = recordio.MXRecordIO(path_imgrec, "r")
        self.seq = self._sequence(path_imglist, imglist)
        if (shuffle or num_parts > 1) and self.seq is None:
            raise AssertionError(f"{who}: shuffle and num_parts need path_imgidx (or a list) in addition to path_imgrec")
        if num_parts > 1:
            if not 0 <= part_index < num_parts:
                raise AssertionError(f"{who}: part_index {part_index} is not one of {num_parts} parts")
            length = len(self.seq) // num_parts
            self.seq = self.seq[part_index * length:(part_index + 1) * length]
        self.num_image = None if self.seq is None else len(self.seq)
        self.data_shape, self.label_width = tuple(data_shape), label_width
        self.provide_data = [(data_name, (batch_size,) + self.data_shape)]
        self.provide_label = [(label_name, (batch_size,) if label_width == 1 else (batch_size, label_width))]
        self.auglist = CreateAugmenter(data_shape, **kwargs) if aug_list is None else aug_list
        self._left = []  # (image, label) that roll over
        self._first = []  # of an epoch, used to pad the last batch
        self._ended = False
        self.reset()

    def _sequence(self, path_imglist, imglist):
        """Keys in order; fills self.imglist: key -> (label, path)."""
        import numpy
        if path_imglist:
            self.imglist = {key: (label, path) for key, label, path in read_list(path_imglist)}
        elif isinstance(imglist, list):
            self.imglist = {}
            for i, row in enumerate(imglist, 1):
                label = row[:-1] if len(row) > 2 else row[0]
                self.imglist[str(i)] = (numpy.array(label, dtype="float32").reshape(-1), row[-1])
        if self.imgrec is None:
            return list(self.imglist)
        return self.imgidx

    def check_data_shape(self, data_shape):
        """Wants (3, H, W)."""
        if len(data_shape) != 3:
            raise ValueError(f"{type(self).__name__}: data_shape is {tuple(data_shape)}, expected (C, H, W)")
        if data_shape[0] != 3:
            raise ValueError(f"{type(self).__name__}: data_shape is {tuple(data_shape)}, expected 3 channels")

    # ---- reading ---------------------------------------------------------------------------------------------------

    def reset(self):
        """Rewinds to the beginning."""
        if self.seq is not None and self.shuffle:
            random.shuffle(self.seq)
        if self.imgrec is not None:
            self.imgrec.reset()
        self.cur, self._first, self._ended = 0, [], False

    def hard_reset(self):
        """Rewinds to the beginning; nothing rolls over."""
        self._left = []
        self.reset()

    def next_sample(self):
        """(label, bytes of an image file); StopIteration at the end."""
        if self.seq is None:
            record = self.imgrec.read()
            if record is None:
                raise StopIteration
            header, payload = recordio.unpack(record)
            return header.label, payload
        if self.cur >= len(self.seq):
            raise StopIteration
        key = self.seq[self.cur]
        self.cur += 1
        if self.imgrec is not None:
            header, payload = recordio.unpack(self.imgrec.read_idx(key))
            return header.label if self.imglist is None else self.imglist[key][0], payload
        label, path = self.imglist[key]
        return label, self.read_image(path)

    def read_image(self, fname):
        """The bytes of a file relative to path_root."""
        with open(os.path.join(self.path_root or "", fname), "rb") as file:
            return file.read()

    def imdecode(self, s):
        """The image in the bytes of a file."""
        return imdecode(s)

    def check_valid_image(self, data):
        """Checks that an image has pixels."""
        if len(data[0].shape) == 0:
            raise RuntimeError(f"{type(self).__name__}: an image has no pixels")

    def augmentation_transform(self, data):
        """Applies all augmenters to the image."""
        for aug in self.auglist:
            data = aug(data)
        return data

    def postprocess_data(self, datum):
        """(H, W, C) to (C, H, W)."""
        return nd.transpose(datum, axes=(2, 0, 1))

    # ---- batches ---------------------------------------------------------------------------------------------------

    def _example(self):
        """(tensor, label) of the next image that can be decoded."""
        while True:
            label, payload = self.next_sample()
            try:
                image = self.imdecode(payload)
                self.check_valid_image([image])
                label = self._checked(label)
            except (MXNetError, RuntimeError) as error:
                logging.warning("%s: an image is skipped: %s", type(self).__name__, error)
                continue
            return self._finish(image, label)

    def _checked(self, label):
        """The label in the augmenters' format; RuntimeError: the image is skipped."""
        return label

    def _finish(self, image, label):
        image = self.augmentation_transform(image)
        if image.shape[:2] != self.data_shape[1:]:
            raise ValueError(f"{type(self).__name__}: an image has shape {image.shape} after the augmenters, "
                             f"data_shape is "
                             f"{self.data_shape}")
        return self.postprocess_data(image), label

    def _filled(self):
        """Examples for a batch, and how many of them are padding."""
        rows, self._left = self._left, []
        pad = self.batch_size - len(rows) if rows else 0
        while len(rows) < self.batch_size and not self._ended:
            try:
                rows.append(self._example())
                if len(self._first) < self.batch_size:
                    self._first.append(rows[-1])
            except StopIteration:
                self._ended = True
        missing = self.batch_size - len(rows)
        if not missing:
            return rows, pad
        if self.last_batch_handle == "roll_over":
            self._left = rows
        if not rows or self.last_batch_handle != "pad":
            raise StopIteration
        return rows + [self._first[i % len(self._first)] for i in range(missing)], missing

    def next(self):
        """The next batch."""
        rows, pad = self._filled()
        data = nd.stack(*[image for image, _ in rows])
        return DataBatch([data.astype(self.dtype)], [self._labels([label for _, label in rows])], pad=pad)

    def _labels(self, labels):
        import numpy
        rows = numpy.zeros((len(labels), self.label_width), dtype="float32")
        for row, label in zip(rows, labels):
            row[:] = numpy.reshape(label, -1)
        return nd.array(rows[:, 0] if self.label_width == 1 else rows, ctx=cpu(0))
