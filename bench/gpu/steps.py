"""Training steps on one GPU, beside PyTorch (eager, and the whole step as a CUDA graph) where it is installed.

    python bench/gpu/steps.py [--seconds 1]

Times are medians over steps that are waited for in batches, so that the queue stays full as in a training loop.
"""
import argparse
import statistics
import time

import numpy as np

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

from peer_graph import as_graph

BATCH = 64


def median_ms(step, wait, seconds, inner=20):
    """Median time of one step in milliseconds; `inner` steps are queued before each wait."""
    for _ in range(10):
        step()
    wait()
    times, until = [], time.perf_counter() + seconds
    while time.perf_counter() < until:
        start = time.perf_counter()
        for _ in range(inner):
            step()
        wait()
        times.append((time.perf_counter() - start) / inner * 1e3)
    return statistics.median(times)


# ---- ours -------------------------------------------------------------------------------------------------------------

def our_networks():
    mlp, lenet = nn.HybridSequential(), nn.HybridSequential()
    mlp.add(nn.Dense(256, activation="relu"), nn.Dense(256, activation="relu"), nn.Dense(10))
    lenet.add(nn.Conv2D(20, 5, activation="relu"), nn.MaxPool2D(2, 2), nn.Conv2D(50, 5, activation="relu"),
              nn.MaxPool2D(2, 2), nn.Flatten(), nn.Dense(500, activation="relu"), nn.Dense(10))
    return {"MLP": (mlp, (BATCH, 784)), "LeNet": (lenet, (BATCH, 1, 28, 28))}


def our_steps(name, whole):
    net, shape = our_networks()[name]
    context = mx.gpu(0)
    net.initialize(mx.init.Xavier(), ctx=context)
    net.hybridize(static_alloc=True, static_shape=True)
    x = nd.random.uniform(shape=shape, ctx=context)
    y = nd.array(np.random.randint(0, 10, BATCH), ctx=context)
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    net(x)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    if whole:
        step = gluon.TrainStep(net, loss, trainer)
        return lambda: step(x, y)

    def plain():
        with autograd.record():
            value = loss(net(x), y)
        value.backward()
        trainer.step(BATCH)
    return plain


def ours(seconds):
    results = {}
    for name in our_networks():
        results[name + " hybridized"] = median_ms(our_steps(name, False), nd.waitall, seconds)
        results[name + " whole step"] = median_ms(our_steps(name, True), nd.waitall, seconds)
    a, b = nd.ones((16,), ctx=mx.gpu(0)), nd.ones((16,), ctx=mx.gpu(0))
    results["a + b, host"] = median_ms(lambda: a + b, nd.waitall, seconds, 200)
    return results


# ---- PyTorch ----------------------------------------------------------------------------------------------------------

def torch_results(seconds):
    import torch
    from torch import nn as tn
    networks = {"MLP": (lambda: tn.Sequential(tn.Linear(784, 256), tn.ReLU(), tn.Linear(256, 256), tn.ReLU(), tn.Linear(256, 10)),
                        (BATCH, 784)),
                "LeNet": (lambda: tn.Sequential(tn.Conv2d(1, 20, 5), tn.ReLU(), tn.MaxPool2d(2), tn.Conv2d(20, 50, 5), tn.ReLU(),
                                                tn.MaxPool2d(2), tn.Flatten(), tn.Linear(800, 500), tn.ReLU(), tn.Linear(500, 10)),
                          (BATCH, 1, 28, 28))}
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    results = {}
    for name, (make, shape) in networks.items():
        net = make().cuda()
        optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
        x, y = torch.rand(shape, device="cuda"), torch.randint(0, 10, (BATCH,), device="cuda")

        def step():
            optimizer.zero_grad(set_to_none=False)
            tn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
        results[name + " eager"] = median_ms(step, torch.cuda.synchronize, seconds)
        results[name + " CUDA graph"] = median_ms(as_graph(step), torch.cuda.synchronize, seconds)
    a = b = torch.ones(16, device="cuda")
    results["a + b, host"] = median_ms(lambda: a + b, torch.cuda.synchronize, seconds, 200)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1)
    seconds = parser.parse_args().seconds
    for name, value in ours(seconds).items():
        print(f"gluon    {name:24} {value:9.4f} ms", flush=True)
    try:
        for name, value in torch_results(seconds).items():
            print(f"pytorch  {name:24} {value:9.4f} ms", flush=True)
    except ImportError:
        print("pytorch  is not installed")


if __name__ == "__main__":
    main()
