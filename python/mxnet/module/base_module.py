"""The interface of modules, and their common methods: fit, score, predict.

A module goes through four states, and its methods check that the previous one was reached:

    bind (arrays exist) -> init_params (they have values) -> init_optimizer -> forward, backward, update
"""
import logging
import time

from .. import metric as metrics
from .. import ndarray as nd
from ..context import cpu
from ..error import StateError
from ..initializer import Uniform
from ..model import BatchEndParam

__all__ = ["BaseModule"]


def as_list(x):
    """x itself if it is a list, nothing for None, else a list of it."""
    return [] if x is None else list(x) if isinstance(x, (list, tuple)) else [x]


def call_all(callbacks, *arguments):
    """Calls one function or all of a list."""
    for callback in as_list(callbacks):
        callback(*arguments)


def check_names(names, known, kind, who, throw):
    """Checks that names of inputs are arguments of the symbol; with throw=False missing ones are only logged."""
    for name in names:
        if name in known:
            continue
        likely = [a for a in known if not a.endswith(("_weight", "_bias", "_gamma", "_beta"))]
        message = (f"{who}: the symbol has no argument named '{name}', which {kind}_names has; "
                   f"those that look like inputs are {', '.join(likely) or 'none'}")
        if throw:
            raise ValueError(message)
        logging.warning(message)


