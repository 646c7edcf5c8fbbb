"""Runs cases on both packages and collects the results."""
import os
import pickle
import subprocess
import sys

from portable import plain, whole

HERE = os.path.dirname(os.path.abspath(__file__))


def environment_of(python):
    """The variables under which an interpreter runs cases."""
    environment = dict(os.environ, PYTHONWARNINGS="ignore", OMP_NUM_THREADS="1", MXNET_SAFE_ACCUMULATION="0")
    if python != sys.executable:
        environment.pop("PYTHONPATH", None)  # it would give the other interpreter our package
    return environment


def results(python, cases, folder, name):
    """Result per case from one interpreter; a case that kills it gives {"died": signal} and the others still run."""
    case_file, out_file = os.path.join(folder, name + ".cases"), os.path.join(folder, name + ".results")
    with open(case_file, "wb") as file:
        pickle.dump(plain(cases), file, protocol=4)
    found, first = {}, 0
    environment = environment_of(python)
    while first < len(cases):
        if os.path.exists(out_file):
            os.remove(out_file)
        done = subprocess.run([python, os.path.join(HERE, "program.py"), case_file, out_file, str(first)],
                              cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        last = _read(out_file, found)
        if last is None and done.returncode:
            raise RuntimeError(f"{python} failed before the first case: {done.stderr.decode(errors='replace')[-800:]}")
        if last in found or last is None:
            first = len(cases)
        else:
            found[last] = {"died": done.returncode}
            first = last + 1
    return [found.get(i, {"died": None}) for i in range(len(cases))]


def _read(path, found):
    """Adds finished results; returns the number of the last case that was started."""
    last = None
    if not os.path.exists(path):
        return last
    with open(path, "rb") as file:
        while True:
            try:
                record = pickle.load(file)
            except (EOFError, pickle.UnpicklingError):
                return last
            last = record[1]
            if record[0] == "done":
                found[last] = whole(record[2])


def oracle():
    """The interpreter with the archived MXNet; None if it is missing."""
    path = os.environ.get("GLUON_ORACLE", os.path.join(HERE, "..", "..", "build", "oracle", "bin", "python"))
    return os.path.abspath(path) if os.path.exists(path) else None


def both(cases, folder):
    """Pairs (ours, theirs)."""
    ours = results(sys.executable, cases, str(folder), "ours")
    theirs = results(oracle(), cases, str(folder), "theirs")
    return list(zip(ours, theirs))
