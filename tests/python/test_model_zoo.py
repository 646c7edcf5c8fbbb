"""The model zoo: names and shapes of parameters, values, forward, backward and hybridized runs of every network."""
import hashlib
import inspect
import os

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.error import FileError
from mxnet.gluon.model_zoo import model_store, vision

# Facts of the original networks with ten classes: a size of image that they take, number of parameters, number of
# their elements at that size, SHA-1 of the lines "name structural-name shape" before the first forward.
FACTS = {
    "resnet18_v1": (32, 102, 11191242, "90ae80283b32"),
    "resnet34_v1": (32, 182, 21306826, "90f19d7d0bea"),
    "resnet50_v1": (32, 299, 23600522, "9bcd1760fde6"),
    "resnet101_v1": (32, 588, 42666634, "fb9cb7e2b36c"),
    "resnet152_v1": (32, 877, 58375562, "28e1b2579791"),
    "resnet18_v2": (32, 98, 11187926, "5df1816d13ed"),
    "resnet34_v2": (32, 178, 21303510, "962c68f0d1af"),
    "resnet50_v2": (32, 259, 23566550, "c993e35b050f"),
    "resnet101_v2": (32, 514, 42610902, "632ecde751af"),
    "resnet152_v2": (32, 769, 58300630, "4573bba7b1f8"),
    "vgg11": (32, 22, 28144010, "315bf3da6c4c"),
    "vgg13": (32, 26, 28328522, "9ec8a94a4321"),
    "vgg16": (32, 32, 33638218, "9683bb2fc470"),
    "vgg19": (32, 38, 38947914, "9ee91597e77a"),
    "vgg11_bn": (32, 54, 28155018, "9d11c8f84bcf"),
    "vgg13_bn": (32, 66, 28340298, "23da4f9f67ad"),
    "vgg16_bn": (32, 84, 33655114, "148241f598c8"),
    "vgg19_bn": (32, 102, 38969930, "0c7329a9df0f"),
    "alexnet": (63, 16, 20344650, "42df8c24760e"),
    "densenet121": (221, 606, 7047754, "9e769723d594"),
    "densenet161": (221, 806, 26714026, "5f592cbbb3f7"),
    "densenet169": (221, 846, 12659530, "b394baf577a4"),
    "densenet201": (221, 1006, 18341194, "ac3850f07205"),
    "squeezenet1.0": (213, 52, 740554, "96b901795de5"),
    "squeezenet1.1": (209, 52, 727626, "5d0a0b8b542f"),
    "inceptionv3": (299, 472, 21840490, "5bcc587eb500"),
    "mobilenet1.0": (32, 137, 3239114, "76122867dfb6"),
    "mobilenet0.75": (32, 137, 1840666, "6bbc85b9cb25"),
    "mobilenet0.5": (32, 137, 834666, "aaf98bf83470"),
    "mobilenet0.25": (32, 137, 221114, "0030c4152fe3"),
    "mobilenetv2_1.0": (32, 266, 2271936, "fbfed41ddbb1"),
    "mobilenetv2_0.75": (32, 266, 1386664, "4903207387b4"),
    "mobilenetv2_0.5": (32, 266, 715904, "7dca4df78488"),
    "mobilenetv2_0.25": (32, 266, 259656, "43b38a0b04a9"),
}

# The first three scores that the original networks give to a made image with made parameters (see fill).
SCORES = {
    "resnet18_v1": [-15.633, 11.212, -11.367],
    "resnet50_v1": [555.59, 50.912, -752.77],
    "resnet18_v2": [10.554, -0.24654, -15.808],
    "resnet50_v2": [-31.048, 455.79, -243.27],
    "vgg11_bn": [-0.31684, -0.054746, 0.25082],
    "alexnet": [0.66845, 0.47004, -0.96887],
    "densenet121": [-1.8748, 0.023361, -2.0835],
    "squeezenet1.0": [5.4579, 0.47707, 0.0045819],
    "squeezenet1.1": [4.9197, 0.58612, 0.15182],
    "inceptionv3": [-8.7713, 3.5633, 1.3641],
    "mobilenet0.5": [0.01828, -0.053444, 0.03607],
    "mobilenetv2_0.5": [-4.4094, -1.7347, 3.3521],
}


