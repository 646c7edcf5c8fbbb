"""Sequences of arrays inside of a network, as PyTorch's old exporter writes them: lists while the file is read.

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
