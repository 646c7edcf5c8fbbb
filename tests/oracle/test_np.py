"""mx.np and mx.npx against the archived MXNet 1.9.1: names and arguments, values and types, networks in files.

Skipped if that package cannot be installed, like test_oracle.py.
"""
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import driver

pytestmark = pytest.mark.skipif(driver.oracle() is None,
                                reason="the archived mxnet==1.9.1 is not installed (make oracle does it, from PyPI)")
PROGRAM = os.path.join(driver.HERE, "np_program.py")
# What the interface leaves out: helpers that its modules import.
NOT_FUNCTIONS = {"npx.check_call", "npx.classproperty", "npx.with_metaclass", "npx.random.set_module"}
# Expressions in which we follow NumPy where MXNet does not: a reason each.
INTENDED = {
    "f[m[:2]]": "MXNet refuses it", "np.bincount(i)": "NumPy's int64", "np.unique(i)": "NumPy's int32 as well",
    "np.mod(f, 0.3)": "rounding of float32",
}


def run(python, *arguments):
    environment = dict(os.environ, PYTHONWARNINGS="ignore", OMP_NUM_THREADS="1")
    if python != sys.executable:
        environment.pop("PYTHONPATH", None)
    done = subprocess.run([python, PROGRAM, *map(str, arguments)], env=environment, capture_output=True, text=True)
    assert not done.returncode, done.stderr[-1500:]


def both(what, folder):
    results = []
    for side, python in (("ours", sys.executable), ("theirs", driver.oracle())):
        run(python, what, folder / side)
        results.append(json.loads((folder / side).read_text()))
    return results


def test_names_and_arguments(tmp_path):
    ours, theirs = both("names", tmp_path)
    missing = sorted(set(theirs) - set(ours) - NOT_FUNCTIONS)
    assert not missing, missing
    usual = {"args", "name", "out", "order", "subok", "casting", "ctx", "cudnn_off", "dtype"}
    lacking = {}
    for name, arguments in theirs.items():
        mine = ours.get(name)
        if mine and arguments and name.startswith("np"):
            absent = [a for a in arguments if a not in mine and a not in usual]
            if absent:
                lacking[name] = absent
    assert not {k: v for k, v in lacking.items() if k not in DIFFERENT_ARGUMENTS}, lacking


# Functions that run in NumPy have the arguments of the NumPy of today.
DIFFERENT_ARGUMENTS = {"np.histogram2d", "np.histogramdd"}


def test_only_functions_that_mxnet_runs_in_numpy_run_there(tmp_path):
    ours, theirs = both("fallback", tmp_path)
    names, _ = both("names", tmp_path)[::-1]
    own = {name.partition(".")[2] for name in names} - set(theirs)  # MXNet computes these itself
    assert not (set(ours) & own) - {"genfromtxt"}  # which reads files


def test_values(tmp_path):
    ours, theirs = both("values", tmp_path)
    wrong = {}
    for expression, wanted in theirs.items():
        got = ours[expression]
        if wanted[0] == "raises" or expression in INTENDED:
            continue  # MXNet cannot do it
        same = got[:3] == wanted[:3] and np.allclose(got[3], wanted[3], rtol=2e-5, atol=2e-6, equal_nan=True)
        if not same:
            wrong[expression] = (got, wanted)
    assert not wrong, wrong


def test_networks_in_files(tmp_path):
    pythons = {"ours": sys.executable, "theirs": driver.oracle()}
    for side, python in pythons.items():
        (tmp_path / side).mkdir()
        run(python, "write", tmp_path / side)
        assert '"is_np_shape": ["int", 1]' in (tmp_path / side / "net-symbol.json").read_text()
    for writer in pythons:
        wanted = np.load(tmp_path / writer / "net.npz")["y"]
        for side, python in pythons.items():
            run(python, "read", tmp_path / writer, tmp_path / "out")
            np.testing.assert_allclose(json.loads((tmp_path / "out").read_text()), wanted, rtol=1e-4, atol=1e-5)
