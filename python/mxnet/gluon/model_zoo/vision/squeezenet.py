"""SqueezeNet (Iandola et al. 2016, "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters and <0.5MB model
size")."""
from ....context import cpu
from ... import nn
from ._build import ROOT, Classifier, load_pretrained, named, sequence

__all__ = ["SqueezeNet", "squeezenet1_0", "squeezenet1_1"]

# Version: channels and kernel of the first convolution, then the channels that fire modules squeeze to (each gives
# eight times as many); None stands for pooling.
_VERSIONS = {
    "1.0": [(96, 7), None, 16, 16, 32, None, 32, 48, 48, 64, None, 64],
    "1.1": [(64, 3), None, 16, 16, None, 32, 32, None, 48, 48, 64, 64],
}


def _conv(channels, kernel, stride=1, pad=0):
    return [nn.Conv2D(channels, kernel, stride, pad), nn.Activation("relu")]


def _fire(squeezed):
    """1x1 convolution to a few channels, then 1x1 and 3x3 convolutions side by side."""
    squeeze = sequence(_conv(squeezed, 1))
    expand = nn.HybridConcatenate(axis=1, prefix="")
    expand.add(sequence(_conv(4 * squeezed, 1)), sequence(_conv(4 * squeezed, 3, 1, 1)))
    return sequence(squeeze, expand)


class SqueezeNet(Classifier):
    """Version "1.0", or "1.1", which needs less than half of the operations."""

    def __init__(self, version, classes=1000, **kwargs):
        if version not in _VERSIONS:
            raise AssertionError(f"SqueezeNet: version is {version!r}, wanted is '1.0' or '1.1'")
        super().__init__(**kwargs)
        first, *rest = _VERSIONS[version]
        with self.name_scope():
            self.features = sequence(_conv(*first, 2))
            for row in rest:
                self.features.add(_fire(row) if row else nn.MaxPool2D(3, 2, ceil_mode=True))
            self.features.add(nn.Dropout(0.5))
            self.output = sequence(_conv(classes, 1), nn.AvgPool2D(13), nn.Flatten())


def get_squeezenet(version, pretrained=False, ctx=cpu(), root=ROOT, **kwargs):
    """SqueezeNet of version "1.0" or "1.1"."""
    return load_pretrained(SqueezeNet(version, **kwargs), f"squeezenet{version}", pretrained, ctx, root)


squeezenet1_0 = named("squeezenet1_0", get_squeezenet, "1.0")
squeezenet1_1 = named("squeezenet1_1", get_squeezenet, "1.1")
