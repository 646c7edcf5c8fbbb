"""Training steps of several processes beside one process with as many threads.

    python bench/dist/train.py [--processes 2] [--seconds 5] [--models lenet resnet18 lstm]

Both run in turns, so that a busy machine slows both.  The batch is 64 in all, random data.  Columns: samples/s of one process,
of several, their ratio.  With --inner the program is one of the processes.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import subprocess
import sys
import time

BATCH = 64


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
        start = time.time()
        for _ in range(n):
            with autograd.record():
                loss = loss_of(net(data), label)
            loss.backward()
            trainer.step(BATCH)
        mx.nd.waitall()
        return time.time() - start

    steps(4)
    count = dist.broadcast_object(max(2, int(seconds / (steps(3) / 3))))
    taken = steps(count)
    if dist.rank() == 0:
        print(f"{BATCH * count / taken:.1f}")


def measure(name, processes, threads, seconds):
    """samples/s of this many processes with this many threads each."""
    env = {**os.environ, "MXNET_CPU_WORKER_NTHREADS": str(threads), "OMPI_ALLOW_RUN_AS_ROOT": "1",
           "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = [sys.executable, os.path.abspath(__file__), "--inner", name, "--seconds", str(seconds)]
    if processes > 1:
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(processes)] + command
    return float(subprocess.run(command, env=env, check=True, text=True, stdout=subprocess.PIPE).stdout.split()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=["lenet", "resnet18", "lstm"])
    parser.add_argument("--inner")
    args = parser.parse_args()
    if args.inner:
        return inner(args.inner, args.seconds)
    print(f"{'':10}{'1 process':>12}{f'{args.processes} processes':>14}{'ratio':>8}")
    for name in args.models:
        pairs = [(measure(name, 1, args.processes, args.seconds), measure(name, args.processes, 1, args.seconds))
                 for _ in range(args.rounds)]
        one, several = sorted(pairs, key=lambda pair: pair[1] / pair[0])[len(pairs) // 2]
        print(f"{name:10}{one:12.1f}{several:14.1f}{several / one:8.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
