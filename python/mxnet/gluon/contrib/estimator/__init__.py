"""A training loop with handlers: Estimator(net, loss, ...).fit(data, epochs=10)."""
from .batch_processor import BatchProcessor
from .estimator import Estimator
from .event_handler import (BatchBegin, BatchEnd, CheckpointHandler, EarlyStoppingHandler, EpochBegin, EpochEnd,
                            EventHandler, GradientUpdateHandler, LoggingHandler, MetricHandler, ProgressBarHandler,
                            StoppingHandler, TrainBegin, TrainEnd, ValidationHandler)
from .tracking import MLflowHandler, TensorBoardHandler, TrackingHandler, WandbHandler

__all__ = ["BatchBegin", "BatchEnd", "BatchProcessor", "CheckpointHandler", "EarlyStoppingHandler", "EpochBegin",
           "EpochEnd", "Estimator", "EventHandler", "GradientUpdateHandler", "LoggingHandler",
           "MLflowHandler", "MetricHandler", "ProgressBarHandler", "StoppingHandler", "TensorBoardHandler",
           "TrackingHandler", "TrainBegin", "TrainEnd", "ValidationHandler", "WandbHandler"]
