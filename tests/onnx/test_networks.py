"""Networks as ONNX files: checked by the onnx package, run by ONNX Runtime, read back.

SPDX-License-Identifier: Apache-2.0
"""
import numpy as np
import onnx
import onnxruntime
import pytest

import mxnet as mx
from mxnet import gluon, nd
from mxnet.gluon import nn, rnn
from mxnet.gluon.model_zoo import vision

SAMPLE = ["densenet121", "mobilenet0.25", "mobilenetv2_0.25", "mobilenetv3_small", "resnet18_v1", "resnet18_v2", "resnet50_v1",
          "squeezenet1.1", "nasnet_4_1056"]
EVERY = SAMPLE + ["alexnet", "densenet161", "densenet169", "densenet201", "inceptionv3", "mobilenet0.5", "mobilenet0.75",
                  "mobilenet1.0", "mobilenetv2_0.5", "mobilenetv2_0.75", "mobilenetv2_1.0", "mobilenetv3_large",
                  "nasnet_5_1538", "nasnet_6_4032", "nasnet_7_1920", "resnet101_v1", "resnet101_v2", "resnet152_v1",
                  "resnet152_v2", "resnet34_v1", "resnet34_v2", "resnet50_v2", "squeezenet1.0", "vgg11", "vgg11_bn", "vgg13",
                  "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn"]


def pytest_generate_tests(metafunc):
    if "zoo" in metafunc.fixturenames:
        metafunc.parametrize("zoo", EVERY if metafunc.config.getoption("--every") else SAMPLE)


def listed(results):
    return [y for r in results for y in listed(r)] if isinstance(results, (list, tuple)) else [results]


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def close(found, wanted, tolerance):
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        assert np.abs(a - b).max() <= tolerance * max(np.abs(b).max(), 1e-3)


def check(net, *inputs, path, tolerance=2e-5, batches=True, back=True):
    """Equal values in ONNX Runtime and after reading back, also for another batch size."""
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(*inputs)
    net.export(path)
    onnx.checker.check_model(path, full_check=True)
    session, again = session_of(path), gluon.SymbolBlock.imports(path) if back else None
    others = [nd.concat(x, x[:1], dim=0) for x in inputs]
    for xs in (inputs, others) if batches else (inputs,):
        wanted = [y.asnumpy() for y in listed(net(*xs))]
        feeds = {i.name: x.asnumpy() for i, x in zip(session.get_inputs(), xs)}
        close(session.run(None, feeds), wanted, tolerance)
        if back:
            close([y.asnumpy() for y in listed(again(*xs[:len(feeds)]))], wanted, tolerance)


def test_zoo(zoo, tmp_path):
    size = 299 if "inception" in zoo else 224 if zoo.startswith(("vgg", "alexnet", "densenet", "nasnet", "squeezenet")) else 64
    check(vision.get_model(zoo), nd.random.uniform(shape=(1, 3, size, size)), path=str(tmp_path / "net.onnx"), tolerance=1e-4)


