"""Compares random Gluon programs (programs.py) on this package and on the archived MXNet 1.9.1.

    python program_fuzz.py [-n PROGRAMS] [-s FIRST] [--raw] [--most DIFFERENCES]      FIRST is the number of the first program

A difference is shortened to the statements that it needs and printed.  Those of intended.PROGRAMS are counted, not printed.
"""
import argparse
import collections
import os
import pickle
import re
import subprocess
import sys

import numpy as np

import driver
import intended
from portable import whole
from programs import statements_of
sys.path.insert(1, os.path.join(driver.HERE, "..", "python"))  # samples.py
from test_oracle import difference


def close(ours, theirs, tolerance):
    """As of test_oracle.py, for arrays of any magnitude: trainings may diverge, equally on both sides."""
    finite = np.abs(theirs.astype("float64"))[np.isfinite(theirs)] if theirs.dtype.kind == "f" else np.zeros(0)
    scale = max(1.0, finite.max()) if finite.size else 1.0
    return ours.shape == theirs.shape and np.allclose(ours.astype("float64") / scale, theirs.astype("float64") / scale,
                                                      rtol=tolerance, atol=tolerance, equal_nan=True)


def compare_statement(ours, theirs):
    """What differs, as text; None if nothing does."""
    if "raises" in theirs:
        if "raises" not in ours:
            return f"raises {theirs['raises'][0]} there only: {theirs['message']}"
        if theirs["raises"][0] not in ours["raises"]:
            return f"raises {ours['raises'][0]} ({ours['message']}), there {theirs['raises'][0]} ({theirs['message']})"
    elif "raises" in ours:
        return f"raises {ours['raises'][0]} here only: {ours['message']}"
    return difference(ours["shown"], theirs["shown"], tolerance=1e-3, close=close)


def compare(statements, ours, theirs):
    """(statement, what differs) of the first difference; None if there is none."""
    if "died" in theirs:
        return None
    if "died" in ours or "raises" in ours or "raises" in theirs:
        return "", f"the program ended: {ours}, {theirs}"[:600]
    failed = ""
    for text, a, b in zip(statements, ours["statements"], theirs["statements"]):
        found = compare_statement(a, b)
        if found:
            return text, found + failed
        failed = failed or " (after an error)" * ("raises" in b)
    return None


class Side:
    """A process that runs programs one after the other, in parallel with the other side's."""

    def __init__(self, python):
        self.python, self.process = python, None

    def send(self, statements):
        if self.process is None or self.process.poll() is not None:
            environment = driver.environment_of(self.python)
            self.process = subprocess.Popen([self.python, os.path.join(driver.HERE, "program_run.py")], env=environment,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        pickle.dump(statements, self.process.stdin)
        self.process.stdin.flush()

    def answer(self):
        try:
            return whole(pickle.load(self.process.stdout))
        except EOFError:
            return {"died": self.process.wait()}

    def end(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()


def differences(programs, sides):
    """One result of compare() per program."""
    for statements in programs:
        for side in sides:
            side.send(statements)
        ours, theirs = (side.answer() for side in sides)
        yield compare(statements, ours, theirs)


def reason_of(statements, found, sides):
    """Why a difference is intended; None if it is not."""
    whole = "\n".join(statements)
    for needed, symptom, reason in intended.PROGRAMS:
        if re.search(needed, whole) and re.search(symptom, f"{found[1]}\n@ {found[0]}"):
            return reason
    for needed, replacement, reason in intended.REPLACED:
        if re.search(needed, whole):
            other, = differences([[re.sub(needed, replacement, s) for s in statements]], sides)
            if not other or statements.index(found[0]) < [re.sub(needed, replacement, s) for s in statements].index(other[0]):
                return reason
    return None


def kind_of(found):
    """Differences of one kind are shown twice only."""
    raised = re.sub(r"[\d.]+", "#", found[1])[:70]
    return raised if "raises" in raised else re.sub(r"\d+", "#", found[0])[:70]


def shorten(statements, found, sides):
    """Leaves out statements as long as the same difference remains."""
    statements = statements[:statements.index(found[0]) + 1] if found[0] in statements else statements
    for i in reversed(range(len(statements) - 1)):
        candidate = statements[:i] + statements[i + 1:]
        other, = differences([candidate], sides)
        if other and kind_of(other) == kind_of(found) and other[0] == found[0]:
            statements, found = candidate, other
    return statements, found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=500)
    parser.add_argument("-s", type=int, default=0)
    parser.add_argument("--raw", action="store_true", help="do not shorten")
    parser.add_argument("--most", type=int, default=25, help="differences to print")
    given = parser.parse_args()
    sides = [Side(sys.executable), Side(driver.oracle())]
    counts, printed, kinds = collections.Counter(), 0, collections.Counter()
    programs = [statements_of(number) for number in range(given.s, given.s + given.n)]
    for number, (statements, found) in enumerate(zip(programs, differences(programs, sides)), given.s):
        reason = found and reason_of(statements, found, sides)
        counts[reason or ("differs" if found else "agrees")] += 1
        if found and not reason:
            kinds[kind_of(found)] += 1
            if printed < given.most and kinds[kind_of(found)] <= 2:
                printed += 1
                if not given.raw:
                    statements, found = shorten(statements, found, sides)
                print(f"---- program {number}", *statements, "==== " + found[1], sep="\n", flush=True)
    for side in sides:
        side.end()
    print(*(f"{count:6} {reason}" for reason, count in counts.most_common()), *kinds.most_common(30), sep="\n")
    return counts["differs"] > 0


if __name__ == "__main__":
    sys.exit(main())