def made(index, shape):
    """Numbers between -1 and 1 that depend on nothing but index and shape."""
    with np.errstate(over="ignore"):
        h = np.arange(int(np.prod(shape)), dtype=np.uint32) * np.uint32(2654435761) + np.uint32(7919 * index + 17)
        h ^= h >> np.uint32(15)
        h *= np.uint32(2246822519)
        h ^= h >> np.uint32(13)
    return (h.astype(np.float32) / np.float32(2 ** 31) - 1).reshape(shape)


def fill(net):
    """Sets all parameters to made numbers that keep values of the size of 1."""
    for index, (name, parameter) in enumerate(net.collect_params().items()):
        values = made(index, parameter.shape)
        if name.endswith("weight"):
            values = values * np.float32(np.sqrt(6 / np.prod(parameter.shape[1:])))
        elif name.endswith(("var", "gamma")):
            values = 1 + values / 4
        else:
            values = values / 8
        parameter.set_data(nd.array(values))


def network(name, **kwargs):
    net = vision.get_model(name, **{"classes": 10, "prefix": "net_", **kwargs})
    net.initialize()
    return net


@pytest.mark.parametrize("name", FACTS)
def test_every_network(name):
    size, count, elements, digest = FACTS[name]
    net = network(name)
    params = net._collect_params_with_prefix()
    lines = "".join(f"{p.name} {key} {tuple(p.shape)}\n" for key, p in params.items())
    assert hashlib.sha1(lines.encode()).hexdigest()[:12] == digest
    assert [p.name for p in params.values()] == list(net.collect_params().keys()) and len(params) == count

    batch = 4 if size < 200 else 1  # maps of one element leave BatchNorm nothing to learn from in a batch of one
    x = nd.random.normal(shape=(batch, 3, size, size))
    plain = net(x)
    assert plain.shape == (batch, 10)
    assert sum(int(np.prod(p.shape)) for p in params.values()) == elements

    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), plain.asnumpy(), rtol=1e-3, atol=1e-5)
    with autograd.record():
        loss = (net(x) ** 2).sum()
    loss.backward()
    trained = [p for p in params.values() if p.grad_req != "null"]
    assert np.isfinite(loss.asscalar()) and np.isfinite(sum(p.grad().sum().asscalar() for p in trained))
    assert any(p.grad().asnumpy().any() for p in trained[:4])


@pytest.mark.parametrize("name", SCORES)
def test_scores_of_the_original(name):
    size = max(FACTS[name][0], 64)
    net = network(name)
    x = nd.array(made(99, (1, 3, size, size)))
    net(x)
    fill(net)
    np.testing.assert_allclose(net(x).asnumpy()[0, :3], SCORES[name], rtol=2e-3, atol=2e-4)


# Networks that came after the original package: a size of image, the number of trained elements with 1000 classes.
NEWER = {
    "resnet18_v1b": (33, 11689512),
    "resnet34_v1b": (33, 21797672),
    "resnet50_v1b": (33, 25557032),
    "resnet101_v1b": (33, 44549160),
    "resnet152_v1b": (33, 60192808),
    "mobilenetv3_large": (32, 5483032),
    "mobilenetv3_small": (32, 2542856),
    "nasnet_4_1056": (65, 5289978),
    "nasnet_5_1538": (65, None),
    "nasnet_7_1920": (65, None),
    "nasnet_6_4032": (65, 88753150),
}


@pytest.mark.parametrize("name", ["mobilenetv3_large", "mobilenetv3_small", "nasnet_4_1056", "resnet50_v1b"])
def test_newer_networks(name):
    size, elements = NEWER[name]
    net = vision.get_model(name)
    net.initialize(mx.init.Xavier())
    x = nd.random.normal(shape=(2, 3, size, size))
    plain = net(x)
    assert plain.shape == (2, 1000)
    assert sum(p.data().size for p in net.collect_params().values() if "running" not in p.name) == elements
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), plain.asnumpy(), rtol=1e-3, atol=1e-5)
    with autograd.record():
        loss = (net(x) ** 2).sum()
    loss.backward()
    assert all(np.isfinite(p.grad().asnumpy()).all() for p in net.collect_params().values() if p.grad_req != "null")


