"""The executors of a module: one per context, each with a part of every batch."""
import logging

from .. import ndarray as nd
from ..context import cpu
from ..io import DataDesc

__all__ = ["DataParallelExecutorGroup"]


def described(shapes):
    """Descriptions from (name, shape) pairs; None stays None."""
    if shapes is None:
        return None
    return [shape if isinstance(shape, DataDesc) else DataDesc(*shape) for shape in shapes]


def _axis(description):
    return DataDesc.get_batch_axis(getattr(description, "layout", "NCHW"))


class DataParallelExecutorGroup:
    """Executors of one symbol on several contexts.  Batches are split along their batch axis in proportion to `workload`;
    parameters exist once per context, and are shared with the executors of shared_group if it is given.

    param_arrays, grad_arrays and aux_arrays are, per name, the arrays of all contexts; a gradient is None
    if it is not needed.
    """

    def __init__(self, symbol, contexts, workload, data_shapes, label_shapes, param_names, for_training,
                 inputs_need_grad, shared_group=None, logger=logging, fixed_param_names=None, grad_req="write",
                 state_names=None, group2ctxs=None):
        self.symbol, self.contexts, self.workload = symbol, contexts, workload or [1] * len(contexts)
        self.param_names, self.state_names = list(param_names), list(state_names or [])
        self.fixed_param_names = set(fixed_param_names or [])
        self.arg_names, self.aux_names = symbol.list_arguments(), symbol.list_auxiliary_states()
        self.output_names, self.logger = symbol.list_outputs(), logger
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self.execs = []
        self.grad_req = self._requests(grad_req, [shape[0] for shape in data_shapes])
        self.bind_exec(data_shapes, label_shapes, shared_group)

    def _requests(self, grad_req, data_names):
        """The grad_req of every argument."""
        requests = {}
        for i, name in enumerate(self.arg_names):
            wanted = grad_req if isinstance(grad_req, str) else \
                grad_req.get(name, "write") if isinstance(grad_req, dict) else grad_req[i]
            learned = name in self.param_names and name not in self.fixed_param_names
            if not self.for_training or not (learned or (self.inputs_need_grad and name in data_names)):
                wanted = "null"
            requests[name] = wanted
        return requests

    # ---- arrays ----------------------------------------------------------------------------------------------------

    def decide_slices(self, data_shapes):
        """Splits the batch: sets batch_size and the slice of every context; returns the batch axes."""
        axes = [_axis(shape) for shape in data_shapes]
        sizes = {shape[1][axis] for shape, axis in zip(data_shapes, axes) if axis >= 0}
        if len(sizes) > 1:
            raise ValueError(f"bind: all data must have the same batch size, got {[tuple(s) for s in data_shapes]}")
        self.batch_size = sizes.pop() if sizes else 0
        if self.batch_size < len(self.contexts):
            raise ValueError(f"bind: a batch of {self.batch_size} cannot be split over {len(self.contexts)} contexts")
        ends, done, whole = [0], 0, sum(self.workload)
        for load in self.workload:
            done += load
            ends.append(round(self.batch_size * done / whole))
        self.slices = [slice(a, b) for a, b in zip(ends, ends[1:])]
        return axes

    def bind_exec(self, data_shapes, label_shapes, shared_group=None, reshape=False):
        """Creates the executors for these shapes, or reshapes the existing ones, which share unchanged arrays."""
        self.data_shapes, self.label_shapes = described(data_shapes), described(label_shapes)
        self.data_layouts = self.decide_slices(self.data_shapes)
        self.label_layouts = [_axis(shape) for shape in self.label_shapes or []]
        self.data_names = [shape.name for shape in self.data_shapes]
        self.label_names = [shape.name for shape in self.label_shapes or []]
        old = self.execs if reshape else shared_group.execs if shared_group is not None else [None] * len(self.contexts)
        self.execs = [self._bound(i, old[i], reshape) for i in range(len(self.contexts))]
        self._gather_arrays()

    def _gather_arrays(self):
        """Lists of arrays, which do not change until the next bind."""
        arguments, gradients, auxiliary = ([getattr(one, kind) for one in self.execs]
                                           for kind in ("arg_dict", "grad_dict", "aux_dict"))
        self.param_arrays = [[own[name] for own in arguments] for name in self.param_names]
        self.grad_arrays = [[own[name] for own in gradients] for name in self.param_names]
        self.aux_arrays = [[own[name] for own in auxiliary] for name in self.aux_names]
        self._inputs = {name: [own[name] for own in arguments] for name in self.data_names + self.label_names +
                        self.state_names if name in self.arg_names}

    def _bound(self, i, shared, reshape):
        part = self.slices[i]
        shapes, types = {}, {}
        for shape in self.data_shapes + (self.label_shapes or []):
            axis, own = _axis(shape), list(shape.shape)
            if axis >= 0 and own:
                own[axis] = part.stop - part.start
            shapes[shape.name], types[shape.name] = tuple(own), shape.dtype
        shapes = {name: shape for name, shape in shapes.items() if name in self.arg_names}
        if reshape:
            return shared.reshape(partial_shaping=True, allow_up_sizing=True, **shapes)
        made = self.symbol.simple_bind(self.contexts[i], grad_req=self.grad_req,
                                       type_dict={name: types[name] for name in shapes}, **shapes)
        return made if shared is None else self._joined(made, shared, self.contexts[i])

    def _joined(self, made, shared, context):
        """An executor like `made` with the parameters, gradients and auxiliary states of `shared`."""
        arguments, gradients, auxiliary = made.arg_dict, made.grad_dict, made.aux_dict
        for own, others in ((arguments, shared.arg_dict), (gradients, shared.grad_dict), (auxiliary, shared.aux_dict)):
            for name in own:
                if own is not auxiliary and name not in self.param_names:
                    continue
                other = others.get(name)
                if other is not None and own[name] is not None and other.shape == own[name].shape:
                    own[name] = other
                elif own[name] is not None and own is not gradients:
                    came = "none" if other is None else f"one of shape {other.shape}"
                    raise ValueError(f"bind: '{name}' of shape {own[name].shape} is to be shared, but the shared "
                                     f"module has {came}")
        return self.symbol.bind(context, arguments, {k: v for k, v in gradients.items() if v is not None},
                                self.grad_req, auxiliary)

    def reshape(self, data_shapes, label_shapes):
        """Continues with batches of other shapes."""
        data_shapes, label_shapes = described(data_shapes), described(label_shapes)
        if data_shapes != self.data_shapes or label_shapes != self.label_shapes:
            self.bind_exec(data_shapes, label_shapes, reshape=True)

    def set_params(self, arg_params, aux_params, allow_extra=False):
        """Copies parameters to all contexts."""
        for one in self.execs:
            one.copy_params_from(arg_params, aux_params, allow_extra_params=allow_extra)

    def get_params(self, arg_params, aux_params):
        """Means over the contexts, into these dicts."""
        for names, arrays, into in ((self.param_names, self.param_arrays, arg_params),
                                    (self.aux_names, self.aux_arrays, aux_params)):
            for name, copies in zip(names, arrays):
                whole = copies[0] if len(copies) == 1 else \
                    sum((c.as_in_context(copies[0].context) for c in copies[1:]), copies[0]) / len(copies)
                into[name] = whole.as_in_context(cpu()).astype(copies[0].dtype, copy=True)

    # ---- running ---------------------------------------------------------------------------------------------------

    def _load(self, arrays, names, axes):
        for array, name, axis in zip(arrays, names, axes):
            for target, part in zip(self._inputs.get(name, ()), self.slices):
                piece = array if len(self.execs) == 1 or axis < 0 else \
                    nd.slice_axis(_as_array(array), axis=axis, begin=part.start, end=part.stop)
                target[:] = piece

    def forward(self, data_batch, is_train=None):
        """Runs every executor on its part of the batch; a list of batches gives one to each."""
        if isinstance(data_batch, list):
            for i, batch in enumerate(data_batch):
                for arrays, names in ((batch.data, self.data_names), (batch.label, self.label_names)):
                    for array, name in zip(arrays or [], names):
                        if name in self._inputs:
                            self._inputs[name][i][:] = array
        else:
            self._load(data_batch.data, self.data_names, self.data_layouts)
            self._load(data_batch.label or [], self.label_names, self.label_layouts)
        for one in self.execs:
            one.forward(is_train=self.for_training if is_train is None else is_train)

    def backward(self, out_grads=None):
        """Gradients of the last forward; out_grads: those of the outputs, for the full batch."""
        if not self.for_training:
            raise AssertionError("backward: the module was bound with for_training=False")
        out_grads = [out_grads] if isinstance(out_grads, nd.NDArray) else out_grads
        for one, part in zip(self.execs, self.slices):
            one.backward(None if out_grads is None else
                         [g[part].as_in_context(one._ctx) for g in out_grads])

    def _gathered(self, columns, merge):
        """Per array one for the full batch, or the list of all contexts."""
        rows = [list(row) for row in zip(*columns)]
        if not merge:
            return rows
        return [row[0] if len(row) == 1 else nd.concat(*[x.as_in_context(row[0].context) for x in row], dim=0)
                for row in rows]

    def get_outputs(self, merge_multi_context=True, begin=0, end=None):
        """Outputs of the last forward."""
        return self._gathered([one.outputs[begin:end] for one in self.execs], merge_multi_context)

    def get_output_shapes(self):
        """(name, shape) of the outputs for the full batch."""
        _, shapes, _ = self.symbol.infer_shape(**{s.name: s.shape for s in self.data_shapes + (self.label_shapes or [])
                                                  if s.name in self.arg_names})
        return list(zip(self.output_names, shapes))

    def get_input_grads(self, merge_multi_context=True):
        """Gradients of the data."""
        if not self.inputs_need_grad:
            raise AssertionError("get_input_grads: the module was bound with inputs_need_grad=False")
        return self._gathered([[one.grad_dict[name] for name in self.data_names] for one in self.execs],
                              merge_multi_context)

    def get_states(self, merge_multi_context=True):
        """The arrays of state_names."""
        return self._gathered([[self._inputs[name][i] for name in self.state_names] for i in range(len(self.execs))],
                              merge_multi_context)

    def set_states(self, states=None, value=None):
        """Sets the arrays of state_names, all to one number or each to its own values."""
        for k, name in enumerate(self.state_names):
            for i, target in enumerate(self._inputs[name]):
                if states is None:
                    target[:] = value
                else:
                    target[:] = states[k][i] if isinstance(states[k], (list, tuple)) else \
                        states[k][self.slices[i]] if len(self.execs) > 1 else states[k]

    def update_metric(self, eval_metric, labels, pre_sliced):
        """Updates a metric with the last outputs."""
        for i, (one, part) in enumerate(zip(self.execs, self.slices)):
            own = labels[i] if pre_sliced else [
                label if len(self.execs) == 1 or axis < 0 else
                nd.slice_axis(_as_array(label), axis=axis, begin=part.start, end=part.stop)
                for label, axis in zip(labels or [], self.label_layouts)]
            eval_metric.update_dict(dict(zip(self.label_names, own)), dict(zip(self.output_names, one.outputs)))

    def install_monitor(self, mon):
        """Installs a Monitor on all executors."""
        for one in self.execs:
            mon.install(one)


def _as_array(x):
    return x if isinstance(x, nd.NDArray) else nd.array(x)
