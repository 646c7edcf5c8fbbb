"""Layers: parallel branches, pixel shuffles, batch normalisation for several devices, embeddings."""
from .basic_layers import (Concurrent, HybridConcurrent, Identity, PixelShuffle1D, PixelShuffle2D, PixelShuffle3D,
                           SparseEmbedding, SyncBatchNorm)

__all__ = ["Concurrent", "HybridConcurrent", "Identity", "PixelShuffle1D", "PixelShuffle2D", "PixelShuffle3D",
           "SparseEmbedding", "SyncBatchNorm"]
