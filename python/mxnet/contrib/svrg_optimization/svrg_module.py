"""SVRGModule: steps whose variance is reduced by gradients over all data at an earlier point.

    gradient of a batch:  g(w) - g(w~) + mu        mu: mean gradient of all batches at w~, the weights some epochs ago
"""
import logging

from ... import ndarray as nd
from ...module import Module

__all__ = ["SVRGModule"]


class SVRGModule(Module):
    """A Module that is trained by stochastic variance reduced gradients; update_freq: every so many epochs w~ becomes
    w and mu is recomputed."""

    def __init__(self, symbol, data_names=("data",), label_names=("softmax_label",), logger=logging, context=None,
                 work_load_list=None, fixed_param_names=None, state_names=None, group2ctxs=None,
                 compression_params=None, update_freq=None):
        if not isinstance(update_freq, int) or isinstance(update_freq, bool) or update_freq <= 0:
            raise ValueError(f"SVRGModule: update_freq={update_freq!r}, expected a positive number of epochs")
        options = dict(logger=logger, context=context, work_load_list=work_load_list,
                       fixed_param_names=fixed_param_names, state_names=state_names, group2ctxs=group2ctxs,
                       compression_params=compression_params)
        super().__init__(symbol, data_names, label_names, **options)
        self.update_freq = update_freq
        self._mod_aux = Module(symbol, data_names, label_names, **options)  # the network at w~
        self._means = None  # mu, per parameter and context

    def bind(self, data_shapes, label_shapes=None, for_training=True, inputs_need_grad=False, force_rebind=False,
             shared_module=None, grad_req="write"):
        """Allocates the arrays of both networks."""
        super().bind(data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind, shared_module, grad_req)
        if for_training and (force_rebind or not self._mod_aux.binded):
            self._mod_aux.bind(data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind, None, grad_req)

    def reshape(self, data_shapes, label_shapes=None):
        """Continues with batches of other shapes."""
        super().reshape(data_shapes, label_shapes)
        if self._mod_aux.binded:
            self._mod_aux.reshape(data_shapes, label_shapes)

    def forward(self, data_batch, is_train=None):
        """Runs the network; in training, the one at w~ as well."""
        super().forward(data_batch, is_train)
        if (self.for_training if is_train is None else is_train) and self._means is not None:
            self._mod_aux.forward(data_batch, is_train)

    def backward(self, out_grads=None):
        """Computes the gradients, and corrects them once update_full_grads was called."""
        super().backward(out_grads)
        if self._means is None:
            return
        self._mod_aux.backward(out_grads)
        for own, other, means in zip(self._exec_group.grad_arrays, self._mod_aux._exec_group.grad_arrays, self._means):
            for g, old, mean in zip(own, other, means):
                if g is not None:
                    g += mean - old

    def update_full_grads(self, train_data):
        """w~ becomes w; mu becomes the mean gradient of all batches there."""
        self._need("binded", "params_initialized")
        self._mod_aux.set_params(*self.get_params())
        train_data.reset()
        group, count = self._mod_aux._exec_group, 0
        sums = [[None if g is None else nd.zeros_like(g) for g in grads] for grads in group.grad_arrays]
        for batch in train_data:
            self._mod_aux.forward(batch, is_train=True)
            self._mod_aux.backward()
            count += 1
            for total, grads in zip(sums, self._mod_aux._exec_group.grad_arrays):
                for t, g in zip(total, grads):
                    if g is not None:
                        t += g
        if not count:
            raise ValueError("SVRGModule.update_full_grads: train_data has no batches")
        self._means = [[None if t is None else t / count for t in total] for total in sums]
        train_data.reset()

    def _train_epoch(self, epoch, train_data, *rest):
        if epoch % self.update_freq == 0:
            self.update_full_grads(train_data)
        super()._train_epoch(epoch, train_data, *rest)
