"""Callbacks of training loops: progress, speed, checkpoints.

Batch callbacks get an object with epoch, nbatch, eval_metric and locals; epoch callbacks get (epoch, symbol, arguments,
auxiliary states).
"""
import logging
import math
import time


def module_checkpoint(mod, prefix, period=1, save_optimizer_states=False):
    """An epoch callback that saves a module every `period` epochs as prefix-0001.params ..."""
    period = max(1, int(period))

    def save(iter_no, sym=None, arg=None, aux=None):
        if (iter_no + 1) % period == 0:
            mod.save_checkpoint(prefix, iter_no + 1, save_optimizer_states)
    return save


def do_checkpoint(prefix, period=1):
    """An epoch callback that saves symbol and parameters every `period` epochs."""
    period = max(1, int(period))

    def save(iter_no, sym, arg, aux):
        from .model import save_checkpoint
        if (iter_no + 1) % period == 0:
            save_checkpoint(prefix, iter_no + 1, sym, arg, aux)
    return save


def log_train_metric(period, auto_reset=False):
    """A batch callback that logs the metric every `period` batches."""
    def log(param):
        if param.nbatch % period == 0 and param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Iter[%d] Batch[%d] Train-%s=%f", param.epoch, param.nbatch, name, value)
            if auto_reset:
                param.eval_metric.reset_local()
    return log


class Speedometer:
    """A batch callback that logs samples per second, and the metric, every `frequent` batches."""

    def __init__(self, batch_size, frequent=50, auto_reset=True):
        self.batch_size, self.frequent, self.auto_reset = batch_size, frequent, auto_reset
        self.init, self.tic, self.last_count = False, 0, 0

    def __call__(self, param):
        count = param.nbatch
        if self.last_count > count:  # a new epoch
            self.init = False
        self.last_count = count
        if not self.init:
            self.init, self.tic = True, time.time()
        elif count % self.frequent == 0:
            self._log(param, count)
            self.tic = time.time()

    def _log(self, param, count):
        passed = time.time() - self.tic
        speed = self.frequent * self.batch_size / passed if passed > 0 else math.inf
        if param.eval_metric is None:
            logging.info("Iter[%d] Batch [%d]\tSpeed: %.2f samples/sec", param.epoch, count, speed)
            return
        pairs = param.eval_metric.get_name_value()
        where = f"{count - self.frequent}-{count}" if self.auto_reset else f"0-{count}"
        if self.auto_reset:
            param.eval_metric.reset_local()
        logging.info("Epoch[%d] Batch [%s]\tSpeed: %.2f samples/sec%s", param.epoch, where, speed,
                     "".join(f"\t{name}={value:f}" for name, value in pairs))


class ProgressBar:
    """A batch callback that draws a bar of `length` signs for `total` batches."""

    def __init__(self, total, length=80):
        self.total, self.bar_len = total, length

    def __call__(self, param):
        done = param.nbatch / float(self.total)
        filled = int(round(self.bar_len * done))
        bar = "=" * filled + "-" * (self.bar_len - filled)
        logging.info("[%s] %s%%\r", bar, math.ceil(100.0 * done))


class LogValidationMetricsCallback:
    """A callback after an evaluation that logs its metrics."""

    def __call__(self, param):
        if param.eval_metric:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Epoch[%d] Validation-%s=%f", param.epoch, name, value)
