"""Augmenters: callables that change an image (H, W, C).  Random ones draw from Python's module random."""
import json
import math
import random

from .. import ndarray as nd
from .._core import NDArray
from .image import (center_crop, color_normalize, imresize, random_crop, random_size_crop, resize_short)

__all__ = ["Augmenter", "SequentialAug", "RandomOrderAug", "ResizeAug", "ForceResizeAug", "RandomCropAug",
           "RandomSizedCropAug", "CenterCropAug", "BrightnessJitterAug", "ContrastJitterAug", "SaturationJitterAug",
           "HueJitterAug", "ColorJitterAug", "LightingAug", "ColorNormalizeAug", "RandomGrayAug", "HorizontalFlipAug",
           "CastAug", "CreateAugmenter"]

_GRAY = [0.299, 0.587, 0.114]  # how bright red, green and blue look
# Colours as brightness and two differences, and back: turning the differences turns the hue.
_TO_YIQ = [[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]]
_FROM_YIQ = [[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]]


def _gray(src):
    """(H, W, 1)"""
    return nd.sum(src * nd.array(_GRAY, ctx=src.context), axis=2, keepdims=True)


def brightened(src, alpha):
    """alpha * src"""
    return src * alpha


def contrasted(src, alpha):
    """alpha * src + (1 - alpha) * mean of its brightness"""
    return src * alpha + nd.sum(_gray(src)) * ((1.0 - alpha) / (src.shape[0] * src.shape[1]))


def saturated(src, alpha):
    """alpha * src + (1 - alpha) * src in gray"""
    return src * alpha + _gray(src) * (1.0 - alpha)


def lighted(src, alpha, eigval, eigvec):
    """src + eigvec (alpha * eigval)"""
    import numpy
    return src + nd.array(numpy.dot(numpy.asarray(eigvec) * alpha, eigval), ctx=src.context)


def _plain(value):
    """Arrays as lists, for JSON."""
    if isinstance(value, NDArray):
        value = value.asnumpy()
    return value.tolist() if hasattr(value, "tolist") else value


