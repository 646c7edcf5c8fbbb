"""Processes that do not fit together: a clear error on every one, and nothing is lost.  SPDX-License-Identifier: Apache-2.0"""
import json
import subprocess

import pytest

import launch


def errors(folder, processes, *arguments, **env):
    """What every process reported."""
    done = launch.start(processes, "wrong.py", *arguments, timeout=60, env={"GLUON_TEST_REPORTS": folder, **env})
    assert done.returncode != 0, done.stderr
    found = []
    for rank in range(processes):
        path = folder / f"{rank}.json"
        assert path.exists(), f"rank {rank} has no error:\n{done.stderr}"
        found.append(json.loads(path.read_text()))
    return found


def test_versions(tmp_path):
    for error in errors(tmp_path, 2, "version"):
        assert error["kind"] == "CommunicationError"
        assert "rank 0 has version" in error["text"] and "rank 1 has version 9.8.7" in error["text"], error


def test_order_of_parameters(tmp_path):
    first, second = errors(tmp_path, 2, "order")
    assert first["kind"] == second["kind"] == "CommunicationError"
    assert "parameters differ" in first["text"] and "rank 1" in first["text"]
    assert "dense_weight" in second["text"] and "dense_bias" in second["text"], second


@pytest.mark.parametrize("switch", ["MXNET_CHECK", "GLUON_COMM_CHECK"])
def test_nan_on_one_process(tmp_path, switch):
    """In checking mode the error says where it comes from; sums alone would not show it."""
    for error in errors(tmp_path, 3, "nan", **{switch: 1}):
        assert "dense0_weight" in error["text"] and "not finite on rank 1" in error["text"], error


def test_a_full_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "none", str(disk)], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no file system of a few kilobytes can be mounted: {made.stderr.strip()}")
    try:
        import mxnet as mx
        mx.nd.save(str(disk / "net.params"), {"small": mx.nd.ones((3,))})
        for rank, error in enumerate(errors(tmp_path, 3, "disk", disk)):
            assert error["kind"] == ("FileError" if rank == 0 else "CommunicationError")
            assert "net.params" in error["text"] and "No space left" in error["text"], error
            assert rank == 0 or "rank 0 failed" in error["text"]
        assert list(mx.nd.load(str(disk / "net.params"))) == ["small"], "the old file is gone"
        assert [p.name for p in disk.iterdir()] == ["net.params"], "a part of the new file was left"
    finally:
        subprocess.run(["umount", str(disk)], check=False)
