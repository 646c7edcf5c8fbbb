"""Arrays and operators on them: mx.nd.

Every operator of the library is a function here; see help(mx.nd.Convolution).  Families have their own modules:
random, linalg, contrib, image, sparse.
"""
from .._core import NDArray
from . import op, _internal  # noqa: F401
from .cached_op import CachedOp  # noqa: F401
from .op import *  # noqa: F401,F403
from .ndarray import *  # noqa: F401,F403
from . import ndarray  # noqa: F401
from . import contrib, image, linalg, random, sparse, utils  # noqa: F401
from .sparse import cast_storage  # noqa: F401
from . import methods  # noqa: F401
