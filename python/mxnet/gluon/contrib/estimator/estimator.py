"""Estimator: a network, its loss, metrics and trainer, and the loop that trains it."""
import copy
import warnings

from .... import metric as metrics
from ....context import Context, current_context, num_gpus
from ...block import Block, HybridBlock  # noqa: F401
from ...data import DataLoader
from ...loss import Loss, SoftmaxCrossEntropyLoss
from ...trainer import Trainer
from .batch_processor import BatchProcessor
from .event_handler import (BatchBegin, BatchEnd, EpochBegin, EpochEnd, EventHandler, GradientUpdateHandler,
                            LoggingHandler, MetricHandler, StoppingHandler, TrainBegin, TrainEnd, ValidationHandler,
                            check_metrics, default_logger)

__all__ = ["Estimator"]

_EVENTS = {TrainBegin: "train_begin", EpochBegin: "epoch_begin", BatchBegin: "batch_begin", BatchEnd: "batch_end",
           EpochEnd: "epoch_end", TrainEnd: "train_end"}


class Estimator:
    """Trains and evaluates a network.

        estimator = Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), train_metrics=mx.metric.Accuracy(),
                              trainer=gluon.Trainer(net.collect_params(), "adam"))
        estimator.fit(train_data, val_data=test_data, epochs=10)

    The default metrics are accuracy (if the loss is a cross entropy) and the loss itself; val_metrics default to copies of
    train_metrics.  val_net and val_loss: a different network and loss for the evaluation.
    """

    def __init__(self, net, loss, train_metrics=None, val_metrics=None, initializer=None, trainer=None, context=None,
                 val_net=None, val_loss=None, batch_processor=None):
        self.net, self.loss = net, self._checked(loss, Loss, "loss")
        self.val_net = net if val_net is None else val_net
        self.val_loss = self.loss if val_loss is None else self._checked(val_loss, Loss, "val_loss")
        self.logger = default_logger()
        self._train_metrics = check_metrics(train_metrics, "Estimator")
        self._val_metrics = check_metrics(val_metrics, "Estimator")
        self._add_default_metrics()
        self.context = self._contexts(context)
        self._initialize(initializer)
        self.trainer = self._checked_trainer(trainer)
        self.batch_processor = BatchProcessor() if batch_processor is None else \
            self._checked(batch_processor, BatchProcessor, "batch_processor")
        self.max_epoch = self.max_batch = self.batches_per_epoch = None
        self.batch_axis = 0

    @staticmethod
    def _checked(value, kind, what):
        if not isinstance(value, kind):
            raise ValueError(f"Estimator: {what} must be a {kind.__name__}, got {type(value).__name__}")
        return value

    @property
    def train_metrics(self):
        """Metrics of the training data."""
        return self._train_metrics

    @property
    def val_metrics(self):
        """Metrics of the validation data."""
        return self._val_metrics

    def _add_default_metrics(self):
        if not self._train_metrics:
            if isinstance(self.loss, SoftmaxCrossEntropyLoss):
                self._train_metrics.append(metrics.Accuracy())
            self._train_metrics.append(metrics.Loss(name=self.loss.name.rstrip("0123456789")))
        if not self._val_metrics:
            self._val_metrics = [copy.deepcopy(metric) for metric in self._train_metrics]
        for listed, word in ((self._train_metrics, "training "), (self._val_metrics, "validation ")):
            for metric in listed:
                if isinstance(metric.name, str) and not metric.name.startswith(("training ", "validation ")):
                    metric.name = word + metric.name

    @staticmethod
    def _contexts(context):
        if context is None:
            return [current_context()]
        listed = list(context) if isinstance(context, (list, tuple)) else [context]
        for one in listed:
            if not isinstance(one, Context):
                raise ValueError(f"Estimator: context must be a Context or a list of them, got {type(one).__name__}")
            if one.device_type == "gpu" and one.device_id >= num_gpus():
                raise AssertionError(f"Estimator: context {one} does not exist: there are {num_gpus()} GPUs")
        return listed

    def _initialize(self, initializer):
        """Initializes the network if it is not initialized."""
        missing = [p for p in self.net.collect_params().values() if not _has_start(p)]
        if missing:
            self.net.initialize(init=initializer, ctx=self.context)
        elif initializer is not None:
            warnings.warn("Estimator: the network is already initialized, initializer is ignored", stacklevel=3)
        for parameter in self.net.collect_params().values():
            if set(parameter.list_ctx()) != set(self.context):
                self.net.collect_params().reset_ctx(self.context)
                break

    def _checked_trainer(self, trainer):
        if trainer is None:
            warnings.warn("Estimator: no trainer was given, using sgd with learning rate 0.001", stacklevel=3)
            return Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.001})
        return self._checked(trainer, Trainer, "trainer")

    # ---- handlers --------------------------------------------------------------------------------------------------

    def _prepare_default_handlers(self, val_data, event_handlers):
        """The given handlers and the default ones, in order."""
        given = self._listed(event_handlers)

        def missing(kind):
            return not any(isinstance(handler, kind) for handler in given)

        added = []
        if missing(GradientUpdateHandler):
            added.append(GradientUpdateHandler())
        if missing(MetricHandler):
            added.append(MetricHandler(self._train_metrics))
        if val_data is not None and missing(ValidationHandler):
            added.append(ValidationHandler(val_data, self.evaluate))
        if missing(StoppingHandler):
            added.append(StoppingHandler(self.max_epoch, self.max_batch))
        if missing(LoggingHandler):
            added.append(LoggingHandler(metrics=self._train_metrics))
        if added:
            self._check_metrics_of(given, added)
        return self._in_order(given + added)

    def _check_metrics_of(self, given, added):
        """Default handlers count the estimator's own metrics only: others would never get a value."""
        own = self._train_metrics + self._val_metrics
        for handler in given:
            for metric in _metrics_of(handler):
                if not any(metric is one for one in own):
                    names = ", ".join(type(one).__name__ for one in added)
                    raise ValueError(f"Estimator: {type(handler).__name__} uses the metric '{metric.name}', which is none "
                                     f"of estimator.train_metrics and val_metrics, while {names} are added by default; "
                                     "use the estimator's metrics, or give all handlers")

    def _categorize_handlers(self, event_handlers):
        """Six lists: the handlers of train begin, epoch begin, batch begin, batch end, epoch end and train end."""
        return tuple([handler for handler in event_handlers if isinstance(handler, kind)] for kind in _EVENTS)

    def _for_validation(self, event_handlers):
        handlers = self._listed(event_handlers)
        if not any(isinstance(handler, MetricHandler) for handler in handlers):
            handlers.append(MetricHandler(self._val_metrics))
        if not any(isinstance(handler, LoggingHandler) for handler in handlers):
            handlers.append(LoggingHandler(metrics=self._val_metrics))
        return self._in_order(handlers)

    @staticmethod
    def _listed(event_handlers):
        handlers = [] if event_handlers is None else \
            list(event_handlers) if isinstance(event_handlers, (list, tuple)) else [event_handlers]
        for handler in handlers:
            if not isinstance(handler, EventHandler):
                raise ValueError(f"Estimator: event_handlers must be EventHandlers, got {type(handler).__name__}")
        return handlers

    @staticmethod
    def _in_order(handlers):
        return sorted(handlers, key=lambda handler: getattr(handler, "priority", 0))

    def _by_event(self, handlers):
        return dict(zip(_EVENTS, self._categorize_handlers(handlers)))

    @staticmethod
    def _tell(handlers, kind, estimator, **what):
        """Calls the handlers of an event; returns whether one of them stops training."""
        answers = [getattr(handler, _EVENTS[kind])(estimator, **what) for handler in handlers[kind]]
        return any(answer is True for answer in answers)

    # ---- loops -----------------------------------------------------------------------------------------------------

    @staticmethod
    def _check_data(data, what):
        if not isinstance(data, DataLoader):
            raise ValueError(f"Estimator: {what} must be a gluon.data.DataLoader, got {type(data).__name__}")

    def evaluate(self, val_data, batch_axis=0, event_handlers=None):
        """Computes the validation metrics over a DataLoader."""
        self._check_data(val_data, "val_data")
        handlers = self._by_event(self._for_validation(event_handlers))
        self._tell(handlers, EpochBegin, self)
        for batch in val_data:
            self._tell(handlers, BatchBegin, self, batch=batch)
            _, label, pred, loss = self.batch_processor.evaluate_batch(self, batch, batch_axis)
            self._tell(handlers, BatchEnd, self, batch=batch, pred=pred, label=label, loss=loss)
        self._tell(handlers, EpochEnd, self)

    def fit(self, train_data, val_data=None, epochs=None, event_handlers=None, batches=None, batch_axis=0):
        """Trains for a number of epochs or of batches."""
        self._check_data(train_data, "train_data")
        if (epochs is None) == (batches is None):
            raise ValueError(f"Estimator.fit: epochs={epochs} and batches={batches}, expected exactly one of them")
        if (epochs if batches is None else batches) <= 0:
            raise ValueError(f"Estimator.fit: epochs={epochs}, batches={batches}, expected a positive number")
        self.max_epoch, self.max_batch, self.batch_axis = epochs, batches, batch_axis
        self.batches_per_epoch = len(train_data)
        handlers = self._by_event(self._prepare_default_handlers(val_data, event_handlers))
        self._tell(handlers, TrainBegin, self)
        while not self._epoch(train_data, handlers, batch_axis):
            pass
        self._tell(handlers, TrainEnd, self)

    def _epoch(self, train_data, handlers, batch_axis):
        """Runs one epoch; returns whether training stops."""
        self._tell(handlers, EpochBegin, self)
        ends, batch = False, None
        for batch in train_data:
            self._tell(handlers, BatchBegin, self, batch=batch)
            _, label, pred, loss = self.batch_processor.fit_batch(self, batch, batch_axis)
            ends = self._tell(handlers, BatchEnd, self, batch=batch, pred=pred, label=label, loss=loss)
            if ends:
                break
        if batch is None:
            raise ValueError("Estimator.fit: train_data has no batches")
        return self._tell(handlers, EpochEnd, self) or ends


def _metrics_of(handler):
    """The metrics that a handler counts or shows; a `monitor` may be one that the program counts by itself."""
    listed = getattr(handler, "metrics", None)
    listed = listed if isinstance(listed, (list, tuple)) else [listed]
    return [one for one in listed if isinstance(one, metrics.EvalMetric)]


def _has_start(parameter):
    """Whether a parameter has a value, or will have one once its shape is known."""
    try:
        parameter.list_ctx()
    except RuntimeError:
        return False
    return True
