"""Handlers: what happens when training, an epoch or a batch begins and ends.

A handler derives from the classes of the events that it handles.  Handlers with a lower `priority` are called first.  A
batch_end or epoch_end that returns True stops training.
"""
import logging
import sys
import time

from .... import metric as metrics

__all__ = ["EventHandler", "TrainBegin", "TrainEnd", "EpochBegin", "EpochEnd", "BatchBegin", "BatchEnd",
           "StoppingHandler", "MetricHandler", "ValidationHandler", "LoggingHandler", "ProgressBarHandler",
           "GradientUpdateHandler", "CheckpointHandler", "EarlyStoppingHandler"]


class EventHandler:
    """Base of handlers."""


class TrainBegin(EventHandler):
    """Handles the begin of training."""

    def train_begin(self, estimator, *args, **kwargs):
        """Called once, before the first epoch."""


class TrainEnd(EventHandler):
    """Handles the end of training."""

    def train_end(self, estimator, *args, **kwargs):
        """Called once, after the last epoch."""


class EpochBegin(EventHandler):
    """Handles the begin of an epoch."""

    def epoch_begin(self, estimator, *args, **kwargs):
        """Called before the first batch of an epoch."""


class EpochEnd(EventHandler):
    """Handles the end of an epoch."""

    def epoch_end(self, estimator, *args, **kwargs):
        """Called after the last batch of an epoch; True stops training."""
        return False


class BatchBegin(EventHandler):
    """Handles the begin of a batch."""

    def batch_begin(self, estimator, *args, **kwargs):
        """Called with batch=..., before it is computed."""


class BatchEnd(EventHandler):
    """Handles the end of a batch."""

    def batch_end(self, estimator, *args, **kwargs):
        """Called with batch, pred, label and loss, lists over contexts; True stops training."""
        return False


def check_metrics(given, who):
    """A list of metrics from one, several or None."""
    listed = [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]
    for metric in listed:
        if not isinstance(metric, metrics.EvalMetric):
            raise ValueError(f"{who}: metrics must be EvalMetrics, got {type(metric).__name__}")
    return listed


class StoppingHandler(TrainBegin, BatchEnd, EpochEnd):
    """Stops training after max_epoch epochs or max_batch batches."""

    def __init__(self, max_epoch=None, max_batch=None):
        self.max_epoch, self.max_batch = max_epoch, max_batch
        self.current_batch = self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator, *args, **kwargs):
        """Starts counting; the limits are the estimator's, which another handler may have changed."""
        self.max_epoch, self.max_batch = estimator.max_epoch, estimator.max_batch
        self.current_batch = self.current_epoch = 0
        self.stop_training = False

    def batch_end(self, estimator, *args, **kwargs):
        """Counts a batch."""
        self.current_batch += 1
        self.stop_training = self.stop_training or self.current_batch == self.max_batch
        return self.stop_training

    def epoch_end(self, estimator, *args, **kwargs):
        """Counts an epoch."""
        self.current_epoch += 1
        self.stop_training = self.stop_training or self.current_epoch == self.max_epoch
        return self.stop_training


class MetricHandler(EpochBegin, BatchEnd):
    """Resets metrics at the begin of an epoch and updates them with every batch."""

    def __init__(self, metrics, priority=-1000):
        self.metrics, self.priority = check_metrics(metrics, "MetricHandler"), priority

    def epoch_begin(self, estimator, *args, **kwargs):
        """Resets the metrics."""
        for metric in self.metrics:
            metric.reset()

    def batch_end(self, estimator, *args, **kwargs):
        """Updates the metrics with predictions and labels, loss metrics with losses."""
        for metric in self.metrics:
            if isinstance(metric, metrics.Loss):
                metric.update(0, kwargs["loss"])
            else:
                metric.update(kwargs["label"], kwargs["pred"])


class ValidationHandler(TrainBegin, BatchEnd, EpochEnd):
    """Evaluates on other data every epoch_period epochs, and every batch_period batches."""

    def __init__(self, val_data, eval_fn, epoch_period=1, batch_period=None, priority=-1000, event_handlers=None):
        self.val_data, self.eval_fn, self.event_handlers = val_data, eval_fn, event_handlers
        self.epoch_period, self.batch_period, self.priority = epoch_period, batch_period, priority
        self.current_batch = self.current_epoch = 0

    def train_begin(self, estimator, *args, **kwargs):
        """Starts counting."""
        self.current_batch = self.current_epoch = 0

    def _evaluate(self, estimator, count, period):
        if period and count % period == 0:
            self.eval_fn(val_data=self.val_data, batch_axis=estimator.batch_axis, event_handlers=self.event_handlers)

    def batch_end(self, estimator, *args, **kwargs):
        """Counts a batch, and evaluates if it is due."""
        self.current_batch += 1
        self._evaluate(estimator, self.current_batch, self.batch_period)

    def epoch_end(self, estimator, *args, **kwargs):
        """Counts an epoch, and evaluates if it is due."""
        self.current_epoch += 1
        self._evaluate(estimator, self.current_epoch, self.epoch_period)


class GradientUpdateHandler(BatchEnd):
    """Updates the parameters after every batch."""

    def __init__(self, priority=-2000):
        self.priority = priority

    def batch_end(self, estimator, *args, **kwargs):
        """trainer.step with the size of the batch."""
        losses = kwargs["loss"]
        losses = losses if isinstance(losses, (list, tuple)) else [losses]
        estimator.trainer.step(sum(_examples(loss, estimator.batch_axis) for loss in losses))


def _examples(loss, batch_axis):
    """The number of examples in a loss, which may have no other axis than that of the batch."""
    return loss.shape[batch_axis if batch_axis < len(loss.shape) else 0] if loss.shape else 1


