"""AlexNet, in the form with one tower (Krizhevsky 2014, "One weird trick for parallelizing convolutional neural
networks")."""
from ....context import cpu
from ._build import CLASSES, ROOT, model

__all__ = ["AlexNet", "alexnet"]

AlexNet = CLASSES["AlexNet"]


def alexnet(pretrained=False, ctx=cpu(), root=ROOT, **kwargs):
    """AlexNet: five convolutions and three dense layers."""
    return model("alexnet", pretrained, ctx, root, **kwargs)
