"""Real training on a part of Fashion-MNIST by the interfaces other than the imperative loop: Module, Estimator, mixed
precision."""
import logging
import os

import numpy as np
import pytest

import mxnet as mx
from mxnet import gluon, nd
from mxnet.gluon import nn

pytestmark = pytest.mark.skipif(not os.path.isdir("/usr/share/datasets/fashion-mnist"),
                                reason="needs the package dataset-fashion-mnist")


@pytest.fixture(scope="module")
def clothes():
    """Images (N, 1, 14, 14) and labels: 2000 to train, 500 to test."""
    parts = []
    for train, n in ((True, 2000), (False, 500)):
        data = gluon.data.vision.FashionMNIST(train=train)
        images = np.stack([data[i][0].asnumpy()[::2, ::2, 0] for i in range(n)])[:, None].astype("float32") / 255
        parts += [images, np.array([data[i][1] for i in range(n)], "float32")]
    return parts


def test_module(clothes):
    images, labels, test_images, test_labels = clothes
    net = mx.sym.Convolution(mx.sym.var("data"), kernel=(3, 3), num_filter=8, name="conv")
    net = mx.sym.Pooling(mx.sym.Activation(net, act_type="relu"), kernel=(2, 2), stride=(2, 2), pool_type="max")
    net = mx.sym.Activation(mx.sym.FullyConnected(net, num_hidden=32, name="fc1"), act_type="relu")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=10, name="fc2"), name="softmax")
    module = mx.mod.Module(net)
    test = mx.io.NDArrayIter(test_images, test_labels, 100)
    module.fit(mx.io.NDArrayIter(images, labels, 50, shuffle=True), num_epoch=4, optimizer="adam",
               optimizer_params={"learning_rate": 0.003}, initializer=mx.init.Xavier())
    assert module.score(test, "acc")[0][1] > 0.75


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_estimator(clothes, dtype):
    images, labels, test_images, test_labels = clothes
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(), nn.Dense(32, activation="relu"),
            nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net.cast(dtype)
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.003,
                                                           "multi_precision": dtype != "float32"})

    class Half(gluon.contrib.estimator.BatchProcessor):
        def _get_data_and_label(self, batch, ctx, batch_axis=0):
            data, label = super()._get_data_and_label(batch, ctx, batch_axis)
            return [x.astype(dtype) for x in data], label
    estimator = gluon.contrib.estimator.Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), mx.metric.Accuracy(),
                                                  trainer=trainer, batch_processor=Half())
    estimator.logger.setLevel(logging.WARNING)
    loaders = [gluon.data.DataLoader(gluon.data.ArrayDataset(nd.array(x), nd.array(y)), 50, shuffle=shuffle)
               for x, y, shuffle in ((images, labels, True), (test_images, test_labels, False))]
    estimator.fit(loaders[0], val_data=loaders[1], epochs=4)
    assert estimator.val_metrics[0].get()[1] > 0.75
