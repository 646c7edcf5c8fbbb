"""Fused training steps."""
from .. import _core
from .trainer import Trainer

__all__ = ["TrainStep"]


class TrainStep(_core.TrainStep):
    """Forward, loss, backward and the optimizer's update as one compiled plan, with the same numbers as the imperative loop.

        step = gluon.TrainStep(net, loss, trainer)
        for data, label in batches:
            loss = step(data, label)

    The result is the loss of every example; the batch size is the size of data's first axis, times the number of processes
    if the trainer's store spans several: gradients are exchanged while backward goes on.  What cannot be compiled
    into one plan (the first step of a network with unknown shapes, hooks, optimizers written in Python) runs as the
    imperative loop; `compiled` says whether the last step ran as one plan.
    """

    def __init__(self, net, loss, trainer):
        if isinstance(trainer, Trainer):
            trainer._start_fused()
        self._start(net, loss, trainer)

    def __call__(self, data, label):
        return self._run(data, label)
