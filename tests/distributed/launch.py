"""Starting programs as several processes, with the MPI of this machine.

A program is a file of programs/; each of its processes writes what the test gets with report(), as a file of JSON.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "programs")


def missing():
    """Why there cannot be several processes; None: there can."""
    import mxnet
    if not shutil.which("mpirun"):
        return "mpirun is not installed (Debian package openmpi-bin)"
    if not os.path.exists(os.path.join(os.path.dirname(mxnet.__file__), "libgluon_mpi.so")):
        return "the MPI part was not built (Debian package libopenmpi-dev)"
    return None


def environment(**more):
    """That of a process which may start others: root and more processes than CPUs are fine."""
    import mxnet
    package = os.path.dirname(os.path.dirname(os.path.abspath(mxnet.__file__)))
    return {**os.environ, "PYTHONPATH": package + os.pathsep + HERE, "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "OMPI_MCA_hwloc_base_binding_policy": "none", "PYTHONDONTWRITEBYTECODE": "1",
            "MXNET_CPU_WORKER_NTHREADS": "1", **{k: str(v) for k, v in more.items()}}


def start(processes, program, *arguments, timeout=120, env=None):
    """Runs programs/`program` and returns the finished process, with its output as text."""
    command = ["mpirun", "-np", str(processes), sys.executable, os.path.join(PROGRAMS, program), *map(str, arguments)]
    return subprocess.run(command, env=environment(**(env or {})), timeout=timeout, text=True, capture_output=True)


def run(processes, program, *arguments, env=None, **options):
    """Runs it to a good end; what its processes reported, by rank."""
    with tempfile.TemporaryDirectory() as folder:
        done = start(processes, program, *arguments, env={"GLUON_TEST_REPORTS": folder, **(env or {})}, **options)
        assert done.returncode == 0, f"{program} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        reports = []
        for rank in range(processes):
            with open(os.path.join(folder, f"{rank}.json"), encoding="utf-8") as file:
                reports.append(json.load(file))
    return reports


def report(rank, values):
    """In a program: what the test gets."""
    folder = os.environ.get("GLUON_TEST_REPORTS")
    if folder:
        with open(os.path.join(folder, f"{rank}.json"), "w", encoding="utf-8") as file:
            json.dump(values, file)
