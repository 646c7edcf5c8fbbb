"""The library's operators as operators on symbols, sorted into namespaces as those of mx.nd are."""
from .. import _core
from ..ndarray import _register as _arrays

OPERATORS = {name: _core.symbol_operator(op) for name, op in _arrays.OPERATORS.items()}


def public():
    """Operators whose names do not start with an underscore."""
    return {name: op for name, op in OPERATORS.items() if not name.startswith("_")}


def internal():
    """All others, under their full names."""
    return {name: op for name, op in OPERATORS.items() if name.startswith("_")}


def family(namespace):
    """Operators of a prefix without it: family('linalg')['gemm2']."""
    prefix = next(p for p, n in _arrays.PREFIXES.items() if n == namespace)
    return {name[len(prefix):]: op for name, op in OPERATORS.items() if name.startswith(prefix)}
