"""Operators whose names start with an underscore: what the package itself calls."""
from . import _register

globals().update(_register.internal())
