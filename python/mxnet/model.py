"""Checkpoints of symbols and their parameters; FeedForward, the oldest training interface."""
from collections import namedtuple

from . import ndarray as nd
from . import symbol as sym
from .context import cpu

__all__ = ["BASE_ESTIMATOR", "BatchEndParam", "FeedForward", "save_checkpoint", "load_checkpoint", "load_params"]

BASE_ESTIMATOR = object
BatchEndParam = namedtuple("BatchEndParams", ["epoch", "nbatch", "eval_metric", "locals"])


def save_checkpoint(prefix, epoch, symbol, arg_params, aux_params, remove_amp_cast=True):
    """Writes prefix-symbol.json (unless symbol is None) and prefix-NNNN.params."""
    if symbol is not None:
        symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
    values = {"arg:" + name: value.as_in_context(cpu()) for name, value in arg_params.items()}
    values.update({"aux:" + name: value.as_in_context(cpu()) for name, value in aux_params.items()})
    nd.save(f"{prefix}-{epoch:04d}.params", values)


def load_params(prefix, epoch):
    """(arg_params, aux_params) of a checkpoint."""
    arguments, auxiliary = {}, {}
    loaded = nd.load(f"{prefix}-{epoch:04d}.params")
    if not isinstance(loaded, dict):
        raise ValueError(f"load_params: '{prefix}-{epoch:04d}.params' holds arrays without names")
    for key, value in loaded.items():
        kind, _, name = key.partition(":")
        if kind == "arg":
            arguments[name] = value
        elif kind == "aux":
            auxiliary[name] = value
    return arguments, auxiliary


def load_checkpoint(prefix, epoch):
    """(symbol, arg_params, aux_params) of a checkpoint."""
    symbol = sym.load(f"{prefix}-symbol.json")
    return (symbol,) + load_params(prefix, epoch)


