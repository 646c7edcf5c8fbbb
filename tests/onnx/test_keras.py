"""Weights of Keras: small networks of keras.applications with random weights, saved by Keras and read here, give the same results.

Needs keras with jax or torch as its backend.  SPDX-License-Identifier: Apache-2.0
"""
import importlib.util
import os

import numpy as np
import pytest

import mxnet as mx
from mxnet import nd
from mxnet.gluon import model_zoo
from mxnet.gluon.model_zoo import vision

BACKEND = next((name for name in ("torch", "jax") if importlib.util.find_spec(name)), None)
if not BACKEND:
    pytest.skip("keras needs torch or jax", allow_module_level=True)
os.environ["KERAS_BACKEND"] = BACKEND
keras = pytest.importorskip("keras")


def resnet():
    from keras.src.applications.resnet import ResNet, stack_residual_blocks_v1 as stack

    def stages(x):
        for number, (filters, blocks, stride) in enumerate([(4, 1, 1), (6, 2, 2)]):
            x = stack(x, filters, blocks, stride1=stride, name=f"conv{number + 2}")
        return x
    return ResNet(stages, False, True, weights=None, input_shape=(64, 64, 3), classes=5, classifier_activation=None,
                  weights_name="small", name="small")


def densenet():
    from keras.src.applications.densenet import DenseNet
    return DenseNet([1, 2, 1, 1], weights=None, input_shape=(224, 224, 3), classes=5, classifier_activation=None)


def application(name, **options):
    make = getattr(keras.applications, name)
    return lambda: make(weights=None, classes=5, classifier_activation=None, **options)


SMALL = {"input_shape": (32, 32, 3)}
# Keras' network, ours, the size of images.
NETWORKS = {
    "resnet": (resnet, lambda: vision.ResNetV1("bottle_neck", (1, 2), (64, 16, 24), classes=5), 64),
    "densenet": (densenet, lambda: vision.DenseNet(64, 32, (1, 2, 1, 1), classes=5), 224),
    "mobilenet": (application("MobileNet", alpha=0.25, **SMALL), lambda: vision.MobileNet(0.25, classes=5, form="keras"), 32),
    "mobilenet2": (application("MobileNetV2", alpha=0.35, **SMALL),
                   lambda: vision.MobileNetV2(0.35, classes=5, form="keras"), 32),
    "mobilenet3": (application("MobileNetV3Small", include_preprocessing=False, **SMALL),
                   lambda: vision.MobileNetV3("small", classes=5, form="keras"), 32),
}


def randomised(model):
    """No two arrays are alike."""
    random = np.random.RandomState(3)
    for weight in model.weights:
        kind = weight.path.split("/")[-1]
        if kind in ("gamma", "moving_variance"):
            weight.assign(random.uniform(0.5, 1.5, weight.shape))
        elif kind in ("bias", "beta", "moving_mean"):
            weight.assign(random.uniform(-0.2, 0.2, weight.shape))
    return model


def same(model, net, size):
    x = np.random.RandomState(4).normal(0, 1, (2, size, size, 3)).astype("float32")
    wanted = keras.ops.convert_to_numpy(model(x, training=False))
    found = net(nd.array(x.transpose(0, 3, 1, 2))).asnumpy()
    assert np.ptp(wanted) > 1e-2
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * abs(wanted).max())


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_networks(name, tmp_path):
    make, ours, size = NETWORKS[name]
    model = randomised(make())
    path = str(tmp_path / "net.weights.h5")
    model.save_weights(path)
    net = ours()
    model_zoo.load_keras(net, path)
    same(model, net, size)


def test_files(tmp_path):
    """The three kinds of files, what a compiled model adds to them, the network of a name, and what is refused."""
    model = randomised(application("MobileNet", alpha=0.25, **SMALL)())
    model.compile("adam", "mse")
    if BACKEND == "torch":  # the state of the optimizer is part of these files
        model.train_on_batch(np.zeros((1, 32, 32, 3), "float32"), np.zeros((1, 5), "float32"))
    for name in ("net.weights.h5", "net.h5", "net.keras"):
        path = str(tmp_path / name)
        (model.save_weights if name == "net.weights.h5" else model.save)(path)
        same(model, model_zoo.from_keras("mobilenet0.25", path), 32)
    with pytest.raises(mx.MXNetError, match=r"conv_dw_1.*or its weight.*features.1.1.weight.*not in the file|'.*' has shape"):
        model_zoo.load_keras(vision.MobileNet(0.5, classes=5, form="keras"), path)
    with pytest.raises(ValueError, match="pads other sides.*form=keras"):
        model_zoo.load_keras(vision.MobileNet(0.25, classes=5), path)
    with pytest.raises(ValueError, match="strides in the last block"):
        model_zoo.from_keras("resnet50_v2", path)
    with pytest.raises(ValueError, match="stride of a bottleneck"):
        model_zoo.from_keras("resnet50_v1b", path)
    assert "layers/conv2d/vars/0" in nd.load(path)
