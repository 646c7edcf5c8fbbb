"""Operators whose names start with an underscore: for the package itself."""
from . import _register
from .cached_op import CachedOp  # noqa: F401

globals().update(_register.internal())


def _set_value(src, out):
    """Sets every element of out to the number src."""
    out[:] = src
    return out


def _onehot_encode(lhs, rhs, out=None):
    """One-hot rows of the indices lhs, as wide as rhs, written into out, or into rhs."""
    target = rhs if out is None else out
    target[:] = _register.OPERATORS["one_hot"](lhs, depth=rhs.shape[1], dtype=rhs.dtype)
    return target


def _cvimdecode(buf, flag=1, to_rgb=True, out=None):
    """The image in the bytes of a file, (height, width, channels)."""
    from ..image import imdecode
    return imdecode(buf, flag=flag, to_rgb=to_rgb, out=out)


def _cvimread(filename, flag=1, to_rgb=True, out=None):
    """The image of a file, (height, width, channels)."""
    from ..image import imread
    image = imread(filename, flag=flag, to_rgb=to_rgb)
    if out is not None:
        out[:] = image
    return image if out is None else out
