"""Memory runs out while a GPU works, the host's or the device's: an error each time, and everything still works."""
import os
import subprocess
import sys

import numpy as np
import pytest

import mxnet as mx
from mxnet import nd

pytestmark = pytest.mark.skipif("mx.num_gpus() == 0", reason="there is no GPU")
PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "faults", "memory.py")


def failing(work, most=4000):
    """Runs work() with its first, second, third ... allocation failing, until none fails any more; what was said."""
    said = []
    for n in range(1, most):
        mx._core.fail_allocation(n)
        try:
            result = work()
            mx._core.fail_allocation(0)
            return said, result
        except (MemoryError, mx.MXNetError) as error:
            mx._core.fail_allocation(0)
            assert "memory" in str(error), str(error)
            said.append(str(error))
    raise AssertionError("it never worked")


def test_operators():
    x = np.arange(12, dtype="float32").reshape(3, 4)
    operators = [
        lambda: nd.array(x, ctx=mx.gpu(0)).asnumpy(),
        lambda: nd.dot(nd.array(x, ctx=mx.gpu(0)), nd.ones((4, 5), ctx=mx.gpu(0))).asnumpy(),
        lambda: nd.Convolution(nd.ones((1, 2, 5, 5), ctx=mx.gpu(0)), nd.ones((3, 2, 3, 3), ctx=mx.gpu(0)),
                               no_bias=True, kernel=(3, 3), num_filter=3).asnumpy(),
        lambda: nd.topk(nd.array(x, ctx=mx.gpu(0)), k=2).asnumpy(),
        lambda: nd.array(np.ones((600, 600), "float32"), ctx=mx.gpu(0)).asnumpy(),
        lambda: nd.array(np.ones((300, 300), "float32"), ctx=mx.cpu_pinned()).as_in_context(mx.gpu(0)).asnumpy(),
    ]
    for work in operators:
        said, result = failing(work)
        np.testing.assert_array_equal(result, work())
        assert said


def test_operators_are_named():
    """Also where a container of the CUDA part could not grow: the choice of a product is stored in one."""
    said, _ = failing(lambda: nd.dot(nd.ones((130, 70), ctx=mx.gpu(0)), nd.ones((70, 90), ctx=mx.gpu(0))).asnumpy())
    assert any("dot: out of memory on the host" in text for text in said), said


def test_the_device_is_named():
    said, _ = failing(lambda: nd.ones((300, 300), ctx=mx.gpu(0)).asnumpy())
    assert any("gpu(0) is out of memory" in text for text in said), said


@pytest.mark.parametrize("scenario", ["step", "hybridized", "fused", "saving", "loading", "exporting", "predicting", "formats"])
def test_every_allocation(scenario):
    """The programs that run out of memory on the CPU, on a GPU: allocations of the host and of the device fail."""
    done = subprocess.run([sys.executable, PROGRAMS, "library", scenario, "0"], capture_output=True, text=True, timeout=900,
                          env={**os.environ, "MXNET_TEST_DEFAULT_CTX": "gpu(0)"})
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
