"""Monitors: statistics of the values in a network, every few batches."""
import ctypes
import logging
import re

from ._core import NDArray


def _size(x):
    return x.norm() / x.size ** 0.5


class Monitor:
    """Collects stat_func of outputs whose names match `pattern`, every `interval` batches.

    install() takes an executor, or a Block, whose children are then watched by hooks.  Call tic() before a batch and
    toc() after it, which returns [(batch, name, text), ...], or toc_print(), which logs them.
    """

    def __init__(self, interval, stat_func=None, pattern=".*", sort=False, monitor_all=False):
        self.stat_func = stat_func or _size
        self.interval, self.sort, self.monitor_all = interval, sort, monitor_all
        self.activated, self.step = False, 0
        self.queue, self.exes = [], []
        self.re_prog = re.compile(pattern)
        self.stat_helper = self._note

    def _note(self, name, array):
        if isinstance(name, bytes):  # from an executor
            name, array = name.decode(), NDArray(ctypes.c_void_p(array), writable=False)
        if self.activated and self.re_prog.match(name):
            self.queue.append((self.step, name, self.stat_func(array)))

    def install(self, exe):
        """Watches an executor or a Block."""
        if hasattr(exe, "set_monitor_callback"):
            exe.set_monitor_callback(self.stat_helper, self.monitor_all)
        elif hasattr(exe, "register_forward_hook"):
            exe.apply(self._hook)
        else:
            raise TypeError(f"Monitor.install: expected an executor or a Block, got {type(exe).__name__}")
        self.exes.append(exe)

    def _hook(self, block):
        def note(block, inputs, outputs):
            outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
            for i, array in enumerate(outputs):
                if isinstance(array, NDArray):
                    self._note(f"{block.name}_output{i if len(outputs) > 1 else ''}", array)
        block.register_forward_hook(note)

    def tic(self):
        """Call before a batch: starts collecting if it is due."""
        if self.step % self.interval == 0:
            self.queue, self.activated = [], True
        self.step += 1

    def toc(self):
        """Call after a batch: returns the collected statistics and those of the parameters."""
        if not self.activated:
            return []
        for exe in self.exes:
            for name, array in _named_arrays(exe):
                self._note(name, array)
        self.activated = False
        if self.sort:
            self.queue.sort(key=lambda entry: entry[1])
        result = [(step, name, _text(value)) for step, name, value in self.queue]
        self.queue = []
        return result

    def toc_print(self):
        """toc(), logged."""
        for step, name, text in self.toc():
            logging.info("Batch: %7d %30s %s", step, name, text)


def _named_arrays(exe):
    if hasattr(exe, "collect_params"):
        return [(p.name, p.data()) for p in exe.collect_params().values()]
    return list(zip(exe._symbol.list_arguments(), exe.arg_arrays)) + \
        list(zip(exe._symbol.list_auxiliary_states(), exe.aux_arrays))


def _text(value):
    values = value if isinstance(value, list) else [value]
    return ",".join(str(v.asscalar() if isinstance(v, NDArray) and v.size == 1 else
                        v.asnumpy() if isinstance(v, NDArray) else v) for v in values)
