"""Every layer, loss, metric, optimizer, initializer and one network of each kind with arrays of mx.np: the bits of mx.nd.

The lists come from the library's descriptions; a class that is added there fails here until it has a case.
"""
import numpy as onp
import pytest

import mxnet as mx
from hybrid_cases import LAYERS, LOSSES
from mxnet import _core, autograd, gluon, nd, np, npx
from mxnet.gluon import nn, rnn
from mxnet.gluon.model_zoo import vision


@pytest.fixture
def switched():
    npx.set_np()
    yield
    npx.reset_np()


def is_np(result):
    parts = result if isinstance(result, (list, tuple)) else [result]
    return all(is_np(part) if isinstance(part, (list, tuple)) else type(part) is np.ndarray for part in parts)


def flat(result):
    return [x for part in result for x in flat(part)] if isinstance(result, (list, tuple)) else [result.asnumpy()]


def run(make, shapes, module, whole=False, hybridized=False):
    """Results and gradients of a fresh block, with the arrays of one interface."""
    mx.random.seed(5)
    random = onp.random.RandomState(3)
    block = make()
    block.initialize(mx.init.Xavier())
    if hybridized:
        block.hybridize()
    arrays = [module.array(random.randint(0, 3, s) if whole or i and len(s) == 1 else random.uniform(0.1, 0.9, s), dtype="float32")
              for i, s in enumerate(shapes)]
    for x in arrays:
        x.attach_grad()
    block(*arrays)  # parameters get their shapes
    mx.random.seed(6)
    with autograd.record():
        result = block(*arrays)
        parts = result if isinstance(result, (list, tuple)) else [result]
        total = sum((part * part).sum() for part in parts if not isinstance(part, (list, tuple)))
    total.backward()
    gradients = [x.grad for x in arrays] + [p.grad() for _, p in sorted(block.collect_params().items()) if p.grad_req != "null"]
    return result, gradients


def compare(make, shapes, whole=False):
    wanted = run(make, shapes, nd, whole)
    npx.set_np()
    try:
        for hybridized in (False, True):
            got = run(make, shapes, np, whole, hybridized)
            assert is_np(got[0]) and is_np(got[1])
            for mine, other in zip(flat(list(got)), flat(list(wanted))):
                onp.testing.assert_allclose(mine.reshape(other.shape), other, rtol=1e-6, atol=1e-6)
    finally:
        npx.reset_np()


CELLS = {"cells", "rnn"}
DESCRIBED = {name: group for kind, name, _, group, _ in _core.layers()}


def test_lists_are_complete():
    """Cases exist for all layers and losses that the library describes."""
    tested = {name.split()[0] for name in (*LAYERS, *LOSSES)}
    public = {name for name, group in DESCRIBED.items() if group not in CELLS and (hasattr(nn, name) or hasattr(gluon.loss, name))}
    missing = sorted(public - tested - CONTAINERS)
    assert not missing, missing


CONTAINERS = {"Sequential", "HybridSequential", "Lambda", "Concatenate", "SDMLLoss", "SyncBatchNorm", "SymbolBlock"}


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_layers(name):
    make, shapes = LAYERS[name]
    compare(make, shapes, whole=name == "Embedding")


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_losses(name):
    make, shapes = LOSSES[name]
    compare(make, shapes)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_recurrent_layers(name):
    compare(lambda: getattr(rnn, name)(4, 2, bidirectional=True), [(5, 2, 3)])


@pytest.mark.parametrize("name", sorted(name for name, group in DESCRIBED.items() if group == "cells" and name in ("RNNCell", "LSTMCell", "GRUCell")))
def test_cells(name, switched):
    cell = getattr(rnn, name)(4)
    cell.initialize()
    outputs, states = cell.unroll(3, np.ones((2, 3, 5)), merge_outputs=True)
    assert type(outputs) is np.ndarray and outputs.shape == (2, 3, 4) and is_np(states)


# ---- classes of one row each -------------------------------------------------------------------------------------------

