"""Networks of the model zoo as ONNX files, for the peers that read them: export_zoo.py FOLDER.

SPDX-License-Identifier: Apache-2.0
"""
import os
import sys

import mxnet as mx
from mxnet import nd
from mxnet.gluon.model_zoo import vision

from workloads import ZOO_INFERENCE


def export(name, batch, folder):
    net = getattr(vision, name)()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    net(nd.zeros((batch, 3, 224, 224)))
    net.export(os.path.join(folder, f"{name}-{batch}.onnx"))


if __name__ == "__main__":
    for _, name, batch in ZOO_INFERENCE:
        export(name, batch, sys.argv[1])
