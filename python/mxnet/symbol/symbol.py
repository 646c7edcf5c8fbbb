"""Creating, grouping and loading symbols; functions of two symbols."""
from .. import _core
from .._core import Symbol
from . import _internal

__all__ = ["Symbol", "var", "Variable", "Group", "load", "load_json", "fromjson", "zeros", "ones", "full", "arange",
           "linspace", "eye", "histogram", "split_v2", "concatenate", "einsum", "Custom", "pow", "power", "maximum", "minimum",
           "hypot", "add", "subtract", "multiply", "divide", "true_divide", "modulo", "equal", "not_equal", "greater",
           "greater_equal", "lesser", "lesser_equal", "logical_and", "logical_or", "logical_xor"]


def _init_text(init):
    if init is None or isinstance(init, str):
        return init
    return init.dumps()


_STORAGE_TYPES = {"default": "0", "row_sparse": "1", "csr": "2"}  # as files spell them


def var(name, attr=None, shape=None, lr_mult=None, wd_mult=None, dtype=None, init=None, stype=None, profiler_scope=None,
        **kwargs):
    """A variable: an input of a graph.  0 in a shape means an unknown size."""
    if not isinstance(name, str):
        raise TypeError(f"var: the name must be text, got {type(name).__name__}")
    for key, value in (attr or {}).items():
        if not isinstance(value, str):
            raise ValueError(f"var: attributes of a symbol must be text, '{key}' is {value!r}")
    made = _core.variable(name, shape, dtype, _init_text(init), None, None)
    notes = dict(attr or {})
    for key, value in (("__lr_mult__", lr_mult), ("__wd_mult__", wd_mult)):
        if value is not None:
            float(value)  # an error now rather than in an optimizer
            notes[key] = str(value)
    if stype is not None:
        notes["__storage_type__"] = _STORAGE_TYPES[stype]
    for key, value in kwargs.items():
        if not (key.startswith("__") and key.endswith("__")):
            raise ValueError(f"var: unknown keyword '{key}'; write custom attributes as __{key}__")
        notes[key] = str(value)
    if notes:
        made._set_attr(**notes)
    return made


Variable = var


def Group(symbols, create_fn=Symbol):
    """Several symbols as one with the outputs of all."""
    symbols = list(symbols)
    if not symbols or any(not isinstance(s, Symbol) for s in symbols):
        raise TypeError("Group: expected a list with at least one Symbol")
    made = _core.group(symbols)
    return made if create_fn is Symbol else create_fn(made)


def load(fname):
    """A symbol from a file that save() wrote."""
    if not isinstance(fname, str):
        raise TypeError(f"load: expected the name of a file, got {type(fname).__name__}")
    return _core.symbol_load(fname)


def load_json(json_str):
    """A symbol from JSON text."""
    if not isinstance(json_str, str):
        raise TypeError(f"load_json: expected text, got {type(json_str).__name__}")
    return _core.symbol_load_json(json_str)


fromjson = load_json


# ---- creation ------------------------------------------------------------------------------------------------------

def _type(dtype):
    return "float32" if dtype is None else dtype


def zeros(shape, dtype=None, **kwargs):
    """Zeros of a shape."""
    return _internal._zeros(shape=shape, dtype=_type(dtype), **kwargs)


def ones(shape, dtype=None, **kwargs):
    """Ones of a shape."""
    return _internal._ones(shape=shape, dtype=_type(dtype), **kwargs)


def full(shape, val, dtype=None, **kwargs):
    """One value in all elements."""
    return _internal._full(shape=shape, dtype=_type(dtype), value=float(val), **kwargs)


def arange(start, stop=None, step=1.0, repeat=1, infer_range=False, name=None, dtype=None):
    """Numbers from start to stop, excluding stop."""
    return _internal._arange(start=start, stop=stop, step=step, repeat=repeat, infer_range=infer_range, name=name,
                             dtype=_type(dtype))


def linspace(start, stop, num, endpoint=True, name=None, dtype=None):
    """`num` evenly spaced numbers from start to stop."""
    return _internal._linspace(start=start, stop=stop, num=num, endpoint=endpoint, name=name, dtype=_type(dtype))


def eye(N, M=0, k=0, dtype=None, **kwargs):
    """An N x M matrix (M 0: N x N) with ones on diagonal k."""
    return _internal._eye(N=N, M=M, k=k, dtype=_type(dtype), **kwargs)


# ---- functions -----------------------------------------------------------------------------------------------------

