"""Names that NumPy has removed, for libraries written before that.

Programs of MXNet's time say np.int, np.float, np.bool or np.Inf, which NumPy 1.24 and 2.0 took away.  With the
environment variable MXNET_NUMPY_ALIASES=1, `import mxnet` adds the missing ones to NumPy; a name that NumPy has is
never changed.  The switch is off by default, since it changes a module that other code of the process uses, too.

SPDX-License-Identifier: Apache-2.0
"""
import os
import warnings

# Removed name -> the Python class that it was, the name that NumPy has for it today, or how to make it.
_BUILTINS = {"bool": bool, "int": int, "float": float, "complex": complex, "object": object, "str": str, "long": int,
             "unicode": str}
_TODAY = {"bool8": "bool_", "int0": "intp", "uint0": "uintp", "str0": "str_", "bytes0": "bytes_",
          "object0": "object_", "float_": "float64", "complex_": "complex128", "cfloat": "complex128",
          "singlecomplex": "complex64", "longfloat": "longdouble", "longcomplex": "clongdouble",
          "clongfloat": "clongdouble", "string_": "bytes_", "unicode_": "str_",
          "Inf": "inf", "Infinity": "inf", "infty": "inf", "PINF": "inf", "NaN": "nan",
          "product": "prod", "cumproduct": "cumprod", "sometrue": "any", "alltrue": "all",
          "round_": "round", "row_stack": "vstack", "trapz": "trapezoid", "in1d": "isin",
          "mat": "asmatrix"}
_COMPUTED = {"NINF": lambda np: -np.inf, "PZERO": lambda np: 0.0, "NZERO": lambda np: -0.0,
             "asscalar": lambda np: lambda a: a.item(), "msort": lambda np: lambda a: np.sort(a, axis=0)}


def wanted():
    """Whether the environment switches the aliases on."""
    return os.environ.get("MXNET_NUMPY_ALIASES", "0").strip() not in ("", "0")


def missing(np):
    """{removed name: what it was} for all names that this NumPy does not have."""
    known = dict(_BUILTINS)
    known.update({name: getattr(np, today) for name, today in _TODAY.items() if hasattr(np, today)})
    known.update({name: make(np) for name, make in _COMPUTED.items()})
    with warnings.catch_warnings():  # NumPy warns when it is asked for some of them
        warnings.simplefilter("ignore")
        return {name: value for name, value in known.items() if not hasattr(np, name)}


def add():
    """Adds the missing names to NumPy; returns them."""
    import numpy
    names = missing(numpy)
    for name, value in names.items():
        setattr(numpy, name, value)
    return sorted(names)
