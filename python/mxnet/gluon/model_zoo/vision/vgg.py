"""VGG networks (Simonyan and Zisserman 2014, "Very Deep Convolutional Networks for Large-Scale Image Recognition")."""
from ....context import cpu
from ._build import ROOT, by_number, checked, functions, model

VGG = checked("VGG")

# Number of layers: convolutions per stage, channels of the stages.
vgg_spec = {number: (list(o["layers"]), list(o["filters"])) for number, o in by_number("vgg{}").items()}


def get_vgg(num_layers, pretrained=False, ctx=cpu(), root=ROOT, **kwargs):
    """A VGG network with 11, 13, 16 or 19 layers; batch_norm=True for the normalised kind."""
    if num_layers not in vgg_spec:
        raise KeyError(f"get_vgg: num_layers is {num_layers!r}, expected one of {list(vgg_spec)}")
    return model(f"vgg{num_layers}" + ("_bn" if kwargs.get("batch_norm") else ""), pretrained, ctx, root, **kwargs)


__all__ = ["VGG", "get_vgg"] + functions(globals(), **{f"vgg{n}{end}": f"vgg{n}{end}" for end in ("", "_bn")
                                                      for n in vgg_spec})
