"""Images with boxes: augmenters that change both, and an iterator.

A label is a NumPy array (objects, 5 or more): class, left, top, right, bottom, ...; coordinates are fractions of width
and height.
"""
import json
import random

from .. import _core
from .. import ndarray as nd
from ..context import cpu
from .augment import Augmenter, ForceResizeAug, ResizeAug, _plain, colour_makers, normalization
from .image import copyMakeBorder, fixed_crop
from .iterator import ImageIter

__all__ = ["DetAugmenter", "DetBorrowAug", "DetRandomSelectAug", "DetHorizontalFlipAug", "DetRandomCropAug",
           "DetRandomPadAug", "CreateMultiRandCropAugmenter", "CreateDetAugmenter", "ImageDetIter"]


class DetAugmenter:
    """Base of these augmenters: subclasses have __call__(image, label) -> (image, label)."""

    def __init__(self, **kwargs):
        self._kwargs = {key: _plain(value) for key, value in kwargs.items()}

    def dumps(self):
        """Name and arguments as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src, label):
        raise NotImplementedError(f"{type(self).__name__} has no __call__")


class DetBorrowAug(DetAugmenter):
    """An image augmenter that leaves boxes unchanged."""

    def __init__(self, augmenter):
        if not isinstance(augmenter, Augmenter):
            raise TypeError(f"DetBorrowAug: expected an Augmenter, got {type(augmenter).__name__}")
        super().__init__()
        self.augmenter = augmenter

    def dumps(self):
        """Name and the augmenter in it."""
        return [type(self).__name__.lower(), self.augmenter.dumps()]

    def __call__(self, src, label):
        return self.augmenter(src), label


class DetRandomSelectAug(DetAugmenter):
    """One of several augmenters, or none with probability skip_prob."""

    def __init__(self, aug_list, skip_prob=0):
        super().__init__(skip_prob=skip_prob)
        self.aug_list = list(aug_list) if isinstance(aug_list, (list, tuple)) else [aug_list]
        for aug in self.aug_list:
            if not isinstance(aug, DetAugmenter):
                raise ValueError(f"DetRandomSelectAug: expected DetAugmenters, got {type(aug).__name__}")
        self.skip_prob = skip_prob if self.aug_list else 1

    def dumps(self):
        """Name and the augmenters in it."""
        return [type(self).__name__.lower(), [aug.dumps() for aug in self.aug_list]]

    def __call__(self, src, label):
        if random.random() < self.skip_prob:
            return src, label
        return random.choice(self.aug_list)(src, label)


def _boxes(label):
    """A label in the library's format."""
    return nd.array(label, ctx=cpu(0), dtype="float64" if label.dtype == "float64" else "float32")


class DetHorizontalFlipAug(DetAugmenter):
    """Flips image and boxes horizontally with probability p."""

    def __init__(self, p):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src, label):
        if random.random() < self.p:
            src, label = nd.flip(src, axis=1), _core.boxes_flip(_boxes(label)).asnumpy()
        return src, label


def _range(value, name, who):
    low, high = value if isinstance(value, (list, tuple)) else (value, value)
    if not 0 <= low <= high:
        raise ValueError(f"{who}: {name} is {value}, expected (least, greatest)")
    return low, high


class DetRandomCropAug(DetAugmenter):
    """A random crop with area_range of the area and aspect_ratio_range of width to height, which covers at least
    min_object_covered of one object.  Objects of which less than min_eject_coverage is left are dropped.  After
    max_attempts without such a crop the image is unchanged."""

    def __init__(self, min_object_covered=0.1, aspect_ratio_range=(0.75, 1.33), area_range=(0.05, 1.0),
                 min_eject_coverage=0.3, max_attempts=50):
        super().__init__(min_object_covered=min_object_covered, aspect_ratio_range=aspect_ratio_range,
                         area_range=area_range, min_eject_coverage=min_eject_coverage, max_attempts=max_attempts)
        self.min_object_covered, self.min_eject_coverage = min_object_covered, min_eject_coverage
        self.aspect_ratio_range = _range(aspect_ratio_range, "aspect_ratio_range", "DetRandomCropAug")
        self.area_range = _range(area_range, "area_range", "DetRandomCropAug")
        self.max_attempts = max_attempts
        self.enabled = self.area_range[1] > 0

    def __call__(self, src, label):
        area = (self.area_range[0], min(1.0, self.area_range[1]))
        found = self.enabled and _core.boxes_crop(_boxes(label), src.shape[1], src.shape[0], self.min_object_covered,
                                                  self.min_eject_coverage, area, self.aspect_ratio_range,
                                                  self.max_attempts, random)
        return (fixed_crop(src, *found[1]), found[0].asnumpy()) if found else (src, label)


