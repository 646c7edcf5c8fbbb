"""The profiler: what ran, when and for how long, as a Chrome trace and as tables.

    mx.profiler.set_config(filename="lenet.json")
    mx.profiler.set_state("run")
    train()
    mx.profiler.set_state("stop")
    print(mx.profiler.dumps())       # per operator: count, total, min, max, mean
    mx.profiler.dump()               # open the file in chrome://tracing or Perfetto
"""
import atexit
import threading
import warnings

from . import _core
from .base import MXNetError

__all__ = ["set_config", "set_state", "start", "stop", "pause", "resume", "dump", "dumps", "scope", "Domain", "Task",
           "Frame", "Event", "Counter", "Marker", "profiler_set_config", "profiler_set_state", "dump_profile",
           "set_kvstore_handle"]

# Options of set_config: name -> its default.  Operators are profiled unless something narrower is selected.
_OPTIONS = {"filename": "profile.json", "profile_all": None, "profile_symbolic": None, "profile_imperative": None,
            "profile_memory": None, "profile_api": None, "continuous_dump": False, "dump_period": 1.0,
            "aggregate_stats": True, "profile_process": "worker", "gpu_memory_profile_filename_prefix": None}
_OPERATORS = ("profile_all", "profile_symbolic", "profile_imperative")
_write_at_exit = False


def set_config(**kwargs):
    """Sets what to profile and where to write.

    filename is the trace that dump() writes.  profile_imperative selects operators that are called one by one,
    profile_symbolic those of compiled plans, profile_memory the memory in use, profile_all everything; without any of
    them all operators are profiled.  With continuous_dump the trace is also written when the program ends.
    The statistics of dumps() are always collected; aggregate_stats, dump_period and profile_process are ignored.
    """
    unknown = sorted(set(kwargs) - set(_OPTIONS))
    if unknown:
        raise MXNetError(f"profiler.set_config: no option '{unknown[0]}'; there are {', '.join(sorted(_OPTIONS))}")
    given = {**_OPTIONS, **kwargs}
    everything = bool(given["profile_all"])
    chosen = any(given[name] for name in _OPERATORS)
    only_others = not chosen and any(given[name] is not None for name in _OPERATORS)
    operators = everything or not (chosen or only_others)
    _core.profiler_config(str(given["filename"]), operators or bool(given["profile_imperative"]),
                          operators or bool(given["profile_symbolic"]), everything or bool(given["profile_memory"]))
    global _write_at_exit
    if given["continuous_dump"] and not _write_at_exit:
        atexit.register(_dump_at_exit)
    _write_at_exit = bool(given["continuous_dump"])


def _dump_at_exit():
    if _write_at_exit and _core.profiler_running():
        _core.profiler_dump(True)


def set_state(state="stop", profile_process="worker"):
    """Starts profiling with "run", stops it with "stop"."""
    _core.profiler_run({"run": True, "stop": False}[state])


def start(profile_process="worker"):
    """The same as set_state("run")."""
    set_state("run", profile_process)


def stop(profile_process="worker"):
    """The same as set_state("stop")."""
    set_state("stop", profile_process)


def pause(profile_process="worker"):
    """Pauses profiling until resume()."""
    _core.profiler_pause(True)


def resume(profile_process="worker"):
    """Continues after pause()."""
    _core.profiler_pause(False)


def dump(finished=True, profile_process="worker"):
    """Writes the trace; the file is replaced atomically.  finished: profiling ends, the next run is a new trace."""
    _core.profiler_dump(bool(finished))


def dumps(reset=False, format="table", sort_by="total", ascending=False):
    """The statistics as text: a table for people or JSON, ordered by total, avg, min, max or count."""
    assert format in ("table", "json"), f"profiler.dumps: format is {format!r}, expected 'table' or 'json'"
    assert sort_by in ("total", "avg", "min", "max", "count"), \
        f"profiler.dumps: sort_by is {sort_by!r}, expected 'total', 'avg', 'min', 'max' or 'count'"
    assert ascending in (True, False), f"profiler.dumps: ascending is {ascending!r}, expected True or False"
    return _core.profiler_table(bool(reset), format == "json", sort_by, bool(ascending))


def profiler_set_config(mode="symbolic", filename="profile.json"):
    """The old name of set_config(); mode is "symbolic" (operators of plans), "imperative" or "all"."""
    warnings.warn("profiler_set_config() is the old name of set_config()", DeprecationWarning, stacklevel=2)
    set_config(profile_symbolic=mode in ("symbolic", "all"), profile_imperative=mode in ("imperative", "all"),
               filename=filename)


def profiler_set_state(state="stop"):
    """The old name of set_state()."""
    warnings.warn("profiler_set_state() is the old name of set_state()", DeprecationWarning, stacklevel=2)
    set_state(state)


def dump_profile():
    """The old name of dump()."""
    warnings.warn("dump_profile() is the old name of dump()", DeprecationWarning, stacklevel=2)
    dump(True)


def set_kvstore_handle(handle):
    """Does nothing: there are no server processes to profile."""


class Domain:
    """A group of a program's own events, by name."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name

    def new_task(self, name):
        """A Task of this domain."""
        return Task(self, name)

    def new_frame(self, name):
        """A Frame of this domain."""
        return Frame(self, name)

    def new_counter(self, name, value=None):
        """A Counter of this domain."""
        return Counter(self, name, value)

    def new_marker(self, name):
        """A Marker of this domain."""
        return Marker(self, name)


class _Span:
    """Work between start() and stop(); also a context manager."""

    def __init__(self, domain, name):
        self.domain, self.name, self._began = domain, name, None

    def start(self):
        """Starts the work."""
        self._began = _core.profiler_now()

    def stop(self):
        """Ends the work; without a start() before it nothing is written."""
        began, self._began = self._began, None
        if began is not None:
            _core.profiler_span(str(self.domain), self.name, began)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exception):
        self.stop()

    def __str__(self):
        return self.name


class Task(_Span):
    """A logical piece of work of a domain; it may start on one thread and end on another."""


class Frame(_Span):
    """One of many equal passes, such as a batch."""


class Event(_Span):
    """A piece of work without a domain."""

    def __init__(self, name):
        super().__init__("event", name)


class Counter:
    """A number over time: set_value(), increment(), decrement(), += and -=."""

    def __init__(self, domain, name, value=None):
        self.domain, self.name, self._value, self._lock = domain, name, 0, threading.Lock()
        if value is not None:
            self.set_value(value)

    def set_value(self, value):
        """Sets a new value."""
        with self._lock:
            self._show(value)

    def _show(self, value):
        self._value = value
        _core.profiler_counter(str(self.domain), self.name, float(value))

    def increment(self, delta=1):
        """Adds to the value."""
        with self._lock:
            self._show(self._value + delta)

    def decrement(self, delta=1):
        """Subtracts from the value."""
        self.increment(-delta)

    def __iadd__(self, delta):
        self.increment(delta)
        return self

    def __isub__(self, delta):
        self.decrement(delta)
        return self

    def __str__(self):
        return self.name


class Marker:
    """A moment."""

    def __init__(self, domain, name):
        self.domain, self.name = domain, name

    def mark(self, scope="process"):
        """Marks the current time; scope is "process", "thread", "global", "task" or "marker"."""
        _core.profiler_marker(str(self.domain), self.name, scope)

    def __str__(self):
        return self.name


def scope(name="<unk>:"):
    """A context manager: the code inside is one piece of work of that name in the trace."""
    return Task("scope", name)
