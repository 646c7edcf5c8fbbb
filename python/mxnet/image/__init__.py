"""Images: files, sizes, crops, augmenters, iterators.  An image is an NDArray (H, W, C)."""
from .image import *  # noqa: F401,F403
from .augment import *  # noqa: F401,F403
from .iterator import *  # noqa: F401,F403
from .detection import *  # noqa: F401,F403
from . import image, augment, iterator, detection
from . import detection as det  # noqa: F401

__all__ = image.__all__ + augment.__all__ + iterator.__all__ + detection.__all__
