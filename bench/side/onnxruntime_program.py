"""ONNX Runtime: inference.  SPDX-License-Identifier: Apache-2.0"""
import numpy as np
import onnxruntime

from onnx_models import INFERENCE
from timing import Workloads, threads

work = Workloads("onnxruntime", onnxruntime.__version__)


def inference(make, batch):
    model, shape = make(batch)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    data = {"data": np.random.uniform(size=shape).astype("float32")}
    return lambda: session.run(None, data)


for row, maker, size in INFERENCE:
    work(row, "session")(lambda maker=maker, size=size: inference(maker, size))

if __name__ == "__main__":
    work.serve()
