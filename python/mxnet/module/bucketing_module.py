"""BucketingModule: one network per sequence length, all with the same parameters."""
import logging

from ..initializer import Uniform
from ..model import load_params
from .base_module import BaseModule
from .module import Module

__all__ = ["BucketingModule"]


class BucketingModule(BaseModule):
    """sym_gen(bucket_key) returns (symbol, data_names, label_names); the bucket_key of a batch selects the network.

    The module of default_bucket_key owns the parameters, and must be the largest; the others share its arrays.
    """

    def __init__(self, sym_gen, default_bucket_key=None, logger=logging, context=None, work_load_list=None,
                 fixed_param_names=None, state_names=None, group2ctxs=None, compression_params=None):
        super().__init__(logger)
        if default_bucket_key is None:
            raise AssertionError("BucketingModule: default_bucket_key is missing")
        self._sym_gen, self._default_bucket_key = sym_gen, default_bucket_key
        self._options = dict(logger=logger, context=context, work_load_list=work_load_list,
                             fixed_param_names=fixed_param_names, state_names=state_names, group2ctxs=group2ctxs,
                             compression_params=compression_params)
        self._given = None
        self._forget_modules()
        self._made(default_bucket_key)  # raises its errors now

    def _forget_modules(self):
        self.binded = False
        self._buckets, self._curr_module, self._curr_bucket_key = {}, None, None

    def _made(self, key):
        symbol, data_names, label_names = self._sym_gen(key)
        return Module(symbol, data_names, label_names, **self._options)

    # ---- files -----------------------------------------------------------------------------------------------------

    @staticmethod
    def load(prefix, epoch, sym_gen=None, default_bucket_key=None, **kwargs):
        """A module with the parameters of a checkpoint, ready after bind()."""
        module = BucketingModule(sym_gen, default_bucket_key, **kwargs)
        module._given = load_params(f"{prefix}", epoch)
        module.params_initialized = True
        return module

    @staticmethod
    def load_dict(sym_dict=None, sym_gen=None, default_bucket_key=None, arg_params=None, aux_params=None, **kwargs):
        """The same from dicts; sym_dict: symbols by bucket key instead of sym_gen."""
        module = BucketingModule(sym_gen or (lambda key: sym_dict[key]), default_bucket_key, **kwargs)
        module._given = (arg_params or {}, aux_params or {})
        module.params_initialized = True
        return module

    def save_checkpoint(self, prefix, epoch, remove_amp_cast=False):
        """Writes parameters and the symbol of every bucket."""
        self._need("binded", "params_initialized")
        for key, module in self._buckets.items():
            module.symbol.save(f"{prefix}-{key}-symbol.json")
        self._buckets[self._default_bucket_key].symbol.save(f"{prefix}-symbol.json")
        self.save_params(f"{prefix}-{epoch:04d}.params")

    # ---- properties ------------------------------------------------------------------------------------------------

    @property
    def data_names(self):
        return self._curr_module.data_names if self.binded else list(self._sym_gen(self._default_bucket_key)[1])

    @property
    def output_names(self):
        return self._curr_module.output_names if self.binded else \
            self._sym_gen(self._default_bucket_key)[0].list_outputs()

    @property
    def data_shapes(self):
        self._need("binded")
        return self._curr_module.data_shapes

    @property
    def label_shapes(self):
        self._need("binded")
        return self._curr_module.label_shapes

    @property
    def output_shapes(self):
        self._need("binded")
        return self._curr_module.output_shapes

    @property
    def symbol(self):
        """The symbol of the current bucket."""
        self._need("binded")
        return self._curr_module.symbol

    # ---- parameters ------------------------------------------------------------------------------------------------

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False, force_rebind=False,
             shared_module=None, grad_req="write"):
        """Binds the module of the default bucket; the others follow when they are needed."""
        if shared_module is not None:
            raise AssertionError("BucketingModule: shared_module is not supported")
        if self.binded and not force_rebind:
            self.logger.warning("BucketingModule: it is already bound; force_rebind=True binds it again")
            return
        kept = self.get_params() if self.binded and self.params_initialized else self._given
        self._forget_modules()
        self.for_training, self.inputs_need_grad, self._grad_req = for_training, inputs_need_grad, grad_req
        module = self._made(self._default_bucket_key)
        module.bind(data_shapes, label_shapes, for_training, inputs_need_grad, grad_req=grad_req)
        self._curr_module, self._curr_bucket_key, self.binded = module, self._default_bucket_key, True
        self._buckets[self._default_bucket_key] = module
        if kept is not None:
            module.set_params(*kept)
            self._given, self.params_initialized = None, True

    def switch_bucket(self, bucket_key, data_shapes, label_shapes=None):
        """Switches to another bucket, which is bound if it is new."""
        self._need("binded")
        owner = self._buckets[self._default_bucket_key]
        if bucket_key not in self._buckets:
            module = self._made(bucket_key)
            module.bind(data_shapes, label_shapes, self.for_training, self.inputs_need_grad, shared_module=owner,
                        grad_req=self._grad_req)
            self._buckets[bucket_key] = module
        self._curr_module, self._curr_bucket_key = self._buckets[bucket_key], bucket_key
        if self.optimizer_initialized and not self._curr_module.optimizer_initialized:
            self._curr_module.borrow_optimizer(owner)

    def init_params(self, initializer=Uniform(0.01), arg_params=None, aux_params=None, allow_missing=False,
                    force_init=False, allow_extra=False):
        """Initializes the parameters, which all buckets share."""
        if self.params_initialized and not force_init:
            return
        self._need("binded")
        owner = self._buckets[self._default_bucket_key]
        owner.init_params(initializer, arg_params, aux_params, allow_missing, force_init, allow_extra)
        self.params_initialized = True

    def get_params(self):
        self._need("params_initialized")
        return self._given if not self.binded else self._buckets[self._default_bucket_key].get_params()

    def init_optimizer(self, kvstore="local", optimizer="sgd", optimizer_params=(("learning_rate", 0.01),),
                       force_init=False):
        """Creates the optimizer, which all buckets share."""
        self._need("binded", "params_initialized")
        if self.optimizer_initialized and not force_init:
            self.logger.warning("BucketingModule: the optimizer is already initialized; force_init=True creates a new one")
            return
        owner = self._buckets[self._default_bucket_key]
        owner.init_optimizer(kvstore, optimizer, optimizer_params, force_init=force_init)
        for module in self._buckets.values():
            if module is not owner:
                module.borrow_optimizer(owner)
        self.optimizer_initialized = True

    # ---- running ---------------------------------------------------------------------------------------------------

    def prepare(self, data_batch, sparse_row_id_fn=None):
        """Binds the bucket of a batch in advance."""
        self._need("binded", "params_initialized")
        current = self._curr_bucket_key
        self._switch_to(data_batch)
        self._curr_module, self._curr_bucket_key = self._buckets[current], current

    def _switch_to(self, batch):
        key = self._curr_bucket_key if batch.bucket_key is None else batch.bucket_key
        self.switch_bucket(key, batch.provide_data, batch.provide_label)

    def forward(self, data_batch, is_train=None):
        """Computes the outputs of a batch with the network of its bucket."""
        self._need("binded", "params_initialized")
        self._switch_to(data_batch)
        self._curr_module.forward(data_batch, is_train=is_train)

    def backward(self, out_grads=None):
        self._need("binded", "params_initialized")
        self._curr_module.backward(out_grads)

    def update(self):
        self._need("binded", "params_initialized", "optimizer_initialized")
        self._curr_module.update()

    def get_outputs(self, merge_multi_context=True):
        self._need("binded", "params_initialized")
        return self._curr_module.get_outputs(merge_multi_context)

    def get_input_grads(self, merge_multi_context=True):
        self._need("binded", "params_initialized")
        return self._curr_module.get_input_grads(merge_multi_context)

    def get_states(self, merge_multi_context=True):
        self._need("binded", "params_initialized")
        return self._curr_module.get_states(merge_multi_context)

    def set_states(self, states=None, value=None):
        self._need("binded", "params_initialized")
        self._curr_module.set_states(states, value)

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        self._need("binded", "params_initialized")
        self._curr_module.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon):
        self._need("binded")
        for module in self._buckets.values():
            module.install_monitor(mon)
