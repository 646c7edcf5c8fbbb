"""Sequences of arrays inside of a network, as PyTorch's old exporter writes them: lists while the file is read.

Also recurrent layers whose sequences have different lengths.

SPDX-License-Identifier: Apache-2.0
"""
import numpy as np
import onnx
import pytest
from onnx import TensorProto as T, helper as h, numpy_helper

import mxnet as mx
from mxnet import gluon, nd
from test_networks import session_of

CONSTANTS = {"zero": 0, "one": 1, "two": 2, "last": -1}
# Nodes from x (N, 6) to y.
GRAPHS = {
    "split and take": [("SplitToSequence", ["x", "two"], ["s"], {"axis": 1}), ("SequenceAt", ["s", "last"], ["y"], {})],
    "single columns": [("SplitToSequence", ["x"], ["s"], {"axis": 1, "keepdims": 0}), ("SequenceAt", ["s", "two"], ["y"], {})],
    "uneven parts": [("SplitToSequence", ["x", "parts"], ["s"], {"axis": 1}), ("SequenceAt", ["s", "one"], ["y"], {})],
    "stack": [("Relu", ["x"], ["r"], {}), ("SequenceConstruct", ["x", "r"], ["s"], {}), ("ConcatFromSequence", ["s"], ["y"], {"axis": 1, "new_axis": 1})],
    "insert and erase": [("SequenceEmpty", [], ["a"], {}), ("SequenceInsert", ["a", "x"], ["b"], {}), ("Neg", ["x"], ["m"], {}),
                         ("SequenceInsert", ["b", "m", "zero"], ["c"], {}), ("SequenceInsert", ["c", "m"], ["d"], {}),
                         ("SequenceErase", ["d", "one"], ["e"], {}), ("ConcatFromSequence", ["e"], ["y"], {"axis": 1})],
    "length": [("SplitToSequence", ["x", "two"], ["s"], {"axis": 1}), ("SequenceLength", ["s"], ["n"], {}),
               ("Cast", ["n"], ["f"], {"to": T.FLOAT}), ("Mul", ["x", "f"], ["y"], {})],
}


def save(nodes, path):
    graph = h.make_graph([h.make_node(op, a, b, name=b[0], **attrs) for op, a, b, attrs in nodes], "g",
                         [h.make_tensor_value_info("x", T.FLOAT, ["N", 6])], [h.make_tensor_value_info("y", T.FLOAT, None)],
                         [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in CONSTANTS.items()] +
                         [numpy_helper.from_array(np.array([1, 3, 2], np.int64), "parts")])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.parametrize("name", GRAPHS)
def test_sequences(name, tmp_path):
    path = str(tmp_path / "net.onnx")
    save(GRAPHS[name], path)
    session, net = session_of(path), gluon.SymbolBlock.imports(path)
    for rows in (2, 5):
        x = np.random.randn(rows, 6).astype("float32")
        np.testing.assert_array_equal(net(nd.array(x)).asnumpy(), session.run(None, {"x": x})[0])


@pytest.mark.parametrize("nodes, message", [
    ([("SplitToSequence", ["x", "two"], ["s"], {"axis": 1}), ("Relu", ["s"], ["y"], {})], r"node 'y' \(Relu\).*'s' is a sequence"),
    ([("SequenceAt", ["x", "one"], ["y"], {})], r"\(SequenceAt\).*not a sequence"),
    ([("SequenceConstruct", ["x"], ["s"], {}), ("SequenceAt", ["s", "two"], ["y"], {})], r"\(SequenceAt\).*position 2 of a sequence of 1"),
    ([("SequenceConstruct", ["x"], ["y"], {})], "output 'y' is a sequence"),
    ([("SplitToSequence", ["x", "last"], ["s"], {"axis": 1}), ("SequenceAt", ["s", "zero"], ["y"], {})], r"\(SplitToSequence\)"),
], ids=["used as an array", "no sequence", "beyond the end", "as a result", "negative parts"])
def test_errors(nodes, message, tmp_path):
    path = str(tmp_path / "net.onnx")
    save(nodes, path)
    with pytest.raises(mx.MXNetError, match=message):
        gluon.SymbolBlock.imports(path)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op, gates", [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_lengths(op, gates, direction, tmp_path):
    path, random, both = str(tmp_path / "net.onnx"), np.random.RandomState(1), 1 + (direction == "bidirectional")
    weights = {"w": (both, gates * 4, 3), "r": (both, gates * 4, 4), "b": (both, gates * 8)}
    options = {"linear_before_reset": 1} if op == "GRU" else {}
    node = h.make_node(op, ["x", "w", "r", "b", "n"], ["y", "last"], hidden_size=4, direction=direction, **options)
    outputs = [h.make_tensor_value_info(name, T.FLOAT, None) for name in ("y", "last")]
    graph = h.make_graph([node], "g", [h.make_tensor_value_info("x", T.FLOAT, [5, "N", 3]), h.make_tensor_value_info("n", T.INT32, ["N"])],
                         outputs, [numpy_helper.from_array(random.randn(*shape).astype("float32"), name) for name, shape in weights.items()])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
    session, net = session_of(path), gluon.SymbolBlock.imports(path)
    for lengths in ([5, 2, 3], [1, 4]):
        x, n = random.randn(5, len(lengths), 3).astype("float32"), np.array(lengths, "int32")
        found = net(nd.array(x), nd.array(n, dtype="int32"))
        for a, b in zip(found, session.run(None, {"x": x, "n": n}), strict=True):
            np.testing.assert_allclose(a.asnumpy(), b, rtol=1e-4, atol=1e-5)
