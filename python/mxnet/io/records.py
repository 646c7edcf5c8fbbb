"""Iterators over record files of images.

Threads build a batch: each reads a record, decodes the image, crops and mirrors it (the library releases the GIL); then
the batch is assembled and normalized at once. `prefetch_buffer` batches are prefetched.  The random choices for an image
depend on seed, epoch and record only, not on the threads.
"""
import os
import random

from .. import _core
from .. import ndarray as nd
from ..context import cpu
from .io import DataBatch, DataDesc, MXDataIter

__all__ = ["ImageRecordIter", "ImageRecordUInt8Iter", "ImageRecordInt8Iter", "ImageDetRecordIter"]

# Options of MXNet that are not supported: name -> value that changes nothing.
_REFUSED = {"aug_seq": "aug_default", "max_rotate_angle": 0, "max_shear_ratio": 0, "max_crop_size": -1,
            "min_crop_size": -1,
            "max_random_scale": 1, "min_random_scale": 1, "max_img_size": 1e10, "min_img_size": 0, "random_h": 0,
            "random_s": 0, "random_l": 0, "rotate": -1, "mean_img": "", "max_random_contrast": 0,
            "max_random_illumination": 0}
_IGNORED = {"verbose", "device_id", "shuffle_chunk_size", "shuffle_chunk_seed", "ctx"}  # how, not what


class ImageRecordIter(MXDataIter):
    """Batches of images of a .rec file, (N, C, H, W): resized (shorter side), cropped to data_shape in the centre or
    at random, mirrored, coloured, then (x - mean) / std * scale per channel.

    path_imgidx or a file x.idx next to x.rec is used if it exists; without one the file is scanned once.
    path_imglist gives labels by the numbers of the records. round_batch: the last batch is filled up from the
    beginning and the next epoch starts after that.
    """

    _dtype = "float32"

    def __init__(self, path_imgrec, data_shape, batch_size, path_imglist="", path_imgidx="", label_width=1,
                 preprocess_threads=4, num_parts=1, part_index=0, shuffle=False, seed=0, seed_aug=None,
                 round_batch=True,
                 prefetch_buffer=4, dtype=None, mirror=False, rand_mirror=False, mean_r=0.0, mean_g=0.0, mean_b=0.0,
                 mean_a=0.0, std_r=1.0, std_g=1.0, std_b=1.0, std_a=1.0, scale=1.0, resize=-1, rand_crop=False,
                 random_resized_crop=False, max_aspect_ratio=0.0, min_aspect_ratio=None, max_random_area=1.0,
                 min_random_area=1.0, brightness=0.0, contrast=0.0, saturation=0.0, pca_noise=0.0, fill_value=255,
                 inter_method=1, pad=0, data_name="data", label_name="softmax_label", **others):
        super().__init__(batch_size)
        self._refuse(others)
        if len(data_shape) != 3 or data_shape[0] not in (1, 3, 4):
            raise ValueError(f"{type(self).__name__}: data_shape is {tuple(data_shape)}, expected (C, H, W) with 1, 3 "
                             f"or 4 channels")
        if batch_size < 1 or preprocess_threads < 1:
            raise ValueError(f"{type(self).__name__}: batch_size and preprocess_threads must be positive")
        self._shape, self._label_width = tuple(data_shape), label_width
        self._out_type = dtype or self._dtype
        self._options = dict(mirror=mirror, rand_mirror=rand_mirror, resize=resize, rand_crop=rand_crop,
                             inter=inter_method,
                             resized_crop=random_resized_crop, area=(min_random_area, max_random_area), pad=pad,
                             ratio=_ratios(min_aspect_ratio, max_aspect_ratio), fill=fill_value, pca_noise=pca_noise,
                             jitter=(brightness, contrast, saturation))
        n = self._shape[0]
        self._mean = [mean_r, mean_g, mean_b, mean_a][:n]
        self._std = [std_r, std_g, std_b, std_a][:n]
        self._scale, self._names = scale, (data_name, label_name)
        self._reader = _core.RecordReader(path_imgrec)
        self._positions = _positions(self._reader, path_imgrec, path_imgidx, num_parts, part_index, type(self).__name__)
        self._labels = _labels(path_imglist)
        self._shuffle, self._seed, self._aug_seed = shuffle, seed, seed if seed_aug is None else seed_aug
        self._round, self._threads, self._ahead = round_batch, preprocess_threads, max(1, prefetch_buffer)
        self._pool, self._epoch, self._start = None, -1, 0
        self._under_way, self._batch = [], None
        self.reset()

    def _refuse(self, others):
        for name, value in others.items():
            if name not in _REFUSED and name not in _IGNORED:
                raise TypeError(f"{type(self).__name__}: unexpected keyword '{name}'")
            if name in _REFUSED and value != _REFUSED[name]:
                raise NotImplementedError(f"{type(self).__name__}: {name}={value!r} is not supported; use a "
                                          f"gluon.data.DataLoader "
                                          "with ImageRecordDataset and your own transforms")

    @property
    def provide_data(self):
        """Description of the data."""
        import numpy
        return [DataDesc(self._names[0], (self.batch_size,) + self._shape, numpy.dtype(self._out_type).type)]

    @property
    def provide_label(self):
        """Description of the labels."""
        width = () if self._label_width == 1 else (self._label_width,)
        return [DataDesc(self._names[1], (self.batch_size,) + width)]

    # ---- order -----------------------------------------------------------------------------------------------------

    def reset(self):
        for jobs, _ in self._under_way:
            for job in jobs:
                job.cancel()
        self._under_way, self._batch = [], None
        self._epoch += 1
        self._order = list(range(len(self._positions)))
        if self._shuffle:
            random.Random(self._seed + self._epoch).shuffle(self._order)
        self._next, self._start = self._start, 0

    def _ask(self):
        """Starts batches until enough are in progress."""
        n = len(self._order)
        while len(self._under_way) < self._ahead and self._next < n:
            chosen = [self._order[i % n] for i in range(self._next, self._next + self.batch_size)]
            self._next += self.batch_size
            pad = max(0, self._next - n)
            self._start = pad % n if self._round else 0
            if self._pool is None:
                from concurrent.futures import ThreadPoolExecutor
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="mxnet-images")
            self._under_way.append(([self._pool.submit(self._example, i, self._epoch) for i in chosen], pad))

    def iter_next(self):
        self._ask()
        if not self._under_way:
            return False
        jobs, pad = self._under_way.pop(0)
        self._ask()
        examples = [job.result() for job in jobs]
        self._batch = DataBatch([self._normalize(nd.stack(*[image for image, _ in examples]))],
                                [self._stack_labels([label for _, label in examples])], pad, None)
        return True

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

    # ---- examples --------------------------------------------------------------------------------------------------

    def _example(self, i, epoch):
        flag, label, number, _, payload = _core.record_unpack(self._reader.read_at(self._positions[i]))
        if self._labels is not None:
            if number not in self._labels:
                raise KeyError(f"{type(self).__name__}: record {number} is not in path_imglist")
            label = self._labels[number]
        elif flag:
            label = label.asnumpy()
        image = _core.imdecode(payload, {1: 0, 3: 1, 4: -1}[self._shape[0]], True)
        return self._augment(image, random.Random(f"{self._aug_seed} {epoch} {i}")), label

    def _augment(self, image, rng):
        o, (_, height, width) = self._options, self._shape
        if o["resize"] > 0:
            image = _core.resize_short(image, o["resize"], o["inter"])
        if o["pad"] > 0:
            image = nd._internal._cvcopyMakeBorder(image, top=o["pad"], bot=o["pad"], left=o["pad"], right=o["pad"],
                                                   value=o["fill"])
        x, y, w, h = self._region(image.shape[1], image.shape[0], rng)
        image = _core.fixed_crop(image, x, y, w, h, width, height, o["inter"])
        if o["mirror"] or (o["rand_mirror"] and rng.random() < 0.5):
            image = nd.flip(image, axis=1)
        return self._colour(image, rng)

    def _region(self, width, height, rng):
        """(x, y, w, h) of the crop."""
        o = self._options
        if o["resized_crop"]:
            region = _core.random_part(width, height, o["area"], o["ratio"], False, 10, rng)
            if region is not None:
                return region
        return _core.crop_region(width, height, self._shape[2], self._shape[1], rng if o["rand_crop"] else None)

    def _colour(self, image, rng):
        jitter = [(what, amount) for what, amount in zip(("brightness", "contrast", "saturation"),
                                                         self._options["jitter"]) if amount]
        noise = self._options["pca_noise"]
        if jitter or noise:
            image = image.astype("float32")
        rng.shuffle(jitter)
        for what, amount in jitter:
            image = _core.image_colour(image, what, 1.0 + rng.uniform(-amount, amount))
        if noise:
            image = _core.image_lighting(image, tuple(rng.gauss(0, noise) for _ in range(3)), None, None)
        return image

    def _normalize(self, images):
        """(N, H, W, C) to (N, C, H, W), (x - mean) / std * scale."""
        images = nd.transpose(images, axes=(0, 3, 1, 2))
        if any(self._mean) or any(s != 1 for s in self._std) or self._scale != 1:
            shape = (1, -1, 1, 1)
            images = images.astype("float32")
            if any(self._mean):
                images = images - nd.array(self._mean, ctx=images.context).reshape(shape)
            factor = nd.array([self._scale / s for s in self._std], ctx=images.context).reshape(shape)
            images = images * factor
        return images.astype(self._out_type)

    def _stack_labels(self, labels):
        import numpy
        rows = numpy.zeros((len(labels), self._label_width), dtype="float32")
        for row, label in zip(rows, labels):
            label = numpy.reshape(label, -1)
            if len(label) != self._label_width:
                raise ValueError(f"{type(self).__name__}: a record has {len(label)} labels, label_width is "
                                 f"{self._label_width}")
            row[:] = label
        return nd.array(rows[:, 0] if self._label_width == 1 else rows, ctx=cpu(0))


