"""Names shared by the package."""
from .error import MXNetError, register_error  # noqa: F401
from . import _core

__all__ = ["MXNetError"]

string_types = (str,)
real_type = (float, int)


class _NullType:
    """Means "not given" in signatures."""

    def __repr__(self):
        return "_Null"

    def __bool__(self):
        return False


_Null = _NullType()
_core.set_null(_Null)


class _Refused(MXNetError):
    """An operation that a kind of array does not support."""

    kind = "this kind of array"

    def __init__(self, function, alias=None, *args):
        super().__init__()
        self.function = getattr(function, "__name__", str(function))
        self.alias = alias
        self.args = args

    def __str__(self):
        advice = f" (use {self.alias})" if self.alias else ""
        return f"{self.function} is not supported for {self.kind}{advice}"


class NotImplementedForSymbol(_Refused):
    """An operation that only arrays with values support."""

    kind = "symbols: they have no values"


class NotSupportedForSparseNDArray(_Refused):
    """An operation that only dense arrays support."""

    kind = "sparse arrays"


def _numeric_types():
    import numpy
    return (float, int, numpy.generic)


def _integer_types():
    import numpy
    return (int, numpy.int32, numpy.int64)


def _bfloat16():
    import numpy
    return numpy.dtype([("bfloat16", numpy.uint16)])


def _real():
    import numpy
    return numpy.float32


def _library():
    import ctypes
    from .libinfo import find_lib_path
    library = ctypes.CDLL(find_lib_path()[0], ctypes.RTLD_LOCAL)
    library.MXGetLastError.restype = ctypes.c_char_p
    return library


# Created on demand: they need NumPy or ctypes, the package does not.
_LATER = {"integer_types": _integer_types, "numeric_types": _numeric_types, "bfloat16": _bfloat16, "mx_real_t": _real,
          "_LIB": _library}


def __getattr__(name):
    if name not in _LATER and not name.startswith("__"):
        from . import _handles
        if hasattr(_handles, name):
            return getattr(_handles, name)
    if name not in _LATER:
        raise AttributeError(f"module 'mxnet.base' has no attribute '{name}'")
    globals()[name] = value = _LATER[name]()
    return value


def check_call(ret):
    """Raises the error of a call of the C interface (_LIB) that returned another code than 0."""
    if ret:
        raise MXNetError(py_str(__getattr__("_LIB").MXGetLastError()))


def py_str(x):
    """Text of UTF-8 bytes; text stays as it is."""
    return x if isinstance(x, str) else x.decode("utf-8")


def c_str(string):
    """Text as a zero-terminated string of ctypes."""
    import ctypes
    return ctypes.c_char_p(string.encode("utf-8"))


def c_array(ctype, values):
    """A ctypes array of values."""
    return (ctype * len(values))(*values)


def c_array_buf(ctype, buf):
    """A ctypes array over a buffer."""
    return (ctype * len(buf)).from_buffer(buf)


def c_str_array(strings):
    """A ctypes array of texts."""
    import ctypes
    return c_array(ctypes.c_char_p, [s.encode("utf-8") for s in strings])


def with_metaclass(meta, *bases):
    """A base class whose metaclass is `meta`."""
    return meta("temporary_class", bases or (object,), {})


class classproperty:
    """A property of the class itself."""

    def __init__(self, fget):
        self.fget = fget

    def __get__(self, instance, owner):
        return self.fget(owner)


def data_dir_default():
    """The folder of data sets and models if MXNET_HOME is not set."""
    import os
    return os.path.join(os.path.expanduser("~"), ".mxnet")


def data_dir():
    """The folder of data sets and models: MXNET_HOME, or ~/.mxnet."""
    import os
    return os.environ.get("MXNET_HOME") or data_dir_default()


_OP_NAME_PREFIX_LIST = ["_contrib_", "_linalg_", "_sparse_", "_image_", "_random_"]


def _as_list(obj):
    """A list or tuple as it is, anything else as the only element of a list."""
    return obj if isinstance(obj, (list, tuple)) else [obj]


def _get_op_name_prefix(op_name):
    """The prefix that says in which submodule an operator is; '' for none."""
    return next((prefix for prefix in _OP_NAME_PREFIX_LIST if op_name.startswith(prefix)), "")


def _init_op_module(root_namespace, module_name, make_op_func):
    """Puts make_op_func(operator, name, function name) of every operator into root_namespace.module_name and, by the
    prefix of its name, its submodules; the name of a submodule's function is without the prefix."""
    import importlib
    root = f"{root_namespace}.{module_name}"
    for name in importlib.import_module("mxnet.ndarray._register").OPERATORS:
        prefix = _get_op_name_prefix(name)
        place = f"{root}.{prefix[1:-1]}" if prefix else f"{root}._internal" if name.startswith("_") else f"{root}.op"
        short = name[len(prefix):]
        function = make_op_func(name, name, short)
        function.__module__ = place
        setattr(importlib.import_module(place), short, function)


def build_param_doc(arg_names, arg_types, arg_descs, remove_dup=True):
    """The "Parameters" part of a docstring."""
    lines, seen = ["Parameters", "----------"], set()
    for name, kind, text in zip(arg_names, arg_types, arg_descs):
        if name == "num_args" or (remove_dup and name in seen):
            continue
        seen.add(name)
        lines.append(f"{name} : {kind}")
        if text:
            lines.append("    " + text)
    return "\n".join(lines) + "\n"
