"""The creating and file functions again, where older programs look for them."""
from .ndarray import array, empty, load, load_frombuffer, save, zeros

__all__ = ["zeros", "empty", "array", "load", "load_frombuffer", "save"]