def rows(kind):
    return sorted(row[0] for row in _core.class_rows(kind))


@pytest.mark.parametrize("name", rows(_core.METRIC))
def test_metrics(name):
    random = onp.random.RandomState(1)
    label = random.randint(0, 2, 6).astype("float32")
    pred = random.uniform(0.1, 0.9, (6, 2)).astype("float32")
    pred /= pred.sum(1, keepdims=True)
    shaped = {"mae": label, "mse": label, "rmse": label, "pearsonr": label}
    needed = {"topkaccuracy": {"top_k": 2}, "perplexity": {"ignore_label": None}}

    def value(module):
        metric = mx.metric.create(name, **needed.get(name.replace("_", "").lower(), {}))
        chosen = pred[:, 1] if any(part in name.lower() for part in ("mae", "mse", "pearson")) else pred
        metric.update([module.array(shaped.get(name, label))], [module.array(chosen)])
        return metric.get()[1]
    wanted = value(nd)
    npx.set_np()
    try:
        assert onp.allclose(value(np), wanted, equal_nan=True)
    finally:
        npx.reset_np()


@pytest.mark.parametrize("name", rows(_core.OPTIMIZER))
def test_optimizers(name):
    def trained(module):
        mx.random.seed(4)
        net = nn.Dense(2, in_units=3, use_bias=False)  # GroupAdaGrad takes matrices only
        net.initialize(mx.init.One())
        trainer = gluon.Trainer(net.collect_params(), name, {"learning_rate": 0.1})
        for _ in range(3):
            with autograd.record():
                loss = (net(module.array([[1, 2, 3.0]])) ** 2).sum()
            loss.backward()
            trainer.step(1)
        return net.weight.data()
    wanted = trained(nd)
    npx.set_np()
    try:
        got = trained(np)
        assert type(got) is np.ndarray
        onp.testing.assert_allclose(got.asnumpy(), wanted.asnumpy(), rtol=1e-6)
    finally:
        npx.reset_np()


NEEDED = {"Load": None, "Mixed": None, "FusedRNN": None, "LSTMBias": {}, "InitDesc": None, "Constant": {"value": 2.0}}


@pytest.mark.parametrize("name", rows(_core.INITIALIZER))
def test_initializers(name):
    options = next((v for k, v in NEEDED.items() if k.lower() == name.lower().replace("_", "")), {})
    if options is None:
        pytest.skip("made of others")

    def started():
        mx.random.seed(4)
        parameter = gluon.Parameter("weight", shape=(4, 4, 4, 4) if name.lower() == "bilinear" else (4, 4))
        parameter.initialize(mx.init.create(name, **options))
        return parameter.data()
    wanted = started()
    npx.set_np()
    try:
        got = started()
        assert type(got) is np.ndarray and onp.array_equal(got.asnumpy(), wanted.asnumpy())
    finally:
        npx.reset_np()


# ---- networks ----------------------------------------------------------------------------------------------------------

def one_of_each_kind():
    kinds = {}
    for name, cls, options, _ in _core.models():
        kinds.setdefault(cls, name)
    return sorted(kinds.values())


SIZES = {"alexnet": 63, "inceptionv3": 299}


@pytest.mark.parametrize("name", one_of_each_kind())
def test_networks(name):
    size = SIZES.get(name, 224 if name.startswith(("densenet", "squeezenet")) else 32)
    image = onp.random.uniform(size=(1, 3, size, size)).astype("float32")

    def seen(module):
        mx.random.seed(7)
        net = vision.get_model(name, classes=4)
        net.initialize(mx.init.Xavier())
        net.hybridize()
        return net(module.array(image))
    wanted = seen(nd)
    npx.set_np()
    try:
        got = seen(np)
        assert type(got) is np.ndarray
        onp.testing.assert_allclose(got.asnumpy(), wanted.asnumpy(), rtol=1e-5, atol=1e-6)
    finally:
        npx.reset_np()
