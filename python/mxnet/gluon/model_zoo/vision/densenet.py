"""DenseNet (Huang et al. 2016, "Densely Connected Convolutional Networks")."""
from ....context import cpu
from ... import nn
from ._build import ROOT, Classifier, conv_norm, load_pretrained, named, sequence

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"]


def _norm_conv(channels, kernel, pad=0):
    return [nn.BatchNorm(), nn.Activation("relu"), nn.Conv2D(channels, kernel, 1, pad, use_bias=False)]


def _dense_layer(growth, bn_size, dropout):
    """Its input and growth new channels beside it."""
    layer = nn.HybridConcatenate(axis=1, prefix="")
    new = sequence(_norm_conv(bn_size * growth, 1), _norm_conv(growth, 3, 1))
    if dropout:
        new.add(nn.Dropout(dropout))
    layer.add(nn.Identity(), new)
    return layer


class DenseNet(Classifier):
    """Blocks of layers that see the results of all layers before them, with transitions that halve the channels.

    num_init_features are the channels of the first convolution, growth_rate those that a layer adds, block_config the
    numbers of layers of the blocks; bn_size * growth_rate are the channels inside a layer.
    """

    def __init__(self, num_init_features, growth_rate, block_config, bn_size=4, dropout=0, classes=1000, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = sequence(conv_norm(num_init_features, 7, 2, 3), nn.MaxPool2D(3, 2, 1))
            channels = num_init_features
            for at, count in enumerate(block_config):
                if at > 0:
                    channels //= 2
                    self.features.add(sequence(_norm_conv(channels, 1), nn.AvgPool2D(2, 2)))
                self.features.add(self._block(at, count, growth_rate, bn_size, dropout))
                channels += count * growth_rate
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.AvgPool2D(7), nn.Flatten())
            self.output = nn.Dense(classes)

    @staticmethod
    def _block(at, count, growth, bn_size, dropout):
        block = nn.HybridSequential(prefix=f"stage{at + 1}_")
        with block.name_scope():
            block.add(*[_dense_layer(growth, bn_size, dropout) for _ in range(count)])
        return block


# Number of layers: channels of the first convolution, growth, layers per block.
densenet_spec = {
    121: (64, 32, [6, 12, 24, 16]),
    161: (96, 48, [6, 12, 36, 24]),
    169: (64, 32, [6, 12, 32, 32]),
    201: (64, 32, [6, 12, 48, 32]),
}


def get_densenet(num_layers, pretrained=False, ctx=cpu(), root=ROOT, **kwargs):
    """A DenseNet with 121, 161, 169 or 201 layers."""
    if num_layers not in densenet_spec:
        raise KeyError(f"get_densenet: num_layers is {num_layers!r}, wanted is one of {list(densenet_spec)}")
    net = DenseNet(*densenet_spec[num_layers], **kwargs)
    return load_pretrained(net, f"densenet{num_layers}", pretrained, ctx, root)


densenet121 = named("densenet121", get_densenet, 121)
densenet161 = named("densenet161", get_densenet, 161)
densenet169 = named("densenet169", get_densenet, 169)
densenet201 = named("densenet201", get_densenet, 201)
