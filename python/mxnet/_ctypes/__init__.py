"""MXNet's modules of classes over ctypes; here they are those of the extension module."""
