"""One writer under every fault, in one process that has shim.so preloaded: prints a line per finding, then a summary.

    LD_PRELOAD=shim.so python program.py WRITER FOLDER

Between two calls of the system the files do not change, so a kill before each of them (and in the middle of each write) is
a kill at every point.  SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import errno
import gc
import os
import shutil
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from writers import WRITERS  # noqa: E402

ERROR, KILL, FULL, SHORT, EINTR = range(1, 6)
shim = ctypes.CDLL(None)
shim.fault_arm.argtypes = ctypes.c_int, ctypes.c_long, ctypes.c_int
shim.fault_disarm.restype = ctypes.c_long
findings, points = [], 0


class Case:
    """A folder that holds version 1, or nothing."""

    def __init__(self, name, folder, old=True):
        self.write, self.read = WRITERS[name]
        self.folder, self.old = folder, old
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        if old:
            self.write(folder, 1)

    def count(self):
        """The number of system calls of one write."""
        shim.fault_arm(ERROR, 0, 0)
        self.write(self.folder, 2)
        return shim.fault_disarm()

    def check(self, story, allowed):
        """What is there now must load."""
        if not self.old and not [name for name in os.listdir(self.folder) if not name.startswith(".gluon-")]:
            return
        try:
            found = self.read(self.folder)
        except Exception as error:
            if not self.old and os.strerror(errno.ENOENT) in str(error):
                return  # the first of several files is there
            return findings.append(f"{story}: {type(error).__name__}: {error}")
        if not found <= allowed:
            findings.append(f"{story}: version {found}, expected one of {allowed}")

    def killed(self, nth):
        child = os.fork()
        if child == 0:
            shim.fault_arm(KILL, nth, 0)
            try:
                self.write(self.folder, 2)
            finally:
                os._exit(0)
        status = os.waitpid(child, 0)[1]
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
            findings.append(f"call {nth} was not reached")

    def attempt(self, what, nth, error):
        """The exception of a write under a fault."""
        shim.fault_arm(what, nth, error)
        try:
            self.write(self.folder, 2)
        except (OSError, RuntimeError, ValueError) as raised:
            return raised
        finally:
            shim.fault_disarm()


def kills(name, folder):
    global points
    for old in (True, False):
        calls = Case(name, folder, old).count()
        for nth in range(1, calls + 1):
            case = Case(name, folder, old)
            case.killed(nth)
            case.check(f"killed at call {nth} of {calls}", {1, 2})
            case.write(folder, 2)
            case.check(f"written again after a kill at call {nth}", {2})
            points += 1


def errors(name, folder):
    global points
    calls = Case(name, folder).count()
    for what, error in ((ERROR, errno.EIO), (FULL, errno.ENOSPC)):
        for nth in range(1, calls + 1):
            case = Case(name, folder)
            story = f"{errno.errorcode[error]} at call {nth} of {calls}"
            raised = case.attempt(what, nth, error)
            case.check(story, {1, 2} if raised else {2})
            if raised and os.strerror(error) not in str(raised):
                findings.append(f"{story}: the error does not say why: {raised}")
            left = [file for file in os.listdir(folder) if file.startswith(".") or file.endswith(".part")]
            if left:
                findings.append(f"{story}: {left} is left")
            case.write(folder, 2)
            case.check(f"written again after {story}", {2})
            points += 1


def survived(name, folder):
    """Faults that nobody should notice."""
    for what, error in ((SHORT, 1000), (SHORT, 7), (EINTR, 0)):
        case = Case(name, folder)
        raised = case.attempt(what, 0, error)
        if raised:
            findings.append(f"{'short writes' if what == SHORT else 'EINTR'}: {raised}")
        else:
            case.check("short writes or EINTR", {2})


def main(name, folder):
    Case(name, folder).count()
    open_before = len(os.listdir("/proc/self/fd"))
    kills(name, folder)
    errors(name, folder)
    survived(name, folder)
    gc.collect()  # writers in the tracebacks of errors
    if len(os.listdir("/proc/self/fd")) > open_before:
        findings.append(f"{len(os.listdir('/proc/self/fd')) - open_before} descriptors are left open")
    print(*findings[:10], f"{name}: {points} faults, {len(findings)} findings", sep="\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
