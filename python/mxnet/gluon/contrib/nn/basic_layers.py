"""Layers of the library's group "contrib", and containers whose children run on the same input."""
from ... import _forms
from ...nn import Concatenate, Embedding, HybridConcatenate, Identity
from .._rows import placed

__all__ = ["Concurrent", "HybridConcurrent", "Identity", "SparseEmbedding", "SyncBatchNorm", "PixelShuffle1D",
           "PixelShuffle2D", "PixelShuffle3D"]

PixelShuffle1D, PixelShuffle2D, PixelShuffle3D, SyncBatchNorm = placed(
    ["PixelShuffle1D", "PixelShuffle2D", "PixelShuffle3D", "SyncBatchNorm"], __package__)
_forms.add_to_contrib_layers(globals())


class Concurrent(Concatenate):
    """Runs every child on the same input and concatenates the results along an axis.

        net = Concurrent(axis=1)
        net.add(nn.Dense(10), Identity())
    """


class HybridConcurrent(HybridConcatenate):
    """The same for hybrid children."""


class SparseEmbedding(Embedding):
    """An Embedding whose gradient is row_sparse: it has only the rows that a batch used."""

    def __init__(self, input_dim, output_dim, dtype="float32", weight_initializer=None, **kwargs):
        super().__init__(input_dim, output_dim, dtype=dtype, weight_initializer=weight_initializer, sparse_grad=True,
                         **kwargs)
