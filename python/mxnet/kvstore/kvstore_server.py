"""Servers of distributed stores: there are none, and saying so is all this module does."""
from ..error import UnsupportedError

__all__ = ["KVStoreServer"]


class KVStoreServer:
    """What a server process of a distributed store ran."""

    def __init__(self, kvstore):
        self.kvstore = kvstore

    def run(self):
        """Refuses: there is no training over several machines."""
        raise UnsupportedError("KVStoreServer: there is no training over several machines")
