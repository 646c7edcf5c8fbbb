"""How operators become functions of mx.sym, under MXNet's names."""
from .._core import Symbol as SymbolBase  # noqa: F401
from ..base import _init_op_module  # noqa: F401
from ._register import OPERATORS


def _make_symbol_function(handle, name, func_name):
    """The function of an operator; a handle of MXNet's C interface is not needed."""
    return OPERATORS[name]
