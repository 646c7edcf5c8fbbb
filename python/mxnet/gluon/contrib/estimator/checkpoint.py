"""Handlers that save checkpoints, resume from them, or stop training early."""
import operator
import os
import re
import warnings

from .... import metric as metrics
from .event_handler import BatchEnd, EpochEnd, TrainBegin, TrainEnd

__all__ = ["CheckpointHandler", "EarlyStoppingHandler"]


def _better(monitor, mode, who):
    """operator.gt or lt: the direction in which a metric improves."""
    if not isinstance(monitor, metrics.EvalMetric):
        raise ValueError(f"{who}: monitor must be one of estimator.train_metrics or val_metrics, got "
                         f"{type(monitor).__name__}")
    if mode not in ("auto", "min", "max"):
        warnings.warn(f"{who}: mode={mode!r}, expected 'auto', 'min' or 'max'; using 'auto'", stacklevel=3)
        mode = "auto"
    if mode == "auto":
        name = monitor.get()[0]
        name = name if isinstance(name, str) else " ".join(name)
        mode = "max" if any(word in name.lower() for word in ("acc", "f1", "corr")) else "min"
    return operator.gt if mode == "max" else operator.lt


def _value(monitor):
    value = monitor.get()[1]
    return value[0] if isinstance(value, list) else value


class CheckpointHandler(TrainBegin, BatchEnd, EpochEnd):
    """Saves parameters and the trainer's states in model_dir:

        prefix-symbol.json, prefix-epoch3batch400.params, prefix-epoch3batch400.states, prefix-best.params ...

    every epoch_period epochs and batch_period batches; the oldest beyond max_checkpoints are deleted.  save_best also saves
    the best one by `monitor`.  With resume_from_checkpoint training continues from the newest files.
    """

    def __init__(self, model_dir, model_prefix="model", monitor=None, verbose=0, save_best=False, mode="auto",
                 epoch_period=1, batch_period=None, max_checkpoints=5, resume_from_checkpoint=False):
        if save_best and monitor is None:
            raise ValueError("CheckpointHandler: save_best needs a monitor, one of estimator.train_metrics or "
                             "val_metrics")
        self.monitor, self.verbose, self.save_best = monitor, verbose, save_best
        self.model_dir, self.model_prefix = model_dir, model_prefix
        self.epoch_period, self.batch_period, self.max_checkpoints = epoch_period, batch_period, max_checkpoints
        self.resume_from_checkpoint = resume_from_checkpoint
        self.current_batch = self.current_epoch = 0
        self.trained_epoch, self.trained_batch = -1, -1
        self.saved_checkpoints, self.best = [], None
        self._is_better = _better(monitor, mode, "CheckpointHandler") if save_best else None
        os.makedirs(model_dir, exist_ok=True)

    def _path(self, name):
        return os.path.join(self.model_dir, f"{self.model_prefix}-{name}")

    def train_begin(self, estimator, *args, **kwargs):
        """Starts counting, after the epochs and batches already trained."""
        self.current_batch = self.current_epoch = 0
        self.trained_epoch, self.trained_batch, self.best = -1, -1, None
        if self.resume_from_checkpoint:
            self._resume(estimator)

    def batch_end(self, estimator, *args, **kwargs):
        """Counts a batch, and saves if it is due."""
        if self.batch_period and (self.current_batch + 1) % self.batch_period == 0:
            self._save(estimator)
        self.current_batch += 1

    def epoch_end(self, estimator, *args, **kwargs):
        """Counts an epoch, and saves if it is due."""
        if self.epoch_period and (self.current_epoch + 1) % self.epoch_period == 0:
            self._save(estimator)
        self.current_epoch += 1

    def _save(self, estimator):
        epoch = self.current_epoch + self.trained_epoch + 1
        batch = self.current_batch + max(self.trained_batch, 0)
        name = f"epoch{epoch}batch{batch}"
        if not self.saved_checkpoints:
            self._save_symbol(estimator)
        self._write(estimator, name)
        if self.verbose:
            estimator.logger.info("[Epoch %d] CheckpointHandler: saved %s", epoch, self._path(name))
        self.saved_checkpoints.append(name)
        while len(self.saved_checkpoints) > self.max_checkpoints:
            self._remove(self.saved_checkpoints.pop(0))
        if self.save_best:
            self._save_best(estimator, epoch)

    def _save_best(self, estimator, epoch):
        value = _value(self.monitor)
        if value != value:  # nothing was counted yet
            warnings.warn(f"CheckpointHandler: {self.monitor.get()[0]} has no value; validate as often as you save",
                          stacklevel=4)
            return
        if self.best is None or self._is_better(value, self.best):
            if self.verbose:
                estimator.logger.info("[Epoch %d] CheckpointHandler: %s improved from %s to %s", epoch,
                                      self.monitor.get()[0], self.best, value)
            self.best = value
            self._write(estimator, "best")

    def _save_symbol(self, estimator):
        from .... import symbol
        from ...block import HybridBlock
        if not isinstance(estimator.net, HybridBlock):
            estimator.logger.info("CheckpointHandler: the network is not hybrid, its graph is not saved")
            return
        try:
            graph = estimator.net(symbol.var("data"))
            graph = graph if isinstance(graph, symbol.Symbol) else symbol.Group(list(graph))
        except Exception as error:  # a network with several inputs, or one that reads values
            estimator.logger.info("CheckpointHandler: the graph is not saved: %s", error)
            return
        graph.save(self._path("symbol.json"))

    def _write(self, estimator, name):
        """Writes both files, each under a temporary name first: a file is complete even if the program is killed."""
        for ending, save in ((".params", estimator.net.save_parameters), (".states", estimator.trainer.save_states)):
            path = self._path(name) + ending
            save(path + ".part")
            os.replace(path + ".part", path)

    def _remove(self, name):
        for ending in (".params", ".states"):
            if os.path.exists(self._path(name) + ending):
                os.remove(self._path(name) + ending)

    def _newest(self):
        """(epoch, batch) of the newest pair of files; None if there is none."""
        pattern = re.compile(re.escape(self.model_prefix) + r"-epoch(\d+)batch(\d+)\.params$")
        found = []
        for name in os.listdir(self.model_dir):
            match = pattern.match(name)
            if match and os.path.exists(os.path.join(self.model_dir, name[:-len(".params")] + ".states")):
                found.append(tuple(map(int, match.groups())))
        return max(found, default=None)

    def _resume(self, estimator):
        newest = self._newest()
        if newest is None:
            estimator.logger.info("CheckpointHandler: there is no checkpoint in %s, training starts from the beginning",
                                  self.model_dir)
            return
        self.trained_epoch, self.trained_batch = newest
        if estimator.max_epoch:
            estimator.max_epoch -= self.trained_epoch + 1
        if estimator.max_batch:
            estimator.max_batch -= self.trained_batch
        if (estimator.max_epoch is not None and estimator.max_epoch <= 0) or \
                (estimator.max_batch is not None and estimator.max_batch <= 0):
            raise ValueError(f"CheckpointHandler: the checkpoint in {self.model_dir} is of epoch {self.trained_epoch}, "
                             f"batch {self.trained_batch}: there is nothing left to train")
        name = f"epoch{self.trained_epoch}batch{self.trained_batch}"
        estimator.net.load_parameters(self._path(name) + ".params", ctx=estimator.context)
        estimator.trainer.load_states(self._path(name) + ".states")
        estimator.logger.info("CheckpointHandler: training resumes after epoch %d, batch %d", *newest)


