"""What a process that is one of several does besides: it tells the others why it fails."""
import sys

from . import _core

__all__ = ["watch"]

_watching = []


def watch():
    """Uncaught exceptions become the error of the other processes; called when there are others."""
    if _watching:
        return
    shown = sys.excepthook
    _watching.append(shown)

    def tell_others(kind, error, trace):
        shown(kind, error, trace)
        if not issubclass(kind, SystemExit):
            _core.comm_fail(f"{kind.__name__}: {error}")

    sys.excepthook = tell_others
