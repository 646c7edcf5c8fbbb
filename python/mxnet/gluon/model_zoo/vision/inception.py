"""Inception version 3 (Szegedy et al. 2015, "Rethinking the Inception Architecture for Computer Vision")."""
from ....context import cpu
from ._build import CLASSES, ROOT, model

__all__ = ["Inception3", "inception_v3"]

Inception3 = CLASSES["Inception3"]


def inception_v3(pretrained=False, ctx=cpu(), root=ROOT, **kwargs):
    """Inception version 3, for images of 299 x 299."""
    return model("inceptionv3", pretrained, ctx, root, **kwargs)
