"""Networks: blocks, layers, losses, parameters, training and data."""
from .parameter import Parameter, Constant, ParameterDict, DeferredInitializationError, tensor_types
from .block import Block, HybridBlock, SymbolBlock
from .trainer import Trainer
from .train_step import TrainStep
from . import nn, loss, utils

__all__ = ["Block", "Constant", "DeferredInitializationError", "HybridBlock", "Parameter", "ParameterDict",
           "SymbolBlock", "TrainStep", "Trainer", "data", "loss", "model_zoo", "nn", "rnn", "tensor_types", "utils"]


def __getattr__(name):
    """Larger modules are loaded on first use; so are names that 0.11 programs access through gluon."""
    import importlib
    if name in ("data", "rnn", "model_zoo", "contrib"):
        try:
            return importlib.import_module("." + name, __name__)
        except ModuleNotFoundError as e:
            if e.name == f"{__name__}.{name}":
                raise AttributeError(f"module 'mxnet.gluon' has no attribute '{name}'") from None
            raise
    if name in ("autograd", "ndarray", "initializer", "optimizer", "metric", "symbol"):
        return importlib.import_module("mxnet." + name)
    if name == "MXNetError":
        return importlib.import_module("mxnet.base").MXNetError
    if name in ("Context", "cpu", "gpu"):
        return getattr(importlib.import_module("mxnet.context"), name)
    raise AttributeError(f"module 'mxnet.gluon' has no attribute '{name}'")
