"""Every example runs as a newcomer would run it, in its own process, with less data if it takes long.

With MXNET_TEST_DEFAULT_CTX it runs with that context as the current one.
"""
import os
import subprocess
import sys

import pytest

import mxnet

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "python")
# Arguments that make an example short, and what its output must contain.
RUNS = {
    "lenet.py": (["--epochs", "1", "--examples", "6400"], ["imperative", "hybridized", "test accuracy"]),
    "vae.py": (["--epochs", "1", "--examples", "2000"], ["epoch 1: loss"]),
    "linear_regression.py": ([], ["from scratch", "with Gluon", "bias 4.2"]),
    "tree_lstm.py": ([], ["epoch 4"]),
    "language_model.py": (["--quick"], ["epoch 6", "perplexity", "the "]),
    "gpt2.py": (["--quick"], ["step   60: loss", "The ", "tokens/s"]),
    "char_rnn.py": (["--quick"], ["iteration 80", "The "]),
    "transformer.py": (["--quick"], ["iteration 150", "without a mistake"]),
    "gan.py": ([], ["mean of the points"]),
    "custom_function.py": ([], ["finite differences"]),
    "distributed.py": (["--lenet", "--epochs", "1", "--examples", "2000"], ["epoch 1: loss", "1 process"]),
    "custom_dataset.py": ([], ["inside? [1. 0.]"]),
}


def test_all_examples_are_run():
    assert sorted(RUNS) == sorted(f for f in os.listdir(FOLDER) if f.endswith(".py"))


@pytest.mark.parametrize("name", sorted(RUNS))
def test_example(name, tmp_path):
    arguments, wanted = RUNS[name]
    if name in ("lenet.py", "vae.py", "distributed.py"):
        if not _have_images():
            pytest.skip("Fashion-MNIST is not here (Debian package dataset-fashion-mnist)")
    if name == "distributed.py" and not os.path.exists(os.path.join(os.path.dirname(mxnet.__file__), "libgluon_mpi.so")):
        pytest.skip("the MPI part was not built (Debian package libopenmpi-dev)")
    done = subprocess.run([sys.executable] + _program(os.path.join(FOLDER, name)) + arguments, cwd=tmp_path,
                          timeout=600, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    for text in wanted:
        assert text in done.stdout, done.stdout[-3000:]


def _program(path):
    context = os.environ.get("MXNET_TEST_DEFAULT_CTX")
    return [path] if not context else ["-c", f"""
import runpy, sys, mxnet
sys.argv = [{path!r}] + sys.argv[1:]
sys.path.insert(0, {os.path.dirname(path)!r})
with mxnet.Context.from_text({context!r}):
    runpy.run_path({path!r}, run_name="__main__")
"""]


def _have_images():
    from mxnet.gluon.data.vision import FashionMNIST
    try:
        return len(FashionMNIST(train=False)) > 0
    except OSError:
        return False
