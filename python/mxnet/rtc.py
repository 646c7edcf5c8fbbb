"""Kernels compiled from CUDA source while a program runs: not here, and saying so is all this module does."""
from .error import UnsupportedError

__all__ = ["CudaModule", "CudaKernel", "Rtc"]


class CudaModule:
    """Source text with kernels."""

    def __init__(self, source, options=(), exports=()):
        raise UnsupportedError("rtc.CudaModule: CUDA source cannot be compiled here; write the computation with "
                               "operators or as mx.operator.CustomOp")

    def get_kernel(self, name, signature):
        """One kernel of the source."""
        raise UnsupportedError("rtc.CudaModule.get_kernel: CUDA source cannot be compiled here")


class CudaKernel:
    """A kernel: what CudaModule.get_kernel gives."""

    def __init__(self, handle, name, is_ndarray, dtypes):
        raise UnsupportedError("rtc.CudaKernel: CUDA source cannot be compiled here")

    def launch(self, args, ctx, grid_dims, block_dims, shared_mem=0):
        """Runs the kernel."""
        raise UnsupportedError("rtc.CudaKernel.launch: CUDA source cannot be compiled here")


class Rtc:
    """The form of version 0.11."""

    def __init__(self, name, inputs, outputs, kernel):
        raise UnsupportedError("rtc.Rtc: CUDA source cannot be compiled here; write the computation with operators or "
                               "as mx.operator.CustomOp")

    def push(self, ins, outs, grid_dims, block_dims):
        """Runs the kernel."""
        raise UnsupportedError("rtc.Rtc.push: CUDA source cannot be compiled here")
