"""The loader: batches of a data set, prefetched by threads or processes.

    for data, label in gluon.data.DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4):

Without workers batches are built on demand.  With workers, `prefetch` batches are built ahead: in processes (Python code
runs in one thread of an interpreter at a time) or, with thread_pool=True and if the library alone builds the batches
(_whole.py), in threads.  Batches always have the sampler's order.  With pin_memory=True batches are in pinned memory, from
which copies to a GPU are fastest.

Libraries that bring loaders of their own use the attributes of DataLoader (_dataset, _batchify_fn, _worker_pool ...) and
subclass _MultiWorkerIter, which builds batches in a pool with apply_async(); _pool_workers.py has these parts.
"""
import weakref
from multiprocessing.reduction import ForkingPickler  # noqa: F401 - libraries import it from here

from ..._core import NDArray
from ...context import cpu_pinned
from . import _pool_workers, batchify, sampler as _sampler
from ._pool_workers import (_MultiWorkerIter, _as_in_context, _thread_worker_fn,  # noqa: F401
                            _thread_worker_initializer, _worker_fn, _worker_initializer)
from ._whole import made_by_library, whole_batches
from ._workers import ProcessWorkers, ThreadWorkers

__all__ = ["DataLoader", "default_batchify_fn", "default_mp_batchify_fn"]


def default_batchify_fn(data):
    """Stacks examples: tuples become a list of batches, dicts a dict of them, everything else one array."""
    first = data[0]
    if isinstance(first, tuple):
        return [default_batchify_fn(part) for part in zip(*data)]
    if isinstance(first, dict):
        return {key: default_batchify_fn([item[key] for item in data]) for key in first}
    return batchify.stack(data)


default_mp_batchify_fn = default_batchify_fn


class _Maker:
    """indices -> batch."""

    def __init__(self, dataset, batchify_fn):
        self._dataset, self._batchify = dataset, batchify_fn
        self._whole = whole_batches(dataset) if batchify_fn is default_batchify_fn else None

    def in_library(self):
        """Whether the library alone, or nearly so, builds a batch."""
        return self._whole is not None or (self._batchify is default_batchify_fn and made_by_library(self._dataset))

    def __call__(self, indices):
        parts = self._whole.gather(indices) if self._whole is not None else None
        if parts is None:
            dataset = self._dataset
            return self._batchify([dataset[i] for i in indices])
        return parts[0] if self._whole.single else parts


def _moved(batch, context):
    """The batch with its dense arrays in another context."""
    if isinstance(batch, NDArray):
        return batch.as_in_context(context) if batch.stype == "default" else batch
    if isinstance(batch, dict):
        return {key: _moved(part, context) for key, part in batch.items()}
    return type(batch)(_moved(part, context) for part in batch) if type(batch) in (list, tuple) else batch


class _Pinned:
    """indices -> batch in pinned memory."""

    def __init__(self, make, context):
        self._make, self._context = make, context

    def __call__(self, indices):
        return _moved(self._make(indices), self._context)


