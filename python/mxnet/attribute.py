"""Attributes that all new nodes of a graph get: scopes."""
import threading

from . import _core

__all__ = ["AttrScope"]

_open = threading.local()


def _stack():
    if not hasattr(_open, "scopes"):
        _open.scopes = []
    return _open.scopes


class _Current(type):
    """Gives the class the property `current`."""

    @property
    def current(cls):
        """The innermost scope."""
        return _stack()[-1] if _stack() else _OUTERMOST


class AttrScope(metaclass=_Current):
    """`with AttrScope(ctx_group="dev1", __lr_mult__="2"):` gives these attributes to the nodes made inside."""

    def __init__(self, **kwargs):
        for key, value in kwargs.items():
            if not isinstance(value, str):
                raise ValueError(f"AttrScope: attributes of a symbol must be text, '{key}' is {value!r}")
        self._attr = kwargs

    def get(self, attr):
        """The attributes of the open scopes with `attr` (a dict or None) over them."""
        found = {}
        for scope in _stack() if self in _stack() else [self]:
            found.update(scope._attr)
        found.update(attr or {})
        return found

    def __enter__(self):
        _core.attrs_enter(self._attr)
        _stack().append(self)
        return self

    def __exit__(self, *unused):
        _stack().pop()
        _core.attrs_leave()


_OUTERMOST = AttrScope()


def current():
    """The innermost scope."""
    return AttrScope.current
