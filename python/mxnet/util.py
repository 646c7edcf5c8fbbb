"""Small helpers: environment variables, folders, and the switches of the NumPy interface, which belong to a thread."""
import contextlib
import functools
import os
import threading
import time
import types

from . import _core
from .error import DeviceError

__all__ = ["getenv", "setenv", "set_check", "is_check", "get_limits", "set_limits", "time_limit", "get_gpu_count", "get_gpu_memory",
           "get_cuda_compute_capability", "is_np_array", "is_np_shape", "is_np_default_dtype", "np_array", "np_shape",
           "np_default_dtype", "set_np", "reset_np", "set_np_shape", "set_np_default_dtype", "use_np_default_dtype", "default_array", "use_np", "use_np_array", "use_np_shape", "makedirs", "set_module"]


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


def get_limits():
    """Limits on what a file may need, by name: see set_limits."""
    return _core.get_limits()


def set_limits(**limits):
    """Changes limits on what a file may need; returns those before.

    depth: levels of lists in JSON files; nodes: of a network in a symbol or ONNX file; pixels: of one image; memory: bytes of
    host memory that arrays take together, 0 for the memory of the machine.  A file that needs more is an error.
    """
    before = _core.get_limits()
    for name in limits:
        if name not in before:
            raise TypeError(f"set_limits: '{name}' is no limit; there are {', '.join(before)}")
    after = {**before, **limits}
    _core.set_limits(*(int(after[name]) for name in ("depth", "nodes", "pixels", "memory")))
    return before


@contextlib.contextmanager
def time_limit(seconds):
    """A `with` block in which this thread computes for so many seconds at most: then the operator or network that runs raises an
    MXNetError, and so does every later one in the block.  For models of strangers, which may ask for any amount of work.

    Inside of another such block the shorter limit counts; 0 adds no limit.
    """
    began = time.monotonic()
    before = _core.set_time_limit(0)
    try:
        _core.set_time_limit(min(seconds, before) if before and seconds else seconds or before)
        yield
    finally:
        _core.set_time_limit(max(before + began - time.monotonic(), 1e-9) if before else 0)


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


# ---- the NumPy interface -------------------------------------------------------------------------------------------

def is_np_array():
    """Whether blocks, parameters and loaders give arrays of mx.np."""
    return _core.is_np_array()


def is_np_shape():
    """Whether () is a scalar and 0 an empty axis everywhere; else 0 means an unknown size in symbols and parameters."""
    return _core.is_np_shape()


def is_np_default_dtype():
    """Whether the default type of floats is float64, as in NumPy; else it is float32."""
    return _core.is_np_default_dtype()


def set_np(shape=True, array=True, dtype=False):
    """Switches to NumPy's interface: its shapes, its arrays and, with `dtype`, its float64; for this thread."""
    if array and not shape:
        raise ValueError("set_np: arrays of mx.np need NumPy's shapes: array=True, shape=False is not possible")
    _core.set_np_shape(shape)
    _core.set_np_array(array)
    _core.set_np_default_dtype(dtype)


def np_switches():
    """The arguments of set_np() that give another thread the switches of this one."""
    return is_np_shape(), is_np_array(), is_np_default_dtype()


def reset_np():
    """Switches back to mx.nd."""
    set_np(shape=False, array=False, dtype=False)


def set_np_shape(active):
    """Sets NumPy's meaning of shapes for this thread (see is_np_shape); returns the previous state."""
    return _core.set_np_shape(active)


def set_np_default_dtype(is_np_default_dtype=True):
    """Sets whether floats are float64 by default; returns the previous state."""
    return _core.set_np_default_dtype(is_np_default_dtype)


class _Scope:
    """A `with` block with one of the switches on or off."""

    def __init__(self, switch, active):
        self._switch, self._active, self._before = switch, bool(active), []

    def __enter__(self):
        self._before.append(self._switch(self._active))
        return self

    def __exit__(self, *unused):
        self._switch(self._before.pop())


class _NumpyArrayScope(_Scope):
    """`with _NumpyArrayScope(True):` arrays are those of mx.np."""

    _current = threading.local()  # .value: the innermost scope of this thread

    def __init__(self, is_np_array):
        super().__init__(_core.set_np_array, is_np_array)
        self._old_scope, self._is_np_array = None, bool(is_np_array)

    def __enter__(self):
        self._old_scope = getattr(_NumpyArrayScope._current, "value", None) or _NumpyArrayScope(is_np_array())
        _NumpyArrayScope._current.value = self
        return super().__enter__()

    def __exit__(self, *unused):
        super().__exit__()
        _NumpyArrayScope._current.value = self._old_scope


_NumpyArrayScope._current.value = _NumpyArrayScope(False)


def np_shape(active=True):
    """A `with` block with NumPy's meaning of shapes; np_shape(False) is one without it."""
    return _Scope(_core.set_np_shape, active)


def np_array(active=True):
    """A `with` block in which arrays are those of mx.np."""
    return _NumpyArrayScope(active)


def np_default_dtype(active=True):
    """A `with` block in which floats are float64 by default."""
    return _Scope(_core.set_np_default_dtype, active)


def _decorate(func, scopes, who):
    """A function, or a class and all its methods, that runs inside of scopes."""
    if isinstance(func, type):
        for name, member in list(vars(func).items()):
            if isinstance(member, types.FunctionType):
                setattr(func, name, _decorate(member, scopes, who))
            elif isinstance(member, (staticmethod, classmethod)):
                setattr(func, name, type(member)(_decorate(member.__func__, scopes, who)))
            elif isinstance(member, property):
                parts = [part and _decorate(part, scopes, who) for part in (member.fget, member.fset, member.fdel)]
                setattr(func, name, property(*parts, member.__doc__))
        return func
    if not callable(func):
        raise TypeError(f"{who}: expected a function or a class, got {type(func).__name__}")

    @functools.wraps(func)
    def call(*args, **kwargs):
        with contextlib.ExitStack() as stack:
            for scope in scopes:
                stack.enter_context(scope())
            return func(*args, **kwargs)
    return call


def use_np_shape(func):
    """Decorator of a function, or of a class and all its methods: they run with NumPy's meaning of shapes."""
    return _decorate(func, (np_shape,), "use_np_shape")


def use_np_array(func):
    """Decorator of a function, or of a class and all its methods: they run with the arrays of mx.np."""
    return _decorate(func, (np_array,), "use_np_array")


def use_np(func):
    """Decorator of a function, or of a class and all its methods: they run with NumPy's shapes and arrays."""
    return _decorate(func, (np_shape, np_array), "use_np")


def use_np_default_dtype(func):
    """Decorator of a function, or of a class and all its methods: floats are float64 by default."""
    return _decorate(func, (np_default_dtype,), "use_np_default_dtype")


def default_array(source_array, ctx=None, dtype=None):
    """An array of mx.np if the switch is on, else one of mx.nd."""
    if is_np_array():
        from .numpy import array
        return array(source_array, dtype=dtype, ctx=ctx)
    from .ndarray import array
    return array(source_array, ctx=ctx, dtype=dtype)


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
