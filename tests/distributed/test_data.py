"""Data sets divided among processes, metrics, the example.  SPDX-License-Identifier: Apache-2.0"""
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import launch


@pytest.mark.parametrize("processes", [1, 3, 4])
def test_parts(processes):
    reports = launch.run(processes, "data.py")
    each = -(-26 // processes)
    for epoch in range(3):
        parts = [r["epochs"][epoch] for r in reports]
        assert all(len(part) == each for part in parts), "parts have different sizes"
        together = [x for part in parts for x in part]
        assert set(together) == set(range(26)) and len(together) - 26 < processes
        assert parts != [r["epochs"][(epoch + 1) % 3] for r in reports], "epochs have the same order"
    assert sorted(x for r in reports for x in r["kept"]) == list(range(26))
    assert all(r["reduced"] == reports[0]["reduced"] for r in reports)


def test_orders_do_not_depend_on_the_number_of_parts_alone():
    from mxnet.gluon.data import SplitSampler
    whole = list(SplitSampler(10, 1, 0, seed=4))
    parts = [list(SplitSampler(10, 3, i, seed=4, rest="keep")) for i in range(3)]
    assert [parts[i % 3][i // 3] for i in range(10)] == whole
    assert [len(SplitSampler(10, 3, i, rest=rest)) for rest in ("pad", "discard", "keep") for i in range(3)] == [
        4, 4, 4, 3, 3, 3, 4, 3, 3]
    again = SplitSampler(10, 3, 0, seed=4, rest="keep")
    again.set_epoch(1)
    first = SplitSampler(10, 3, 0, seed=4, rest="keep")
    assert [list(first), list(first)][1] == list(again)
    for wrong in ((10, 3, 3), (10, 0, 0)):
        with pytest.raises(ValueError):
            SplitSampler(*wrong)
    with pytest.raises(ValueError):
        SplitSampler(10, 2, 0, rest="some")


EXAMPLE = os.path.join(launch.HERE, "..", "..", "examples", "python", "distributed.py")


def images():
    from mxnet.gluon.data.vision import FashionMNIST
    try:
        FashionMNIST(train=False)
    except Exception:  # whatever says that they are missing
        return False
    return True


def train(folder, processes, *arguments):
    command = ["mpirun", "-np", str(processes), sys.executable, EXAMPLE, "--lenet", "--examples", "640", *arguments]
    done = subprocess.run(command, env=launch.environment(), cwd=folder, text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with open(os.path.join(folder, "distributed.params"), "rb") as file:
        return file.read()


def test_the_example_continues_with_the_same_bits(tmp_path):
    """Two epochs at once, and one after the other from the saved files."""
    if not images():
        pytest.skip("Fashion-MNIST is not here (Debian package dataset-fashion-mnist)")
    for name in ("once", "twice"):
        (tmp_path / name).mkdir()
    once = train(tmp_path / "once", 2, "--epochs", "2")
    train(tmp_path / "twice", 2, "--epochs", "1")
    assert train(tmp_path / "twice", 2, "--epochs", "2", "--resume") == once


def test_the_example_continues_as_another_number_of_processes(tmp_path):
    import mxnet as mx
    if not images():
        pytest.skip("Fashion-MNIST is not here (Debian package dataset-fashion-mnist)")
    for name in ("once", "twice"):
        (tmp_path / name).mkdir()
    train(tmp_path / "once", 2, "--epochs", "2")
    train(tmp_path / "twice", 2, "--epochs", "1")
    train(tmp_path / "twice", 4, "--epochs", "2", "--resume")
    once, twice = (mx.nd.load(str(tmp_path / name / "distributed.params")) for name in ("once", "twice"))
    for name, value in once.items():
        np.testing.assert_allclose(twice[name].asnumpy(), value.asnumpy(), rtol=1e-3, atol=1e-5, err_msg=name)


def test_resnets_on_images(tmp_path):
    """The examples in Python and in C: some steps of ResNet-18, whose parameters are saved.  At their own rate so few steps are
    chaotic: the last bit of a product decides how the loss goes on."""
    import mxnet as mx
    if not images():
        pytest.skip("Fashion-MNIST is not here (Debian package dataset-fashion-mnist)")
    compiled = os.path.join(os.path.dirname(mx.__file__), "..", "..", "examples", "distributed")
    programs = [[sys.executable, EXAMPLE, "--batch-size", "32"]]
    programs += [[compiled, "--batch", "32"]] if os.path.exists(compiled) else []
    for command in programs:
        line = ["mpirun", "-np", "2", *command, "--examples", "256", "--tests", "200", "--epochs", "3", "--lr", "0.003"]
        done = subprocess.run(line, env=launch.environment(), cwd=tmp_path, text=True, capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("2 processes") == 3, done.stdout
        first, *_, last = losses(done.stdout)
        assert last < first - 0.3, done.stdout
        saved = mx.nd.load(str(tmp_path / "distributed.params"))
        assert sum(value.size for value in saved.values()) > 11e6
        os.remove(tmp_path / "distributed.params")


def losses(text):
    return [float(number) for number in re.findall(r"loss ([0-9.]+)", text)]


def language_model(processes, *command):
    line = ["mpirun", "-np", str(processes), *command, "--quick"] if processes > 1 else [*command, "--quick"]
    done = subprocess.run(line, env=launch.environment(), text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return losses(done.stdout)


def test_language_models():
    """Halves of the strands, in Python (without dropout: each process has its own) and in C: the numbers of one process."""
    import mxnet
    programs = [[sys.executable, os.path.join(os.path.dirname(EXAMPLE), "language_model.py"), "--dropout", "0"]]
    compiled = os.path.join(os.path.dirname(mxnet.__file__), "..", "..", "examples", "language_model")
    programs += [[compiled]] if os.path.exists(compiled) else []
    for command in programs:
        one, two = language_model(1, *command), language_model(2, *command)
        assert len(one) == len(two) > 3 and one[-1] < one[0] - 1, one
        np.testing.assert_allclose(two, one, rtol=5e-3, err_msg=str(command))
