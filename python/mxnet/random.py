"""Random numbers of the package: the seed, and the distributions of mx.nd.random."""
from . import _core
from .context import Context
from .ndarray.random import *  # noqa: F401,F403
from .ndarray.random import __all__ as _distributions

__all__ = ["seed"] + list(_distributions)


def seed(seed_state, ctx="all"):
    """Seeds every generator; the same seed produces the same numbers, with any number of threads."""
    if not hasattr(seed_state, "__index__"):
        raise ValueError(f"random.seed: seed_state must be an int, got {type(seed_state).__name__}")
    if ctx != "all" and not isinstance(ctx, Context):
        raise ValueError(f"random.seed: ctx must be 'all' or a Context, got {type(ctx).__name__}")
    _core.seed(seed_state.__index__())
