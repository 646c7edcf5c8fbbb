"""Ctrl-C reaches a call that takes long: the program gets a KeyboardInterrupt, and the library works afterwards.

Each kind of work takes a minute or more; a call that is not interrupted runs into the limit of its process.
"""
import os
import subprocess
import sys
import time

import pytest

import mxnet as mx
from mxnet import nd

PROGRAM = """
import os, signal, threading, time
import mxnet as mx
from mxnet import autograd, gluon, nd
{setup}
def press():
    time.sleep(0.4)
    os.kill(os.getpid(), signal.SIGINT)
def work():
    {work}
threading.Thread(target=press, daemon=True).start()
try:
    work()
except KeyboardInterrupt:
    print("interrupted")
else:
    print("ended")
assert nd.dot(nd.ones((300, 300)), nd.ones((300, 300))).sum().asscalar() == 300 ** 3
"""

LONG = {
    "product": ("a = nd.ones((12000, 12000))", "nd.dot(a, a).wait_to_read()"),
    "convolution": ("x, w = nd.ones((4, 128, 256, 256)), nd.ones((128, 128, 31, 31))",
                    "nd.Convolution(x, w, kernel=(31, 31), num_filter=128, no_bias=True).wait_to_read()"),
    "recurrent": ("net = gluon.rnn.LSTM(1024); net.initialize(); x = nd.ones((20000, 16, 64))", "net(x)"),
    "hybridized": ("net = gluon.nn.HybridSequential()\n"
                   "layer = gluon.nn.Dense(3000, in_units=3000)\n"
                   "for _ in range(300): net.add(layer)\n"
                   "net.initialize(mx.init.Zero()); net.hybridize(); x = nd.ones((2000, 3000))", "net(x).wait_to_read()"),
    "sorting": ("x = nd.random.uniform(shape=(3000000,))", "while True: nd.sort(x)"),
    "eigenvalues": ("a = nd.random.uniform(shape=(2500, 2500))", "nd.linalg.syevd(a)"),
    "singular values": ("a = mx.np.random.uniform(size=(1500, 1500))", "mx.np.linalg.svd(a)"),
    "general eigenvalues": ("a = mx.np.random.uniform(size=(2000, 2000))", "mx.np.linalg.eig(a)"),
    "Fourier transform": ("x = nd.ones((64, 100003))", "nd.contrib.fft(x)"),
    "running sums": ("a = mx.np.ones((30000000,))", "while True: mx.np.cumsum(a)"),
    "matching": ("x = nd.random.uniform(shape=(1, 5000, 5000))", "while True: nd.contrib.bipartite_matching(x, threshold=1e-12)"),
    "inverse": ("a = nd.random.uniform(shape=(20, 2000, 2000))", "nd.linalg.inverse(a)"),
    "backward": ("a = nd.ones((9000, 9000)); a.attach_grad()\n"
                 "with autograd.record(): y = nd.dot(nd.ones((1, 9000)), nd.dot(a, a[:, :1]))\n"
                 "for _ in range(30):\n    with autograd.record(): y = y + nd.dot(a, a[:, :64]).sum()", "[y.backward(retain_graph=True) "
                 "for _ in range(1000)]"),
}


def run(setup, work):
    return subprocess.run([sys.executable, "-c", PROGRAM.format(setup=setup, work=work)], capture_output=True, text=True,
                          timeout=50, env={**os.environ, "PYTHONUNBUFFERED": "1"})


@pytest.mark.parametrize("name", sorted(LONG))
def test_long_work_is_interrupted(name):
    done = run(*LONG[name])
    assert done.stdout.split() == ["interrupted"] and done.returncode == 0, done.stdout + done.stderr


def test_own_handlers_are_left_alone():
    """A program that handles the signal itself gets its result."""
    done = run("a = nd.ones((4000, 4000)); seen = []\nsignal.signal(signal.SIGINT, lambda *unused: seen.append(1))",
               "while not seen: assert nd.dot(a, a)[0, 0].asscalar() == 4000")
    assert done.stdout.split() == ["ended"] and done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("threads", [False, True])
def test_loader_is_interrupted(threads):
    """Waiting for workers, too."""
    done = run("class Slow(gluon.data.Dataset):\n    def __len__(self): return 100\n"
               "    def __getitem__(self, i): time.sleep(1); return nd.ones(1)\n"
               f"loader = gluon.data.DataLoader(Slow(), 1, num_workers=1, thread_pool={threads})", "list(loader)")
    assert done.stdout.split() == ["interrupted"] and done.returncode == 0, done.stdout + done.stderr


LIMITED = """
import time
import pytest

import mxnet as mx
from mxnet import nd
import mxnet as mx
from mxnet import gluon, nd
{setup}
began = time.monotonic()
with pytest.raises(mx.MXNetError, match="time limit of 0.5 seconds"):
    with mx.util.time_limit(0.5):
        {work}
assert time.monotonic() - began < 20
assert nd.dot(nd.ones((300, 300)), nd.ones((300, 300))).sum().asscalar() == 300 ** 3
print("limited")
"""


@pytest.mark.parametrize("name", ["product", "recurrent", "hybridized", "running sums"])
def test_time_limit(name):
    setup, work = LONG[name]
    done = subprocess.run([sys.executable, "-c", LIMITED.format(setup=setup, work=work)], capture_output=True, text=True, timeout=50)
    assert done.stdout.split() == ["limited"] and done.returncode == 0, done.stdout + done.stderr


def test_time_limits_nest():
    """The shorter limit counts, that of the outer block comes back, and without a block there is none."""
    def work():
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            nd.ones(4).wait_to_read()
    with mx.util.time_limit(100):
        with pytest.raises(mx.MXNetError, match=r"time limit of 0\.[01]\d* seconds"):
            with mx.util.time_limit(0.1):
                with mx.util.time_limit(50):
                    with mx.util.time_limit(0):
                        work()
        work()
    with pytest.raises(mx.MXNetError, match="at least 0 seconds, got -1"):
        with mx.util.time_limit(-1):
            pass
    work()
