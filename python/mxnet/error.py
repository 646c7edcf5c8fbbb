"""Exceptions: one class per kind of error of the library.

Each is an MXNetError and also what a Python programmer would expect (a wrong shape is a ValueError, an index out of
range an IndexError ...), so that either can be caught.
"""
from . import _core


class MXNetError(RuntimeError):
    """Anything that the library refuses to do."""


class InternalError(MXNetError):
    """A bug in the library: please report it."""


class ArgumentError(MXNetError, TypeError, ValueError, AssertionError):
    """A wrong kind of object, an unknown name, too many or too few arguments."""


class InputError(MXNetError, TypeError, AssertionError):
    """Something that is not an NDArray where an operator needs one."""


class ShapeError(MXNetError, ValueError):
    """Shapes that do not fit together."""


class DTypeError(MXNetError, TypeError):
    """Element types that do not fit together."""


class AttributeValueError(MXNetError, ValueError, TypeError):
    """An operator's attribute that is missing, unknown or out of range."""


class OutOfRangeError(MXNetError, IndexError):
    """An index outside its axis."""


class DeviceError(MXNetError, ValueError):
    """A device that is wrong or missing."""


class OutOfMemoryError(MXNetError, MemoryError):
    """Out of memory."""


class FileError(MXNetError, OSError):
    """A file that is missing, unreadable, truncated or of another format."""


class AutogradError(MXNetError):
    """Backward without a recorded graph, a write into a recorded array ..."""


class ParameterError(MXNetError):
    """A parameter that is not initialized, or not on that context."""


class DeferredInitializationError(MXNetError, ValueError):
    """A parameter whose shape is not known before the first forward."""


class StateError(MXNetError):
    """An object that is not in the right state for the call."""


class UnsupportedError(MXNetError, NotImplementedError):
    """A valid request that this build or device does not support."""


class CallbackError(MXNetError):
    """A user's function that failed."""


class CommunicationError(MXNetError, ConnectionError):
    """Another process failed, ended or does something else, or messages do not arrive."""


def register_error(func_name=None, cls=None):
    """For programs that register their own error classes: returns the class unchanged."""
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
    "communication failed": CommunicationError,
})
