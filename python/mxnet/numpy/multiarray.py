"""mx.np.ndarray, under the path that MXNet has."""
from .._core import ndarray

__all__ = ["ndarray"]
