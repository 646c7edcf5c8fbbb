"""Images with boxes from record files.

A label in the file is: length of its header (A), numbers per object (B), the rest of the header, then the objects (class,
left, top, right, bottom, ...), coordinates as fractions of width and height.  The label of a batch has one row per image:

    channels, height and width of the image, length n of the label, the label (n), padding

An image is changed together with its boxes: colours, mirror, frame, crop, then the size of data_shape.
"""
import math

from .. import _core
from .. import ndarray as nd
from ..context import cpu
from ..error import ShapeError
from .records import ImageRecordIter

__all__ = ["ImageDetRecordIter"]

_FACTS = 4  # numbers before the label


class ImageDetRecordIter(ImageRecordIter):
    """Batches of images with boxes of a .rec file.

    resize_mode: 'force' resizes to data_shape, 'shrink' makes larger images smaller, 'fit' resizes, the last two with the
    ratio of the sides unchanged and the rest of data_shape zero.  rand_crop_prob: probability of a crop; crop sampler i of
    num_crop_sampler draws at most max_crop_trials[i] regions between min_crop_scales[i] and max_crop_scales[i] and so on until
    one meets its limits; crop_emit_mode says which boxes are kept ('center': whose centre is inside, 'overlap': of which
    more than emit_overlap_thresh is).  rand_pad_prob, max_pad_scale: a larger frame.  Colours change with their *_prob.
    label_width: numbers of each label, if they are all equal; label_pad_width: at least the longest label.
    """

    def __init__(self, path_imgrec, data_shape, batch_size, label_width=-1, label_pad_width=0, label_pad_value=-1.0,
                 rand_crop_prob=0.0, min_crop_scales=(0.0,), max_crop_scales=(1.0,), min_crop_aspect_ratios=(1.0,),
                 max_crop_aspect_ratios=(1.0,), min_crop_overlaps=(0.0,), max_crop_overlaps=(1.0,),
                 min_crop_sample_coverages=(0.0,), max_crop_sample_coverages=(1.0,), min_crop_object_coverages=(0.0,),
                 max_crop_object_coverages=(1.0,), num_crop_sampler=1, crop_emit_mode="center", emit_overlap_thresh=0.3,
                 max_crop_trials=(25,), rand_pad_prob=0.0, max_pad_scale=1.0, max_random_hue=0, random_hue_prob=0.0,
                 max_random_saturation=0, random_saturation_prob=0.0, max_random_illumination=0,
                 random_illumination_prob=0.0, max_random_contrast=0.0, random_contrast_prob=0.0, rand_mirror_prob=0.0,
                 fill_value=127, resize_mode="force", std_r=0.0, std_g=0.0, std_b=0.0, std_a=0.0, **others):
        if resize_mode not in ("force", "shrink", "fit"):
            raise ValueError(f"ImageDetRecordIter: resize_mode is {resize_mode!r}, expected 'force', 'shrink' or 'fit'")
        if crop_emit_mode not in ("center", "overlap"):
            raise ValueError(f"ImageDetRecordIter: crop_emit_mode is {crop_emit_mode!r}, expected 'center' or 'overlap'")
        limits = [(min_crop_scales, max_crop_scales), (min_crop_aspect_ratios, max_crop_aspect_ratios),
                  (min_crop_overlaps, max_crop_overlaps), (min_crop_sample_coverages, max_crop_sample_coverages),
                  (min_crop_object_coverages, max_crop_object_coverages)]
        self._samplers = [[(_nth(least, i), _nth(most, i)) for least, most in limits] + [int(_nth(max_crop_trials, i))]
                          for i in range(num_crop_sampler)]
        self._crop_prob, self._emit, self._pad_options = rand_crop_prob, (crop_emit_mode, emit_overlap_thresh), \
            (rand_pad_prob, max_pad_scale)
        self._shifts = [(max_random_hue, random_hue_prob), (max_random_illumination, random_illumination_prob),
                        (max_random_saturation, random_saturation_prob)]
        self._contrast, self._mirror_prob = (max_random_contrast, random_contrast_prob), rand_mirror_prob
        self._resize_mode, self._label_pad = resize_mode, label_pad_value
        super().__init__(path_imgrec, data_shape, batch_size, fill_value=fill_value,
                         std_r=std_r or 1.0, std_g=std_g or 1.0, std_b=std_b or 1.0, std_a=std_a or 1.0, **others)
        self._label_width = _FACTS + self._widest(label_width, label_pad_width)

    def _widest(self, label_width, pad_width):
        """The numbers of the longest label of the file."""
        known = [(len(label), number) for label, number, _ in map(self._raw, range(len(self._positions)))]
        self._numbers, lengths = [number for _, number in known], {length for length, _ in known}
        if label_width > 0 and lengths != {label_width}:
            raise ShapeError(f"ImageDetRecordIter: label_width is {label_width}, the file has labels of "
                             f"{', '.join(map(str, sorted(lengths)))} numbers")
        if 0 < pad_width < max(lengths):
            raise ShapeError(f"ImageDetRecordIter: label_pad_width is {pad_width}, a label has {max(lengths)} numbers")
        return max(pad_width, max(lengths))

    def _raw(self, i):
        """(numbers of the label, number of the record, bytes of the image) of record i"""
        import numpy
        flag, label, number, _, payload = _core.record_unpack(self._reader.read_at(self._positions[i]))
        if self._labels is not None:
            label = self._labels[number]
        elif flag:
            label = label.asnumpy()
        return numpy.asarray(label, dtype="float32").reshape(-1), number, payload

    def _index(self, chosen):
        import numpy
        return numpy.array([self._numbers[i] for i in chosen], dtype="uint64")

    # ---- examples --------------------------------------------------------------------------------------------------

    def _unmirrored(self, i, rng):
        label, _, payload = self._raw(i)
        if len(label) < 2 or label[0] < 2 or label[1] < 5 or (len(label) - label[0]) % label[1]:
            raise ValueError(f"ImageDetRecordIter: record {i} has the label {label[:8].tolist()} ..., expected the length of "
                             "its header, at least 5 numbers per object, and complete objects")
        head, boxes = label[:int(label[0])], label[int(label[0]):].reshape(-1, int(label[1])).copy()
        image = _core.imdecode(payload, {1: 0, 3: 1, 4: -1}[self._shape[0]], True)
        if self._options["resize"] > 0:
            image = _core.resize_short(image, self._options["resize"], self._options["inter"])
        image, boxes = self._changed(image, boxes, rng)
        image, size = self._sized(image)
        return image, self._row(size, head, boxes)

    def _row(self, size, head, boxes):
        import numpy
        row = numpy.full(self._label_width, self._label_pad, dtype="float32")
        label = numpy.concatenate([head, boxes.reshape(-1)])
        row[:_FACTS] = (self._shape[0],) + size + (len(label),)
        row[_FACTS:_FACTS + len(label)] = label
        return row

    def _changed(self, image, boxes, rng):
        image = self._recoloured(image, rng)
        if rng.random() < self._mirror_prob:
            image = nd.flip(image, axis=1)
            boxes[:, [1, 3]] = 1 - boxes[:, [3, 1]]
        if rng.random() < self._pad_options[0] and self._pad_options[1] > 1:
            image, boxes = self._framed(image, boxes, rng)
        if self._samplers and rng.random() < self._crop_prob:
            image, boxes = self._cropped(image, boxes, rng)
        return image, boxes

    def _recoloured(self, image, rng):
        shifts = [rng.randint(-most, most) if rng.random() < probability else 0 for most, probability in self._shifts]
        if any(shifts) and image.shape[2] == 3:
            image = _core.image_shift_hls(image, *shifts)
        most, probability = self._contrast
        if most and rng.random() < probability:
            factor = 1 + rng.uniform(-most, most)
            image = nd.clip(image.astype("float32") * factor, 0, 255).astype("uint8")
        return image

    def _framed(self, image, boxes, rng):
        """In a larger frame of the fill value."""
        height, width = image.shape[:2]
        scale = rng.uniform(1, self._pad_options[1])
        rows, columns = int(height * scale) - height, int(width * scale) - width
        top, left = rng.randint(0, max(0, rows)), rng.randint(0, max(0, columns))
        image = nd._internal._cvcopyMakeBorder(image, top=top, bot=rows - top, left=left, right=columns - left,
                                               value=self._options["fill"])
        boxes[:, [1, 3]] = (boxes[:, [1, 3]] * width + left) / (width + columns)
        boxes[:, [2, 4]] = (boxes[:, [2, 4]] * height + top) / (height + rows)
        return image, boxes

    def _cropped(self, image, boxes, rng):
        """A region that one of the samplers accepts, and the boxes that are left in it."""
        for sampler in rng.sample(self._samplers, len(self._samplers)):
            for _ in range(sampler[-1]):
                region = _draw(sampler, rng)
                kept = region and _accepted(region, boxes, sampler, self._emit)
                if kept is not None and kept is not False and len(kept):
                    height, width = image.shape[:2]
                    x, y = int(region[0] * width), int(region[1] * height)
                    w, h = max(1, int((region[2] - region[0]) * width)), max(1, int((region[3] - region[1]) * height))
                    return _core.fixed_crop(image, x, y, w, h, w, h, self._options["inter"]), kept
        return image, boxes

    def _sized(self, image):
        """The image in the size of data_shape, and the (height, width) that it fills."""
        _, height, width = self._shape
        rows, columns = image.shape[:2]
        size = height, width
        if self._resize_mode != "force":
            ratio = min(height / rows, width / columns)
            ratio = min(ratio, 1) if self._resize_mode == "shrink" else ratio
            size = max(1, int(rows * ratio)), max(1, int(columns * ratio))
        if size != (rows, columns):
            image = _core.fixed_crop(image, 0, 0, columns, rows, size[1], size[0], self._options["inter"])
        if size != (height, width):
            image = nd._internal._cvcopyMakeBorder(image, top=0, bot=height - size[0], left=0, right=width - size[1], value=0)
        return image, size

    def _stack_labels(self, labels):
        import numpy
        return nd.array(numpy.stack(labels), ctx=cpu(0))


