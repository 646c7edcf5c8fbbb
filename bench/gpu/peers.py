"""PyTorch's side of bench/gpu: the same networks with its own layers, and one training step of each."""
from sizes import BERT, BERT_LM, GPT2, LSTM


def normed(inside, outside, kernel, stride=1, groups=1):
    from torch import nn
    return [nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outside)]


def resnet50():
    import torch
    from torch import nn

    class Bottleneck(nn.Module):
        def __init__(self, inside, middle, stride):
            super().__init__()
            outside = 4 * middle
            self.body = nn.Sequential(*normed(inside, middle, 1), nn.ReLU(True), *normed(middle, middle, 3, stride),
                                      nn.ReLU(True), *normed(middle, outside, 1))
            self.shortcut = nn.Sequential(*normed(inside, outside, 1, stride)) if inside != outside else nn.Identity()

        def forward(self, x):
            return torch.relu_(self.body(x) + self.shortcut(x))
    layers, inside = [*normed(3, 64, 7, 2), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)], 64
    for stage, count in enumerate((3, 4, 6, 3)):
        for i in range(count):
            layers.append(Bottleneck(inside, 64 << stage, 2 if stage and not i else 1))
            inside = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def mobilenet():
    from torch import nn

    class Inverted(nn.Module):
        def __init__(self, inside, outside, stride, widen):
            super().__init__()
            middle = inside * widen
            self.body = nn.Sequential(*normed(inside, middle, 1), nn.ReLU6(True),
                                      *normed(middle, middle, 3, stride, middle), nn.ReLU6(True),
                                      *normed(middle, outside, 1))
            self.adds = stride == 1 and inside == outside

        def forward(self, x):
            return x + self.body(x) if self.adds else self.body(x)
    layers, inside = [*normed(3, 32, 3, 2), nn.ReLU6(True)], 32
    for widen, outside, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                          (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(count):
            layers.append(Inverted(inside, outside, 1 if i else stride, widen))
            inside = outside
    layers += [*normed(320, 1280, 1), nn.ReLU6(True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers)


def gpt2():
    import torch
    from torch import nn
    from torch.nn import functional as F
    size = GPT2

    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            units = size["units"]
            self.norm1, self.norm2 = nn.LayerNorm(units), nn.LayerNorm(units)
            self.roles, self.out = nn.Linear(units, 3 * units), nn.Linear(units, units)
            self.wide, self.narrow = nn.Linear(units, 4 * units), nn.Linear(4 * units, units)

        def forward(self, x):
            n, t, c = x.shape
            q, k, v = (y.view(n, t, size["heads"], -1).transpose(1, 2) for y in self.roles(self.norm1(x)).split(c, 2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, c)
            x = x + self.out(y)
            return x + self.narrow(F.gelu(self.wide(self.norm2(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(size["vocabulary"], size["units"])
            self.places = nn.Parameter(torch.zeros(1, size["steps"], size["units"]))
            self.cells = nn.Sequential(*[Cell() for _ in range(size["layers"])])
            self.norm = nn.LayerNorm(size["units"])

        def forward(self, words):
            x = self.norm(self.cells(self.embed(words) + self.places))
            return F.linear(x, self.embed.weight)
    return Model()


def bert_lm():
    import torch
    from torch import nn
    size = BERT_LM

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(size["vocabulary"], size["units"])
            self.places = nn.Parameter(torch.zeros(1, size["steps"], size["units"]))
            self.norm = nn.LayerNorm(size["units"])
            layer = nn.TransformerEncoderLayer(size["units"], size["heads"], size["hidden"], size["dropout"], "gelu",
                                               batch_first=True)
            self.cells = nn.TransformerEncoder(layer, size["layers"], enable_nested_tensor=False)
            self.scores = nn.Linear(size["units"], size["vocabulary"])

        def forward(self, words):
            return self.scores(self.cells(self.norm(self.embed(words) + self.places)))
    return Model()


def network_and_loss(row):
    """A network on the GPU and a function without arguments: the loss of one batch."""
    import torch
    from torch import nn
    from torch.nn import functional as F
    if row == "lstm":
        embed, lstm = nn.Embedding(LSTM["vocabulary"], LSTM["size"]), nn.LSTM(LSTM["size"], LSTM["size"], LSTM["layers"])
        scores = nn.Linear(LSTM["size"], LSTM["vocabulary"])
        x, y = (torch.randint(0, LSTM["vocabulary"], (LSTM["steps"], LSTM["batch"]), device="cuda") for _ in range(2))
        net = nn.ModuleList([embed, lstm, scores]).cuda()
        return net, lambda: F.cross_entropy(scores(lstm(embed(x))[0]).flatten(0, 1), y.flatten())
    if row == "bert":
        layer = nn.TransformerEncoderLayer(BERT["units"], BERT["heads"], BERT["hidden"], 0.1, "gelu", batch_first=True)
        net = nn.TransformerEncoder(layer, BERT["layers"], enable_nested_tensor=False).cuda()
        x, y = (torch.randn(BERT["batch"], BERT["steps"], BERT["units"], device="cuda") for _ in range(2))
        return net, lambda: F.mse_loss(net(x), y)
    if row in ("gpt2", "bert_lm"):
        net, size = (gpt2(), GPT2) if row == "gpt2" else (bert_lm(), BERT_LM)
        x, y = (torch.randint(0, size["vocabulary"], (size["batch"], size["steps"]), device="cuda") for _ in range(2))
        net = net.cuda()
        return net, lambda: F.cross_entropy(net(x).flatten(0, 1), y.flatten())
    net = (mobilenet() if row == "mobilenet" else resnet50()).cuda().to(memory_format=torch.channels_last)
    x = torch.rand(128, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (128,), device="cuda")
    return net, lambda: F.cross_entropy(net(x), y)


def settings():
    import torch
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 5  # number of engines to measure, as many as we do


def training_step(row, compiled=False):
    """(step, wait)"""
    import torch
    settings()
    narrow = row in ("bert", "gpt2", "bert_lm") or row.endswith("bf16")
    net, loss = network_and_loss(row)
    if row in ("gpt2", "bert_lm"):
        optimizer = torch.optim.AdamW(net.parameters(), 1e-4, fused=True, capturable=True)
    else:
        optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0 if row == "lstm" else 0.9)
    loss = torch.compile(loss) if compiled else loss

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=narrow, cache_enabled=False):
            value = loss()
        value.backward()
        optimizer.step()
    return step, torch.cuda.synchronize
