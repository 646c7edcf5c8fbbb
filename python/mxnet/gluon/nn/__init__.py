"""Layers."""
from .. import _layers
from ..block import Block, HybridBlock, SymbolBlock  # noqa: F401
from .containers import Sequential, HybridSequential, Lambda, HybridLambda, Concatenate, HybridConcatenate, Identity

_made = {**_layers.make(_layers.LAYER, module=__name__), **_layers.make(_layers.LAYER, module=__name__, group="transformer")}
globals().update(_made)
_made["Activation"]._act_type = property(lambda self: self._activation)
_made["BatchNorm"].fuse_relu, _made["BatchNormReLU"].fuse_relu = False, True
__all__ = ["Block", "HybridBlock", "SymbolBlock", "Sequential", "HybridSequential", "Lambda", "HybridLambda",
           "Concatenate", "HybridConcatenate", "Identity"] + list(_made)
