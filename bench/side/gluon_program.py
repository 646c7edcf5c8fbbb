"""The Gluon programs: the same text runs on this library and on MXNet, since both import as mxnet.

SPDX-License-Identifier: Apache-2.0
"""
import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

from timing import Workloads, repeated
from workloads import BATCH, ENCODER, FASHION_MNIST, LANGUAGE, LSTM, MLP, TRANSFORMER, ZOO_INFERENCE

OURS = hasattr(mx, "_core")
work = Workloads("gluon" if OURS else "mxnet", mx.__version__)


def waiting(call):
    """The call and a function that waits for everything it started."""
    return call, nd.waitall


# ---- small ----------------------------------------------------------------------------------------------------------

@work("add", "imperative")
def add():
    a, b = nd.ones((16,)), nd.ones((16,))
    return waiting(lambda: a + b)


@work("add_recorded", "imperative")
def add_recorded():
    a, b = nd.ones((16,)), nd.ones((16,))
    a.attach_grad()

    def recorded():
        with autograd.record():
            for _ in range(100):
                a + b
    return waiting(repeated(100, recorded))


@work("reshape", "imperative")
def reshape():
    x = nd.ones((4, 4))
    return waiting(lambda: x.reshape((2, 8)))


@work("index", "imperative")
def index():
    x = nd.ones((4, 4))
    return waiting(lambda: x[0])


@work("dot", "imperative")
def dot():
    a, b = nd.ones((4, 4)), nd.ones((4, 4))
    return waiting(lambda: nd.dot(a, b))


def small_dense(layers, hybrid):
    net = nn.HybridSequential()
    for _ in range(layers):
        net.add(nn.Dense(16))
    net = net if layers > 1 else net[0]
    net.initialize()
    if hybrid:
        hybridize(net)
    x = nd.ones((4, 16))
    return waiting(lambda: net(x))


def hybridize(net):
    net.hybridize(static_alloc=True, static_shape=True)


work("dense", "imperative")(lambda: small_dense(1, False))
work("dense", "hybridized")(lambda: small_dense(1, True))
work("sequential", "imperative")(lambda: small_dense(3, False))
work("sequential", "hybridized")(lambda: small_dense(3, True))


# ---- networks -------------------------------------------------------------------------------------------------------

def mlp():
    net = nn.HybridSequential()
    for units in MLP[1:-1]:
        net.add(nn.Dense(units, activation="relu"))
    net.add(nn.Dense(MLP[-1]))
    return net, (MLP[0],)


def lenet():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, kernel_size=5, padding=2, activation="relu"), nn.MaxPool2D(2),
            nn.Conv2D(16, kernel_size=5, activation="relu"), nn.MaxPool2D(2),
            nn.Dense(120, activation="relu"), nn.Dense(84, activation="relu"), nn.Dense(10))
    return net, (1, 28, 28)


def training(make, lane):
    """A step of the usual loop on images or vectors of ten classes."""
    net, shape = make()
    data, label = nd.random.uniform(shape=(BATCH,) + shape), nd.floor(nd.random.uniform(0, 10, shape=(BATCH,)))
    return steps(net, gluon.loss.SoftmaxCrossEntropyLoss(), data, label, lane, learning_rate=0.001, momentum=0.9)


def steps(net, criterion, data, label, lane, **options):
    """A training step: record, loss, backward, SGD; as one plan if the package supports it."""
    net.initialize(mx.init.Xavier())
    net(data)
    if lane != "imperative":
        hybridize(net)
        hybridize(criterion)
    trainer = gluon.Trainer(net.collect_params(), "sgd", options)
    if lane == "one plan":
        whole = gluon.TrainStep(net, criterion, trainer)
        return lambda: whole(data, label).wait_to_read()

    def step():
        with autograd.record():
            loss = criterion(net(data), label)
        loss.backward()
        trainer.step(data.shape[0])
        nd.waitall()
    return step


def inference(make, batch, hybrid):
    net, shape = make()
    net.initialize(mx.init.Xavier())
    if hybrid:
        hybridize(net)
    data = nd.random.uniform(shape=(batch,) + shape)
    return lambda: net(data).wait_to_read()


def zoo(name):
    """A network of the model zoo; a package without it raises, and the row reports that."""
    from mxnet.gluon.model_zoo import vision
    return lambda: (getattr(vision, name)(), (3, 224, 224))


TRAINING_LANES = ("imperative", "hybridized") + (("one plan",) if hasattr(gluon, "TrainStep") else ())
for lane in TRAINING_LANES:
    work("mlp_train", lane)(lambda lane=lane: training(mlp, lane))
    work("lenet_train", lane)(lambda lane=lane: training(lenet, lane))
for lane in ("imperative", "hybridized"):
    hybrid = lane == "hybridized"
    work("mlp_infer", lane)(lambda h=hybrid: inference(mlp, BATCH, h))
    work("lenet_infer", lane)(lambda h=hybrid: inference(lenet, BATCH, h))
    work("lenet_infer1", lane)(lambda h=hybrid: inference(lenet, 1, h))
    for row, name, size in ZOO_INFERENCE:
        if hybrid or size == 1:
            work(row, lane)(lambda h=hybrid, name=name, size=size: inference(zoo(name), size, h))


def zoo_training(name, lane, batch=8):
    net, shape = zoo(name)()
    data, label = nd.random.uniform(shape=(batch,) + shape), nd.floor(nd.random.uniform(0, 1000, shape=(batch,)))
    return steps(net, gluon.loss.SoftmaxCrossEntropyLoss(), data, label, lane, learning_rate=0.001, momentum=0.9)


