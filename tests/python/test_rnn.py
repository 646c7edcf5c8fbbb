"""gluon.rnn: layers and cells against NumPy, against each other, in graphs, in files, and their errors."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd, sym
from mxnet.gluon import nn, rnn

T, N, C, H = 4, 3, 5, 6


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(mode, x, states, p):
    """One step in NumPy; p: i2h_weight, h2h_weight, i2h_bias, h2h_bias[, h2r_weight]."""
    a, b = x @ p[0].T + p[2], states[0] @ p[1].T + p[3]
    if mode == "lstm":
        i, f, g, o = np.split(a + b, 4, axis=1)
        c = sigmoid(f) * states[1] + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return [h @ p[4].T if len(p) > 4 else h, c]
    if mode == "gru":
        (ar, az, an), (br, bz, bn) = np.split(a, 3, axis=1), np.split(b, 3, axis=1)
        z = sigmoid(az + bz)
        return [(1 - z) * np.tanh(an + sigmoid(ar + br) * bn) + z * states[0]]
    return [np.tanh(a + b) if mode == "tanh" else np.maximum(a + b, 0)]


def plain(mode, x, states, net, layers, directions):
    """The whole network in NumPy: x (T, N, C); states: lists per network."""
    names = ["i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias"]
    last = []
    for layer in range(layers):
        outputs = []
        for d in range(directions):
            prefix = f"{'lr'[d]}{layer}_"
            p = [getattr(net, prefix + name).data().asnumpy().astype("float64") for name in names]
            if hasattr(net, prefix + "h2r_weight"):
                p.append(getattr(net, prefix + "h2r_weight").data().asnumpy().astype("float64"))
            s = [state[layer * directions + d] for state in states]
            steps = {}
            for t in (range(len(x)) if d == 0 else reversed(range(len(x)))):
                s = step(mode, x[t], s, p)
                steps[t] = s[0]
            outputs.append(np.stack([steps[t] for t in range(len(x))]))
            last.append(s)
        x = np.concatenate(outputs, axis=2)
    return x, [np.stack(parts) for parts in zip(*last)]


def make(mode, **kwargs):
    if mode in ("relu", "tanh"):
        return rnn.RNN(H, activation=mode, **kwargs)
    return {"lstm": rnn.LSTM, "gru": rnn.GRU}[mode](H, **kwargs)


ALL = [(mode, layers, bi) for mode in ("relu", "tanh", "lstm", "gru") for layers in (1, 2) for bi in (False, True)]


@pytest.mark.parametrize("mode, layers, bi", ALL)
@pytest.mark.parametrize("layout", ["TNC", "NTC"])
def test_layers_against_numpy(mode, layers, bi, layout):
    net = make(mode, num_layers=layers, bidirectional=bi, layout=layout)
    net.initialize(mx.init.Uniform(0.5))
    x = np.random.randn(T, N, C).astype("float32")
    data = nd.array(x if layout == "TNC" else x.swapaxes(0, 1))
    states = [nd.random.normal(shape=info["shape"]) for info in net.state_info(N)]
    for _ in range(2):
        output, last = net(data, states)
        want, want_last = plain(mode, x, [s.asnumpy() for s in states], net, layers, 1 + bi)
        want = want if layout == "TNC" else want.swapaxes(0, 1)
        np.testing.assert_allclose(output.asnumpy(), want, rtol=1e-4, atol=1e-5)
        assert isinstance(last, list)
        for got, wanted in zip(last, want_last):
            np.testing.assert_allclose(got.asnumpy(), wanted, rtol=1e-4, atol=1e-5)
        alone = net(data)
        want, _ = plain(mode, x, [np.zeros(s.shape) for s in states], net, layers, 1 + bi)
        want = want if layout == "TNC" else want.swapaxes(0, 1)
        np.testing.assert_allclose(alone.asnumpy(), want, rtol=1e-4, atol=1e-5)
        net.hybridize()


def gradients(net, run, data):
    data.attach_grad()
    with autograd.record():
        output = run(data)
        loss = (output * nd.array(np.sin(np.arange(output.size)).reshape(output.shape))).sum()
    loss.backward()
    found = {key: p.grad().asnumpy() for key, p in net.collect_params().items()}
    return output.asnumpy(), dict(found, data=data.grad.asnumpy())


@pytest.mark.parametrize("mode, layers, bi", ALL)
def test_unfused_cells_give_the_same_with_gradients(mode, layers, bi):
    net = make(mode, num_layers=layers, bidirectional=bi)
    net.initialize(mx.init.Uniform(0.5))
    data = nd.random.normal(shape=(T, N, C))
    want, want_grads = gradients(net, net, data)
    cells = net.unfuse()
    assert list(cells.collect_params()) == list(net.collect_params())
    got, grads = gradients(cells, lambda x: cells.unroll(T, x, layout="TNC", merge_outputs=True)[0], data)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    for key, value in want_grads.items():
        np.testing.assert_allclose(grads[key], value, rtol=1e-3, atol=1e-5, err_msg=key)
    net.hybridize()
    got, grads = gradients(net, net, data)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    for key, value in want_grads.items():
        np.testing.assert_allclose(grads[key], value, rtol=1e-4, atol=1e-5, err_msg=key)


def test_projection():
    net = rnn.LSTM(H, num_layers=2, projection_size=2, bidirectional=True)
    net.initialize(mx.init.Uniform(0.5))
    x = np.random.randn(T, N, C).astype("float32")
    states = net.begin_state(N, func=nd.ones)
    assert [s.shape for s in states] == [(4, N, 2), (4, N, H)]
    output, last = net(nd.array(x), states)
    want, want_last = plain("lstm", x, [np.ones(s.shape) for s in states], net, 2, 2)
    np.testing.assert_allclose(output.asnumpy(), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last[1].asnumpy(), want_last[1], rtol=1e-4, atol=1e-5)
    with pytest.raises(AssertionError):
        net.unfuse()


def test_sequence_length():
    net = rnn.GRU(H, bidirectional=True, use_sequence_length=True)
    net.initialize(mx.init.Uniform(0.5))
    x, lengths = nd.random.normal(shape=(T, N, C)), [2, 4, 1]
    output, states = net(x, net.begin_state(N), sequence_length=nd.array(lengths))
    alone = net(x, sequence_length=nd.array(lengths))
    np.testing.assert_array_equal(output.asnumpy(), alone.asnumpy())
    for n, length in enumerate(lengths):
        part = net(x[:length, n:n + 1], net.begin_state(1), sequence_length=nd.array([length]))
        np.testing.assert_allclose(output[:length, n].asnumpy(), part[0][:, 0].asnumpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(states[0][:, n].asnumpy(), part[1][0][:, 0].asnumpy(), rtol=1e-5, atol=1e-6)
        assert not output[length:, n].asnumpy().any() if length < T else True
    with pytest.raises(mx.MXNetError):
        net(x)


def test_names_shapes_and_text():
    net = rnn.LSTM(4, 2, bidirectional=True, dropout=0.3, prefix="n_")
    assert repr(net) == "LSTM(None -> 4, TNC, num_layers=2, dropout=0.3, bidirectional)"
    shapes = {key: p.shape for key, p in net.collect_params().items()}
    assert list(shapes)[:5] == ["n_l0_i2h_weight", "n_l0_h2h_weight", "n_l0_i2h_bias", "n_l0_h2h_bias",
                                "n_r0_i2h_weight"]
    assert shapes["n_l0_i2h_weight"] == (16, 0) and shapes["n_r1_i2h_weight"] == (16, 8) and len(shapes) == 16
    net.initialize()
    net(nd.ones((2, 1, 5)))
    assert net.l0_i2h_weight.shape == (16, 5) and repr(net).startswith("LSTM(5 -> 4")
    assert list(net._collect_params_with_prefix())[4] == "_unfused.0.r_cell.i2h_weight"
    assert list(rnn.GRU(3)._collect_params_with_prefix())[0] == "_unfused.0.i2h_weight"
    assert repr(rnn.RNN(3)) == "RNN(None -> 3, TNC)" and rnn.RNN(3).prefix.startswith("rnn")
    assert net.state_info(7)[0] == {"shape": (4, 7, 4), "__layout__": "LNC", "dtype": "float32"}
    cells = [(rnn.RNNCell(3), "RNNCell(None -> 3, tanh)"), (rnn.LSTMCell(3), "LSTMCell(None -> 12)"),
             (rnn.GRUCell(3, input_size=2), "GRUCell(2 -> 9)"),
             (rnn.DropoutCell(0.3), "DropoutCell(rate=0.3, axes=())")]
    for cell, text in cells:
        assert repr(cell) == text
    inner = rnn.LSTMCell(4, prefix="c_")
    zone = rnn.ZoneoutCell(inner, 0.1, 0.2)
    assert repr(zone) == "ZoneoutCell(p_out=0.1, p_state=0.2, LSTMCell(None -> 16))"
    assert zone.prefix == "c_zoneout" and "c_i2h_weight" in zone.params
    assert list(zone._collect_params_with_prefix())[0] == "base_cell.i2h_weight"
    both = rnn.BidirectionalCell(rnn.GRUCell(2), rnn.GRUCell(2))
    assert list(both._collect_params_with_prefix())[4] == "r_cell.i2h_weight"


class Tagger(gluon.HybridBlock):
    """Embedding, something recurrent, Dense."""

    def __init__(self, kind, **kwargs):
        super().__init__(**kwargs)
        self.kind = kind
        with self.name_scope():
            self.embedding = nn.Embedding(10, 6)
            self.body = {"lstm": lambda: rnn.LSTM(7, 2, layout="NTC"),
                         "gru": lambda: rnn.GRU(7, bidirectional=True, layout="NTC"),
                         "cell": lambda: rnn.GRUCell(7)}[kind]()
            self.output = nn.Dense(10, flatten=False)

    def hybrid_forward(self, F, x):
        x = self.embedding(x)
        x = self.body.unroll(T, x, merge_outputs=True)[0] if self.kind == "cell" else self.body(x)
        return self.output(x)


@pytest.mark.parametrize("kind", ["lstm", "gru", "cell"])
def test_a_network_learns_hybridized_exported_and_saved(kind, tmp_path):
    x = nd.array(np.random.randint(0, 10, (8, T)))
    losses = []
    for hybrid in (False, True):
        mx.random.seed(3)
        net = Tagger(kind, prefix="net_")
        net.initialize(mx.init.Xavier())
        if hybrid:
            net.hybridize()
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02})
        for i in range(25):
            with autograd.record():
                loss = gluon.loss.SoftmaxCrossEntropyLoss()(net(x), x).mean()
            loss.backward()
            trainer.step(1)
            first = loss.asscalar() if i == 0 else first
        losses.append(loss.asscalar())
        assert losses[-1] < 0.8 * first
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)
    want = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    block = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    for _ in range(2):
        np.testing.assert_allclose(block(x).asnumpy(), want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(block(x[:3]).asnumpy(), want[:3], rtol=1e-4, atol=1e-5)  # another batch
        block.hybridize()
    net.save_parameters(str(tmp_path / "p"))
    other = Tagger(kind)
    other.load_parameters(str(tmp_path / "p"))
    np.testing.assert_allclose(other(x).asnumpy(), want, rtol=1e-5, atol=1e-6)


def stack(kind=rnn.HybridSequentialRNNCell):
    cells = kind()
    with cells.name_scope():
        cells.add(rnn.LSTMCell(5))
        cells.add(rnn.ResidualCell(rnn.GRUCell(5)))
        cells.add(rnn.DropoutCell(0.5))
        cells.add(rnn.ZoneoutCell(rnn.RNNCell(4), 0.2, 0.3))
    return cells


@pytest.mark.parametrize("kind", [rnn.SequentialRNNCell, rnn.HybridSequentialRNNCell])
def test_stack_stepped_and_unrolled(kind):
    cells = stack(kind)
    cells.initialize(mx.init.Uniform(0.5))
    assert len(cells) == 4 and isinstance(cells[2], rnn.DropoutCell)
    x = nd.random.normal(shape=(N, T, C))
    states = cells.begin_state(batch_size=N, func=nd.zeros)
    steps = []
    for t in range(T):
        output, states = cells(x[:, t], states)
        steps.append(output.asnumpy())
    outputs, last = cells.unroll(T, x, merge_outputs=True)
    np.testing.assert_allclose(outputs.asnumpy(), np.stack(steps, 1), rtol=1e-5, atol=1e-6)
    for a, b in zip(states, last):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-5, atol=1e-6)
    listed, _ = cells.unroll(T, [x[:, t] for t in range(T)], merge_outputs=False)
    assert isinstance(listed, list) and len(listed) == T
    np.testing.assert_allclose(listed[2].asnumpy(), steps[2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layout", ["NTC", "TNC"])
def test_valid_length(layout):
    both = rnn.BidirectionalCell(rnn.LSTMCell(3), rnn.GRUCell(2))
    both.initialize(mx.init.Uniform(0.5))
    x = np.random.randn(N, T, C).astype("float32")
    lengths = [2, 4, 1]
    data = nd.array(x if layout == "NTC" else x.swapaxes(0, 1))
    outputs, states = both.unroll(T, data, layout=layout, merge_outputs=True, valid_length=nd.array(lengths))
    outputs = outputs.asnumpy() if layout == "NTC" else outputs.asnumpy().swapaxes(0, 1)
    for n, length in enumerate(lengths):
        want, want_states = both.unroll(length, nd.array(x[n:n + 1, :length]), merge_outputs=True)
        np.testing.assert_allclose(outputs[n, :length], want.asnumpy()[0], rtol=1e-5, atol=1e-6)
        assert not outputs[n, length:].any()
        for a, b in zip(states, want_states):
            np.testing.assert_allclose(a.asnumpy()[n], b.asnumpy()[0], rtol=1e-5, atol=1e-6)


def test_zoneout_and_dropout_in_training():
    cell = rnn.ZoneoutCell(rnn.RNNCell(50, activation="relu", i2h_bias_initializer="ones"), 0.5, 0.0)
    cell.initialize(mx.init.Zero())
    cell.base_cell.i2h_bias.set_data(nd.ones(50))
    with autograd.train_mode():
        outputs, _ = cell.unroll(3, nd.ones((1, 3, 2)), merge_outputs=True)
    values = outputs.asnumpy()
    assert 0 < values[0, 0].sum() < 50 and values[0, 2].sum() > values[0, 0].sum()
    drop = rnn.DropoutCell(0.5)
    with autograd.train_mode():
        outputs, states = drop.unroll(3, nd.ones((1, 3, 50)), merge_outputs=True)
    assert states == [] and set(np.unique(outputs.asnumpy())) == {0.0, 2.0}
    assert drop.unroll(3, nd.ones((1, 3, 5)), merge_outputs=True)[0].asnumpy().all()


def test_symbols():
    cell = rnn.LSTMCell(4, prefix="c_")
    outputs, states = cell.unroll(2, [sym.var(f"t{i}_data") for i in range(2)])
    group = sym.Group(outputs)
    assert group.list_outputs() == ["c_t0_out_output", "c_t1_out_output"]
    assert group.list_arguments() == ["t0_data", "c_i2h_weight", "c_i2h_bias", "c_h2h_weight", "c_h2h_bias", "t1_data"]
    _, shapes, _ = group.infer_shape(t0_data=(3, 5), t1_data=(3, 5))
    assert shapes == [(3, 4), (3, 4)]
    merged, _ = rnn.GRUCell(4, prefix="g_").unroll(3, sym.var("data"), merge_outputs=True)
    executor = merged.simple_bind(mx.current_context(), data=(2, 3, 5))
    assert executor.forward()[0].shape == (2, 3, 4)
    double = rnn.LSTM(4, 2, bidirectional=True, prefix="d_")(sym.var("data"))
    shapes = dict(zip(double.list_arguments(), double.infer_shape(data=(3, 2, 5))[0]))
    assert shapes["d_l0_i2h_weight"] == shapes["d_r0_i2h_weight"] == (16, 5)
    layer = rnn.LSTM(4, prefix="l_")
    output = layer(sym.var("data"))
    assert output.infer_shape(data=(3, 2, 5))[1] == [(3, 2, 4)]
    assert "l_h0_1" in [name.replace("_output", "") for name in output.get_internals().list_outputs()]
    output, states = layer(sym.var("data"), [sym.var("h"), sym.var("c")])
    assert len(states) == 2
    assert layer.begin_state(func=sym.zeros)[0].name == "l_h0_0"


class Counter(rnn.HybridRecurrentCell):
    """A user's cell."""

    def __init__(self, size, **kwargs):
        super().__init__(**kwargs)
        self.size = size
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(size, 0), allow_deferred_init=True)

    def state_info(self, batch_size=0):
        return [{"shape": (batch_size, self.size), "__layout__": "NC"}]

    def hybrid_forward(self, F, x, states, weight):
        h = F.FullyConnected(x, weight, no_bias=True, num_hidden=self.size) + states[0]
        return h, [h]


