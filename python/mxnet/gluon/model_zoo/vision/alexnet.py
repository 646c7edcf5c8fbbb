"""AlexNet, in the form with one tower (Krizhevsky 2014, "One weird trick for parallelizing convolutional neural
networks")."""
from ....context import cpu
from ... import nn
from ._build import ROOT, Classifier, load_pretrained, sequence

__all__ = ["AlexNet", "alexnet"]

# Channels, kernel, stride, padding of the convolutions; None stands for pooling.
_LAYERS = [(64, 11, 4, 2), None, (192, 5, 1, 2), None, (384, 3, 1, 1), (256, 3, 1, 1), (256, 3, 1, 1), None]


class AlexNet(Classifier):
    """Five convolutions and three dense layers."""

    def __init__(self, classes=1000, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = sequence(*[nn.Conv2D(*row, activation="relu") if row else nn.MaxPool2D(3, 2)
                                       for row in _LAYERS], nn.Flatten())
            for _ in range(2):
                self.features.add(nn.Dense(4096, activation="relu"), nn.Dropout(0.5))
            self.output = nn.Dense(classes)


def alexnet(pretrained=False, ctx=cpu(), root=ROOT, **kwargs):
    """AlexNet."""
    return load_pretrained(AlexNet(**kwargs), "alexnet", pretrained, ctx, root)
