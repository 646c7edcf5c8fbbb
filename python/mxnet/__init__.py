"""Gluon: networks written and debugged imperatively, line by line, and run as optimized plans.

The package is a thin skin over the C library libgluon and keeps the interface of MXNet's Gluon:

    import mxnet as mx
    from mxnet import nd, autograd, gluon
"""
from . import libinfo
from . import base, error, context
from .base import MXNetError
from .context import Context, cpu, cpu_pinned, gpu, num_gpus, current_context, gpu_memory_info
from . import ndarray
from . import ndarray as nd
from . import autograd
from . import random

__version__ = libinfo.__version__
