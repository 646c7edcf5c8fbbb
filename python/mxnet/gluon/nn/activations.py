"""The old path of activations."""
from ..block import HybridBlock  # noqa: F401
from . import ELU, GELU, SELU, Activation, LeakyReLU, PReLU, Swish

__all__ = ["Activation", "LeakyReLU", "PReLU", "ELU", "SELU", "Swish", "GELU"]