class ImageRecordUInt8Iter(ImageRecordIter):
    """The same with batches of uint8."""

    _dtype = "uint8"


class ImageRecordInt8Iter(ImageRecordIter):
    """The same with batches of int8."""

    _dtype = "int8"


def ImageDetRecordIter(*args, **kwargs):
    """Images with boxes, from a .rec file."""
    raise NotImplementedError("ImageDetRecordIter is not supported; mx.image.ImageDetIter reads the same files")


def _ratios(least, most):
    """Limits of width to height; one number r means 1 - r to 1 + r."""
    if least is None:
        return (1.0 - most, 1.0 + most) if most < 1 else (1.0 / most, most)
    return least, most


def _positions(reader, path, index_path, num_parts, part_index, who):
    if not 0 <= part_index < num_parts:
        raise ValueError(f"{who}: part_index {part_index} is not one of {num_parts} parts")
    index_path = index_path or os.path.splitext(path)[0] + ".idx"
    found = [at for _, at in _core.record_index(index_path)] if os.path.exists(index_path) else reader.positions()
    if not found:
        raise ValueError(f"{who}: '{path}' has no records")
    length = -(-len(found) // num_parts)
    return found[part_index * length:(part_index + 1) * length]


def _labels(path):
    if not path:
        return None
    from ..image._lists import read_list
    return {key: label for key, label, _ in read_list(path)}