def histogram(a, bins=10, range=None, **kwargs):
    """(counts, edges): how many elements fall into each of `bins` equal bins of a range, or between given edges."""
    if isinstance(bins, Symbol):
        return _internal._histogram(a, bins, **kwargs)
    if not isinstance(bins, int):
        raise ValueError(f"histogram: bins must be an int or a Symbol of edges, got {type(bins).__name__}")
    if range is None:
        raise ValueError("histogram: range is missing; values of a symbol are not known")
    return _internal._histogram(a, bin_cnt=bins, range=(float(range[0]), float(range[1])), **kwargs)


def einsum(subscripts, *operands):
    """Einstein's summation, as numpy.einsum writes it: einsum("bij,bjk->bik", a, b) is batch_dot(a, b).

    A label that the result lacks is summed over, a repeated one takes the diagonal, "..." stands for axes that are
    broadcast.  Without "->" the result has the labels that occur once, in alphabetic order.
    """
    return _core.einsum(subscripts, operands)


def split_v2(ary, indices_or_sections, axis=0, squeeze_axis=False):
    """Parts along an axis: equal ones (an int), or cut before the given indices (a tuple)."""
    if isinstance(indices_or_sections, int):
        return _internal._split_v2(ary, indices=(), sections=indices_or_sections, axis=axis, squeeze_axis=squeeze_axis)
    if not isinstance(indices_or_sections, (tuple, list)):
        raise ValueError(f"split_v2: indices_or_sections must be an int or a tuple of ints, "
                         f"got {type(indices_or_sections).__name__}")
    indices = [0] + [int(i) for i in indices_or_sections]
    return _internal._split_v2(ary, indices=indices, axis=axis, squeeze_axis=squeeze_axis)


def concatenate(arrays, axis=0, always_copy=True):
    """Symbols concatenated along an axis, as F.concatenate does for arrays."""
    from . import op
    return arrays[0] if len(arrays) == 1 and not always_copy else op.concat(*arrays, dim=axis)


def Custom(*args, **kwargs):
    """An operator written in Python: see mx.operator."""
    from ..operator import custom
    return custom(*args, _symbolic=True, **kwargs)


# Functions of two symbols, or of a symbol and a number: index in the library's table, description, function of numbers.
_FUNCTIONS = {
    "add": (0, "The sum.", lambda a, b: a + b),
    "subtract": (1, "The difference.", lambda a, b: a - b),
    "multiply": (2, "The product.", lambda a, b: a * b),
    "divide": (3, "The quotient.", lambda a, b: a / b),
    "true_divide": (3, "The quotient.", lambda a, b: a / b),
    "modulo": (4, "The remainder, with the sign of the divisor.", lambda a, b: a % b),
    "power": (5, "base to the power exp.", lambda a, b: a ** b),
    "pow": (5, "base to the power exp.", lambda a, b: a ** b),
    "lesser": (6, "1 where the left side is smaller, else 0.", lambda a, b: float(a < b)),
    "lesser_equal": (7, "1 where the left side is smaller or equal, else 0.", lambda a, b: float(a <= b)),
    "equal": (8, "1 where both are equal, else 0.", lambda a, b: float(a == b)),
    "not_equal": (9, "1 where they differ, else 0.", lambda a, b: float(a != b)),
    "greater": (10, "1 where the left side is greater, else 0.", lambda a, b: float(a > b)),
    "greater_equal": (11, "1 where the left side is greater or equal, else 0.", lambda a, b: float(a >= b)),
    "maximum": (12, "The larger of two.", max),
    "minimum": (13, "The smaller of two.", min),
    "hypot": (14, "The square root of the sum of squares.", lambda a, b: (a * a + b * b) ** 0.5),
    "logical_and": (15, "1 where both are not 0, else 0.", lambda a, b: float(bool(a) and bool(b))),
    "logical_or": (16, "1 where one is not 0, else 0.", lambda a, b: float(bool(a) or bool(b))),
    "logical_xor": (17, "1 where exactly one is not 0, else 0.", lambda a, b: float(bool(a) != bool(b))),
}


def _function(name, row, doc, plain):
    def function(left, right):
        result = _core.symbol_binary(row, left, right)
        if result is not NotImplemented:
            return result
        if isinstance(left, (int, float)) and isinstance(right, (int, float)):
            return plain(left, right)
        raise TypeError(f"{name}: expected two Symbols, or a Symbol and a number, got {type(left).__name__} and "
                        f"{type(right).__name__}")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


for _name, _row in _FUNCTIONS.items():
    globals()[_name] = _function(_name, *_row)
