"""Residual networks: version 1 (He et al. 2015, "Deep Residual Learning for Image Recognition") normalises after each
convolution, version 2 (He et al. 2016, "Identity Mappings in Deep Residual Networks") before it."""
from ....context import cpu
from ... import nn
from ...block import HybridBlock
from ._build import ROOT, Classifier, load_pretrained, named, sequence

__all__ = ["ResNetV1", "ResNetV2", "BasicBlockV1", "BasicBlockV2", "BottleneckV1", "BottleneckV2", "get_resnet",
           "resnet18_v1", "resnet34_v1", "resnet50_v1", "resnet101_v1", "resnet152_v1",
           "resnet18_v2", "resnet34_v2", "resnet50_v2", "resnet101_v2", "resnet152_v2"]


def _conv3x3(channels, stride, in_channels):
    return nn.Conv2D(channels, 3, stride, 1, use_bias=False, in_channels=in_channels)


class _BlockV1(HybridBlock):
    """relu(body(x) + shortcut(x)); the shortcut is x, or its projection if downsample is set."""

    def __init__(self, channels, stride, downsample=False, in_channels=0, **kwargs):
        super().__init__(**kwargs)
        self.body = sequence(self._body(channels, stride, in_channels))
        self.downsample = sequence(nn.Conv2D(channels, 1, stride, use_bias=False, in_channels=in_channels),
                                   nn.BatchNorm()) if downsample else None

    def hybrid_forward(self, F, x):
        shortcut = self.downsample(x) if self.downsample else x
        return F.Activation(self.body(x) + shortcut, act_type="relu")


class BasicBlockV1(_BlockV1):
    """Two 3x3 convolutions."""

    @staticmethod
    def _body(channels, stride, in_channels):
        return [_conv3x3(channels, stride, in_channels), nn.BatchNorm(), nn.Activation("relu"),
                _conv3x3(channels, 1, channels), nn.BatchNorm()]


