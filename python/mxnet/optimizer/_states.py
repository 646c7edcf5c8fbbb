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


class _Array:
    """An NDArray in a file of MXNet: created empty, then set from the bytes of one array record."""

    def __init__(self, handle=None):
        self.array = None

    def __setstate__(self, state):
        import struct
        record = bytes(state["handle"])
        self.array = _core.load_buffer(struct.pack("<QQQ", 0x112, 0, 1) + record + struct.pack("<Q", 0))[0]


class _Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if module.startswith("mxnet.ndarray") and name == "NDArray":
            return _Array
        return super().find_class(module, name)


def _plain(state):
    if isinstance(state, _Array):
        return state.array
    if isinstance(state, (list, tuple)):
        return type(state)(_plain(part) for part in state)
    return {key: _plain(value) for key, value in state.items()} if type(state) is dict else state


def load_states(data):
    """Reads the result of get_states, here or in MXNet: a dict of states, or (states, optimizer)."""
    try:
        return pickle.loads(data)
    except TypeError:  # arrays as MXNet writes them
        import io
        return _plain(_Unpickler(io.BytesIO(data)).load())
