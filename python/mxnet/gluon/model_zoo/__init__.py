"""Predefined networks, and the folder of their trained parameters."""
from . import model_store, text, vision

__all__ = ["model_store", "text", "vision"]


def __getattr__(name):
    """The layers of 0.11's custom_layers are loaded on demand."""
    if name == "custom_layers":
        import importlib
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
