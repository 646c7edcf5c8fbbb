"""Attributes that all new nodes of a graph get: scopes."""
import collections
import threading

from . import _core

__all__ = ["AttrScope"]

_open = threading.local()


def _stack():
    """The scopes of this thread, the innermost last; `_open.entered` of them belong to `with` blocks."""
    if not hasattr(_open, "scopes"):
        _open.scopes, _open.entered = [], 0
    return _open.scopes


def _replace(scope):
    """The innermost scope becomes this one, until its `with` block ends, if it has one."""
    stack = _stack()
    if stack:
        stack.pop()
        _core.attrs_leave()
    if scope is not _OUTERMOST or _open.entered > len(stack):
        _core.attrs_enter(scope._attr)
        stack.append(scope)


class _Value:
    """AttrScope._current: the innermost scope of the thread as an attribute `value`."""

    @property
    def value(self):
        return AttrScope.current

    @value.setter
    def value(self, scope):
        _replace(scope)


class _Current(type):
    """Gives the class the property `current`, which can be set."""

    @property
    def current(cls):
        """The innermost scope of this thread."""
        return _stack()[-1] if _stack() else _OUTERMOST

    @current.setter
    def current(cls, scope):
        if not isinstance(scope, AttrScope):
            raise TypeError(f"AttrScope.current must be an AttrScope, got {type(scope).__name__}")
        _replace(scope)


class AttrScope(metaclass=_Current):
    """`with AttrScope(ctx_group="dev1", __lr_mult__="2"):` gives these attributes to the nodes made inside."""

    _current = _Value()
    _old_scope = None  # the one around the innermost `with` block of this one
    _subgraph_names = collections.defaultdict(int)  # subgraphs that control flow has made, by name

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
        self._old_scope = AttrScope.current
        _core.attrs_enter(self._attr)
        _stack().append(self)
        _open.entered += 1
        return self

    def __exit__(self, *unused):
        _stack().pop()
        _open.entered -= 1
        _core.attrs_leave()


_OUTERMOST = AttrScope()


def current():
    """The innermost scope."""
    return AttrScope.current
