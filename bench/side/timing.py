"""Shared by the programs of the comparison: a list of workloads, and a loop that measures the requested one.

A program registers functions that build workloads, and serves them:

    work = Workloads("numpy", numpy.__version__)

    @work("add", "plain")
    def add():
        a, b = ...
        return lambda: a + b            # one call; or (call, wait) if wait() must wait for background work

    work.serve()

The driver (run.py) starts it as a separate process and sends requests, one JSON line each; nothing runs between them.

SPDX-License-Identifier: Apache-2.0
"""
import gc
import json
import os
import resource
import sys
import time

CHUNKS = 5  # a measurement is the median of so many stretches of calls


class Workloads:
    """The workloads of one program: {name: {lane: maker}}, a lane being a way to run it (imperative, compiled ...)."""

    def __init__(self, peer, version):
        self.peer, self.version = peer, version
        self.makers, self.made, self.counts = {}, {}, {}

    def __call__(self, name, lane):
        def register(maker):
            self.makers.setdefault(name, {})[lane] = maker
            return maker
        return register

    def prepare(self, name, lane):
        """The call and the wait of a workload, built and warmed up, with a number of calls that takes a useful time."""
        key = name, lane
        if any(row != name for row, _ in self.made):  # a row is done when another one is asked for
            self.made.clear()
            gc.collect()
        if key not in self.made:
            made = self.makers[name][lane]()
            call, wait = made if isinstance(made, tuple) else (made, lambda: None)
            for _ in range(3):
                call()
                wait()
            self.made[key] = call, wait
        return self.made[key]

    def measure(self, name, lane, seconds):
        """Seconds per call: the median of a few stretches that take `seconds` together."""
        call, wait = self.prepare(name, lane)
        key = name, lane
        if key not in self.counts:
            count, target = 1, seconds / CHUNKS
            while True:
                took = stretch(call, wait, count)
                if took > target / 2 or count > 1 << 22:
                    break
                count = min(8 * count, int(count * target / max(took, 1e-9)) + 1)
            self.counts[key] = count
        count = self.counts[key]
        times = sorted(stretch(call, wait, count) / count for _ in range(CHUNKS))
        return times[CHUNKS // 2] / getattr(call, "repeats", 1)

    def answer(self, question):
        """The response to one request of the driver, as a dictionary."""
        try:
            if question["ask"] == "memory":
                return {"bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}
            return {"seconds": self.measure(question["name"], question["lane"], question["seconds"])}
        except Exception as error:  # a package that lacks the feature raises its own error
            return {"absent": f"{type(error).__name__}: {str(error).splitlines()[0][:160] if str(error) else ''}"}

    def serve(self):
        """Serves requests until the driver closes the pipe.  Output of packages is redirected to the error stream."""
        replies = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        lanes = {name: list(makers) for name, makers in self.makers.items()}
        print(json.dumps({"version": self.version, "lanes": lanes}), file=replies, flush=True)
        for line in sys.stdin:
            print(json.dumps(self.answer(json.loads(line))), file=replies, flush=True)


def stretch(call, wait, count):
    """The seconds that `count` calls take, including all work they started."""
    start = time.perf_counter()
    for _ in range(count):
        call()
    wait()
    return time.perf_counter() - start


def repeated(count, call):
    """Marks a call that runs the measured work `count` times."""
    call.repeats = count
    return call


def threads():
    """The number of threads of this process, as set by the driver."""
    return int(os.environ.get("SIDE_THREADS", "0")) or os.cpu_count()
