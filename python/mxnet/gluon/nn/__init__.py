"""Layers."""
from .. import _forms, _layers
from ..block import Block, HybridBlock, SymbolBlock  # noqa: F401
from .containers import Sequential, HybridSequential, Lambda, HybridLambda, Concatenate, HybridConcatenate, Identity

_made = {**_layers.make(_layers.LAYER, module=__name__), **_layers.make(_layers.LAYER, module=__name__, group="transformer")}
globals().update(_made)
_forms.add_to_layers(_made)
__all__ = ["Block", "HybridBlock", "SymbolBlock", "Sequential", "HybridSequential", "Lambda", "HybridLambda",
           "Concatenate", "HybridConcatenate", "Identity"] + list(_made)

from . import activations, basic_layers, conv_layers  # noqa: E402,F401  old paths, which hold the classes made above
