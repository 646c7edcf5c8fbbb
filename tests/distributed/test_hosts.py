"""Two hosts: training, a broken cable, a host that is gone.  SPDX-License-Identifier: Apache-2.0"""
import json
import subprocess
import time

import numpy as np
import pytest

import hosts
import launch


@pytest.fixture
def two():
    why = hosts.missing()
    if why:
        pytest.skip(why)
    with hosts.Hosts() as made:
        yield made


def finish(two, process, timeout):
    """Status and output; a process that hangs is a failure."""
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail(f"mpirun did not end within {timeout} s:\n{two.output()}")
    return process.returncode, two.output()


def test_training(two, tmp_path):
    """Two processes on each of two hosts train as one process does."""
    cases = ["net=conv,hybrid=1", "net=dense,on=0"]
    alone = launch.run(1, "training.py", *cases)[0]
    status, output = finish(two, two.start(4, "training.py", *cases, env={"GLUON_TEST_REPORTS": tmp_path, "GLUON_BUCKET_KB": 1}), 90)
    assert status == 0, output
    for rank in range(4):
        for got, wanted in zip(json.loads((tmp_path / f"{rank}.json").read_text()), alone):
            np.testing.assert_allclose(got["values"], wanted["values"], atol=2e-5, err_msg=f"rank {rank}")


@pytest.mark.parametrize("how", ["cut", "power_off", "kill"])
def test_a_lost_host_is_an_error(two, tmp_path, how):
    """Those that still run get an error that says who is gone; nothing hangs."""
    process = two.start(4, "long.py", env={"GLUON_TEST_REPORTS": tmp_path, "GLUON_COMM_SILENCE": 3})
    until = time.time() + 60
    while not all((tmp_path / f"started-{rank}.json").exists() for rank in range(4)):
        assert process.poll() is None and time.time() < until, two.output()
        time.sleep(0.05)
    getattr(two, how)(*(["b"] if how != "cut" else []))
    status, output = finish(two, process, 40)
    assert status != 0
    if how == "kill":  # mpirun notices at once that its daemon is gone, and ends all with a message of its own
        return
    assert "failed: rank" in output and "has not heard of it for" in output, output
    for rank in (0, 1):  # on host a
        got = json.loads((tmp_path / f"{rank}.json").read_text())
        assert got["local"] == 2
        assert any(f"rank {lost} failed: rank" in got["error"] for lost in (2, 3)), got
