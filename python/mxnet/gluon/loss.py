"""Losses: one number per example, the mean over all axes but the batch axis."""
from . import _forms, _layers
from .block import HybridBlock, _LayerBase


def _apply_weighting(F, loss, weight=None, sample_weight=None):
    """loss times sample_weight (an array, broadcast) times weight (a number)."""
    if sample_weight is not None:
        loss = F.broadcast_mul(loss, sample_weight)
    if weight is not None:
        if not isinstance(weight, (int, float)):
            raise AssertionError(f"the weight of a loss must be a number, got {type(weight).__name__}")
        loss = loss * weight
    return loss


def _reshape_like(F, x, y):
    """x in the shape of y."""
    return F.reshape_like(x, y)


class Loss(HybridBlock):
    """Base of losses written by users: override hybrid_forward(F, pred, label, sample_weight=None)."""

    def __init__(self, weight=None, batch_axis=0, **kwargs):
        super().__init__(**kwargs)
        self._weight = weight
        self._batch_axis = batch_axis

    def __repr__(self):
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"

    def hybrid_forward(self, F, x, *args, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} does not override hybrid_forward")


class _LossBase(_LayerBase, Loss):
    """Base of the library's losses."""


_made = _layers.make(_layers.LOSS, base=_LossBase, module=__name__)
globals().update(_made)
_forms.add_to_losses(_made)
SoftmaxCELoss = _made["SoftmaxCrossEntropyLoss"]
SigmoidBCELoss = _made["SigmoidBinaryCrossEntropyLoss"]
__all__ = ["Loss", "SoftmaxCELoss", "SigmoidBCELoss"] + list(_made)
