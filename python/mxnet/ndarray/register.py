"""How operators become functions of mx.nd, under MXNet's names."""
from ..base import _init_op_module  # noqa: F401
from ._register import OPERATORS, PREFIXES  # noqa: F401
from ._private import NDArrayBase  # noqa: F401


def _make_ndarray_function(handle, name, func_name):
    """The function of an operator; a handle of MXNet's C interface is not needed."""
    return OPERATORS[name]


def _imperative_invoke(handle, ndargs, keys, vals, out, *unused):
    """Runs the operator of a name (the handle) with attributes given as text."""
    return OPERATORS[handle if isinstance(handle, str) else handle.name](*ndargs, out=out, **dict(zip(keys, vals)))
