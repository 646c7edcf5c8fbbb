"""Processes that fail, end early or differ: an error for all of them, soon.  SPDX-License-Identifier: Apache-2.0"""
import pytest

import launch


@pytest.mark.parametrize("how, texts", [
    ("raise", ["rank 1 failed: ValueError: the batch is empty"]),
    ("exit", ["rank 1 failed: it exited with status 3"]),
    ("early", ["rank 1 has ended after 4 exchanges", "rank 0 waits"]),
    ("kill", ["process rank 1"]),
    ("model", ["parameters differ between processes", "dense_bias", "(3,)", "(4,)"]),
])
def test_a_failing_process_ends_all(how, texts):
    done = launch.start(3 if how != "model" else 2, "faults.py", how, timeout=30)
    assert done.returncode != 0
    assert all(text in done.stderr + done.stdout for text in texts), done.stderr


def test_late_is_no_error():
    launch.run(2, "faults.py", "late")


def test_a_forked_process_may_not_take_part():
    launch.run(2, "faults.py", "fork")


@pytest.mark.parametrize("how, one, other", [
    ("shape", "all_reduce of 4 float32", "all_reduce of 7 float32"),
    ("type", "all_reduce of 4 float32", "all_reduce of 4 float64"),
    ("fewer", "all_reduce of 4 float32", "barrier"),
])
def test_differences_are_named(how, one, other):
    done = launch.start(2, "faults.py", how, timeout=30, env={"GLUON_COMM_CHECK": 1})
    assert done.returncode != 0
    assert "processes differ" in done.stderr and one in done.stderr and other in done.stderr, done.stderr
