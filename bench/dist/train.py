"""Training steps of several processes beside one process with as many threads.

    python bench/dist/train.py [--processes 2] [--seconds 5] [--models lenet resnet18 lstm]

Both run in turns, so that a busy machine slows both.  The batch is 64 in all, random data.  Columns: samples/s of one process,
of several, their ratio.  With --inner the program is one of the processes.
SPDX-License-Identifier: Apache-2.0
"""
import os
import sys
import time

from common import BATCH, compare, parser_of_two, samples_per_second, start


def make(name, batch):
    """A network, its loss and one batch."""
    import mxnet as mx
    from mxnet import gluon
    from mxnet.gluon import nn, rnn
    from mxnet.gluon.model_zoo import vision
    if name == "lstm":
        net = nn.HybridSequential()
        net.add(nn.Embedding(2000, 128), rnn.LSTM(256, layout="NTC"), nn.Dense(2000, flatten=False))
        data, label = mx.nd.random.randint(0, 2000, (batch, 35)), mx.nd.random.randint(0, 2000, (batch, 35))
    else:
        net = vision.resnet18_v1(classes=10, thumbnail=True) if name == "resnet18" else nn.HybridSequential()
        if name == "lenet":
            net.add(nn.Conv2D(6, 5, padding=2, activation="relu"), nn.MaxPool2D(2), nn.Conv2D(16, 5, activation="relu"),
                    nn.MaxPool2D(2), nn.Dense(120, activation="relu"), nn.Dense(84, activation="relu"), nn.Dense(10))
        data = mx.nd.random.uniform(shape=(batch, 1, 28, 28))
        label = mx.nd.random.randint(0, 10, (batch,))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net, gluon.loss.SoftmaxCrossEntropyLoss(), data.astype("float32"), label.astype("float32")


def inner(name, seconds):
    """Steps for some seconds; rank 0 prints samples/s of all."""
    import mxnet as mx
    import mxnet.distributed as dist
    from mxnet import autograd, gluon
    size = dist.size()
    mx.random.seed(1)
    net, loss_of, data, label = make(name, BATCH // size)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9}, kvstore="dist_sync")

    def steps(n):
        begun = time.time()
        for _ in range(n):
            with autograd.record():
                loss = loss_of(net(data), label)
            loss.backward()
            trainer.step(BATCH)
        mx.nd.waitall()
        return time.time() - begun

    rate = samples_per_second(steps, seconds, dist.broadcast_object)
    if dist.rank() == 0:
        print(f"{rate:.1f}")


def measure(name, processes, threads, seconds):
    """samples/s of this many processes with this many threads each."""
    return float(start(processes, threads, os.path.abspath(__file__), "--inner", name, "--seconds", str(seconds)))


def main():
    args = parser_of_two().parse_args()
    if args.inner:
        return inner(args.inner, args.seconds)
    return compare(args, ("1 process", f"{args.processes} processes"), lambda name: measure(name, 1, args.processes, args.seconds),
                   lambda name: measure(name, args.processes, 1, args.seconds))


if __name__ == "__main__":
    sys.exit(main())
