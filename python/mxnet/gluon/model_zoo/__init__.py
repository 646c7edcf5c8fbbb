"""Predefined networks, and the folder of their trained parameters."""
from ... import _core
from . import model_store, text, vision

__all__ = ["from_keras", "from_torch", "load_keras", "load_torch", "model_store", "save_torch", "text", "vision"]


def from_keras(name, path):
    """The network of a name ("resnet50_v1") with weights of keras.applications (.weights.h5, .h5 or .keras).

    Options and the number of classes follow from the file.
    """
    return _core.model_from_keras(name, path)


def from_torch(name, path):
    """The network of a name ("resnet50_v1b") with the parameters of a PyTorch state_dict (safetensors).

    Options and sizes, such as the number of classes, follow from the file.
    """
    return _core.model_from_torch(name, path)


def load_keras(net, path):
    """Reads weights of keras.applications (.weights.h5, .h5 or .keras) into a network of the zoo with the same architecture.

    Kernels are transposed; biases that the network lacks move into the running means of the normalisations that follow. Every
    parameter is filled and every array of the file is used; otherwise the error names it, and nothing is changed.
    """
    _core.load_keras(net, path)


def load_torch(net, path):
    """Reads a PyTorch state_dict (safetensors) into a network of the zoo with the same architecture.

    Every parameter is filled and every array of the file is used; otherwise the error names it, and nothing is changed.
    """
    _core.load_torch(net, path)


def save_torch(net, path):
    """Writes the parameters under the names and in the layout of PyTorch's network."""
    _core.save_torch(net, path)


def __getattr__(name):
    """The layers of 0.11's custom_layers are loaded on demand."""
    if name == "custom_layers":
        import importlib
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
