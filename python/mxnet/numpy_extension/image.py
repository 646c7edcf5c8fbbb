"""mx.npx.image: images as arrays of mx.np; functions that do not differ are those of mx.image."""
from ..image import *  # noqa: F401,F403
from ..numpy._functions import IMAGE as _functions

globals().update(_functions)
