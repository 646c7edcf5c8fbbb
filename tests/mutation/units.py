"""The tests as units that can be run one by one: operators' samples, cmocka tests, Python tests in forked processes.

A unit's name is `ops:NAME`, `accuracy:NAME`, `emit:NAME` (the operator as C text, compiled and run), `c:PROGRAM:TEST` or `py:NODE`.  SPDX-License-Identifier: Apache-2.0
"""
import mmap
import os
import re
import resource
import select
import signal
import struct
import subprocess
import time

MARKS = 4096
PAGE = 4096
MEMORY = 8 << 30  # of a test: a mutant must not take the machine's

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "accuracy.md")


class State:
    """The file that the library maps: the active mutant and the marks."""

    def __init__(self, path):
        with open(path, "wb") as file:
            file.write(bytes(PAGE + 4 * MARKS))
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 0)
        os.environ["GLUON_MUTANT_FILE"] = path

    def activate(self, number):
        self.map[:4] = struct.pack("i", number)

    def clear(self):
        self.map[PAGE:] = bytes(4 * MARKS)

    def reached(self):
        return [i for i, mark in enumerate(struct.unpack(f"{MARKS}i", self.map[PAGE:])) if mark]


def limits():
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def end_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Programs:
    """The C tests."""

    def __init__(self, build):
        self.folder = os.path.join(build, "tests")
        self.filter = os.path.join(build, "filter.so")
        here = os.path.dirname(os.path.abspath(__file__))
        subprocess.run(["cc", "-shared", "-fPIC", os.path.join(here, "filter.c"), "-o", self.filter], check=True)

    def run_program(self, command, seconds, **environment):
        """'passed', 'failed' or 'slow'."""
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                                   env={**os.environ, **environment}, preexec_fn=limits)
        try:
            return "passed" if process.wait(seconds) == 0 else "failed"
        except subprocess.TimeoutExpired:
            return "slow"
        finally:
            end_group(process.pid)
            process.wait()

    def run(self, unit, seconds):
        kind, program, *test = unit.split(":")
        if kind == "ops":
            return self.run_program([os.path.join(self.folder, "test_op_ops"), program], seconds)
        if kind == "accuracy":
            return self.run_program([os.path.join(self.folder, "accuracy"), "-n", "1", "-c", TABLE, program], seconds)
        if kind == "emit":
            return self.run_program([os.path.join(self.folder, "test_gluon_compile_c"), program], seconds)
        path = os.path.join(self.folder, program)
        return self.run_program([path], seconds, LD_PRELOAD=self.filter, CMOCKA_ONLY=test[0])

    def units(self, operators):
        """All of them.  Names of tests come from the sources: `cmocka_unit_test(name)` and its relatives, or TEST(name)."""
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
        for name in operators:
            yield f"ops:{name}"
            yield f"accuracy:{name}"
            if not name.startswith("_backward"):
                yield f"emit:{name}"
        for folder in ("base", "ndarray", "op", "cpu", "graph", "pass", "exec", "gluon"):
            for name in sorted(os.listdir(os.path.join(root, folder))):
                program = name.replace("test_", f"test_{folder}_", 1)[:-2]
                if name.startswith("test_") and os.path.exists(os.path.join(self.folder, program)) and program != "test_op_ops":
                    with open(os.path.join(root, folder, name)) as file:
                        for test in dict.fromkeys(re.findall(r"\b(?:cmocka_unit_test\w*|TEST)\((\w+)", file.read())):
                            yield f"c:{program}:{test}"
                    yield f"c:{program}:*"  # some tests need those before them


class Pytests:
    """Collected Python tests, run in forks of this process."""

    def __init__(self, session):
        self.items = {f"py:{item.nodeid}": item for item in session.items}
        self.failed = False
        session.config.pluginmanager.register(self)

    def pytest_runtest_logreport(self, report):
        self.failed = self.failed or report.failed

    def run_item(self, unit):
        """In this process."""
        self.failed = False
        item = self.items[unit]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return not self.failed

    def child(self, units, pipe):
        quiet = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(quiet, number)
        limits()
        for i, unit in enumerate(units):
            os.write(pipe, struct.pack("i", i))
            if not self.run_item(unit):
                os._exit(1)
        os._exit(0)

    def run(self, units, seconds):
        """(index of the first unit that fails or None, 'passed', 'failed' or 'slow'); seconds(unit): its limit."""
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            try:
                self.child(units, write)
            finally:
                os._exit(2)
        os.close(write)
        at, outcome = 0, None
        limit = time.time() + 60
        while outcome is None:
            ready, _, _ = select.select([read], [], [], max(0, limit - time.time()))
            text = os.read(read, 4) if ready else None
            if text is None:
                outcome = "slow"
            elif not text:
                break
            else:
                at = struct.unpack("i", text)[0]
                limit = time.time() + seconds(units[at])
        os.close(read)
        if outcome == "slow":
            end_group(pid)
        status = os.waitpid(pid, 0)[1]
        end_group(pid)
        if outcome is None:
            outcome = "passed" if status == 0 else "failed"
        return (None if outcome == "passed" else at), outcome
