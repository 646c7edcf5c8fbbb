"""Every public operator of the library, on symbols."""
from . import _register

globals().update(_register.public())
__all__ = list(_register.public())
