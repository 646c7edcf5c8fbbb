"""Iterators over batches, for existing programs; new ones should use gluon.data."""
from .io import *  # noqa: F401,F403
from .files import *  # noqa: F401,F403
from .records import *  # noqa: F401,F403
from .detection_records import *  # noqa: F401,F403
from . import detection_records, io, files, records

__all__ = io.__all__ + files.__all__ + records.__all__ + detection_records.__all__
