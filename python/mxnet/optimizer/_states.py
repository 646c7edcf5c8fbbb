"""States of optimizers in pickles, ours and MXNet's."""
import pickle

from .. import _core


class _Array:
    """An NDArray in a file of MXNet: made empty, then given the bytes of one array record."""

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
    """What get_states gave, here or in MXNet: a dict of states, or (states, optimizer)."""
    try:
        return pickle.loads(data)
    except TypeError:  # arrays as MXNet writes them
        import io
        return _plain(_Unpickler(io.BytesIO(data)).load())
