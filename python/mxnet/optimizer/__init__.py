"""Optimizers: updates of weights by gradients."""
from .optimizer import *  # noqa: F401,F403
from .optimizer import __all__ as _names
from . import optimizer, contrib  # noqa: F401
from .contrib import GroupAdaGrad  # noqa: F401

__all__ = list(_names)