class BottleneckV1(_BlockV1):
    """A 3x3 convolution on a quarter of the channels between two 1x1 convolutions."""

    @staticmethod
    def _body(channels, stride, in_channels):
        return [nn.Conv2D(channels // 4, 1, stride), nn.BatchNorm(), nn.Activation("relu"),
                _conv3x3(channels // 4, 1, channels // 4), nn.BatchNorm(), nn.Activation("relu"),
                nn.Conv2D(channels, 1, 1), nn.BatchNorm()]


class _BlockV2(HybridBlock):
    """x, or the projection of the first activation, plus normalised and activated convolutions."""

    def __init__(self, channels, stride, downsample=False, in_channels=0, **kwargs):
        super().__init__(**kwargs)
        self._count = 0
        for conv in self._convolutions(channels, stride, in_channels):
            self._count += 1
            setattr(self, f"bn{self._count}", nn.BatchNorm())
            setattr(self, f"conv{self._count}", conv)
        self.downsample = (nn.Conv2D(channels, 1, stride, use_bias=False, in_channels=in_channels)
                           if downsample else None)

    def hybrid_forward(self, F, x):
        shortcut = x
        for i in range(1, self._count + 1):
            x = F.Activation(getattr(self, f"bn{i}")(x), act_type="relu")
            if i == 1 and self.downsample:
                shortcut = self.downsample(x)
            x = getattr(self, f"conv{i}")(x)
        return x + shortcut


class BasicBlockV2(_BlockV2):
    """Two 3x3 convolutions."""

    @staticmethod
    def _convolutions(channels, stride, in_channels):
        return [_conv3x3(channels, stride, in_channels), _conv3x3(channels, 1, channels)]


class BottleneckV2(_BlockV2):
    """A 3x3 convolution on a quarter of the channels between two 1x1 convolutions."""

    @staticmethod
    def _convolutions(channels, stride, in_channels):
        return [nn.Conv2D(channels // 4, 1, 1, use_bias=False), _conv3x3(channels // 4, stride, channels // 4),
                nn.Conv2D(channels, 1, 1, use_bias=False)]


class _ResNet(Classifier):
    """First layers, stages of blocks, pooling, scores.

    layers are the numbers of blocks of the stages, channels those of the first convolution and of the stages.  With
    thumbnail the first layers are one 3x3 convolution, for images of about 32 x 32.
    """

    def __init__(self, block, layers, channels, classes=1000, thumbnail=False, **kwargs):
        if len(layers) != len(channels) - 1:
            raise AssertionError(f"{type(self).__name__}: channels wants one number more than layers (that of the "
                                 f"first convolution), got {len(channels)} and {len(layers)}")
        super().__init__(**kwargs)
        with self.name_scope():
            stages = [lambda at=at: self._stage(block, layers[at], channels[at + 1], at, channels[at])
                      for at in range(len(layers))]
            self.features = sequence(*self._features(channels[0], thumbnail, stages))
            self.output = nn.Dense(classes, in_units=channels[-1])

    @staticmethod
    def _stem(channels, thumbnail):
        if thumbnail:
            return [_conv3x3(channels, 1, 0)]
        return [nn.Conv2D(channels, 7, 2, 3, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
                nn.MaxPool2D(3, 2, 1)]

    @staticmethod
    def _stage(block, count, channels, at, in_channels):
        stage = nn.HybridSequential(prefix=f"stage{at + 1}_")
        with stage.name_scope():
            stage.add(block(channels, 1 if at == 0 else 2, channels != in_channels, in_channels=in_channels, prefix=""))
            stage.add(*[block(channels, 1, False, in_channels=channels, prefix="") for _ in range(count - 1)])
        return stage


class ResNetV1(_ResNet):
    __doc__ = _ResNet.__doc__.replace("First layers", "Version 1: first layers", 1)

    def _features(self, channels, thumbnail, stages):
        return [self._stem(channels, thumbnail), [make() for make in stages], nn.GlobalAvgPool2D()]


class ResNetV2(_ResNet):
    __doc__ = _ResNet.__doc__.replace("First layers", "Version 2: normalised input, first layers", 1)

    def _features(self, channels, thumbnail, stages):
        return [nn.BatchNorm(scale=False, center=False), self._stem(channels, thumbnail), [make() for make in stages],
                nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Flatten()]


# Number of layers: kind of block, blocks per stage, channels of the first convolution and of the stages.
resnet_spec = {
    18: ("basic_block", [2, 2, 2, 2], [64, 64, 128, 256, 512]),
    34: ("basic_block", [3, 4, 6, 3], [64, 64, 128, 256, 512]),
    50: ("bottle_neck", [3, 4, 6, 3], [64, 256, 512, 1024, 2048]),
    101: ("bottle_neck", [3, 4, 23, 3], [64, 256, 512, 1024, 2048]),
    152: ("bottle_neck", [3, 8, 36, 3], [64, 256, 512, 1024, 2048]),
}
resnet_net_versions = [ResNetV1, ResNetV2]
resnet_block_versions = [{"basic_block": BasicBlockV1, "bottle_neck": BottleneckV1},
                         {"basic_block": BasicBlockV2, "bottle_neck": BottleneckV2}]


def get_resnet(version, num_layers, pretrained=False, ctx=cpu(), root=ROOT, **kwargs):
    """A residual network of version 1 or 2 with 18, 34, 50, 101 or 152 layers."""
    if num_layers not in resnet_spec:
        raise AssertionError(f"get_resnet: num_layers is {num_layers!r}, wanted is one of {list(resnet_spec)}")
    if version not in (1, 2):
        raise AssertionError(f"get_resnet: version is {version!r}, wanted is 1 or 2")
    kind, layers, channels = resnet_spec[num_layers]
    net = resnet_net_versions[version - 1](resnet_block_versions[version - 1][kind], layers, channels, **kwargs)
    return load_pretrained(net, f"resnet{num_layers}_v{version}", pretrained, ctx, root)


resnet18_v1 = named("resnet18_v1", get_resnet, 1, 18)
resnet34_v1 = named("resnet34_v1", get_resnet, 1, 34)
resnet50_v1 = named("resnet50_v1", get_resnet, 1, 50)
resnet101_v1 = named("resnet101_v1", get_resnet, 1, 101)
resnet152_v1 = named("resnet152_v1", get_resnet, 1, 152)
resnet18_v2 = named("resnet18_v2", get_resnet, 2, 18)
resnet34_v2 = named("resnet34_v2", get_resnet, 2, 34)
resnet50_v2 = named("resnet50_v2", get_resnet, 2, 50)
resnet101_v2 = named("resnet101_v2", get_resnet, 2, 101)
resnet152_v2 = named("resnet152_v2", get_resnet, 2, 152)
