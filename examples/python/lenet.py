"""LeNet on Fashion-MNIST: trains imperatively, then hybridized, shows loss, accuracy and speed of both, and exports.

    python lenet.py [--epochs 3] [--batch-size 64] [--lr 0.03] [--save fashion] [--gpu]

The exported model (fashion-symbol.json, fashion-0000.params) runs in C without Python: see examples/c/deploy.c and
`gluon compile`.  One test image and the network's scores for it are written to fashion.npy and fashion.scores.
"""
import argparse
import sys
import time

import mxnet as mx
from mxnet import autograd, gluon
from mxnet.gluon import nn
from mxnet.gluon.data.vision import FashionMNIST, transforms


def lenet():
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Conv2D(6, kernel_size=5, padding=2, activation="relu"), nn.MaxPool2D(pool_size=2),
                nn.Conv2D(16, kernel_size=5, activation="relu"), nn.MaxPool2D(pool_size=2),
                nn.Dense(120, activation="relu"), nn.Dense(84, activation="relu"), nn.Dense(10))
    return net


def loader(train, batch_size):
    """All images as one array: batches are then gathered without Python code per image."""
    dataset = FashionMNIST(train=train)
    images = transforms.ToTensor()(dataset._data)
    return gluon.data.DataLoader(gluon.data.ArrayDataset(images, dataset._label), batch_size, shuffle=train)


def on_device(batches):
    """The batches on the network's context."""
    for batch in batches:
        yield [part.as_in_context(mx.current_context()) for part in batch]


def accuracy(net, batches):
    metric = mx.metric.Accuracy()
    for data, label in on_device(batches):
        metric.update(label, net(data))
    return metric.get()[1]


def progress(done, total, loss):
    if sys.stdout.isatty():
        filled = 30 * done // total
        print(f"\r  [{'#' * filled}{'.' * (30 - filled)}] loss {loss:.4f}", end="", flush=True)


def train(net, train_data, test_data, epochs, lr):
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    falling = mx.lr_scheduler.CosineScheduler(epochs * len(train_data), base_lr=lr)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9, "lr_scheduler": falling})
    for epoch in range(epochs):
        start, total, seen = time.time(), 0.0, 0
        for i, (data, label) in enumerate(on_device(train_data)):
            with autograd.record():
                loss = loss_of(net(data), label)
            loss.backward()
            trainer.step(data.shape[0])
            total += float(loss.mean())
            seen += data.shape[0]
            if i % 50 == 0:
                progress(i + 1, len(train_data), total / (i + 1))
        seconds = time.time() - start
        print(f"\r  epoch {epoch + 1}: loss {total / len(train_data):.4f}, test accuracy "
              f"{100 * accuracy(net, test_data):.2f} %, {seen / seconds:,.0f} images/s" + " " * 20)


def export(net, prefix, images):
    """Writes the model, one image, and the network's scores for it."""
    import numpy as np
    net.export(prefix)
    image = images[0][0][0:1].as_in_context(mx.current_context())
    scores = net(image)
    np.save(prefix + ".npy", image.asnumpy())
    np.savetxt(prefix + ".scores", scores.asnumpy().ravel())
    print(f"exported: {prefix}-symbol.json, {prefix}-0000.params; the first test image is class "
          f"{int(scores.argmax(axis=1).asscalar())}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", default="fashion", help="prefix of the files that are written")
    parser.add_argument("--examples", type=int, help="use only so many training images")
    parser.add_argument("--gpu", action="store_true", help="train on the first GPU")
    args = parser.parse_args()
    if args.gpu:
        mx.Context.default_ctx = mx.gpu(0)

    train_data, test_data = loader(True, args.batch_size), loader(False, 1000)
    if args.examples:
        part = train_data._dataset.take(args.examples)
        train_data = gluon.data.DataLoader(part, args.batch_size, shuffle=True)
    for hybrid in (False, True):
        mx.random.seed(args.seed)
        net = lenet()
        net.initialize(mx.init.Xavier())
        if hybrid:
            net.hybridize()
        print("hybridized" if hybrid else "imperative")
        train(net, train_data, test_data, args.epochs, args.lr)
    export(net, args.save, list(test_data)[:1])


if __name__ == "__main__":
    main()
