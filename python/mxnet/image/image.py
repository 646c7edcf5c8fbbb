"""Reading images, their sizes and crops.

Values of interp: 0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos, 9 chosen by the sizes, 10 random.  Random choices use
Python's module random, as in MXNet: random.seed() makes them repeatable.
"""
import random

from .. import _core
from .. import ndarray as nd
from .._core import NDArray

__all__ = ["imread", "imdecode", "imresize", "scale_down", "resize_short", "fixed_crop", "random_crop", "center_crop",
           "color_normalize", "random_size_crop", "copyMakeBorder", "imrotate", "random_rotate"]


def _into(image, out):
    if out is None:
        return image
    out[:] = image
    return out


def imread(filename, flag=1, to_rgb=True, out=None):
    """The image in a JPEG, PNG, PGM or PPM file, uint8 (H, W, C). flag: 1 colour, 0 gray, -1 as stored; to_rgb:
    channels in the order red, green, blue, else blue, green, red."""
    return _into(_core.imread(filename, flag, to_rgb), out)


def imdecode(buf, flag=1, to_rgb=True, out=None):
    """The image in the bytes of such a file: bytes, bytearray, or an array of uint8."""
    if isinstance(buf, str) or not (isinstance(buf, NDArray) or _is_bytes(buf)):
        raise ValueError(f"imdecode: buf must be the bytes of an image file (bytes, bytearray or an array of "
                         f"uint8), got "
                         f"{type(buf).__name__}; a file is read by imread")
    return _into(_core.imdecode(buf, flag, to_rgb), out)


def _is_bytes(buf):
    try:
        memoryview(buf)
    except TypeError:
        return False
    return True


def _interp(interp, src, w, h):
    return _core.image_interp(interp, src.shape[-3], src.shape[-2], h, w)


def _get_interp_method(interp, sizes=()):
    """The method for a change of size, sizes = (height, width, new height, new width): 9 and 10 choose one of 0..4."""
    if interp == 9 and not sizes:
        return 2
    if interp == 10:
        return random.randint(0, 4)
    if sizes and len(sizes) != 4:
        raise AssertionError(f"_get_interp_method: sizes must be four numbers, got {sizes!r}")
    if interp not in (0, 1, 2, 3, 4, 9):
        raise ValueError(f"_get_interp_method: interp is {interp}, expected 0 to 4, 9 or 10")
    return _core.image_interp(interp, *sizes) if sizes else interp


def imresize(src, w, h, interp=1, out=None):
    """The image resized to another size."""
    return nd._internal._cvimresize(src, w=w, h=h, interp=_interp(interp, src, w, h), out=out)


def scale_down(src_size, size):
    """(w, h) of the largest crop of this shape that fits into an image of size src_size; sizes are (w, h)."""
    return _core.scale_down(int(src_size[0]), int(src_size[1]), int(size[0]), int(size[1]))


def copyMakeBorder(src, top, bot, left, right, type=0, value=0.0, values=(), out=None):  # noqa: A002
    """The image with a border. type: 0 filled with value (or values, one per channel), 1 the edge repeated, 2
    reflected with the edge, 3 wrapped around, 4 reflected without it."""
    return nd._internal._cvcopyMakeBorder(src, top=top, bot=bot, left=left, right=right, type=type, value=value,
                                          values=values, out=out)


def resize_short(src, size, interp=2):
    """The image resized so that its shorter side has this size."""
    return _core.resize_short(src, size, interp)


def fixed_crop(src, x0, y0, w, h, size=None, interp=2):
    """The region of the image that starts at (x0, y0), resized to size (w, h) if that differs."""
    width, height = size if size is not None else (0, 0)
    return _core.fixed_crop(src, int(x0), int(y0), int(w), int(h), int(width), int(height), interp)


def _crop(src, region, size, interp):
    return fixed_crop(src, *region, size, interp), region


def random_crop(src, size, interp=2):
    """(crop, (x0, y0, w, h)) of size (w, h) at a random position; smaller images are enlarged."""
    return _crop(src, _core.crop_region(src.shape[1], src.shape[0], *map(int, size), random), size, interp)


def center_crop(src, size, interp=2):
    """(crop, (x0, y0, w, h)) of size (w, h) from the centre; smaller images are enlarged."""
    return _crop(src, _core.crop_region(src.shape[1], src.shape[0], *map(int, size), None), size, interp)


def random_size_crop(src, size, area, ratio, interp=2, **kwargs):
    """(crop, (x0, y0, w, h)) of a random region of the area (minimum, or (minimum, maximum) share) with a random ratio of
    width to height between ratio[0] and ratio[1], resized to size (w, h)."""
    if "min_area" in kwargs:
        area = kwargs.pop("min_area")
    if kwargs:
        raise TypeError(f"random_size_crop: unexpected keyword {next(iter(kwargs))!r}")
    area = tuple(area) if isinstance(area, (list, tuple)) else (area, 1.0)
    region = _core.random_part(src.shape[1], src.shape[0], area, tuple(ratio), True, 10, random)
    return center_crop(src, size, interp) if region is None else _crop(src, region, size, interp)


def color_normalize(src, mean, std=None):
    """(src - mean) / std."""
    if mean is not None:
        src = src - mean
    return src if std is None else src / std


def imrotate(src, rotation_degrees, zoom_in=False, zoom_out=False):
    """float32 images (C, H, W) or (N, C, H, W) rotated around their centre, by one angle or by one per image. zoom_in:
    no border is visible; zoom_out: the entire image is visible."""
    if zoom_in and zoom_out:
        raise ValueError("imrotate: zoom_in and zoom_out exclude each other")
    if _core.dtype_name(src.dtype) != "float32":
        raise TypeError(f"imrotate: the image is {_core.dtype_name(src.dtype)}, expected float32 (C, H, W)")
    if src.ndim not in (3, 4):
        raise ValueError(f"imrotate: the image has shape {src.shape}, expected (C, H, W) or (N, C, H, W)")
    if not isinstance(rotation_degrees, (int, float)):
        degrees = rotation_degrees if isinstance(rotation_degrees, NDArray) else nd.array(rotation_degrees)
        if src.ndim == 3:
            raise TypeError("imrotate: one image needs one angle, got an array of angles")
        if len(degrees) != src.shape[0]:
            raise ValueError(f"imrotate: {len(degrees)} angles for {src.shape[0]} images")
    else:
        degrees = nd.array([rotation_degrees])
    return nd._internal._image_rotate(src, degrees.as_in_context(src.context), zoom_in=zoom_in, zoom_out=zoom_out)


def random_rotate(src, angle_limits, zoom_in=False, zoom_out=False):
    """imrotate by random angles between the two limits, one per image."""
    least, most = angle_limits
    if least >= most:
        raise ValueError(f"random_rotate: angle_limits are {angle_limits}, expected the smaller one first")
    if src.ndim == 3:
        return imrotate(src, random.uniform(least, most), zoom_in, zoom_out)
    return imrotate(src, nd.array([random.uniform(least, most) for _ in range(src.shape[0])]), zoom_in, zoom_out)
