"""Sparse arrays, gradients, updates and files against the archived MXNet 1.9.1.

Skipped if that package cannot be installed, like test_oracle.py.
"""
import pytest

import driver
from test_oracle import difference

pytestmark = pytest.mark.skipif(driver.oracle() is None,
                                reason="the archived mxnet==1.9.1 is not installed (make oracle does it, from PyPI)")

AREAS = ["sparse_making", "sparse_arithmetic", "sparse_products", "sparse_gradients", "sparse_parameters",
         "sparse_stores", "sparse_iterators", "sparse_bytes", "sparse_broadcasts", "sparse_slices", "sparse_graphs",
         "sparse_bindings"]


def cases():
    from sparse_areas import OPTIMIZERS
    listed = [(area, {}) for area in AREAS]
    listed += [("sparse_update", {"name": name, "options": options}) for name, options in OPTIMIZERS]
    listed += [("sparse_update", {"name": name, "options": options, "stype": "row_sparse"})
               for name, options in (("sgd", {"momentum": 0.9}), ("adagrad", {}), ("ftrl", {}))]
    listed += [("sparse_training", {}), ("sparse_training", {"hybridize": True})]
    return [{"area": area, "arguments": arguments, "label": f"{area} {arguments}"} for area, arguments in listed]


CASES = cases()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return driver.both(CASES, tmp_path_factory.mktemp("sparse"))


@pytest.mark.parametrize("number", range(len(CASES)), ids=[c["label"] for c in CASES])
def test_sparse_storage(results, number):
    ours, theirs = results[number]
    assert "raises" not in theirs and "raises" not in ours, (ours, theirs)
    assert difference(ours, theirs) is None


def test_files_of_both_are_read_by_both(tmp_path):
    import sparse_areas
    data = sparse_areas.sparse_bytes()["bytes"].tobytes()
    (ours, theirs), = driver.both([{"area": "sparse_read", "arguments": {"data": data}, "label": "read"}], tmp_path)
    assert "raises" not in theirs and "raises" not in ours, (ours, theirs)
    assert difference(ours, theirs) is None
