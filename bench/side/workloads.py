"""The rows of the comparison.  A new row is a line here and a function in every program that can run it.

SPDX-License-Identifier: Apache-2.0
"""
from collections import namedtuple

Row = namedtuple("Row", "name group title")

# Sizes of the networks that every program builds.
BATCH = 64
MLP = (784, 256, 128, 10)
# LeNet: conv 6@5x5 (padding 2), pool, conv 16@5x5, pool, 120, 84, 10, with ReLU, on 28x28
LSTM = dict(vocabulary=10000, embed=200, hidden=200, layers=2, steps=35, batch=20)
ENCODER = dict(units=256, heads=4, hidden=1024, steps=64, batch=8)
LANGUAGE = dict(vocabulary=10000, embed=650, hidden=650, layers=2, steps=35, batch=20)
TRANSFORMER = dict(layers=6, units=512, heads=8, hidden=2048)
ZOO_INFERENCE = (("resnet18_infer1", "resnet18_v1", 1), ("resnet50_infer1", "resnet50_v1", 1),  # row, network, batch
                 ("mobilenet2_infer1", "mobilenet_v2_1_0", 1), ("resnet50_infer32", "resnet50_v1", 32),
                 ("mobilenet2_infer32", "mobilenet_v2_1_0", 32))

ROWS = [
    Row("add", "small", "a + b, 16 elements"),
    Row("add_recorded", "small", "a + b, 16 elements, recorded"),
    Row("reshape", "small", "x.reshape, 4x4"),
    Row("index", "small", "x[0], 4x4"),
    Row("dot", "small", "dot, 4x4"),
    Row("dense", "small", "Dense 16 on (4, 16)"),
    Row("sequential", "small", "Sequential of 3 Dense 16"),
    Row("mlp_train", "network", "MLP 784-256-128-10, batch 64, training step"),
    Row("mlp_infer", "network", "MLP 784-256-128-10, batch 64, inference"),
    Row("lenet_train", "network", "LeNet, batch 64, training step"),
    Row("lenet_infer", "network", "LeNet, batch 64, inference"),
    Row("lenet_infer1", "network", "LeNet, batch 1, inference"),
    Row("lstm_train", "network", "LSTM 2x200, 20 x 35 words, training step"),
    Row("language_train", "network", "LSTM 2x650, 20 x 35 of 10,000 words, training step"),
    Row("transformer_train", "network", "Transformer encoder 6x512, 8 x 64, training step"),
    Row("transformer_infer1", "network", "Transformer encoder 6x512, 1 x 128, inference"),
    Row("resnet18_train", "network", "ResNet-18 v1, 224x224, batch 8, training step"),
    Row("mobilenet2_train", "network", "MobileNet v2, 224x224, batch 8, training step"),
    Row("encoder_infer", "network", "Transformer layer 256, 8 x 64, inference"),
    Row("resnet18_infer1", "network", "ResNet-18 v1, 224x224, batch 1, inference"),
    Row("resnet50_infer1", "network", "ResNet-50 v1, 224x224, batch 1, inference"),
    Row("mobilenet2_infer1", "network", "MobileNet v2, 224x224, batch 1, inference"),
    Row("resnet50_infer32", "network", "ResNet-50 v1, 224x224, batch 32, inference"),
    Row("mobilenet2_infer32", "network", "MobileNet v2, 224x224, batch 32, inference"),
    Row("loader", "data", "Fashion-MNIST, 64 shuffled images, ToTensor"),
    Row("import", "process", "import"),
    Row("memory", "process", "peak memory of LeNet training, batch 64"),
]

# What `import` means for each; the interpreter's own start is not counted.
IMPORTS = {
    "gluon": "import mxnet as mx; from mxnet import nd, autograd, gluon",
    "mxnet": "import mxnet as mx; from mxnet import nd, autograd, gluon",
    "numpy": "import numpy",
    "torch": "import torch",
    "jax": "import jax, jax.numpy",
    "onnxruntime": "import onnxruntime",
    "openvino": "import openvino",
}

PROGRAMS = {"gluon": "gluon_program.py", "mxnet": "gluon_program.py", "numpy": "numpy_program.py",
            "torch": "torch_program.py", "jax": "jax_program.py", "onnxruntime": "onnxruntime_program.py",
            "openvino": "openvino_program.py"}
NAMES = {"gluon": "Gluon (ours)", "mxnet": "MXNet", "numpy": "NumPy", "torch": "PyTorch", "jax": "JAX",
         "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}

FASHION_MNIST = "/usr/share/datasets/fashion-mnist"
