"""Checks of metrics, and the metric that fits a loss."""
from .... import metric as _metric
from ...loss import SoftmaxCrossEntropyLoss

__all__ = []


def _check_metrics(metrics):
    """Metrics as a list without those inside a CompositeEvalMetric."""
    if isinstance(metrics, _metric.CompositeEvalMetric):
        metrics = [found for inner in metrics.metrics for found in _check_metrics(inner)]
    if isinstance(metrics, _metric.EvalMetric):
        return [metrics]
    metrics = metrics or []
    if not all(isinstance(one, _metric.EvalMetric) for one in metrics):
        raise ValueError(f"metrics must be an EvalMetric or a list of them, got {metrics!r}")
    return metrics


def _check_metric_known(handler, metric, known_metrics):
    """An error if a handler watches a metric that is not the estimator's."""
    if not any(metric is known for known in known_metrics):
        raise ValueError(f"{type(handler).__name__} refers to the metric {metric}, which the Estimator does not update; "
                         "pass it one of train_metrics or val_metrics")


def _check_handler_metric_ref(handler, known_metrics):
    """The same for everything that a handler holds."""
    for value in vars(handler).values():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, _metric.EvalMetric):
                _check_metric_known(handler, one, known_metrics)


def _suggest_metric_for_loss(loss):
    """Accuracy for classification, None for others."""
    return _metric.Accuracy() if isinstance(loss, SoftmaxCrossEntropyLoss) else None