def test_subclasses():
    cell = Counter(3)
    cell.initialize("ones")
    for _ in range(2):
        outputs, states = cell.unroll(3, nd.ones((1, 3, 2)), merge_outputs=True)
        np.testing.assert_array_equal(outputs.asnumpy()[0, :, 0], [2, 4, 6])
        cell.hybridize()

    class Doubled(rnn.GRU):
        def forward(self, inputs, states=None):
            if states is None:
                return super().forward(inputs) * 2
            output, states = super().forward(inputs, states)
            return output * 2, states

    plain_layer, doubled = rnn.GRU(3, prefix="a_"), Doubled(3, prefix="a_")
    plain_layer.initialize()
    x = nd.random.normal(shape=(T, N, C))
    want = plain_layer(x).asnumpy()
    doubled.initialize()
    doubled(x)
    for key, value in plain_layer.collect_params().items():
        doubled.params[key].set_data(value.data())
    for _ in range(2):
        np.testing.assert_allclose(doubled(x).asnumpy(), 2 * want, rtol=1e-6)
        output, states = doubled(x, doubled.begin_state(N))
        np.testing.assert_allclose(output.asnumpy(), 2 * want, rtol=1e-6)
        assert states[0].shape == (1, N, 3)
        doubled.hybridize()
    assert repr(doubled) == "Doubled(5 -> 3, TNC)"


