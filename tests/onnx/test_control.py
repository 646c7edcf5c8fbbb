"""Loops and conditions as ONNX files: run by ONNX Runtime, read back.

SPDX-License-Identifier: Apache-2.0
"""
import pytest

import mxnet as mx
from mxnet import gluon, nd
from mxnet.gluon import nn
from test_networks import check, listed, session_of


class Running(gluon.HybridBlock):
    """Sums of rows with a layer inside of the loop, and of single numbers."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.inner = nn.Dense(4, in_units=4)

    def hybrid_forward(self, F, x, numbers):
        def step(data, states):
            row, number = data
            total = F.broadcast_add(states[0] + F.tanh(self.inner(row)), F.reshape(number, shape=(1, 1)))
            return [total * 2, states[1] + 1], [total, states[1] + 1]

        zero = F.slice_axis(x, axis=0, begin=0, end=1)
        start = F.reshape(F.zeros_like(zero), shape=(-3, -2))
        outs, states = F.contrib.foreach(step, [x, numbers], [start, F.sum(start) + 3])
        return [*outs, *states]


class Halving(gluon.HybridBlock):
    """Halves until the sum is small; the number of steps depends on the values."""

    def hybrid_forward(self, F, x, scale):
        def condition(value, count):
            return F.sum(value) * scale > 1

        def step(value, count):
            return [value, count + 1], [value / 2, count + 1]

        outs, variables = F.contrib.while_loop(condition, step, [x, F.zeros_like(scale)], max_iterations=6)
        return [*outs, *variables]


class Choice(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.small, self.large = nn.Dense(3, in_units=5), nn.Dense(3, in_units=5, activation="relu")

    def hybrid_forward(self, F, x):
        return F.contrib.cond(F.sum(x) > 0, lambda: [self.small(x), x], lambda: [self.large(x) * 2, x])


def test_foreach(tmp_path):
    check(Running(), nd.random.normal(shape=(5, 2, 4)), nd.random.normal(shape=(5,)), path=str(tmp_path / "net.onnx"))


def test_while_loop(tmp_path):
    """All numbers of steps: none, some, as many as possible."""
    net, path = Halving(), str(tmp_path / "net.onnx")
    net.initialize()
    net.hybridize()
    x = nd.random.uniform(shape=(2, 3))
    net(x, nd.array([1.0]))
    net.export(path)
    session = session_of(path)
    for scale in (-1.0, 0.5, 2.0, 1000.0):
        xs = [x, nd.array([scale])]
        feeds = {i.name: v.asnumpy() for i, v in zip(session.get_inputs(), xs)}
        found = session.run(None, feeds)
        for a, b in zip(found, [y.asnumpy() for y in listed(net(*xs))], strict=True):
            assert a.shape == b.shape and abs(a - b).max() < 1e-6, scale


def test_cond(tmp_path):
    net, path = Choice(), str(tmp_path / "net.onnx")
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x = nd.random.uniform(shape=(2, 5))
    net(x)
    net.export(path)
    session, back = session_of(path), gluon.SymbolBlock.imports(path)
    for sign in (1, -1):
        wanted = [y.asnumpy() for y in net(x * sign)]
        found = session.run(None, {session.get_inputs()[0].name: (x * sign).asnumpy()})
        for a, b, c in zip(found, wanted, back(x * sign), strict=True):
            assert abs(a - b).max() < 1e-6 and abs(c.asnumpy() - b).max() < 1e-6


def test_refused_inside(tmp_path):
    """The error names the loop and the node in it."""
    x = mx.sym.var("x", shape=(3, 2))
    out, _ = mx.sym.contrib.foreach(lambda row, s: (mx.sym.erfinv(row, name="inverse"), s), x, [])
    with pytest.raises(mx.error.UnsupportedError, match=r"_foreach0/inverse.*erfinv"):
        mx.onnx.export_model(out, {}, [(3, 2)], onnx_file_path=str(tmp_path / "net.onnx"))


def test_open_loop(tmp_path):
    """A loop whose number of steps depends on the input, as other exporters write it."""
    import onnx
    from onnx import TensorProto as T, helper as h
    body = h.make_graph([h.make_node("Mul", ["v", "half"], ["w"]), h.make_node("ReduceSum", ["w"], ["sum"], keepdims=0),
                         h.make_node("Greater", ["sum", "one"], ["more"])], "body",
                        [h.make_tensor_value_info("i", T.INT64, []), h.make_tensor_value_info("c", T.BOOL, []),
                         h.make_tensor_value_info("v", T.FLOAT, [3])],
                        [h.make_tensor_value_info("more", T.BOOL, []), h.make_tensor_value_info("w", T.FLOAT, [3])])
    graph = h.make_graph([h.make_node("Loop", ["most", "", "x"], ["y"], body=body)], "g",
                         [h.make_tensor_value_info("x", T.FLOAT, [3])], [h.make_tensor_value_info("y", T.FLOAT, [3])],
                         [h.make_tensor("half", T.FLOAT, [], [0.5]), h.make_tensor("one", T.FLOAT, [], [1.0]),
                          h.make_tensor("most", T.INT64, [], [7])])
    path = str(tmp_path / "loop.onnx")
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
    session, net = session_of(path), gluon.SymbolBlock.imports(path)
    for scale in (0.1, 3, 20, 1e6):
        x = nd.array([1, 2, 3]) * scale
        assert (net(x).asnumpy() == session.run(None, {"x": x.asnumpy()})[0]).all()
