"""mx.npx: functions of neural networks on the arrays of mx.np, the switches of the interface, files, devices.

    from mxnet import np, npx
    npx.set_np()
"""
from ..context import Context, cpu, cpu_pinned, current_context, gpu, gpu_memory_info, num_gpus  # noqa: F401
from ..ndarray import waitall  # noqa: F401
from ..numpy._functions import EXTENSION as _functions
from ..util import (get_cuda_compute_capability, is_np_array, is_np_default_dtype, is_np_shape, np_array,  # noqa: F401
                    np_shape, reset_np, set_np, set_np_shape, use_np, use_np_array, use_np_shape)
from . import image, random  # noqa: F401
from ._extra import EXTRA as _extra

globals().update(_functions)
globals().update(_extra)
__all__ = sorted(name for name in globals() if not name.startswith("_"))
