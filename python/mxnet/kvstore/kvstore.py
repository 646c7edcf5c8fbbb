"""The local store: values by key, sums over contexts, an optimizer if wanted."""
from .. import _core
from .._core import NDArray
from ..error import MXNetError, UnsupportedError
from .base import KVStoreBase, as_list, total
from .compression import TwoBit

__all__ = ["KVStore"]


class KVStore(KVStoreBase):
    """Values by key: push() sums over contexts, through an updater if there is one; pull() copies to all."""

    def __init__(self, handle="local"):
        self._type = handle
        self._values, self._updater, self._updater_func = {}, None, None
        self._keys_are_text = self._compression = None

    # ---- arguments

    def _pairs(self, key, value, who):
        """[(key, [arrays])] of one key with one or several arrays, or of lists of both."""
        if not isinstance(key, (list, tuple)):
            return [(self._checked(key), self._arrays(value, who))]
        if len(key) != len(value):
            raise AssertionError(f"{who}: {len(key)} keys but {len(value)} values")
        merged = {}
        for k, v in zip(key, value):
            merged.setdefault(self._checked(k), []).extend(self._arrays(v, who))
        return list(merged.items())

    def _checked(self, key):
        if not isinstance(key, (int, str)):
            raise TypeError(f"kvstore: keys are ints or strings, got {type(key).__name__}")
        if self._keys_are_text is None:
            self._keys_are_text = isinstance(key, str)
        if isinstance(key, str) is not self._keys_are_text:
            raise MXNetError("kvstore: the keys of one store are all ints or all strings")
        return key

    def _arrays(self, value, who):
        arrays = as_list(value)
        for array in arrays:
            if not isinstance(array, NDArray):
                raise TypeError(f"{who}: NDArrays are wanted, got {type(array).__name__}")
        return arrays

    def _known(self, key):
        if key not in self._values:
            raise MXNetError(f"kvstore: key {key!r} was not initialized; call init() first")
        return self._values[key]

    # ---- values

    def init(self, key, value):
        """Gives keys their first values; each key once."""
        for k, arrays in self._pairs(key, value, "kvstore.init"):
            if k in self._values:
                raise MXNetError(f"kvstore.init: key {k!r} was initialized before")
            self._values[k] = arrays[0].copy()

    def push(self, key, value, priority=0):
        """Sums the arrays of a key over contexts; the sum replaces the value, or goes through the updater."""
        for k, arrays in self._pairs(key, value, "kvstore.push"):
            stored = self._known(k)
            if self._compression is not None and len(arrays) > 1:
                arrays = self._compression.pressed(k, arrays)
            summed = total(arrays)
            if self._updater is None:
                self._values[k] = summed.as_in_context(stored.context)
            else:
                self._updater(k, summed.as_in_context(stored.context), stored)

    def pull(self, key, out=None, priority=0, ignore_sparse=True):
        """Copies the values of keys into all arrays of `out`."""
        if out is None:
            raise AssertionError("kvstore.pull: out is missing")
        for k, arrays in self._pairs(key, out, "kvstore.pull"):
            value = self._known(k)
            for array in arrays:
                value.copyto(array)

    def pushpull(self, key, value, out=None, priority=0):
        """push, then pull into `out`, or into the pushed arrays."""
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority)

    def broadcast(self, key, value, out, priority=0):
        """init, then pull into `out`."""
        self.init(key, value)
        self.pull(key, out, priority)

    def row_sparse_pull(self, key, out=None, priority=0, row_ids=None):
        """Copies rows of values into row_sparse arrays: row_ids, one list of numbers for all of `out`, or one each."""
        if out is None or row_ids is None:
            raise AssertionError("kvstore.row_sparse_pull: out and row_ids are wanted")
        keys, row_ids = self._pairs(key, out, "kvstore.row_sparse_pull"), as_list(row_ids)
        targets = [(k, array) for k, arrays in keys for array in arrays]
        if len(row_ids) == 1:
            row_ids = row_ids * len(targets)
        if len(row_ids) != len(targets):
            raise ValueError(f"kvstore.row_sparse_pull: {len(targets)} arrays but {len(row_ids)} lists of rows")
        for (k, array), rows in zip(targets, row_ids):
            if array.stype != "row_sparse":
                raise ValueError(f"kvstore.row_sparse_pull: out must be row_sparse, got '{array.stype}'")
            value = self._known(k)
            rows = rows.reshape((-1,)).as_in_context(value.context)
            array[:] = value.retain(rows) if value.stype == "row_sparse" else _core.sparse_pick(value, rows)

    # ---- optimizer

    @staticmethod
    def is_capable(capability):
        if capability.lower() == KVStoreBase.OPTIMIZER:
            return True
        raise MXNetError(f"is_capable: unknown capability {capability!r}")

    def set_optimizer(self, optimizer):
        """What is pushed are gradients from now on: the optimizer updates the values."""
        from .. import optimizer as opt
        self._set_updater(opt.get_updater(optimizer))

    def _set_updater(self, updater):
        self._updater = self._updater_func = updater

    def set_updater(self, updater):
        """updater(key, pushed, stored) is called with every value that is pushed."""
        self._set_updater(updater)

    def set_gradient_compression(self, compression_params):
        """{'type': '2bit', 'threshold': 0.5}: gradients of several contexts are summed in two bits per element."""
        compression = TwoBit.from_params(compression_params)
        if self._type not in ("device", "local_allreduce_device", "nccl"):
            raise UnsupportedError(f"kvstore '{self._type}': gradients are compressed by 'device' stores only")
        self._compression = compression

    def save_optimizer_states(self, fname, dump_optimizer=False):
        """Saves the states of the optimizer to a file."""
        if self._updater is None:
            raise AssertionError("kvstore: there is no optimizer whose states could be saved")
        with open(fname, "wb") as file:
            file.write(self._updater.get_states(dump_optimizer))

    def load_optimizer_states(self, fname):
        """Loads the states of the optimizer from a file."""
        if self._updater is None:
            raise AssertionError("kvstore: there is no optimizer whose states could be loaded")
        with open(fname, "rb") as file:
            self._updater.set_states(file.read())

    # ---- the process

    @property
    def type(self):
        """The name that the store was made with."""
        return self._type

    @property
    def rank(self):
        """The number of this process: 0."""
        return 0

    @property
    def num_workers(self):
        """How many processes there are: 1."""
        return 1

    def _barrier(self):
        """There is nobody to wait for."""

    def _send_command_to_servers(self, head, body):
        """There are no servers."""
