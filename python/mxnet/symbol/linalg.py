"""Operators of the family linalg, on symbols."""
from . import _register

globals().update(_register.family("linalg"))
__all__ = list(_register.family("linalg"))
