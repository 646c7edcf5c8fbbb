"""Networks of torch with the structure and the parameter names of the published ones, in small (for test_torch_weights.py)."""
import torch
from torch import nn
from torch.nn import functional


class Bottleneck(nn.Module):
    """Residual block: two 3x3 convolutions, or 1x1, 3x3 (with the stride), 1x1."""

    def __init__(self, before, channels, stride, basic):
        super().__init__()
        inner = channels if basic else channels // 4
        self.basic = basic
        self.conv1 = nn.Conv2d(before, inner, 3, stride, 1, bias=False) if basic else nn.Conv2d(before, inner, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, 1 if basic else stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        if not basic:
            self.conv3, self.bn3 = nn.Conv2d(inner, channels, 1, bias=False), nn.BatchNorm2d(channels)
        self.downsample = None
        if stride != 1 or before != channels:
            self.downsample = nn.Sequential(nn.Conv2d(before, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        y = y if self.basic else self.bn3(self.conv3(functional.relu(y)))
        return functional.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, basic, layers, channels, classes):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, channels[0], 7, 2, 3, bias=False), nn.BatchNorm2d(channels[0])
        before = channels[0]
        for i, count in enumerate(layers):
            blocks = []
            for k in range(count):
                blocks.append(Bottleneck(before, channels[i + 1], 2 if i and not k else 1, basic))
                before = channels[i + 1]
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(before, classes)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class VGG(nn.Module):
    def __init__(self, layers, filters, classes, size):
        super().__init__()
        parts, before = [], 3
        for count, channels in zip(layers, filters):
            for _ in range(count):
                parts += [nn.Conv2d(before, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU()]
                before = channels
            parts.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*parts)
        self.classifier = nn.Sequential(nn.Linear(before * size * size, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096),
                                        nn.ReLU(), nn.Dropout(), nn.Linear(4096, classes))

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class DenseLayer(nn.Module):
    def __init__(self, before, growth):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(before), nn.Conv2d(before, 4 * growth, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(4 * growth), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x):
        y = self.conv1(functional.relu(self.norm1(x)))
        return torch.cat([x, self.conv2(functional.relu(self.norm2(y)))], 1)


class DenseNet(nn.Module):
    def __init__(self, first, growth, config, classes):
        super().__init__()
        parts = {"conv0": nn.Conv2d(3, first, 7, 2, 3, bias=False), "norm0": nn.BatchNorm2d(first), "relu0": nn.ReLU(),
                 "pool0": nn.MaxPool2d(3, 2, 1)}
        channels = first
        for i, count in enumerate(config):
            block = nn.Sequential()
            for k in range(count):
                block.add_module(f"denselayer{k + 1}", DenseLayer(channels, growth))
                channels += growth
            parts[f"denseblock{i + 1}"] = block
            if i + 1 < len(config):
                halved = nn.Sequential()
                halved.add_module("norm", nn.BatchNorm2d(channels))
                halved.add_module("relu", nn.ReLU())
                halved.add_module("conv", nn.Conv2d(channels, channels // 2, 1, bias=False))
                halved.add_module("pool", nn.AvgPool2d(2, 2))
                parts[f"transition{i + 1}"], channels = halved, channels // 2
        parts["norm5"] = nn.BatchNorm2d(channels)
        self.features = nn.Sequential()
        for name, part in parts.items():
            self.features.add_module(name, part)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x):
        return self.classifier(functional.relu(self.features(x)).mean((2, 3)))


def conv(before, channels, kernel, stride=1, groups=1, act=None, **norm):
    parts = [nn.Conv2d(before, channels, kernel, stride, kernel // 2, groups=groups, bias=False),
             nn.BatchNorm2d(channels, **norm)]
    return parts + ([act()] if act else [])


class Inverted2(nn.Module):
    def __init__(self, before, channels, stride, expand):
        super().__init__()
        inner, parts = before * expand, []
        if expand != 1:
            parts.append(nn.Sequential(*conv(before, inner, 1, act=nn.ReLU6)))
        parts.append(nn.Sequential(*conv(inner, inner, 3, stride, inner, nn.ReLU6)))
        self.conv = nn.Sequential(*parts, *conv(inner, channels, 1))
        self.add = stride == 1 and before == channels

    def forward(self, x):
        return x + self.conv(x) if self.add else self.conv(x)


class MobileNet2(nn.Module):
    ROWS = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]

    def __init__(self, multiplier, classes):
        super().__init__()
        before = int(32 * multiplier)
        parts = [nn.Sequential(*conv(3, before, 3, 2, act=nn.ReLU6))]
        for expand, channels, count, stride in self.ROWS:
            for k in range(count):
                parts.append(Inverted2(before, int(channels * multiplier), 1 if k else stride, expand))
                before = int(channels * multiplier)
        self.features = nn.Sequential(*parts, nn.Sequential(*conv(before, 1280, 1, act=nn.ReLU6)))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


def eights(x):
    rounded = max(8, int(x + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * x else rounded


class Squeeze(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(channels, eights(channels // 4), 1), nn.Conv2d(eights(channels // 4), channels, 1)

    def forward(self, x):
        return x * functional.hardsigmoid(self.fc2(functional.relu(self.fc1(x.mean((2, 3), keepdim=True)))))


class Inverted3(nn.Module):
    def __init__(self, before, kernel, inner, channels, squeeze, swish, stride):
        super().__init__()
        act, parts = nn.Hardswish if swish else nn.ReLU, []
        if inner != before:
            parts.append(nn.Sequential(*conv(before, inner, 1, act=act, eps=0.001)))
        parts.append(nn.Sequential(*conv(inner, inner, kernel, stride, inner, act, eps=0.001)))
        if squeeze:
            parts.append(Squeeze(inner))
        self.block = nn.Sequential(*parts, nn.Sequential(*conv(inner, channels, 1, eps=0.001)))
        self.add = stride == 1 and before == channels

    def forward(self, x):
        return x + self.block(x) if self.add else self.block(x)


class MobileNet3(nn.Module):
    LARGE = [(3, 16, 16, 0, 0, 1), (3, 64, 24, 0, 0, 2), (3, 72, 24, 0, 0, 1), (5, 72, 40, 1, 0, 2), (5, 120, 40, 1, 0, 1),
             (5, 120, 40, 1, 0, 1), (3, 240, 80, 0, 1, 2), (3, 200, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1),
             (3, 480, 112, 1, 1, 1), (3, 672, 112, 1, 1, 1), (5, 672, 160, 1, 1, 2), (5, 960, 160, 1, 1, 1),
             (5, 960, 160, 1, 1, 1)]
    SMALL = [(3, 16, 16, 1, 0, 2), (3, 72, 24, 0, 0, 2), (3, 88, 24, 0, 0, 1), (5, 96, 40, 1, 1, 2), (5, 240, 40, 1, 1, 1),
             (5, 240, 40, 1, 1, 1), (5, 120, 48, 1, 1, 1), (5, 144, 48, 1, 1, 1), (5, 288, 96, 1, 1, 2), (5, 576, 96, 1, 1, 1),
             (5, 576, 96, 1, 1, 1)]

    def __init__(self, rows, wide, multiplier, classes):
        super().__init__()
        before = eights(16 * multiplier)
        parts = [nn.Sequential(*conv(3, before, 3, 2, act=nn.Hardswish, eps=0.001))]
        for kernel, inner, channels, squeeze, swish, stride in rows:
            parts.append(Inverted3(before, kernel, eights(inner * multiplier), eights(channels * multiplier), squeeze, swish,
                                   stride))
            before = eights(channels * multiplier)
        self.features = nn.Sequential(*parts, nn.Sequential(*conv(before, 6 * before, 1, act=nn.Hardswish, eps=0.001)))
        self.classifier = nn.Sequential(nn.Linear(6 * before, wide), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(wide, classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class Turned(nn.Module):
    """A dense layer whose weight is (in, out)."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(inputs, outputs)), nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


def named(**parts):
    module = nn.Module()
    for name, part in parts.items():
        module.add_module(name, part)
    return module


def heads(x, count):
    return x.view(*x.shape[:2], count, -1).transpose(1, 2)


class GPT2(nn.Module):
    def __init__(self, layers, units, count, words, length):
        super().__init__()
        self.count, self.wte, self.wpe = count, nn.Embedding(words, units), nn.Embedding(length, units)
        self.h = nn.ModuleList([
            named(ln_1=nn.LayerNorm(units), attn=named(c_attn=Turned(units, 3 * units), c_proj=Turned(units, units)),
                  ln_2=nn.LayerNorm(units), mlp=named(c_fc=Turned(units, 4 * units), c_proj=Turned(4 * units, units)))
            for _ in range(layers)])
        self.ln_f = nn.LayerNorm(units)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        for cell in self.h:
            q, k, v = (heads(part, self.count) for part in cell.attn.c_attn(cell.ln_1(x)).chunk(3, 2))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            x = x + cell.attn.c_proj(y)
            x = x + cell.mlp.c_proj(functional.gelu(cell.mlp.c_fc(cell.ln_2(x)), approximate="tanh"))
        return self.ln_f(x) @ self.wte.weight.T


class BERT(nn.Module):
    def __init__(self, layers, units, count, words, length):
        super().__init__()
        norm = lambda: nn.LayerNorm(units, eps=1e-12)  # noqa: E731
        dense = lambda: nn.Linear(units, units)  # noqa: E731
        self.count = count
        self.embeddings = named(word_embeddings=nn.Embedding(words, units), position_embeddings=nn.Embedding(length, units),
                                token_type_embeddings=nn.Embedding(2, units), LayerNorm=norm())
        self.encoder = named(layer=nn.ModuleList([
            named(attention=named(self=named(query=dense(), key=dense(), value=dense()),
                                  output=named(dense=dense(), LayerNorm=norm())),
                  intermediate=named(dense=nn.Linear(units, 4 * units)),
                  output=named(dense=nn.Linear(4 * units, units), LayerNorm=norm())) for _ in range(layers)]))
        self.pooler = named(dense=dense())

    def forward(self, tokens):
        e = self.embeddings
        x = e.LayerNorm(e.word_embeddings(tokens) + e.position_embeddings.weight[:tokens.shape[1]] +
                        e.token_type_embeddings.weight[0])
        for cell in self.encoder.layer:
            own = cell.attention.get_submodule("self")
            q, k, v = (heads(part(x), self.count) for part in (own.query, own.key, own.value))
            y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            x = cell.attention.output.LayerNorm(x + cell.attention.output.dense(y))
            x = cell.output.LayerNorm(x + cell.output.dense(functional.gelu(cell.intermediate.dense(x))))
        return x, torch.tanh(self.pooler.dense(x[:, 0]))


MADE = {
    "resnet": lambda: ResNet(True, (1, 2, 1, 1), (8, 16, 24, 32, 40), 5),
    "resnet_b": lambda: ResNet(False, (1, 2, 1, 1), (8, 16, 24, 32, 40), 5),
    "vgg": lambda: VGG((1, 2), (4, 8), 5, 3),
    "densenet": lambda: DenseNet(8, 4, (2, 1, 2, 1), 5),
    "mobilenet2": lambda: MobileNet2(0.25, 5),
    "mobilenet3_large": lambda: MobileNet3(MobileNet3.LARGE, 1280, 0.35, 5),
    "mobilenet3_small": lambda: MobileNet3(MobileNet3.SMALL, 1024, 0.35, 5),
    "gpt2": lambda: GPT2(2, 16, 2, 30, 10),
    "bert": lambda: BERT(2, 16, 2, 30, 10),
}


def make(name):
    """A network in which every number is random, running statistics as well."""
    torch.manual_seed(5)
    net = MADE[name]().eval()
    for key, value in list(net.named_parameters()) + list(net.named_buffers()):
        if not value.is_floating_point():
            continue
        if value.ndim == 1:
            positive = key.endswith(("running_var", "weight"))
            nn.init.uniform_(value, 0.5 if positive else -0.2, 1.5 if positive else 0.2)
        else:
            nn.init.normal_(value, std=(2 / value[0].numel()) ** 0.5 if value.ndim == 4 else 0.1)
    return net