class EarlyStoppingHandler(TrainBegin, EpochEnd, TrainEnd):
    """Stops training when `monitor` has not improved by min_delta for more than `patience` epochs."""

    def __init__(self, monitor, min_delta=0, patience=0, mode="auto", baseline=None):
        self.monitor, self.baseline, self.patience, self.min_delta = monitor, baseline, patience, abs(min_delta)
        self.monitor_op = _better(monitor, mode, "EarlyStoppingHandler")
        self._start()

    def _start(self):
        self.wait = self.stopped_epoch = self.current_epoch = 0
        self.stop_training, self.best = False, self.baseline

    def train_begin(self, estimator, *args, **kwargs):
        """Starts counting."""
        self._start()

    def _improved(self, value):
        if self.best is None:
            return True
        return self.monitor_op(value - (self.min_delta if self.monitor_op is operator.gt else -self.min_delta),
                               self.best)

    def epoch_end(self, estimator, *args, **kwargs):
        """Checks the metric."""
        value = _value(self.monitor)
        if value != value:
            warnings.warn(f"EarlyStoppingHandler: {self.monitor.get()[0]} has no value; was it counted in this epoch?",
                          stacklevel=2)
        elif self._improved(value):
            self.best, self.wait = value, 0
        else:
            self.wait += 1
            if self.wait >= self.patience:
                self.stopped_epoch, self.stop_training = self.current_epoch, True
        self.current_epoch += 1
        return self.stop_training

    def train_end(self, estimator, *args, **kwargs):
        """Logs a message if this handler stopped training."""
        if self.stopped_epoch > 0:
            estimator.logger.info("[Epoch %d] EarlyStoppingHandler: stopped, %s did not improve", self.stopped_epoch,
                                  self.monitor.get()[0])
