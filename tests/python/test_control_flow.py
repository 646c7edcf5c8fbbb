"""Loops, conditions and operators written in Python, in every way in which a graph is run.

Each network is run imperatively, as a symbol in an executor, hybridized, and after a trip through a file; values and
gradients must be those of the imperative run.
"""
import json
import time

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd, sym
from mxnet.gluon import nn, rnn

rng = np.random.RandomState(7)


def arrays(*shapes):
    return [nd.array(rng.uniform(-1, 1, shape)) for shape in shapes]


def flat(value):
    return [y for x in value for y in flat(x)] if isinstance(value, (list, tuple)) else [value]


def run(net, inputs, parameters):
    """Values of the outputs, and gradients of the sum of their squares."""
    for x in inputs:
        x.attach_grad()
    with autograd.record():
        outputs = flat(net(*inputs))
        loss = sum((y * y).sum() for y in outputs)
    loss.backward()
    return [y.asnumpy() for y in outputs] + [x.grad.asnumpy() for x in inputs] + \
        [p.grad().asnumpy() for p in parameters]


def same(one, other, tolerance=1e-5):
    assert len(one) == len(other)
    for a, b in zip(one, other):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


class Net(gluon.HybridBlock):
    """A block of a function of F, the inputs and two parameters."""

    def __init__(self, function, shapes=((3, 4), (3, 3))):
        super().__init__()
        self.function = function
        with self.name_scope():
            self.w = self.params.get("w", shape=shapes[0])
            self.u = self.params.get("u", shape=shapes[1])
        self.initialize(mx.init.Uniform(1))

    def hybrid_forward(self, F, *inputs, **parameters):
        return self.function(F, *inputs, **parameters)


def loop(F, x, h, w, u):
    """A recurrent network that uses a value and two parameters of the graph around it."""
    scale = F.exp(F.sum(u) * 0.1)

    def body(row, states):
        new = F.tanh(F.dot(row, w, transpose_b=True) + F.dot(states[0], u, transpose_b=True))
        return [new * scale, [row]], [new, states[1] + 1]
    outputs, states = F.contrib.foreach(body, x, [h, h * 2])
    return outputs + states


def search(F, x, h, w, u):
    """Doubles until a sum is large; another loop inside."""
    def step(i, s):
        rows, _ = F.contrib.foreach(lambda row, state: (row * state, state + 1), x, F.sum(s).reshape((1, 1)))
        return [s * 2, rows.sum()], [i + 1, s * 1.5 + F.dot(w, F.transpose(w)).sum() + u.sum() * 0]
    steps, last = F.contrib.while_loop(lambda i, s: (i < 4) * (s.sum() < 50), step, [F.zeros((1,)), F.abs(h) + 0.1],
                                       max_iterations=6)
    return steps + last


def choice(F, x, h, w, u):
    y = F.dot(h, w)
    big = F.contrib.cond(y.sum() > 0, lambda: [y * 2, u], lambda: [F.exp(y), u * u])
    return big + [F.contrib.cond(y.sum() <= 0, lambda: x * y.sum(), lambda: x - 1)]


FUNCTIONS = {"foreach": loop, "while_loop": search, "cond": choice}


@pytest.mark.parametrize("name", list(FUNCTIONS))
@pytest.mark.parametrize("steps", [1, 5, 70, 150])
def test_everywhere(name, steps, tmp_path):
    net = Net(FUNCTIONS[name])
    inputs = arrays((steps, 2, 4), (2, 3))
    parameters = [net.w, net.u]
    wanted = run(net, inputs, parameters)
    tolerance = 1e-4 if steps > 5 else 1e-5
    net.hybridize()
    for _ in range(2):
        same(run(net, inputs, parameters), wanted, tolerance)
    path = str(tmp_path / "net")
    net.export(path)
    again = gluon.SymbolBlock.imports(path + "-symbol.json", ["data0", "data1"], path + "-0000.params")
    others = [again.collect_params()[p.name] for p in parameters]
    same(run(again, inputs, others), wanted, tolerance)
    again.hybridize()
    for _ in range(3):
        same(run(again, inputs, others), wanted, tolerance)
    graph = sym.load(path + "-symbol.json")
    kind = "_" + name
    assert any(n["op"] == kind and len(n["subgraphs"]) == {"_foreach": 1, "_while_loop": 2, "_cond": 3}[kind]
               for n in json.loads(graph.tojson())["nodes"])
    executor = graph.bind(mx.cpu(), {"data0": inputs[0], "data1": inputs[1], net.w.name: net.w.data(),
                                     net.u.name: net.u.data()},
                          args_grad={n: nd.zeros(s) for n, s in zip(graph.list_arguments(), graph.infer_shape(
                              data0=inputs[0].shape, data1=(2, 3))[0])})
    outputs = executor.forward(is_train=True)
    executor.backward([2 * y for y in outputs])
    found = [y.asnumpy() for y in outputs] + [executor.grad_dict[n].asnumpy()
                                              for n in ("data0", "data1", net.w.name, net.u.name)]
    same(found, wanted, tolerance)


