"""Trains example networks for many steps and watches what must not grow: memory, open files, threads.

    python drift.py [-n STEPS] [NETWORK...]      steps per network (default 2000)

After a tenth of the steps the resident memory may grow by 0.1 % and one page per descriptor; files and threads stay the same.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import gc
import os
import sys

import numpy as np

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn, rnn

CHECKS = 20  # points at which memory is read; the least of the last quarter counts, as the allocator breathes


def lenet():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, 5, activation="relu"), nn.MaxPool2D(2, 2), nn.Conv2D(16, 3, activation="relu"), nn.MaxPool2D(2, 2),
            nn.Dense(32, activation="relu"), nn.Dropout(0.2), nn.Dense(10))
    return net, lambda: (nd.array(np.random.rand(8, 1, 20, 20)), nd.array(np.random.randint(0, 10, 8)))


def mlp():
    net = nn.HybridSequential()
    net.add(nn.Dense(64, activation="relu"), nn.BatchNorm(), nn.Dense(10))
    return net, lambda: (nd.array(np.random.rand(16, 20)), nd.array(np.random.randint(0, 10, 16)))


class Tagger(gluon.HybridBlock):
    """An LSTM with a dense layer on its last step."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.embed, self.lstm, self.out = nn.Embedding(50, 8), rnn.LSTM(16, layout="NTC"), nn.Dense(10)

    def hybrid_forward(self, F, x):
        return self.out(F.slice_axis(self.lstm(self.embed(x)), axis=1, begin=-1, end=None))


def lstm():
    return Tagger(), lambda: (nd.array(np.random.randint(0, 50, (4, 12))), nd.array(np.random.randint(0, 10, 4)))


NETWORKS = {"lenet": lenet, "mlp": mlp, "lstm": lstm}


def state():
    """(bytes of resident memory, open files, threads)."""
    gc.collect()
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["VmRSS"].split()[0]) * 1024, len(os.listdir("/proc/self/fd")), int(fields["Threads"])


def train(name, steps, hybrid):
    """The states at CHECKS points."""
    net, draw = NETWORKS[name]()
    net.initialize(mx.init.Xavier())
    if hybrid:
        net.hybridize(static_alloc=True)
    trainer, loss_of, states = gluon.Trainer(net.collect_params(), "adam"), gluon.loss.SoftmaxCrossEntropyLoss(), []
    for step in range(steps):
        x, label = draw()
        with autograd.record():
            loss = loss_of(net(x), label)
        loss.backward()
        trainer.step(len(label))
        if step % 50 == 0 and not np.isfinite(loss.mean().asscalar()):
            raise AssertionError(f"{name}: the loss is not finite at step {step}")
        if (step + 1) % max(1, steps // CHECKS) == 0:
            states.append(state())
    return states


def finding(states):
    """What grew, as text; None if nothing did."""
    early, late = states[len(states) // 10:len(states) // 2], states[-len(states) // 4:]
    before, after = max(s[0] for s in early), min(s[0] for s in late)
    if after > before * 1.001 + 4096:
        return f"memory grew from {before} to {after} bytes"
    for i, what in ((1, "open files"), (2, "threads")):
        if late[-1][i] != early[0][i]:
            return f"{early[0][i]} {what} became {late[-1][i]}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=2000)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    given = parser.parse_args()
    failed = False
    for name in given.networks:
        for hybrid in (False, True):
            states = train(name, given.n, hybrid)
            found = finding(states)
            failed |= found is not None
            print(f"{name}{', hybridized' * hybrid}: {given.n} steps, {states[-1][0] / 2 ** 20:.2f} MiB, "
                  f"{(states[-1][0] / states[len(states) // 10][0] - 1) * 100:+.3f} %, {states[-1][1]} files, {states[-1][2]} threads"
                  f"{': ' + found if found else ''}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
