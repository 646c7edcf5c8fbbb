"""What the networks are put together from: rows of layers, and functions with fixed arguments."""
import os

from .... import base
from ... import nn
from ...block import HybridBlock

ROOT = os.path.join(base.data_dir(), "models")


class Classifier(HybridBlock):
    """A network of two parts: features, whose result can be used by itself, and output, which scores the classes."""

    def hybrid_forward(self, F, x):
        return self.output(self.features(x))


def sequence(*layers, prefix=""):
    """A HybridSequential of layers; lists among them are taken apart."""
    net = nn.HybridSequential(prefix=prefix)
    for layer in layers:
        net.add(*(layer if isinstance(layer, (list, tuple)) else (layer,)))
    return net


def conv_norm(channels, kernel, stride=1, pad=0, groups=1, eps=1e-5, activation="relu"):
    """Convolution without bias, batch normalisation, activation (None: none): a list of layers."""
    layers = [nn.Conv2D(channels, kernel, stride, pad, groups=groups, use_bias=False), nn.BatchNorm(epsilon=eps)]
    return layers + ([nn.Activation(activation)] if activation else [])


def load_pretrained(net, name, pretrained, ctx, root):
    """Loads parameters from the model folder if they are wanted; returns the network."""
    if pretrained:
        from ..model_store import get_model_file
        net.load_parameters(get_model_file(name, root=root), ctx=ctx)
    return net


def named(name, make, *args, **fixed):
    """The function of a name that calls make with these arguments and with those that users add."""
    def build(**kwargs):
        return make(*args, **fixed, **kwargs)

    build.__name__ = build.__qualname__ = name
    build.__module__ = make.__module__
    given = [repr(value) for value in args] + [f"{key}={value!r}" for key, value in fixed.items()]
    build.__doc__ = (f"{make.__name__}({', '.join(given)}, ...); further arguments: pretrained, ctx, root, classes, "
                     "prefix and those of the network's class.")
    return build