CALLED = set()


class Watched(rnn.LSTMCell):
    """Overrides everything and says what was called."""

    def state_info(self, batch_size=0):
        CALLED.add("state_info")
        return super().state_info(batch_size)

    def begin_state(self, *args, **kwargs):
        CALLED.add("begin_state")
        return super().begin_state(*args, **kwargs)

    def unroll(self, *args, **kwargs):
        CALLED.add("unroll")
        return super().unroll(*args, **kwargs)

    def reset(self):
        CALLED.add("reset")
        super().reset()

    def __call__(self, inputs, states):
        CALLED.add("call")
        return super().__call__(inputs, states)

    def forward(self, inputs, states):
        CALLED.add("forward")
        return super().forward(inputs, states)

    def hybrid_forward(self, F, inputs, states, **parameters):
        CALLED.add("hybrid_forward")
        return super().hybrid_forward(F, inputs, states, **parameters)

    def _get_activation(self, F, inputs, activation, **kwargs):
        CALLED.add("activation")
        return super()._get_activation(F, inputs, activation, **kwargs)

    def _alias(self):
        return "watched"


def stacked(kind):
    def make(cell):
        cells = kind()
        cells.add(rnn.GRUCell(C))
        cells.add(cell)
        return cells
    return make


ALL_METHODS = {"state_info", "begin_state", "unroll", "reset", "call", "forward", "hybrid_forward", "activation"}


