"""Creation and file functions, under the names that older programs use."""
from .ndarray import array, empty, load, load_frombuffer, save, zeros

__all__ = ["zeros", "empty", "array", "load", "load_frombuffer", "save"]
