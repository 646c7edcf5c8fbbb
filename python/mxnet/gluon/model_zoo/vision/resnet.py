"""Residual networks: version 1 (He et al. 2015, "Deep Residual Learning for Image Recognition") normalises after each
convolution, version 2 (He et al. 2016, "Identity Mappings in Deep Residual Networks") before it."""
from .... import _core
from ....context import cpu
from ._build import CLASSES, ROOT, by_number, functions, model, replaced

BasicBlockV1, BasicBlockV2, BottleneckV1, BottleneckV1b, BottleneckV2 = (
    CLASSES[name] for name in ("BasicBlockV1", "BasicBlockV2", "BottleneckV1", "BottleneckV1b", "BottleneckV2"))


class _Residual:
    """block is one of the block classes here, or another one with the same arguments."""

    def __init__(self, block, layers, channels, classes=1000, thumbnail=False, **kwargs):
        if len(layers) != len(channels) - 1:
            raise AssertionError(f"{type(self).__name__}: channels needs one number more than layers (that of the "
                                 f"first convolution), got {len(channels)} and {len(layers)}")
        known = isinstance(block, str) or CLASSES.get(getattr(block, "__name__", None)) is block
        name = block if isinstance(block, str) else block.__name__ if known else ""
        start = super().__init__
        if known:
            start(name, layers, channels, classes, thumbnail, **kwargs)
            return
        kept = []

        def make(*args, **words):
            kept.append(block(*args, **words))
            return kept[-1]

        _core.with_residual_blocks(make, lambda: start("", layers, channels, classes, thumbnail, **kwargs))
        self._foreign = (kept,)


class ResNetV1(_Residual, CLASSES["ResNetV1"]):
    """Version 1: first layers, stages of blocks, pooling, scores.

    layers are the numbers of blocks of the stages, channels those of the first convolution and of the stages.  With
    thumbnail the first layers are one 3x3 convolution, for images of about 32 x 32.
    """


class ResNetV2(_Residual, CLASSES["ResNetV2"]):
    __doc__ = ResNetV1.__doc__.replace("Version 1: first", "Version 2: normalised input, first", 1)


resnet_net_versions = [replaced("ResNetV1", ResNetV1), replaced("ResNetV2", ResNetV2)]
resnet_block_versions = [{"basic_block": BasicBlockV1, "bottle_neck": BottleneckV1},
                         {"basic_block": BasicBlockV2, "bottle_neck": BottleneckV2}]

# Number of layers: kind of block, blocks per stage, channels of the first convolution and of the stages.
resnet_spec = {number: (o["block"], list(o["layers"]), list(o["channels"]))
               for number, o in by_number("resnet{}_v1").items()}


def get_resnet(version, num_layers, pretrained=False, ctx=cpu(), root=ROOT, **kwargs):
    """A residual network of version 1 or 2 with 18, 34, 50, 101 or 152 layers."""
    if num_layers not in resnet_spec:
        raise AssertionError(f"get_resnet: num_layers is {num_layers!r}, expected one of {list(resnet_spec)}")
    if version not in (1, 2):
        raise AssertionError(f"get_resnet: version is {version!r}, expected 1 or 2")
    return model(f"resnet{num_layers}_v{version}", pretrained, ctx, root, **kwargs)


def _conv3x3(channels, stride, in_channels):
    """A 3x3 convolution that keeps the size where stride is 1."""
    from ...nn import Conv2D
    return Conv2D(channels, kernel_size=3, strides=stride, padding=1, use_bias=False, in_channels=in_channels)


__all__ = ["ResNetV1", "ResNetV2", "BasicBlockV1", "BasicBlockV2", "BottleneckV1", "BottleneckV1b", "BottleneckV2",
           "get_resnet"]
__all__ += functions(globals(), **{f"resnet{n}_v{v}": f"resnet{n}_v{v}" for v in (1, 2, "1b") for n in resnet_spec})
