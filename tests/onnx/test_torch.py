"""Networks that PyTorch exported, with the old and the new exporter: the same values here, also for other batch sizes.

`make torch` installs torch and runs it.  SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import mxnet as mx  # noqa: E402
from mxnet import autograd, gluon, nd  # noqa: E402


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(),
                                  nn.MaxPool2d(3, 2, 1))
        self.body = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 8, 1))
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.stem(x)
        x = torch.relu(x + self.body(x))
        x = nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
        return torch.softmax(self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)), dim=-1)


class Recurrent(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.embed, self.layer = nn.Embedding(20, 6), layer(6, 7, num_layers=2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(14, 3)

    def forward(self, x):
        return self.out(self.layer(self.embed(x))[0][:, -1])


class Vision(nn.Module):
    """Patches, a class token, positions, an encoder."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, stride=4)
        self.token, self.positions = nn.Parameter(torch.zeros(1, 1, 16)), nn.Parameter(torch.randn(1, 17, 16))
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu",
                                                                        norm_first=True), 2, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        return self.head(self.norm(self.encoder(x))[:, 0])


class Mobile(nn.Module):
    """A block of MobileNetV3: expansion, depthwise convolution, squeeze and excitation, projection."""

    def __init__(self):
        super().__init__()
        self.expand = nn.Sequential(nn.Conv2d(3, 16, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish())
        self.depth = nn.Sequential(nn.Conv2d(16, 16, 5, stride=2, padding=2, groups=16, bias=False), nn.BatchNorm2d(16))
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 4, 1), nn.ReLU(), nn.Conv2d(4, 16, 1), nn.Hardsigmoid())
        self.project = nn.Conv2d(16, 8, 1)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d((2, 2)), nn.Flatten(), nn.Linear(32, 5))

    def forward(self, x):
        x = self.depth(self.expand(x))
        return self.head(self.project(x * self.squeeze(x)))


class Segmenting(nn.Module):
    """Down and up again, as U-Net does it: sizes of skip connections are followed."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)])
        self.middle, self.up = nn.Conv2d(16, 16, 3, padding=1), nn.ModuleList([nn.Conv2d(32, 8, 3, padding=1), nn.Conv2d(16, 8, 3, padding=1)])
        self.transposed, self.out = nn.ConvTranspose2d(8, 8, 2, stride=2), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = torch.relu(self.down[0](x))
        b = torch.relu(self.down[1](nn.functional.max_pool2d(a, 2)))
        y = nn.functional.leaky_relu(self.middle(nn.functional.avg_pool2d(b, 2)))
        y = nn.functional.interpolate(y, size=b.shape[2:], mode="bilinear", align_corners=False)
        y = torch.relu(self.up[0](torch.cat([y, b], 1)))
        return self.out(torch.sigmoid(self.up[1](torch.cat([self.transposed(y), a], 1))))


class Generating(nn.Module):
    """A small GPT: positions, causal attention with a mask, weights of the embedding at the end."""

    def __init__(self, fused=False):
        super().__init__()
        self.fused, self.heads = fused, 2
        self.tokens, self.places = nn.Embedding(20, 8), nn.Embedding(12, 8)
        self.first, self.second, self.norm = nn.LayerNorm(8), nn.LayerNorm(8), nn.LayerNorm(8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.mlp = nn.Sequential(nn.Linear(8, 32), nn.GELU(approximate="tanh"), nn.Linear(32, 8))
        self.register_buffer("mask", torch.tril(torch.ones(12, 12)).view(1, 1, 12, 12))

    def attend(self, x):
        n, t, c = x.shape
        q, k, v = (y.view(n, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(x).split(c, dim=2))
        if self.fused:
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) / (c // self.heads) ** 0.5
            y = torch.softmax(scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")), dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(n, t, c))

    def forward(self, x):
        y = self.tokens(x) + self.places(torch.arange(x.shape[1]))
        y = y + self.attend(self.first(y))
        y = y + self.mlp(self.second(y))
        return self.norm(y) @ self.tokens.weight.T


class Pieces(nn.Module):
    """Parts of arrays: splitting, stacking, indexing, rolling, sums along an axis, the largest elements."""

    def forward(self, x):
        a, b, c, d = torch.unbind(torch.stack(torch.chunk(x, 4, dim=2), dim=1), dim=1)
        y = torch.cat([a + b, torch.flip(c, [2]), torch.roll(d, 1, 3)], dim=2).cumsum(3)
        best = torch.topk(y.flatten(2), 3, dim=2).values
        return torch.where(y > 0, y, y.clamp(min=-1)).flatten(1).sum(1, keepdim=True) + best.mean(2) + x[:, :, 0, -1].pow(2)


def image():
    return torch.randn(2, 3, 16, 16)


NETWORKS = {
    "residual": (Residual, image),
    "LSTM": (lambda: Recurrent(nn.LSTM), lambda: torch.randint(0, 20, (2, 6))),
    "GRU": (lambda: Recurrent(nn.GRU), lambda: torch.randint(0, 20, (2, 6))),
    "encoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2,
                                              enable_nested_tensor=False), lambda: torch.randn(2, 5, 8)),
    "vision": (Vision, image),
    "mobile": (Mobile, image),
    "segmenting": (Segmenting, image),
    "generating": (Generating, lambda: torch.randint(0, 20, (2, 6))),
    "fused attention": (lambda: Generating(True), lambda: torch.randint(0, 20, (2, 6))),
    "pieces": (Pieces, image),
    "shuffle": (lambda: nn.Sequential(nn.Conv2d(3, 8, 1), nn.PixelShuffle(2), nn.Hardswish(), nn.InstanceNorm2d(2),
                                      nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=1)), image),
}


def save(net, x, path, dynamo, dynamic):
    if dynamo:
        pytest.importorskip("onnxscript")
        shapes = ({0: torch.export.Dim("batch")},) if dynamic else None
        torch.onnx.export(net, (x,), path, dynamo=True, dynamic_shapes=shapes, verbose=False)
    else:
        torch.onnx.export(net, (x,), path, dynamo=False, opset_version=17, input_names=["x"],
                          dynamic_axes={"x": {0: "batch"}} if dynamic else None)


def check(net, x, path):
    block = gluon.SymbolBlock.imports(path)
    with torch.no_grad():
        wanted = net(x).numpy()
    array = nd.array(x.numpy(), dtype=x.numpy().dtype)
    np.testing.assert_allclose(block(array).asnumpy(), wanted, rtol=1e-3, atol=1e-5)
    block.hybridize()
    np.testing.assert_allclose(block(array).asnumpy(), wanted, rtol=1e-3, atol=1e-5)
    return block


@pytest.mark.parametrize("dynamo", [False, True], ids=["old", "dynamo"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "open"])
@pytest.mark.parametrize("name", NETWORKS)
def test_exported(name, dynamic, dynamo, tmp_path):
    torch.manual_seed(1)
    make, data = NETWORKS[name]
    net, path = make().eval(), str(tmp_path / "net.onnx")
    x = data()
    try:
        save(net, x, path, dynamo, dynamic)
    except Exception as error:  # noqa: BLE001
        pytest.skip(f"PyTorch cannot export it: {type(error).__name__}")
    check(net, x, path)
    if dynamic:
        check(net, torch.cat([x, x[:1]]), path)


class Packed(nn.Module):
    """Sequences of different lengths."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.out = layer(4, 5, batch_first=True, bidirectional=True), nn.Linear(10, 2)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, _ = nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0], batch_first=True, total_length=6)
        return self.out(y)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN], ids=["LSTM", "GRU", "RNN"])
