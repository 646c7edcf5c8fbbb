"""gluon.contrib, modules and cells of symbols against the archived MXNet 1.9.1.

Skipped if that package cannot be installed, like test_oracle.py.
"""
import pytest

import driver
from test_oracle import difference

pytestmark = pytest.mark.skipif(driver.oracle() is None,
                                reason="the archived mxnet==1.9.1 is not installed (make oracle does it, from PyPI)")


def cases():
    from contrib_areas import CELLS, LAYERS, SYMBOL_CELLS
    listed = [("contrib_layer", {"expression": e, "shape": s}) for e, s in LAYERS]
    listed += [("contrib_cell", {"expression": e, "shape": s}) for e, s in CELLS]
    listed += [("symbol_cell", {"expression": e}) for e in SYMBOL_CELLS]
    listed += [("trained_module", {}), ("trained_module", {"contexts": 2}),
               ("trained_module", {"optimizer": "adam", "options": {"learning_rate": 0.05, "wd": 0.01}})]
    listed += [("words", {}), ("files_of_checkpoints", {})]
    return [{"area": area, "arguments": arguments, "label": f"{area} {arguments}"} for area, arguments in listed]


CASES = cases()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return driver.both(CASES, tmp_path_factory.mktemp("contrib"))


@pytest.mark.parametrize("number", range(len(CASES)), ids=[c["label"] for c in CASES])
def test_contrib(results, number):
    ours, theirs = results[number]
    assert "raises" not in theirs and "raises" not in ours, (ours, theirs)
    assert difference(ours, theirs) is None
