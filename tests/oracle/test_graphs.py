"""Symbols and exported networks against the archived MXNet 1.9.1: names, shapes, files, each side running the other's.

Skipped if that package cannot be installed, like test_oracle.py.
"""
import sys

import numpy as np
import pytest

import driver
from graphs import FLOWS, NETWORKS, SYMBOLS
from test_oracle import difference

pytestmark = pytest.mark.skipif(driver.oracle() is None,
                                reason="the archived mxnet==1.9.1 is not installed (make oracle does it, from PyPI)")


@pytest.fixture(scope="module")
def symbol_results(tmp_path_factory):
    cases = [{"area": "symbol", "arguments": {"name": name}} for name in SYMBOLS]
    return dict(zip(SYMBOLS, driver.both(cases, tmp_path_factory.mktemp("symbols"))))


@pytest.mark.parametrize("name", list(SYMBOLS))
def test_symbols(symbol_results, name):
    ours, theirs = symbol_results[name]
    assert "raises" not in theirs and "raises" not in ours, (ours, theirs)
    assert difference(ours, theirs) is None


@pytest.fixture(scope="module")
def flow_results(tmp_path_factory):
    cases = [{"area": "flow", "arguments": {"name": name}} for name in FLOWS]
    return dict(zip(FLOWS, driver.both(cases, tmp_path_factory.mktemp("flows"))))


@pytest.mark.parametrize("name", list(FLOWS))
def test_flows(flow_results, name):
    ours, theirs = flow_results[name]
    assert "raises" not in theirs and "raises" not in ours, (ours, theirs)
    assert difference(ours, theirs) is None


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """Results of writing, then of reading what either side wrote: {side: {writer: [results]}}."""
    base = tmp_path_factory.mktemp("exports")
    pythons = {"ours": sys.executable, "theirs": driver.oracle()}
    written, read = {}, {}
    for side, python in pythons.items():
        (base / side).mkdir()
        cases = [{"area": "write_export", "arguments": {"folder": str(base / side), "name": name}} for name in NETWORKS]
        written[side] = driver.results(python, cases, str(base), "write")
    for side, python in pythons.items():
        for writer in pythons:
            cases = [{"area": "read_export", "arguments": {"folder": str(base / writer), "name": n}} for n in NETWORKS]
            read[side, writer] = driver.results(python, cases, str(base), "read")
    return written, read


@pytest.mark.parametrize("name", list(NETWORKS))
def test_exports(exports, name):
    written, read = exports
    number = list(NETWORKS).index(name)
    ours, theirs = written["ours"][number], written["theirs"][number]
    assert difference(ours, theirs) is None
    for (side, writer), results in read.items():
        found = results[number]
        assert "y" in found, f"{side} cannot run what {writer} wrote: {found}"
        np.testing.assert_allclose(found["y"], found["wanted"], rtol=2e-4, atol=2e-5, err_msg=f"{side} ran {writer}")