class DetRandomPadAug(DetAugmenter):
    """The image at a random position in a larger one: area_range times its area, aspect_ratio_range of width to height."""

    def __init__(self, aspect_ratio_range=(0.75, 1.33), area_range=(1.0, 3.0), max_attempts=50,
                 pad_val=(128, 128, 128)):
        super().__init__(aspect_ratio_range=aspect_ratio_range, area_range=area_range, max_attempts=max_attempts,
                         pad_val=pad_val)
        self.pad_val = pad_val if isinstance(pad_val, (list, tuple)) else (pad_val,) * 3
        self.aspect_ratio_range = _range(aspect_ratio_range, "aspect_ratio_range", "DetRandomPadAug")
        self.area_range = _range(area_range, "area_range", "DetRandomPadAug")
        self.max_attempts = max_attempts
        self.enabled = self.area_range[1] > 1.0

    def __call__(self, src, label):
        height, width = src.shape[:2]
        area = (max(1.0, self.area_range[0]), self.area_range[1])
        found = self.enabled and _core.boxes_pad(_boxes(label), width, height, area, self.aspect_ratio_range,
                                                 self.max_attempts, random)
        if not found:
            return src, label
        x, y, w, h = found[1]
        return copyMakeBorder(src, y, h - height - y, x, w - width - x, values=self.pad_val), found[0].asnumpy()


def CreateMultiRandCropAugmenter(min_object_covered=0.1, aspect_ratio_range=(0.75, 1.33), area_range=(0.05, 1.0),
                                 min_eject_coverage=0.3, max_attempts=50, skip_prob=0):
    """One of several random crops: arguments may be lists, one entry per crop."""
    def as_list(value):
        many = isinstance(value, list) or (isinstance(value, tuple) and value and isinstance(value[0], (list, tuple)))
        return list(value) if many else [value]

    given = [as_list(x) for x in (min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts)]
    count = max(map(len, given))
    if any(len(x) not in (1, count) for x in given):
        raise ValueError("CreateMultiRandCropAugmenter: the lists have different lengths: "
                         + ", ".join(str(len(x)) for x in given))
    crops = [DetRandomCropAug(*arguments) for arguments in zip(*[x * count if len(x) == 1 else x for x in given])]
    return DetRandomSelectAug(crops, skip_prob=skip_prob)


def CreateDetAugmenter(data_shape, resize=0, rand_crop=0, rand_pad=0, rand_gray=0, rand_mirror=False, mean=None,
                       std=None,
                       brightness=0, contrast=0, saturation=0, pca_noise=0, hue=0, inter_method=2,
                       min_object_covered=0.1,
                       aspect_ratio_range=(0.75, 1.33), area_range=(0.05, 3.0), min_eject_coverage=0.3, max_attempts=50,
                       pad_val=(127, 127, 127)):
    """The standard augmenters for images with boxes of data_shape (C, H, W), as a list; rand_crop and rand_pad are
    probabilities."""
    colours = (brightness, contrast, saturation, hue, pca_noise, rand_gray)
    normalize = normalization(mean, std, "CreateDetAugmenter")
    makers = {"DetRandomCropAug": lambda: CreateMultiRandCropAugmenter(
                  min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts, 1 - rand_crop),
              "DetHorizontalFlipAug": lambda: DetHorizontalFlipAug(0.5),
              "DetRandomPadAug": lambda: DetRandomSelectAug(
                  [DetRandomPadAug(aspect_ratio_range, (1.0, area_range[1]), max_attempts, pad_val)], 1 - rand_pad)}
    borrowed = {"ResizeAug": lambda: ResizeAug(resize, inter_method),
                "ForceResizeAug": lambda: ForceResizeAug((data_shape[2], data_shape[1]), inter_method),
                **colour_makers(*colours, normalize)}
    names = _core.augmenter_names(True, resize, rand_crop, False, rand_mirror, rand_pad, *colours,
                                  normalize is not None)
    return [makers[name]() if name in makers else DetBorrowAug(borrowed[name]()) for name in names]


