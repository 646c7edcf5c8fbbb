"""The base class of arrays and the operator of a graph, under MXNet's old path."""
from ..ndarray import _internal
from ..ndarray._private import NDArrayBase  # noqa: F401
from ..ndarray.register import _imperative_invoke  # noqa: F401

CachedOp = getattr(_internal, "CachedOp", None)
