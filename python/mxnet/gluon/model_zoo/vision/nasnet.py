"""NASNet-A (Zoph et al. 2017, "Learning Transferable Architectures for Scalable Image Recognition").

nasnet_4_1056 is the mobile and nasnet_6_4032 the large network: the numbers are cells between two reductions, and channels
before the scores."""
from ....context import cpu
from ._build import CLASSES, MODELS, ROOT, functions, model

NASNet = CLASSES["NASNet"]


def get_nasnet(repeat=6, penultimate_filters=4032, pretrained=False, ctx=cpu(), root=ROOT, **kwargs):
    """A NASNet with the given cells between two reductions and channels before the scores."""
    name = f"nasnet_{repeat}_{penultimate_filters}"
    if name in MODELS:
        return model(name, pretrained, ctx, root, **kwargs)
    if pretrained:
        raise ValueError(f"get_nasnet: there is no network '{name}' with trained parameters")
    return NASNet(repeat, penultimate_filters, **kwargs)


__all__ = ["NASNet", "get_nasnet"] + functions(globals(), **{name: name for name in MODELS if name[:7] == "nasnet_"})
