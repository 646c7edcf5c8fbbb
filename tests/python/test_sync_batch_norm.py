"""SyncBatchNorm over contexts of one process, each with a thread of its own: BatchNorm of the joined batch.

SPDX-License-Identifier: Apache-2.0
"""
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon.contrib.nn import SyncBatchNorm

RNG = np.random.RandomState(3)
DATA = (RNG.randn(12, 3, 4, 2) * 2 + 5).astype("float32")
FACTORS = RNG.randn(12, 3, 4, 2).astype("float32")


def in_threads(function, count):
    """function(i) in thread i; what each returned or raised."""
    results = [None] * count

    def run(i):
        try:
            results[i] = function(i)
        except Exception as error:  # pylint: disable=broad-except
            results[i] = error
    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    return results


def network(norm, hybrid, contexts):
    net = gluon.nn.HybridSequential()
    net.add(norm, gluon.nn.Activation("tanh"))
    net.initialize(ctx=contexts)
    if hybrid:
        net.hybridize()
    return net


def train(net, context, rows, steps=3):
    """Output and gradient of the data of the last step, on one context."""
    data, factors = nd.array(DATA[rows], ctx=context), nd.array(FACTORS[rows], ctx=context)
    data.attach_grad()
    for _ in range(steps):
        with autograd.record():
            y = net(data)
            loss = (y * factors).sum()
        loss.backward()
    return y.asnumpy(), data.grad.asnumpy()


def parts(count):
    """Rows of each context, of different sizes."""
    return np.array_split(np.arange(12), [5, 7][:count - 1])


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("count, keywords", [(2, {}), (3, {}), (2, {"scale": False, "momentum": 0.5, "epsilon": 1e-3})])
def test_as_one_batch(hybrid, count, keywords):
    contexts = [mx.cpu(i) for i in range(count)]
    whole = network(gluon.nn.BatchNorm(**keywords), hybrid, [mx.cpu()])
    wanted = train(whole, mx.cpu(), np.arange(12))
    net = network(SyncBatchNorm(num_devices=count, **keywords), hybrid, contexts)
    got = in_threads(lambda i: train(net, contexts[i], parts(count)[i]), count)
    for result, rows in zip(got, parts(count)):
        for a, b in zip(result, wanted):
            np.testing.assert_allclose(a, b[rows], rtol=2e-4, atol=2e-4)
    norm, other = net[0], whole[0]
    for a, b in ((norm.running_mean, other.running_mean), (norm.running_var, other.running_var)):
        copies = [a.data(c).asnumpy() for c in contexts]
        assert all(np.array_equal(copies[0], copy) for copy in copies)
        np.testing.assert_allclose(copies[0], b.data().asnumpy(), rtol=1e-5)
    for a, b in ((norm.beta, other.beta), (norm.gamma, other.gamma)):
        if b.grad_req != "null":
            sums = sum(a.grad(c).asnumpy() for c in contexts)
            np.testing.assert_allclose(sums, b.grad().asnumpy(), rtol=1e-4, atol=1e-4)


def test_a_trainer_gives_the_parameters_of_one_batch():
    def after(norm, contexts, rows):
        mx.random.seed(5)
        net = gluon.nn.HybridSequential()
        net.add(norm, gluon.nn.Dense(2))
        net.initialize(mx.init.Xavier(), ctx=contexts)
        net(nd.zeros((1, 3, 4, 2), ctx=contexts[0]))
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})

        def step(i):
            with autograd.record():
                loss = (net(nd.array(DATA[rows[i]], ctx=contexts[i])) ** 2).sum()
            loss.backward()
        for _ in range(3):
            assert in_threads(step, len(contexts)) == [None] * len(contexts)
            trainer.step(12)
        return [p.data(contexts[-1]).asnumpy() for p in net.collect_params().values()]

    one = after(gluon.nn.BatchNorm(), [mx.cpu()], [np.arange(12)])
    two = after(SyncBatchNorm(num_devices=2), [mx.cpu(0), mx.cpu(1)], parts(2))
    for a, b in zip(two, one):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


def test_prediction_and_global_statistics_wait_for_nobody():
    net = network(SyncBatchNorm(num_devices=2), False, [mx.cpu(0), mx.cpu(1)])
    plain = network(gluon.nn.BatchNorm(), False, [mx.cpu()])
    x = nd.array(DATA, ctx=mx.cpu(0))
    wanted = plain(x).asnumpy()
    assert np.array_equal(net(x).asnumpy(), wanted)
    fixed = network(SyncBatchNorm(num_devices=2, use_global_stats=True), False, [mx.cpu(0)])
    with autograd.record():
        assert np.array_equal(fixed(x).asnumpy(), wanted)


def test_a_partner_that_fails_ends_the_wait():
    contexts = [mx.cpu(0), mx.cpu(1)]
    net = network(SyncBatchNorm(num_devices=2, in_channels=3), False, contexts)

    def step(i):
        with autograd.record():
            net(nd.array(DATA if i == 0 else DATA[:, :2], ctx=contexts[i]))
    first, second = in_threads(step, 2)
    assert isinstance(second, mx.MXNetError) and isinstance(first, mx.MXNetError)
    assert "partner on cpu(1) failed" in str(first) and str(second)[-40:] in str(first), (first, second)
    got = in_threads(lambda i: train(net, contexts[i], parts(2)[i]), 2)  # the next step meets again
    assert all(isinstance(each, tuple) for each in got), got


def test_different_numbers_of_contexts():
    net = network(SyncBatchNorm(num_devices=2, prefix="same_"), False, [mx.cpu(0)])
    other = network(SyncBatchNorm(num_devices=3, prefix="same_"), False, [mx.cpu(1)])

    def step(i):
        with autograd.record():
            (net, other)[i](nd.array(DATA, ctx=mx.cpu(i)))
    errors = in_threads(step, 2)
    assert any("contexts differ" in str(e) for e in errors), errors


LOOP = """
import mxnet as mx
from mxnet import autograd, nd
net = mx.gluon.contrib.nn.SyncBatchNorm(num_devices=2)
net.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
try:
    with autograd.record():
        [net(nd.ones((2, 3), ctx=mx.cpu(i))) for i in range(2)]
except mx.MXNetError as error:
    print(error)
"""


def test_a_loop_in_one_thread_is_an_error():
    done = subprocess.run([sys.executable, "-c", LOOP], env={**os.environ, "GLUON_SYNC_SECONDS": "1"}, text=True,
                          stdout=subprocess.PIPE, timeout=60, check=True)
    assert "1 of 2 contexts came within 1 seconds" in done.stdout and "a thread of its own" in done.stdout, done.stdout


def test_the_operator_alone_does_not_share():
    x, ones, zeros = nd.ones((4, 3)), nd.ones(3), nd.zeros(3)
    with pytest.raises(mx.MXNetError, match=r"SyncBatchNorm: ndev=2 in training"), autograd.record():
        nd.contrib.SyncBatchNorm(x, ones, zeros, zeros, ones, ndev=2, key="a").wait_to_read()
    nd.contrib.SyncBatchNorm(x, ones, zeros, zeros, ones, ndev=2, key="a").wait_to_read()  # predictions share nothing
