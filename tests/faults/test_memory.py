"""Out of memory at every allocation, of the library and of Python (see memory.py).  A slice; memory.py alone runs all of them.

SPDX-License-Identifier: Apache-2.0
"""
import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
SCENARIOS = ["step", "hybridized", "fused", "saving", "loading", "exporting", "predicting", "formats", "onnx", "data", "workers", "objects"]


def run(kind, scenario, every):
    done = subprocess.run([sys.executable, os.path.join(HERE, "memory.py"), kind, scenario, str(every)], capture_output=True,
                          text=True, timeout=600, env={**os.environ, "MXNET_CPU_WORKER_NTHREADS": "1"})
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_allocations_of_the_library(scenario):
    run("library", scenario, 7 if scenario in ("data", "workers") else 31)


@pytest.mark.parametrize("scenario", sorted(set(SCENARIOS) - {"data", "workers"}))  # Python's threads do not start without memory
def test_allocations_of_python(scenario):
    pytest.importorskip("_testcapi", reason="this Python has no _testcapi, which lets its allocations fail")
    run("python", scenario, 211)
