"""Exchanges between the processes of one program, under the names of Horovod:

    import mxnet.distributed as hvd
    hvd.init()
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1})

started as ``mpirun -np 4 python train.py`` or ``gluon run -n 4 -- python train.py``.  A process that was started alone
is rank 0 of 1, so the same program runs there.  All processes make the same calls in the same order.
"""
import pickle

from . import _core, _processes
from . import ndarray as nd
from .gluon.trainer import Trainer
from .optimizer import Optimizer

__all__ = ["init", "shutdown", "is_initialized", "rank", "size", "local_rank", "local_size", "cross_rank", "cross_size",
           "allreduce", "allreduce_", "allreduce_async", "grouped_allreduce", "grouped_allreduce_", "broadcast",
           "broadcast_", "allgather", "reducescatter", "alltoall", "barrier", "synchronize", "poll", "broadcast_object",
           "allgather_object", "broadcast_parameters", "reduce_metric", "DistributedTrainer", "DistributedOptimizer", "Compression",
           "Sum", "Average", "Min", "Max", "Product", "mpi_built", "nccl_built", "gloo_built"]

Sum, Average, Min, Max, Product = "sum", "mean", "min", "max", "product"
_REDUCTIONS = {"sum": 0, "mean": 1, "average": 1, "min": 2, "max": 3, "product": 4}


class Compression:
    """How gradients travel: as they are, or in 16 bits."""

    none, fp16 = "none", "fp16"


# ---- who we are

def init(*_, **__):
    """Opens the communication; other calls do it by themselves."""
    if _core.comm_info()[2] > 1:
        _processes.watch()


def shutdown():
    """Waits for all processes and ends the communication; exiting does it as well."""
    _core.comm_shutdown()


def is_initialized():
    """True: the communication opens when it is needed."""
    return True


def rank():
    """The number of this process, from 0 on."""
    return _core.comm_info()[1]


def size():
    """The number of processes."""
    return _core.comm_info()[2]


def local_rank():
    """The number of this process among those of its machine."""
    return _core.comm_info()[3]


def local_size():
    """The number of processes on this machine."""
    return _core.comm_info()[4]


def cross_rank():
    """The number of this machine, if all have as many processes."""
    return rank() // local_size()