class DataLoader:
    """Batches of a data set.

    batch_size, shuffle, sampler, last_batch ('keep', 'discard', 'rollover') or a batch_sampler select the examples of a
    batch; batchify_fn combines them. num_workers > 0 builds batches ahead of time; timeout is in seconds. With pin_memory
    batches are in cpu_pinned(pin_device_id). shard=True: each of the processes that were started together gets its part of
    the data set (SplitSampler).
    """

    _pool = None  # workers of _workers.py
    _own_pool = False  # a pool for libraries; False: none was made or assigned yet
    _num_workers = 0

    def __init__(self, dataset, batch_size=None, shuffle=False, sampler=None, last_batch=None, batch_sampler=None,
                 batchify_fn=None, num_workers=0, pin_memory=False, pin_device_id=0, prefetch=None, thread_pool=False,
                 timeout=120, try_nopython=None, auto_reload=False, shard=False):
        if timeout <= 0:
            raise AssertionError(f"DataLoader: timeout must be positive, got {timeout}")
        self._dataset = dataset
        if shard and (sampler is not None or batch_sampler is not None):
            raise ValueError("DataLoader: shard=True makes a sampler of its own; give a SplitSampler or shard, not both")
        if shard:
            sampler, shuffle = _sampler.SplitSampler(len(dataset), shuffle=shuffle), False
        if batch_sampler is None:
            batch_sampler = _make_sampler(dataset, batch_size, shuffle, sampler, last_batch)
        elif batch_size is not None or shuffle or sampler is not None or last_batch is not None:
            raise ValueError("DataLoader: batch_sampler excludes batch_size, shuffle, sampler and last_batch")
        self._batch_sampler = batch_sampler
        self._batchify_fn = default_batchify_fn if batchify_fn is None else batchify_fn
        self._num_workers = max(0, num_workers)
        self._prefetch = max(0, 2 * self._num_workers if prefetch is None else prefetch)
        self._thread_pool, self._timeout = thread_pool, timeout
        self._pin_memory, self._pin_device_id = pin_memory, pin_device_id
        self.auto_reload, self._iter = auto_reload, None

    def __len__(self):
        return len(self._batch_sampler)

    def __iter__(self):
        make = _Maker(self._dataset, self._batchify_fn)
        return self._ahead(make) if self._num_workers else map(self._pinning(make), self._batch_sampler)

    def __getstate__(self):
        """Without the workers, which belong to this process."""
        return {name: value for name, value in vars(self).items()
                if name not in ("_pool", "_own_pool", "_finalizer", "_pool_finalizer", "_made")}

    def _pinned(self):
        return cpu_pinned(self._pin_device_id) if self._pin_memory else None

    def _pinning(self, make):
        return make if self._pinned() is None else _Pinned(make, self._pinned())

    @property
    def _worker_pool(self):
        """A pool of processes (threads, with thread_pool) that know the data set, created when a library asks for it."""
        if self._own_pool is False and self._num_workers:
            self._own_pool = _pool_workers.make_pool(self._num_workers, self._dataset, self._thread_pool)
            self._pool_finalizer = weakref.finalize(self, self._own_pool.terminate)
        return self._own_pool or None

    @_worker_pool.setter
    def _worker_pool(self, pool):
        self._own_pool = pool

    def _ahead(self, make):
        """Keeps `prefetch` batches in progress."""
        made = (id(self._dataset), self._batchify_fn, self._num_workers, self._thread_pool, self._pinned())
        if self._pool is None or made != self._made:
            self.clean()
            kind = ThreadWorkers if self._thread_pool or make.in_library() else ProcessWorkers
            # Worker processes have no GPU: their batches are pinned when they arrive.
            self._pool, self._made = kind(make if kind is ProcessWorkers else self._pinning(make), self._num_workers), made
            self._finalizer = weakref.finalize(self, self._pool.stop)  # when the loader or the process ends
        pool, under_way = self._pool, []
        try:
            for indices in self._batch_sampler:
                under_way.append(pool.ask(indices))
                if len(under_way) > max(1, self._prefetch):
                    yield self._received(pool, under_way.pop(0))
            while under_way:
                yield self._received(pool, under_way.pop(0))
        finally:
            for job in under_way:
                pool.forget(job)

    def _received(self, pool, job):
        batch = pool.receive(job, self._timeout)
        return batch if self._pinned() is None else _moved(batch, self._pinned())

    def clean(self):
        """Stops the workers; the next epoch starts new ones."""
        if self._pool is not None:
            self._finalizer()
            self._pool = None

    refresh = clean


DataLoaderV1 = DataLoader  # the name of an older one, which some programs still use


def _make_sampler(dataset, batch_size, shuffle, sampler, last_batch):
    if batch_size is None:
        raise ValueError("DataLoader: batch_size (or batch_sampler) must be given")
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"DataLoader: batch_size must be a positive integer, got {batch_size!r}")
    if sampler is None:
        sampler = _sampler.RandomSampler(len(dataset)) if shuffle else _sampler.SequentialSampler(len(dataset))
    elif shuffle:
        raise ValueError("DataLoader: a sampler and shuffle=True exclude each other")
    return _sampler.BatchSampler(sampler, batch_size, last_batch or "keep")
