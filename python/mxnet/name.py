"""Names of new graph nodes: naming scopes."""
import threading

from . import _core

__all__ = ["NameManager", "Prefix"]

_open = threading.local()


def _stack():
    if not hasattr(_open, "managers"):
        _open.managers = []
    return _open.managers


class _Current(type):
    """Gives the class the property `current`."""

    @property
    def current(cls):
        """The current manager."""
        return _stack()[-1] if _stack() else _OUTERMOST

    @current.setter
    def current(cls, manager):
        raise AttributeError("NameManager.current cannot be set; use `with NameManager():`")


class NameManager(metaclass=_Current):
    """A scope with its own counters; subclasses override get(name, hint) to name nodes differently."""

    _prefix = ""

    def __init__(self):
        self._before = []

    def get(self, name, hint):
        """The name of a new node: `name` if it was given, else the hint and a number."""
        return _core.name_for(name, hint)

    def __enter__(self):
        _core.names_enter(self._prefix)
        own = type(self).get not in (NameManager.get, Prefix.get)
        self._before.append(_core.swap_name_manager(self if own else None))
        _stack().append(self)
        return self

    def __exit__(self, *unused):
        _stack().pop()
        _core.swap_name_manager(self._before.pop())
        _core.names_leave()


class Prefix(NameManager):
    """A scope in which all names start with a prefix."""

    def __init__(self, prefix):
        super().__init__()
        self._prefix = prefix

    def get(self, name, hint):
        return super().get(name, hint)


_OUTERMOST = NameManager()


def current():
    """The current manager."""
    return NameManager.current
