"""Parts of Gluon that are newer or less used: layers, cells, data and a training loop with handlers."""
import importlib

__all__ = ["cnn", "data", "estimator", "nn", "rnn"]


def __getattr__(name):
    if name in __all__:
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'mxnet.gluon.contrib' has no attribute '{name}'")
