"""Published libraries on this package: options, and what the tests of all libraries share.

`make libraries` creates an environment with the libraries of PyPI (tools/libraries.sh) and runs this folder in it.
The libraries are imported without a check: where one is missing or cannot be imported, its tests fail.
--every runs all models of the registries instead of a sample; --names=PATTERN only those that match.
"""
import re

import pytest


def pytest_addoption(parser):
    parser.addoption("--every", action="store_true", help="all models of the registries, not only the sample")
    parser.addoption("--names", default="", help="only models whose name matches this pattern")


def pytest_generate_tests(metafunc):
    """`model` runs over the sample (name, shape) of a test module, or with --every over its registry."""
    if "model" not in metafunc.fixturenames:
        return
    module = metafunc.module
    every = metafunc.config.getoption("--every")
    cases = list(module.registry()) if every else list(module.SAMPLE)
    pattern = metafunc.config.getoption("--names")
    chosen = [case for case in cases if re.search(pattern, case[0])]
    metafunc.parametrize("model", chosen, ids=[case[0] for case in chosen])


@pytest.fixture(autouse=True)
def seeded():
    """Every test starts from the same random numbers."""
    import mxnet as mx
    import numpy as np
    mx.random.seed(7)
    np.random.seed(7)
