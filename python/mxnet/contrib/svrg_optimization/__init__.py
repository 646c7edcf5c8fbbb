"""Stochastic variance reduced gradients."""
from . import svrg_module
from .svrg_module import SVRGModule

__all__ = ["SVRGModule", "svrg_module"]
