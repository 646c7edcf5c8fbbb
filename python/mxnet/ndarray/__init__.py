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


def __getattr__(name):
    """NumPy's interface, loaded at its first use: mx.nd.np and mx.nd.npx, as hybrid_forward's F has them."""
    import importlib
    parts = {"np": "numpy", "npx": "numpy_extension", "numpy": "numpy", "numpy_extension": "numpy_extension"}
    if name in parts:
        return globals().setdefault(name, importlib.import_module(f"{__name__}.{parts[name]}"))
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
