"""A program in the style of Horovod gives the numbers of one process.  SPDX-License-Identifier: Apache-2.0"""
import sys

import numpy as np

import mxnet as mx
import mxnet.distributed as hvd
from launch import report
from mxnet import autograd, gluon

hvd.init()
rank, size = hvd.rank(), hvd.size()
rng = np.random.RandomState(3)
x, y = rng.randn(6, 12, 5).astype("float32"), rng.randn(6, 12, 1).astype("float32")
results = []
for kind in sys.argv[1:]:
    mx.random.seed(rank)
    net = gluon.nn.Dense(1, in_units=5)
    net.initialize(mx.init.Constant(0.1 * (rank + 1)))
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    options = {"learning_rate": 0.1, "momentum": 0.9}
    if kind == "optimizer":
        trainer = gluon.Trainer(net.collect_params(), hvd.DistributedOptimizer(mx.optimizer.SGD(**options)), kvstore=None)
    else:
        trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", options)
    for data, label in zip(x, y):
        with autograd.record():
            loss = gluon.loss.L2Loss()(net(mx.nd.array(data[rank::size])), mx.nd.array(label[rank::size]))
        loss.backward()
        trainer.step(12 // size)
    results.append(net.weight.data().asnumpy().ravel().tolist() + net.bias.data().asnumpy().tolist())
report(rank, results)
