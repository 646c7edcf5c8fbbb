"""A training that never ends by itself: a process that gets an error reports it.  SPDX-License-Identifier: Apache-2.0"""
import mxnet as mx
import mxnet.distributed as dist
from launch import report
from mxnet import autograd, gluon

STARTED = 5  # steps after which the test may interfere

net = gluon.nn.Dense(2000, in_units=500)
net.initialize()
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.001}, kvstore="dist_sync")
x = mx.nd.ones((4, 500))
step = 0
try:
    while True:
        with autograd.record():
            loss = net(x).mean()
        loss.backward()
        trainer.step(4 * dist.size())
        step += 1
        if step == STARTED:
            report(f"started-{dist.rank()}", None)
except mx.error.CommunicationError as error:
    report(dist.rank(), {"error": str(error), "local": dist.local_size()})
    raise
