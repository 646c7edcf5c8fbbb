"""SqueezeNet (Iandola et al. 2016, "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters and <0.5MB model
size")."""
from ....context import cpu
from ._build import ROOT, checked, functions, load_pretrained

SqueezeNet = checked("SqueezeNet")


def get_squeezenet(version, pretrained=False, ctx=cpu(), root=ROOT, **kwargs):
    """SqueezeNet of version "1.0" or "1.1"."""
    return load_pretrained(SqueezeNet(version, **kwargs), f"squeezenet{version}", pretrained, ctx, root)


__all__ = ["SqueezeNet"] + functions(globals(), squeezenet1_0="squeezenet1.0", squeezenet1_1="squeezenet1.1")
