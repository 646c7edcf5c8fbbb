"""The interface of key-value stores, and their creation by name."""
from .. import _core

__all__ = ["KVStoreBase", "TestStore", "create"]


class KVStoreBase:
    """Base of stores: a registered subclass can be created by create() and passed to a Trainer."""

    OPTIMIZER = "optimizer"
    kv_registry = {}

    def broadcast(self, key, value, out, priority=0):
        """Copies the value of a key into all arrays of `out`."""
        raise NotImplementedError(f"{type(self).__name__} does not override broadcast")

    def pushpull(self, key, value, out=None, priority=0):
        """Sums `value` over contexts, into `out` or in place."""
        raise NotImplementedError(f"{type(self).__name__} does not override pushpull")

    def set_optimizer(self, optimizer):
        """The optimizer that updates values."""
        raise NotImplementedError(f"{type(self).__name__} does not override set_optimizer")

    @staticmethod
    def is_capable(capability):
        """Whether the store can run an optimizer (capability 'optimizer')."""
        raise NotImplementedError("is_capable is not overridden")

    def save_optimizer_states(self, fname, dump_optimizer=False):
        """Saves the optimizer's states."""
        raise NotImplementedError(f"{type(self).__name__} does not override save_optimizer_states")

    def load_optimizer_states(self, fname):
        """Loads the optimizer's states."""
        raise NotImplementedError(f"{type(self).__name__} does not override load_optimizer_states")

    @property
    def type(self):
        """The name of the kind of store."""
        raise NotImplementedError(f"{type(self).__name__} does not override type")

    @property
    def rank(self):
        """The rank of this process."""
        raise NotImplementedError(f"{type(self).__name__} does not override rank")

    @property
    def num_workers(self):
        """The number of processes."""
        raise NotImplementedError(f"{type(self).__name__} does not override num_workers")

    @staticmethod
    def register(klass):
        """Registers a store class under its name in lower case."""
        if not isinstance(klass, type):
            raise AssertionError(f"KVStoreBase.register: expected a class, got {klass!r}")
        KVStoreBase.kv_registry[klass.__name__.lower()] = klass
        return klass


def as_list(x):
    """x itself if it is a list, else a list of it."""
    return list(x) if isinstance(x, (list, tuple)) else [x]


@KVStoreBase.register
class TestStore(KVStoreBase):
    """A store without state: it only sums and copies."""

    def broadcast(self, key, value, out, priority=0):
        for array in as_list(out):
            array[:] = value

    def pushpull(self, key, value, out=None, priority=0):
        values = as_list(value)
        sums = _core.KVStore()  # a store of the library for this one sum
        sums._begin("local")
        sums._init(0, values[:1])
        sums._push(0, values)
        sums._pull(0, values if out is None else as_list(out))

    @staticmethod
    def is_capable(capability):
        if capability.lower() == KVStoreBase.OPTIMIZER:
            return False
        raise ValueError(f"is_capable: unknown capability {capability!r}")

    type = property(lambda self: "teststore", doc="The name of the kind of store.")
    rank = property(lambda self: 0, doc="The rank of this process.")
    num_workers = property(lambda self: 1, doc="The number of processes.")

    def set_optimizer(self, optimizer):
        raise NotImplementedError("TestStore runs no optimizer")

    def save_optimizer_states(self, fname, dump_optimizer=False):
        raise NotImplementedError("TestStore runs no optimizer")

    def load_optimizer_states(self, fname):
        raise NotImplementedError("TestStore runs no optimizer")


def create(name="local"):
    """A store: 'local' or 'device', which sum over the contexts of this process; 'dist_sync' ('dist_device_sync',
    'dist_async', 'p3', 'horovod'), which sum over all processes that were started together as well."""
    if not isinstance(name, str):
        raise TypeError(f"kvstore.create: expected a name, got {type(name).__name__}")
    kind = name.lower()
    if kind in KVStoreBase.kv_registry:
        return KVStoreBase.kv_registry[kind]()
    from .kvstore import KVStore
    return KVStore(name)
