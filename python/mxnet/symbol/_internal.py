"""Operators whose names start with an underscore."""
from . import _register

globals().update(_register.internal())
