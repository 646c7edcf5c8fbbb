"""Processing of one batch, in training and in evaluation."""
from .... import autograd
from ...utils import split_and_load

__all__ = ["BatchProcessor"]


class BatchProcessor:
    """Default processing: forward of the data, loss against the label.  Override the methods to change it."""

    def _get_data_and_label(self, batch, ctx, batch_axis=0):
        """(data, label) of a batch, each split over the contexts."""
        return tuple(split_and_load(part, ctx_list=ctx, batch_axis=batch_axis) for part in batch[:2])

    def evaluate_batch(self, estimator, val_batch, batch_axis=0):
        """(data, label, predictions, losses) of a batch, lists over contexts."""
        data, label = self._get_data_and_label(val_batch, estimator.context, batch_axis)
        pred = [estimator.val_net(x) for x in data]
        loss = [estimator.val_loss(p, y) for p, y in zip(pred, label)]
        return data, label, pred, loss

    def fit_batch(self, estimator, train_batch, batch_axis=0):
        """The same with recording, then backward; GradientUpdateHandler does the update."""
        data, label = self._get_data_and_label(train_batch, estimator.context, batch_axis)
        with autograd.record():
            pred = [estimator.net(x) for x in data]
            loss = [estimator.loss(p, y) for p, y in zip(pred, label)]
        autograd.backward(loss)
        return data, label, pred, loss
