"""Operators from libraries of others: not here, and saying so is all this module does."""
from .error import UnsupportedError

__all__ = ["load"]


def load(path, verbose=True):
    """Refuses: libraries made for MXNet cannot be loaded."""
    raise UnsupportedError(f"library.load: '{path}' cannot be loaded: libraries of operators are made for MXNet "
                           f"itself; mx.operator.CustomOp adds operators in Python, mx_custom_register in C")
