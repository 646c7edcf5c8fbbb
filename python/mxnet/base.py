"""Names that the whole package shares."""
from .error import MXNetError  # noqa: F401

string_types = (str,)
numeric_types = (float, int)
integer_types = (int,)


class _NullType:
    """What stands for "not given" in signatures."""

    def __repr__(self):
        return "_Null"

    def __bool__(self):
        return False


_Null = _NullType()


class NotImplementedForSymbol(MXNetError):
    """An operation that only arrays with values have."""

    def __init__(self, function, alias=None, *args):
        super().__init__()
        self.function = getattr(function, "__name__", str(function))
        self.alias = alias

    def __str__(self):
        advice = f" (use {self.alias})" if self.alias else ""
        return f"{self.function} is not there for symbols: they have no values{advice}"


def __getattr__(name):
    if name == "numeric_types_np":
        import numpy
        return (float, int, numpy.generic)
    if name == "bfloat16":
        import numpy
        return numpy.dtype([("bfloat16", numpy.uint16)])
    raise AttributeError(f"module 'mxnet.base' has no attribute '{name}'")


def check_call(ret):
    """For programs that called the C interface through ctypes: there is none here, errors are raised by themselves."""
    if ret:
        raise MXNetError(f"call failed with code {ret}")


def py_str(x):
    return x.decode("utf-8")


def c_str(x):
    return x.encode("utf-8")
