"""The rules of rules.py on this package and the archived MXNet 1.9.1; those that intended.py lists differ.

Skipped if that package cannot be installed, like test_oracle.py.
"""
import pathlib
import re

import pytest

import driver
import intended

HERE = pathlib.Path(__file__).parent
NAMES = re.findall(r'^@_rule\("(.*)"\)$', (HERE / "rules.py").read_text(), flags=re.M)

pytestmark = pytest.mark.skipif(driver.oracle() is None,
                                reason="the archived mxnet==1.9.1 is not installed (make oracle does it, from PyPI)")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    cases = [{"area": "rule", "arguments": {"name": name}} for name in NAMES]
    return dict(zip(NAMES, driver.both(cases, tmp_path_factory.mktemp("rules"))))


@pytest.mark.parametrize("name", NAMES)
def test_rule(results, name):
    ours, theirs = results[name]
    assert "values" in ours and "values" in theirs, (ours, theirs)
    if name in intended.BEHAVIOURS:
        assert ours != theirs, f"this intended difference is none any more: {intended.BEHAVIOURS[name]}"
    else:
        assert ours == theirs
