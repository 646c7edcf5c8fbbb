"""Attention and transformers: values and gradients against NumPy, masks, plans, symbols, training."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

N, T, C, HEADS = 2, 5, 8, 2


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def split(x):  # (N, T, C) -> (N, heads, T, d)
    return x.reshape(x.shape[0], x.shape[1], HEADS, -1).transpose(0, 2, 1, 3)


def join(x):
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def attention(p, x, mask, weights):
    """Output, and the gradients of sum(weights * output) by the formulas of the chain rule."""
    q, k, v = (split(x @ p[name + "_weight"].T + p[name + "_bias"]) for name in ("query", "key", "value"))
    scale = 1 / np.sqrt(C // HEADS)
    a = softmax(np.where(mask, q @ k.transpose(0, 1, 3, 2) * scale, -np.inf))
    means = join(a @ v)
    out = means @ p["out_weight"].T + p["out_bias"]
    grads = {"out_weight": np.einsum("nto,ntc->oc", weights, means), "out_bias": weights.sum((0, 1))}
    dmeans = split(weights @ p["out_weight"])
    da, dv = dmeans @ v.transpose(0, 1, 3, 2), a.transpose(0, 1, 3, 2) @ dmeans
    ds = a * (da - (a * da).sum(-1, keepdims=True)) * scale  # softmax: a (da - sum(a da))
    dx = np.zeros_like(x)
    for name, d in (("query", ds @ k), ("key", ds.transpose(0, 1, 3, 2) @ q), ("value", dv)):
        d = join(d)
        grads[name + "_weight"], grads[name + "_bias"] = np.einsum("nto,ntc->oc", d, x), d.sum((0, 1))
        dx += d @ p[name + "_weight"]
    return out, grads, dx


def short(name):
    return "_".join(name.split("_")[-2:])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [None, [3, 5]])
@pytest.mark.parametrize("hybrid", [False, True])
def test_attention_and_its_gradient(causal, lengths, hybrid):
    net = nn.MultiHeadAttention(C, HEADS, causal=causal)
    net.initialize(mx.init.Uniform(0.5))
    if hybrid:
        net.hybridize()
    x, weights = (np.random.RandomState(i).normal(size=(N, T, C)) for i in (1, 2))
    data, r = nd.array(x), nd.array(weights)
    data.attach_grad()
    valid = [] if lengths is None else [None, None, nd.array(lengths)]
    for _ in range(2):
        with autograd.record():
            out = net(data, *valid)
            loss = (out * r).sum()
        loss.backward()
    mask = np.ones((N, 1, T, T), bool)
    if lengths is not None:
        mask &= (np.arange(T)[None] < np.array(lengths)[:, None])[:, None, None, :]
    if causal:
        mask &= np.tril(np.ones((T, T), bool))
    values = {short(p.name): p.data().asnumpy().astype("float64") for p in net.collect_params().values()}
    want, grads, dx = attention(values, x, mask, weights)
    np.testing.assert_allclose(out.asnumpy(), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(data.grad.asnumpy(), dx, rtol=1e-3, atol=1e-4)
    for p in net.collect_params().values():
        np.testing.assert_allclose(p.grad().asnumpy(), grads[short(p.name)], rtol=1e-3, atol=1e-4)


def test_attention_to_something_else():
    net = nn.MultiHeadAttention(C, HEADS, use_bias=False)
    net.initialize(mx.init.Uniform(0.5))
    query, memory = nd.random.normal(shape=(N, 3, C)), nd.random.normal(shape=(N, T, C))
    out = net(query, memory)
    assert out.shape == (N, 3, C) and len(net.collect_params()) == 4
    mask = nd.array(np.random.RandomState(1).rand(N, 3, T) < 0.7)
    mask[:, :, 0] = 1
    values = {short(p.name): p.data().asnumpy() for p in net.collect_params().values()}
    q = split(query.asnumpy() @ values["query_weight"].T)
    k, v = (split(memory.asnumpy() @ values[name].T) for name in ("key_weight", "value_weight"))
    scores = np.where(mask.asnumpy()[:, None], q @ k.transpose(0, 1, 3, 2) / np.sqrt(C // HEADS), -np.inf)
    want = join(softmax(scores) @ v) @ values["out_weight"].T
    np.testing.assert_allclose(net(query, memory, None, None, mask).asnumpy(), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder(pre_norm, activation):
    net = nn.TransformerEncoder(num_layers=2, units=C, hidden_size=12, num_heads=HEADS, dropout=0.1, pre_norm=pre_norm,
                                activation=activation)
    net.initialize(mx.init.Xavier())
    x, lengths = nd.random.normal(shape=(N, T, C)), nd.array([2, 5])
    plain = net(x, lengths)
    changed = x.copy()
    changed[0, 2:] = 0
    np.testing.assert_allclose(net(changed, lengths)[0, :2].asnumpy(), plain[0, :2].asnumpy(), rtol=1e-4, atol=1e-5)
    net.hybridize()
    np.testing.assert_allclose(net(x, lengths).asnumpy(), plain.asnumpy(), rtol=1e-4, atol=1e-5)
    with autograd.record():
        loss = (net(x, lengths) ** 2).sum()
    loss.backward()
    assert all(np.isfinite(p.grad().asnumpy()).all() for p in net.collect_params().values())
    names = list(net._collect_params_with_prefix())
    assert "transformer0.attention.proj_query.weight" in names and "transformer1.ffn.ffn_2.bias" in names


def test_decoder_sees_only_the_past():
    net = nn.TransformerDecoder(num_layers=2, units=C, hidden_size=12, num_heads=HEADS)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x, memory = nd.random.normal(shape=(N, T, C)), nd.random.normal(shape=(N, 4, C))
    whole = net(x, memory, None, nd.array([4, 2])).asnumpy()
    np.testing.assert_allclose(net(x[:, :3], memory, None, nd.array([4, 2])).asnumpy(), whole[:, :3], rtol=1e-4, atol=1e-5)


class Counted(nn.Dropout):
    """Dropout whose forward is overridden: it has to run."""
    calls = 0

    def hybrid_forward(self, F, x, *args, **kwargs):
        Counted.calls += 1
        return x * 1


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("lengths", [None, [0, 5]])
def test_a_child_that_must_run_runs_between_the_same_steps(causal, masked, lengths):
    """Hooks of the child dropout, and another layer in its place, are called with the weights; the result is the same."""
    net = nn.MultiHeadAttention(C, HEADS, causal=causal, dropout=0.5)
    net.initialize(mx.init.Uniform(0.5))
    query, key = (nd.array(np.random.RandomState(i).normal(size=(N, T + i, C))) for i in (0, 2))
    mask = np.random.RandomState(3).rand(N, T, T + 2) < 0.6
    mask[0, 1] = False
    inputs = (query, key, None, lengths and nd.array(lengths), nd.array(mask) if masked else None)
    wanted = net(*inputs).asnumpy()
    weights = []
    handle = net.dropout.register_forward_hook(lambda block, given, out: weights.append(given[0].asnumpy()))
    np.testing.assert_allclose(net(*inputs).asnumpy(), wanted, rtol=1e-5, atol=1e-6)
    handle.detach()
    assert len(weights) == 1 and weights[0].shape == (N * HEADS, T, T + 2)
    assert np.all(np.isclose(weights[0].sum(-1), 1, atol=1e-5) | (weights[0].sum(-1) == 0))
    net.dropout = Counted(0.5)
    Counted.calls = 0
    for _ in range(2):
        np.testing.assert_allclose(net(*inputs).asnumpy(), wanted, rtol=1e-5, atol=1e-6)
        net.hybridize()
    assert Counted.calls


def test_a_cache_refuses_an_attention_whose_hooks_would_not_run():
    net = gluon.model_zoo.text.GPT2(num_layers=1, units=8, num_heads=2, vocab_size=11, max_length=6)
    net.initialize()
    cache, tokens, start = net.begin_cache(1, 6), nd.array([[1, 2]]), nd.zeros(1)
    net(tokens, start, *cache)
    handle = net.cell0.attention.register_forward_hook(lambda *_: None)
    with pytest.raises(mx.MXNetError, match="attention.* would not run"):
        net(tokens, start, *cache)
    handle.detach()
    net(tokens, start, *cache)


def test_positions():
    net = nn.SinusoidalPositionalEmbedding(6)
    t, i = np.arange(7)[:, None], np.arange(6)[None]
    angle = t * 10000.0 ** (-(i // 2 * 2) / 6)
    want = np.where(i % 2, np.cos(angle), np.sin(angle))
    np.testing.assert_allclose(net(nd.ones((2, 7, 6))).asnumpy(), np.broadcast_to(1 + want, (2, 7, 6)), rtol=1e-5, atol=1e-5)


def test_export_and_one_plan(tmp_path):
    net = nn.HybridSequential()
    net.add(nn.SinusoidalPositionalEmbedding(C), nn.TransformerEncoder(1, C, 12, HEADS, 0.0))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x = nd.random.normal(shape=(N, T, C))
    want = net(x).asnumpy()
    net.export(str(tmp_path / "encoder"))
    loaded = gluon.SymbolBlock.imports(str(tmp_path / "encoder-symbol.json"), ["data"], str(tmp_path / "encoder-0000.params"))
    np.testing.assert_allclose(loaded(x).asnumpy(), want, rtol=1e-4, atol=1e-5)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    step = gluon.TrainStep(net, gluon.loss.L2Loss(), trainer)
    losses = [step(x, nd.zeros((N, T, C))).mean().asscalar() for _ in range(30)]
    assert step.compiled and losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("call, error", [
    (lambda: nn.MultiHeadAttention(7, 2), ValueError),
    (lambda: nn.MultiHeadAttention(units=8), (TypeError, ValueError)),
    (lambda: nn.TransformerEncoder(num_layers=0), ValueError),
    (lambda: nn.TransformerEncoderCell(units=8, num_heads=2, activation="strange"), ValueError),
    (lambda: nn.TransformerDecoderCell(units=8, num_heads=2)(nd.ones((1, 2, 8))), (TypeError, ValueError, RuntimeError)),
])
def test_wrong_arguments(call, error):
    with pytest.raises(error):
        call()