def cross_size():
    """The number of machines, if all have as many processes."""
    return -(-size() // local_size())


def mpi_built():
    """Whether this process exchanges messages through MPI."""
    return _core.comm_info()[0] == "mpi"


def nccl_built():
    """False: arrays on GPUs travel through host memory."""
    return False


def gloo_built():
    """False: there is no Gloo."""
    return False


# ---- exchanges

def _how(op, average):
    if average is not None:
        op = "mean" if average else "sum"
    if str(op).lower() not in _REDUCTIONS:
        raise ValueError(f"unknown reduction {op!r}; there are {', '.join(_REDUCTIONS)}")
    return _REDUCTIONS[str(op).lower()]


def allreduce_async_(tensor, average=None, name=None, priority=0, op="mean"):
    """Starts allreduce_(); synchronize() waits for it.  Until then the array must not be used."""
    return _core.comm_reduce_start(tensor, _how(op, average))


def allreduce_async(tensor, average=None, name=None, priority=0, op="mean"):
    """Starts allreduce(); synchronize() waits for it and returns the result."""
    return allreduce_async_(tensor.copy(), average, name, priority, op)


def allreduce_(tensor, average=None, name=None, priority=0, prescale_factor=1.0, postscale_factor=1.0, op="mean"):
    """The array becomes the mean (op: 'sum', 'min', 'max', 'product') over all processes."""
    how = _how(op, average)
    if prescale_factor != 1:
        tensor *= prescale_factor
    _core.comm_reduce_start(tensor, how).wait()
    if postscale_factor != 1:
        tensor *= postscale_factor
    return tensor


def allreduce(tensor, average=None, name=None, priority=0, prescale_factor=1.0, postscale_factor=1.0, op="mean"):
    """The mean (op: 'sum', 'min', 'max', 'product') of an array over all processes, as a new array."""
    return allreduce_(tensor.copy(), average, name, priority, prescale_factor, postscale_factor, op)


def grouped_allreduce_(tensors, average=None, name=None, priority=0, op="mean"):
    """allreduce_() of several arrays at once."""
    for work in [allreduce_async_(x, average, name, priority, op) for x in tensors]:
        work.wait()
    return tensors


def grouped_allreduce(tensors, average=None, name=None, priority=0, op="mean"):
    """allreduce() of several arrays at once."""
    return grouped_allreduce_([x.copy() for x in tensors], average, name, priority, op)


def broadcast_(tensor, root_rank, name=None, priority=0):
    """The array becomes that of the root."""
    return _core.comm_broadcast_start(tensor, root_rank).wait()


def broadcast(tensor, root_rank, name=None, priority=0):
    """The array of the root, as a new array."""
    return broadcast_(tensor.copy(), root_rank)


def allgather(tensor, name=None, priority=0):
    """The arrays of all processes, one after the other along the first axis, which may differ."""
    return _core.comm_gather(tensor)


def reducescatter(tensor, name=None, priority=0, op="mean"):
    """Part `rank` of the mean (op: 'sum' ...) over all processes, of `size` equal parts of the first axis."""
    return _core.comm_reduce_scatter(tensor, _how(op, None))


def alltoall(tensor, splits=None, name=None, priority=0):
    """Part i of `size` equal parts of the first axis goes to process i; the result has the parts from all.

    splits: rows of each part, a list or an array; then the result is a pair: the parts, and how many rows came from each
    process (int32)."""
    if splits is None:
        return _core.comm_all_to_all(tensor)
    rows = splits.asnumpy().tolist() if isinstance(splits, nd.NDArray) else list(splits)
    parts, received = _core.comm_all_to_all_rows(tensor, [int(n) for n in rows])
    return parts, nd.array(received, dtype="int32")


def barrier():
    """Returns when all processes have called it."""
    _core.comm_barrier()


def synchronize(work):
    """Waits for an exchange that was started; returns its array."""
    return work.wait()


def poll(work):
    """Whether synchronize() would return at once."""
    return work.done()


def broadcast_object(obj=None, root_rank=0, name=None):
    """The object of the root (pickled), on all processes."""
    own = pickle.dumps(obj) if rank() == root_rank else b""
    return pickle.loads(_core.comm_broadcast_bytes(own, root_rank))


def allgather_object(obj, name=None):
    """The objects of all processes (pickled), a list by rank."""
    return [broadcast_object(obj, root) for root in range(size())]


def broadcast_parameters(params, root_rank=0, prefix=None):
    """The values of a ParameterDict or of a dict of arrays become those of the root; parameters whose shape is not known
    yet get them when a trainer uses them."""
    for name in sorted(params.keys()):
        value = params[name]
        if isinstance(value, nd.NDArray):
            broadcast_(value, root_rank)
        elif value._data is not None or not value._deferred_init:
            first, *others = value.list_data()
            broadcast_(first, root_rank)
            for other in others:
                other[:] = first


def reduce_metric(metric):
    """Adds what all processes counted, so that metric.get() is that of all their examples; reset() it afterwards."""
    for child in getattr(metric, "metrics", ()):
        reduce_metric(child)
    if isinstance(metric, _core.MetricRow):
        metric._reduce()
    elif not hasattr(metric, "metrics"):
        names = ("sum_metric", "num_inst", "global_sum_metric", "global_num_inst")
        counts = nd.array([getattr(metric, name) for name in names], dtype="float64")
        for name, value in zip(names, allreduce_(counts, op="sum").asnumpy().tolist()):
            setattr(metric, name, value)
    return metric


# ---- training

class DistributedTrainer(Trainer):
    """A Trainer whose gradients are averaged over all processes, while backward goes on: step() gets the batch size of
    one process.  compression: Compression.fp16 halves what travels.  gradient_predivide_factor and num_groups are
    accepted: gradients are packed by size, and the mean is the same."""

    def __init__(self, params, optimizer, optimizer_params=None, compression=Compression.none,
                 gradient_predivide_factor=1.0, prefix=None, num_groups=0, **options):
        if isinstance(optimizer, DistributedOptimizer):
            optimizer = optimizer._optimizer
        options.setdefault("update_on_kvstore", False)
        if compression not in (None, Compression.none):
            options["compression_params"] = {"type": compression}
        super().__init__(params, optimizer, optimizer_params, kvstore="dist_sync", **options)

    def step(self, batch_size, ignore_stale_grad=False):
        """Exchanges gradients and updates; batch_size is that of one process."""
        super().step(batch_size * size(), ignore_stale_grad)

    def update(self, batch_size, ignore_stale_grad=False):
        """Updates with exchanged gradients; batch_size is that of one process."""
        super().update(batch_size * size(), ignore_stale_grad)


class DistributedOptimizer(Optimizer):
    """Wraps an optimizer: the gradients of update() are averaged over all processes first."""

    def __init__(self, optimizer, gradient_predivide_factor=1.0, num_groups=0):
        super().__init__(rescale_grad=optimizer.rescale_grad, learning_rate=optimizer.learning_rate)
        self._optimizer = optimizer

    def create_state(self, index, weight):
        """The state of a weight: that of the wrapped optimizer."""
        return self._optimizer.create_state_multi_precision(index, weight)

    def update(self, index, weight, grad, state):
        """One update of a weight, or of a list of them, with the mean gradient."""
        grouped_allreduce_(list(grad) if isinstance(grad, (list, tuple)) else [grad])
        self._optimizer.rescale_grad = self.rescale_grad
        self._optimizer.update_multi_precision(index, weight, grad, state)

    def set_learning_rate(self, lr):
        """Sets the learning rate."""
        super().set_learning_rate(lr)
        self._optimizer.set_learning_rate(lr)
