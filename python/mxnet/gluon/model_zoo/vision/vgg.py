"""VGG networks (Simonyan and Zisserman 2014, "Very Deep Convolutional Networks for Large-Scale Image Recognition")."""
from ....context import cpu
from ....initializer import Xavier
from ... import nn
from ._build import ROOT, Classifier, load_pretrained, named, sequence

__all__ = ["VGG", "vgg11", "vgg13", "vgg16", "vgg19", "vgg11_bn", "vgg13_bn", "vgg16_bn", "vgg19_bn", "get_vgg"]


class VGG(Classifier):
    """Stages of 3x3 convolutions, each followed by pooling; two wide dense layers; scores.

    layers are the numbers of convolutions of the stages, filters their channels; with batch_norm every convolution is
    normalised.
    """

    def __init__(self, layers, filters, classes=1000, batch_norm=False, **kwargs):
        if len(layers) != len(filters):
            raise AssertionError(f"VGG: layers and filters want one number per stage, got {len(layers)} and "
                                 f"{len(filters)}")
        super().__init__(**kwargs)
        dense = {"weight_initializer": "normal", "bias_initializer": "zeros"}
        with self.name_scope():
            self.features = sequence(*[self._stage(*row, batch_norm) for row in zip(layers, filters)])
            for _ in range(2):
                self.features.add(nn.Dense(4096, activation="relu", **dense), nn.Dropout(0.5))
            self.output = nn.Dense(classes, **dense)

    @staticmethod
    def _stage(count, channels, batch_norm):
        layers = []
        for _ in range(count):
            layers.append(nn.Conv2D(channels, 3, 1, 1, bias_initializer="zeros",
                                    weight_initializer=Xavier("gaussian", "out", 2)))
            layers += [nn.BatchNorm()] if batch_norm else []
            layers.append(nn.Activation("relu"))
        return layers + [nn.MaxPool2D(2, 2)]


# Number of layers: convolutions per stage, channels of the stages.
vgg_spec = {
    11: ([1, 1, 2, 2, 2], [64, 128, 256, 512, 512]),
    13: ([2, 2, 2, 2, 2], [64, 128, 256, 512, 512]),
    16: ([2, 2, 3, 3, 3], [64, 128, 256, 512, 512]),
    19: ([2, 2, 4, 4, 4], [64, 128, 256, 512, 512]),
}


def get_vgg(num_layers, pretrained=False, ctx=cpu(), root=ROOT, **kwargs):
    """A VGG network with 11, 13, 16 or 19 layers; batch_norm=True for the normalised kind."""
    if num_layers not in vgg_spec:
        raise KeyError(f"get_vgg: num_layers is {num_layers!r}, wanted is one of {list(vgg_spec)}")
    net = VGG(*vgg_spec[num_layers], **kwargs)
    return load_pretrained(net, f"vgg{num_layers}" + ("_bn" if kwargs.get("batch_norm") else ""), pretrained, ctx, root)


vgg11 = named("vgg11", get_vgg, 11)
vgg13 = named("vgg13", get_vgg, 13)
vgg16 = named("vgg16", get_vgg, 16)
vgg19 = named("vgg19", get_vgg, 19)
vgg11_bn = named("vgg11_bn", get_vgg, 11, batch_norm=True)
vgg13_bn = named("vgg13_bn", get_vgg, 13, batch_norm=True)
vgg16_bn = named("vgg16_bn", get_vgg, 16, batch_norm=True)
vgg19_bn = named("vgg19_bn", get_vgg, 19, batch_norm=True)
