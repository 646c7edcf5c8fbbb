"""Workers of the loader: threads, or forked processes that pass arrays in shared memory.

A process receives lists of indices through a pipe and sends back batches.  Batch i goes to process i modulo the number of
processes, and every process replies in order: which process draws which random numbers does not depend on timing.
The arrays of a batch are stored one after the other in one anonymous file, whose descriptor is sent through the pipe;
the receiver maps it into memory.  So nothing is copied twice, and a crash leaves no file behind.
"""
import os
import pickle
import socket
import threading
import time
import traceback
import warnings

from ... import _core
from ..._core import NDArray
from ...util import np_switches, set_np


class ThreadWorkers:
    """Threads of this process: the right choice if batches are built by the library, which releases the GIL."""

    def __init__(self, make, count):
        from concurrent.futures import ThreadPoolExecutor
        self._make = make
        self._executor = ThreadPoolExecutor(
            count, thread_name_prefix="mxnet-loader", initializer=set_np, initargs=np_switches())

    def ask(self, indices):
        """Starts a batch; returns a ticket for receive() and forget()."""
        return self._executor.submit(self._make, indices)

    def receive(self, job, timeout):
        """The batch; waits for it."""
        from concurrent.futures import TimeoutError as FutureTimeout
        try:
            return job.result(timeout)
        except FutureTimeout:
            if job.done():  # the exception is the data set's
                raise
            raise _late(timeout) from None

    def forget(self, job):
        """Discards the batch."""
        job.cancel()

    def stop(self):
        """Stops the workers."""
        self._executor.shutdown(wait=False, cancel_futures=True)


class ProcessWorkers:
    """Forked processes: the data set is neither copied nor pickled."""

    def __init__(self, make, count):
        seed = _core.random_seed()
        self._owner = os.getpid()
        self._asked, self._lock = 0, threading.Lock()
        self._processes = [_Process(make, i, (seed + i) & 0x7FFFFFFF) for i in range(count)]

    def ask(self, indices):
        """Starts a batch; returns a ticket for receive() and forget()."""
        with self._lock:
            number = self._asked
            self._asked += 1
        process = self._processes[number % len(self._processes)]
        process.send(number, list(indices))
        return process, number

    def receive(self, job, timeout):
        """The batch; waits for it."""
        process, number = job
        return process.receive(number, timeout)

    def forget(self, job):
        """Discards the batch."""
        process, number = job
        process.forget(number)

    def stop(self):
        """Kills the processes, whatever they are doing."""
        if self._owner == os.getpid():  # a process forked from this one must not stop them
            for process in self._processes:
                process.stop()


def _late(timeout):
    return RuntimeError(f"DataLoader: a worker took longer than {timeout} s for a batch; is it stuck? raise "
                        "timeout, or use num_workers=0 to see where")


class _Process:
    """One worker, seen from the loader."""

    def __init__(self, make, rank, seed):
        import multiprocessing
        self._ready, self._unwanted, self._rank = {}, set(), rank
        self._socket, other = socket.socketpair()
        self._process = multiprocessing.get_context("fork").Process(
            target=_work, args=(make, other, self._socket, rank, seed), daemon=True, name=f"mxnet-loader-{rank}")
        with warnings.catch_warnings():  # newer Pythons warn about forking with threads; our threads support it
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        other.close()

    def send(self, number, indices):
        try:
            _send(self._socket, (number, indices))
        except OSError:
            raise self._dead() from None

    def receive(self, number, timeout):
        deadline = time.monotonic() + timeout
        while number not in self._ready:
            self._read(deadline, timeout)
        value, error, text = self._ready.pop(number)
        if error is not None:
            error.__cause__ = _Remote(f"in worker process {self._rank} of the DataLoader:\n{text}")
            raise error
        return value

    def _read(self, deadline, timeout):
        self._socket.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            answer, descriptor = _receive(self._socket)
        except socket.timeout:
            raise _late(timeout) from None
        except (EOFError, ConnectionError):
            raise self._dead() from None
        finally:
            self._socket.settimeout(None)
        number, value, layout, error, text = answer
        try:
            if number in self._unwanted:
                self._unwanted.discard(number)
                return
            arrays = _core.map_arrays(descriptor, layout) if layout else []
        finally:
            if descriptor is not None:
                os.close(descriptor)
        self._ready[number] = (_put_back(value, arrays), error, text)

    def forget(self, number):
        if self._ready.pop(number, None) is None:
            self._unwanted.add(number)

    def _dead(self):
        self._process.join(1)
        return RuntimeError(f"DataLoader: worker process {self._rank} died (exit code {self._process.exitcode}; a "
                            f"negative one "
                            "is a signal: -9 may mean out of memory); use num_workers=0 to see the cause")

    def stop(self):
        self._process.terminate()
        self._process.join(1)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._socket.close()


