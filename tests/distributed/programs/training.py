"""Trainings, one per argument: NAME=VALUE,NAME=VALUE...  Every process reports the parameters of each.

net: dense, conv, embedding (sparse gradients); store: a kind or none; on: updates on the store; hybrid; clip: gradients
are changed between backward and step; twice: two backwards per step; add: accumulated gradients; unused: rank 0 does not
use a layer in every second step; contexts; compression; fused: TrainStep; seeds: initial values differ; shard: divided states; save: they go through a file.
SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import os
import sys

import numpy as np

import mxnet as mx
from launch import report
from mxnet import autograd, gluon
from mxnet.gluon import nn

BATCH, STEPS = 24, 8


options = {}  # of the training that runs


def yes(name):
    return options.get(name, "0") == "1"


def make_net():
    net = nn.HybridSequential()
    with net.name_scope():
        if options.get("net") == "conv":
            net.add(nn.Conv2D(4, 3, activation="relu"), nn.MaxPool2D(2), nn.Flatten())
        if options.get("net") == "embedding":
            net.add(nn.Embedding(30, 6, sparse_grad=True))
        net.add(nn.Dense(16, activation="relu"), nn.Dense(9, activation="tanh"), nn.Dense(5))
    return net


class Switched(gluon.HybridBlock):
    """A network with a branch that not every process uses."""

    def __init__(self, **keywords):
        super().__init__(**keywords)
        with self.name_scope():
            self.body, self.extra = nn.Dense(8, in_units=10), nn.Dense(5, in_units=8)
            self.head = nn.Dense(5, in_units=8)

    def forward(self, x, use=True):
        h = self.body(x)
        return self.head(h) + self.extra(h) if use else self.head(h)


def data():
    rng = np.random.RandomState(3)
    kind = options.get("net")
    shape = (STEPS, BATCH) + ((1, 8, 8) if kind == "conv" else (4,) if kind == "embedding" else (10,))
    x = rng.randint(0, 30, shape) if kind == "embedding" else rng.randn(*shape)
    return x.astype("float32"), rng.randint(0, 5, (STEPS, BATCH)).astype("float32")


def saved_and_loaded(trainer, net, kv):
    """Another trainer that continues with the states of this one, through a file."""
    path = os.path.join(os.environ["GLUON_TEST_REPORTS"], "states")
    trainer.save_states(path)
    kv.barrier()
    other = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01}, kvstore="dist_sync",
                          update_on_kvstore=False, shard_states=yes("shard"))
    other.load_states(path)
    kv.barrier()
    return other


def train():
    """One training; its parameters, and the bits of all of them as one text."""
    store = options.get("store", "dist_sync")
    kv = mx.kv.create(store if store != "none" else "local")
    rank, size = kv.rank, kv.num_workers
    contexts = [mx.cpu(i) for i in range(int(options.get("contexts", "1")))]
    mx.random.seed(5 + rank * yes("seeds"))
    net = Switched() if yes("unused") else make_net()
    net.initialize(mx.init.Xavier(), ctx=contexts)
    if yes("hybrid"):
        net.hybridize()
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    compression = {"type": options["compression"], "threshold": 0.01} if "compression" in options else None
    trainer = gluon.Trainer(net.collect_params(), options.get("optimizer", "adam"), {"learning_rate": 0.01},
                            kvstore=None if store == "none" else kv, compression_params=compression,
                            update_on_kvstore=None if "on" not in options else yes("on"), shard_states=yes("shard"))
    if yes("add"):
        net.collect_params().setattr("grad_req", "add")
    fused = gluon.TrainStep(net, loss, trainer) if yes("fused") else None
    compiled = 0
    xs, ys = data()
    for step, (x, y) in enumerate(zip(xs, ys)):
        x, y = x[rank::size], y[rank::size]
        xparts, yparts = gluon.utils.split_and_load(mx.nd.array(x), contexts), gluon.utils.split_and_load(
            mx.nd.array(y), contexts)
        if fused:
            fused(mx.nd.array(x), mx.nd.array(y))
            compiled += fused.compiled
            continue
        for _ in range(2 if yes("twice") or yes("add") else 1):
            with autograd.record():
                losses = [loss(net(a, rank > 0 or step % 2) if yes("unused") else net(a), b)
                          for a, b in zip(xparts, yparts)]
            autograd.backward(losses)
        if yes("clip"):
            for p in net.collect_params().values():
                for g in p.list_grad():
                    g *= 0.5
        trainer.step(BATCH, ignore_stale_grad=yes("unused"))
        if yes("add"):
            net.collect_params().zero_grad()
        if yes("save") and step == STEPS // 2:
            trainer = saved_and_loaded(trainer, net, kv)
    values = [p.data(contexts[-1]).asnumpy() for p in net.collect_params().values()]
    digest = hashlib.sha256(b"".join(v.tobytes() for v in values)).hexdigest()
    states = trainer._all_states() if "on" in options or yes("shard") else {}
    return rank, {"digest": digest, "compiled": compiled, "states": sum(s is not None for s in states.values()), "values": [float(x) for v in values for x in v.ravel()[:50]]}


results = []
for argument in sys.argv[1:]:
    options = dict(pair.split("=") for pair in argument.split(",") if pair)
    number, result = train()
    results.append(result)
report(number, results)