def test_functions_and_names():
    by_name = set(FACTS) | set(NEWER)
    assert set(vision._MODELS) == by_name
    for name, function in vision._MODELS.items():
        assert getattr(vision, function.__name__) is function and function.__name__ in vision.__all__
        assert function.__doc__ and set(inspect.signature(function).parameters) & {"kwargs"}
    assert isinstance(vision.get_model("ResNet18_V1"), vision.ResNetV1)
    assert isinstance(vision.mobilenet_v2_0_5(), vision.MobileNetV2)
    assert vision.vgg11().name.startswith("vgg") and vision.inception_v3(prefix="a_").prefix == "a_"
    assert gluon.model_zoo.vision is vision


def test_blocks():
    for block, in_channels in ((vision.BasicBlockV1, 8), (vision.BottleneckV1, 8), (vision.BasicBlockV2, 8),
                               (vision.BottleneckV2, 8)):
        net = block(16, 2, True, in_channels=in_channels)
        net.initialize()
        assert net(nd.ones((2, 8, 6, 6))).shape == (2, 16, 3, 3) and net.downsample is not None
        net = block(8, 1, in_channels=in_channels)
        net.initialize()
        assert net(nd.ones((2, 8, 6, 6))).shape == (2, 8, 6, 6) and net.downsample is None
    net = vision.get_mobilenet_v2(1.4)
    assert net.features[20].weight.shape[0] == 1792
    assert not net.features[4].use_shortcut and net.features[5].use_shortcut


@pytest.mark.parametrize("version", [1, 2])
def test_own_sizes(version):
    blocks = {1: (vision.ResNetV1, vision.BasicBlockV1), 2: (vision.ResNetV2, vision.BottleneckV2)}
    kind, block = blocks[version]
    net = kind(block, [1, 2], [8, 8, 16], classes=3, thumbnail=True)
    net.initialize()
    assert net(nd.ones((2, 3, 8, 8))).shape == (2, 3)
    assert len(net.features[version + 1]) == 2
    dense = vision.DenseNet(8, 4, [2, 2], dropout=0.1, classes=5)
    dense.initialize()
    assert dense(nd.ones((1, 3, 56, 56))).shape == (1, 5)


class Squeezed(gluon.HybridBlock):
    """A custom residual block, unknown to the library."""

    def __init__(self, channels, stride, downsample=False, in_channels=0, **kwargs):
        super().__init__(**kwargs)
        self.body = gluon.nn.Conv2D(channels, 3, stride, 1, in_channels=in_channels)
        self.downsample = gluon.nn.Conv2D(channels, 1, stride) if downsample else None

    def hybrid_forward(self, F, x):
        return F.tanh(self.body(x)) + (self.downsample(x) if self.downsample else x)


class Own(vision.ResNetV1):
    """A network that changes what it inherits."""

    def hybrid_forward(self, F, x):
        return F.softmax(super().hybrid_forward(F, x))


@pytest.mark.parametrize("hybrid", [False, True])
def test_parts_of_ones_own(hybrid):
    import gc
    net = Own(Squeezed, [1, 2], [8, 8, 16], classes=3, thumbnail=True)
    gc.collect()
    assert isinstance(net.features[1][0], Squeezed) and net.name.startswith("own")
    net.initialize()
    if hybrid:
        net.hybridize()
    scores = net(nd.ones((2, 3, 8, 8)))
    np.testing.assert_allclose(scores.sum(axis=1).asnumpy(), np.ones(2), rtol=1e-5)

    other = vision.resnet18_v1(thumbnail=True)
    with other.name_scope():
        other.output = gluon.nn.Dense(4)
    other.initialize()
    seen = []
    other.features[1].register_forward_hook(lambda block, x, y: seen.append(y.shape))
    if hybrid:
        other.hybridize()
    assert other(nd.ones((2, 3, 16, 16))).shape == (2, 4) and seen[-1] == (2, 64, 16, 16)
    assert other.features[:2](nd.ones((2, 3, 16, 16))).shape == (2, 64, 16, 16)
    assert isinstance(other.features, gluon.nn.HybridSequential) and "BasicBlockV1" in repr(other)
    fresh = gluon.nn.HybridSequential()
    fresh.add(other.features[1], gluon.nn.GlobalAvgPool2D())
    assert fresh(nd.ones((1, 64, 4, 4))).shape == (1, 64, 1, 1)

    def wrong(*args, **kwargs):
        raise KeyError("no blocks today")
    with pytest.raises(KeyError):
        vision.ResNetV1(wrong, [1], [8, 8])


