"""Every layer and loss with inputs, for the tests of hybrid blocks and of exported files."""
from mxnet import gluon, nd
from mxnet.gluon import nn

PLANE = (2, 4, 7, 6)  # batch, channels, height, width
LAYERS = {
    "Dense": (lambda: nn.Dense(3), [(4, 5)]),
    "Dense flat": (lambda: nn.Dense(3, flatten=False, activation="sigmoid"), [(2, 4, 5)]),
    "Dense no bias": (lambda: nn.Dense(3, use_bias=False), [(2, 4, 5)]),
    "Activation": (lambda: nn.Activation("softrelu"), [PLANE]),
    "LeakyReLU": (lambda: nn.LeakyReLU(0.2), [PLANE]),
    "PReLU": (lambda: nn.PReLU(), [PLANE]),
    "ELU": (lambda: nn.ELU(0.7), [PLANE]),
    "SELU": (lambda: nn.SELU(), [PLANE]),
    "GELU": (lambda: nn.GELU(), [PLANE]),
    "Swish": (lambda: nn.Swish(1.5), [PLANE]),
    "LayerNorm": (lambda: nn.LayerNorm(), [PLANE]),
    "InstanceNorm": (lambda: nn.InstanceNorm(), [PLANE]),
    "GroupNorm": (lambda: nn.GroupNorm(2), [PLANE]),
    "BatchNorm": (lambda: nn.BatchNorm(), [PLANE]),
    "BatchNormReLU": (lambda: nn.BatchNormReLU(), [PLANE]),
    "Dropout": (lambda: nn.Dropout(0.4), [PLANE]),
    "Flatten": (lambda: nn.Flatten(), [PLANE]),
    "Identity": (lambda: nn.Identity(), [PLANE]),
    "ReflectionPad2D": (lambda: nn.ReflectionPad2D(2), [PLANE]),
    "Conv1D": (lambda: nn.Conv1D(3, 2, strides=2, padding=1), [(2, 4, 9)]),
    "Conv2D": (lambda: nn.Conv2D(6, (3, 2), padding=(1, 0), groups=2, activation="relu"), [PLANE]),
    "Conv3D": (lambda: nn.Conv3D(3, 2, use_bias=False), [(2, 2, 4, 5, 4)]),
    "Conv1DTranspose": (lambda: nn.Conv1DTranspose(3, 3, strides=2), [(2, 4, 5)]),
    "Conv2DTranspose": (lambda: nn.Conv2DTranspose(3, 3, strides=2, padding=1, output_padding=1), [PLANE]),
    "Conv3DTranspose": (lambda: nn.Conv3DTranspose(2, 2), [(1, 2, 3, 3, 3)]),
    "Embedding": (lambda: nn.Embedding(10, 4), [(3, 2)]),
    "MultiHeadAttention": (lambda: nn.MultiHeadAttention(6, 2), [(2, 5, 6), (2, 3, 6)]),
    "PositionwiseFFN": (lambda: nn.PositionwiseFFN(6, 8), [(2, 5, 6)]),
    "TransformerEncoderCell": (lambda: nn.TransformerEncoderCell(6, 8, 2), [(2, 5, 6)]),
    "TransformerDecoderCell": (lambda: nn.TransformerDecoderCell(6, 8, 2), [(2, 5, 6), (2, 3, 6)]),
    "TransformerEncoder": (lambda: nn.TransformerEncoder(2, 6, 8, 2, pre_norm=True), [(2, 5, 6)]),
    "TransformerDecoder": (lambda: nn.TransformerDecoder(2, 6, 8, 2), [(2, 5, 6), (2, 3, 6)]),
    "SinusoidalPositionalEmbedding": (lambda: nn.SinusoidalPositionalEmbedding(6), [(2, 5, 6)]),
    "MaxPool1D": (lambda: nn.MaxPool1D(2), [(2, 3, 8)]),
    "MaxPool2D": (lambda: nn.MaxPool2D((3, 2), strides=2, padding=1), [PLANE]),
    "MaxPool3D": (lambda: nn.MaxPool3D(2), [(1, 2, 4, 4, 4)]),
    "AvgPool1D": (lambda: nn.AvgPool1D(2), [(2, 3, 8)]),
    "AvgPool2D": (lambda: nn.AvgPool2D(2, ceil_mode=True, count_include_pad=False), [PLANE]),
    "AvgPool3D": (lambda: nn.AvgPool3D(2), [(1, 2, 4, 4, 4)]),
    "GlobalMaxPool1D": (lambda: nn.GlobalMaxPool1D(), [(2, 3, 8)]),
    "GlobalMaxPool2D": (lambda: nn.GlobalMaxPool2D(), [PLANE]),
    "GlobalMaxPool3D": (lambda: nn.GlobalMaxPool3D(), [(1, 2, 4, 4, 4)]),
    "GlobalAvgPool1D": (lambda: nn.GlobalAvgPool1D(), [(2, 3, 8)]),
    "GlobalAvgPool2D": (lambda: nn.GlobalAvgPool2D(), [PLANE]),
    "GlobalAvgPool3D": (lambda: nn.GlobalAvgPool3D(), [(1, 2, 4, 4, 4)]),
    "HybridLambda": (lambda: nn.HybridLambda("tanh"), [PLANE]),
    "HybridConcatenate": (lambda: _concatenate(), [(2, 5)]),
}
LOSSES = {
    "L2Loss": (lambda: gluon.loss.L2Loss(), [(4, 3), (4, 3)]),
    "L1Loss": (lambda: gluon.loss.L1Loss(), [(4, 3), (4, 3)]),
    "HuberLoss": (lambda: gluon.loss.HuberLoss(0.3), [(4, 3), (4, 3)]),
    "HingeLoss": (lambda: gluon.loss.HingeLoss(), [(4, 3), (4, 3)]),
    "SquaredHingeLoss": (lambda: gluon.loss.SquaredHingeLoss(), [(4, 3), (4, 3)]),
    "LogisticLoss": (lambda: gluon.loss.LogisticLoss(label_format="binary"), [(4, 3), (4, 3)]),
    "PoissonNLLLoss": (lambda: gluon.loss.PoissonNLLLoss(), [(4, 3), (4, 3)]),
    "SigmoidBinaryCrossEntropyLoss": (lambda: gluon.loss.SigmoidBinaryCrossEntropyLoss(), [(4, 3), (4, 3)]),
    "SoftmaxCrossEntropyLoss": (lambda: gluon.loss.SoftmaxCrossEntropyLoss(), [(4, 3), (4,)]),
    "SoftmaxCrossEntropyLoss dense": (lambda: gluon.loss.SoftmaxCrossEntropyLoss(sparse_label=False), [(4, 3), (4, 3)]),
    "KLDivLoss": (lambda: gluon.loss.KLDivLoss(from_logits=False), [(4, 3), (4, 3)]),
    "TripletLoss": (lambda: gluon.loss.TripletLoss(), [(4, 3), (4, 3), (4, 3)]),
    "CosineEmbeddingLoss": (lambda: gluon.loss.CosineEmbeddingLoss(), [(4, 3), (4, 3), (4,)]),
    "CTCLoss": (lambda: gluon.loss.CTCLoss(), [(2, 6, 5), (2, 3)]),
    "weighted": (lambda: gluon.loss.L2Loss(weight=3.0), [(4, 3), (4, 3), (4, 1)]),
}