@pytest.mark.parametrize("around", [
    lambda cell: cell, rnn.ResidualCell, rnn.ZoneoutCell, lambda cell: rnn.BidirectionalCell(rnn.GRUCell(C), cell),
    stacked(rnn.SequentialRNNCell), stacked(rnn.HybridSequentialRNNCell),
    lambda cell: gluon.contrib.rnn.VariationalDropoutCell(cell, drop_inputs=0.5)])
@pytest.mark.parametrize("mode", ["arrays", "hybrid", "symbols"])
def test_overridden_methods_are_called_wherever_the_cell_sits(around, mode):
    mx.random.seed(5)
    cell = around(Watched(C, prefix="w_"))
    CALLED.clear()
    if mode == "symbols":
        outputs, _ = cell.unroll(T, sym.var("data"), merge_outputs=True)
        names = outputs.get_internals().list_outputs()
        assert "w_t0_i2h_output" in names and f"w_t{T - 1}_out_output" in names
    else:
        cell.initialize(mx.init.Uniform(0.5))
        if mode == "hybrid":
            cell.hybridize()
        x = nd.random.normal(shape=(N, T, C))
        outputs, _ = cell.unroll(T, x, merge_outputs=True)
        mx.random.seed(5)
        plain_cell = around(rnn.LSTMCell(C))
        plain_cell.initialize(mx.init.Uniform(0.5))
        x = nd.random.normal(shape=(N, T, C))
        want, _ = plain_cell.unroll(T, x, merge_outputs=True)
        np.testing.assert_allclose(outputs.asnumpy(), want.asnumpy(), rtol=1e-5, atol=1e-6)
    missing = {"unroll"} if isinstance(cell, rnn.ZoneoutCell) else set()  # which steps it
    assert CALLED == ALL_METHODS - missing


