"""Where the numbers of a training run go: TensorBoard's files, MLflow, Weights & Biases.

A log has start(params), write(values, step) and finish().  Callbacks of Module.fit and handlers of the estimator
(gluon.contrib.estimator) write to logs; a class with these three methods is a log, too.  The packages of others are imported
when a log is made.
"""
import importlib

from .tensorboard import SummaryWriter

__all__ = ["Log", "MLflowCallback", "MLflowLog", "MetricsCallback", "TensorBoardLog", "WandbCallback", "WandbLog"]


class Log:
    """Base of logs: ignores everything."""

    def start(self, params):
        """A run begins; params: a dict of settings."""

    def write(self, values, step):
        """A dict of numbers at a step."""

    def finish(self):
        """The run has ended."""


def package(module, name, who):
    """A package that is installed separately."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{who} needs the package {module}, which cannot be imported ({error}): pip install {name}") from error


class TensorBoardLog(Log):
    """Scalars of TensorBoard, in a new file in logdir; start() writes the settings as a text."""

    def __init__(self, logdir):
        self.writer = SummaryWriter(logdir)

    def start(self, params):
        """Writes a table of the settings."""
        lines = [f"| {name} | {value} |" for name, value in params.items()]
        if lines:
            self.writer.add_text("settings", "\n".join(["| setting | value |", "|---|---|", *lines]), 0)

    def write(self, values, step):
        """One scalar per name."""
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def finish(self):
        """Everything is written already."""


class MLflowLog(Log):
    """Parameters and metrics of the active run of MLflow; if there is none, of a new one, which finish() ends."""

    def __init__(self, experiment=None, run_name=None, tracking_uri=None):
        self._mlflow = package("mlflow", "mlflow-skinny", type(self).__name__)
        self._experiment, self._run_name, self._own = experiment, run_name, False
        if tracking_uri is not None:
            self._mlflow.set_tracking_uri(tracking_uri)

    def start(self, params):
        """Starts a run unless one is active, and logs the settings."""
        if self._mlflow.active_run() is None:
            if self._experiment is not None:
                self._mlflow.set_experiment(self._experiment)
            self._mlflow.start_run(run_name=self._run_name)
            self._own = True
        self._mlflow.log_params(params)

    def write(self, values, step):
        """Logs metrics."""
        self._mlflow.log_metrics(values, step=step)

    def finish(self):
        """Ends the run that start() started."""
        if self._own:
            self._mlflow.end_run()
        self._own = False


class WandbLog(Log):
    """The current run of Weights & Biases; if there is none, a new one with these arguments of wandb.init, which finish() ends."""

    def __init__(self, **init):
        self._wandb = package("wandb", "wandb", type(self).__name__)
        self._init, self._run, self._own = init, None, False

    def start(self, params):
        """Starts a run unless there is one, and sets its configuration."""
        self._own = self._wandb.run is None
        self._run = self._wandb.init(**self._init) if self._own else self._wandb.run
        self._run.config.update(params, allow_val_change=True)

    def write(self, values, step):
        """Logs values."""
        self._run.log(values, step=step)

    def finish(self):
        """Ends the run that start() started."""
        if self._own and self._run is not None:
            self._run.finish()
        self._run, self._own = None, False


class MetricsCallback:
    """A callback of batches or of evaluations (Module.fit) that writes every metric to a log."""

    def __init__(self, log, prefix=None, params=None):
        self.log, self.prefix, self.step = log, prefix, 0
        log.start(dict(params or {}))

    def __call__(self, param):
        self.step += 1
        if param.eval_metric is None:
            return
        before = "" if self.prefix is None else f"{self.prefix}-"
        self.log.write({before + name: float(value) for name, value in param.eval_metric.get_name_value()}, self.step)

    def close(self):
        """The run has ended."""
        self.log.finish()


class MLflowCallback(MetricsCallback):
    """Metrics of Module.fit in MLflow: batch_end_callback=MLflowCallback(prefix="train")."""

    def __init__(self, prefix=None, params=None, **run):
        super().__init__(MLflowLog(**run), prefix, params)


class WandbCallback(MetricsCallback):
    """Metrics of Module.fit in Weights & Biases; further arguments are those of wandb.init."""

    def __init__(self, prefix=None, params=None, **init):
        super().__init__(WandbLog(**init), prefix, params)
