"""Shared by all tests of the Python package.

The suite runs on another context with MXNET_TEST_DEFAULT_CTX=gpu(0): tests compute on the default context, which is set
here, and compare with NumPy on the host.
"""
import os

import numpy as np
import pytest

import mxnet as mx

os.environ["MXNET_GLUON_REPO"] = "/nonexistent/repository"  # tests use no network

# Modules in which the instruction level of the CPU can matter: tools/test_levels.sh runs them (-m levels) at the levels below
# the machine's best, at which the whole suite runs.
COMPUTING = {"test_" + name for name in (
    "amp", "autograd", "contrib_layers", "control_flow", "executor", "gluon_block", "hybrid", "initializer", "layout", "model_zoo",
    "ndarray", "ndarray_random", "one_arithmetic", "operators", "optimizer", "rnn", "sparse", "trainer", "transformer", "attention")}


def pytest_configure(config):
    config.addinivalue_line("markers", "levels: the instruction level of the CPU can matter")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.module.__name__ in COMPUTING:
            item.add_marker(pytest.mark.levels)


@pytest.fixture(autouse=True)
def same_numbers():
    """Every test draws the same random numbers, whatever ran before it, and starts outside of all modes."""
    np.random.seed(1234)
    mx.random.seed(1234)
    yield
    assert not mx.autograd.is_recording(), "a test left recording on"
    assert not mx.autograd.is_training(), "a test left training mode on"
    assert not mx.util.is_np_array(), "a test left NumPy's interface on"


@pytest.fixture(autouse=True, scope="session")
def default_context():
    """The context of MXNET_TEST_DEFAULT_CTX, cpu(0) if it is not set, is the current one for all tests."""
    context = mx.Context.from_text(os.environ.get("MXNET_TEST_DEFAULT_CTX", "cpu(0)"))
    with context:
        yield context


@pytest.fixture
def ctx():
    """The context that tests compute on."""
    return mx.current_context()


@pytest.fixture
def on_host():
    """For tests that need arrays in host memory or synchronous calls."""
    if mx.current_context().device_type == "gpu":
        pytest.skip("arrays are not in host memory")


@pytest.fixture
def resident():
    """A function that returns the process's resident memory in bytes."""
    page = os.sysconf("SC_PAGE_SIZE")

    def read():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * page

    if not os.path.exists("/proc/self/statm"):
        pytest.skip("needs /proc")
    return read
