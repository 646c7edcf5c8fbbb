"""The executors of the oldest training interface (mx.model.FeedForward uses Module today)."""
import logging

from .context import cpu
from .module.executor_group import DataParallelExecutorGroup as _Group

__all__ = ["DataParallelExecutorGroup", "DataParallelExecutorManager"]


class DataParallelExecutorGroup:
    """Executors on several contexts, for batches of an iterator like train_data."""

    def __init__(self, sym, arg_names, param_names, ctx, slices, train_data, shared_group=None):
        self.slices, self._param_names = slices, list(param_names)
        self._group = _Group(sym, list(ctx), [part.stop - part.start for part in slices], train_data.provide_data,
                             train_data.provide_label, param_names, True, False,
                             None if shared_group is None else shared_group._group)
        self._batch = None

    def load_data_batch(self, data_batch):
        """Loads the batch for the next forward."""
        self._batch = data_batch

    def forward(self, is_train=False):
        """Computes the outputs of the loaded batch."""
        self._group.forward(self._batch, is_train)

    def backward(self):
        """Computes the gradients."""
        self._group.backward()

    def update_metric(self, metric, labels, pre_sliced=False):
        """Updates a metric with the outputs."""
        self._group.update_metric(metric, labels, pre_sliced)

    param_arrays = property(lambda self: self._group.param_arrays, doc="Per parameter the arrays of all contexts.")
    grad_arrays = property(lambda self: self._group.grad_arrays, doc="Per parameter the gradients of all contexts.")
    aux_arrays = property(lambda self: self._group.aux_arrays, doc="Per auxiliary state the arrays of all contexts.")


class DataParallelExecutorManager:
    """A group of executors, with copying of parameters; sym_gen(bucket_key) returns other symbols."""

    def __init__(self, symbol, ctx, train_data, arg_names=None, param_names=None, aux_names=None, work_load_list=None,
                 logger=None, sym_gen=None):
        contexts = ctx if isinstance(ctx, (list, tuple)) else [ctx or cpu()]
        inputs = {shape[0] for shape in list(train_data.provide_data) + list(train_data.provide_label or [])}
        self.param_names = list(param_names or [n for n in symbol.list_arguments() if n not in inputs])
        self.aux_names = list(aux_names or symbol.list_auxiliary_states())
        self.symbol, self.sym_gen = symbol, sym_gen
        self._contexts, self._loads, self._logger = list(contexts), work_load_list, logger or logging
        self.execgrp = self.curr_execgrp = self._made(symbol, train_data, None)
        self._groups = {getattr(train_data, "default_bucket_key", None): self.execgrp}
        self._batch = None

    def _made(self, symbol, source, shared):
        return _Group(symbol, self._contexts, self._loads, source.provide_data, source.provide_label, self.param_names,
                      True, False, shared, self._logger)

    param_arrays = property(lambda self: self.execgrp.param_arrays, doc="Per parameter the arrays of all contexts.")
    grad_arrays = property(lambda self: self.execgrp.grad_arrays, doc="Per parameter the gradients of all contexts.")
    aux_arrays = property(lambda self: self.execgrp.aux_arrays, doc="Per auxiliary state the arrays of all contexts.")

    def install_monitor(self, monitor):
        """Installs a Monitor on the executors."""
        self.execgrp.install_monitor(monitor)

    def set_params(self, arg_params, aux_params):
        """Copies parameters to all contexts."""
        self.execgrp.set_params(arg_params, aux_params, allow_extra=True)

    def copy_to(self, arg_params, aux_params):
        """Copies the parameters into these dicts."""
        self.execgrp.get_params(arg_params, aux_params)

    def load_data_batch(self, data_batch):
        """Loads the batch for the next forward, and switches to the executors of its bucket."""
        if self.sym_gen is not None:
            key = data_batch.bucket_key
            if key not in self._groups:
                self._groups[key] = self._made(self.sym_gen(key), data_batch, self.execgrp)
            self.curr_execgrp = self._groups[key]
        self._batch = data_batch

    def forward(self, is_train=False):
        """Computes the outputs of the loaded batch."""
        self.curr_execgrp.forward(self._batch, is_train)

    def backward(self):
        """Computes the gradients."""
        self.curr_execgrp.backward()

    def update_metric(self, metric, labels, pre_sliced=False):
        """Updates a metric with the outputs."""
        self.curr_execgrp.update_metric(metric, labels, pre_sliced)
