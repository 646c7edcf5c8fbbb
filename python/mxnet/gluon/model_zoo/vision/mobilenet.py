"""MobileNet version 1 (Howard et al. 2017), 2 (Sandler et al. 2018) and 3 (Howard et al. 2019)."""
from ....context import cpu
from ._build import CLASSES, ROOT, functions, load_pretrained, model, replaced

MobileNet, MobileNetV2, MobileNetV3, RELU6, HardSwish = (
    CLASSES[name] for name in ("MobileNet", "MobileNetV2", "MobileNetV3", "RELU6", "HardSwish"))


class LinearBottleneck(CLASSES["LinearBottleneck"]):
    """1x1 convolution to t times the channels, 3x3 per channel, 1x1 to fewer; the input is added where it fits."""

    @property
    def use_shortcut(self):
        """Whether the input is added to the result."""
        return self._stride == 1 and self._in_channels == self._channels


replaced("LinearBottleneck", LinearBottleneck)


def get_mobilenet(multiplier, pretrained=False, ctx=cpu(), root=ROOT, **kwargs):
    """MobileNet version 1 with a channel multiplier (trained parameters exist for 1, 0.75, 0.5 and 0.25)."""
    return load_pretrained(MobileNet(multiplier, **kwargs), f"mobilenet{float(multiplier)}", pretrained, ctx, root)


def get_mobilenet_v2(multiplier, pretrained=False, ctx=cpu(), root=ROOT, **kwargs):
    """MobileNet version 2 with a channel multiplier (trained parameters exist for 1, 0.75, 0.5 and 0.25)."""
    return load_pretrained(MobileNetV2(multiplier, **kwargs), f"mobilenetv2_{float(multiplier)}", pretrained, ctx, root)


def get_mobilenet_v3(version, pretrained=False, ctx=cpu(), root=ROOT, **kwargs):
    """MobileNet version 3, "large" or "small"."""
    if version not in ("large", "small"):
        raise ValueError(f"get_mobilenet_v3: version is {version!r}, expected 'large' or 'small'")
    return model(f"mobilenetv3_{version}", pretrained, ctx, root, **kwargs)


_MULTIPLIERS = {"1_0": "1.0", "0_75": "0.75", "0_5": "0.5", "0_25": "0.25"}
__all__ = ["MobileNet", "MobileNetV2", "MobileNetV3", "get_mobilenet", "get_mobilenet_v2", "get_mobilenet_v3"]
__all__ += functions(globals(), **{f"mobilenet{end}": f"mobilenet{number}" for end, number in _MULTIPLIERS.items()})
__all__ += functions(globals(), **{f"mobilenet_v2_{end}": f"mobilenetv2_{number}"
                                   for end, number in _MULTIPLIERS.items()})
__all__ += functions(globals(), mobilenet_v3_large="mobilenetv3_large", mobilenet_v3_small="mobilenetv3_small")
