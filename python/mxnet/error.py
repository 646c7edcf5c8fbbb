"""Exceptions: one class per kind of error of the library.

Each is an MXNetError and also what a Python programmer would expect (a wrong shape is a ValueError, an index out of
range an IndexError ...), so that either can be caught.
"""
from . import _core


class MXNetError(RuntimeError):
    """Anything that the library refuses to do."""


class InternalError(MXNetError):
    """A broken promise inside the library: please report it."""


class ArgumentError(MXNetError, TypeError, ValueError, AssertionError):
    """A wrong kind of object, an unknown name, too many or too few arguments."""


class InputError(MXNetError, TypeError, AssertionError):
    """Something that is not an NDArray where an operator wants one."""


class ShapeError(MXNetError, ValueError):
    """Shapes that do not fit together."""


class DTypeError(MXNetError, TypeError):
    """Element types that do not fit together."""


class AttributeValueError(MXNetError, ValueError, TypeError):
    """An operator's attribute that is missing, unknown or out of range."""


class OutOfRangeError(MXNetError, IndexError):
    """An index outside its axis."""


class DeviceError(MXNetError, ValueError):
    """A device that is wrong or absent."""


class OutOfMemoryError(MXNetError, MemoryError):
    """Memory that could not be had."""


class FileError(MXNetError, OSError):
    """A file that is absent, unreadable, truncated or not what it claims to be."""


class AutogradError(MXNetError):
    """Backward without a recorded graph, a write into a recorded array ..."""


class ParameterError(MXNetError):
    """A parameter that is not initialized, or not on that context."""


class DeferredInitializationError(MXNetError):
    """A parameter whose shape is not known before the first forward."""


class StateError(MXNetError):
    """An object that is not in a state that allows the call."""


class UnsupportedError(MXNetError, NotImplementedError):
    """A legal request that this build or device cannot serve."""


class CallbackError(MXNetError):
    """A function of the user's that reported failure."""


def register_error(func_name=None, cls=None):
    """Kept for programs that register classes of their own: the class is returned as it is."""
    if callable(func_name):
        return func_name
    return cls if cls is not None else (lambda klass: klass)


register = register_error

_core.set_error_types({
    "wrong argument": ArgumentError,
    "wrong shape": ShapeError,
    "wrong type": DTypeError,
    "wrong attribute": AttributeValueError,
    "wrong index": OutOfRangeError,
    "wrong device": DeviceError,
    "out of memory": OutOfMemoryError,
    "file error": FileError,
    "autograd error": AutogradError,
    "parameter error": ParameterError,
    "deferred shape": DeferredInitializationError,
    "wrong state": StateError,
    "unsupported": UnsupportedError,
    "callback failed": CallbackError,
})