def test_training_lowers_the_loss():
    net = vision.get_resnet(1, 18, classes=4, thumbnail=True)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x, y = nd.random.normal(shape=(8, 3, 16, 16)), nd.array(np.arange(8) % 4)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05})
    cross_entropy = gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for _ in range(4):
        with autograd.record():
            loss = cross_entropy(net(x), y)
        loss.backward()
        trainer.step(8)
        losses.append(loss.mean().asscalar())
    assert losses[-1] < 0.8 * losses[0], losses


def test_parameters_survive_a_file(tmp_path):
    net = network("mobilenetv2_0.25")
    x = nd.random.normal(shape=(2, 3, 32, 32))
    want = net(x).asnumpy()
    for save in ("save_parameters", "save_params"):
        path = str(tmp_path / save)
        getattr(net, save)(path)
        other = vision.get_mobilenet_v2(0.25, classes=10)
        other.load_parameters(path)
        np.testing.assert_array_equal(other(x).asnumpy(), want)
    with pytest.raises(AssertionError):
        vision.get_mobilenet(0.25, classes=10).load_parameters(path)


def test_pretrained_comes_from_the_folder(tmp_path, ctx):
    net = network("squeezenet1.1", classes=1000)
    x = nd.random.normal(shape=(1, 3, 209, 209))
    want = net(x).asnumpy()
    plain = tmp_path / "squeezenet1.1.params"
    net.save_parameters(str(plain))
    for root in (str(tmp_path), tmp_path):
        loaded = vision.squeezenet1_1(pretrained=True, root=root, ctx=ctx)
        np.testing.assert_array_equal(loaded(x).asnumpy(), want)
    assert model_store.get_model_file("squeezenet1.1", root=tmp_path) == str(plain)

    digits = hashlib.sha1(plain.read_bytes()).hexdigest()[:8]
    marked = tmp_path / f"squeezenet1.1-{digits}.params"
    os.rename(plain, marked)
    assert model_store.get_model_file("squeezenet1.1", root=str(tmp_path)) == str(marked)
    marked.write_bytes(marked.read_bytes()[:-1])
    with pytest.raises(FileError, match="SHA-1"):
        model_store.get_model_file("squeezenet1.1", root=str(tmp_path))
    model_store.purge(root=str(tmp_path))
    assert not os.listdir(tmp_path)
    model_store.purge(root=str(tmp_path / "absent"))


def test_missing_files_are_named(tmp_path):
    with pytest.raises(FileError, match="resnet18_v1-a0666292.params") as error:
        vision.get_model("resnet18_v1", pretrained=True, root=str(tmp_path))
    assert str(tmp_path) in str(error.value) and "a0666292.zip" in str(error.value)
    with pytest.raises(OSError, match="vgg11_bn-ee79a809"):
        vision.vgg11_bn(pretrained=True, root=str(tmp_path / "absent"))
    with pytest.raises(ValueError, match="mobilenet0.3"):
        vision.get_mobilenet(0.3, pretrained=True, root=str(tmp_path))


@pytest.mark.parametrize("call, error", [
    (lambda: vision.get_model("resnet19"), ValueError),
    (lambda: vision.get_model(None), ValueError),
    (lambda: vision.get_resnet(1, 19), AssertionError),
    (lambda: vision.get_resnet(3, 18), AssertionError),
    (lambda: vision.ResNetV1(vision.BasicBlockV1, [2, 2], [64, 64]), AssertionError),
    (lambda: vision.get_vgg(12), KeyError),
    (lambda: vision.VGG([1, 2], [64]), AssertionError),
    (lambda: vision.SqueezeNet("2.0"), AssertionError),
    (lambda: vision.densenet.get_densenet(100), KeyError),
    (lambda: vision.get_model("alexnet", depth=3), TypeError),
])
def test_wrong_arguments(call, error):
    with pytest.raises(error):
        call()


def test_old_custom_layers():
    layers = gluon.model_zoo.custom_layers
    net = layers.HybridConcurrent(concat_dim=1)
    net.add(layers.Identity(), layers.Identity())
    assert net(nd.ones((2, 3))).shape == (2, 6)
