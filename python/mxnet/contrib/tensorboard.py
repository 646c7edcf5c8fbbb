"""Metrics for TensorBoard, written by the package mxboard or tensorboardX if one is installed."""
from ..error import UnsupportedError

__all__ = ["LogMetricsCallback"]


def _writer(folder):
    for package in ("mxboard", "tensorboardX"):
        try:
            return __import__(package).SummaryWriter(folder)
        except ImportError:
            continue
    raise UnsupportedError("LogMetricsCallback: writing TensorBoard files needs the package mxboard or "
                           "tensorboardX; neither is installed")


class LogMetricsCallback:
    """A batch callback that writes every metric as a scalar to files in logging_dir."""

    def __init__(self, logging_dir, prefix=None):
        self.prefix, self.step = prefix, 0
        self.summary_writer = _writer(logging_dir)

    def __call__(self, param):
        self.step += 1
        if param.eval_metric is None:
            return
        for name, value in param.eval_metric.get_name_value():
            name = name if self.prefix is None else f"{self.prefix}-{name}"
            self.summary_writer.add_scalar(name, value, global_step=self.step)
