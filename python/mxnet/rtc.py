"""Kernels compiled from CUDA source at run time: not supported, raises an error."""
from .error import UnsupportedError

__all__ = ["CudaModule", "CudaKernel", "Rtc"]


class CudaModule:
    """Source text with kernels."""

    def __init__(self, source, options=(), exports=()):
        raise UnsupportedError("rtc.CudaModule: compiling CUDA source is not supported; write the computation with "
                               "operators or as mx.operator.CustomOp")

    def get_kernel(self, name, signature):
        """One kernel of the source."""
        raise UnsupportedError("rtc.CudaModule.get_kernel: compiling CUDA source is not supported")


class CudaKernel:
    """A kernel, as returned by CudaModule.get_kernel."""

    def __init__(self, handle, name, is_ndarray, dtypes):
        raise UnsupportedError("rtc.CudaKernel: compiling CUDA source is not supported")

    def launch(self, args, ctx, grid_dims, block_dims, shared_mem=0):
        """Runs the kernel."""
        raise UnsupportedError("rtc.CudaKernel.launch: compiling CUDA source is not supported")


class Rtc:
    """The form of version 0.11."""

    def __init__(self, name, inputs, outputs, kernel):
        raise UnsupportedError("rtc.Rtc: compiling CUDA source is not supported; write the computation with operators or "
                               "as mx.operator.CustomOp")

    def push(self, ins, outs, grid_dims, block_dims):
        """Runs the kernel."""
        raise UnsupportedError("rtc.Rtc.push: compiling CUDA source is not supported")
