"""ResNet-18 on Fashion-MNIST, as one process or several:

    gluon run -n 4 -- python distributed.py [--epochs 2] [--batch-size 64] [--lr 0.05] [--examples 60000] [--tests 10000]
                                            [--lenet]

--batch-size is that of all processes together: each has its part of the data and of every batch.  --lenet: a small
network.  Rank 0 saves parameters and states after every epoch; started again with --resume, also as another number of
processes, the training continues.
"""
import argparse
import os
import time

import mxnet as mx
import mxnet.distributed as dist
from mxnet import autograd, gluon
from mxnet.gluon import nn
from mxnet.gluon.data.vision import FashionMNIST, transforms
from mxnet.gluon.model_zoo import vision


def lenet():
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Conv2D(6, kernel_size=5, padding=2, activation="relu"), nn.MaxPool2D(pool_size=2),
                nn.Conv2D(16, kernel_size=5, activation="relu"), nn.MaxPool2D(pool_size=2),
                nn.Dense(120, activation="relu"), nn.Dense(84, activation="relu"), nn.Dense(10))
    return net


def dataset(train, examples):
    data = FashionMNIST(train=train)
    return gluon.data.ArrayDataset(transforms.ToTensor()(data._data[:examples]), data._label[:examples])


def save(net, trainer, epoch):
    """Files are written under another name and renamed: a process that ends meanwhile leaves the last ones."""
    net.save_parameters("distributed.params")
    trainer.save_states("distributed.states")
    with open("distributed.epoch.new", "w", encoding="ascii") as file:
        file.write(str(epoch))
    os.replace("distributed.epoch.new", "distributed.epoch")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--examples", type=int, default=60000)
    parser.add_argument("--tests", type=int, default=10000)
    parser.add_argument("--lenet", action="store_true")
    parser.add_argument("--resume", action="store_true")
    args = parser.parse_args()

    dist.init()
    rank, size = dist.rank(), dist.size()
    mx.random.seed(1)  # the same on all processes: so are the first values of the parameters
    net = lenet() if args.lenet else vision.resnet18_v1(classes=10)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": args.lr, "momentum": 0.9}, kvstore="dist_sync")
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    train_set = dataset(True, args.examples)
    order = gluon.data.SplitSampler(len(train_set))
    train = gluon.data.DataLoader(train_set, args.batch_size // size, sampler=order, last_batch="discard")
    in_order = gluon.data.SplitSampler(args.tests, shuffle=False, rest="keep")
    test = gluon.data.DataLoader(dataset(False, args.tests), 250, sampler=in_order)

    first = 0
    if args.resume:
        net.load_parameters("distributed.params")
        trainer.load_states("distributed.states")
        with open("distributed.epoch", encoding="ascii") as file:
            first = int(file.read()) + 1
        order.set_epoch(first)
    for epoch in range(first, args.epochs):
        start, seen = time.time(), 0
        mean_loss, accuracy = mx.metric.Loss(), mx.metric.Accuracy()
        for data, label in train:
            with autograd.record():
                loss = loss_of(net(data), label)
            loss.backward()
            trainer.step(args.batch_size)
            mean_loss.update(None, loss)
            seen += args.batch_size
        seconds = time.time() - start
        for data, label in test:
            accuracy.update(label, net(data))
        dist.reduce_metric(mean_loss)
        dist.reduce_metric(accuracy)
        if rank == 0:
            save(net, trainer, epoch)
            print(f"epoch {epoch + 1}: loss {mean_loss.get()[1]:.4f}, test accuracy {100 * accuracy.get()[1]:.2f} %, "
                  f"{seen / seconds:,.0f} images/s, {size} process{'es' if size > 1 else ''}", flush=True)


if __name__ == "__main__":
    main()
