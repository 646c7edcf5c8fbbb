"""mx.nd.npx: the functions of mx.npx, which take arrays and symbols alike; here on arrays."""
from ..numpy_extension import *  # noqa: F401,F403
from ..numpy_extension import image, random  # noqa: F401
