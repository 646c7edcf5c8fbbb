"""mx.nd.np: the functions of mx.np, which take arrays and symbols alike; here on arrays."""
from ..numpy import *  # noqa: F401,F403
from ..numpy import linalg, random  # noqa: F401
