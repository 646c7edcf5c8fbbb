"""d2lzh, the package of the book "Dive into Deep Learning": its training loops on small data."""
import random

import numpy as np
import pytest

import d2lzh as d2l
import mxnet as mx
from mxnet import autograd, gluon, init, nd
from mxnet.gluon import data as gdata, loss as gloss, nn

from common import compare


@pytest.fixture
def pictures():
    """Batches of pictures whose class is their brightness."""
    labels = np.arange(64) % 4
    images = np.random.rand(64, 1, 28, 28) * 0.2 + labels[:, None, None, None] * 0.2
    data = gdata.ArrayDataset(images.astype("float32"), labels.astype("float32"))
    return gdata.DataLoader(data, 16, shuffle=True)


def test_linear_regression_from_scratch():
    features, true_w = nd.random.normal(shape=(200, 2)), nd.array([2, -3.4])
    labels = nd.dot(features, true_w) + 4.2
    w, b = nd.random.normal(scale=0.01, shape=(2, 1)), nd.zeros((1,))
    w.attach_grad()
    b.attach_grad()
    random.seed(1)
    for _ in range(10):
        for x, y in d2l.data_iter(10, features, labels):
            with autograd.record():
                loss = d2l.squared_loss(d2l.linreg(x, w, b), y)
            loss.backward()
            d2l.sgd([w, b], 0.03, 10)
    np.testing.assert_allclose(w.asnumpy().ravel(), true_w.asnumpy(), atol=0.1)
    assert abs(b.asscalar() - 4.2) < 0.1


def test_train_ch3(pictures, capsys):
    net = nn.Sequential()
    net.add(nn.Dense(16, activation="relu"), nn.Dense(4))
    net.initialize(init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    d2l.train_ch3(net, pictures, pictures, gloss.SoftmaxCrossEntropyLoss(), 6, 16, None, None, trainer)
    assert "epoch 6" in capsys.readouterr().out
    assert d2l.evaluate_accuracy(pictures, net) > 0.4


def test_train_ch5_and_train(pictures, capsys):
    net = nn.Sequential()
    net.add(nn.Conv2D(channels=4, kernel_size=5, activation="relu"), nn.MaxPool2D(2, 2), nn.Dense(4))
    net.initialize(force_reinit=True, ctx=mx.cpu(), init=init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    d2l.train_ch5(net, pictures, pictures, 16, trainer, mx.cpu(), 2)
    d2l.train(pictures, pictures, net, gloss.SoftmaxCrossEntropyLoss(), trainer, d2l.try_all_gpus(), 2)
    assert capsys.readouterr().out.count("train acc") == 4


def test_resnet18():
    compare(d2l.resnet18(10), nd.random.uniform(shape=(1, 3, 32, 32)))


def test_train_ch7(capsys):
    features = nd.random.normal(shape=(100, 5))
    labels = nd.dot(features, nd.array([1, 2, 3, 4, 5]))
    d2l.plt.switch_backend("Agg")
    d2l.set_figsize()
    d2l.train_gluon_ch7("sgd", {"learning_rate": 0.05}, features, labels, 10, num_epochs=8)
    assert float(capsys.readouterr().out.split()[1].rstrip(",")) < 1


def test_character_model(capsys):
    text = "the ship came into the harbour " * 8
    characters = sorted(set(text))
    index = {c: i for i, c in enumerate(characters)}
    corpus = [index[c] for c in text]
    layer = gluon.rnn.RNN(16)
    layer.initialize()
    model = d2l.RNNModel(layer, len(characters))
    d2l.train_and_predict_rnn_gluon(model, 16, len(characters), mx.cpu(), corpus, characters, index, 20, 10, 1.0, 1e-2, 4,
                                    10, 5, ["the "])
    lines = [line for line in capsys.readouterr().out.splitlines() if "perplexity" in line]
    perplexities = [float(line.split("perplexity ")[1].split(",")[0]) for line in lines]
    assert len(perplexities) == 2 and perplexities[1] < perplexities[0] < len(characters)


def test_train_2d_and_corr2d():
    d2l.plt.switch_backend("Agg")
    results = d2l.train_2d(lambda x1, x2, s1, s2: (x1 - 0.1 * 2 * x1, x2 - 0.1 * 4 * x2, 0, 0))
    assert abs(results[-1][0]) < 0.1
    assert d2l.corr2d(nd.arange(9).reshape((3, 3)), nd.ones((2, 2))).asnumpy().tolist() == [[8, 12], [20, 24]]
