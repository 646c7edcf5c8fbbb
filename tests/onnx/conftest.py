"""ONNX files against the onnx package and ONNX Runtime: `make onnx`.  --every: all networks of the zoo."""
import pytest


def pytest_addoption(parser):
    parser.addoption("--every", action="store_true", help="all networks of the zoo, not only a sample")


@pytest.fixture(autouse=True)
def seeded():
    """Every test starts from the same random numbers."""
    import mxnet as mx
    import numpy as np
    mx.random.seed(7)
    np.random.seed(7)
