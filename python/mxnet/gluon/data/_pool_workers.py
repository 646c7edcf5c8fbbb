"""Parts of loaders that libraries write: a pool that knows the data set, and an iterator over the batches it builds.

The iterator keeps `prefetch` batches in progress: _push_next() gives the indices of the next batch to a worker with
apply_async(), __next__() waits for the oldest one.  Workers of a pool of processes return pickled batches; those of a
pool of threads return batches, and get the data set as an argument.
"""
import io
import multiprocessing
import multiprocessing.pool
import pickle
import signal
from multiprocessing.reduction import ForkingPickler

from ..._core import NDArray
from ...context import cpu, cpu_pinned
from ...util import np_switches, set_np

_worker_dataset = None  # in a worker process: the data set


def _as_in_context(data, ctx):
    """The arrays of a batch in another context; tuples become lists."""
    if isinstance(data, NDArray):
        return data.as_in_context(ctx)
    if isinstance(data, (list, tuple)):
        return [_as_in_context(part, ctx) for part in data]
    return data


def _worker_initializer(dataset, active_shape=False, active_array=False):
    """Runs at the start of a worker process."""
    global _worker_dataset
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the loader's process
    set_np(active_shape, active_array)
    cpu(0).__enter__()  # a forked process has no GPU, whatever the current context was
    _worker_dataset = dataset


def _worker_fn(samples, batchify_fn, dataset=None):
    """In a worker process: the pickled batch of these indices."""
    dataset = _worker_dataset if dataset is None else dataset
    buffer = io.BytesIO()
    ForkingPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(batchify_fn([dataset[i] for i in samples]))
    return buffer.getvalue()


def _thread_worker_initializer(active_shape=False, active_array=False):
    """Runs at the start of a worker thread: it has the switches of NumPy's interface that the loader's thread has."""
    set_np(active_shape, active_array)


def _thread_worker_fn(samples, batchify_fn, dataset):
    """In a worker thread: the batch of these indices."""
    return batchify_fn([dataset[i] for i in samples])


def make_pool(count, dataset, threads):
    """A pool of processes or threads."""
    if threads:
        return multiprocessing.pool.ThreadPool(count, set_np, np_switches())
    import warnings
    with warnings.catch_warnings():  # newer Pythons warn about forking with threads; our threads support it
        warnings.simplefilter("ignore", DeprecationWarning)
        return multiprocessing.get_context("fork").Pool(count, initializer=_worker_initializer,
                                                         initargs=(dataset, *np_switches()[:2]))


class _MultiWorkerIter:
    """Batches of a sampler, built by a pool.  dataset: None if the workers know it."""

    def __init__(self, worker_pool, batchify_fn, batch_sampler, pin_memory=False, pin_device_id=0, worker_fn=_worker_fn,
                 prefetch=0, dataset=None, data_loader=None, timeout=120):
        self._worker_pool, self._worker_fn = worker_pool, worker_fn
        self._batchify_fn, self._batch_sampler = batchify_fn, batch_sampler
        self._data_buffer = {}  # number of a batch -> its result
        self._rcvd_idx = self._sent_idx = 0
        self._iter = iter(batch_sampler)
        self._pin_memory, self._pin_device_id = pin_memory, pin_device_id
        self._dataset, self._data_loader, self._timeout = dataset, data_loader, timeout
        for _ in range(prefetch):
            self._push_next()

    def __len__(self):
        return len(self._batch_sampler)

    def _push_next(self):
        """Gives the next indices, if there are any, to a worker."""
        indices = next(self._iter, None)
        if indices is not None:
            self._data_buffer[self._sent_idx] = self._worker_pool.apply_async(
                self._worker_fn, (indices, self._batchify_fn, self._dataset))
            self._sent_idx += 1

    def __next__(self):
        self._push_next()
        if self._rcvd_idx == self._sent_idx:
            if self._data_buffer:
                raise AssertionError("_MultiWorkerIter: batches are left that were not asked for")
            raise StopIteration
        if self._rcvd_idx not in self._data_buffer:
            raise AssertionError(f"_MultiWorkerIter: batch {self._rcvd_idx} was not given to a worker")
        try:
            batch = self._data_buffer.pop(self._rcvd_idx).get(self._timeout)
        except multiprocessing.context.TimeoutError:
            raise RuntimeError(f"DataLoader: a worker took longer than {self._timeout} s for a batch; is it stuck? raise "
                               "timeout, or use num_workers=0 to see where") from None
        self._rcvd_idx += 1
        if isinstance(batch, bytes) and self._dataset is None:
            batch = pickle.loads(batch)
        return _as_in_context(batch, cpu_pinned(self._pin_device_id)) if self._pin_memory else batch

    def next(self):
        """The next batch."""
        return self.__next__()

    def __iter__(self):
        return self
