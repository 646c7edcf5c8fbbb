"""Training that computes values again in backward instead of saving them.  SPDX-License-Identifier: Apache-2.0"""
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

STEPS, BATCH = 3, 6


def network():
    net = nn.HybridSequential()
    for channels in (8, 8, 12, 12, 12, 16):
        net.add(nn.Conv2D(channels, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.Dropout(0.2))
    net.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(5))
    mx.random.seed(4)
    np.random.seed(4)
    net.initialize(mx.init.Xavier())
    return net


def train(net, fused=False):
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    step = gluon.TrainStep(net, criterion, trainer) if fused else None
    losses = []
    mx.random.seed(5)
    for i in range(STEPS):
        data, label = nd.random.normal(shape=(BATCH, 3, 14, 14)), nd.array(np.arange(BATCH) % 5)
        if fused:
            losses.append(step(data, label).asnumpy())
        else:
            with autograd.record():
                loss = criterion(net(data), label)
            loss.backward()
            trainer.step(BATCH)
            losses.append(loss.asnumpy())
    return losses, [p.data().asnumpy() for p in net.collect_params().values()]


def equal(a, b):
    return all(np.array_equal(x, y) for one, other in zip(a, b) for x, y in zip(one, other))


def calls(net):
    """What the plan of a training call runs, by the profiler's table."""
    from mxnet import profiler
    data = nd.random.normal(shape=(BATCH, 3, 14, 14))
    with autograd.record():
        net(data).sum().backward()
    profiler.set_config(aggregate_stats=True)
    profiler.start()
    with autograd.record():
        loss = net(data).sum()
    loss.backward()
    profiler.stop()
    found = [line.split() for line in profiler.dumps(reset=True).splitlines() if line.startswith("Convolution ")]
    return int(found[0][1])


@pytest.mark.parametrize("fused", [False, True])
def test_results_are_the_same(fused):
    saved, again = network(), network()
    saved.hybridize()
    again.hybridize(recompute=True)
    assert equal(train(saved, fused), train(again, fused))


def test_imperative_results_are_the_same():
    """But for roundings on a GPU, where the kernels of a plan add in another order."""
    imperative, again = network(), network()
    again.hybridize(recompute=True)
    one, other = train(imperative), train(again)
    if mx.current_context().device_type == "cpu":
        assert equal(one, other)
    for a, b in zip(one, other):
        for x, y in zip(a, b):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


def test_steps_are_repeated_and_the_switch_can_be_taken_back():
    net = network()
    net.hybridize()
    assert calls(net) == 6
    net.hybridize(recompute=True, clear=False)
    assert calls(net) > 6
    net.hybridize()
    assert calls(net) == 6


def test_copies_keep_the_switch():
    net = network()
    net.hybridize(recompute=True)
    net(nd.zeros((BATCH, 3, 14, 14)))
    assert calls(pickle.loads(pickle.dumps(net))) == calls(net) > 6


def test_children_of_a_block_are_asked_too():
    class Outer(gluon.Block):
        def __init__(self):
            super().__init__()
            self.inner = network()

        def forward(self, x):
            return self.inner(x)

    net = Outer()
    net.hybridize(recompute=True)
    assert calls(net) > 6


def test_children_without_the_switch_are_not_asked():
    class Old(nn.Dense):
        def hybridize(self, active=True, static_alloc=False, **kwargs):
            assert "recompute" not in kwargs
            super().hybridize(active, static_alloc=static_alloc)

    net = nn.HybridSequential()
    net.add(Old(3))
    net.hybridize()


def test_backward_twice():
    net = network()
    net.hybridize(recompute=True)
    data = nd.random.normal(shape=(BATCH, 3, 14, 14))
    with autograd.record():
        loss = net(data).sum()
    loss.backward(retain_graph=True)
    first = net[0].weight.grad().asnumpy()
    loss.backward()
    assert np.array_equal(first, net[0].weight.grad().asnumpy())


PROGRAM = """
import mxnet as mx
from mxnet import autograd, nd, profiler
from mxnet.gluon import nn
net = nn.HybridSequential()
for _ in range(6):
    net.add(nn.Conv2D(8, 3, padding=1), nn.Activation("tanh"))
net.initialize()
net.hybridize()
for i in range(2):
    profiler.set_config(aggregate_stats=True)
    profiler.start()
    with autograd.record():
        loss = net(nd.ones((2, 3, 9, 9))).sum()
    loss.backward()
    profiler.stop()
    text = profiler.dumps(reset=True)
print([line.split()[1] for line in text.splitlines() if line.startswith("Convolution ")][0])
"""


@pytest.mark.parametrize("variable", ["0", "1"])
def test_variable_asks_for_all_plans(variable):
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True,
                          env={**os.environ, "MXNET_BACKWARD_DO_MIRROR": variable})
    assert (int(done.stdout) > 6) == (variable == "1"), done.stdout + done.stderr
