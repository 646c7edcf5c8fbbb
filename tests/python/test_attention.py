"""Attention as one operator: every layout against NumPy, dropout's mask, files, mixed precision, long sequences, threads."""
import itertools
import resource
import tempfile

import mxnet as mx
import numpy as np
import pytest
from mxnet import _core, autograd, nd
from mxnet.contrib import amp

N, TQ, TK, HEADS, D = 2, 5, 7, 4, 3


def softmax_attention(q, k, v, seen, scale, factor=None):
    """q (N, H, Tq, D), k and v (N, KH, Tk, D), seen (N, H, Tq, Tk): (N, H, Tq, D)"""
    times = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, times, 1), np.repeat(v, times, 1)
    scores = np.where(seen, q @ k.swapaxes(2, 3) * scale, -np.inf)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    e = np.where(seen, np.exp(scores - np.where(np.isfinite(top), top, 0)), 0)
    total = e.sum(-1, keepdims=True)
    w = e / np.where(total > 0, total, 1)
    return (w if factor is None else w * factor) @ v


def heads_first(x, heads, layout):
    x = x.reshape(x.shape[0], x.shape[1], heads, -1)
    return x.transpose(0, 2, 1, 3) if layout == "NTC" else x.transpose(1, 2, 0, 3)


def heads_last(x, layout):
    x = x.transpose(0, 2, 1, 3) if layout == "NTC" else x.transpose(2, 0, 1, 3)
    return x.reshape(x.shape[0], x.shape[1], -1)


def operands(roles, layout, kv_heads, tq, tk, seed=0):
    """Inputs as arrays of NumPy, and the roles (N, heads, T, D) that they hold."""
    rng = np.random.default_rng(seed)
    q, k, v = (rng.normal(size=(N, h, t, D)).astype("float32") for h, t in ((HEADS, tq), (kv_heads, tk), (kv_heads, tk)))
    last = [heads_last(x, layout) for x in (q, k, v)]
    apart = [x.reshape(x.shape[0], x.shape[1], -1, 1, D) for x in last]
    flat = lambda x: x.reshape(x.shape[0], x.shape[1], -1)  # noqa: E731
    inputs = {"apart": last, "packed": [np.concatenate(last, 2)] if roles == "packed" else None,
              "interleaved": [flat(np.concatenate(apart, 3))] if roles == "interleaved" else None,
              "kv_interleaved": [last[0], flat(np.concatenate(apart[1:], 3))]}[roles]
    return inputs, (q, k, v)


def seen_keys(tq, tk, causal, lengths, mask):
    seen = np.ones((N, HEADS, tq, tk), bool)
    if causal:
        seen &= np.arange(tk) <= np.arange(tq)[:, None] + tk - tq
    if lengths is not None:
        seen &= np.arange(tk) < np.asarray(lengths)[:, None, None, None]
    if mask is not None:
        seen &= (mask if mask.ndim == 4 else mask[:, None]) != 0
    return seen


@pytest.mark.parametrize("roles", ["apart", "packed", "interleaved", "kv_interleaved"])
@pytest.mark.parametrize("layout", ["NTC", "TNC"])
def test_values_and_gradients(roles, layout):
    tk = TQ if roles in ("packed", "interleaved") else TK
    rng = np.random.default_rng(1)
    masks = [None, rng.integers(0, 2, (N, TQ, tk)), rng.integers(0, 2, (1, HEADS, TQ, tk)).astype("float32"),
             rng.integers(0, 2, (N, 1, TQ, tk)).astype("uint8")]
    for kv_heads, causal, lengths, mask in itertools.product((HEADS, 2), (False, True), (None, [0, 3]), masks):
        if roles == "interleaved" and kv_heads != HEADS:
            continue
        inputs, (q, k, v) = operands(roles, layout, kv_heads, TQ, tk)
        seen = seen_keys(TQ, tk, causal, lengths, mask)
        wanted = heads_last(softmax_attention(q, k, v, seen, D**-0.5), layout)
        arrays = [nd.array(x) for x in inputs]
        for x in arrays:
            x.attach_grad()
        options = dict(heads=HEADS, kv_heads=kv_heads, layout=layout, roles=roles, causal=causal)
        if lengths is not None:
            options.update(valid_length=nd.array(lengths, dtype="int32"), use_length=True)
        if mask is not None:
            options.update(mask=nd.array(mask, dtype=mask.dtype), use_mask=True)
        with autograd.record():
            out = nd.contrib.attention(*arrays, **options)
        np.testing.assert_allclose(out.asnumpy(), wanted, rtol=1e-5, atol=1e-6)
        g = rng.normal(size=out.shape).astype("float32")
        out.backward(nd.array(g))
        step = 1e-3  # along one direction, in double precision
        for x, number in zip(arrays, range(3)):
            direction = rng.normal(size=x.shape)
            sides = []
            for sign in (1, -1):
                moved = [a.asnumpy().astype("float64") for a in arrays]
                moved[number] += sign * step * direction
                y = nd.contrib.attention(*[nd.array(a, dtype="float64") for a in moved], **options)
                sides.append((y.asnumpy() * g).sum())
            slope = (sides[0] - sides[1]) / (2 * step)
            assert abs((x.grad.asnumpy() * direction).sum() - slope) < 2e-4 * (1 + abs(slope)), (number, options)