def _values(listed, before=", "):
    """ 'name: 0.1234, ...' of metrics, after the text `before`."""
    pairs = [pair for metric in listed for pair in metric.get_name_value()]
    return before + ", ".join(f"{name}: {value:.4f}" for name, value in pairs) if pairs else ""


class LoggingHandler(TrainBegin, TrainEnd, EpochBegin, EpochEnd, BatchBegin, BatchEnd):
    """Logs metrics after every epoch, or after every log_interval batches."""

    def __init__(self, log_interval="epoch", metrics=None, priority=float("inf")):
        if not isinstance(log_interval, int) and log_interval != "epoch":
            raise ValueError(f"LoggingHandler: log_interval={log_interval!r}, expected 'epoch' or a number of batches")
        self.metrics = check_metrics(metrics, "LoggingHandler")
        self.log_interval, self.priority = log_interval, priority
        self.batch_index = self.current_epoch = self.processed_samples = 0
        self.log_interval_time = 0

    def train_begin(self, estimator, *args, **kwargs):
        """Logs the optimizer and the length of the training."""
        self.train_start = time.time()
        trainer = estimator.trainer
        estimator.logger.info("Training begin: using optimizer %s with current learning rate %.4f ",
                              type(trainer.optimizer).__name__, trainer.learning_rate)
        if estimator.max_epoch:
            estimator.logger.info("Train for %d epochs.", estimator.max_epoch)
        else:
            estimator.logger.info("Train for %d batches.", estimator.max_batch)
        self.current_epoch = self.batch_index = self.processed_samples = 0
        self.log_interval_time = 0

    def train_end(self, estimator, *args, **kwargs):
        """Logs the time and the last values."""
        estimator.logger.info("Train finished using total %ds with %d epochs%s", time.time() - self.train_start,
                              self.current_epoch, _values(self.metrics, ". "))

    def batch_begin(self, estimator, *args, **kwargs):
        """Starts the clock of the batch."""
        if isinstance(self.log_interval, int):
            self.batch_start = time.time()

    def batch_end(self, estimator, *args, **kwargs):
        """Logs the values so far every log_interval batches."""
        if not isinstance(self.log_interval, int):
            return
        self.log_interval_time += time.time() - self.batch_start
        self.processed_samples += kwargs["batch"][0].shape[estimator.batch_axis]
        if self.batch_index % self.log_interval == 0:
            estimator.logger.info("[Epoch %d][Batch %d][Samples %d] time/interval: %.3fs%s", self.current_epoch,
                                  self.batch_index, self.processed_samples, self.log_interval_time,
                                  _values(self.metrics, " "))
            self.log_interval_time = 0
        self.batch_index += 1

    def epoch_begin(self, estimator, *args, **kwargs):
        """Logs the learning rate, or that a validation begins."""
        self.epoch_start = time.time()
        training = any(metric in estimator.train_metrics for metric in self.metrics)
        if not training and self.metrics:
            estimator.logger.info("Validation Begin")
        elif training:
            estimator.logger.info("[Epoch %d] Begin, current learning rate: %.4f", self.current_epoch,
                                  estimator.trainer.learning_rate)

    def epoch_end(self, estimator, *args, **kwargs):
        """Logs the time and the values of the epoch."""
        estimator.logger.info("[Epoch %d] Finished in %.3fs%s", self.current_epoch, time.time() - self.epoch_start,
                              _values(self.metrics))
        self.current_epoch += 1
        self.batch_index = self.processed_samples = 0


class ProgressBarHandler(TrainBegin, EpochBegin, BatchEnd, EpochEnd):
    """Draws a progress bar for the batches of an epoch, followed by the metrics.

    The line is redrawn in place on a terminal, at most ten times a second; elsewhere one line per epoch is written.
    """

    def __init__(self, metrics=None, length=30, file=None, priority=float("inf")):
        self.metrics, self.length, self.priority = check_metrics(metrics, "ProgressBarHandler"), length, priority
        self._file, self._epoch, self._batch, self._total, self._drawn = file, 0, 0, None, 0.0

    def train_begin(self, estimator, *args, **kwargs):
        """Starts counting."""
        self._epoch, self._total = 0, getattr(estimator, "batches_per_epoch", None)

    def epoch_begin(self, estimator, *args, **kwargs):
        """A new line."""
        self._batch, self._start, self._drawn = 0, time.time(), 0.0

    def text(self):
        """The current line."""
        share = 1.0 if not self._total else min(1.0, self._batch / self._total)
        filled = int(round(share * self.length))
        count = f"{self._batch}/{self._total}" if self._total else str(self._batch)
        bar = "=" * filled + " " * (self.length - filled)
        return f"[Epoch {self._epoch}] [{bar}] {count} {time.time() - self._start:.1f}s{_values(self.metrics)}"

    def _write(self, end):
        file = self._file or sys.stderr
        file.write(("\r" if _terminal(file) else "") + self.text() + end)
        file.flush()

    def batch_end(self, estimator, *args, **kwargs):
        """Counts a batch."""
        self._batch += 1
        if _terminal(self._file or sys.stderr) and time.time() - self._drawn > 0.1:
            self._drawn = time.time()
            self._write("")

    def epoch_end(self, estimator, *args, **kwargs):
        """Draws the complete line."""
        self._write("\n")
        self._total = self._total or self._batch
        self._epoch += 1


def _terminal(file):
    return getattr(file, "isatty", lambda: False)()


def default_logger():
    """A new logger for one estimator: prints lines without a prefix to the current sys.stdout."""
    logger = logging.Logger("Estimator", level=logging.INFO)
    logger.addHandler(logging.StreamHandler(sys.stdout))
    return logger


from .checkpoint import CheckpointHandler, EarlyStoppingHandler  # noqa: E402  it builds on the classes above
