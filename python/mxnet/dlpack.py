"""DLPack exchange, where some programs look for it."""
from .ndarray import from_dlpack, to_dlpack_for_read, to_dlpack_for_write  # noqa: F401

__all__ = ["from_dlpack", "to_dlpack_for_read", "to_dlpack_for_write"]
