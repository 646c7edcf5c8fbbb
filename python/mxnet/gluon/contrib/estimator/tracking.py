"""Handlers that write the numbers of a training to a log: TensorBoard, MLflow, Weights & Biases (mxnet.contrib.tracking)."""
import math

from ....contrib import tracking
from ...block import HybridBlock
from .event_handler import BatchEnd, EpochEnd, TrainBegin, TrainEnd, check_metrics

__all__ = ["MLflowHandler", "TensorBoardHandler", "TrackingHandler", "WandbHandler"]


class TrackingHandler(TrainBegin, BatchEnd, EpochEnd, TrainEnd):
    """Writes metrics and the learning rate to a log after every epoch, or after every log_interval batches.

    The default metrics are those of the estimator, training and validation; the step is the number of epochs or of batches.
    params: settings of the run, beside those of the estimator.  The handler comes after those that count and evaluate.
    """

    def __init__(self, log, metrics=None, log_interval="epoch", params=None, priority=float("inf")):
        name = type(self).__name__
        if log_interval != "epoch" and not (isinstance(log_interval, int) and log_interval > 0):
            raise ValueError(f"{name}: log_interval={log_interval!r}, expected 'epoch' or a number of batches")
        self.log, self.log_interval, self.priority = log, log_interval, priority
        self.metrics, self.params = check_metrics(metrics, name), dict(params or {})
        self.current_epoch = self.current_batch = 0

    def train_begin(self, estimator, *args, **kwargs):
        """Starts the run with the settings."""
        trainer = estimator.trainer
        own = {"optimizer": type(trainer.optimizer).__name__, "learning_rate": trainer.learning_rate,
               "loss": type(estimator.loss).__name__, "epochs": estimator.max_epoch, "batches": estimator.max_batch}
        self.log.start({**{name: value for name, value in own.items() if value is not None}, **self.params})

    def _write(self, estimator, step):
        listed = self.metrics or estimator.train_metrics + estimator.val_metrics
        pairs = [pair for metric in listed for pair in metric.get_name_value()]
        values = {_tag(name): float(value) for name, value in pairs if not math.isnan(value)}
        self.log.write({**values, "learning_rate": estimator.trainer.learning_rate}, step)

    def batch_end(self, estimator, *args, **kwargs):
        """Writes the values so far if they are due."""
        self.current_batch += 1
        if self.log_interval != "epoch" and self.current_batch % self.log_interval == 0:
            self._write(estimator, self.current_batch)

    def epoch_end(self, estimator, *args, **kwargs):
        """Writes the values of the epoch."""
        self.current_epoch += 1
        if self.log_interval == "epoch":
            self._write(estimator, self.current_epoch)

    def train_end(self, estimator, *args, **kwargs):
        """Ends the run."""
        self.log.finish()


def _tag(name):
    """'training/accuracy' of 'training accuracy': pages of logs have a section per word before the slash."""
    return name.replace(" ", "/", 1) if name.startswith(("training ", "validation ")) else name


class TensorBoardHandler(TrackingHandler):
    """Writes an event file into logdir for TensorBoard: metrics, the network's graph, with histograms=True also the parameters
    after every epoch.

        estimator.fit(data, epochs=10, event_handlers=[TensorBoardHandler("runs/first")])
    """

    def __init__(self, logdir, metrics=None, log_interval="epoch", params=None, graph=True, histograms=False,
                 priority=float("inf")):
        super().__init__(tracking.TensorBoardLog(logdir), metrics, log_interval, params, priority)
        self.writer, self._graph, self._histograms = self.log.writer, graph, histograms

    def batch_end(self, estimator, *args, **kwargs):
        """After the first batch, the graph."""
        super().batch_end(estimator, *args, **kwargs)
        if self._graph:
            self._add_graph(estimator, kwargs["batch"])
        self._graph = False

    def _add_graph(self, estimator, batch):
        net = estimator.net
        if not isinstance(net, HybridBlock):
            return
        try:
            self.writer.add_graph(net, *([] if net._seen() else [batch[0]]))
        except Exception as error:  # whatever the network's code raises: a training does not end for want of a drawing
            estimator.logger.warning("TensorBoardHandler: the graph of %s is left out: %s", net.name, error)

    def epoch_end(self, estimator, *args, **kwargs):
        """Writes the values of the epoch, and histograms."""
        super().epoch_end(estimator, *args, **kwargs)
        if self._histograms:
            for name, parameter in estimator.net.collect_params().items():
                self.writer.add_histogram(name, parameter.data(parameter.list_ctx()[0]), self.current_epoch)


class MLflowHandler(TrackingHandler):
    """Writes to MLflow: parameters and metrics of the active run, or of a new one in `experiment`, which ends with the training."""

    def __init__(self, experiment=None, run_name=None, tracking_uri=None, metrics=None, log_interval="epoch", params=None,
                 priority=float("inf")):
        super().__init__(tracking.MLflowLog(experiment, run_name, tracking_uri), metrics, log_interval, params, priority)


class WandbHandler(TrackingHandler):
    """Writes to Weights & Biases: to the current run, or to a new one with these arguments of wandb.init (project, name, mode,
    dir ...), which ends with the training.
    """

    def __init__(self, metrics=None, log_interval="epoch", params=None, priority=float("inf"), **init):
        super().__init__(tracking.WandbLog(**init), metrics, log_interval, params, priority)
