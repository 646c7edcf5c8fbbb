"""Servers of distributed stores: not supported, raises an error."""
from ..error import UnsupportedError

__all__ = ["KVStoreServer"]


class KVStoreServer:
    """What a server process of a distributed store ran."""

    def __init__(self, kvstore):
        self.kvstore = kvstore

    def run(self):
        """Raises an error: distributed training is not supported."""
        raise UnsupportedError("KVStoreServer: distributed training is not supported")
