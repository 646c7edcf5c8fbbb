"""Execution of small operators in groups.

Operators here cost well below a microsecond each, so there is nothing to group: the functions exist, return
what callers expect and change nothing.
"""
__all__ = ["set_bulk_size", "bulk"]

_size = 15


def set_bulk_size(size):
    """Stores the size of groups and returns the previous one."""
    global _size
    before, _size = _size, int(size)
    return before


class _Bulk:
    """What bulk() returns."""

    def __init__(self, size):
        self._size, self._before = size, None

    def __enter__(self):
        self._before = set_bulk_size(self._size)
        return self

    def __exit__(self, *unused):
        set_bulk_size(self._before)


def bulk(size):
    """A `with` block whose operators may run as one group."""
    return _Bulk(size)
