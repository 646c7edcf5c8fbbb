"""Module: a symbol, its parameters and an optimizer."""
import logging

from .. import _core
from .. import ndarray as nd
from .. import optimizer as opt
from ..context import Context, cpu, current_context
from ..initializer import InitDesc, Uniform
from ..io import DataDesc
from ..model import load_checkpoint, save_checkpoint
from .base_module import BaseModule, check_names
from .executor_group import DataParallelExecutorGroup, described

__all__ = ["Module"]


class Module(BaseModule):
    """A symbol that is trained: names of data and labels say which arguments are inputs, the others are parameters.

    context: one or several; a batch is then split and gradients are summed.  fixed_param_names are not trained,
    state_names are arguments that the program sets itself (get_states, set_states).
    """

    def __init__(self, symbol, data_names=("data",), label_names=("softmax_label",), logger=logging, context=None,
                 work_load_list=None, fixed_param_names=None, state_names=None, group2ctxs=None,
                 compression_params=None):
        super().__init__(logger)
        context = current_context() if context is None else context
        self._context = [context] if isinstance(context, Context) else list(context)
        if work_load_list is not None and len(work_load_list) != len(self._context):
            raise AssertionError(f"Module: {len(work_load_list)} numbers in work_load_list for {len(self._context)} "
                                 "contexts")
        self._work_load_list, self._group2ctxs = work_load_list, group2ctxs
        self._compression_params = compression_params
        self._symbol = symbol
        self._data_names, self._label_names = list(data_names or ()), list(label_names or ())
        self._state_names, self._fixed_param_names = list(state_names or ()), list(fixed_param_names or ())
        arguments = symbol.list_arguments()
        for names, kind, throw in ((self._data_names, "data", True), (self._label_names, "label", False),
                                   (self._state_names, "state", True), (self._fixed_param_names, "fixed_param", True)):
            check_names(names, arguments, kind, "Module", throw)
        inputs = set(self._data_names + self._label_names + self._state_names)
        self._param_names = [name for name in arguments if name not in inputs]
        self._aux_names, self._output_names = symbol.list_auxiliary_states(), symbol.list_outputs()
        self._forget_optimizer()
        self._exec_group = self._data_shapes = self._label_shapes = None
        self._preload_opt_states = self._loaded = None

    def _forget_optimizer(self):
        self._optimizer = self._kvstore = self._updater = None
        self._update_on_kvstore = False

    # ---- files -----------------------------------------------------------------------------------------------------

    @staticmethod
    def load(prefix, epoch, load_optimizer_states=False, **kwargs):
        """A module from prefix-symbol.json and prefix-NNNN.params; call bind() next."""
        symbol, arguments, auxiliary = load_checkpoint(prefix, epoch)
        module = Module(symbol=symbol, **kwargs)
        module._loaded = (arguments, auxiliary)
        module.params_initialized = True
        if load_optimizer_states:
            module._preload_opt_states = f"{prefix}-{epoch:04d}.states"
        return module

    def save_checkpoint(self, prefix, epoch, save_optimizer_states=False, remove_amp_cast=True):
        """Writes symbol and parameters, and with save_optimizer_states the optimizer's states to prefix-NNNN.states."""
        arguments, auxiliary = self.get_params()
        save_checkpoint(prefix, epoch, self._symbol, arguments, auxiliary, remove_amp_cast=remove_amp_cast)
        self.logger.info('Saved checkpoint to "%s-%04d.params"', prefix, epoch)
        if save_optimizer_states:
            self.save_optimizer_states(f"{prefix}-{epoch:04d}.states")

    def save_optimizer_states(self, fname):
        """Writes the optimizer's states."""
        self._need("optimizer_initialized")
        if self._update_on_kvstore:
            return self._kvstore.save_optimizer_states(fname)
        _core.write_file(fname, self._updater.get_states())

    def load_optimizer_states(self, fname):
        """Reads the file of save_optimizer_states."""
        self._need("optimizer_initialized")
        if self._update_on_kvstore:
            return self._kvstore.load_optimizer_states(fname)
        with open(fname, "rb") as file:
            self._updater.set_states(file.read())

    # ---- properties ------------------------------------------------------------------------------------------------

    @property
    def data_names(self):
        return self._data_names

    @property
    def label_names(self):
        """Names of the labels."""
        return self._label_names

    @property
    def output_names(self):
        return self._output_names

    @property
    def data_shapes(self):
        self._need("binded")
        return self._data_shapes

    @property
    def label_shapes(self):
        self._need("binded")
        return self._label_shapes

    @property
    def output_shapes(self):
        self._need("binded")
        return self._exec_group.get_output_shapes()

    # ---- arrays and parameters -------------------------------------------------------------------------------------

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False, force_rebind=False,
             shared_module=None, grad_req="write"):
        """Allocates the arrays for these shapes; a bound module is unchanged unless force_rebind."""
        if self.binded and not force_rebind:
            self.logger.warning("Module: it is already bound; force_rebind=True binds it again")
            return
        if inputs_need_grad and not for_training:
            raise AssertionError("bind: inputs_need_grad needs for_training=True")
        kept = self.get_params() if self.binded and self.params_initialized else None
        self.for_training, self.inputs_need_grad, self._grad_req = for_training, inputs_need_grad, grad_req
        self._data_shapes, self._label_shapes = self._in_order(data_shapes, label_shapes)
        shared = None
        if shared_module is not None:
            shared_module._need("binded", "params_initialized")
            shared = shared_module._exec_group
        self._exec_group = DataParallelExecutorGroup(
            self._symbol, self._context, self._work_load_list, self._data_shapes, self._label_shapes, self._param_names,
            for_training, inputs_need_grad, shared, self.logger, self._fixed_param_names, grad_req, self._state_names)
        self.binded = True
        if shared is not None:
            self.params_initialized = True
            if shared_module.optimizer_initialized:
                self.borrow_optimizer(shared_module)
        elif kept or self._loaded:
            self._exec_group.set_params(*(kept or self._loaded), allow_extra=True)
            self._loaded = None

    def _in_order(self, data_shapes, label_shapes):
        data, labels = described(data_shapes), described(label_shapes) or None
        by_name = {shape.name: shape for shape in data}
        if sorted(by_name) != sorted(self._data_names):
            raise ValueError(f"bind: data_shapes has {sorted(by_name)}, expected the data_names {self._data_names}")
        known = set(self._symbol.list_arguments())
        for shape in labels or []:
            if shape.name in known and shape.name not in self._label_names:
                raise ValueError(f"bind: label_shapes has '{shape.name}', label_names are {self._label_names}")
        return [by_name[name] for name in self._data_names], labels

    def reshape(self, data_shapes, label_shapes=None):
        """Continues with batches of other shapes; parameters stay."""
        self._need("binded")
        self._data_shapes, self._label_shapes = self._in_order(data_shapes, label_shapes)
        self._exec_group.reshape(self._data_shapes, self._label_shapes)

    def init_params(self, initializer=Uniform(0.01), arg_params=None, aux_params=None, allow_missing=False,
                    force_init=False, allow_extra=False):
        """Gives every parameter the value from arg_params or aux_params, or else from the initializer.

        If values are given, missing ones are an error unless allow_missing.  Extra ones are ignored, as those of a
        checkpoint of a larger symbol; allow_extra says so explicitly.
        """
        if self.params_initialized and not force_init:
            if arg_params is not None or aux_params is not None:
                self.logger.warning("Module: parameters are already initialized; force_init=True replaces them")
            return
        self._need("binded")
        notes, values = self._symbol.attr_dict(), []
        for names, given, place in ((self._param_names, arg_params, "arg_dict"),
                                    (self._aux_names, aux_params, "aux_dict")):
            own, chosen = getattr(self._exec_group.execs[0], place), {}
            for name in names:
                chosen[name] = self._start_value(name, own[name], given, allow_missing, initializer,
                                                 notes.get(name, {}), place == "aux_dict")
            values.append(chosen)
        self._exec_group.set_params(*values)
        self.params_initialized = True

    def _start_value(self, name, array, given, allow_missing, initializer, notes, auxiliary):
        if given is not None and name in given:
            if given[name].shape != array.shape:
                raise ValueError(f"init_params: '{name}' has shape {given[name].shape}, the symbol needs {array.shape}")
            return given[name]
        if given is not None and not allow_missing:
            raise RuntimeError(f"init_params: '{name}' is not among the given parameters; allow_missing=True lets the "
                               "initializer set it")
        value = nd.zeros(array.shape, ctx=cpu(), dtype=array.dtype) if initializer is not None else array
        if initializer is None:
            return value
        if auxiliary and "__init__" not in notes and name.endswith(("_mean", "_var")):
            value[:] = float(name.endswith("_var"))  # initial statistics are those of normalised data
        else:
            initializer(InitDesc(name, notes), value)
        return value

    @property
    def _arg_params(self):
        """Arguments by name; None before they are initialized."""
        return self.get_params()[0] if self.params_initialized else None

    @property
    def _aux_params(self):
        """Auxiliary states by name; None before they are initialized."""
        return self.get_params()[1] if self.params_initialized else None

    def get_params(self):
        """(arg_params, aux_params), copies on the CPU by name."""
        self._need("params_initialized")
        if self._exec_group is None:
            return self._loaded
        arguments, auxiliary = {}, {}
        self._exec_group.get_params(arguments, auxiliary)
        return arguments, auxiliary

    def get_states(self, merge_multi_context=True):
        self._need("binded", "params_initialized")
        return self._exec_group.get_states(merge_multi_context)

    def set_states(self, states=None, value=None):
        self._need("binded", "params_initialized")
        self._exec_group.set_states(states, value)

    # ---- optimizer -------------------------------------------------------------------------------------------------

    def init_optimizer(self, kvstore="local", optimizer="sgd", optimizer_params=(("learning_rate", 0.01),),
                       force_init=False):
        """Creates the optimizer; gradients are divided by the batch size, that of all processes together, unless
        rescale_grad is given."""
        self._need("binded", "params_initialized")
        if self.optimizer_initialized and not force_init:
            self.logger.warning("Module: the optimizer is already initialized; force_init=True creates a new one")
            return
        self._forget_optimizer()
        names = dict(enumerate(self._param_names))
        store = self._store(kvstore)
        if isinstance(optimizer, str):
            options = dict(optimizer_params)
            processes = store.num_workers if store is not None and "_sync" in store.type else 1
            options.setdefault("rescale_grad", 1.0 / (self._exec_group.batch_size * processes))
            optimizer = opt.create(optimizer, sym=self._symbol, param_idx2name=names, **options)
        elif not isinstance(optimizer, opt.Optimizer):
            raise AssertionError(f"init_optimizer: expected a name or an Optimizer, got {type(optimizer).__name__}")
        elif not optimizer.idx2name:
            optimizer.idx2name = names.copy()
        self._optimizer = optimizer
        self._kvstore = store
        if self._kvstore is None:
            self._updater = opt.get_updater(optimizer)
        else:
            self._update_on_kvstore = True
            for i, arrays in enumerate(self._exec_group.param_arrays):
                self._kvstore.init(i, arrays[0])
                if self._kvstore.num_workers > 1:  # all processes start from the values of the first
                    self._kvstore.pull(i, arrays)
            self._kvstore.set_optimizer(optimizer)
        self.optimizer_initialized = True
        if self._preload_opt_states is not None:
            self.load_optimizer_states(self._preload_opt_states)
            self._preload_opt_states = None

    def _store(self, kvstore):
        """A store if there is something to sum: several contexts, or a store that the program created."""
        from ..kvstore import KVStoreBase, create
        if kvstore is None:
            if len(self._context) > 1:
                kvstore = "local"
            else:
                return None
        if isinstance(kvstore, str):
            if len(self._context) == 1 and not kvstore.startswith("dist") and not self._compression_params:
                return None
            kvstore = create(kvstore)
        if not isinstance(kvstore, KVStoreBase):
            raise TypeError(f"init_optimizer: kvstore must be None, a name or a KVStore, got {type(kvstore).__name__}")
        if self._compression_params:
            kvstore.set_gradient_compression(self._compression_params)
        return kvstore

    def borrow_optimizer(self, shared_module):
        """Uses the optimizer of another module, with its states."""
        shared_module._need("optimizer_initialized")
        for name in ("_optimizer", "_kvstore", "_update_on_kvstore", "_updater"):
            setattr(self, name, getattr(shared_module, name))
        self.optimizer_initialized = True

    def update(self):
        """Applies the optimizer to the gradients."""
        self._need("binded", "params_initialized", "optimizer_initialized")
        group = self._exec_group
        for i, (weights, gradients) in enumerate(zip(group.param_arrays, group.grad_arrays)):
            if gradients[0] is None:
                continue
            key = self._optimizer_index(i)
            if self._update_on_kvstore:
                self._kvstore.push(key, gradients)
                self._kvstore.pull(key, weights)
            else:
                self._updater(key, gradients[0], weights[0])

    def _optimizer_index(self, i):
        """Index of a parameter in the optimizer, which may belong to a module with another order of parameters."""
        numbers = self.__dict__.get("_numbers")
        if numbers is None or self._numbers_of is not self._optimizer:
            names = {name: number for number, name in self._optimizer.idx2name.items()}
            self._numbers = numbers = [names.get(name, k) for k, name in enumerate(self._param_names)]
            self._numbers_of = self._optimizer
        return numbers[i]

    # ---- running ---------------------------------------------------------------------------------------------------

    def forward(self, data_batch, is_train=None):
        """Computes the outputs of a batch, whose shape may differ from the last one's."""
        self._need("binded", "params_initialized")
        if not isinstance(data_batch, list):
            self._follow_shape(data_batch)
        self._exec_group.forward(data_batch, is_train)

    def _follow_shape(self, batch):
        shapes = [x.shape for x in batch.data]
        if shapes == [shape.shape for shape in self._data_shapes]:
            return
        data = batch.provide_data or [DataDesc(old.name, shape, old.dtype, old.layout)
                                      for old, shape in zip(self._data_shapes, shapes)]
        labels = batch.provide_label or None
        if labels is None and batch.label and self._label_shapes:
            labels = [DataDesc(old.name, x.shape, old.dtype, old.layout)
                      for old, x in zip(self._label_shapes, batch.label)]
        self.reshape(data, labels)

    def backward(self, out_grads=None):
        self._need("binded", "params_initialized")
        self._exec_group.backward(out_grads)

    def get_outputs(self, merge_multi_context=True):
        self._need("binded", "params_initialized")
        return self._exec_group.get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context=True):
        self._need("binded", "params_initialized")
        return self._exec_group.get_input_grads(merge_multi_context)

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        self._exec_group.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon):
        self._need("binded")
        self._exec_group.install_monitor(mon)

    def prepare(self, data_batch, sparse_row_id_fn=None):
        """Nothing to do: parameters are dense."""
        self._need("binded")