class Augmenter:
    """Base of augmenters: subclasses have __call__(image); keywords of __init__ are what dumps() shows."""

    def __init__(self, **kwargs):
        self._kwargs = {key: _plain(value) for key, value in kwargs.items()}

    def dumps(self):
        """Name and arguments as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src):
        raise NotImplementedError(f"{type(self).__name__} has no __call__")


class _ListAug(Augmenter):
    def __init__(self, ts):
        super().__init__()
        self.ts = ts

    def dumps(self):
        """Name and the augmenters in it."""
        return [type(self).__name__.lower(), [t.dumps() for t in self.ts]]


class SequentialAug(_ListAug):
    """Augmenters one after the other."""

    def __call__(self, src):
        for aug in self.ts:
            src = aug(src)
        return src


class RandomOrderAug(_ListAug):
    """Augmenters in random order."""

    def __call__(self, src):
        random.shuffle(self.ts)
        for aug in self.ts:
            src = aug(src)
        return src


class ResizeAug(Augmenter):
    """The shorter side gets this size."""

    def __init__(self, size, interp=2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src):
        return resize_short(src, self.size, self.interp)


class ForceResizeAug(Augmenter):
    """Resized to (w, h), whatever the shape was."""

    def __init__(self, size, interp=2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src):
        return imresize(src, self.size[0], self.size[1], self.interp)


class RandomCropAug(Augmenter):
    """A crop of (w, h) at a random place."""

    def __init__(self, size, interp=2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src):
        return random_crop(src, self.size, self.interp)[0]


class RandomSizedCropAug(Augmenter):
    """A random part of random shape, resized to (w, h)."""

    def __init__(self, size, area, ratio, interp=2, **kwargs):
        area = kwargs.pop("min_area", area)
        if kwargs:
            raise TypeError(f"RandomSizedCropAug: unexpected keyword {next(iter(kwargs))!r}")
        super().__init__(size=size, area=area, ratio=ratio, interp=interp)
        self.size, self.area, self.ratio, self.interp = size, area, ratio, interp

    def __call__(self, src):
        return random_size_crop(src, self.size, self.area, self.ratio, self.interp)[0]


class CenterCropAug(Augmenter):
    """A crop of (w, h) from the middle."""

    def __init__(self, size, interp=2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src):
        return center_crop(src, self.size, self.interp)[0]


class BrightnessJitterAug(Augmenter):
    """Times 1 - brightness to 1 + brightness."""

    def __init__(self, brightness):
        super().__init__(brightness=brightness)
        self.brightness = brightness

    def __call__(self, src):
        return brightened(src, 1.0 + random.uniform(-self.brightness, self.brightness))


class ContrastJitterAug(Augmenter):
    """Nearer to or further from the mean brightness."""

    def __init__(self, contrast):
        super().__init__(contrast=contrast)
        self.contrast = contrast

    def __call__(self, src):
        return contrasted(src, 1.0 + random.uniform(-self.contrast, self.contrast))


class SaturationJitterAug(Augmenter):
    """Nearer to or further from gray."""

    def __init__(self, saturation):
        super().__init__(saturation=saturation)
        self.saturation = saturation

    def __call__(self, src):
        return saturated(src, 1.0 + random.uniform(-self.saturation, self.saturation))


class HueJitterAug(Augmenter):
    """Hues turned by up to half a round times hue."""

    def __init__(self, hue):
        super().__init__(hue=hue)
        self.hue = hue

    def __call__(self, src):
        import numpy
        alpha = random.uniform(-self.hue, self.hue)
        u, w = math.cos(alpha * math.pi), math.sin(alpha * math.pi)
        turn = numpy.array([[1.0, 0.0, 0.0], [0.0, u, -w], [0.0, w, u]])
        return nd.dot(src, nd.array((numpy.array(_FROM_YIQ) @ turn @ numpy.array(_TO_YIQ)).T, ctx=src.context))


class ColorJitterAug(RandomOrderAug):
    """Brightness, contrast and saturation in random order."""

    def __init__(self, brightness, contrast, saturation):
        kinds = [(BrightnessJitterAug, brightness), (ContrastJitterAug, contrast), (SaturationJitterAug, saturation)]
        super().__init__([kind(amount) for kind, amount in kinds if amount > 0])


class LightingAug(Augmenter):
    """Colours shifted along the directions in which those of photographs vary; draws from numpy.random."""

    def __init__(self, alphastd, eigval, eigvec):
        super().__init__(alphastd=alphastd, eigval=eigval, eigvec=eigvec)
        self.alphastd, self.eigval, self.eigvec = alphastd, eigval, eigvec

    def __call__(self, src):
        import numpy
        alpha = numpy.random.normal(0, self.alphastd, size=(3,))
        return lighted(src, alpha, self.eigval, self.eigvec)


class ColorNormalizeAug(Augmenter):
    """(image - mean) / std."""

    def __init__(self, mean, std):
        super().__init__(mean=mean, std=std)
        self.mean, self.std = _array_or_none(mean), _array_or_none(std)

    def __call__(self, src):
        mean, std = [x if x is None else x.as_in_context(src.context) for x in (self.mean, self.std)]
        return color_normalize(src, mean, std)


def _array_or_none(x):
    return x if x is None or isinstance(x, NDArray) else nd.array(x)


class RandomGrayAug(Augmenter):
    """Gray, in three channels, with probability p."""

    def __init__(self, p):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src):
        if random.random() < self.p:
            src = nd.dot(src.astype("float32"), nd.array([[0.21] * 3, [0.72] * 3, [0.07] * 3], ctx=src.context)) \
                .astype(src.dtype)
        return src


class HorizontalFlipAug(Augmenter):
    """Columns in reverse order with probability p."""

    def __init__(self, p):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src):
        return nd.flip(src, axis=1) if random.random() < self.p else src


class CastAug(Augmenter):
    """Another element type."""

    def __init__(self, typ="float32"):
        super().__init__(type=typ)
        self.typ = typ

    def __call__(self, src):
        return src.astype(self.typ)


# Directions and sizes of the variation of colours, and means, of photographs (ImageNet).
_EIGVAL = [55.46, 4.794, 1.148]
_EIGVEC = [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
_MEAN, _STD = [123.68, 116.28, 103.53], [58.395, 57.12, 57.375]


def normalization(mean, std, who):
    """The augmenter for these; True means those of photographs, None none."""
    import numpy
    given = [_MEAN if mean is True else mean, _STD if std is True else std]
    for i, (name, value) in enumerate(zip(("mean", "std"), given)):
        if value is None or value is False:
            given[i] = None
            continue
        given[i] = value.asnumpy() if isinstance(value, NDArray) else numpy.array(value, dtype="float32")
        if given[i].shape not in ((1,), (3,)):
            raise AssertionError(f"{who}: {name} has shape {given[i].shape}, wanted one number or three")
    return [] if given[0] is None and given[1] is None else [ColorNormalizeAug(*given)]


def colour_augmenters(brightness, contrast, saturation, hue, pca_noise, rand_gray):
    """Those that are asked for, in order."""
    import numpy
    made = []
    if brightness or contrast or saturation:
        made.append(ColorJitterAug(brightness, contrast, saturation))
    if hue:
        made.append(HueJitterAug(hue))
    if pca_noise > 0:
        made.append(LightingAug(pca_noise, numpy.array(_EIGVAL), numpy.array(_EIGVEC)))
    if rand_gray > 0:
        made.append(RandomGrayAug(rand_gray))
    return made


def CreateAugmenter(data_shape, resize=0, rand_crop=False, rand_resize=False, rand_mirror=False, mean=None, std=None,
                    brightness=0, contrast=0, saturation=0, hue=0, pca_noise=0, rand_gray=0, inter_method=2):
    """The usual augmenters for images of data_shape (C, H, W), as a list."""
    size = (data_shape[2], data_shape[1])
    augmenters = [ResizeAug(resize, inter_method)] if resize > 0 else []
    if rand_resize:
        if not rand_crop:
            raise AssertionError("CreateAugmenter: rand_resize needs rand_crop=True")
        augmenters.append(RandomSizedCropAug(size, 0.08, (3.0 / 4.0, 4.0 / 3.0), inter_method))
    else:
        augmenters.append((RandomCropAug if rand_crop else CenterCropAug)(size, inter_method))
    if rand_mirror:
        augmenters.append(HorizontalFlipAug(0.5))
    augmenters.append(CastAug())
    augmenters += colour_augmenters(brightness, contrast, saturation, hue, pca_noise, rand_gray)
    return augmenters + normalization(mean, std, "CreateAugmenter")
