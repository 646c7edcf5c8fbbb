"""RNN on a GPU: all cells against float64 on the CPU, where their steps run in one launch (TF32) and where they do not.

Which of the two serves a layer depends on its size and on GLUON_CUDA_TF32; the last test runs this file with the other
setting.
"""
import os
import subprocess
import sys

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, nd

pytestmark = pytest.mark.skipif("mx.num_gpus() == 0", reason="there is no GPU")

EXACT = os.environ.get("GLUON_CUDA_TF32") == "0"
GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


def parameters(mode, inputs, units, layers, ways, projection=None):
    handed, gates = projection or units, GATES[mode] * units
    return sum(ways * (gates * ((ways * handed if layer else inputs) + handed + 2) + (projection or 0) * units)
               for layer in range(layers))


def run(ctx, dtype, mode, steps, batch, inputs, units, layers=1, both=False, lengths=None, ends=True, **more):
    """Outputs, then gradients by random gradients of all outputs."""
    random, ways, projection = np.random.RandomState(5), 2 if both else 1, more.get("projection_size")
    scale = 1.2 / units ** 0.5

    def draw(*shape, size=1.0):
        x = nd.array(random.uniform(-size, size, shape), ctx=ctx, dtype=dtype)
        x.attach_grad()
        return x
    given = [draw(steps, batch, inputs), draw(parameters(mode, inputs, units, layers, ways, projection), size=scale),
             draw(layers * ways, batch, projection or units)]
    given += [draw(layers * ways, batch, units)] if mode == "lstm" else []
    rest = {} if lengths is None else {"sequence_length": nd.array(lengths, ctx=ctx, dtype="int32"),
                                       "use_sequence_length": True}
    with autograd.record():
        out = nd.RNN(*given, mode=mode, state_size=units, num_layers=layers, bidirectional=both, state_outputs=ends,
                     **rest, **more)
    out = out if ends else [out]
    autograd.backward(out, [nd.array(random.uniform(-1, 1, x.shape), ctx=ctx, dtype=dtype) for x in out])
    return [x.asnumpy() for x in out] + [x.grad.asnumpy() for x in given]


def check(dtype, mode, *arguments, **more):
    """Relative distances; rounding moves some relu units across zero."""
    bound = {"float64": 1e-10, "float32": 1e-4 if EXACT else 5e-3, "float16": 5e-3}[dtype]
    bound *= 10 if mode == "rnn_relu" and bound > 1e-4 else 1
    there = run(mx.gpu(0), dtype, mode, *arguments, **more)
    for mine, other in zip(run(mx.cpu(), "float64", mode, *arguments, **more), there):
        assert other.dtype == dtype and np.isfinite(other).all()
        assert np.linalg.norm(mine - other) <= bound * (np.linalg.norm(mine) + 1e-3), mine.shape


@pytest.mark.parametrize("mode", GATES)
@pytest.mark.parametrize("layers, both", [(1, False), (2, False), (3, True)])
@pytest.mark.parametrize("steps, batch, inputs, units", [(2, 1, 3, 5), (7, 33, 17, 40), (4, 70, 8, 100)])
def test_small_layers(mode, layers, both, steps, batch, inputs, units):
    check("float32", mode, steps, batch, inputs, units, layers, both, ends=batch > 1)


@pytest.mark.parametrize("mode", GATES)
@pytest.mark.parametrize("steps, batch, units, both",
                         [(9, 8, 257, False), (6, 32, 256, True), (5, 64, 512, False), (4, 20, 650, True),
                          (3, 24, 1024, False), (3, 40, 1030, False), (1, 4, 64, False), (40, 3, 31, True)])
def test_sizes(mode, steps, batch, units, both):
    """Every kind of launch: few and many rows to a block, several launches, and what is too large for them."""
    check("float32", mode, steps, batch, 24, units, 1, both)


@pytest.mark.parametrize("mode", GATES)
@pytest.mark.parametrize("units", [12, 300])
def test_lengths(mode, units):
    check("float32", mode, 6, 11, 5, units, 2, True, lengths=[6, 1, 3, 0, 5, 6, 2, 4, 6, 1, 9])


@pytest.mark.parametrize("units", [12, 300])
def test_clipped_cells(units):
    check("float32", "lstm", 5, 4, 6, units, 2, True, lstm_state_clip_min=-0.2, lstm_state_clip_max=0.25)


def test_projection():
    check("float32", "lstm", 5, 4, 6, 10, 2, True, projection_size=3)
    check("float32", "lstm", 5, 4, 6, 3, 2, True, lengths=[5, 2, 0, 3], projection_size=10)


@pytest.mark.parametrize("mode", GATES)
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_types(mode, dtype):
    check(dtype, mode, 6, 5, 7, 24, 2, True)


@pytest.mark.parametrize("mode", GATES)
def test_same_every_time(mode):
    """Data exchanged between thread blocks is complete: many steps give the same bits every time."""
    first = run(mx.gpu(0), "float32", mode, 60, 20, 8, 200, 2, True)
    for _ in range(5):
        for mine, other in zip(first, run(mx.gpu(0), "float32", mode, 60, 20, 8, 200, 2, True)):
            np.testing.assert_array_equal(mine, other)


@pytest.mark.skipif("'GLUON_RNN_ONCE' in os.environ", reason="this is the other setting")
def test_other_setting():
    environment = dict(os.environ, GLUON_CUDA_TF32="1" if EXACT else "0", GLUON_RNN_ONCE="1")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", "not small_layers",
                           __file__], env=environment, stdout=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:]