def test_names_and_errors_of_subclasses():
    assert Watched(3).prefix.startswith("watched")

    class Nested(rnn.RecurrentCell):
        def forward(self, x, states):
            (a, b), c = states
            return x + a + b + c, [[a + 1, b], c * 2]

    zero = nd.zeros((1, 2))
    outputs, states = Nested().unroll(3, nd.ones((1, 3, 2)), begin_state=[[zero, zero], zero + 1])
    assert [y.asnumpy()[0, 0] for y in outputs] == [2, 4, 7]
    assert states[0][0].asnumpy()[0, 0] == 3 and states[1].asnumpy()[0, 0] == 8

    class Wrong(rnn.GRUCell):
        def hybrid_forward(self, F, inputs, states, **parameters):
            raise ZeroDivisionError("mine")

    cells = rnn.HybridSequentialRNNCell()
    cells.add(Wrong(3))
    cells.initialize()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="mine"):
            cells.unroll(2, nd.ones((1, 2, 3)))
        cells.hybridize()

    class Twice(rnn.ModifierCell):
        def hybrid_forward(self, F, inputs, states):
            output, states = self.base_cell(inputs, states)
            return output * 2, states

    twice = Twice(rnn.GRUCell(4, prefix="g_"))
    twice.initialize()
    assert twice.prefix == "g_twice" and [s.name for s in twice.begin_state()] == ["g_begin_state_0"]
    x = nd.ones((1, 2, 3))
    got = twice.unroll(1, x[:, :1], merge_outputs=True)[0]
    free = rnn.GRUCell(4, prefix="g_", params=twice.params)
    np.testing.assert_allclose(got.asnumpy(), 2 * free.unroll(1, x[:, :1], merge_outputs=True)[0].asnumpy(), rtol=1e-6)


