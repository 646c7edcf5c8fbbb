"""Files with the names and layouts of keras.applications, written here, without Keras: read into our networks.

tests/onnx/test_keras.py compares with Keras itself.
"""
import re

import keras_file
import numpy as np
import pytest

import mxnet as mx
from mxnet import nd
from mxnet.gluon import model_zoo
from mxnet.gluon.model_zoo import vision
from test_torch_weights import randomised

KINDS = {"weight": "kernel", "bias": "bias", "gamma": "gamma", "beta": "beta", "running_mean": "moving_mean",
         "running_var": "moving_variance"}


def resnet_layer(path):
    stage = re.fullmatch(r"features\.(\d)\.(\d)\.(body|downsample)\.(\d)", path)
    if not stage:
        return {"features.0": "conv1_conv", "features.1": "conv1_bn", "output": "predictions"}[path]
    number = {"body": {"0": "1_conv", "1": "1_bn", "3": "2_conv", "4": "2_bn", "6": "3_conv", "7": "3_bn"},
              "downsample": {"0": "0_conv", "1": "0_bn"}}[stage[3]][stage[4]]
    return f"conv{int(stage[1]) - 2}_block{int(stage[2]) + 1}_{number}"


def mobilenet_layer(path):
    module = re.fullmatch(r"features\.(\d+)\.(\d)", path)
    if not module:
        return "conv_preds"
    kind = {"1": "dw_{}", "2": "dw_{}_bn", "4": "pw_{}", "5": "pw_{}_bn"}[module[2]].format(module[1])
    return "conv_" + kind if module[1] != "0" else {"1": "conv1", "2": "conv1_bn"}[module[2]]


def vgg_layer(path):
    convolutions = [0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28]
    places = [(b, c) for b, count in enumerate((2, 2, 3, 3, 3)) for c in range(count)]
    names = {f"features.{at}": f"block{b + 1}_conv{c + 1}" for at, (b, c) in zip(convolutions, places)}
    return {**names, "features.31": "fc1", "features.33": "fc2", "output": "predictions"}[path]


def kernel(name, value, channels):
    if value.ndim == 4:
        return value.transpose(2, 3, 0, 1) if "_dw_" in name else value.transpose(2, 3, 1, 0)
    if name.startswith("conv_preds"):
        return value.T[None, None]
    if name.startswith("fc1"):  # Keras flattens (height, width, channels)
        side = int((value.shape[1] // channels) ** 0.5)
        value = value.reshape(len(value), channels, side, side).transpose(0, 2, 3, 1).reshape(len(value), -1)
    return value.T


def keras_arrays(net, layer_of, pattern, extra_bias=False, channels=8):
    """The parameters as Keras would have saved them; with biases that our convolutions lack."""
    arrays, random = {}, np.random.RandomState(7)
    for path, parameter in net._collect_params_with_prefix().items():
        layer, kind = path.rsplit(".", 1)
        name, value = layer_of(layer), parameter.data().asnumpy()
        value = kernel(name, value, channels) if kind == "weight" else value
        arrays[pattern.format(name) + KINDS[kind] + (":0" if pattern.startswith("{0}/{0}") else "")] = value
    for name in [key for key in arrays if extra_bias and key.endswith("_conv/kernel:0")]:
        bias, mean = name.replace("kernel", "bias"), name.replace("_conv", "_bn").replace("kernel", "moving_mean")
        if bias not in arrays:
            arrays[bias] = random.normal(0, 1, arrays[name].shape[-1])
            arrays[mean] = arrays[mean] + arrays[bias]
    return arrays


NETWORKS = {
    "resnet": (lambda: vision.ResNetV1("bottle_neck", (1, 2), (8, 16, 24), classes=5), resnet_layer, "{0}/{0}/", 33),
    "mobilenet": (lambda: vision.MobileNet(0.25, classes=5, form="keras"), mobilenet_layer, "model_weights/{0}/net/{0}/", 32),
    "vgg": (lambda: vision.VGG((2, 2, 3, 3, 3), (4, 4, 4, 4, 8), classes=5), vgg_layer, "{0}/{0}/", 64),
}


def data(size):
    return nd.array(np.random.RandomState(3).normal(0, 1, (2, 3, size, size)).astype("float32"))


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_networks(name, tmp_path):
    make, layer_of, pattern, size = NETWORKS[name]
    path, x = str(tmp_path / "net.h5"), data(size)
    net, other = randomised(make, x), make()
    keras_file.save(path, keras_arrays(net, layer_of, pattern, name == "resnet"))
    model_zoo.load_keras(other, path)
    wanted = net(x).asnumpy()
    np.testing.assert_allclose(other(x).asnumpy(), wanted, rtol=1e-4, atol=1e-5 * abs(wanted).max())
    assert np.ptp(wanted) > 1e-3


def test_from_keras(tmp_path):
    """The form and the number of classes come from the file; an optimizer's state is passed over."""
    path, x = str(tmp_path / "net.h5"), data(32)
    net = randomised(NETWORKS["mobilenet"][0], x)
    arrays = keras_arrays(net, mobilenet_layer, "{0}/{0}/")
    keras_file.save(path, {**arrays, "optimizer_weights/adam/iteration": np.zeros(1)})
    other = model_zoo.from_keras("mobilenet0.25", path)
    np.testing.assert_allclose(other(x).asnumpy(), net(x).asnumpy(), rtol=1e-4, atol=1e-6)
    assert sorted(nd.load(path))[0] == "conv1/conv1/kernel:0"


def test_wrong_files(tmp_path):
    path, x = str(tmp_path / "net.h5"), data(33)
    make = NETWORKS["resnet"][0]
    arrays = keras_arrays(randomised(make, x), resnet_layer, "{0}/{0}/")

    def fails(error, match, net=None, **changed):
        keras_file.save(path, {key: value for key, value in {**arrays, **changed}.items() if value is not None})
        other = net or make()
        with pytest.raises(error, match=match):
            model_zoo.load_keras(other, path)
        assert all(p._data is None for p in other.collect_params().values())

    fails(mx.MXNetError, "layer 'conv1_bn' or its gamma, the parameter 'features.1.gamma'", **{"conv1_bn/conv1_bn/gamma:0": None})
    fails(mx.MXNetError, "'more/kernel' is not used", **{"more/more/kernel:0": np.ones(3)})
    fails(mx.MXNetError, "'kernel' is in no layer", **{"kernel": np.ones(3)})
    fails(mx.MXNetError, "'layers/conv2d/vars/0' has no name of a layer", **{"layers/conv2d/vars/0": np.ones(3)})
    fails(ValueError, r"'predictions/kernel' has shape \(23, 5\).*'output.weight'",
          **{"predictions/predictions/kernel:0": np.ones((23, 5))})
    fails(ValueError, "stride of a bottleneck", net=vision.ResNetV1("bottle_neck_b", (1, 2), (8, 16, 24), classes=5))
    fails(ValueError, "strides in the last block", net=vision.ResNetV2("bottle_neck", (1, 2), (8, 16, 24), classes=5))
    fails(ValueError, "pads other sides", net=vision.MobileNetV2(0.25, classes=5))
    fails(ValueError, "classes ResNetV1, VGG.*not for AlexNet", net=vision.alexnet())
    nd.save(path, {"a": nd.ones(3)})
    with pytest.raises(mx.MXNetError, match="no HDF5 file and no .keras file"):
        model_zoo.from_keras("resnet50_v1", path)
