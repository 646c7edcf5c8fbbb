"""Less common optimizers."""
from . import optimizer as _optimizer
from .optimizer import register  # noqa: F401

GroupAdaGrad = _optimizer.GroupAdaGrad
GroupAdaGrad.__module__ = __name__

__all__ = ["GroupAdaGrad"]