def test_name_managers():
    class Mine(mx.name.NameManager):
        def get(self, name, hint):
            return "my_" + super().get(name, hint)

    for manager, start in ((mx.name.Prefix("p_"), "p_"), (Mine(), "my_")):
        with manager:
            outputs, _ = rnn.GRUCell(3, prefix="g_").unroll(2, sym.var("x"), merge_outputs=True)
        names = [name for name in outputs.get_internals().list_outputs() if "g_t" not in name and "output" in name]
        assert names == [f"{start}split0_output0", f"{start}split0_output1", f"{start}g_begin_state_0_output",
                         f"{start}stack0_output"]


def test_attributes_of_cells():
    cell = rnn.LSTMCell(4, input_size=3)
    assert (cell._hidden_size, cell._input_size, cell._activation, cell._counter) == (4, 3, "tanh", -1)
    cell.initialize()
    output, states = cell(inputs=nd.ones((1, 3)), states=cell.begin_state(1))
    assert cell._counter == 0 and cell._init_counter == 1 and isinstance(states, list)
    cell.reset()
    assert cell._counter == cell._init_counter == -1
    with pytest.raises(TypeError):
        cell(nd.ones((1, 3)))
    zone = rnn.ZoneoutCell(cell, 0.5)
    assert cell._modified and zone._prev_output is None and zone.base_cell is cell
    zone.zoneout_outputs = 0.25
    assert zone.zoneout_outputs == 0.25 and repr(zone).startswith("ZoneoutCell(p_out=0.25, p_state=0.0, ")
    zone(nd.ones((1, 3)), zone.begin_state(batch_size=1))
    assert zone._prev_output.shape == (1, 4)
    zone.reset()
    assert zone._prev_output is None
    leaky = nn.LeakyReLU(0.1)
    cell = rnn.RNNCell(3, leaky, input_size=2)
    assert repr(cell) == "RNNCell(2 -> 3, LeakyReLU(0.1))" and cell._activation is leaky
    cell.initialize(mx.init.Constant(-1))
    np.testing.assert_allclose(cell(nd.ones((1, 2)), [nd.zeros((1, 3))])[0].asnumpy(), -0.2, rtol=1e-6)


