"""Additions to the core: mixed precision, text, iterators; missing parts raise an error when they are used."""
import importlib

__all__ = ["amp", "autograd", "io", "nd", "ndarray", "onnx", "quantization", "svrg_optimization", "sym", "symbol",
           "tensorboard", "text", "tracking"]
_ELSEWHERE = {"nd": "mxnet.ndarray.contrib", "ndarray": "mxnet.ndarray.contrib", "sym": "mxnet.symbol.contrib",
              "symbol": "mxnet.symbol.contrib", "quant": "mxnet.contrib.quantization"}
_PARTS = ("amp", "autograd", "io", "onnx", "quantization", "svrg_optimization", "tensorboard", "text", "tracking")


def __getattr__(name):
    if name in _ELSEWHERE:
        return importlib.import_module(_ELSEWHERE[name])
    if name in _PARTS:
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'mxnet.contrib' has no attribute '{name}'")