class BaseModule:
    """Base of modules.  A subclass defines bind, init_params, init_optimizer, forward, backward, update and the
    properties that describe inputs and outputs; the training loop is here.

        module = mx.mod.Module(symbol)
        module.fit(train, eval_data=test, num_epoch=10, optimizer_params={"learning_rate": 0.1})
        module.score(test, "acc")
    """

    def __init__(self, logger=logging):
        self.logger = logger
        self.binded = self.params_initialized = self.optimizer_initialized = False
        self.for_training = self.inputs_need_grad = False
        self._symbol = None

    def _need(self, *states):
        """Checks the states binded, params_initialized, optimizer_initialized that the call needs."""
        advice = {"binded": "bind()", "params_initialized": "init_params()",
                  "optimizer_initialized": "init_optimizer()"}
        for state in states:
            if not getattr(self, state):
                raise ModuleStateError(f"{type(self).__name__}: call {advice[state]} first")

    def _absent(self, name):
        return NotImplementedError(f"{type(self).__name__} does not override {name}")

    # ---- properties ------------------------------------------------------------------------------------------------

    @property
    def data_names(self):
        """Names of the data that the module takes."""
        raise self._absent("data_names")

    @property
    def output_names(self):
        """Names of the outputs."""
        raise self._absent("output_names")

    @property
    def data_shapes(self):
        """(name, shape) of the data."""
        raise self._absent("data_shapes")

    @property
    def label_shapes(self):
        """(name, shape) of the labels; None if there are none."""
        raise self._absent("label_shapes")

    @property
    def output_shapes(self):
        """(name, shape) of the outputs."""
        raise self._absent("output_shapes")

    @property
    def symbol(self):
        """The symbol; None if the module has none."""
        return self._symbol

    # ---- defined by subclasses -------------------------------------------------------------------------------------

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False, force_rebind=False,
             shared_module=None, grad_req="write"):
        """Allocates the arrays for these shapes."""
        raise self._absent("bind")

    def init_params(self, initializer=Uniform(0.01), arg_params=None, aux_params=None, allow_missing=False,
                    force_init=False, allow_extra=False):
        """Sets the parameters: to the given values, the others by the initializer."""
        raise self._absent("init_params")

    def init_optimizer(self, kvstore="local", optimizer="sgd", optimizer_params=(("learning_rate", 0.01),),
                       force_init=False):
        """Creates the optimizer."""
        raise self._absent("init_optimizer")

    def get_params(self):
        """(arg_params, aux_params), copies on the CPU by name."""
        raise self._absent("get_params")

    def forward(self, data_batch, is_train=None):
        """Computes the outputs of a batch."""
        raise self._absent("forward")

    def backward(self, out_grads=None):
        """Computes the gradients of the last forward."""
        raise self._absent("backward")

    def update(self):
        """Applies the optimizer to the gradients."""
        raise self._absent("update")

    def get_outputs(self, merge_multi_context=True):
        """Outputs of the last forward."""
        raise self._absent("get_outputs")

    def get_input_grads(self, merge_multi_context=True):
        """Gradients of the data, after bind(inputs_need_grad=True)."""
        raise self._absent("get_input_grads")

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        """Updates a metric with the last outputs."""
        raise self._absent("update_metric")

    def install_monitor(self, mon):
        """Installs a Monitor on all outputs."""
        raise self._absent("install_monitor")

    def get_states(self, merge_multi_context=True):
        """States that persist between batches: none here."""
        self._need("binded", "params_initialized")
        return []

    def set_states(self, states=None, value=None):
        """Sets those states."""
        self._need("binded", "params_initialized")
        if states or value:
            raise ValueError(f"{type(self).__name__}: the module has no states")

    def prepare(self, data_batch, sparse_row_id_fn=None):
        """Called before every batch: a module of several networks switches to the right one."""

    # ---- common methods --------------------------------------------------------------------------------------------

    def set_params(self, arg_params, aux_params, allow_missing=False, force_init=True, allow_extra=False):
        """Sets the parameters."""
        self.init_params(initializer=None, arg_params=arg_params, aux_params=aux_params, allow_missing=allow_missing,
                         force_init=force_init, allow_extra=allow_extra)

    def save_params(self, fname):
        """Writes all parameters to a file."""
        arguments, auxiliary = self.get_params()
        values = {"arg:" + name: value.as_in_context(cpu()) for name, value in arguments.items()}
        values.update({"aux:" + name: value.as_in_context(cpu()) for name, value in auxiliary.items()})
        nd.save(fname, values)

    def load_params(self, fname):
        """Reads the file of save_params."""
        kinds = {"arg": {}, "aux": {}}
        for key, value in nd.load(fname).items():
            kind, _, name = key.partition(":")
            if kind not in kinds or not name:
                raise ValueError(f"load_params: '{fname}' has an array named '{key}', expected arg:... or aux:...")
            kinds[kind][name] = value
        self.set_params(kinds["arg"], kinds["aux"])

    def forward_backward(self, data_batch):
        """forward in training mode, then backward."""
        self.forward(data_batch, is_train=True)
        self.backward()

    def score(self, eval_data, eval_metric, num_batch=None, batch_end_callback=None, score_end_callback=None,
              reset=True, epoch=0, sparse_row_id_fn=None):
        """Evaluates a metric over an iterator: [(name, value), ...]."""
        eval_metric = metrics.create(eval_metric)
        eval_metric.reset()
        count = 0
        for count, batch in self._batches(eval_data, num_batch, reset, sparse_row_id_fn):
            self.forward(batch, is_train=False)
            self._count_batch(eval_metric, batch)
            call_all(batch_end_callback, BatchEndParam(epoch, count - 1, eval_metric, locals()))
        call_all(score_end_callback, BatchEndParam(epoch, count, eval_metric, locals()))
        return eval_metric.get_name_value()

    def _batches(self, eval_data, num_batch, reset, sparse_row_id_fn=None):
        """(number from 1, batch) of at most num_batch batches."""
        self._need("binded", "params_initialized")
        if reset:
            eval_data.reset()
        for number, batch in enumerate(eval_data):
            if number == num_batch:
                return
            self.prepare(batch, sparse_row_id_fn=sparse_row_id_fn)
            yield number + 1, batch

    def _count_batch(self, eval_metric, batch):
        if isinstance(batch, list):
            self.update_metric(eval_metric, [part.label for part in batch], pre_sliced=True)
        else:
            self.update_metric(eval_metric, batch.label)

    def iter_predict(self, eval_data, num_batch=None, reset=True, sparse_row_id_fn=None):
        """Yields (outputs, number of the batch, batch), without the padding of the last batch."""
        for number, batch in self._batches(eval_data, num_batch, reset, sparse_row_id_fn):
            self.forward(batch, is_train=False)
            yield self._outputs_of(batch), number - 1, batch

    def _outputs_of(self, batch):
        keep = [out.shape[0] - (batch.pad or 0) for out in self.get_outputs()]
        return [out[:n].copy() for out, n in zip(self.get_outputs(), keep)]

    def predict(self, eval_data, num_batch=None, merge_batches=True, reset=True, always_output_list=False,
                sparse_row_id_fn=None):
        """Outputs over an iterator, concatenated along the batch; an array (or NumPy array) is one batch."""
        if not hasattr(eval_data, "provide_data"):
            return self._predict_array(eval_data)
        listed = [outputs for outputs, _, _ in self.iter_predict(eval_data, num_batch, reset, sparse_row_id_fn)]
        if not listed or not merge_batches:
            return listed
        if len({len(outputs) for outputs in listed}) > 1:
            raise ValueError("predict: batches have different numbers of outputs; use merge_batches=False")
        joined = [nd.concat(*parts, dim=0) if len(parts) > 1 else parts[0] for parts in zip(*listed)]
        return joined if always_output_list or len(joined) > 1 else joined[0]

    def _predict_array(self, data):
        from ..io import NDArrayIter
        if not isinstance(data, nd.NDArray) and not hasattr(data, "__array__"):
            raise ValueError(f"predict: expected an iterator or an array, got {type(data).__name__}")
        self._need("binded", "params_initialized")
        one = next(iter(NDArrayIter(data, batch_size=data.shape[0])))
        self.forward(one, is_train=False)
        return self.get_outputs()[0]

    # ---- training --------------------------------------------------------------------------------------------------

    def fit(self, train_data, eval_data=None, eval_metric="acc", epoch_end_callback=None, batch_end_callback=None,
            kvstore="local", optimizer="sgd", optimizer_params=(("learning_rate", 0.01),), eval_end_callback=None,
            eval_batch_end_callback=None, initializer=Uniform(0.01), arg_params=None, aux_params=None,
            allow_missing=False, force_rebind=False, force_init=False, begin_epoch=0, num_epoch=None,
            validation_metric=None, monitor=None, sparse_row_id_fn=None):
        """Trains for epochs begin_epoch .. num_epoch - 1, evaluates after each and calls the callbacks."""
        if num_epoch is None:
            raise AssertionError("fit: num_epoch is missing")
        if force_rebind or not self.binded:
            self.bind(train_data.provide_data, train_data.provide_label, for_training=True, force_rebind=force_rebind)
        if monitor is not None:
            self.install_monitor(monitor)
        self.init_params(initializer, arg_params, aux_params, allow_missing=allow_missing, force_init=force_init)
        self.init_optimizer(kvstore=kvstore, optimizer=optimizer, optimizer_params=optimizer_params)
        validation_metric = validation_metric or eval_metric
        eval_metric = metrics.create(eval_metric)
        for epoch in range(begin_epoch, num_epoch):
            start = time.time()
            self._train_epoch(epoch, train_data, eval_metric, batch_end_callback, monitor, sparse_row_id_fn)
            for name, value in eval_metric.get_global_name_value():
                self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
            self.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - start)
            arguments, auxiliary = self.get_params()
            self.set_params(arguments, auxiliary)  # statistics of several contexts are averaged
            call_all(epoch_end_callback, epoch, self.symbol, arguments, auxiliary)
            if eval_data is not None:
                for name, value in self.score(eval_data, validation_metric, score_end_callback=eval_end_callback,
                                              batch_end_callback=eval_batch_end_callback, epoch=epoch):
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
            train_data.reset()

    def _train_epoch(self, epoch, train_data, eval_metric, batch_end_callback, monitor, sparse_row_id_fn):
        eval_metric.reset()
        for number, batch in self._batches(train_data, None, False, sparse_row_id_fn):
            if monitor is not None:
                monitor.tic()
            self.forward_backward(batch)
            self.update()
            self._count_batch(eval_metric, batch)
            if monitor is not None:
                monitor.toc_print()
            call_all(batch_end_callback, BatchEndParam(epoch, number - 1, eval_metric, locals()))


class ModuleStateError(StateError, AssertionError):
    """A method was called before the one it needs."""
