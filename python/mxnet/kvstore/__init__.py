"""Key-value stores: sums of arrays over contexts and processes, by key."""
from .base import KVStoreBase, TestStore, create
from .kvstore import KVStore
from .kvstore_server import KVStoreServer

__all__ = ["KVStore", "KVStoreBase", "KVStoreServer", "create"]