@pytest.mark.parametrize("make", [lambda: rnn.ZoneoutCell(rnn.LSTMCell(5), 0.3, 0.4),
                                  lambda: gluon.contrib.rnn.VariationalDropoutCell(rnn.GRUCell(5), 0.2, 0.3, 0.4)])
def test_modifiers_hybridized(make, tmp_path):
    cell = make()
    cell.initialize()
    states = cell.begin_state(batch_size=N, func=nd.zeros)
    want = cell(nd.ones((N, C)), states)[0].asnumpy()
    cell.hybridize()
    for _ in range(2):
        with autograd.record():
            output, _ = cell(nd.ones((N, C)), states)
        output.backward()
    np.testing.assert_allclose(cell(nd.ones((N, C)), states)[0].asnumpy(), want, rtol=1e-5, atol=1e-6)
    cell.export(str(tmp_path / "cell"))
    names = sym.load(str(tmp_path / "cell-symbol.json")).get_internals().list_outputs()
    assert f"{cell.base_cell.prefix}t0_out_output" in names


def test_half_precision():
    net = rnn.LSTM(3, input_size=2)
    net.initialize()
    net.cast("float16")
    assert net(nd.ones((2, 1, 2), dtype="float16")).dtype == np.float16
    assert net.begin_state(1)[0].dtype == np.float16


def test_mistakes():
    net = rnn.LSTM(4)
    net.initialize()
    with pytest.raises(mx.MXNetError):
        net(nd.ones((3, 2, 5)), [nd.ones((1, 2, 3)), nd.ones((1, 2, 3))])
    with pytest.raises(mx.MXNetError):
        net(nd.ones((3, 2, 5)), nd.ones((1, 2, 4)))
    with pytest.raises(mx.MXNetError):
        net(nd.ones((3, 5)))
    assert net(nd.ones((3, 2, 6))).shape == (3, 2, 4)  # what failed taught the layer nothing
    with pytest.raises(mx.MXNetError):
        net(nd.ones((3, 2, 5)))
    with pytest.raises(AssertionError):
        rnn.LSTM(4, layout="CNT")
    with pytest.raises(KeyError):
        rnn.RNN(4, activation="sigmoid")
    for bad in ({"hidden_size": 0}, {"hidden_size": 4, "num_layers": 0}, {"hidden_size": 4, "dropout": 2},
                {"hidden_size": 4, "projection_size": -1}, {"hidden_size": 4, "state_clip_min": 1}):
        with pytest.raises(mx.MXNetError):
            rnn.LSTM(**bad)
    cell = rnn.LSTMCell(4)
    cell.initialize()
    for inputs in (nd.ones((2, 4, 3)), [nd.ones((2, 3))] * 2, None):
        with pytest.raises(AssertionError):
            cell.unroll(3, inputs)
    with pytest.raises(AssertionError):
        rnn.ZoneoutCell(rnn.BidirectionalCell(cell, cell))
    with pytest.raises(NotImplementedError):
        rnn.BidirectionalCell(cell, cell)(nd.ones((2, 3)), [])
    rnn.ResidualCell(cell)
    with pytest.raises(AssertionError):
        cell.begin_state(2)
    with pytest.raises(NotImplementedError):
        rnn.RecurrentCell().state_info()


def test_parts_of_gluon():
    assert gluon.rnn is rnn and not hasattr(gluon, "nonsense")
    assert not hasattr(nn, "LSTM")
