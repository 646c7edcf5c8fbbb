"""gluon run.  SPDX-License-Identifier: Apache-2.0"""
import os
import re
import subprocess
import sys

import pytest

import launch


@pytest.fixture(scope="module")
def gluon():
    """The command of the build that the package belongs to."""
    import mxnet
    path = os.path.join(os.path.dirname(mxnet.__file__), "..", "..", "bin", "gluon")
    if not os.path.exists(path):
        pytest.skip("the gluon command was not built")
    return os.path.abspath(path)


def start(gluon, *arguments):
    env = {k: v for k, v in launch.environment().items() if not k.startswith("OMPI_") and "NTHREADS" not in k}
    return subprocess.run([gluon, "run", *arguments], env=env, text=True, capture_output=True, timeout=60)


def test_lines_have_ranks_and_threads_are_divided(gluon):
    text = "import mxnet as mx\nkv = mx.kv.create('dist_sync')\nprint('of', kv.num_workers, mx._core.num_threads())"
    done = start(gluon, "-n", "2", "--", sys.executable, "-c", text)
    assert done.returncode == 0, done.stderr
    lines = sorted(line for line in done.stdout.splitlines() if "of 2" in line)
    assert [line[:4] for line in lines] == ["[0] ", "[1] "], done.stdout
    cpus = len(os.sched_getaffinity(0))
    assert all(int(line.split()[-1]) == max(1, cpus // 2) for line in lines), lines


def test_the_last_lines_of_a_dead_process_are_shown(gluon):
    text = ("import os, mxnet as mx\nkv = mx.kv.create('dist_sync')\nprint('I am', kv.rank)\nkv.barrier()\n"
            "if kv.rank == 1: os.kill(os.getpid(), 9)\nkv.barrier()")
    done = start(gluon, "-n", "2", "--", sys.executable, "-c", text)
    assert done.returncode != 0
    assert re.search(r"rank 1 was killed by signal 9 .*its last lines:\n +I am 1", done.stderr), done.stderr


def test_wrong_use_alone(gluon):
    for arguments, text in ((["-n", "2"], "no program"), (["--", "true"], "how many"), (["-n", "0", "--", "true"], "-n")):
        done = start(gluon, *arguments)
        assert done.returncode == 2, arguments
        assert text.strip("-") in done.stderr, done.stderr


def test_show_prints_the_command_line(gluon):
    done = start(gluon, "-n", "3", "--host", "a:2,b:1", "--show", "--", "python", "train.py", "-x", "--", "y")
    assert done.returncode == 0
    assert done.stdout.startswith("mpirun -np 3 ") and "a:2,b:1" in done.stdout
    assert done.stdout.rstrip().endswith("run --rank -- python train.py -x -- y")
