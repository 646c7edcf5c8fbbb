"""Functions of Torch 7 (mx.th): not supported, each raises an error."""
from .error import UnsupportedError

__all__ = []


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'mxnet.torch' has no attribute '{name}'")

    def refuse(*args, **kwargs):
        raise UnsupportedError(f"mx.th.{name}: the bridge to Torch 7 is not supported; use the operators of mx.nd")
    refuse.__name__ = name
    return refuse
