"""Tables of the library as dictionaries, and states of optimizers in pickles, ours and MXNet's."""
import pickle
from collections.abc import MutableMapping

from .. import _core


class Table(_core.Table, MutableMapping):
    """A table of the library by index or name: a dictionary without storage of its own."""

    __len__, __iter__ = _core.Table.__len__, _core.Table.__iter__
    __getitem__, __setitem__, __delitem__ = (_core.Table.__getitem__, _core.Table.__setitem__,
                                             _core.Table.__delitem__)

    def copy(self):
        """The current entries of the table as a dict."""
        return dict(self)

    def __repr__(self):
        return repr(dict(self))

    def __reduce__(self):
        return dict, (dict(self),)


def load_states(data):
    """Reads the result of get_states, here or in MXNet: a dict of states, or (states, optimizer).

    No code of the file runs (see _pickles), unless GLUON_TRUST_PICKLES=1 allows states of any class.
    """
    from .. import _pickles
    from .optimizer import Optimizer
    try:
        states = _pickles.read(data)
    except _pickles.PickleError as error:
        if not _core.trusts_pickles():
            raise _pickles.PickleError(f"{error}; set GLUON_TRUST_PICKLES=1 if you trust its origin as you trust a program: "
                                       "its code will run") from None
        return pickle.loads(data)
    if isinstance(states, dict) or isinstance(states, tuple) and [type(part) is dict or isinstance(part, Optimizer)
                                                                  for part in states] == [True, True]:
        return states
    raise _pickles.PickleError(f"this pickle holds a {type(states).__name__}, expected a dict of optimizer states, or that and "
                               "an optimizer")