class ImageDetIter(ImageIter):
    """Batches of images with boxes.  A label in the file is: length of its header, numbers per object, the rest of the
    header, then the objects (class, left, top, right, bottom, ...).  A batch of labels is (N, most objects, numbers per
    object), padded with -1."""

    def __init__(self, batch_size, data_shape, path_imgrec=None, path_imglist=None, path_root=None, path_imgidx=None,
                 shuffle=False, part_index=0, num_parts=1, aug_list=None, imglist=None, data_name="data",
                 label_name="label", last_batch_handle="pad", **kwargs):
        super().__init__(batch_size, data_shape, path_imgrec=path_imgrec, path_imglist=path_imglist,
                         path_root=path_root,
                         path_imgidx=path_imgidx, shuffle=shuffle, part_index=part_index, num_parts=num_parts,
                         aug_list=[],
                         imglist=imglist, data_name=data_name, label_name=label_name,
                         last_batch_handle=last_batch_handle)
        self.auglist = CreateDetAugmenter(data_shape, **kwargs) if aug_list is None else aug_list
        self.label_name = label_name
        self.label_shape = self._estimate_label_shape()
        self._describe()

    def _describe(self):
        self.provide_data = [(self.provide_data[0][0], (self.batch_size,) + self.data_shape)]
        self.provide_label = [(self.label_name, (self.batch_size,) + self.label_shape)]

    def _estimate_label_shape(self):
        """(most objects, numbers per object) over the entire file."""
        count, width = 0, 5
        self.reset()
        try:
            while True:
                label = self._parse_label(self.next_sample()[0])
                if label is not None:
                    count, width = max(count, label.shape[0]), label.shape[1]
        except StopIteration:
            self.reset()
        return count, width

    def _parse_label(self, label):
        """(objects, numbers per object); None if no box has an area."""
        import numpy
        raw = numpy.asarray(label.asnumpy() if hasattr(label, "asnumpy") else label, dtype="float32").ravel()
        objects = _core.boxes_parse(nd.array(raw, ctx=cpu(0)))
        return None if objects is None else objects.asnumpy()

    def _checked(self, label):
        objects = self._parse_label(label)
        if objects is None:
            raise RuntimeError("it has no box with an area")
        return objects

    def _finish(self, image, label):
        image, objects = self.augmentation_transform(image, label)
        if image.shape[:2] != self.data_shape[1:]:
            raise ValueError(f"ImageDetIter: an image has shape {image.shape} after the augmenters, data_shape is "
                             f"{self.data_shape}")
        return self.postprocess_data(image), objects

    def augmentation_transform(self, data, label):
        """Applies all augmenters to image and boxes."""
        for aug in self.auglist:
            data, label = aug(data, label)
        return data, label

    def _labels(self, labels):
        import numpy
        rows = numpy.full((len(labels),) + self.label_shape, -1, dtype="float32")
        for row, label in zip(rows, labels):
            n = min(len(label), self.label_shape[0])
            row[:n, :label.shape[1]] = label[:n]
        return nd.array(rows, ctx=cpu(0))

    def reshape(self, data_shape=None, label_shape=None):
        """Changes the shapes of data and labels."""
        if data_shape is not None:
            self.check_data_shape(data_shape)
            self.data_shape = tuple(data_shape)
        if label_shape is not None:
            self.check_label_shape(label_shape)
            self.label_shape = tuple(label_shape)
        self._describe()

    def check_label_shape(self, label_shape):
        """Checks that the shape has room for the current objects and numbers per object."""
        if len(label_shape) != 2:
            raise ValueError(f"ImageDetIter: label_shape is {tuple(label_shape)}, expected (objects, numbers per object)")
        if label_shape[0] < self.label_shape[0] or label_shape[1] != self.label_shape[1]:
            raise ValueError(f"ImageDetIter: label_shape {tuple(label_shape)} does not hold labels of "
                             f"{self.label_shape}")

    def sync_label_shape(self, it, verbose=False):
        """Sets this and another iterator to the larger of their label shapes."""
        if not isinstance(it, ImageDetIter):
            raise AssertionError(f"ImageDetIter.sync_label_shape: expected an ImageDetIter, got {type(it).__name__}")
        shape = tuple(max(a, b) for a, b in zip(self.label_shape, it.label_shape))
        for one in (self, it):
            if one.label_shape != shape:
                one.reshape(None, shape)
        return it

    def draw_next(self, color=None, thickness=2, mean=None, std=None, clip=True, waitKey=None, window_name="draw_next",
                  id2labels=None):
        """Yields images with their boxes drawn in, as uint8 NumPy arrays. waitKey is not supported: display them with the
        program of your choice."""
        if waitKey is not None:
            raise ValueError("ImageDetIter.draw_next: windows are not supported; display the images that it yields "
                             "yourself")
        import numpy
        while True:
            try:
                image, label = self._example()
            except StopIteration:
                return
            pixels = nd.transpose(image, axes=(1, 2, 0)).asnumpy().astype("float32")
            pixels = pixels * numpy.asarray(1 if std is None else std) + numpy.asarray(0 if mean is None else mean)
            pixels = numpy.clip(pixels, 0, 255).astype("uint8") if clip else pixels
            for box in label:
                _frame(pixels, box[1:5], thickness, color or [random.randint(0, 255) for _ in range(3)])
            yield pixels


def _frame(pixels, box, thickness, color):
    """Draws the edges of a box into the image."""
    height, width = pixels.shape[:2]
    x0, y0, x1, y1 = [int(round(float(v) * n)) for v, n in zip(box, (width, height, width, height))]
    for rows, columns in ((slice(y0, y0 + thickness), slice(x0, x1)),
                          (slice(max(0, y1 - thickness), y1), slice(x0, x1)),
                          (slice(y0, y1), slice(x0, x0 + thickness)),
                          (slice(y0, y1), slice(max(0, x1 - thickness), x1))):
        pixels[rows, columns] = color