class _Remote(Exception):
    """The traceback of another process, as the cause of an exception."""


# ---- messages: 8 bytes of length, of which the first may carry a descriptor, then a pickle -------------------------

def _send(sock, message, descriptor=None):
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    head = len(body).to_bytes(8, "little")
    if descriptor is None:
        sock.sendall(head)
    else:
        import array
        sent = sock.sendmsg([head], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))])
        sock.sendall(head[sent:])
    sock.sendall(body)


def _receive(sock):
    """(message, descriptor or None); EOFError if the other side is gone."""
    import array
    descriptors = array.array("i")
    head, ancillary, _, _ = sock.recvmsg(8, socket.CMSG_LEN(descriptors.itemsize))
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[:descriptors.itemsize])
    descriptor = descriptors[0] if descriptors else None
    try:
        head += _exactly(sock, 8 - len(head)) if head else b""
        if not head:
            raise EOFError
        return pickle.loads(_exactly(sock, int.from_bytes(head, "little"))), descriptor
    except BaseException:
        if descriptor is not None:
            os.close(descriptor)
        raise


def _exactly(sock, count):
    data = bytearray(count)
    view, at = memoryview(data), 0
    while at < count:
        got = sock.recv_into(view[at:])
        if not got:
            raise EOFError
        at += got
    return bytes(data)


# ---- inside a worker process ---------------------------------------------------------------------------------------

def _work(make, sock, other, rank, seed):
    """The main loop of a worker: serves requests until the loader is gone."""
    import queue
    import signal
    other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the loader's process, which then stops this one
    _own_random_numbers(seed)
    _core.set_num_threads(1)
    requests = queue.Queue()
    threading.Thread(target=_listen, args=(sock, requests), daemon=True).start()
    from ...context import cpu
    with cpu(0):
        while True:
            number, indices = requests.get()
            _answer(sock, number, make, indices)


def _listen(sock, requests):
    """Runs in its own thread, so that the loader never waits for a worker that waits for the loader."""
    try:
        while True:
            requests.put(_receive(sock)[0])
    except (EOFError, OSError):
        os._exit(0)


def _own_random_numbers(seed):
    import random
    import sys
    _core.seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def _answer(sock, number, make, indices):
    arrays = []
    descriptor, layout, value, error, text = None, [], None, None, None
    try:
        value = _take_out(make(indices), arrays)
        if arrays:
            descriptor, layout = _core.store_arrays(arrays)
        _send(sock, (number, value, layout, None, None), descriptor)
    except OSError as caught:
        if isinstance(caught, (BrokenPipeError, ConnectionError)):
            os._exit(0)
        error, text = caught, traceback.format_exc()
    except BaseException as caught:  # noqa: B902 - is sent to the loader
        error, text = caught, traceback.format_exc()
    finally:
        if descriptor is not None:
            os.close(descriptor)
    if error is not None:
        _send(sock, (number, None, [], _travelling(error), text))


def _travelling(error):
    """The exception if it can be pickled, else one with its text."""
    try:
        copy = pickle.loads(pickle.dumps(error))
        if type(copy) is type(error):
            return error
    except Exception:
        pass
    return RuntimeError(f"{type(error).__name__}: {error}")


class _Place:
    """Placeholder of array i."""

    def __init__(self, i):
        self.i = i


def _take_out(value, arrays):
    """The value with placeholders instead of arrays."""
    if isinstance(value, NDArray):
        arrays.append(value)
        return _Place(len(arrays) - 1)
    if type(value) in (list, tuple):
        return type(value)([_take_out(item, arrays) for item in value])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_take_out(item, arrays) for item in value])
    if type(value) is dict:
        return {key: _take_out(item, arrays) for key, item in value.items()}
    return value


def _put_back(value, arrays):
    if isinstance(value, _Place):
        return arrays[value.i]
    if type(value) in (list, tuple):
        return type(value)([_put_back(item, arrays) for item in value])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_put_back(item, arrays) for item in value])
    if type(value) is dict:
        return {key: _put_back(item, arrays) for key, item in value.items()}
    return value
