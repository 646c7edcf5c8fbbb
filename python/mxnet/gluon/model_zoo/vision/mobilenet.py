"""MobileNet version 1 (Howard et al. 2017, "MobileNets: Efficient Convolutional Neural Networks for Mobile Vision
Applications") and 2 (Sandler et al. 2018, "MobileNetV2: Inverted Residuals and Linear Bottlenecks")."""
from ....context import cpu
from ... import nn
from ...block import HybridBlock
from ._build import ROOT, Classifier, conv_norm, load_pretrained, named, sequence

__all__ = ["MobileNet", "MobileNetV2", "mobilenet1_0", "mobilenet0_75", "mobilenet0_5", "mobilenet0_25",
           "mobilenet_v2_1_0", "mobilenet_v2_0_75", "mobilenet_v2_0_5", "mobilenet_v2_0_25", "get_mobilenet",
           "get_mobilenet_v2"]


class RELU6(HybridBlock):
    """min(max(x, 0), 6)."""

    def hybrid_forward(self, F, x):
        return F.clip(x, 0, 6)


# Version 1, modules of one convolution per channel and one of 1x1: channels that come out, stride.
_SEPARABLE = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)] + [(512, 1)] * 5 + [(1024, 2), (1024, 1)]

# Version 2: how much the channels are expanded, channels that come out, number of bottlenecks, stride of the first.
_BOTTLENECKS = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                (6, 320, 1, 1)]


class MobileNet(Classifier):
    """Version 1; all channels are multiplied by multiplier."""

    def __init__(self, multiplier=1.0, classes=1000, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            before = int(32 * multiplier)
            self.features = sequence(conv_norm(before, 3, 2, 1))
            for row, stride in _SEPARABLE:
                channels = int(row * multiplier)
                self.features.add(*conv_norm(before, 3, stride, 1, groups=before), *conv_norm(channels, 1))
                before = channels
            self.features.add(nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes)


def _conv_relu6(*args, **kwargs):
    return conv_norm(*args, activation=None, **kwargs) + [RELU6()]


class LinearBottleneck(HybridBlock):
    """1x1 convolution to t times the channels, 3x3 per channel, 1x1 to fewer; the input is added where it fits."""

    def __init__(self, in_channels, channels, t, stride, **kwargs):
        super().__init__(**kwargs)
        self.use_shortcut = stride == 1 and in_channels == channels
        inner = in_channels * t
        with self.name_scope():
            self.out = sequence(_conv_relu6(inner, 1), _conv_relu6(inner, 3, stride, 1, groups=inner),
                                conv_norm(channels, 1, activation=None), prefix=None)

    def hybrid_forward(self, F, x):
        y = self.out(x)
        return y + x if self.use_shortcut else y


class MobileNetV2(Classifier):
    """Version 2; all channels are multiplied by multiplier (the last ones only if it is above 1)."""

    def __init__(self, multiplier=1.0, classes=1000, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="features_")
            with self.features.name_scope():
                self._fill(multiplier)
            self.output = nn.HybridSequential(prefix="output_")
            with self.output.name_scope():
                self.output.add(nn.Conv2D(classes, 1, use_bias=False, prefix="pred_"), nn.Flatten())

    def _fill(self, multiplier):
        before = int(32 * multiplier)
        self.features.add(*_conv_relu6(before, 3, 2, 1))
        for expand, row, count, first in _BOTTLENECKS:
            channels = int(row * multiplier)
            for stride in [first] + [1] * (count - 1):
                self.features.add(LinearBottleneck(before, channels, expand, stride))
                before = channels
        self.features.add(*_conv_relu6(int(1280 * max(multiplier, 1)), 1), nn.GlobalAvgPool2D())


def get_mobilenet(multiplier, pretrained=False, ctx=cpu(), root=ROOT, **kwargs):
    """MobileNet version 1 with a multiplier of channels (parameters exist for 1, 0.75, 0.5 and 0.25)."""
    return load_pretrained(MobileNet(multiplier, **kwargs), f"mobilenet{float(multiplier)}", pretrained, ctx, root)


def get_mobilenet_v2(multiplier, pretrained=False, ctx=cpu(), root=ROOT, **kwargs):
    """MobileNet version 2 with a multiplier of channels (parameters exist for 1, 0.75, 0.5 and 0.25)."""
    return load_pretrained(MobileNetV2(multiplier, **kwargs), f"mobilenetv2_{float(multiplier)}", pretrained, ctx, root)


mobilenet1_0 = named("mobilenet1_0", get_mobilenet, 1.0)
mobilenet0_75 = named("mobilenet0_75", get_mobilenet, 0.75)
mobilenet0_5 = named("mobilenet0_5", get_mobilenet, 0.5)
mobilenet0_25 = named("mobilenet0_25", get_mobilenet, 0.25)
mobilenet_v2_1_0 = named("mobilenet_v2_1_0", get_mobilenet_v2, 1.0)
mobilenet_v2_0_75 = named("mobilenet_v2_0_75", get_mobilenet_v2, 0.75)
mobilenet_v2_0_5 = named("mobilenet_v2_0_5", get_mobilenet_v2, 0.5)
mobilenet_v2_0_25 = named("mobilenet_v2_0_25", get_mobilenet_v2, 0.25)
