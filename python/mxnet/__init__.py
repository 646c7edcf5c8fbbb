"""Gluon: networks written and debugged imperatively, line by line, and run as optimized plans.

The package is a thin wrapper of the C library libgluon and has the interface of MXNet's Gluon:

    import mxnet as mx
    from mxnet import nd, autograd, gluon
"""
import os
import multiprocessing.pool  # noqa: F401  programs use it without importing it

from . import libinfo
from . import _numpy_aliases
from . import base, error, context
from .base import MXNetError
from .context import Context, cpu, cpu_pinned, gpu, num_gpus, current_context, gpu_memory_info
from . import ndarray
from . import ndarray as nd
from . import autograd
from . import random
from . import random as rnd

__version__ = libinfo.__version__

if _numpy_aliases.wanted():
    _numpy_aliases.add()
if os.environ.get("DMLC_ROLE", "worker") != "worker":
    from .kvstore.kvstore_server import _init_kvstore_server_module
    _init_kvstore_server_module()

# Modules that are loaded on first use: attribute -> module of the package.
_PARTS = {
    "gluon": "gluon", "init": "initializer", "initializer": "initializer", "optimizer": "optimizer", "opt": "optimizer",
    "lr_scheduler": "lr_scheduler", "metric": "metric", "kvstore": "kvstore", "kv": "kvstore", "callback": "callback",
    "io": "io", "image": "image", "img": "image", "recordio": "recordio", "symbol": "symbol", "sym": "symbol",
    "profiler": "profiler", "monitor": "monitor", "mon": "monitor", "visualization": "visualization",
    "viz": "visualization", "test_utils": "test_utils", "name": "name", "attribute": "attribute", "util": "util",
    "runtime": "runtime", "engine": "engine", "executor": "executor", "registry": "registry", "operator": "operator",
    "model": "model", "dlpack": "dlpack", "contrib": "contrib", "log": "log", "module": "module", "mod": "module",
    "rnn": "rnn", "rtc": "rtc", "th": "torch", "torch": "torch", "executor_manager": "executor_manager",
    "library": "library", "onnx": "contrib.onnx", "distributed": "distributed", "np": "numpy", "numpy": "numpy",
    "npx": "numpy_extension", "numpy_extension": "numpy_extension",
}
# Names that are defined in one of them.
_NAMES = {"AttrScope": "attribute", "NameManager": "name", "Prefix": "name", "Symbol": "symbol", "Monitor": "monitor",
          "is_np_array": "util", "is_np_shape": "util", "np_array": "util", "np_shape": "util", "set_np_shape": "util",
          "use_np": "util", "use_np_array": "util", "use_np_shape": "util"}


def __getattr__(name):
    import importlib
    if name in _PARTS:
        part = importlib.import_module("mxnet." + _PARTS[name])
        globals()[name] = part
        return part
    if name in _NAMES:
        return getattr(importlib.import_module("mxnet." + _NAMES[name]), name)
    raise AttributeError(f"module 'mxnet' has no attribute '{name}'")


def __dir__():
    return sorted(set(globals()) | set(_PARTS) | set(_NAMES))
