"""Checkpoints of symbols and their parameters."""
from collections import namedtuple

from . import ndarray as nd
from . import symbol as sym
from .context import cpu

__all__ = ["BatchEndParam", "save_checkpoint", "load_checkpoint", "load_params"]

BatchEndParam = namedtuple("BatchEndParams", ["epoch", "nbatch", "eval_metric", "locals"])


def save_checkpoint(prefix, epoch, symbol, arg_params, aux_params, remove_amp_cast=True):
    """Writes prefix-symbol.json (unless symbol is None) and prefix-NNNN.params."""
    if symbol is not None:
        symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
    values = {"arg:" + name: value.as_in_context(cpu()) for name, value in arg_params.items()}
    values.update({"aux:" + name: value.as_in_context(cpu()) for name, value in aux_params.items()})
    nd.save(f"{prefix}-{epoch:04d}.params", values)


def load_params(prefix, epoch):
    """(arg_params, aux_params) of a checkpoint."""
    arguments, auxiliary = {}, {}
    loaded = nd.load(f"{prefix}-{epoch:04d}.params")
    if not isinstance(loaded, dict):
        raise ValueError(f"load_params: '{prefix}-{epoch:04d}.params' holds arrays without names")
    for key, value in loaded.items():
        kind, _, name = key.partition(":")
        if kind == "arg":
            arguments[name] = value
        elif kind == "aux":
            auxiliary[name] = value
    return arguments, auxiliary


def load_checkpoint(prefix, epoch):
    """(symbol, arg_params, aux_params) of a checkpoint."""
    symbol = sym.load(f"{prefix}-symbol.json")
    return (symbol,) + load_params(prefix, epoch)
