"""Image transforms: blocks that take an image (H, W, C), and most of them a batch (N, H, W, C), too.

    transform = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor()])
    dataset.transform_first(transform)

The classes are created from the library's descriptions; here are the containers.  A Compose of transforms of the library
runs as one call, and DataLoader runs it on batches if all of them take batches.
"""
import random as _random

from ... import _layers
from ...block import Block, HybridBlock  # noqa: F401
from ...nn import HybridSequential, Sequential

_made = _layers.make(_layers.LAYER, module=__name__, group="transforms")
globals().update(_made)
__all__ = ["Compose", "HybridCompose", "RandomApply", "HybridRandomApply"] + list(_made)


class Compose(Sequential):
    """Transforms one after the other."""

    def __init__(self, transforms):
        super().__init__()
        self.add(*transforms)


class HybridCompose(HybridSequential):
    """Hybrid transforms one after the other."""

    def __init__(self, transforms):
        super().__init__()
        for transform in transforms:
            if not isinstance(transform, HybridBlock):
                raise ValueError(f"HybridCompose: {type(transform).__name__} is not a HybridBlock; use Compose")
            self.add(transform)
        self.hybridize()


class RandomApply(Sequential):
    """Applies a transform (or a list of them) with probability p."""

    def __init__(self, transforms, p=0.5):
        super().__init__()
        self.transforms = _one(transforms, Compose)
        self.p = p

    def forward(self, x):
        return x if self.p < _random.random() else self.transforms(x)


class HybridRandomApply(HybridSequential):
    """The same for hybrid transforms; the choice is part of the graph, so both results must have the same shape and type."""

    def __init__(self, transforms, p=0.5):
        super().__init__()
        self.transforms = _one(transforms, HybridCompose)
        if not isinstance(self.transforms, HybridBlock):
            raise AssertionError(f"HybridRandomApply: {type(self.transforms).__name__} is not a HybridBlock; use "
                                 f"RandomApply")
        self.p = p

    def hybrid_forward(self, F, x):
        """x or transforms(x)."""
        chosen = F.broadcast_add(F.reshape(F.zeros_like(x), shape=(-1,)).astype("float32"),
                                 F.random.uniform(shape=(1,)) < self.p)
        return F.where(F.reshape_like(chosen, x), self.transforms(x), x)


def _one(transforms, container):
    return container(transforms) if isinstance(transforms, (list, tuple)) else transforms