LAYERS = {
    "dense": (lambda: nn.Dense(4, activation="tanh", flatten=False), (2, 3, 5)),
    "leaky": (lambda: nn.LeakyReLU(0.1), (2, 4, 9, 8)), "prelu": (nn.PReLU, (2, 4, 9, 8)), "elu": (nn.ELU, (2, 4, 9, 8)),
    "selu": (nn.SELU, (2, 4, 9, 8)), "gelu": (nn.GELU, (2, 4, 9, 8)), "swish": (nn.Swish, (2, 4, 9, 8)),
    "layer norm": (nn.LayerNorm, (2, 4, 9, 8)), "layer norm 1": (lambda: nn.LayerNorm(axis=1), (2, 4, 9, 8)),
    "group norm": (lambda: nn.GroupNorm(2), (2, 4, 9, 8)), "instance norm": (nn.InstanceNorm, (2, 4, 9, 8)),
    "batch norm": (nn.BatchNorm, (2, 4, 9, 8)), "batch norm last": (lambda: nn.BatchNorm(axis=-1), (2, 4, 9, 8)),
    "transposed": (lambda: nn.Conv2DTranspose(3, 3, strides=2, output_padding=1), (2, 4, 9, 8)),
    "conv1d": (lambda: nn.Conv1D(3, 3, dilation=2), (2, 4, 9)), "conv3d": (lambda: nn.Conv3D(2, 2), (2, 3, 5, 5, 4)),
    "grouped": (lambda: nn.Conv2D(8, 3, groups=4, padding=1), (2, 4, 9, 8)),
    "channels last": (lambda: nn.Conv2D(6, 3, groups=2, strides=2, layout="NHWC"), (2, 9, 8, 4)),
    "transposed last": (lambda: nn.Conv2DTranspose(3, 3, strides=2, output_padding=1, layout="NHWC"), (2, 9, 8, 4)),
    "1d last": (lambda: nn.Conv1D(3, 3, layout="NWC"), (2, 9, 4)),
    "maximum last": (lambda: nn.MaxPool2D(3, 2, 1, layout="NHWC"), (2, 9, 8, 4)),
    "global last": (lambda: nn.GlobalAvgPool2D(layout="NHWC"), (2, 9, 8, 4)),
    "average": (lambda: nn.AvgPool2D(3, 2, 1, ceil_mode=True), (2, 4, 9, 8)),
    "maximum": (lambda: nn.MaxPool2D(3, 2, 1, ceil_mode=True), (2, 4, 9, 8)),
    "global": (nn.GlobalAvgPool2D, (2, 4, 9, 8)), "reflection": (lambda: nn.ReflectionPad2D(1), (2, 4, 9, 8)),
    "LSTM": (lambda: rnn.LSTM(5, 2, layout="NTC", bidirectional=True), (3, 4, 6)),
    "LSTM projected": (lambda: rnn.LSTM(5, 2, layout="NTC", bidirectional=True, projection_size=3), (3, 4, 6)),
    "LSTM clipped": (lambda: rnn.LSTM(5, 1, layout="NTC", state_clip_min=-0.2, state_clip_max=0.1), (3, 4, 6)),
    "GRU": (lambda: rnn.GRU(5, 2, layout="NTC", bidirectional=True), (3, 4, 6)),
    "RNN": (lambda: rnn.RNN(5, 2, activation="relu", layout="NTC", bidirectional=True), (3, 4, 6)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, tmp_path):
    make, shape = LAYERS[name]
    check(make(), nd.random.uniform(-1, 1, shape=shape), path=str(tmp_path / "net.onnx"))


@pytest.mark.parametrize("opset", range(13, 24))
def test_opsets(opset, tmp_path):
    path, net = str(tmp_path / "net.onnx"), nn.HybridSequential()
    net.add(nn.Conv2D(4, 3), nn.GELU(), nn.LayerNorm(), nn.GroupNorm(2), nn.AvgPool2D(2), nn.Dense(4),
            nn.HybridLambda(lambda F, x: F.softmax(x - F.mean(x, axis=1, keepdims=True))))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x = nd.random.uniform(shape=(2, 3, 8, 8))
    wanted = net(x).asnumpy()
    prefix = str(tmp_path / "net")
    net.export(prefix)
    mx.onnx.export_model(prefix + "-symbol.json", prefix + "-0000.params", [x.shape], onnx_file_path=path, opset_version=opset)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert model.opset_import[0].version == opset
    close(session_of(path).run(None, {"data": x.asnumpy()}), [wanted], 2e-5)
    close([mx.onnx.import_to_gluon(path)(x).asnumpy()], [wanted], 2e-5)


class Encoder(gluon.HybridBlock):
    """A transformer encoder layer in classic operators."""

    def __init__(self, units=16, heads=4, **kwargs):
        super().__init__(**kwargs)
        self.heads = heads
        with self.name_scope():
            self.project, self.out = nn.Dense(3 * units, flatten=False), nn.Dense(units, flatten=False)
            self.first, self.second = nn.LayerNorm(), nn.LayerNorm()
            self.inner, self.outer = nn.Dense(32, flatten=False, activation="relu"), nn.Dense(units, flatten=False)

    def hybrid_forward(self, F, x):
        y = F.transpose(self.project(self.first(x)), axes=(1, 0, 2))  # (T, N, 3 C)
        scores = F.softmax(F.contrib.interleaved_matmul_selfatt_qk(y, heads=self.heads))
        y = F.contrib.interleaved_matmul_selfatt_valatt(y, scores, heads=self.heads)
        x = x + self.out(F.transpose(y, axes=(1, 0, 2)))
        return x + self.outer(self.inner(self.second(x)))


def test_encoder(tmp_path):
    net = nn.HybridSequential()
    net.add(nn.Dense(16, flatten=False), Encoder(), Encoder(), nn.LayerNorm())
    check(net, nd.random.uniform(-1, 1, shape=(2, 5, 8)), path=str(tmp_path / "net.onnx"))


def test_embedding(tmp_path):
    check(nn.Embedding(10, 4), nd.array([[1, 2], [3, 9]]), path=str(tmp_path / "net.onnx"))


@pytest.mark.parametrize("opset", (17, 23))
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"kv_heads": 2}, {"causal": True, "layout": "TNC"}],
                         ids=["usual", "causal", "shared", "time first"])
def test_attention(options, opset, tmp_path):
    """Standard operators, or since opset 23 one of its own; batches and lengths of any size."""
    path, x, heads = str(tmp_path / "net.onnx"), mx.sym.var("x"), 4
    width = 8 * (heads + 2 * options.get("kv_heads", heads))
    graph = mx.sym.contrib.attention(x, heads=heads, roles="packed", **options)
    mx.onnx.export_model(graph, {}, [(None, None, width)], onnx_file_path=path, opset_version=opset)
    onnx.checker.check_model(path, full_check=True)
    assert any(node.op_type == "Attention" for node in onnx.load(path).graph.node) == (opset >= 23)
    data = nd.random.normal(shape=(5, 3, width))
    wanted = graph.eval(x=data)[0].asnumpy()
    close(session_of(path).run(None, {"x": data.asnumpy()}), [wanted], 2e-5)
    read, _, _ = mx.onnx.import_model(path, {"x": data.shape})
    close([read.eval(x=data)[0].asnumpy()], [wanted], 2e-5)
