"""Files with PyTorch's names: written and read without torch; with torch, networks of the same weights agree.

The networks of torch (defined in torch_networks.py) have the structure and the parameter names of the published ones.
"""
import numpy as np
import pytest

import mxnet as mx
from mxnet import nd
from mxnet.gluon import model_zoo
from mxnet.gluon.model_zoo import text, vision

RESNET = dict(layers=(1, 2, 1, 1), channels=(8, 16, 24, 32, 40), classes=5)
GPT2 = dict(num_layers=2, units=16, num_heads=2, vocab_size=30, max_length=10)
BERT = dict(num_layers=2, units=16, num_heads=2, vocab_size=30, max_length=10, dropout=0)
# A network of ours, the size of its images (0: tokens), some of the names in its file.
NETWORKS = {
    "resnet": (lambda: vision.ResNetV1("basic_block", **RESNET), 33,
               ["conv1.weight", "bn1.running_var", "layer1.0.conv2.weight", "layer2.0.downsample.1.bias", "fc.bias"]),
    "resnet_b": (lambda: vision.ResNetV1("bottle_neck_b", **RESNET), 33,
                 ["layer2.1.conv3.weight", "layer4.0.bn3.running_mean", "layer1.0.downsample.0.weight"]),
    "vgg": (lambda: vision.VGG((1, 2), (4, 8), classes=5, batch_norm=True), 12,
            ["features.0.weight", "features.4.bias", "features.8.running_mean", "classifier.0.weight", "classifier.3.bias",
             "classifier.6.weight"]),
    "densenet": (lambda: vision.DenseNet(8, 4, (2, 1, 2, 1), classes=5), 224,
                 ["features.conv0.weight", "features.denseblock3.denselayer2.norm2.weight", "features.transition2.conv.weight",
                  "features.norm5.bias", "classifier.weight"]),
    "mobilenet2": (lambda: vision.MobileNetV2(0.25, classes=5, form="torch"), 33,
                   ["features.0.0.weight", "features.1.conv.1.weight", "features.1.conv.2.running_var",
                    "features.17.conv.3.weight", "features.18.1.bias", "classifier.1.bias"]),
    "mobilenet3_large": (lambda: vision.MobileNetV3("large", 0.35, classes=5, epsilon=0.001), 33,
                         ["features.4.block.2.fc1.bias", "features.15.block.3.1.weight", "features.16.0.weight",
                          "classifier.0.weight", "classifier.3.bias"]),
    "mobilenet3_small": (lambda: vision.MobileNetV3("small", 0.35, classes=5, epsilon=0.001), 33,
                         ["features.1.block.1.fc2.weight", "features.12.1.running_mean", "classifier.0.bias"]),
    "gpt2": (lambda: text.GPT2(**GPT2), 0, ["wte.weight", "h.1.attn.c_attn.bias", "h.0.mlp.c_proj.weight", "ln_f.bias"]),
    "bert": (lambda: text.BERT(**BERT), 0,
             ["embeddings.word_embeddings.weight", "encoder.layer.1.attention.output.LayerNorm.weight",
              "encoder.layer.0.intermediate.dense.bias", "pooler.dense.weight"]),
}


def data(size):
    random = np.random.RandomState(3)
    if not size:
        return nd.array(random.randint(0, 30, (2, 7)))
    return nd.array(random.normal(0, 1, (2, 3, size, size)).astype("float32"))


def randomised(make, x):
    """Every parameter is random, running statistics as well: no two layers can be confused."""
    net, random = make(), np.random.RandomState(4)
    net.initialize(mx.init.Xavier(magnitude=2))
    net(x)
    for name, p in net.collect_params().items():
        if p.data().ndim == 1:
            low, high = (0.5, 1.5) if name.endswith(("var", "gamma")) else (-0.2, 0.2)
            p.set_data(nd.array(random.uniform(low, high, p.shape)))
    return net


def results(net, x):
    y = net(x)
    return [z.asnumpy() for z in (y if isinstance(y, (list, tuple)) else [y])]


def saved(name, path):
    make, size, _ = NETWORKS[name]
    net = randomised(make, data(size))
    model_zoo.save_torch(net, str(path))
    return net


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_round_trip(name, tmp_path):
    make, size, names = NETWORKS[name]
    net, x = saved(name, tmp_path / "net.safetensors"), data(size)
    file = nd.load(str(tmp_path / "net.safetensors"))
    assert not set(names) - set(file)
    joined = 4 * GPT2["num_layers"] if name == "gpt2" else 0  # query, key and value are one array, twice per cell
    assert len(file) == len(net.collect_params()) - joined
    other = make()
    model_zoo.load_torch(other, str(tmp_path / "net.safetensors"))
    for a, b in zip(results(net, x), results(other, x)):
        assert (a == b).all() and np.ptp(a) > 1e-3


