"""The names that NumPy has removed come back with MXNET_NUMPY_ALIASES=1, and only then."""
import os
import subprocess
import sys

import pytest

import mxnet as mx

PROGRAM = """
import numpy as np
before = {name: getattr(np, name) for name in ("bool_", "inf", "isin", "float64")}
names = set(vars(np))
import mxnet
print(sorted(set(vars(np)) - names))
assert all(getattr(np, name) is value for name, value in before.items())
"""


def added(value):
    environment = dict(os.environ)
    environment.pop("MXNET_NUMPY_ALIASES", None)
    if value is not None:
        environment["MXNET_NUMPY_ALIASES"] = value
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return set(eval(ran.stdout))


@pytest.mark.parametrize("value", [None, "", "0"])
def test_off(value):
    assert not added(value) & {"int", "float", "object", "Inf", "asscalar"}


def test_on():
    names = added("1")
    import numpy
    if numpy.lib.NumpyVersion(numpy.__version__) >= "2.0.0":
        assert {"int", "float", "object", "Inf", "NaN", "product", "asscalar", "float_"} <= names
        assert not names & {"bool", "inf", "nan", "prod"}  # NumPy 2 has a bool of its own


def test_values():
    class Old:
        bool_, inf, nan, prod, isin, float64 = "b", 1.5, "nan", "prod", "isin", "f8"
        float = "its own"

    names = mx._numpy_aliases.missing(Old)
    assert names["int"] is int and names["bool"] is bool and names["Inf"] == 1.5 and names["NINF"] == -1.5
    assert names["float_"] == "f8" and names["product"] == "prod"
    assert "float" not in names  # what NumPy has stays
    assert "trapz" not in names  # nothing of today stands for it in this one


def test_asscalar():
    import numpy
    names = mx._numpy_aliases.missing(numpy)
    if "asscalar" in names:
        assert names["asscalar"](numpy.array([2.5])) == 2.5
