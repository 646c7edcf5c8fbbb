"""mx.np.linalg."""
from . import fallback as _fallback
from ._functions import LINALG as _functions

globals().update(_fallback.LINALG)
globals().update(_functions)
__all__ = sorted(name for name in globals() if not name.startswith("_"))
