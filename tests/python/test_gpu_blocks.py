"""Every layer, loss, network, optimizer and metric on the GPU compared with the CPU, imperatively and hybridized."""
import numpy as np
import pytest

import mxnet as mx
from hybrid_cases import ALL, inputs_of
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

pytestmark = pytest.mark.skipif("mx.num_gpus() == 0", reason="there is no GPU")
TOLERANCES = {"float32": 3e-4, "float16": 2e-2, "bfloat16": 1e-1}
INDICES = {"Embedding", "SoftmaxCrossEntropyLoss", "CTCLoss"}


def as_float32(array):
    return array.astype("float32").asnumpy()


def slopes_like(result):
    """Different ones: those of a normalisation's result that are all alike have gradients that are zero but for rounding."""
    pattern = (np.arange(result.size) % 5 - 1.5) / 2
    return nd.array(pattern.reshape(result.shape), ctx=result.context, dtype=result.dtype)


def run(name, context, hybrid, dtype):
    """(results of a training and of a predicting call, gradients) as NumPy arrays."""
    mx.random.seed(3)
    np.random.seed(3)
    with mx.cpu():
        net = ALL[name][0]()
        net.initialize(mx.init.Uniform(0.5))
        given = inputs_of(name)
        net(*given)
    net.cast(dtype)
    net.collect_params().reset_ctx(context)
    if hybrid:
        net.hybridize()
    cast = [i for i in range(len(given)) if not (name in INDICES and (i == 1 or name == "Embedding"))]
    inputs = [x.as_in_context(context).astype(dtype) if i in cast else x.as_in_context(context)
              for i, x in enumerate(given)]
    for i in cast:
        inputs[i].attach_grad()
    mx.random.seed(5)
    with context:
        with autograd.record():
            result = net(*inputs)
        results = [result] if isinstance(result, nd.NDArray) else list(result)
        autograd.backward(results, [slopes_like(r) for r in results])
        predicted = net(*inputs)
        results += [predicted] if isinstance(predicted, nd.NDArray) else list(predicted)
    assert all(r.context == context for r in results)
    gradients = [p.grad(context) for p in net.collect_params().values() if p.grad_req != "null"]
    gradients += [inputs[i].grad for i in cast]
    states = [p.data(context) for p in net.collect_params().values() if p.grad_req == "null"]
    return [as_float32(r) for r in results], [as_float32(g) for g in gradients + states]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("hybrid", [False, True])
def test_blocks(name, dtype, hybrid):
    try:
        here = run(name, mx.cpu(0), hybrid, dtype)
    except (mx.MXNetError, TypeError, ValueError):
        if dtype == "float32":
            raise
        pytest.skip(f"{name} does not run in {dtype} on the CPU either")
    there = run(name, mx.gpu(0), hybrid, dtype)
    for what, ours, theirs in zip(("result", "gradient"), here, there):
        assert len(ours) == len(theirs)
        for i, (a, b) in enumerate(zip(ours, theirs)):
            scale = max(float(np.abs(a).max()) if a.size else 0, 0.1)
            np.testing.assert_allclose(b, a, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype] * scale,
                                       err_msg=f"{what} {i}")


# ---- optimizers ------------------------------------------------------------------------------------------------------

OPTIMIZERS = sorted(set(mx.optimizer.Optimizer.opt_registry) - {"test"})


def updated(name, context, dtype, precise):
    random = np.random.RandomState(0)
    weights = [nd.array(random.uniform(-1, 1, shape), ctx=context).astype(dtype) for shape in ((4, 3), (5,), (2, 3, 2))]
    optimizer = mx.optimizer.create(name, multi_precision=precise)
    updater = mx.optimizer.get_updater(optimizer)
    mx.random.seed(9)
    for _ in range(4):
        for i, weight in enumerate(weights):
            gradient = nd.array(random.uniform(-1, 1, weight.shape), ctx=context).astype(dtype)
            updater(i, gradient, weight)
    return [as_float32(w) for w in weights]


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype, precise", [("float32", False), ("float16", True)])
def test_optimizers(name, dtype, precise):
    try:
        here = updated(name, mx.cpu(0), dtype, precise)
    except (TypeError, mx.MXNetError) as error:
        pytest.skip(f"not on the CPU either: {error}"[:200])
    for a, b in zip(here, updated(name, mx.gpu(0), dtype, precise)):
        np.testing.assert_allclose(b, a, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


@pytest.mark.parametrize("name", ["sgd", "adam", "lamb", "rmsprop"])
@pytest.mark.parametrize("mode", ["imperative", "hybrid", "whole"])
def test_optimizers_in_training(name, mode):
    """The same through a Trainer, whose updates are one launch."""
    results = []
    for context in (mx.cpu(0), mx.gpu(0)):
        mx.random.seed(1)
        with mx.cpu():
            net = nn.HybridSequential()
            net.add(nn.Dense(16, activation="tanh"), nn.BatchNorm(), nn.Dense(3))
            net.initialize(mx.init.Xavier())
            data = nd.random.normal(shape=(12, 7))
            net(data)
        net.collect_params().reset_ctx(context)
        if mode != "imperative":
            net.hybridize()
        data, label = data.as_in_context(context), nd.arange(12, ctx=context) % 3
        criterion = gluon.loss.SoftmaxCrossEntropyLoss()
        trainer = gluon.Trainer(net.collect_params(), name, {"learning_rate": 0.01})
        step = gluon.TrainStep(net, criterion, trainer)
        for _ in range(5):
            if mode == "whole":
                loss = step(data, label)
            else:
                with autograd.record():
                    loss = criterion(net(data), label)
                loss.backward()
                trainer.step(12)
        results.append([as_float32(loss)] + [as_float32(p.data(context)) for p in net.collect_params().values()])
    for a, b in zip(*results):
        np.testing.assert_allclose(b, a, rtol=2e-3, atol=2e-3)


# ---- metrics ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["accuracy", "top_k_accuracy", "f1", "mcc", "mae", "mse", "rmse", "cross-entropy",
                                  "nll_loss", "perplexity", "pearsonr", "loss"])
def test_metrics(name):
    arguments = {"top_k_accuracy": {"top_k": 2}, "perplexity": {"ignore_label": None}}.get(name, {})
    values = []
    for context in (mx.cpu(0), mx.gpu(0)):
        random = np.random.RandomState(2)
        metric = mx.metric.create(name, **arguments)
        for _ in range(3):
            if name in ("mae", "mse", "rmse", "pearsonr", "loss"):
                label = prediction = nd.array(random.uniform(size=(8, 1)), ctx=context)
                prediction = nd.array(random.uniform(size=(8, 1)), ctx=context)
            else:
                prediction = nd.softmax(nd.array(random.normal(size=(8, 2)), ctx=context))
                label = nd.array(random.randint(0, 2, 8), ctx=context)
            metric.update([label], [prediction])
        values.append(metric.get()[1])
    assert np.allclose(*values, rtol=1e-4), values
