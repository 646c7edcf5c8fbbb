"""The MPI part built with MPICH instead of OpenMPI.  SPDX-License-Identifier: Apache-2.0"""
import os
import shutil
import subprocess
import sys

import pytest

import launch

ROOT = os.path.abspath(os.path.join(launch.HERE, "..", ".."))
FILES = ["src/comm/mpi/mpi.c", "src/comm/mpi/sum.c", "src/ndarray/dtype.c", "src/ndarray/convert.c"]


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    """libgluon_mpi.so for MPICH."""
    for tool in ("mpicc.mpich", "mpiexec.mpich"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed (Debian packages libmpich-dev, mpich)")
    path = tmp_path_factory.mktemp("mpich") / "libgluon_mpi.so"
    subprocess.run(["mpicc.mpich", "-O2", "-std=gnu11", "-fPIC", "-shared", "-fvisibility=hidden", "-Isrc", "-Iinclude", *FILES,
                    "-o", str(path)], cwd=ROOT, check=True)
    return path


def start(part, processes, program, *arguments):
    command = ["mpiexec.mpich", "-n", str(processes), sys.executable, os.path.join(launch.PROGRAMS, program), *arguments]
    return subprocess.run(command, env=launch.environment(GLUON_MPI_LIBRARY=part), text=True, capture_output=True, timeout=90)


def test_exchanges(part):
    done = start(part, 3, "exchanges.py")
    assert done.returncode == 0, done.stderr


def test_training(part):
    done = start(part, 2, "training.py", "net=conv,hybrid=1", "net=embedding,on=0")
    assert done.returncode == 0, done.stderr


def test_a_failing_process(part):
    done = start(part, 2, "faults.py", "raise")
    assert done.returncode != 0
    assert "rank 1 failed: ValueError: the batch is empty" in done.stderr, done.stderr
