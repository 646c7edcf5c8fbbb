"""Exchanges of arrays between processes.  SPDX-License-Identifier: Apache-2.0"""
import os
import subprocess
import sys

import pytest

import launch


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
def test_arrays(processes):
    reports = launch.run(processes, "exchanges.py")
    assert all(r["size"] == processes and r["local"] == processes for r in reports)


def test_arrays_are_the_same_when_calls_are_compared():
    launch.run(2, "exchanges.py", env={"GLUON_COMM_CHECK": 1})


def test_one_process_alone_needs_no_launcher():
    done = subprocess.run([sys.executable, os.path.join(launch.PROGRAMS, "exchanges.py")], env=launch.environment(),
                          text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


def alone(text, **env):
    return subprocess.run([sys.executable, "-c", text], env=launch.environment(**env), text=True, capture_output=True)


def test_without_mpi_alone():
    """The error says what to install."""
    done = alone("import mxnet as mx\nmx.kv.create('dist_sync')", GLUON_MPI_LIBRARY="/nonexistent/libgluon_mpi.so")
    assert done.returncode != 0
    assert "libopenmpi-dev" in done.stderr and "dist_sync" in done.stderr, done.stderr


def test_ignored_variables_are_named_once_alone():
    if launch.missing():
        pytest.skip(launch.missing())
    text = "import mxnet as mx\nfor _ in range(2): mx.kv.create('local'), mx.kv.create('dist_sync')"
    done = alone(text, MXNET_KVSTORE_BIGARRAY_BOUND="9", MXNET_KVSTORE_USETREE="1")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("MXNET_KVSTORE_BIGARRAY_BOUND") == 1 and "MXNET_KVSTORE_USETREE" in done.stderr
    assert "ignored" not in alone(text).stderr


@pytest.mark.parametrize("role", ["server", "scheduler"])
def test_old_roles_end_alone(role):
    done = alone("import mxnet as mx\nprint('went on')", DMLC_ROLE=role)
    assert done.returncode == 0 and not done.stdout
    assert role in done.stderr and "mpirun" in done.stderr
