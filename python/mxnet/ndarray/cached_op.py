"""A symbol as a function of arrays: what hybridized blocks run, for programs that use it directly.

    op = nd.CachedOp(symbol, [("static_alloc", True)])
    y = op(*arrays)           # in the order of symbol.list_inputs()

SPDX-License-Identifier: Apache-2.0
"""
from .._core import NDArray

_FLAGS = ("static_alloc", "static_shape", "inline_limit", "forward_bulk_size", "backward_bulk_size", "data_indices",
          "param_indices", "is_dynamic")


class CachedOp:
    """Runs a symbol on arrays; differentiable.  flags: pairs such as ("static_alloc", True)."""

    __slots__ = ["_block", "_inputs", "is_np_sym"]

    def __init__(self, sym, flags=(), thread_safe=False):
        from ..gluon import SymbolBlock
        flags = dict(flags)
        for name in flags:
            if name not in _FLAGS:
                raise ValueError(f"CachedOp: unknown flag '{name}', wanted one of {', '.join(_FLAGS)}")
        self._inputs = sym.list_inputs()
        self._block = SymbolBlock(sym, self._inputs)
        self._block.hybridize(static_alloc=_is_on(flags.get("static_alloc")),
                              static_shape=_is_on(flags.get("static_shape")))
        self.is_np_sym = False

    def __call__(self, *args, **kwargs):
        out = kwargs.pop("out", None)
        kwargs.pop("default_ctx", None)
        if kwargs:
            raise TypeError(f"CachedOp: unknown keyword '{next(iter(kwargs))}', it takes out")
        if len(args) != len(self._inputs):
            raise ValueError(f"CachedOp: got {len(args)} arrays, wanted {len(self._inputs)} "
                             f"({', '.join(self._inputs)})")
        results = self._block(*args)
        if out is None:
            return results
        targets = [out] if isinstance(out, NDArray) else list(out)
        for target, result in zip(targets, [results] if isinstance(results, NDArray) else results):
            target[:] = result
        return out


def _is_on(value):
    return str(value).lower() in ("true", "1")
