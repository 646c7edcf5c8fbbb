"""DLPack exchange, under an alternative module name."""
from .ndarray import from_dlpack, to_dlpack_for_read, to_dlpack_for_write  # noqa: F401

__all__ = ["from_dlpack", "to_dlpack_for_read", "to_dlpack_for_write"]
