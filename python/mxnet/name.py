"""Names of new graph nodes: naming scopes."""
import threading

from . import _core

__all__ = ["NameManager", "Prefix"]

_open = threading.local()


def _stack():
    """The managers of this thread, the innermost last; `_open.entered` of them belong to `with` blocks."""
    if not hasattr(_open, "managers"):
        _open.managers, _open.entered = [], 0
    return _open.managers


def _push(manager):
    _core.names_enter(manager._prefix)
    _stack().append((manager, _core.swap_name_manager(None if manager is _OUTERMOST else manager)))


def _pop():
    _, before = _stack().pop()
    _core.swap_name_manager(before)
    _core.names_leave()


def _replace(manager):
    """The innermost manager becomes this one, until its `with` block ends, if it has one."""
    if not isinstance(manager, NameManager):
        raise TypeError(f"NameManager.current must be a NameManager, got {type(manager).__name__}")
    if _stack():
        _pop()
    if manager is not _OUTERMOST or _open.entered > len(_stack()):
        _push(manager)


class _Value:
    """NameManager._current: the innermost manager of the thread as an attribute `value`."""

    @property
    def value(self):
        return NameManager.current

    @value.setter
    def value(self, manager):
        _replace(manager)


class _Current(type):
    """Gives the class the property `current`, which can be set."""

    @property
    def current(cls):
        """The current manager of this thread."""
        return _stack()[-1][0] if _stack() else _OUTERMOST

    @current.setter
    def current(cls, manager):
        _replace(manager)


class NameManager(metaclass=_Current):
    """A scope with its own counters; subclasses override get(name, hint) to name nodes differently."""

    _prefix = ""
    _current = _Value()

    _old_manager = None  # the one around the innermost `with` block of this one

    def __init__(self):
        self._own_counter = {}

    @property
    def _counter(self):
        """How many names were made, by hint; changing it changes the next ones."""
        if self is not _OUTERMOST:
            return self._own_counter
        from .gluon._live import Live
        return Live(_Counters, "write", _core.name_counters().items(), keep=True)

    def get(self, name, hint):
        """The name of a new node: `name` if it was given, else the hint and a number."""
        if self is _OUTERMOST:
            return _core.name_for(name, hint)
        if name:
            return name
        number = self._counter.get(hint, 0)
        self._counter[hint] = number + 1
        return f"{hint}{number}"

    def __enter__(self):
        self._old_manager = NameManager.current
        _push(self)
        _open.entered += 1
        return self

    def __exit__(self, *unused):
        _pop()
        _open.entered -= 1


class _Counters:
    """The library's numbers of the outermost manager."""

    write = staticmethod(_core.set_name_counters)


class Prefix(NameManager):
    """A scope in which all names start with a prefix."""

    def __init__(self, prefix):
        super().__init__()
        self._prefix = prefix

    def get(self, name, hint):
        return self._prefix + super().get(name, hint)


_OUTERMOST = NameManager()


def current():
    """The current manager."""
    return NameManager.current
