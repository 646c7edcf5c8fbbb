"""The networks of the comparison as ONNX models, for the peers that read them.  SPDX-License-Identifier: Apache-2.0"""
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from workloads import MLP, TRANSFORMER, ZOO_INFERENCE


class Model:
    """A chain of nodes under construction."""

    def __init__(self, shape):
        self.input = helper.make_tensor_value_info("data", TensorProto.FLOAT, shape)
        self.nodes, self.values, self.last = [], [], "data"

    def weight(self, *shape):
        name = f"w{len(self.values)}"
        self.values.append(numpy_helper.from_array(np.random.uniform(-0.1, 0.1, shape).astype("float32"), name))
        return name

    def add(self, kind, *weights, **attributes):
        out = f"x{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, [self.last, *weights], [out], **attributes))
        self.last = out
        return self

    def dense(self, sizes):
        for i, (before, units) in enumerate(zip(sizes, sizes[1:])):
            self.add("Gemm", self.weight(units, before), self.weight(units), transB=1)
            if i + 2 < len(sizes):
                self.add("Relu")
        return self

    def integers(self, *numbers):
        """A constant list of integers, for shapes."""
        name = f"w{len(self.values)}"
        self.values.append(numpy_helper.from_array(np.array(numbers, "int64"), name))
        return name

    def at(self, value):
        """Continues from another value."""
        self.last = value
        return self

    def bytes(self, batch, shape=(10,), opset=13):
        out = helper.make_tensor_value_info(self.last, TensorProto.FLOAT, [batch, *shape])
        graph = helper.make_graph(self.nodes, "net", [self.input], [out], self.values)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 8
        onnx.checker.check_model(model)
        return model.SerializeToString()


def mlp(batch):
    """The model and the shape of its input."""
    shape = [batch, MLP[0]]
    return Model(shape).dense(MLP).bytes(batch), shape


def lenet(batch):
    """The model and the shape of its input."""
    shape = [batch, 1, 28, 28]
    model = Model(shape)
    model.add("Conv", model.weight(6, 1, 5, 5), model.weight(6), pads=[2] * 4).add("Relu")
    model.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    model.add("Conv", model.weight(16, 6, 5, 5), model.weight(16)).add("Relu")
    model.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2]).add("Flatten")
    return model.dense((400, 120, 84, 10)).bytes(batch), shape


def transformer(batch, steps=128):
    """Encoder cells: attention and dense layers, each followed by a sum and a normalisation."""
    units, heads, hidden = TRANSFORMER["units"], TRANSFORMER["heads"], TRANSFORMER["hidden"]
    shape = [batch, steps, units]
    model = Model(shape)

    def dense(before, after):
        return model.add("MatMul", model.weight(before, after)).add("Add", model.weight(after)).last

    def normalised(added):
        model.add("Add", added).add("LayerNormalization", model.weight(units), model.weight(units), epsilon=1e-5)
        return model.last

    def split_heads(x, order):
        return model.at(x).add("Reshape", model.integers(0, 0, heads, units // heads)).add("Transpose", perm=order).last

    for _ in range(TRANSFORMER["layers"]):
        x = model.last
        query, key, value = [split_heads(dense(units, units) if model.at(x) else None, order)
                             for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])]
        scale = model.weight(1)
        model.at(query).add("MatMul", key).add("Mul", scale).add("Softmax", axis=3).add("MatMul", value)
        model.add("Transpose", perm=[0, 2, 1, 3]).add("Reshape", model.integers(0, 0, units))
        dense(units, units)
        x = normalised(x)
        dense(units, hidden)
        model.add("Relu")
        dense(hidden, units)
        normalised(x)
    return model.bytes(batch, shape[1:], 17), shape


def zoo(name):
    """A network that export_zoo.py has written; the driver says where."""
    def made(batch):
        with open(os.path.join(os.environ["SIDE_MODELS"], f"{name}-{batch}.onnx"), "rb") as file:
            return file.read(), (batch, 3, 224, 224)
    return made


# row, maker, batch
INFERENCE = (("transformer_infer1", transformer, 1), ("mlp_infer", mlp, 64), ("lenet_infer", lenet, 64), ("lenet_infer1", lenet, 1),
             *((row, zoo(name), batch) for row, name, batch in ZOO_INFERENCE))
