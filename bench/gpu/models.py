"""Training steps of four models on one GPU, compared with PyTorch (eager, and as a CUDA graph) if it is installed.

    python bench/gpu/models.py [--rows resnet50,resnet50_bf16,lstm,bert] [--seconds 1] [--peers] [--profile]

Each row is a separate process, so that peak memory is that of one model: the peak of arrays (PyTorch:
max_memory_allocated) and the increase of the device's memory in use, libraries and caches included.  Times are medians;
steps are queued in groups before each wait, as in a training loop.  The last column is the time from the start of building
the model to the end of its first step.  --profile adds a run that waits for every launch, and lists time by operator.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

import numpy as np

from peer_graph import as_graph

ROWS = {"resnet50": ("img/s", 128), "resnet50_bf16": ("img/s", 128), "lstm": ("ms", 1), "bert": ("tok/s", 32 * 128)}
LSTM = dict(vocabulary=10000, size=650, layers=2, steps=35, batch=20)
BERT = dict(layers=12, units=768, heads=12, hidden=3072, batch=32, steps=128)


def median_seconds(step, wait, seconds, group):
    """Median time of one step; `group` steps are queued before each wait."""
    for _ in range(2):
        step()
    wait()
    times, until = [], time.perf_counter() + seconds
    while time.perf_counter() < until or len(times) < 3:
        start = time.perf_counter()
        for _ in range(group):
            step()
        wait()
        times.append((time.perf_counter() - start) / group)
    return statistics.median(times)


# ---- ours -------------------------------------------------------------------------------------------------------------

def our_networks():
    from mxnet import gluon
    from mxnet.gluon import nn, rnn

    class LanguageModel(gluon.HybridBlock):
        """Words to vectors, a stacked LSTM, scores of the next word."""

        def __init__(self, vocabulary, size, layers, **sizes):
            super().__init__()
            with self.name_scope():
                self.embed = nn.Embedding(vocabulary, size)
                self.lstm = rnn.LSTM(size, layers, input_size=size)
                self.scores = nn.Dense(vocabulary, flatten=False, in_units=size)

        def hybrid_forward(self, F, words):  # (T, N)
            return self.scores(self.lstm(self.embed(words)))

    def encoder():
        return nn.TransformerEncoder(BERT["layers"], BERT["units"], BERT["hidden"], BERT["heads"], dropout=0.1,
                                     activation="gelu")
    return LanguageModel, encoder


def our_step(row, whole=True):
    import mxnet as mx
    from mxnet import autograd, gluon, nd
    context, loss = mx.gpu(0), gluon.loss.SoftmaxCrossEntropyLoss()
    rates = {"learning_rate": 0.01, "momentum": 0.9}
    language_model, encoder = our_networks()
    if row == "lstm":
        net, rates = language_model(**LSTM), {"learning_rate": 0.1}
        x, y = (nd.array(np.random.randint(0, LSTM["vocabulary"], (LSTM["steps"], LSTM["batch"])), ctx=context)
                for _ in range(2))
    elif row == "bert":
        net, loss = encoder(), gluon.loss.L2Loss()
        shape = BERT["batch"], BERT["steps"], BERT["units"]
        x, y = (nd.random.normal(shape=shape, ctx=context).astype("bfloat16") for _ in range(2))
    else:
        net = gluon.model_zoo.vision.resnet50_v1()
        x = nd.random.uniform(shape=(128, 3, 224, 224), ctx=context)
        y = nd.array(np.random.randint(0, 1000, 128), ctx=context)
        x = x.astype("bfloat16") if row.endswith("bf16") else x
    net.initialize(mx.init.Xavier(), ctx=context)
    if row == "bert" or row.endswith("bf16"):
        net.cast("bfloat16")
        rates["multi_precision"] = True
    net.hybridize(static_alloc=True, static_shape=True)
    loss.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", rates)
    if whole:
        step = gluon.TrainStep(net, loss, trainer)
        return lambda: step(x, y), nd.waitall, lambda: "whole step" if step.compiled else "as the imperative loop"

    def plain():
        with autograd.record():
            value = loss(net(x), y)
        value.backward()
        trainer.step(x.shape[0])
    return plain, nd.waitall, lambda: "hybridized"


def device_bytes():
    import mxnet as mx
    unused, everything = mx.context.gpu_memory_info(0)
    return everything - unused


# ---- PyTorch ----------------------------------------------------------------------------------------------------------

def peer_resnet():
    import torch
    from torch import nn

    def normed(inside, outside, kernel, stride=1):
        return [nn.Conv2d(inside, outside, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outside)]

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


def peer_step(row):
    import torch
    from torch import nn
    from torch.nn import functional as F
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 5  # number of engines to measure, as many as we do
    narrow = row == "bert" or row.endswith("bf16")
    if row == "lstm":
        embed, lstm = nn.Embedding(LSTM["vocabulary"], LSTM["size"]), nn.LSTM(LSTM["size"], LSTM["size"], LSTM["layers"])
        scores = nn.Linear(LSTM["size"], LSTM["vocabulary"])
        net = nn.ModuleList([embed, lstm, scores]).cuda()
        x, y = (torch.randint(0, LSTM["vocabulary"], (LSTM["steps"], LSTM["batch"]), device="cuda") for _ in range(2))

        def loss():
            return F.cross_entropy(scores(lstm(embed(x))[0]).flatten(0, 1), y.flatten())
    elif row == "bert":
        layer = nn.TransformerEncoderLayer(BERT["units"], BERT["heads"], BERT["hidden"], 0.1, "gelu", batch_first=True)
        net = nn.TransformerEncoder(layer, BERT["layers"], enable_nested_tensor=False).cuda()
        x, y = (torch.randn(BERT["batch"], BERT["steps"], BERT["units"], device="cuda") for _ in range(2))

        def loss():
            return F.mse_loss(net(x), y)
    else:
        net = peer_resnet().cuda().to(memory_format=torch.channels_last)
        x = torch.rand(128, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
        y = torch.randint(0, 1000, (128,), device="cuda")

        def loss():
            return F.cross_entropy(net(x), y)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0 if row == "lstm" else 0.9)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=narrow, cache_enabled=False):
            value = loss()
        value.backward()
        optimizer.step()
    return step, torch.cuda.synchronize


# ---- rows -------------------------------------------------------------------------------------------------------------

def show(row, who, seconds, arrays, device, start):
    unit, each = ROWS[row]
    value = f"{seconds * 1e3:10.3f} ms   " if unit == "ms" else f"{each / seconds:10.0f} {unit:5}"
    print(f"{row:14} {who:24} {value} {seconds * 1e3:9.3f} ms/step  arrays {arrays / 1e9:6.2f} GB  device {device / 1e9:6.2f} GB"
          f"  first step {start:5.1f} s", flush=True)


def profiled(step, wait, count=3):
    """Time by operator, the longest first; the environment makes every launch wait (see main)."""
    import json
    from mxnet import profiler
    profiler.set_config(profile_symbolic=True, profile_imperative=True)
    profiler.set_state("run")
    for _ in range(count):
        step()
    wait()
    profiler.set_state("stop")
    rows = json.loads(profiler.dumps(format="json"))["Time"]["operator"]
    print(f"  launches that are waited for: {sum(row['Total'] for row in rows.values()) / count:.3f} ms per step")
    for name, row in list(rows.items())[:30]:
        print(f"  {row['Total'] / count:9.3f} ms {row['Count'] // count:5} x  {name}")


def run_peer(row, seconds, group):
    import torch

    def used():
        unused, everything = torch.cuda.mem_get_info()
        return everything - unused
    torch.zeros(1, device="cuda")
    before, start = used(), time.perf_counter()
    step, wait = peer_step(row)
    for who, prepare in (("pytorch eager", lambda: step), ("pytorch CUDA graph", lambda: as_graph(step))):
        ready = prepare()
        ready()
        wait()
        first = time.perf_counter() - start
        median = median_seconds(ready, wait, seconds, group)
        show(row, who, median, torch.cuda.max_memory_allocated(), used() - before, first)
        torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()


def run_row(row, options):
    group = 10 if row == "lstm" else 2
    if options.peer:
        return run_peer(row, options.seconds, group)
    import mxnet as mx
    mx.nd.zeros(1, ctx=mx.gpu(0)).wait_to_read()
    before, start = device_bytes(), time.perf_counter()
    step, wait, how = our_step(row, not options.hybridized)
    step()
    wait()
    first = time.perf_counter() - start
    seconds = median_seconds(step, wait, options.seconds, group)
    show(row, f"gluon {how()}", seconds, mx.context.gpu_memory_used()[1], device_bytes() - before, first)
    if options.profile:
        profiled(step, wait)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--peers", action="store_true", help="run PyTorch as well")
    parser.add_argument("--hybridized", action="store_true", help="record, backward, trainer.step instead of the fused step")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        return run_row(options.row, options)
    rest = [f"--seconds={options.seconds}"] + ["--hybridized"] * options.hybridized
    waiting = dict(os.environ, CUDA_LAUNCH_BLOCKING="1", GLUON_CUDA_GRAPHS="0")
    for row in options.rows.split(","):
        for more, environment in (([], None), (["--peer"], None), (["--profile"], waiting)):
            if not more or (options.peers if more == ["--peer"] else options.profile):
                subprocess.run([sys.executable, __file__, "--row", row, *more, *rest], check=False, env=environment)


if __name__ == "__main__":
    sys.exit(main())
