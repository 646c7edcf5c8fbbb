"""Inception version 3 (Szegedy et al. 2015, "Rethinking the Inception Architecture for Computer Vision")."""
from ....context import cpu
from ... import nn
from ._build import ROOT, Classifier, conv_norm, load_pretrained, sequence

__all__ = ["Inception3", "inception_v3"]

# A layer is a convolution (channels, kernel, stride, padding) or a kind of pooling.  A branch is a list of layers;
# a module is a list of branches, run side by side and joined.  A pair in the place of a branch is a branch and the
# module that follows it.
_POOLS = {"max": (nn.MaxPool2D, (3, 2)), "avg": (nn.AvgPool2D, (3, 1, 1))}
_WIDE = ((1, 7), 1, (0, 3))
_TALL = ((7, 1), 1, (3, 0))
_CROSS = [[(384, (1, 3), 1, (0, 1))], [(384, (3, 1), 1, (1, 0))]]


def _a(pooled):
    return [[(64, 1)], [(48, 1), (64, 5, 1, 2)], [(64, 1), (96, 3, 1, 1), (96, 3, 1, 1)], ["avg", (pooled, 1)]]


def _c(inner):
    return [[(192, 1)], [(inner, 1), (inner, *_WIDE), (192, *_TALL)],
            [(inner, 1), (inner, *_TALL), (inner, *_WIDE), (inner, *_TALL), (192, *_WIDE)], ["avg", (192, 1)]]


_B = [[(384, 3, 2)], [(64, 1), (96, 3, 1, 1), (96, 3, 2)], ["max"]]
_D = [[(192, 1), (320, 3, 2)], [(192, 1), (192, *_WIDE), (192, *_TALL), (192, 3, 2)], ["max"]]
_E = [[(320, 1)], ([(384, 1)], _CROSS), ([(448, 1), (384, 3, 1, 1)], _CROSS), ["avg", (192, 1)]]

_STEM = [(32, 3, 2), (32, 3), (64, 3, 1, 1), "max", (80, 1), (192, 3), "max"]
_MODULES = {"A1_": _a(32), "A2_": _a(64), "A3_": _a(64), "B_": _B, "C1_": _c(128), "C2_": _c(160), "C3_": _c(160),
            "C4_": _c(192), "D_": _D, "E1_": _E, "E2_": _E}


def _layer(row):
    if isinstance(row, str):
        kind, arguments = _POOLS[row]
        return kind(*arguments)
    return sequence(conv_norm(*row, eps=0.001))


def _branch(rows):
    if isinstance(rows, tuple):
        return sequence(_branch(rows[0]), _module(rows[1]))
    return sequence(*[_layer(row) for row in rows])


def _module(branches, prefix=""):
    module = nn.HybridConcatenate(axis=1, prefix=prefix)
    with module.name_scope():
        module.add(*[_branch(rows) for rows in branches])
    return module


class Inception3(Classifier):
    """Inception version 3, for images of 299 x 299."""

    def __init__(self, classes=1000, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = sequence(*[_layer(row) for row in _STEM],
                                     *[_module(rows, prefix) for prefix, rows in _MODULES.items()],
                                     nn.AvgPool2D(8), nn.Dropout(0.5))
            self.output = nn.Dense(classes)


def inception_v3(pretrained=False, ctx=cpu(), root=ROOT, **kwargs):
    """Inception version 3."""
    return load_pretrained(Inception3(**kwargs), "inceptionv3", pretrained, ctx, root)
