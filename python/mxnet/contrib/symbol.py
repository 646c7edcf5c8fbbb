"""The old path of mxnet.symbol.contrib: the same module."""
import importlib
import sys

sys.modules[__name__] = importlib.import_module("mxnet.symbol.contrib")
