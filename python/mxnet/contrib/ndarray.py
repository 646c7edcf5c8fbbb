"""The old path of mxnet.ndarray.contrib: the same module."""
import importlib
import sys

sys.modules[__name__] = importlib.import_module("mxnet.ndarray.contrib")
