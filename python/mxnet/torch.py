"""Functions of Torch 7 (mx.th): every one of them says that it is not here."""
from .error import UnsupportedError

__all__ = []


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module 'mxnet.torch' has no attribute '{name}'")

    def refuse(*args, **kwargs):
        raise UnsupportedError(f"mx.th.{name}: the bridge to Torch 7 is not here; the operators of mx.nd do the same")
    refuse.__name__ = name
    return refuse
