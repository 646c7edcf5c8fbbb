"""The old path of containers, dense layers, dropout, embeddings and normalisations."""
from ..block import Block, HybridBlock, _indent  # noqa: F401
from . import *  # noqa: F401,F403
from . import __all__  # noqa: F401
