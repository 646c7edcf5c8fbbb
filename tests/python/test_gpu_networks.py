"""Convolutional and recurrent networks on a GPU, as plans: channels last, normalisation in parts, LSTM in one launch.

Everything is compared with the same network on the CPU, run call by call.  Sums of TF32 and of 16-bit types differ by
more than those of float32, so the bounds are wide; a wrong layout or a lost term is far outside of them.
"""
import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn, rnn

pytestmark = pytest.mark.skipif("mx.num_gpus() == 0", reason="there is no GPU")


class Residual(gluon.HybridBlock):
    """Two normalised convolutions around a shortcut; the first convolution has a bias."""

    def __init__(self, channels, narrow=False):
        super().__init__()
        with self.name_scope():
            self.body = nn.HybridSequential()
            self.body.add(nn.Conv2D(channels, 1), nn.BatchNorm(), nn.Activation("relu"),
                          nn.Conv2D(channels, 3, padding=1, use_bias=False), nn.BatchNorm())
            self.shortcut = nn.HybridSequential()
            if narrow:
                self.shortcut.add(nn.Conv2D(channels, 1, use_bias=False), nn.BatchNorm())

    def hybrid_forward(self, F, x):
        return F.relu(self.body(x) + self.shortcut(x))


def residual():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(16, 3, strides=2, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1),
            Residual(32, True), Residual(32), nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(10))
    return net


def plain():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, activation="relu"), nn.MaxPool2D(2), nn.Conv2D(16, 3), nn.LeakyReLU(0.1),
            nn.Conv2D(8, 3, padding=1, activation="sigmoid"), nn.AvgPool2D(2), nn.Flatten(), nn.Dense(10))
    return net


def joined():
    branch = gluon.contrib.nn.HybridConcurrent(axis=1)
    branch.add(nn.Conv2D(8, 1, activation="relu"), nn.Conv2D(16, 3, padding=1), gluon.contrib.nn.Identity())
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3), nn.BatchNorm(scale=False), branch, nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(8, 3),
            nn.GlobalMaxPool2D(), nn.Flatten(), nn.Dense(10))
    return net


def train(make, ctx, mode, dtype="float32", steps=2):
    """Losses and parameters after some steps from the same start."""
    mx.random.seed(7)
    random = np.random.RandomState(7)
    x, y = random.uniform(-1, 1, (16, 3, 24, 24)), random.randint(0, 10, 16)
    net = make()
    net.initialize(mx.init.Xavier(), ctx=mx.cpu())
    net(nd.array(x, ctx=mx.cpu()))
    net.collect_params().reset_ctx(ctx)
    net.cast(dtype)
    data, label = nd.array(x, ctx=ctx).astype(dtype), nd.array(y, ctx=ctx)
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    if mode != "imperative":
        net.hybridize()
        loss.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.9})
    whole = gluon.TrainStep(net, loss, trainer)
    losses = []
    for _ in range(steps):
        if mode == "whole":
            value = whole(data, label)
        else:
            with autograd.record():
                value = loss(net(data), label)
            value.backward()
            trainer.step(16)
        losses.append(value.astype("float32").asnumpy())
    return np.stack(losses), [p.data().astype("float32").asnumpy() for p in net.collect_params().values()]


@pytest.mark.parametrize("make", [residual, plain, joined])
@pytest.mark.parametrize("mode", ["imperative", "hybridized", "whole"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_convolutional_networks_train_alike(make, mode, dtype):
    loose = {"float32": 0.01, "float16": 0.02, "bfloat16": 0.1}[dtype]
    losses, parameters = train(make, mx.cpu(), "imperative")
    there, those = train(make, mx.gpu(0), mode, dtype)
    np.testing.assert_allclose(there, losses, rtol=loose, atol=loose)
    for mine, other in zip(parameters, those):
        assert np.abs(mine - other).max() <= 3 * loose * (np.abs(mine).max() + 0.1)


@pytest.mark.parametrize("layers, both, units, inputs, steps, batch",
                         [(1, False, 8, 5, 4, 3), (2, True, 12, 7, 6, 2), (1, False, 257, 33, 7, 9),
                          (2, False, 650, 650, 12, 20), (1, True, 300, 40, 6, 32), (1, False, 1024, 64, 5, 24)])
def test_lstm(layers, both, units, inputs, steps, batch):
    results = []
    for ctx in (mx.cpu(), mx.gpu(0)):
        mx.random.seed(3)
        random = np.random.RandomState(3)
        net = rnn.LSTM(units, layers, bidirectional=both, input_size=inputs)
        net.initialize(mx.init.Uniform(1.5 / units ** 0.5), ctx=mx.cpu())
        net.collect_params().reset_ctx(ctx)
        x = nd.array(random.uniform(-1, 1, (steps, batch, inputs)), ctx=ctx)
        x.attach_grad()
        with autograd.record():
            out, states = net(x, net.begin_state(batch_size=batch, ctx=ctx))
            value = (out * out).sum() + states[0].sum() + (states[1] * states[1]).sum()
        value.backward()
        results.append([a.asnumpy() for a in [out, *states, x.grad] + [p.grad() for p in net.collect_params().values()]])
    for mine, other in zip(*results):
        assert np.abs(mine - other).max() <= 0.01 * (np.abs(mine).max() + 1e-3)
