"""Faults of the system: kills, full disks, errors of the disk, interrupted and short writes, folders that cannot be written, files
that vanish, closed outputs.  A loadable file always remains, an error says what happened, and the next call works.

`make faults` runs these.  SPDX-License-Identifier: Apache-2.0
"""
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy as np
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import mxnet as mx  # noqa: E402
from mxnet import nd  # noqa: E402
from mxnet.contrib.tensorboard import SummaryWriter  # noqa: E402
from writers import WRITERS  # noqa: E402

COMMAND = os.environ.get("GLUON_COMMAND", "")  # the `gluon` command


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler or not sys.platform.startswith("linux"):
        pytest.skip("there is no C compiler for the library of faults")
    made = str(tmp_path_factory.mktemp("shim") / "shim.so")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", made, os.path.join(HERE, "shim.c"), "-ldl"], check=True)
    return made


@pytest.fixture
def fast_folder(tmp_path):
    """A folder in memory where there is one: fsync on disks takes long."""
    if not os.access("/dev/shm", os.W_OK):
        yield str(tmp_path)
        return
    folder = tempfile.mkdtemp(dir="/dev/shm")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_every_fault(shim, fast_folder, name):
    done = subprocess.run([sys.executable, os.path.join(HERE, "program.py"), name, os.path.join(fast_folder, "files")],
                          env={**os.environ, "LD_PRELOAD": shim, "MXNET_CPU_WORKER_NTHREADS": "1"},
                          capture_output=True, text=True, timeout=600)
    print(done.stdout.strip().splitlines()[-1:] or done.stderr[-2000:])
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


@pytest.fixture
def small_disk(fast_folder):
    """A real file system of 64 KiB."""
    folder = os.path.join(fast_folder, "small")
    os.mkdir(folder)
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder],
                                           capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def fits_not(path):
    """A file of 80 KB over one of 4 KB, with an error; the old one remains."""
    mx.nd.save(path, {"a": nd.ones((1000,))})
    with pytest.raises((OSError, mx.MXNetError)) as raised:
        mx.nd.save(path, {"a": nd.zeros((20000,))})
    assert os.path.basename(path) in str(raised.value)
    np.testing.assert_array_equal(mx.nd.load(path)["a"].asnumpy(), np.ones(1000))
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]
    mx.nd.save(path, {"a": nd.zeros((500,))})
    assert mx.nd.load(path)["a"].shape == (500,)


def test_full_disk(small_disk):
    fits_not(os.path.join(small_disk, "a.params"))


def test_limit_of_file_sizes(tmp_path):
    """The system's own partial write: EFBIG after the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50000, hard))  # Python ignores SIGXFSZ
    try:
        fits_not(str(tmp_path / "a.params"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_event_file_goes_on_after_a_full_disk(tmp_path):
    """What a failed call left is cut off: the file has all complete events and nothing else."""
    log = SummaryWriter(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
    try:
        log.add_text("short", "a" * 1000)
        with pytest.raises((OSError, mx.MXNetError), match="cannot be written"):
            log.add_text("long", "b" * 5000)
        assert os.path.getsize(log.path) < 1200
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.add_text("last", "c" * 5000)
    with open(log.path, "rb") as file:
        data = file.read()
    sizes, at = [], 0
    while at < len(data):
        sizes.append(struct.unpack_from("<Q", data, at)[0])
        at += 16 + sizes[-1]
    assert at == len(data) and len(sizes) == 3 and b"b" * 10 not in data


@pytest.mark.parametrize("name", sorted(set(WRITERS) - {"events"}))
def test_folders_that_cannot_be_written(tmp_path, name):
    write, _ = WRITERS[name]
    with open(tmp_path / "file", "w"):
        pass
    for folder in ("/proc/self", str(tmp_path / "missing"), str(tmp_path / "file")):
        with pytest.raises((OSError, mx.MXNetError, ValueError)):
            write(folder, 1)


@pytest.mark.parametrize("name", sorted(set(WRITERS) - {"events"}))
def test_vanished_and_truncated_files(tmp_path, name):
    """A missing file, and every file cut to some lengths: an error, or (cut at a boundary of records) less of it."""
    write, read = WRITERS[name]
    write(str(tmp_path), 1)
    for file in os.listdir(tmp_path):
        path = tmp_path / file
        whole = path.read_bytes()
        for size in {0, 1, 7, len(whole) // 2, len(whole) - 1}:
            path.write_bytes(whole[:size])
            with pytest.raises(Exception):
                read(str(tmp_path))
                if file == "a.idx":
                    raise ValueError("a shorter index is an index")
        path.unlink()
        if file != "a.idx":  # records can be read without their index
            with pytest.raises((OSError, mx.MXNetError, ValueError)):
                read(str(tmp_path))
        path.write_bytes(whole)
    assert read(str(tmp_path)) == {1}


def test_file_that_shrinks_while_it_is_read(tmp_path):
    """Nothing is mapped into memory, so a truncated file is an error and no signal."""
    path = str(tmp_path / "a.rec")
    with mx.recordio.MXRecordIO(path, "w") as record:
        for _ in range(50):
            record.write(bytes(5000))
    reader = mx.recordio.MXRecordIO(path, "r")
    assert len(reader.read()) == 5000
    os.truncate(path, 1000)
    with pytest.raises((OSError, mx.MXNetError)):
        while reader.read() is not None:
            pass


@pytest.mark.skipif(not COMMAND, reason="GLUON_COMMAND does not name the gluon command")
@pytest.mark.parametrize("words", [["doctor"], ["--help"], ["predict", "--help"], ["summary", "net"]], ids=lambda words: words[0].strip("-"))
def test_closed_and_full_outputs(tmp_path, words):
    """Without standard output, or with a full one: an exit status other than 0, and no signal."""
    WRITERS["export"][0](str(tmp_path), 1)
    words = [str(tmp_path / "net") if word == "net" else word for word in words]
    for redirect in (">&-", ">/dev/full", ">&- 2>&-", "| head -c 1"):
        done = subprocess.run(["sh", "-c", '"$@" ' + redirect, "sh", COMMAND, *words], capture_output=True, text=True,
                              timeout=60)
        assert done.returncode in ((0,) if "|" in redirect else (1, 2)), (redirect, done)
