"""Small helpers: environment variables, folders, and the switches of the NumPy interface.

The interface mx.np is not supported, so its switches are always off: they can be read, switching on is an error.
Functions decorated with use_np work unchanged.
"""
import functools
import os
import threading
import types

from . import _core
from .error import DeviceError, UnsupportedError

__all__ = ["getenv", "setenv", "set_check", "is_check", "get_gpu_count", "get_gpu_memory",
           "get_cuda_compute_capability", "is_np_array", "is_np_shape", "is_np_default_dtype", "np_array", "np_shape",
           "set_np", "reset_np", "set_np_shape", "use_np", "use_np_array", "use_np_shape", "makedirs", "set_module"]


def makedirs(d):
    """Creates a folder and its parents; fine if it exists."""
    os.makedirs(os.path.expanduser(d), exist_ok=True)


def getenv(name):
    """Value of an environment variable, None if it is not set."""
    return os.environ.get(name)


def setenv(name, value):
    """Sets an environment variable; None removes it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = str(value)


def set_check(active=True):
    """Switches checking mode, as MXNET_CHECK=1 does when the program starts; returns whether it was on.

    In checking mode these are errors, where they happen: NaN or infinity that an operator makes from finite inputs,
    indices and labels out of range, integers that are divided with a remainder (an image / 255), and a step of a Trainer
    whose gradients are all stale.  Errors name the block.  Hybridized blocks run operator by operator, and everything
    waits for its results: it is slow, and for finding mistakes.
    """
    return _core.set_check(bool(active))


def is_check():
    """Whether checking mode is on."""
    return _core.get_check()


def get_gpu_count():
    """The number of GPUs that this process can use."""
    return _core.num_gpus()


def get_gpu_memory(gpu_dev_id):
    """(free, total) bytes of a GPU."""
    from .context import gpu_memory_info
    return gpu_memory_info(gpu_dev_id)


def get_cuda_compute_capability(ctx):
    """The compute capability of a GPU, 90 for Hopper; an error if there is none."""
    raise DeviceError(f"get_cuda_compute_capability: there is no {ctx}; this machine has {get_gpu_count()} GPUs")


# ---- the NumPy interface: off --------------------------------------------------------------------------------------

def is_np_array():
    """Whether arrays are those of mx.np: never."""
    return False


def is_np_shape():
    """Whether () is a scalar and 0 an empty axis everywhere; else 0 means an unknown size in symbols and parameters."""
    return _core.is_np_shape()


def is_np_default_dtype():
    """Whether the default type is float64: it is float32."""
    return False


def _refuse(who, active):
    if active:
        raise UnsupportedError(f"{who}: the interface mx.np is not supported; use mx.nd")
    return False


def set_np(shape=True, array=True, dtype=False):
    """Sets NumPy's meaning of shapes; arrays of mx.np and its types are an error."""
    _refuse("set_np", array or dtype)
    set_np_shape(shape)


def reset_np():
    """Switches NumPy's meaning of shapes off."""
    set_np_shape(False)


def set_np_shape(active):
    """Sets NumPy's meaning of shapes for this thread (see is_np_shape); returns the previous state."""
    return _core.set_np_shape(active)


class _ShapeScope:
    """A `with` block with NumPy's meaning of shapes, or without it."""

    def __init__(self, active):
        self._active, self._before = active, []

    def __enter__(self):
        self._before.append(set_np_shape(self._active))
        return self

    def __exit__(self, *unused):
        set_np_shape(self._before.pop())


class _Off:
    """A `with` block that changes nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        pass


def np_shape(active=True):
    """A `with` block with NumPy's meaning of shapes; np_shape(False) is one without it."""
    return _ShapeScope(active)


def np_array(active=True):
    """A `with` block in which arrays are those of mx.np; switching on is an error."""
    return _NumpyArrayScope(active)


def use_np_shape(func):
    """Decorator of a function, or of a class and all its methods: they run with NumPy's meaning of shapes."""
    if isinstance(func, type):
        for name, member in list(vars(func).items()):
            if isinstance(member, types.FunctionType):
                setattr(func, name, use_np_shape(member))
            elif isinstance(member, (staticmethod, classmethod)):
                setattr(func, name, type(member)(use_np_shape(member.__func__)))
            elif isinstance(member, property):
                parts = [part and use_np_shape(part) for part in (member.fget, member.fset, member.fdel)]
                setattr(func, name, property(*parts, member.__doc__))
        return func
    if not callable(func):
        raise TypeError(f"use_np_shape: expected a function or a class, got {type(func).__name__}")

    @functools.wraps(func)
    def call(*args, **kwargs):
        with np_shape(True):
            return func(*args, **kwargs)
    return call


def use_np_array(func):
    """Decorator: returns the function or class unchanged, since arrays are those of mx.nd."""
    return func


use_np = use_np_shape


def set_module(module):
    """Decorator that sets the __module__ of a function."""
    def decorate(func):
        if module is not None:
            func.__module__ = module
        return func
    return decorate


def np_ufunc_legal_option(key, value):
    """Whether a keyword of NumPy's functions has a valid value."""
    if key == "where":
        return True
    legal = {"casting": ("no", "equiv", "safe", "same_kind", "unsafe"), "order": tuple("CFAK"), "subok": (True, False)}
    return value in legal.get(key, ()) or key == "dtype"


def wrap_np_unary_func(func):
    """Decorator that checks NumPy's keywords before calling func(x, out=None)."""
    @functools.wraps(func)
    def call(x, out=None, **kwargs):
        _check_options(func, kwargs)
        return func(x, out=out)
    return call


def wrap_np_binary_func(func):
    """Decorator that checks NumPy's keywords before calling func(x1, x2, out=None)."""
    @functools.wraps(func)
    def call(x1, x2, out=None, **kwargs):
        _check_options(func, kwargs)
        return func(x1, x2, out=out)
    return call


def _check_options(func, options):
    for key, value in options.items():
        if not np_ufunc_legal_option(key, value):
            raise TypeError(f"{func.__name__}: {key}={value!r} is not supported")


class _NumpyArrayScope:
    """`with _NumpyArrayScope(False):` arrays are those of mx.nd, as they always are."""

    _current = threading.local()  # .value: the innermost scope of this thread

    def __init__(self, is_np_array):
        _refuse("np_array", is_np_array)
        self._old_scope, self._is_np_array = None, bool(is_np_array)

    def __enter__(self):
        self._old_scope = getattr(_NumpyArrayScope._current, "value", None) or _NumpyArrayScope(False)
        _NumpyArrayScope._current.value = self
        return self

    def __exit__(self, *unused):
        _NumpyArrayScope._current.value = self._old_scope


_NumpyArrayScope._current.value = _NumpyArrayScope(False)
