"""The old path of containers, dense layers, dropout, embeddings and normalisations."""
from ..block import Block, HybridBlock, _indent  # noqa: F401
from . import (Activation, BatchNorm, Concatenate, Dense, Dropout, Embedding, Flatten, GroupNorm,  # noqa: F401
               HybridConcatenate, HybridLambda, HybridSequential, Identity, InstanceNorm, Lambda, LayerNorm, Sequential)

__all__ = ["Sequential", "HybridSequential", "Dense", "Dropout", "Embedding", "BatchNorm", "InstanceNorm", "LayerNorm",
           "GroupNorm", "Flatten", "Lambda", "HybridLambda"]
