"""A custom data set: worker processes create examples on demand and batch them."""
import numpy as np

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn


class Circles(gluon.data.Dataset):
    """Points and whether they are inside the unit circle; example i is always the same."""

    def __init__(self, length):
        self._length = length

    def __len__(self):
        return self._length

    def __getitem__(self, i):
        point = np.random.RandomState(i).uniform(-1.5, 1.5, size=2).astype("float32")
        return point, np.float32((point ** 2).sum() < 1)


def accuracy(net, batches):
    metric = mx.metric.Accuracy()
    for x, y in batches:
        metric.update(y, net(x.as_in_context(mx.current_context())))
    return metric.get()[1]


def main(epochs=8, workers=2):
    mx.random.seed(1)
    train = gluon.data.DataLoader(Circles(4000), 50, shuffle=True, num_workers=workers)
    test = gluon.data.DataLoader(Circles(5000).sample(gluon.data.SequentialSampler(1000, start=4000)), 500)
    net = nn.HybridSequential()
    net.add(nn.Dense(32, activation="relu"), nn.Dense(2))
    net.initialize(mx.init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    for epoch in range(epochs):
        for x, y in train:
            x, y = (part.as_in_context(mx.current_context()) for part in (x, y))
            with autograd.record():
                loss = loss_of(net(x), y)
            loss.backward()
            trainer.step(x.shape[0])
        print(f"epoch {epoch + 1}: loss {float(loss.mean()):.4f}, test accuracy {100 * accuracy(net, test):.1f} %")
    print("inside?", net(nd.array([[0.1, 0.2], [1.2, 1.2]])).argmax(axis=1).asnumpy())
    return accuracy(net, test)


if __name__ == "__main__":
    main()
