"""Dictionaries whose contents the library holds, too: children of a block, its parameters, parameters of a dictionary,
keywords of a layer's operator.  Whoever changes such a dictionary changes the object it belongs to, and the other way
round."""
import weakref
from collections import OrderedDict

_MISSING = object()


class Live(OrderedDict):
    """The owner's method `write` gets the new contents before they count; if it raises, nothing has changed.

    keep: the owner lives as long as the dictionary; else it may go first.
    """

    def __init__(self, owner, write, items=(), keep=False):
        super().__init__()
        self._owner, self._write = (lambda: owner) if keep else weakref.ref(owner), write
        self._fill(items)

    def _fill(self, items):
        """Sets the contents to what the library holds."""
        OrderedDict.clear(self)
        for key, value in items:
            OrderedDict.__setitem__(self, key, value)

    def _change(self, change):
        after = OrderedDict(self.items())
        result = change(after)
        owner = self._owner()
        if owner is not None:
            getattr(owner, self._write)(after)
        self._fill(after.items())
        return result

    def _assign(self, contents):
        """Replaces everything."""
        def change(after):
            after.clear()
            after.update(contents)
        self._change(change)

    def __setitem__(self, key, value):
        self._change(lambda after: after.__setitem__(key, value))

    def __delitem__(self, key):
        self._change(lambda after: after.__delitem__(key))

    def clear(self):
        """Removes everything."""
        self._change(lambda after: after.clear())

    def pop(self, key, default=_MISSING):
        """Removes a key and returns its value."""
        return self._change(lambda after: after.pop(key) if default is _MISSING else after.pop(key, default))

    def popitem(self, last=True):
        """Removes and returns the last, or the first, pair."""
        return self._change(lambda after: after.popitem(last))

    def setdefault(self, key, default=None):
        """The value of a key, which is set to default if it is missing."""
        return self._change(lambda after: after.setdefault(key, default))

    def update(self, *args, **kwargs):
        """Sets several keys at once."""
        self._change(lambda after: after.update(*args, **kwargs))

    def __ior__(self, other):
        self.update(other)
        return self

    def move_to_end(self, key, last=True):
        """Makes a key the last, or the first."""
        self._change(lambda after: after.move_to_end(key, last))

    def copy(self):
        """An ordinary dictionary with these contents."""
        return OrderedDict(self.items())

    __copy__ = copy

    def __reduce__(self):
        return OrderedDict, (list(self.items()),)

    def __repr__(self):
        return repr(dict(self) if self._write in ("_set_kwargs", "write") else self.copy())