def test_gradients_of_long_causal_attention():
    """More queries and keys than the kernels take at once, and not as many: the first queries see a part of the first keys."""
    tq, tk = 200, 150
    inputs, (q, k, v) = operands("apart", "NTC", HEADS, tq, tk)
    arrays = [nd.array(x) for x in inputs]
    for x in arrays:
        x.attach_grad()
    with autograd.record():
        out = nd.contrib.attention(*arrays, heads=HEADS, causal=True)
    g = np.random.default_rng(2).normal(size=out.shape).astype("float32")
    out.backward(nd.array(g))
    seen = seen_keys(tq, tk, True, None, None)
    w = softmax_attention(q, k, np.broadcast_to(np.eye(tk), (N, HEADS, tk, tk)), seen, D**-0.5)
    dy = heads_first(g, HEADS, "NTC")
    dw = dy @ v.swapaxes(2, 3)
    dscores = w * (dw - (w * dw).sum(-1, keepdims=True)) * D**-0.5
    for x, wanted in zip(arrays, (dscores @ k, dscores.swapaxes(2, 3) @ q, w.swapaxes(2, 3) @ dy)):
        np.testing.assert_allclose(x.grad.asnumpy(), heads_last(wanted, "NTC"), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kv_heads", [HEADS, 2])
def test_without_keys_everything_is_zero(kv_heads):
    with mx.util.np_shape(True):
        query, key = nd.ones((N, TQ, HEADS * D)), nd.zeros((N, 0, kv_heads * D))
        for x in (query, key):
            x.attach_grad()
        query.grad[:] = 7
        with autograd.record():
            out = nd.contrib.attention(query, key, key, heads=HEADS, kv_heads=kv_heads)
        out.backward()
        assert not out.asnumpy().any() and not query.grad.asnumpy().any() and key.grad.shape == key.shape


def philox(seed, counter):
    c, k = [counter & 0xFFFFFFFF, counter >> 32, 0, 0], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def kept(seed, counter, rows, keys, p):
    out = np.zeros((rows, keys), bool)
    for r in range(rows):
        for block in range(0, keys, 32):
            for c in range(4):
                words = philox(seed, counter + (r * ((keys + 31) // 32) + block // 32) * 4 + c)
                for w, half in itertools.product(range(4), range(2)):
                    j = block + 8 * w + 2 * c + half
                    if j < keys:
                        out[r, j] = (words[w] >> 16 * half & 0xFFFF) >= round(p * 65536)
    return out


@pytest.mark.parametrize("keys", [7, 140])
def test_dropout_is_a_function_of_the_seed(keys):
    p, tq = 0.3, 3
    inputs, (q, k, v) = operands("apart", "NTC", HEADS, tq, keys)
    arrays = [nd.array(x) for x in inputs]
    for x in arrays:
        x.attach_grad()
    mx.random.seed(11)
    with autograd.record():
        out = nd.contrib.attention(*arrays, heads=HEADS, dropout=p)
    g = np.random.default_rng(2).normal(size=out.shape).astype("float32")
    out.backward(nd.array(g))
    state = next(s for s in ((11, c) for c in range(64)) if np.allclose(
        heads_last(softmax_attention(q, k, v, True, D**-0.5,
                                     kept(*s, N * HEADS * tq, keys, p).reshape(N, HEADS, tq, keys) / (1 - p)), "NTC"),
        out.asnumpy(), atol=1e-5))
    factor = kept(*state, N * HEADS * tq, keys, p).reshape(N, HEADS, tq, keys) / (1 - p)
    assert abs((factor > 0).mean() - (1 - p)) < 0.1
    e = np.exp(q @ k.swapaxes(2, 3) * D**-0.5)  # dv = (w f)' g
    wanted = ((e / e.sum(-1, keepdims=True)) * factor).swapaxes(2, 3) @ heads_first(g, HEADS, "NTC")
    np.testing.assert_allclose(arrays[2].grad.asnumpy(), heads_last(wanted, "NTC"), rtol=1e-4, atol=1e-5)
    same = nd.contrib.attention(*arrays, heads=HEADS, dropout=p)  # not while predicting
    np.testing.assert_allclose(same.asnumpy(), heads_last(softmax_attention(q, k, v, True, D**-0.5), "NTC"), atol=1e-5)


@pytest.fixture
def threads():
    before = _core.num_threads()
    yield _core.set_num_threads
    _core.set_num_threads(before)


@pytest.mark.parametrize("heads", [1, 6])
def test_results_do_not_depend_on_threads(heads, threads):
    x = nd.array(np.random.default_rng(3).normal(size=(1, 300, 3 * heads * 16)))
    x.attach_grad()
    results = []
    for count in (1, 2, 5):
        threads(count)
        mx.random.seed(1)
        with autograd.record():
            y = nd.contrib.attention(x, heads=heads, roles="packed", causal=True, dropout=0.2)
        y.backward()
        results.append((y.asnumpy(), x.grad.asnumpy()))
    for y, g in results[1:]:
        assert (y == results[0][0]).all() and (g == results[0][1]).all()


@pytest.mark.parametrize("roles, present", [("packed", ["query", "mask"]), ("kv_interleaved", ["query", "key", "valid_length"])])
def test_files_keep_absent_inputs(roles, present, tmp_path):
    inputs, _ = operands(roles, "NTC", HEADS, TQ, TQ)
    values = dict(zip(("query", "key"), (nd.array(x) for x in inputs)))
    values.update(mask=nd.array(np.tri(TQ)[None]), valid_length=nd.array([2.0, 4.0]))
    symbol = mx.sym.contrib.attention(**{name: mx.sym.var(name) for name in present}, heads=HEADS, roles=roles,
                                      use_mask="mask" in present, use_length="valid_length" in present, name="att")
    symbol.save(str(tmp_path / "a.json"))
    again = mx.sym.load(str(tmp_path / "a.json"))
    assert again.list_arguments() == present and again.tojson() == symbol.tojson()
    given = {name: values[name] for name in present}
    options = dict(heads=HEADS, roles=roles, use_mask="mask" in present, use_length="valid_length" in present)
    wanted = nd.contrib.attention(**given, **options).asnumpy()
    assert (again.eval(**given)[0].asnumpy() == wanted).all()


def test_wrong_calls_say_why():
    q = nd.ones((2, 3, 8))
    for options, words in [(dict(heads=3, key=q, value=q), "heads \\* size"), (dict(heads=4, kv_heads=3, key=q, value=q), "divisor"),
                           (dict(heads=3, roles="packed"), "kv_heads"), (dict(heads=2), "key"),
                           (dict(heads=2, mask=nd.ones((2, 3, 3)), roles="apart", key=q, value=q), "use_mask"),
                           (dict(heads=2, key=q, value=q, mask=nd.ones((2, 3, 4)), use_mask=True), "mask has shape"),
                           (dict(heads=2, key=nd.ones((3, 3, 8)), value=q), "key has shape")]:
        with pytest.raises(mx.MXNetError, match=words):
            nd.contrib.attention(q, **options)


def test_lengths_are_exact_under_mixed_precision():
    keys, length = 700, 301  # bfloat16 would round it to 302
    value = nd.array((np.arange(keys) == length)[None, :, None] * np.ones((1, 1, 4)))
    amp.init("bfloat16")
    try:
        lengths = nd.array([length], dtype="float32")
        out = nd.contrib.attention(nd.zeros((1, 1, 4)), nd.zeros((1, keys, 4)), value, heads=1, valid_length=lengths,
                                   use_length=True)
        assert "bfloat16" in str(out.dtype) and (out.astype("float32").asnumpy() == 0).all()
    finally:
        amp.amp._off()


def test_memory_is_linear_in_the_length():
    t = 16384  # scores would take 1 GB
    x = nd.random.normal(shape=(1, t, 3 * 8))
    x.attach_grad()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with autograd.record():
        y = nd.contrib.attention(x, heads=1, roles="packed", causal=True)
    y.backward()
    assert np.isfinite(x.grad.asnumpy()).all()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100e3  # kilobytes
    q, k, v = np.split(x.asnumpy()[0].astype("float64"), 3, 1)
    for i in (0, 777, t - 1):
        w = np.exp(k[: i + 1] @ q[i] * 8**-0.5)
        np.testing.assert_allclose(y[0, i].asnumpy(), w @ v[: i + 1] / w.sum(), rtol=1e-4, atol=1e-5)


class Classic(mx.gluon.HybridBlock):
    """Self-attention as old programs write it; `way`: interleaved projections, or products of batches; how keys are hidden."""

    def __init__(self, way):
        super().__init__()
        self.way = way
        self.drop = mx.gluon.nn.Dropout(0.4)

    def hybrid_forward(self, F, x, length):
        steps = F.contrib.arange_like(x, axis=0)
        if self.way == "batches":
            q, k, v = F.split(x, num_outputs=3, axis=2)
            return F.batch_dot(self.drop(F.softmax(F.batch_dot(q, k, transpose_b=True) / 5)), v)
        if "mask" in self.way:
            return self.masked(F, x.swapaxes(0, 1), steps, length).swapaxes(0, 1)
        scores = F.contrib.interleaved_matmul_selfatt_qk(x, heads=4)
        if self.way == "interleaved":
            weights = F.softmax(scores, axis=-1)
        else:  # a length for every row
            other = F.zeros_like(steps) if self.way == "lengths" else steps - 2
            rows = F.broadcast_add(length.reshape((-1, 1)), other.reshape((1, -1))).astype("int32")
            rows = F.broadcast_axis(F.expand_dims(rows, axis=1), axis=1, size=4).reshape((-1, 0), reverse=True)
            weights = F.softmax(scores, length=rows, use_length=True, axis=-1)
        return F.contrib.interleaved_matmul_selfatt_valatt(x, self.drop(weights), heads=4)

    def masked(self, F, x, steps, length):
        q, k, v = (part.reshape((0, 0, 4, -1)).transpose((0, 2, 1, 3)).reshape((-3, 0, 0)) for part in F.split(x, num_outputs=3, axis=2))
        seen = F.broadcast_lesser(steps.reshape((1, -1)), length.reshape((-1, 1)))
        if self.way == "weighing mask":
            seen = seen * 0.5
        mask = F.broadcast_axis(F.broadcast_axis(seen.reshape((-1, 1, 1, 0), reverse=True), axis=1, size=4), axis=2, size=6).reshape((-3, 0, 0))
        scores = F.batch_dot(q, k, transpose_b=True)
        weights = F.softmax(F.where(mask, scores, -1e18 * F.ones_like(scores)), axis=-1)
        if self.way != "mask before":
            weights = weights * mask
        weights = self.drop(weights.reshape((-1, 4, 0, 0), reverse=True)).reshape((-3, 0, 0))
        return F.batch_dot(weights, v).reshape((-1, 4, 0, 0), reverse=True).transpose((0, 2, 1, 3)).reshape((0, 0, -3))


class Stack(mx.gluon.HybridBlock):
    def __init__(self, way):
        super().__init__()
        self.dense, self.attention = mx.gluon.nn.Dense(3 * 16, flatten=False), Classic(way)

    def hybrid_forward(self, F, x, length):
        return self.attention(self.dense(x), length)


def operators_of(net, *inputs):
    """Names of the operators that a prediction runs, as text, and its result."""
    with tempfile.TemporaryDirectory() as folder:
        mx.profiler.set_config(filename=folder + "/p.json", profile_all=True, aggregate_stats=True)
        mx.profiler.set_state("run")
        found = net(*inputs)
        found.wait_to_read()
        mx.profiler.set_state("stop")
        mx.profiler.dump()  # nothing is left to write once the folder is gone
        return mx.profiler.dumps(reset=True), found.asnumpy()


def gradient(net, x, length):
    x.attach_grad()
    with autograd.record(train_mode=False):
        y = (net(x, length) ** 2).sum()
    y.backward()
    return x.grad.asnumpy()


WAYS = {"interleaved": True, "batches": True, "lengths": True, "mask": True,
        # a length of their own for every row; weights that are halved; a query without keys sees all
        "rows": False, "weighing mask": False, "mask before": False}


@pytest.mark.parametrize("way", WAYS)
def test_predictions_use_the_operator(way):
    net = Stack(way)
    net.initialize(mx.init.Xavier(magnitude=6))
    x, length = nd.random.normal(shape=(6, 3, 16)), nd.array([6, 0, 4])
    wanted = net(x, length).asnumpy()
    net.hybridize()
    text, found = operators_of(net, x, length)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert ("_contrib_attention" in text, "softmax" in text) == (WAYS[way], not WAYS[way])
    length[:] = 2  # what was found holds for all lengths
    found = net(x, length).asnumpy()
    recorded = gradient(net, x, length)
    net.hybridize(False)
    np.testing.assert_allclose(found, net(x, length).asnumpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(recorded, gradient(net, x, length), rtol=1e-4, atol=1e-5)
    if mx.current_context().device_type == "gpu":  # there it is fused in training, too, and drops other weights
        return
    with autograd.record():  # what trains gives the bits of the imperative run
        mx.random.seed(5)
        hybrid = net(x, length).asnumpy()
        net.hybridize()
        mx.random.seed(5)
        assert (net(x, length).asnumpy() == hybrid).all()
