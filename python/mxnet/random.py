"""Random numbers of the whole package."""
from . import _core


def seed(seed_state, ctx="all"):
    """Seeds every generator; the same seed gives the same numbers, on any number of threads."""
    _core.seed(int(seed_state))
