"""PyTorch: the counterparts of the Gluon programs.  SPDX-License-Identifier: Apache-2.0"""
import gzip
import os

import torch
from torch import nn

from timing import Workloads, threads
from workloads import BATCH, ENCODER, FASHION_MNIST, LANGUAGE, LSTM, MLP, TRANSFORMER

torch.set_num_threads(threads())
work = Workloads("torch", torch.__version__)


@work("add", "eager")
def add():
    a, b = torch.ones(16), torch.ones(16)
    return lambda: a + b


@work("add_recorded", "eager")
def add_recorded():
    a, b = torch.ones(16, requires_grad=True), torch.ones(16)
    return lambda: a + b


@work("reshape", "eager")
def reshape():
    x = torch.ones(4, 4)
    return lambda: x.reshape((2, 8))


@work("index", "eager")
def index():
    x = torch.ones(4, 4)
    return lambda: x[0]


@work("dot", "eager")
def dot():
    a, b = torch.ones(4, 4), torch.ones(4, 4)
    return lambda: torch.mm(a, b)


def small_dense(layers):
    net = nn.Sequential(*[nn.Linear(16, 16) for _ in range(layers)])
    net = net if layers > 1 else net[0]
    x = torch.ones(4, 16)

    def call():
        with torch.inference_mode():
            net(x)
    return call


work("dense", "eager")(lambda: small_dense(1))
work("sequential", "eager")(lambda: small_dense(3))


# ---- networks -------------------------------------------------------------------------------------------------------

def mlp():
    layers = []
    for before, units in zip(MLP, MLP[1:]):
        layers += [nn.Linear(before, units), nn.ReLU()]
    return nn.Sequential(*layers[:-1]), (MLP[0],)


def lenet():
    net = nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                        nn.Linear(84, 10))
    return net, (1, 28, 28)


def training(make, compiled):
    net, shape = make()
    data, label = torch.rand(BATCH, *shape), torch.randint(0, 10, (BATCH,))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    run = torch.compile(net) if compiled else net

    def step():
        optimizer.zero_grad()
        criterion(run(data), label).backward()
        optimizer.step()
    return step


def inference(make, batch, compiled):
    net, shape = make()
    net.eval()
    data = torch.rand(batch, *shape)
    run = torch.compile(net) if compiled else net

    def call():
        with torch.inference_mode():
            run(data)
    return call


def zoo(name):
    import torchvision
    return lambda: (getattr(torchvision.models, name)(), (3, 224, 224))


def encoder():
    layer = nn.TransformerEncoderLayer(ENCODER["units"], ENCODER["heads"], ENCODER["hidden"], batch_first=True)
    return layer, (ENCODER["steps"], ENCODER["units"])


for lane in ("eager", "compiled"):
    how = lane == "compiled"
    work("mlp_train", lane)(lambda c=how: training(mlp, c))
    work("lenet_train", lane)(lambda c=how: training(lenet, c))
    work("mlp_infer", lane)(lambda c=how: inference(mlp, BATCH, c))
    work("lenet_infer", lane)(lambda c=how: inference(lenet, BATCH, c))
    work("lenet_infer1", lane)(lambda c=how: inference(lenet, 1, c))
    work("encoder_infer", lane)(lambda c=how: inference(encoder, ENCODER["batch"], c))
for row, name in (("resnet18_infer1", "resnet18"), ("resnet50_infer1", "resnet50"),
                  ("mobilenet2_infer1", "mobilenet_v2")):
    work(row, "eager")(lambda name=name: inference(zoo(name), 1, False))


work("resnet50_infer32", "eager")(lambda: inference(zoo("resnet50"), 32, False))
work("mobilenet2_infer32", "eager")(lambda: inference(zoo("mobilenet_v2"), 32, False))


def stepping(run, criterion, optimizer):
    def step():
        optimizer.zero_grad()
        criterion(run()).backward()
        optimizer.step()
    return step


def zoo_training(name, batch=8):
    net, shape = zoo(name)()
    net = net.to(memory_format=torch.channels_last)
    data = torch.rand(batch, *shape).to(memory_format=torch.channels_last)
    label, loss = torch.randint(0, 1000, (batch,)), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9)
    return stepping(lambda: net(data), lambda scores: loss(scores, label), optimizer)


work("resnet18_train", "eager, channels last")(lambda: zoo_training("resnet18"))
work("mobilenet2_train", "eager, channels last")(lambda: zoo_training("mobilenet_v2"))


class LanguageModel(nn.Module):
    """Words to an embedding, a stacked LSTM, and scores of the next word."""

    def __init__(self, sizes):
        super().__init__()
        self.embed = nn.Embedding(sizes["vocabulary"], sizes["embed"])
        self.lstm = nn.LSTM(sizes["embed"], sizes["hidden"], sizes["layers"])
        self.scores = nn.Linear(sizes["hidden"], sizes["vocabulary"])

    def forward(self, words):  # (T, N)
        return self.scores(self.lstm(self.embed(words))[0])


def language(sizes):
    net = LanguageModel(sizes)
    words, following = (torch.randint(0, sizes["vocabulary"], (sizes["steps"], sizes["batch"])) for _ in range(2))
    loss = nn.CrossEntropyLoss()
    return stepping(lambda: net(words), lambda scores: loss(scores.flatten(0, 1), following.flatten()),
                    torch.optim.SGD(net.parameters(), lr=0.1))


work("lstm_train", "eager")(lambda: language(LSTM))
work("language_train", "eager")(lambda: language(LANGUAGE))


def transformer():
    layer = nn.TransformerEncoderLayer(TRANSFORMER["units"], TRANSFORMER["heads"], TRANSFORMER["hidden"], dropout=0.0,
                                       batch_first=True)
    return nn.TransformerEncoder(layer, TRANSFORMER["layers"], enable_nested_tensor=False)


@work("transformer_train", "eager")
def transformer_train():
    net = transformer()
    data, label = torch.randn(8, 64, TRANSFORMER["units"]), torch.randn(8, 64, TRANSFORMER["units"])
    loss = nn.MSELoss()
    return stepping(lambda: net(data), lambda out: loss(out, label),
                    torch.optim.SGD(net.parameters(), lr=0.001, momentum=0.9))


for lane in ("eager", "compiled"):
    work("transformer_infer1", lane)(
        lambda c=lane == "compiled": inference(lambda: (transformer(), (128, TRANSFORMER["units"])), 1, c))


# ---- data -----------------------------------------------------------------------------------------------------------

class FashionMNIST(torch.utils.data.Dataset):
    """Images (1, 28, 28) in [0, 1] and labels, from the idx files."""

    def __init__(self):
        self.images = self.read("train-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)
        self.labels = self.read("train-labels-idx1-ubyte.gz", 8)

    @staticmethod
    def read(name, header):
        with gzip.open(os.path.join(FASHION_MNIST, name)) as file:
            return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.images[i].unsqueeze(0).float().div(255), int(self.labels[i])


def loading(workers):
    loader = torch.utils.data.DataLoader(FashionMNIST(), BATCH, shuffle=True, drop_last=True, num_workers=workers,
                                         persistent_workers=workers > 0)

    def endless():
        while True:
            yield from loader
    batches = endless()
    return lambda: next(batches)


work("loader", "caller's thread")(lambda: loading(0))
work("loader", "2 processes")(lambda: loading(2))

if __name__ == "__main__":
    work.serve()
