"""Lists of images: .lst files."""
import os

from .. import _core
from ..error import FileError


def read_list(path):
    """(key, labels as a float32 NumPy array, path) of every line "number TAB label [TAB label ...] TAB path"."""
    import numpy
    os.stat(path)  # raises FileNotFoundError
    try:
        return [(key, numpy.array(labels, dtype="float32"), file) for key, labels, file in _core.image_list(path)]
    except FileError as error:
        raise ValueError(str(error)) from None
