"""mx.sym.np: the functions of mx.np, which take arrays and symbols alike; here on symbols."""
from ..numpy import *  # noqa: F401,F403
from ..numpy import linalg, random  # noqa: F401
from .._core import NumpySymbol as _Symbol  # noqa: F401
