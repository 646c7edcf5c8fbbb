"""Operators from external libraries: not supported, raises an error."""
from .error import UnsupportedError

__all__ = ["load"]


def load(path, verbose=True):
    """Raises an error: libraries built for MXNet cannot be loaded."""
    raise UnsupportedError(f"library.load: '{path}' cannot be loaded: operator libraries are built for MXNet "
                           f"itself; mx.operator.CustomOp adds operators in Python, mx_custom_register in C")
