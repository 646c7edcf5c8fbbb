"""Operators of the family sparse, on symbols."""
from . import _register

globals().update(_register.family("sparse"))
__all__ = list(_register.family("sparse"))