class FeedForward(BASE_ESTIMATOR):
    """The oldest training interface: fits a symbol to arrays or iterators.  It uses mx.mod.Module.

        model = mx.model.FeedForward.create(symbol, X=train_data, num_epoch=10, learning_rate=0.1)
        model.predict(test_data)
    """

    def __init__(self, symbol, ctx=None, num_epoch=None, epoch_size=None, optimizer="sgd", initializer=None,
                 numpy_batch_size=128, arg_params=None, aux_params=None, allow_extra_params=False, begin_epoch=0,
                 **kwargs):
        from .initializer import Uniform
        self.symbol, self.ctx, self.num_epoch, self.epoch_size = symbol, ctx, num_epoch, epoch_size
        self.optimizer, self.kwargs = optimizer, dict(kwargs)
        self.initializer = Uniform(0.01) if initializer is None else initializer
        self.numpy_batch_size, self.allow_extra_params = numpy_batch_size, allow_extra_params
        self.begin_epoch = begin_epoch
        self.arg_params, self.aux_params = arg_params, aux_params

    def _iterator(self, X, y=None, is_train=False):  # noqa: N803
        """X as an iterator; arrays become batches of numpy_batch_size."""
        from .io import DataIter, NDArrayIter
        if isinstance(X, DataIter) or hasattr(X, "provide_data"):
            return X
        if is_train and y is None:
            raise ValueError("FeedForward: y is missing; fitting arrays needs labels")
        size = min(len(X), self.numpy_batch_size)
        return NDArrayIter(X, y, size, shuffle=is_train, last_batch_handle="roll_over" if is_train else "pad")

    def _module(self, source, for_training):
        from .module import Module
        labels = [shape[0] for shape in source.provide_label or []]
        if not for_training:  # labels of the symbol that the iterator does not provide
            known = {shape[0] for shape in source.provide_data} | set(self.arg_params or {}) | set(labels)
            labels += [name for name in self.symbol.list_arguments() if name not in known]
        module = Module(self.symbol, [shape[0] for shape in source.provide_data], labels, context=self.ctx)
        module.bind(source.provide_data, source.provide_label or None, for_training=for_training)
        return module

    def fit(self, X, y=None, eval_data=None, eval_metric="acc", epoch_end_callback=None,  # noqa: N803
            batch_end_callback=None, kvstore="local", logger=None, work_load_list=None, monitor=None,
            eval_end_callback=None, eval_batch_end_callback=None):
        """Trains on an iterator, or on arrays X and y."""
        from .io import ResizeIter
        source = self._iterator(X, y, is_train=True)
        if self.epoch_size is not None:
            source = ResizeIter(source, self.epoch_size)
        if isinstance(eval_data, (tuple, list)):
            eval_data = self._iterator(*eval_data)
        module = self._module(source, True)
        if logger is not None:
            module.logger = logger
        module.init_params(self.initializer, self.arg_params, self.aux_params, allow_missing=True,
                           allow_extra=self.allow_extra_params)
        module.fit(source, eval_data, eval_metric, epoch_end_callback, batch_end_callback, kvstore, self.optimizer,
                   self.kwargs, eval_end_callback, eval_batch_end_callback, begin_epoch=self.begin_epoch,
                   num_epoch=self.num_epoch, monitor=monitor)
        self.arg_params, self.aux_params = module.get_params()

    def _ready(self, X):  # noqa: N803
        source = self._iterator(X)
        module = self._module(source, False)
        module.set_params(self.arg_params, self.aux_params or {}, allow_extra=True)
        return module, source

    def predict(self, X, num_batch=None, return_data=False, reset=True):  # noqa: N803
        """Outputs as NumPy arrays; with return_data (outputs, data, labels)."""
        module, source = self._ready(X)
        if not return_data:
            outputs = module.predict(source, num_batch=num_batch, reset=reset, always_output_list=True)
            return _single([x.asnumpy() for x in outputs])
        import numpy
        columns = None
        for outputs, _, batch in module.iter_predict(source, num_batch=num_batch, reset=reset):
            keep = batch.data[0].shape[0] - (batch.pad or 0)
            row = [[x.asnumpy()[:keep] for x in arrays or []] for arrays in (outputs, batch.data, batch.label)]
            columns = row if columns is None else [[numpy.concatenate([a, b]) for a, b in zip(old, new)]
                                                   for old, new in zip(columns, row)]
        return tuple(_single(column) for column in columns)

    def score(self, X, eval_metric="acc", num_batch=None, batch_end_callback=None, reset=True):  # noqa: N803
        """The value of a metric over an iterator."""
        module, source = self._ready(X)
        return module.score(source, eval_metric, num_batch=num_batch, batch_end_callback=batch_end_callback,
                            reset=reset)[0][1]

    def save(self, prefix, epoch=None, remove_amp_cast=True):
        """Writes prefix-symbol.json and prefix-NNNN.params."""
        epoch = self.num_epoch if epoch is None else epoch
        if epoch is None:
            raise AssertionError("FeedForward.save: epoch is missing")
        save_checkpoint(prefix, epoch, self.symbol, self.arg_params, self.aux_params, remove_amp_cast)

    @staticmethod
    def load(prefix, epoch, ctx=None, **kwargs):
        """A model from a checkpoint."""
        symbol, arguments, auxiliary = load_checkpoint(prefix, epoch)
        return FeedForward(symbol, ctx=ctx, arg_params=arguments, aux_params=auxiliary, begin_epoch=epoch, **kwargs)

    @staticmethod
    def create(symbol, X, y=None, ctx=None, num_epoch=None, epoch_size=None, optimizer="sgd",  # noqa: N803
               initializer=None, eval_data=None, eval_metric="acc", epoch_end_callback=None, batch_end_callback=None,
               kvstore="local", logger=None, work_load_list=None, eval_end_callback=None, eval_batch_end_callback=None,
               **kwargs):
        """Creates a model and fits it; further keywords are options of the optimizer."""
        model = FeedForward(symbol, ctx=ctx, num_epoch=num_epoch, epoch_size=epoch_size, optimizer=optimizer,
                            initializer=initializer, **kwargs)
        model.fit(X, y, eval_data, eval_metric, epoch_end_callback, batch_end_callback, kvstore, logger, work_load_list,
                  None, eval_end_callback, eval_batch_end_callback)
        return model


def _single(arrays):
    return arrays[0] if len(arrays) == 1 else arrays
