"""Operators of the family image, on symbols."""
from . import _register

globals().update(_register.family("image"))
__all__ = list(_register.family("image"))
