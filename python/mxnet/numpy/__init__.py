"""mx.np: arrays with NumPy's rules, on every device, recorded and hybridized.

The functions are operators that are described in the library (src/op/def/np); what needs no computation is glue.
Functions of NumPy that have no gradient and no operator run on copies (fallback.py).
"""
from . import _arrays, _methods, _places  # noqa: F401
from ._arrays import *  # noqa: F401,F403
from ._places import *  # noqa: F401,F403
from ._constants import *  # noqa: F401,F403
from ._functions import FUNCTIONS as _functions, _as_array  # noqa: F401
from . import linalg, random  # noqa: F401
from . import fallback as _fallback
from .multiarray import ndarray  # noqa: F401

globals().update({name: function for name, function in _fallback.FUNCTIONS.items() if name not in globals()})
globals().update({name: function for name, function in _functions.items() if name not in {*_arrays.__all__, *_places.__all__}})

__all__ = sorted(name for name in globals() if not name.startswith("_"))
