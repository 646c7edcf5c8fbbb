"""OpenVINO: inference, for low latency.  SPDX-License-Identifier: Apache-2.0"""
import numpy as np
import openvino

from onnx_models import INFERENCE
from timing import Workloads, threads

work = Workloads("openvino", openvino.__version__)


def inference(make, batch):
    model, shape = make(batch)
    core = openvino.Core()
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads(),
                "INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(model, b""), "CPU", settings)
    request = compiled.create_infer_request()
    data = np.random.uniform(size=shape).astype("float32")
    return lambda: request.infer({0: data}, share_inputs=True, share_outputs=True)


for row, maker, size in INFERENCE:
    work(row, "compiled")(lambda maker=maker, size=size: inference(maker, size))

if __name__ == "__main__":
    work.serve()
