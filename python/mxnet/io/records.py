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
from ..error import ShapeError
from .io import DataBatch, DataDesc, MXDataIter

__all__ = ["ImageRecordIter", "ImageRecordUInt8Iter", "ImageRecordInt8Iter", "ImageRecordIter_v1",
           "ImageRecordUInt8Iter_v1"]

_IGNORED = {"verbose", "device_id", "shuffle_chunk_size", "shuffle_chunk_seed", "ctx", "aug_seq"}  # how, not what


class ImageRecordIter(MXDataIter):
    """Batches of images of a .rec file, (N, C, H, W): resized (shorter side), turned and scaled, cropped to data_shape in
    the centre or at random, coloured, mirrored, then ((x - mean) * contrast + illumination) * scale / std.

    path_imgidx or a file x.idx next to x.rec is used if it exists; without one the file is scanned once.
    path_imglist gives labels by the numbers of the records. round_batch: the last batch is filled up from the
    beginning and the next epoch starts after that. mean_img: a file with the mean of all images, which is computed and
    written if it does not exist. seed_aug: every epoch repeats the same random choices. Unknown keywords are ignored,
    with a warning.
    """

    _dtype = "float32"

    def __init__(self, path_imgrec, data_shape, batch_size, path_imglist="", path_imgidx="", label_width=1,
                 preprocess_threads=4, num_parts=1, part_index=0, shuffle=False, seed=0, seed_aug=None,
                 round_batch=True,
                 prefetch_buffer=4, dtype=None, mirror=False, rand_mirror=False, mean_r=0.0, mean_g=0.0, mean_b=0.0,
                 mean_a=0.0, std_r=1.0, std_g=1.0, std_b=1.0, std_a=1.0, scale=1.0, resize=-1, rand_crop=False,
                 random_resized_crop=False, max_aspect_ratio=0.0, min_aspect_ratio=None, max_random_area=1.0,
                 min_random_area=1.0, brightness=0.0, contrast=0.0, saturation=0.0, pca_noise=0.0, fill_value=255,
                 inter_method=1, pad=0, mean_img="", max_rotate_angle=0, rotate=-1, max_shear_ratio=0.0,
                 max_random_scale=1.0, min_random_scale=1.0, max_img_size=1e10, min_img_size=0.0, max_crop_size=-1,
                 min_crop_size=-1, random_h=0, random_s=0, random_l=0, max_random_contrast=0.0,
                 max_random_illumination=0.0, data_name="data", label_name="softmax_label", **others):
        super().__init__(batch_size)
        _warn_unknown(type(self).__name__, others, _IGNORED)
        if len(data_shape) != 3 or data_shape[0] not in (1, 3, 4):
            raise ShapeError(f"{type(self).__name__}: data_shape is {tuple(data_shape)}, expected (C, H, W) with 1, 3 "
                             f"or 4 channels")
        if batch_size < 1 or preprocess_threads < 1:
            raise ValueError(f"{type(self).__name__}: batch_size and preprocess_threads must be positive")
        self._shape, self._label_width = tuple(data_shape), label_width
        self._out_type = dtype or self._dtype
        self._options = dict(mirror=mirror, rand_mirror=rand_mirror, resize=resize, rand_crop=rand_crop,
                             inter=inter_method,
                             resized_crop=random_resized_crop, area=(min_random_area, max_random_area), pad=pad,
                             ratio=_ratios(min_aspect_ratio, max_aspect_ratio), fill=fill_value, pca_noise=pca_noise,
                             jitter=(brightness, contrast, saturation), crop=(min_crop_size, max_crop_size),
                             hls=(random_h, random_l, random_s))
        self._warp = _warp_options(random_resized_crop, max_rotate_angle, rotate, max_shear_ratio,
                                   (min_random_scale, max_random_scale), (min_aspect_ratio, max_aspect_ratio),
                                   (int(min_img_size), int(min(max_img_size, 1 << 15))))
        n = self._shape[0]
        self._mean = [mean_r, mean_g, mean_b, mean_a][:n]
        self._std = [std_r, std_g, std_b, std_a][:n]
        self._scale, self._names = scale, (data_name, label_name)
        self._light = (max_random_contrast, max_random_illumination)
        self._reader = _core.RecordReader(path_imgrec)
        self._positions = _positions(self._reader, path_imgrec, path_imgidx, num_parts, part_index, type(self).__name__)
        self._labels = _labels(path_imglist)
        self._shuffle, self._seed, self._aug_seed = shuffle, seed, seed_aug
        self._round, self._threads, self._ahead = round_batch, preprocess_threads, max(1, prefetch_buffer)
        self._pool, self._epoch, self._start = None, -1, 0
        self._under_way, self._batch = [], None
        self._mean_image = self._get_mean(mean_img) if mean_img else None
        self.reset()

    def _get_mean(self, path):
        """The array of a file, as (H, W, C); if it does not exist, the mean of all images is computed and saved."""
        if not os.path.exists(path):
            with self._new_pool() as pool:
                total, count = 0, len(self._positions)
                for image, _ in pool.map(lambda i: self._unmirrored(i, self._random(i, 0)), range(count)):
                    total = image.astype("float32") + total
            nd.save(path, {"mean_img": nd.transpose(total / count, axes=(2, 0, 1))})
        found = nd.load(path)
        mean = found.get("mean_img") if isinstance(found, dict) else found[0] if found else None
        if mean is None or mean.shape != self._shape:
            raise ShapeError(f"{type(self).__name__}: mean_img='{path}' has "
                             f"{'no array mean_img' if mean is None else f'an array {mean.shape}'}, expected one of shape "
                             f"{self._shape}; remove the file to have it computed")
        return nd.transpose(mean.as_in_context(cpu(0)), axes=(1, 2, 0))

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
        for jobs, *_ in self._under_way:
            for job in jobs:
                job.cancel()
        self._under_way, self._batch = [], None
        self._epoch += 1
        self._order = list(range(len(self._positions)))
        if self._shuffle:
            random.Random(self._seed + self._epoch).shuffle(self._order)
        self._next, self._start = self._start, 0

    def _new_pool(self):
        from concurrent.futures import ThreadPoolExecutor
        return ThreadPoolExecutor(self._threads, thread_name_prefix="mxnet-images")

    def _ask(self):
        """Starts batches until enough are in progress."""
        n = len(self._order)
        while len(self._under_way) < self._ahead and self._next < n:
            chosen = [self._order[i % n] for i in range(self._next, self._next + self.batch_size)]
            self._next += self.batch_size
            pad = max(0, self._next - n)
            self._start = pad % n if self._round else 0
            if self._pool is None:
                self._pool = self._new_pool()
            jobs = [self._pool.submit(self._example, i, self._epoch) for i in chosen]
            self._under_way.append((jobs, pad, self._lights(chosen, self._epoch) if any(self._light) else None,
                                    self._index(chosen)))

    def iter_next(self):
        self._ask()
        if not self._under_way:
            return False
        jobs, pad, lights, index = self._under_way.pop(0)
        self._ask()
        examples = [job.result() for job in jobs]
        self._batch = DataBatch([self._normalize(nd.stack(*[image for image, _ in examples]), lights)],
                                [self._stack_labels([label for _, label in examples])], pad, index)
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

    def getindex(self):
        return self._batch.index

    def _index(self, chosen):
        import numpy
        return numpy.zeros(len(chosen), dtype="uint64")  # it does not number its examples, only those with boxes do

    # ---- examples --------------------------------------------------------------------------------------------------

    def _example(self, i, epoch):
        """(image, label)"""
        rng = self._random(i, epoch)
        image, label = self._unmirrored(i, rng)
        return self._mirrored(image, rng), label

    def _unmirrored(self, i, rng):
        flag, label, number, _, payload = _core.record_unpack(self._reader.read_at(self._positions[i]))
        if self._labels is not None:
            if number not in self._labels:
                raise KeyError(f"{type(self).__name__}: record {number} is not in path_imglist")
            label = self._labels[number]
        elif flag:
            label = label.asnumpy()
        image = _core.imdecode(payload, {1: 0, 3: 1, 4: -1}[self._shape[0]], True)
        return self._augment(image, rng), label

    def _random(self, i, epoch):
        return random.Random(f"{self._seed} {epoch} {i}" if self._aug_seed is None else f"{self._aug_seed} {i}")

    def _augment(self, image, rng):
        o, (_, height, width) = self._options, self._shape
        if o["resize"] > 0:
            image = _core.resize_short(image, o["resize"], o["inter"])
        if o["pad"] > 0:
            image = nd._internal._cvcopyMakeBorder(image, top=o["pad"], bot=o["pad"], left=o["pad"], right=o["pad"],
                                                   value=o["fill"])
        if self._warp is not None:
            image = self._warped(image, rng)
        x, y, w, h = self._region(image.shape[1], image.shape[0], rng)
        return self._colour(_core.fixed_crop(image, x, y, w, h, width, height, o["inter"]), rng)

    def _mirrored(self, image, rng):
        """Mirrored, perhaps; the mean image is not: it is subtracted before."""
        if self._mean_image is not None:
            image = image.astype("float32") - self._mean_image
        if self._options["mirror"] or (self._options["rand_mirror"] and rng.random() < 0.5):
            image = nd.flip(image, axis=1)
        return image

    def _region(self, width, height, rng):
        """(x, y, w, h) of the crop."""
        o = self._options
        if o["resized_crop"]:
            region = _core.random_part(width, height, o["area"], o["ratio"], False, 10, rng)
            if region is not None:
                return region
        elif o["crop"] != (-1, -1):
            return self._square(width, height, rng)
        return _core.crop_region(width, height, self._shape[2], self._shape[1], rng if o["rand_crop"] else None)

    def _square(self, width, height, rng):
        """A region of min_crop_size to max_crop_size on each side."""
        least, most = self._options["crop"]
        if not 0 < least <= most or most > min(width, height):
            raise ValueError(f"{type(self).__name__}: min_crop_size={least} and max_crop_size={most} for an image of "
                             f"{width} x {height}; expected 0 < min_crop_size <= max_crop_size <= its sides")
        size = rng.randint(least, most)
        if self._options["rand_crop"]:
            return rng.randint(0, width - size), rng.randint(0, height - size), size, size
        return (width - size) // 2, (height - size) // 2, size, size

    def _warped(self, image, rng):
        angle, turned, shear, scale, (least, most), sizes = self._warp
        angle = turned if turned > 0 else rng.randint(-angle, angle)
        return _core.image_warp(image, angle, rng.uniform(-shear, shear), rng.uniform(*scale), rng.uniform(least, most),
                                *sizes, self._options["fill"], self._options["inter"])

    def _colour(self, image, rng):
        if any(self._options["hls"]) and image.shape[2] == 3:
            image = _core.image_shift_hls(image, *(rng.randint(-most, most) for most in self._options["hls"]))
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

    def _normalize(self, images, lights):
        """(N, H, W, C) to (N, C, H, W), ((x - mean) * contrast + illumination) * scale / std."""
        images, shape = nd.transpose(images, axes=(0, 3, 1, 2)), (1, -1, 1, 1)
        if self._mean_image is None and any(self._mean):
            images = images.astype("float32") - nd.array(self._mean, ctx=images.context).reshape(shape)
        if any(self._light):
            contrast, illumination = (nd.array(part, ctx=images.context).reshape((-1, 1, 1, 1)) for part in zip(*lights))
            images = images.astype("float32") * contrast + illumination
        if any(s != 1 for s in self._std) or self._scale != 1:
            images = images.astype("float32") * nd.array([self._scale / s for s in self._std],
                                                         ctx=images.context).reshape(shape)
        return images.astype(self._out_type)

    def _lights(self, chosen, epoch):
        """(contrast, illumination) of each image of a batch."""
        contrast, illumination = self._light
        draws = [random.Random(f"light {self._aug_seed if self._aug_seed is not None else (self._seed, epoch)} {i}")
                 for i in chosen]
        return [(1 + rng.uniform(-contrast, contrast), rng.uniform(-illumination, illumination)) for rng in draws]

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


ImageRecordIter_v1, ImageRecordUInt8Iter_v1 = ImageRecordIter, ImageRecordUInt8Iter


def _warn_unknown(who, given, known):
    """Unknown keywords are ignored, as in MXNet, but not silently."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        import warnings
        warnings.warn(f"{who}: ignores the unknown keyword{'s' if len(unknown) > 1 else ''} {', '.join(unknown)}",
                      stacklevel=3)


def _warp_options(resized, max_angle, angle, shear, scale, aspect, sizes):
    """What is needed to turn and scale images; None: nothing is to be done."""
    for name, (least, most) in (("random_scale", scale), ("img_size", sizes)):
        if least > most:
            raise ValueError(f"ImageRecordIter: min_{name}={least} is greater than max_{name}={most}")
    ratio = (1.0, 1.0)
    if not resized:
        ratio = (1.0 - aspect[1], 1.0 + aspect[1]) if aspect[0] is None else aspect
    if max_angle <= 0 and angle <= 0 and shear <= 0 and scale == (1, 1) and ratio == (1, 1):
        return None
    return max(0, int(max_angle)), angle, shear, scale, ratio, sizes


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