def _concatenate():
    net = nn.HybridConcatenate(axis=1)
    net.add(nn.Dense(2), nn.Identity())
    return net


class Residual(gluon.HybridBlock):
    """A block with children, its own parameter, slicing, arithmetic and broadcasting."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.body = nn.HybridSequential()
            self.body.add(nn.Conv2D(4, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
            self.scale = self.params.get("scale", shape=(1, 4, 1, 1), init="ones")

    def hybrid_forward(self, F, x, scale):
        y = self.body(x) * scale + x
        return F.relu(y)[:, :, 1:, ::2] * 2 - 1


class TwoResults(gluon.HybridBlock):
    """Nested inputs and results."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.cell = nn.Dense(4, flatten=False)

    def hybrid_forward(self, F, x, states):
        h = F.tanh(self.cell(x) + states[0])
        return h, [h * states[1], h.sum(axis=1)]


class Plain(gluon.HybridBlock):
    """forward instead of hybrid_forward, with the operators of mx.nd and a shape that is read."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.hidden = nn.Dense(6, activation="tanh")
            self.gain = self.params.get("gain", shape=(6,), init="ones")

    def forward(self, x):
        y = nd.broadcast_mul(self.hidden(x), self.gain.data())
        return y.reshape((x.shape[0], 2, 3)) / x.shape[1]


NETWORKS = {
    "Residual": (Residual, [(2, 4, 5, 6)]),
    "Plain": (Plain, [(3, 5)]),
    "LeNet": (lambda: _lenet(), [(2, 1, 20, 20)]),
}


def _lenet():
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Conv2D(6, 5, activation="relu"), nn.MaxPool2D(2, 2), nn.Conv2D(8, 3, activation="relu"),
                nn.MaxPool2D(2, 2), nn.Dense(12, activation="relu"), nn.Dropout(0.5), nn.Dense(10))
    return net


ALL = {**LAYERS, **LOSSES, **NETWORKS}


def inputs_of(name, batch=None):
    """Arrays for a case: small integers for indices and labels."""
    arrays = []
    for i, shape in enumerate(ALL[name][1]):
        shape = shape if batch is None else (batch,) + shape[1:]
        if name == "Embedding" or (i == 1 and name in ("SoftmaxCrossEntropyLoss", "CTCLoss")):
            arrays.append(nd.random.randint(0, 3, shape=shape).astype("float32"))
        else:
            arrays.append(nd.random.uniform(0.05, 0.95, shape=shape))
    return arrays