def test_lengths(layer, tmp_path):
    torch.manual_seed(1)
    net, path, x, lengths = Packed(layer).eval(), str(tmp_path / "net.onnx"), torch.randn(3, 6, 4), torch.tensor([6, 2, 4])
    torch.onnx.export(net, (x, lengths), path, dynamo=False, opset_version=17, input_names=["x", "lengths"])
    found = gluon.SymbolBlock.imports(path)(nd.array(x.numpy()), nd.array(lengths.numpy(), dtype="int64"))
    np.testing.assert_allclose(found.asnumpy(), net(x, lengths).detach().numpy(), rtol=1e-4, atol=1e-6)


def command():
    """The gluon command of this build."""
    beside = pathlib.Path(mx.__file__).parents[2] / "bin" / "gluon"
    return str(beside) if beside.exists() else shutil.which("gluon")


def check_compiled(block, x, folder):
    """The same values from one C file."""
    if not command() or not shutil.which("cc"):
        pytest.skip("there is no gluon command, or no C compiler")
    wanted = block(x).asnumpy()
    block.export(str(folder / "net"))
    shape = ",".join(map(str, x.shape))
    subprocess.run([command(), "compile", str(folder / "net"), "--shape", shape, "-o", str(folder / "net.c")], check=True)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(folder / "net.so"), str(folder / "net.c"), "-lm"], check=True)
    library, found = ctypes.CDLL(str(folder / "net.so")), np.zeros_like(wanted)
    data = np.ascontiguousarray(x.asnumpy(), dtype=np.float32)
    pointer = ctypes.POINTER(ctypes.c_float)
    assert library.net_run(data.ctypes.data_as(pointer), found.ctypes.data_as(pointer)) == 0
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)


class Last(nn.Module):
    """An LSTM on features: the scores of the last step."""

    def __init__(self):
        super().__init__()
        self.layer, self.out = nn.LSTM(6, 7, batch_first=True), nn.Linear(7, 5)

    def forward(self, x):
        return torch.softmax(self.out(self.layer(x)[0][:, -1]), dim=-1)


class Pooled(nn.Module):
    """An encoder: the scores of the mean over all steps."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0), 1,
                                             enable_nested_tensor=False)
        self.out = nn.Linear(8, 5)

    def forward(self, x):
        return torch.softmax(self.out(self.encoder(x).mean(1)), dim=-1)


@pytest.mark.parametrize("make, shape", [(Residual, (6, 3, 16, 16)), (Last, (6, 4, 6)), (Pooled, (6, 5, 8))],
                         ids=["convolutional", "LSTM", "encoder"])
def test_imported_networks(make, shape, tmp_path):
    """Networks of PyTorch are hybridized, fine-tuned, and compiled to one C file."""
    torch.manual_seed(1)
    net, path = make().eval(), str(tmp_path / "net.onnx")
    save(net, torch.randn(shape), path, False, True)
    block, x = gluon.SymbolBlock.imports(path), nd.random.uniform(shape=shape)
    names = [name for name, p in block.collect_params().items() if p.grad_req != "null"]
    own = {name for name, _ in net.named_parameters()}
    assert names and set(names) <= own | {n for n in names if n.startswith("onnx::")}
    block.hybridize()
    trainer = gluon.Trainer(block.collect_params(), "adam", {"learning_rate": 0.01})
    losses = []
    for _ in range(15):
        with autograd.record():
            loss = -nd.log(nd.pick(block(x), nd.array([0, 1, 2, 3, 4, 0])))
        loss.backward()
        trainer.step(6)
        losses.append(loss.mean().asscalar())
    assert losses[-1] < 0.95 * losses[0]
    check_compiled(block, x, tmp_path)
