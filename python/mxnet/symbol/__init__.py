"""Symbols: computations that are defined first and run later, mx.sym.

    data = mx.sym.var("data")
    net = mx.sym.FullyConnected(data, num_hidden=10, name="fc")
    net.infer_shape(data=(64, 100))

Every operator of mx.nd is here under the same name; inputs that are left out become variables.
"""
from .._core import Symbol
from . import op, _internal  # noqa: F401
from .op import *  # noqa: F401,F403
from .symbol import *  # noqa: F401,F403
from . import symbol  # noqa: F401
from . import contrib, image, linalg, random, sparse  # noqa: F401
from . import methods  # noqa: F401
from ..name import NameManager  # noqa: F401
from ..attribute import AttrScope  # noqa: F401


def __getattr__(name):
    """NumPy's interface, loaded at its first use: mx.sym.np and mx.sym.npx, as hybrid_forward's F has them."""
    import importlib
    parts = {"np": "numpy", "npx": "numpy_extension", "numpy": "numpy", "numpy_extension": "numpy_extension"}
    if name in parts:
        return globals().setdefault(name, importlib.import_module(f"{__name__}.{parts[name]}"))
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
