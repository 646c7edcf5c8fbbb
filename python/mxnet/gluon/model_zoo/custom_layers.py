"""Layers under the names that programs for 0.11 import from here."""
from ..nn import HybridConcatenate, Identity

__all__ = ["HybridConcurrent", "Identity"]


class HybridConcurrent(HybridConcatenate):
    """Runs every child on the same input and concatenates the results along an axis."""

    def __init__(self, concat_dim, prefix=None, params=None):
        super().__init__(axis=concat_dim, prefix=prefix, params=params)
