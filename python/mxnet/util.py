"""Small helpers: environment variables, folders, and the switches of the NumPy interface.

The interface mx.np is not supported, so its switches are always off: they can be read, switching on is an error.
Functions decorated with use_np work unchanged.
"""
import functools
import os

from . import _core
from .error import DeviceError, UnsupportedError

__all__ = ["getenv", "setenv", "get_gpu_count", "get_gpu_memory", "get_cuda_compute_capability", "is_np_array",
           "is_np_shape", "is_np_default_dtype", "np_array", "np_shape", "set_np", "reset_np", "set_np_shape", "use_np",
           "use_np_array", "use_np_shape", "makedirs", "set_module"]


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
    """Whether 0 in a shape means an empty axis everywhere: no, it means an unknown size."""
    return False


def is_np_default_dtype():
    """Whether the default type is float64: it is float32."""
    return False


def _refuse(who, active):
    if active:
        raise UnsupportedError(f"{who}: the interface mx.np is not supported; use mx.nd")
    return False


def set_np(shape=True, array=True, dtype=False):
    """Raises an error unless it switches everything off."""
    _refuse("set_np", shape or array or dtype)


def reset_np():
    """Switches the NumPy interface off, as it always is."""


def set_np_shape(active):
    """Returns the previous state; switching on is an error."""
    return _refuse("set_np_shape", active)


class _Off:
    """A `with` block that changes nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        pass


def np_shape(active=True):
    """A `with` block with NumPy's meaning of shapes; switching on is an error."""
    _refuse("np_shape", active)
    return _Off()


def np_array(active=True):
    """A `with` block in which arrays are those of mx.np; switching on is an error."""
    _refuse("np_array", active)
    return _Off()


def use_np_shape(func):
    """Decorator: returns the function or class unchanged."""
    return func


use_np_array = use_np = use_np_shape


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
