"""Augmenters: callables that change an image (H, W, C).  Random ones draw from Python's module random."""
import json
import random

from .. import _core
from .. import ndarray as nd
from .._core import NDArray
from .image import (center_crop, color_normalize, imresize, random_crop, random_size_crop, resize_short)

__all__ = ["Augmenter", "SequentialAug", "RandomOrderAug", "ResizeAug", "ForceResizeAug", "RandomCropAug",
           "RandomSizedCropAug", "CenterCropAug", "BrightnessJitterAug", "ContrastJitterAug", "SaturationJitterAug",
           "HueJitterAug", "ColorJitterAug", "LightingAug", "ColorNormalizeAug", "RandomGrayAug", "HorizontalFlipAug",
           "CastAug", "CreateAugmenter"]

def _plain(value):
    """Arrays as lists, for JSON."""
    if isinstance(value, NDArray):
        value = value.asnumpy()
    return value.tolist() if hasattr(value, "tolist") else value


class Augmenter:
    """Base of augmenters: subclasses have __call__(image); dumps() shows the keywords of __init__."""

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
    """Resizes the shorter side to this size."""

    def __init__(self, size, interp=2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src):
        return resize_short(src, self.size, self.interp)


class ForceResizeAug(Augmenter):
    """Resizes to (w, h), regardless of the aspect ratio."""

    def __init__(self, size, interp=2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src):
        return imresize(src, self.size[0], self.size[1], self.interp)


class RandomCropAug(Augmenter):
    """A crop of (w, h) at a random position."""

    def __init__(self, size, interp=2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src):
        return random_crop(src, self.size, self.interp)[0]


class RandomSizedCropAug(Augmenter):
    """A random region of random shape, resized to (w, h)."""

    def __init__(self, size, area, ratio, interp=2, **kwargs):
        area = kwargs.pop("min_area", area)
        if kwargs:
            raise TypeError(f"RandomSizedCropAug: unexpected keyword {next(iter(kwargs))!r}")
        super().__init__(size=size, area=area, ratio=ratio, interp=interp)
        self.size, self.area, self.ratio, self.interp = size, area, ratio, interp

    def __call__(self, src):
        return random_size_crop(src, self.size, self.area, self.ratio, self.interp)[0]


class CenterCropAug(Augmenter):
    """A crop of (w, h) from the centre."""

    def __init__(self, size, interp=2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src):
        return center_crop(src, self.size, self.interp)[0]


class BrightnessJitterAug(Augmenter):
    """Multiplies by a random factor from 1 - brightness to 1 + brightness."""

    def __init__(self, brightness):
        super().__init__(brightness=brightness)
        self.brightness = brightness

    def __call__(self, src):
        return _core.image_colour(src, "brightness", 1.0 + random.uniform(-self.brightness, self.brightness))


class ContrastJitterAug(Augmenter):
    """Moves values towards or away from the mean brightness, at random."""

    def __init__(self, contrast):
        super().__init__(contrast=contrast)
        self.contrast = contrast

    def __call__(self, src):
        return _core.image_colour(src, "contrast", 1.0 + random.uniform(-self.contrast, self.contrast))


class SaturationJitterAug(Augmenter):
    """Moves colours towards or away from gray, at random."""

    def __init__(self, saturation):
        super().__init__(saturation=saturation)
        self.saturation = saturation

    def __call__(self, src):
        return _core.image_colour(src, "saturation", 1.0 + random.uniform(-self.saturation, self.saturation))


class HueJitterAug(Augmenter):
    """Rotates hues by a random angle of up to 180 degrees times hue."""

    def __init__(self, hue):
        super().__init__(hue=hue)
        self.hue = hue

    def __call__(self, src):
        return _core.image_colour(src, "hue", random.uniform(-self.hue, self.hue))


class ColorJitterAug(RandomOrderAug):
    """Brightness, contrast and saturation in random order."""

    def __init__(self, brightness, contrast, saturation):
        kinds = [(BrightnessJitterAug, brightness), (ContrastJitterAug, contrast), (SaturationJitterAug, saturation)]
        super().__init__([kind(amount) for kind, amount in kinds if amount > 0])