def _nth(numbers, i):
    """The limit of sampler i; the last one is that of all further samplers."""
    numbers = numbers if isinstance(numbers, (tuple, list)) else (numbers,)
    return numbers[min(i, len(numbers) - 1)]


def _draw(sampler, rng):
    """(left, top, right, bottom) within the limits of scale and ratio; None: it does not fit."""
    scale, ratio = rng.uniform(*sampler[0]), rng.uniform(*sampler[1])
    if scale <= 0 or ratio <= 0:
        return None
    width, height = scale * math.sqrt(ratio), scale / math.sqrt(ratio)
    if width > 1 or height > 1:
        return None
    left, top = rng.uniform(0, 1 - width), rng.uniform(0, 1 - height)
    return left, top, left + width, top + height


def _accepted(region, boxes, sampler, emit):
    """The boxes in a region, in its coordinates; None: the region does not meet the limits."""
    import numpy
    left, top, right, bottom = region
    x = numpy.clip(boxes[:, [1, 3]], left, right)
    y = numpy.clip(boxes[:, [2, 4]], top, bottom)
    common = (x[:, 1] - x[:, 0]) * (y[:, 1] - y[:, 0])
    areas = numpy.maximum((boxes[:, 3] - boxes[:, 1]) * (boxes[:, 4] - boxes[:, 2]), 1e-12)
    area = (right - left) * (bottom - top)
    fractions = (common / (areas + area - common), common / area, common / areas)
    for (least, most), values in zip(sampler[2:5], fractions):
        if (least > 0 or most < 1) and not ((values >= least) & (values <= most)).any():
            return None
    if emit[0] == "center":
        across, down = (boxes[:, 1] + boxes[:, 3]) / 2, (boxes[:, 2] + boxes[:, 4]) / 2
        kept = (across > left) & (across < right) & (down > top) & (down < bottom)
    else:
        kept = common / areas > emit[1]
    inside = boxes[kept].copy()
    inside[:, [1, 3]] = (x[kept] - left) / (right - left)
    inside[:, [2, 4]] = (y[kept] - top) / (bottom - top)
    return inside
