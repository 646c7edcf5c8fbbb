"""Servers of distributed stores: there are none, processes exchange their gradients among themselves."""
import os
import sys

__all__ = ["KVStoreServer"]

_ADVICE = ("there are no servers and no scheduler: start the training program alone, once per worker, with "
           "'mpirun -np N python train.py' or 'gluon run -n N -- python train.py'")


class KVStoreServer:
    """What a server process of a distributed store ran."""

    def __init__(self, kvstore):
        self.kvstore = kvstore

    def run(self):
        """Returns at once: there is nothing to serve."""
        print(f"KVStoreServer: {_ADVICE}", file=sys.stderr)


def _init_kvstore_server_module():
    """A process that an old launch script started as a server or scheduler says so and ends."""
    role = os.environ.get("DMLC_ROLE", "worker")
    if role in ("server", "scheduler"):
        print(f"mxnet: this process was started with DMLC_ROLE={role}, but {_ADVICE}", file=sys.stderr)
        sys.exit(0)
