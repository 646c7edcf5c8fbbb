"""The networks of the comparison as ONNX models, for the peers that read them.  SPDX-License-Identifier: Apache-2.0"""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from workloads import MLP


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

    def bytes(self, batch):
        out = helper.make_tensor_value_info(self.last, TensorProto.FLOAT, [batch, 10])
        graph = helper.make_graph(self.nodes, "net", [self.input], [out], self.values)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
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


# row, maker, batch
INFERENCE = (("mlp_infer", mlp, 64), ("lenet_infer", lenet, 64), ("lenet_infer1", lenet, 1))
