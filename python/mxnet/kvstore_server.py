"""The old module of mxnet.kvstore.KVStoreServer."""
from .kvstore.kvstore_server import KVStoreServer  # noqa: F401
