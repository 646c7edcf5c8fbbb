"""The library's stores: values by key, sums over contexts and processes, optionally an optimizer."""
from .. import _core, _processes
from .._core import NDArray
from ..error import MXNetError
from .base import KVStoreBase, as_list
from .compression import checked

__all__ = ["KVStore"]


def _arrays(value, who):
    arrays = as_list(value)
    for array in arrays:
        if not isinstance(array, NDArray):
            raise TypeError(f"{who}: expected NDArrays, got {type(array).__name__}")
    return arrays


def _pairs(key, value, who):
    """[(key, [arrays])] of one key with one or several arrays, or of lists of both."""
    if not isinstance(key, (list, tuple)):
        return [(key, _arrays(value, who))]
    if len(key) != len(value):
        raise AssertionError(f"{who}: {len(key)} keys but {len(value)} values")
    merged = {}
    for k, v in zip(key, value):
        merged.setdefault(k, []).extend(_arrays(v, who))
    return list(merged.items())


def _flat(value):
    """The elements of lists in lists."""
    return [x for part in value for x in _flat(part)] if isinstance(value, (list, tuple)) else [value]


class KVStore(_core.KVStore, KVStoreBase):
    """Values by key: push() sums over contexts, through an updater if there is one; pull() copies to all."""

    def __init__(self, handle="local"):
        self._begin(handle)
        if self.num_workers > 1:
            _processes.watch()

    @property
    def handle(self):
        """The store itself: the library's object."""
        return self

    # ---- values

    def init(self, key, value):
        """Sets the initial values of keys; each key once."""
        for k, arrays in _pairs(key, value, "kvstore.init"):
            self._init(k, arrays)

    def push(self, key, value, priority=0):
        """Sums the arrays of a key over contexts; the sum replaces the value, or is passed to the updater."""
        for k, arrays in _pairs(key, value, "kvstore.push"):
            self._push(k, arrays)

    def pull(self, key, out=None, priority=0, ignore_sparse=True):
        """Copies the values of keys into all arrays of `out`."""
        if out is None:
            raise AssertionError("kvstore.pull: out is missing")
        for k, arrays in _pairs(key, out, "kvstore.pull"):
            self._pull(k, arrays)

    def pushpull(self, key, value, out=None, priority=0):
        """push, then pull into `out`, or into the pushed arrays."""
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority)

    def broadcast(self, key, value, out, priority=0):
        """init, then pull into `out`."""
        self.init(key, value)
        self.pull(key, out, priority)

    def row_sparse_pull(self, key, out=None, priority=0, row_ids=None):
        """Copies rows of values into row_sparse arrays: row_ids is one array of indices for all of `out`, or
        one each, in lists that may be nested as those of `out`."""
        if out is None or row_ids is None:
            raise AssertionError("kvstore.row_sparse_pull: out and row_ids are required")
        keys, row_ids = _pairs(key, out, "kvstore.row_sparse_pull"), _flat(row_ids)
        targets = [(k, array) for k, arrays in keys for array in arrays]
        if len(row_ids) == 1:
            row_ids = row_ids * len(targets)
        if len(row_ids) != len(targets):
            raise ValueError(f"kvstore.row_sparse_pull: {len(targets)} arrays but {len(row_ids)} lists of rows")
        for (k, array), rows in zip(targets, row_ids):
            self._row_sparse_pull(k, array, rows)

    # ---- optimizer

    @staticmethod
    def is_capable(capability):
        if capability.lower() == KVStoreBase.OPTIMIZER:
            return True
        raise MXNetError(f"is_capable: unknown capability {capability!r}")

    def set_optimizer(self, optimizer):
        """From now on the optimizer updates the values with the pushed gradients."""
        from .. import optimizer as opt
        self._set_updater(opt.get_updater(optimizer))

    def set_updater(self, updater):
        """updater(key, pushed, stored) is called with every value that is pushed."""
        self._set_updater(updater)

    def set_gradient_compression(self, compression_params):
        """{'type': '2bit', 'threshold': 0.5}: gradients of several contexts are compressed to two bits per element."""
        self._set_compression(*checked(compression_params))

    def save_optimizer_states(self, fname, dump_optimizer=False):
        """Saves the states of the optimizer to a file."""
        if self._updater is None:
            raise AssertionError("kvstore: there is no optimizer whose states could be saved")
        _core.write_file(fname, self._updater.get_states(dump_optimizer))

    def load_optimizer_states(self, fname):
        """Loads the states of the optimizer from a file."""
        if self._updater is None:
            raise AssertionError("kvstore: there is no optimizer whose states could be loaded")
        with open(fname, "rb") as file:
            self._updater.set_states(file.read())
            self._set_updater(self._updater)  # its optimizer may have been replaced

    # ---- the process

    def barrier(self):
        """Returns when all processes have called it."""
        self._barrier()

    def _send_command_to_servers(self, head, body):
        """Does nothing: there are no servers."""
