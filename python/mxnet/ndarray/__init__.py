"""Arrays and operators on them."""
from .._core import NDArray
from . import op, _internal  # noqa: F401
from .op import *  # noqa: F401,F403
from .ndarray import *  # noqa: F401,F403
from . import methods  # noqa: F401