class LightingAug(Augmenter):
    """Adds PCA noise: shifts colours along the principal components of photographs; draws from numpy.random."""

    def __init__(self, alphastd, eigval, eigvec):
        super().__init__(alphastd=alphastd, eigval=eigval, eigvec=eigvec)
        self.alphastd, self.eigval, self.eigvec = alphastd, eigval, eigvec

    def __call__(self, src):
        import numpy
        alpha = numpy.random.normal(0, self.alphastd, size=(3,))
        vectors = tuple(map(tuple, _plain(self.eigvec)))
        return _core.image_lighting(src, tuple(alpha), tuple(_plain(self.eigval)), vectors)


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
    """Converts to gray, in three channels, with probability p."""

    def __init__(self, p):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src):
        return _core.image_gray(src) if random.random() < self.p else src


class HorizontalFlipAug(Augmenter):
    """Flips the image horizontally with probability p."""

    def __init__(self, p):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src):
        return nd.flip(src, axis=1) if random.random() < self.p else src


class CastAug(Augmenter):
    """Converts to another element type."""

    def __init__(self, typ="float32"):
        super().__init__(type=typ)
        self.typ = typ

    def __call__(self, src):
        return src.astype(self.typ)


# Means, standard deviations, eigenvalues and eigenvectors of the colours of photographs.
_MEAN, _STD, _EIGVAL, _EIGVEC = _core.photograph_colours()


def normalization(mean, std, who):
    """The augmenter for mean and std; True: those of photographs, None: none."""
    import numpy
    given = [_MEAN if mean is True else mean, _STD if std is True else std]
    for i, (name, value) in enumerate(zip(("mean", "std"), given)):
        if value is None or value is False:
            given[i] = None
            continue
        given[i] = value.asnumpy() if isinstance(value, NDArray) else numpy.array(value, dtype="float32")
        if given[i].shape not in ((1,), (3,)):
            raise AssertionError(f"{who}: {name} has shape {given[i].shape}, expected one number or three")
    return None if given[0] is None and given[1] is None else ColorNormalizeAug(*given)


def colour_makers(brightness, contrast, saturation, hue, pca_noise, rand_gray, normalize):
    """Name -> factory of the colour augmenters."""
    import numpy
    return {"CastAug": CastAug, "ColorJitterAug": lambda: ColorJitterAug(brightness, contrast, saturation),
            "HueJitterAug": lambda: HueJitterAug(hue),
            "LightingAug": lambda: LightingAug(pca_noise, numpy.array(_EIGVAL), numpy.array(_EIGVEC)),
            "RandomGrayAug": lambda: RandomGrayAug(rand_gray), "ColorNormalizeAug": lambda: normalize}


def CreateAugmenter(data_shape, resize=0, rand_crop=False, rand_resize=False, rand_mirror=False, mean=None, std=None,
                    brightness=0, contrast=0, saturation=0, hue=0, pca_noise=0, rand_gray=0, inter_method=2):
    """The standard augmenters for images of data_shape (C, H, W), as a list."""
    if rand_resize and not rand_crop:
        raise AssertionError("CreateAugmenter: rand_resize needs rand_crop=True")
    size, colours = (data_shape[2], data_shape[1]), (brightness, contrast, saturation, hue, pca_noise, rand_gray)
    normalize = normalization(mean, std, "CreateAugmenter")
    makers = {"ResizeAug": lambda: ResizeAug(resize, inter_method),
              "RandomSizedCropAug": lambda: RandomSizedCropAug(size, 0.08, (3.0 / 4.0, 4.0 / 3.0), inter_method),
              "RandomCropAug": lambda: RandomCropAug(size, inter_method),
              "CenterCropAug": lambda: CenterCropAug(size, inter_method),
              "HorizontalFlipAug": lambda: HorizontalFlipAug(0.5), **colour_makers(*colours, normalize)}
    names = _core.augmenter_names(False, resize, rand_crop, rand_resize, rand_mirror, 0, *colours,
                                  normalize is not None)
    return [makers[name]() for name in names]