for lane in TRAINING_LANES[1:]:
    work("resnet18_train", lane)(lambda lane=lane: zoo_training("resnet18_v1", lane))
    work("mobilenet2_train", lane)(lambda lane=lane: zoo_training("mobilenet_v2_1_0", lane))


class LanguageModel(gluon.HybridBlock):
    """Words to an embedding, a stacked LSTM, and scores of the next word."""

    def __init__(self, sizes):
        super().__init__()
        with self.name_scope():
            self.embed = nn.Embedding(sizes["vocabulary"], sizes["embed"])
            self.lstm = gluon.rnn.LSTM(sizes["hidden"], sizes["layers"], input_size=sizes["embed"])
            self.scores = nn.Dense(sizes["vocabulary"], flatten=False, in_units=sizes["hidden"])

    def hybrid_forward(self, F, words):  # (T, N)
        return self.scores(self.lstm(self.embed(words)))


def language(sizes, lane):
    shape = sizes["steps"], sizes["batch"]
    words, following = (nd.floor(nd.random.uniform(0, sizes["vocabulary"], shape=shape)) for _ in range(2))
    return steps(LanguageModel(sizes), gluon.loss.SoftmaxCrossEntropyLoss(), words, following, lane, learning_rate=0.1)


for lane in TRAINING_LANES:
    work("lstm_train", lane)(lambda lane=lane: language(LSTM, lane))
    work("language_train", lane)(lambda lane=lane: language(LANGUAGE, lane))


class Encoder(gluon.HybridBlock):
    """One encoder layer: self-attention and a feed-forward part, each followed by a sum and a normalisation."""

    def __init__(self, units, heads, hidden):
        super().__init__()
        self.units, self.heads = units, heads
        with self.name_scope():
            self.project = nn.Dense(3 * units, flatten=False)
            self.out = nn.Dense(units, flatten=False)
            self.wide = nn.Dense(hidden, flatten=False, activation="relu")
            self.narrow = nn.Dense(units, flatten=False)
            self.norm1, self.norm2 = nn.LayerNorm(), nn.LayerNorm()

    def split(self, F, x):  # (N, T, C) -> (N * heads, T, C / heads)
        x = F.transpose(F.reshape(x, shape=(0, 0, self.heads, -1)), axes=(0, 2, 1, 3))
        return F.reshape(x, shape=(-1, 0, 0), reverse=True)

    def join(self, F, x):  # back
        x = F.transpose(F.reshape(x, shape=(-1, self.heads, 0, 0), reverse=True), axes=(0, 2, 1, 3))
        return F.reshape(x, shape=(0, 0, -1))

    def hybrid_forward(self, F, x):
        query, key, value = (self.split(F, part) for part in F.split(self.project(x), 3, axis=2))
        weights = F.softmax(F.batch_dot(query, key, transpose_b=True) / (self.units / self.heads) ** 0.5)
        x = self.norm1(x + self.out(self.join(F, F.batch_dot(weights, value))))
        return self.norm2(x + self.narrow(self.wide(x)))


def encoder():
    return Encoder(ENCODER["units"], ENCODER["heads"], ENCODER["hidden"]), (ENCODER["steps"], ENCODER["units"])


def transformer():
    net = nn.HybridSequential()
    for _ in range(TRANSFORMER["layers"]):
        net.add(Encoder(TRANSFORMER["units"], TRANSFORMER["heads"], TRANSFORMER["hidden"]))
    return net


def transformer_training(lane):
    data, label = (nd.random.normal(shape=(8, 64, TRANSFORMER["units"])) for _ in range(2))
    return steps(transformer(), gluon.loss.L2Loss(), data, label, lane, learning_rate=0.001, momentum=0.9)


for lane in TRAINING_LANES:
    work("transformer_train", lane)(lambda lane=lane: transformer_training(lane))
for lane in ("imperative", "hybridized"):
    work("transformer_infer1", lane)(
        lambda h=lane == "hybridized": inference(lambda: (transformer(), (128, TRANSFORMER["units"])), 1, h))
work("encoder_infer", "imperative")(lambda: inference(encoder, ENCODER["batch"], False))
work("encoder_infer", "hybridized")(lambda: inference(encoder, ENCODER["batch"], True))


# ---- data -----------------------------------------------------------------------------------------------------------

def fashion_mnist():
    """The data set; MXNet supports only the files of its own server, so it gets the same arrays in an ArrayDataset."""
    if OURS:
        return gluon.data.vision.FashionMNIST(root=FASHION_MNIST, train=True)
    import gzip
    import os
    import numpy as np
    with gzip.open(os.path.join(FASHION_MNIST, "train-images-idx3-ubyte.gz")) as file:
        images = np.frombuffer(file.read(), "uint8", offset=16).reshape(-1, 28, 28, 1)
    with gzip.open(os.path.join(FASHION_MNIST, "train-labels-idx1-ubyte.gz")) as file:
        labels = np.frombuffer(file.read(), "uint8", offset=8).astype("int32")
    return gluon.data.ArrayDataset(nd.array(images, dtype="uint8"), labels)


def loading(**options):
    from mxnet.gluon.data import DataLoader
    from mxnet.gluon.data.vision import transforms
    images = fashion_mnist().transform_first(transforms.ToTensor())
    loader = DataLoader(images, batch_size=BATCH, shuffle=True, last_batch="discard", **options)

    def endless():
        while True:
            yield from loader
    batches = endless()
    return waiting(lambda: next(batches))


work("loader", "caller's thread")(lambda: loading())
work("loader", "2 threads")(lambda: loading(num_workers=2, thread_pool=True))
work("loader", "2 processes")(lambda: loading(num_workers=2))

if __name__ == "__main__":
    work.serve()
