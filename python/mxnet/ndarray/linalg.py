"""Linear algebra: mx.nd.linalg.  Every operator _linalg_X of the library is linalg.X here."""
from . import _register

globals().update(_register.family("linalg"))
__all__ = list(_register.family("linalg"))