def test_predicting_and_shapes_that_change():
    net = Net(loop)
    net.hybridize()
    for steps, batch in ((3, 2), (4, 2), (100, 3), (3, 2), (0, 2)):
        x, h = arrays((steps, batch, 4), (batch, 3))
        y = net(x, h)
        assert y[0].shape == (steps, batch, 3) if steps else True
        net.hybridize(active=False)
        z = net(x, h)
        net.hybridize()
        same([a.asnumpy() for a in flat(y)], [a.asnumpy() for a in flat(z)]) if steps else None


@pytest.mark.parametrize("cell", ["RNNCell", "LSTMCell", "GRUCell"])
def test_cells(cell):
    class Recurrent(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.cell = getattr(rnn, cell)(5)

        def hybrid_forward(self, F, x, *states):
            outputs, states = F.contrib.foreach(self.cell, x, list(states))
            return [outputs] + states

    net = Recurrent()
    net.initialize(mx.init.Uniform(0.5))
    inputs = arrays((6, 2, 4), *[(2, 5)] * (2 if cell == "LSTMCell" else 1))
    net(*inputs)
    parameters = list(net.collect_params().values())
    wanted = run(net, inputs, parameters)
    # The cell's own loop, on arrays and on symbols.
    unrolled = run(lambda x, *s: (lambda y: [y[0]] + y[1])(
        net.cell.unroll(6, x, list(s), layout="TNC", merge_outputs=True)), inputs, parameters)
    same(unrolled, wanted)
    names = [f"s{i}" for i in range(len(inputs) - 1)]
    outputs, states = net.cell.unroll(6, sym.var("x"), [sym.var(n) for n in names], layout="TNC", merge_outputs=True)
    block = gluon.SymbolBlock(sym.Group([outputs] + states), [sym.var("x")] + [sym.var(n) for n in names],
                              params=net.collect_params())
    same(run(block, inputs, parameters), wanted)
    net.hybridize()
    same(run(net, inputs, parameters), wanted)


def test_random_numbers_follow_the_seed():
    def drop(F, x, h, w, u):
        def body(row, s):
            return F.Dropout(row, p=0.5) + F.random.uniform(shape=(2, 4)), s * 1
        outputs, state = F.contrib.foreach(body, x, h)
        return [outputs, state, w * 1, u * 1]
    for steps in (3, 80):
        net = Net(drop)
        x, h = arrays((steps, 2, 4), (2, 3))
        results = []
        for hybrid in (False, True, True):
            net.hybridize(active=hybrid)
            mx.random.seed(5)
            with autograd.record():
                y = net(x, h)[0]
            after = nd.random.uniform(shape=(2,))
            results.append([y.asnumpy(), after.asnumpy()])
        same(results[0], results[1])
        same(results[0], results[2])
        assert not np.allclose(net(x, h)[0].asnumpy(), results[0][0])  # predicting: nothing is dropped


def test_running_statistics_inside():
    class Normed(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.bn = nn.BatchNorm(in_channels=4)

        def hybrid_forward(self, F, x):
            return F.contrib.foreach(lambda row, s: (self.bn(row), s + 1), x, F.zeros((1,)))[0]
    for steps in (3, 70):
        x, = arrays((steps, 5, 4))
        found = []
        for hybrid in (False, True):
            net = Normed()
            net.initialize()
            net(x)
            net.hybridize(active=hybrid)
            with autograd.record():
                net(x)
            found.append([net.bn.running_mean.data().asnumpy(), net(x).asnumpy()])
        same(*found)


def test_gradients_of_gradients():
    x, h = arrays((3, 2, 4), (2, 3))
    net = Net(loop)
    x.attach_grad()
    with autograd.record():
        y = sum((a * a).sum() for a in flat(net(x, h)))
        g = autograd.grad(y, x, create_graph=True)[0]
        (g * g).sum().backward()
    assert float(x.grad.abs().sum().asscalar()) > 0


def test_training_step():
    losses = []
    for hybrid in (False, True):
        mx.random.seed(3)
        np.random.seed(3)
        net = nn.HybridSequential()
        net.add(nn.HybridLambda(lambda F, x: F.contrib.foreach(lambda r, s: (r + s, s * 0.9 + r), x,
                                                               F.zeros_like(F.slice_axis(x, axis=0, begin=0, end=1)
                                                                            .squeeze(axis=0)))[0]),
                nn.Dense(3, in_units=8))
        net.initialize(mx.init.Constant(0.1))
        net.hybridize(active=hybrid)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        x, y = nd.array(np.random.RandomState(0).rand(6, 2, 4)), nd.ones((6, 3))
        for _ in range(4):
            with autograd.record():
                loss = gluon.loss.L2Loss()(net(x), y)
            loss.backward()
            trainer.step(6)
        losses.append([loss.asnumpy()])
    same(*losses)


# ---- conventions ---------------------------------------------------------------------------------------------------

def test_lists_of_symbols():
    x, s, a, b = (sym.var(n) for n in "xsab")
    out, state = sym.contrib.foreach(lambda d, t: (d + t, t + 1), x, s)
    assert (out.list_outputs(), state.list_outputs()) == (["_foreach0_output0"], ["_foreach0_output1"]) or \
        out.list_outputs()[0].endswith("_output0")
    out, state = sym.contrib.foreach(lambda d, t: ([d[0] + t[0], [d[1]]], [t[0] + 1, [t[1][0]]]), [x, a], [s, [b]])
    assert isinstance(out, list) and isinstance(out[1], list) and isinstance(state[1], list)
    outs, last = sym.contrib.while_loop(lambda i, t: i < 3, lambda i, t: (t + i, (i + 1, t * 2)), (a, b), 5)
    assert isinstance(outs, sym.Symbol) and len(last) == 2
    outs, last = sym.contrib.while_loop(lambda i: i < 3, lambda i: (None, i + 1), a, 5)
    assert outs == [] and isinstance(last, sym.Symbol)
    both = sym.contrib.cond(a < b, lambda: [a, [b]], lambda: [b * 2, [a]])
    assert isinstance(both[1], list)
    assert out[0].infer_shape_partial(x=(3, 2, 5))[0] is not None


def body(d, s):
    return d, s


@pytest.mark.parametrize("F", [nd, sym])
def test_wrong_calls(F):
    one, other = (nd.ones((3, 2)), nd.ones((2,))) if F is nd else (sym.var("x"), sym.var("s"))
    foreach, while_loop, cond = F.contrib.foreach, F.contrib.while_loop, F.contrib.cond
    for kind, call in [
            (AssertionError, lambda: foreach(body, 3, [])), (AssertionError, lambda: foreach(body, one, 3)),
            (AssertionError, lambda: foreach(lambda d, s: (3, s), one, other)),
            (ValueError, lambda: while_loop(lambda i: i, lambda i: (i, i), [one])),
            (ValueError, lambda: while_loop(lambda i: i, lambda i: (i, i), [one], max_iterations="a")),
            (ValueError, lambda: while_loop(lambda i: i, lambda i: (i, i), [], max_iterations=2)),
            (ValueError, lambda: while_loop(lambda i: i.sum() < 9, lambda i: (i, [i, i]), [one], max_iterations=2)),
            (ZeroDivisionError, lambda: foreach(lambda d, s: 1 / 0, one, other)),
            (ZeroDivisionError, lambda: while_loop(lambda i: 1 / 0, lambda i: (i, i), [one], max_iterations=2)),
            (ZeroDivisionError, lambda: cond(one.sum() if F is nd else one, lambda: 1 / 0, lambda: 1 / 0))]:
        with pytest.raises(kind):
            call()
    if F is sym:
        for kind, call in [
                (AssertionError, lambda: foreach(lambda d, s: (d, [s, s]), one, other)),
                (ValueError, lambda: while_loop(lambda i: True, lambda i: (i, i), [one], max_iterations=2)),
                (ValueError, lambda: cond(one, lambda: [one], lambda: [one, one])),
                (mx.MXNetError, lambda: while_loop(lambda i: i, lambda i: (i, i), [one], max_iterations=0)),
                (mx.MXNetError, lambda: foreach(lambda d, s: (s, s), one, other))]:
            with pytest.raises(kind):
                call()
    else:
        with pytest.raises(ValueError):
            cond(nd.ones(2), lambda: one, lambda: one)


def test_closed_files():
    """Numbers, subgraphs and inputs that do not fit each other are errors that name the node."""
    out, _ = sym.contrib.foreach(lambda d, s: (d + s, s * 2), sym.var("x"), sym.var("s"))
    good = json.loads(out.tojson())
    node = good["nodes"][-1]
    for change in ({"in_data_locs": "[7]"}, {"in_state_locs": "[0]"}, {"num_args": "9"}, {"num_outputs": "63000"},
                   {"num_out_data": "2"}, {"remain_locs": "[0, 1]"}, {"in_data_locs": "x"}):
        bad = json.loads(json.dumps(good))
        bad["nodes"][-1]["attrs"].update(change)
        with pytest.raises(mx.MXNetError, match=node["name"]):
            sym.load_json(json.dumps(bad))
    for change in ([], [{}], node["subgraphs"] * 2, [{"nodes": [], "arg_nodes": [], "heads": []}], 3):
        bad = json.loads(json.dumps(good))
        bad["nodes"][-1]["subgraphs"] = change
        with pytest.raises(mx.MXNetError):
            sym.load_json(json.dumps(bad))


# ---- operators written in Python -----------------------------------------------------------------------------------

class Affine(mx.operator.CustomOp):
    """y = factor * x * w; counts its training runs."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * in_data[1] * self.factor)
        if is_train:
            aux[0][:] += 1

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * in_data[1] * self.factor)
        self.assign(in_grad[1], req[1], out_grad[0] * in_data[0] * self.factor)


@mx.operator.register("graph_affine")
class AffineProp(mx.operator.CustomOpProp):
    def __init__(self, factor="1"):
        super().__init__()
        self.factor = float(factor)

    def list_arguments(self):
        return ["data", "w"]

    def list_auxiliary_states(self):
        return ["count"]

    def infer_shape(self, in_shape):
        return [in_shape[0], in_shape[0]], [in_shape[0]], [[1]]

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Affine(self.factor)


def test_custom_symbol():
    y = sym.Custom(sym.var("x"), op_type="graph_affine", factor=3, name="op")
    assert (y.list_arguments(), y.list_auxiliary_states(), y.list_outputs()) == \
        (["x", "op_w"], ["op_count"], ["op_output"])
    node = json.loads(y.tojson())["nodes"][-1]
    assert node["op"] == "Custom" and node["attrs"] == {"op_type": "graph_affine", "factor": "3"}
    for symbol in (y, sym.load_json(y.tojson())):
        executor = symbol.simple_bind(mx.current_context(), x=(2, 3))
        executor.arg_dict["x"][:], executor.arg_dict["op_w"][:] = 2, 5
        assert executor.forward(is_train=True)[0].asnumpy().tolist() == [[30] * 3] * 2
        executor.backward(nd.ones((2, 3)))
        assert executor.grad_dict["x"].asnumpy()[0, 0] == 15 and executor.grad_dict["op_w"].asnumpy()[0, 0] == 6
        assert executor.aux_dict["op_count"].asscalar() == 1
    with pytest.raises(ValueError):
        sym.Custom(sym.var("x"), op_type="no_such_operator")
    with pytest.raises(mx.MXNetError):
        sym.load_json(y.tojson().replace("graph_affine", "no_such_operator"))
    with pytest.raises(TypeError):
        sym.Custom(sym.var("x"), op_type="graph_affine", other=1)


def test_custom_in_blocks(tmp_path):
    def function(F, x, h, w, u):
        y = F.Custom(F.relu(x), w * 2, h, op_type="graph_affine", factor=0.5, name="inner")
        return [y + u.sum(), F.contrib.foreach(lambda r, s: (F.Custom(r, s, h, op_type="graph_affine"), s * 0.9), x,
                                               F.sum(w, axis=0))[0]]
    net = Net(function, ((3, 4), (3, 3)))
    x, count = arrays((3, 4))[0], nd.zeros((1,))

    def gradients():
        x.attach_grad()
        with autograd.record():
            outputs = net(x, count)
            sum((y * y).sum() for y in outputs).backward()
        return [y.asnumpy() for y in outputs] + [g.asnumpy() for g in (x.grad, net.w.grad(), net.u.grad())]
    wanted = gradients()
    assert count.asscalar() == 4
    net.hybridize()
    for _ in range(3):
        same(gradients(), wanted)
    assert count.asscalar() == 16
    path = str(tmp_path / "custom")
    net.export(path)
    again = gluon.SymbolBlock.imports(path + "-symbol.json", ["data0", "data1"], path + "-0000.params")
    same([y.asnumpy() for y in again(x, count)], wanted[:2])


class Failing(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        raise KeyError("forward")


@mx.operator.register("graph_failing")
class FailingProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Failing()


def test_exceptions_pass_through():
    net = nn.HybridLambda(lambda F, x: F.Custom(x, op_type="graph_failing") + 1)
    for active in (False, True):
        net.hybridize(active=active)
        with pytest.raises(KeyError, match="forward"):
            net(nd.ones(3))
    with pytest.raises(KeyError):
        sym.Custom(sym.var("x"), op_type="graph_failing").eval(x=nd.ones(2))


# ---- speed ---------------------------------------------------------------------------------------------------------

def test_not_slower_than_a_python_loop():
    class Recurrent(gluon.HybridBlock):
        def __init__(self, by_hand):
            super().__init__()
            self.by_hand = by_hand
            with self.name_scope():
                self.cell = rnn.LSTMCell(32, input_size=32)

        def forward(self, x, h, c):
            if not self.by_hand:
                return super().forward(x, h, c)
            outputs, states = [], [h, c]
            for t in range(x.shape[0]):
                y, states = self.cell(x[t], states)
                outputs.append(y)
            return nd.stack(*outputs)

        def hybrid_forward(self, F, x, h, c):
            return F.contrib.foreach(self.cell, x, [h, c])[0]
    inputs = arrays((35, 4, 32), (4, 32), (4, 32))
    best = []
    for by_hand in (False, True):
        net = Recurrent(by_hand)
        net.initialize()
        (net.cell if by_hand else net).hybridize()
        times = []
        for _ in range(8):
            start = time.perf_counter()
            with autograd.record():
                y = net(*inputs)
            y.backward()
            times.append(time.perf_counter() - start)
        best.append(min(times))
    assert best[0] < 1.2 * best[1], f"foreach {best[0] * 1e3:.2f} ms, a loop in Python {best[1] * 1e3:.2f} ms"


# ---- memory --------------------------------------------------------------------------------------------------------

def test_nothing_leaks():
    from mxnet import _core
    nets = [Net(loop), Net(search), Net(choice)]
    inputs = arrays((70, 2, 4), (2, 3))
    for net in nets:
        net.hybridize()

    def work():
        for net in nets:
            run(net, inputs, [net.w, net.u])
        for kind, call in FUNCTIONS.items():
            made = sym.Group(flat(call(sym, *(sym.var(n) for n in "xhwu"))))
            sym.load_json(made.tojson())
        sym.Custom(sym.var("x"), op_type="graph_affine").infer_shape(x=(2, 3))
        with pytest.raises(AssertionError):
            sym.contrib.foreach(lambda d, s: (d, 3), sym.var("x"), sym.var("s"))
        with pytest.raises(KeyError):
            nd.Custom(nd.ones(2), op_type="graph_failing")

    def live():
        import gc
        gc.collect()
        return _core.memory_in_use()["live_blocks"]
    for _ in range(12):
        work()
    before = live()
    for _ in range(20):
        work()
    assert live() == before