def test_layout_of_gpt2(tmp_path, on_host):
    """(in, out), and query, key and value side by side."""
    net = saved("gpt2", tmp_path / "net.safetensors")
    file = nd.load(str(tmp_path / "net.safetensors"))
    assert file["h.0.mlp.c_fc.weight"].shape == (16, 64) and file["h.0.attn.c_attn.weight"].shape == (16, 48)
    key = net.cell0.attention.proj_key
    assert (file["h.0.attn.c_attn.weight"][:, 16:32].T == key.weight.data()).asnumpy().all()
    assert (file["h.0.attn.c_attn.bias"][16:32] == key.bias.data()).asnumpy().all()


def test_prefixes_and_buffers(tmp_path):
    path = str(tmp_path / "net.safetensors")
    net, x = saved("gpt2", path), data(0)
    file = {"transformer." + key: value for key, value in nd.load(path).items()}
    file["transformer.h.0.attn.bias"] = nd.ones((1, 1, 10, 10))
    file["lm_head.weight"] = file["transformer.wte.weight"]
    nd.save(path, file)
    other = text.GPT2(**GPT2)
    model_zoo.load_torch(other, path)
    assert (other(x) == net(x)).asnumpy().all()


def test_from_torch(tmp_path):
    """Options and the number of classes come from the file."""
    path, x = str(tmp_path / "net.safetensors"), data(33)
    net = randomised(lambda: vision.MobileNetV2(0.25, classes=7, form="torch"), x)
    net.cast("float16")
    model_zoo.save_torch(net, path)
    other = model_zoo.from_torch("mobilenetv2_0.25", path)
    assert isinstance(other, vision.MobileNetV2) and other(x).shape == (2, 7) and other(x).dtype == np.float32
    net.cast("float32")
    np.testing.assert_allclose(other(x).asnumpy(), net(x).asnumpy(), rtol=1e-5, atol=1e-6)


def test_wrong_files(tmp_path):
    path = str(tmp_path / "net.safetensors")
    saved("resnet", path)
    file = nd.load(path)

    def fails(error, match, net=None, **changed):
        left = {key: value for key, value in {**file, **changed}.items() if value is not None}
        nd.save(path, left)
        other = net or NETWORKS["resnet"][0]()
        with pytest.raises(error, match=match):
            model_zoo.load_torch(other, path)
        assert all(p._data is None for p in other.collect_params().values())

    fails(mx.MXNetError, "'bn1.weight', the parameter 'features.1.gamma' of the network, is not in the file",
          **{"bn1.weight": None})
    fails(mx.MXNetError, "'extra.weight' is not used", **{"extra.weight": nd.ones(3)})
    fails(ValueError, r"'fc.weight' has shape \(5, 31\).*'output.weight'.*\(5, ", **{"fc.weight": nd.ones((5, 31))})
    fails(ValueError, "layer1.0.conv1.weight.*features.4.0.body.0.weight", net=vision.ResNetV1("bottle_neck", **RESNET))
    fails(ValueError, "classes ResNetV1, VGG.*not for AlexNet", net=vision.alexnet())
    with pytest.raises(mx.MXNetError, match=r"\.pt files are Python pickles.*safetensors"):
        model_zoo.load_torch(NETWORKS["resnet"][0](), str(tmp_path / "net.pt"))
    with pytest.raises(ValueError, match="there is no network 'resnet51_v1b'"):
        model_zoo.from_torch("resnet51_v1b", path)


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_against_torch(name, tmp_path):
    """Random weights of torch's network, loaded here: the same results."""
    torch = pytest.importorskip("torch", reason="torch is not installed: the same networks cannot be compared")
    import torch_networks
    make, size, _ = NETWORKS[name]
    x, net = data(size), make()
    theirs = torch_networks.make(name)
    state = {key: nd.array(value.numpy()) for key, value in theirs.state_dict().items()}
    nd.save(str(tmp_path / "theirs.safetensors"), state)
    model_zoo.load_torch(net, str(tmp_path / "theirs.safetensors"))
    with torch.no_grad():
        y = theirs(torch.from_numpy(x.asnumpy() if size else x.asnumpy().astype("int64")))
    for a, b in zip(results(net, x), y if isinstance(y, tuple) else [y]):
        np.testing.assert_allclose(a, b.numpy(), rtol=2e-4, atol=2e-5 * float(abs(b).max()) + 1e-6)
