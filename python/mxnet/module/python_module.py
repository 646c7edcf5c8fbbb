"""Modules written in Python: without parameters, for parts between other modules."""
import logging

from .. import ndarray as nd
from ..initializer import Uniform
from .base_module import BaseModule
from .executor_group import described

__all__ = ["PythonModule", "PythonLossModule"]


class PythonModule(BaseModule):
    """Base of modules without parameters: override forward, backward, get_outputs, get_input_grads and
    _compute_output_shapes()."""

    def __init__(self, data_names, label_names, output_names, logger=logging):
        super().__init__(logger)
        self._data_names = list(data_names)
        self._label_names = None if label_names is None else list(label_names)
        self._output_names = list(output_names)
        self._data_shapes = self._label_shapes = self._output_shapes = None

    @property
    def data_names(self):
        return self._data_names

    @property
    def output_names(self):
        return self._output_names

    @property
    def data_shapes(self):
        return self._data_shapes

    @property
    def label_shapes(self):
        return self._label_shapes

    @property
    def output_shapes(self):
        return self._output_shapes

    def get_params(self):
        """There are none."""
        return {}, {}

    def init_params(self, initializer=Uniform(0.01), arg_params=None, aux_params=None, allow_missing=False,
                    force_init=False, allow_extra=False):
        """Does nothing: there are no parameters."""
        self.params_initialized = True

    def init_optimizer(self, kvstore="local", optimizer="sgd", optimizer_params=(("learning_rate", 0.01),),
                       force_init=False):
        """Does nothing: there are no parameters."""
        self.optimizer_initialized = True

    def update(self):
        """Does nothing: there are no parameters."""

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        """Updates the metric with the outputs, if the module has labels."""
        if self._label_shapes is None:
            return
        if pre_sliced:
            raise RuntimeError("update_metric: a PythonModule takes unsplit batches")
        eval_metric.update_dict(dict(zip(self._label_names or [], labels)), dict(zip(self._output_names,
                                                                                     self.get_outputs())))

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False, force_rebind=False,
             shared_module=None, grad_req="write"):
        """Stores the shapes."""
        if self.binded and not force_rebind:
            self.logger.warning("%s: it is already bound; force_rebind=True binds it again", type(self).__name__)
            return
        if grad_req != "write":
            raise AssertionError(f"bind: grad_req={grad_req!r}, a PythonModule only writes gradients")
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        if [shape[0] for shape in data_shapes] != self._data_names:
            raise AssertionError(f"bind: data_shapes has {[s[0] for s in data_shapes]}, expected {self._data_names}")
        self._data_shapes, self._label_shapes = described(data_shapes), described(label_shapes)
        self._output_shapes = self._compute_output_shapes()
        self.binded = True

    def _compute_output_shapes(self):
        """[(name, shape)] of the outputs."""
        raise self._absent("_compute_output_shapes")

    def install_monitor(self, mon):
        """Does nothing: there is no executor."""


class PythonLossModule(PythonModule):
    """A loss module: returns its data unchanged, and grad_func(scores, labels) as their gradient."""

    def __init__(self, name="pyloss", data_names=("data",), label_names=("softmax_label",), logger=logging,
                 grad_func=None):
        if len(data_names) != 1 or len(label_names) != 1:
            raise AssertionError("PythonLossModule: expected one data name and one label name")
        super().__init__(data_names, label_names, [name + "_output"], logger)
        if grad_func is not None and not callable(grad_func):
            raise AssertionError(f"PythonLossModule: grad_func must be a function, got {type(grad_func).__name__}")
        self._name, self._grad_func = name, grad_func
        self._scores = self._labels = self._scores_grad = None

    def _compute_output_shapes(self):
        return [(self._name + "_output", self._data_shapes[0].shape)]

    def forward(self, data_batch, is_train=None):
        """Stores scores and labels."""
        self._scores = data_batch.data[0]
        if self.for_training if is_train is None else is_train:
            self._labels = data_batch.label[0]

    def get_outputs(self, merge_multi_context=True):
        """The scores."""
        if not merge_multi_context:
            raise AssertionError("get_outputs: a PythonLossModule has one context")
        return [self._scores]

    def backward(self, out_grads=None):
        """Computes the gradient of the scores with grad_func."""
        if out_grads is not None:
            raise AssertionError("backward: a loss takes no gradients of outputs")
        if not self.for_training:
            raise AssertionError("backward: the module was bound with for_training=False")
        self._backward_impl()

    def _backward_impl(self):
        if self._grad_func is None:
            raise self._absent("_backward_impl, and has no grad_func")
        grad = self._grad_func(self._scores, self._labels)
        self._scores_grad = grad if isinstance(grad, nd.NDArray) else nd.array(grad)

    def get_input_grads(self, merge_multi_context=True):
        """The gradient of the scores."""
        if not merge_multi_context:
            raise AssertionError("get_input_grads: a PythonLossModule has one context")
        return [self._scores_grad]
