"""DenseNet (Huang et al. 2016, "Densely Connected Convolutional Networks")."""
from ....context import cpu
from ._build import CLASSES, ROOT, by_number, functions, model

DenseNet = CLASSES["DenseNet"]

# Number of layers: channels of the first convolution, growth, layers per block.
densenet_spec = {number: (o["num_init_features"], o["growth_rate"], list(o["block_config"]))
                 for number, o in by_number("densenet{}").items()}


def get_densenet(num_layers, pretrained=False, ctx=cpu(), root=ROOT, **kwargs):
    """A DenseNet with 121, 161, 169 or 201 layers."""
    if num_layers not in densenet_spec:
        raise KeyError(f"get_densenet: num_layers is {num_layers!r}, expected one of {list(densenet_spec)}")
    return model(f"densenet{num_layers}", pretrained, ctx, root, **kwargs)


__all__ = ["DenseNet"] + functions(globals(), **{f"densenet{n}": f"densenet{n}" for n in densenet_spec})
