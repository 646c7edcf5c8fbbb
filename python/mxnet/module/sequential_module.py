"""SequentialModule: a chain of modules, each taking the outputs of the previous one."""
import logging

from ..initializer import Uniform
from ..io import DataBatch, DataDesc
from .base_module import BaseModule

__all__ = ["SequentialModule"]


class SequentialModule(BaseModule):
    """A chain of modules.

        net = mx.mod.SequentialModule()
        net.add(mx.mod.Module(body, label_names=None))
        net.add(mx.mod.Module(head), take_labels=True, auto_wiring=True)

    take_labels: the module gets the labels of the batch.  auto_wiring: the previous module's outputs are renamed to this
    module's data names.
    """

    META_TAKE_LABELS = "take_labels"
    META_AUTO_WIRING = "auto_wiring"

    def __init__(self, logger=logging):
        super().__init__(logger)
        self._modules, self._metas = [], []
        self._label_shapes = self._data_shapes = None

    def add(self, module, **kwargs):
        """Appends a module; returns this one, so that calls can be chained."""
        for key in kwargs:
            if key not in (self.META_TAKE_LABELS, self.META_AUTO_WIRING):
                raise AssertionError(f"SequentialModule.add: unknown option '{key}'; there are take_labels and "
                                     f"auto_wiring")
        self._modules.append(module)
        self._metas.append(kwargs)
        self.binded = self.params_initialized = self.optimizer_initialized = False
        return self

    @property
    def data_names(self):
        return self._modules[0].data_names if self._modules else []

    @property
    def output_names(self):
        return self._modules[-1].output_names if self._modules else []

    @property
    def data_shapes(self):
        self._need("binded")
        return self._modules[0].data_shapes

    @property
    def label_shapes(self):
        self._need("binded")
        return self._label_shapes

    @property
    def output_shapes(self):
        self._need("binded")
        return self._modules[-1].output_shapes

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False, force_rebind=False,
             shared_module=None, grad_req="write"):
        """Binds the modules one after the other."""
        if self.binded and not force_rebind:
            self.logger.warning("SequentialModule: it is already bound; force_rebind=True binds it again")
            return
        if shared_module is not None:
            raise AssertionError("SequentialModule: shared_module is not supported")
        if not self._modules:
            raise AssertionError("SequentialModule: there is no module; add() some")
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        shapes, taken = data_shapes, False
        for i, (module, meta) in enumerate(zip(self._modules, self._metas)):
            labels = label_shapes if meta.get(self.META_TAKE_LABELS) else None
            taken = taken or labels is not None
            if meta.get(self.META_AUTO_WIRING):
                if len(module.data_names) != len(shapes):
                    raise AssertionError(f"SequentialModule: module {i} takes {module.data_names}, {len(shapes)} "
                                         f"arrays come")
                shapes = [DataDesc(name, tuple(shape[1])) for name, shape in zip(module.data_names, shapes)]
            module.bind(shapes, labels, for_training, bool(for_training and (inputs_need_grad or i > 0)), force_rebind,
                        grad_req=grad_req)
            shapes = module.output_shapes
        self._label_shapes = label_shapes if taken else None
        self.binded = True

    def get_params(self):
        self._need("binded", "params_initialized")
        arguments, auxiliary = {}, {}
        for module in self._modules:
            own_arguments, own_auxiliary = module.get_params()
            arguments.update(own_arguments)
            auxiliary.update(own_auxiliary)
        return arguments, auxiliary

    def init_params(self, initializer=Uniform(0.01), arg_params=None, aux_params=None, allow_missing=False,
                    force_init=False, allow_extra=False):
        """Initializes all modules; each name may be in only one of them."""
        if self.params_initialized and not force_init:
            return
        self._need("binded")
        known = {}
        for i, module in enumerate(self._modules):
            module.init_params(initializer, arg_params, aux_params, allow_missing, force_init, allow_extra=True)
            for names in module.get_params():
                for name in names:
                    if known.setdefault(name, i) != i:
                        raise AssertionError(f"SequentialModule: modules {known[name]} and {i} both have '{name}'")
        self.params_initialized = True

    def init_optimizer(self, kvstore="local", optimizer="sgd", optimizer_params=(("learning_rate", 0.01),),
                       force_init=False):
        """An optimizer for each module."""
        self._need("binded", "params_initialized")
        if self.optimizer_initialized and not force_init:
            self.logger.warning("SequentialModule: the optimizer is already initialized; force_init=True creates a new "
                                "one")
            return
        for module in self._modules:
            module.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        self.optimizer_initialized = True

    def forward(self, data_batch, is_train=None):
        """Runs the modules one after the other."""
        self._need("binded", "params_initialized")
        batch = DataBatch(data_batch.data, data_batch.label, data_batch.pad, data_batch.index)
        for module in self._modules:
            module.forward(batch, is_train=is_train)
            batch.data = module.get_outputs()

    def backward(self, out_grads=None):
        """Runs backward from the last module to the first."""
        self._need("binded", "params_initialized")
        for i in reversed(range(len(self._modules))):
            self._modules[i].backward(out_grads)
            if i:
                out_grads = self._modules[i].get_input_grads()

    def update(self):
        self._need("binded", "params_initialized", "optimizer_initialized")
        for module in self._modules:
            module.update()

    def get_outputs(self, merge_multi_context=True):
        self._need("binded", "params_initialized")
        return self._modules[-1].get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context=True):
        self._need("binded", "params_initialized")
        return self._modules[0].get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        """Updates the metric with the outputs of the modules that take labels."""
        self._need("binded", "params_initialized")
        for module, meta in zip(self._modules, self._metas):
            if meta.get(self.META_TAKE_LABELS):
                module.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon):
        self._need("binded")
        for module in self._modules:
            module.install_monitor(mon)
