"""Training steps on one GPU, compared with PyTorch (eager, compiled, and the full step as a CUDA graph) and JAX (jit of the
full step) if they are installed.

    python bench/gpu/steps.py [--seconds 1] [--only gluon,pytorch,jax]

Times are medians over steps that are waited for in batches, so that the queue stays full as in a training loop.
"""
import argparse
import os
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
    for name in our_networks():
        yield name + " hybridized", median_ms(our_steps(name, False), nd.waitall, seconds)
        yield name + " whole step", median_ms(our_steps(name, True), nd.waitall, seconds)
    a, b = nd.ones((16,), ctx=mx.gpu(0)), nd.ones((16,), ctx=mx.gpu(0))
    yield "a + b, host", median_ms(lambda: a + b, nd.waitall, seconds, 200)


# ---- PyTorch ----------------------------------------------------------------------------------------------------------

def torch_networks():
    from torch import nn as tn
    return {"MLP": (tn.Sequential(tn.Linear(784, 256), tn.ReLU(), tn.Linear(256, 256), tn.ReLU(), tn.Linear(256, 10)),
                    (BATCH, 784)),
            "LeNet": (tn.Sequential(tn.Conv2d(1, 20, 5), tn.ReLU(), tn.MaxPool2d(2), tn.Conv2d(20, 50, 5), tn.ReLU(),
                                    tn.MaxPool2d(2), tn.Flatten(), tn.Linear(800, 500), tn.ReLU(), tn.Linear(500, 10)),
                      (BATCH, 1, 28, 28))}


def torch_step(net, shape, compiled=False):
    import torch
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
    x, y = torch.rand(shape, device="cuda"), torch.randint(0, 10, (BATCH,), device="cuda")
    called = torch.compile(net, dynamic=False) if compiled else net

    def step():
        optimizer.zero_grad(set_to_none=False)
        torch.nn.functional.cross_entropy(called(x), y).backward()
        optimizer.step()
    return step


def torch_results(seconds):
    import torch
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    wait = torch.cuda.synchronize
    for name, (net, shape) in torch_networks().items():
        step = torch_step(net.cuda(), shape)
        yield name + " eager", median_ms(step, wait, seconds)
        yield name + " CUDA graph", median_ms(as_graph(step), wait, seconds)
    a = b = torch.ones(16, device="cuda")
    yield "a + b, host", median_ms(lambda: a + b, wait, seconds, 200)
    for name, (net, shape) in torch_networks().items():
        yield name + " compiled", median_ms(torch_step(net.cuda(), shape, compiled=True), wait, seconds)


# ---- JAX --------------------------------------------------------------------------------------------------------------

def jax_forward(name):
    import jax
    from jax import lax

    def dense(x, weight, bias):
        return x @ weight + bias

    def block(x, weight, bias):  # convolution, relu, pooling; channels last
        x = lax.conv_general_dilated(x, weight, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return lax.reduce_window(jax.nn.relu(x + bias), -float("inf"), lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def mlp(p, x):
        return dense(jax.nn.relu(dense(jax.nn.relu(dense(x, *p[0])), *p[1])), *p[2])

    def lenet(p, x):
        x = block(block(x, *p[0]), *p[1])
        return dense(jax.nn.relu(dense(x.reshape(BATCH, -1), *p[2])), *p[3])
    return {"MLP": mlp, "LeNet": lenet}[name]


JAX_SHAPES = {"MLP": ((BATCH, 784), [(784, 256), (256, 256), (256, 10)]),
              "LeNet": ((BATCH, 28, 28, 1), [(5, 5, 1, 20), (5, 5, 20, 50), (800, 500), (500, 10)])}


def jax_step(name):
    """(step, wait): gradient and update with momentum as one compiled function."""
    import jax
    import jax.numpy as jnp
    random, (shape, weights) = np.random.RandomState(1), JAX_SHAPES[name]
    forward = jax_forward(name)
    x, y = jnp.asarray(random.rand(*shape), "float32"), jnp.asarray(random.randint(0, 10, BATCH))
    parameters = [(jnp.asarray(random.uniform(-0.05, 0.05, w), "float32"), jnp.zeros(w[-1])) for w in weights]
    state = [parameters, jax.tree.map(jnp.zeros_like, parameters)]

    def loss(p):
        return -jnp.take_along_axis(jax.nn.log_softmax(forward(p, x)), y[:, None], 1).mean()

    @jax.jit
    def update(p, momenta):
        momenta = jax.tree.map(lambda m, g: 0.9 * m + g, momenta, jax.grad(loss)(p))
        return jax.tree.map(lambda w, m: w - 0.01 * m, p, momenta), momenta

    def step():
        state[:] = update(*state)
    return step, lambda: jax.block_until_ready(state)


def jax_results(seconds):
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    if jax.default_backend() != "gpu":
        raise ImportError("JAX has no GPU")
    for name in JAX_SHAPES:
        yield name + " jit", median_ms(*jax_step(name), seconds)


# ---- all --------------------------------------------------------------------------------------------------------------

def show(who, results, seconds):
    """Prints results as they arrive; peers that are missing or fail are reported and skipped."""
    try:
        for name, value in results(seconds):
            print(f"{who:8} {name:24} {value:9.4f} ms", flush=True)
    except ImportError as error:
        print(f"{who:8} is not installed ({error})", flush=True)
    except Exception as error:  # noqa: B902 - a peer that fails must not end the comparison
        if who == "gluon":
            raise
        print(f"{who:8} failed: {type(error).__name__}: {str(error).splitlines()[0][:150]}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--only", default="gluon,pytorch,jax")
    arguments = parser.parse_args()
    for who, results in (("gluon", ours), ("pytorch", torch_results), ("jax", jax_results)):
        if who in arguments.only.split(","):
            show(who, results, arguments.seconds)


if __name__ == "__main__":
    main()
