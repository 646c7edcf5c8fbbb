"""Operators on images: mx.nd.image.  Every operator _image_X of the library is image.X here."""
from . import _register

globals().update(_register.family("image"))
__all__ = list(_register.family("image"))
