"""Operators written in Python: subclass CustomOp and CustomOpProp, register, call mx.nd.Custom(..., op_type="name").

    @mx.operator.register("square")
    class SquareProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Square()
"""
from collections import namedtuple

from . import autograd
from ._core import NDArray, Symbol
from .error import UnsupportedError

__all__ = ["CustomOp", "CustomOpProp", "register", "get_all_registered", "get_all_registered_operators",
           "get_operator_arguments", "OperatorArguments"]

_registered = {}  # op_type -> class of its properties
OperatorArguments = namedtuple("OperatorArguments", ["narg", "names", "types"])


class CustomOp:
    """The computation of an operator: override forward and backward."""

    def forward(self, is_train, req, in_data, out_data, aux):
        """Writes the outputs to out_data with self.assign."""
        raise NotImplementedError(f"{type(self).__name__} does not override forward")

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        """Writes the gradients of the inputs to in_grad with self.assign."""
        raise NotImplementedError(f"{type(self).__name__} does not override backward")

    def assign(self, dst, req, src):
        """Writes src to dst as req says: 'write', 'inplace', 'add' or 'null'."""
        if req in ("write", "inplace"):
            dst[:] = src
        elif req == "add":
            dst[:] += src
        elif req != "null":
            raise ValueError(f"CustomOp.assign: req must be 'null', 'write', 'inplace' or 'add', got {req!r}")


class CustomOpProp:
    """What is known of an operator before it runs: names, shapes, types."""

    def __init__(self, need_top_grad=True):
        self.need_top_grad_ = need_top_grad

    def infer_shape(self, in_shape):
        """(shapes of inputs, of outputs, of auxiliary states); here all are those of the first input."""
        return in_shape, [in_shape[0]] * len(self.list_outputs()), []

    def infer_type(self, in_type):
        """(types of inputs, of outputs, of auxiliary states); here all are that of the first input."""
        return in_type, [in_type[0]] * len(self.list_outputs()), [in_type[0]] * len(self.list_auxiliary_states())

    def infer_storage_type(self, in_stype):
        """Storage types: all arrays are dense."""
        return in_stype, ["default"] * len(self.list_outputs()), ["default"] * len(self.list_auxiliary_states())

    def infer_storage_type_backward(self, ograd_stype, in_stype, out_stype, igrad_stype, aux_stype):
        """Storage types of the backward: all arrays are dense."""
        return ograd_stype, in_stype, out_stype, ["default"] * len(igrad_stype), aux_stype

    def list_outputs(self):
        """Names of the outputs."""
        return ["output"]

    def list_arguments(self):
        """Names of the inputs."""
        return ["data"]

    def list_auxiliary_states(self):
        """Names of the auxiliary states."""
        return []

    def declare_backward_dependency(self, out_grad, in_data, out_data):
        """Which arrays the backward looks at; kept for programs that override it."""
        return list(out_grad if self.need_top_grad_ else []) + list(in_data) + list(out_data)

    def create_operator(self, ctx, in_shapes, in_dtypes):
        """A new CustomOp for inputs of these shapes and types."""
        return CustomOp()


def register(reg_name):
    """Decorator that makes a CustomOpProp known as op_type=reg_name."""
    def remember(prop_cls):
        _registered[reg_name] = prop_cls
        return prop_cls
    return remember


def get_all_registered():
    """The registered classes by name."""
    return dict(_registered)


# ---- running -------------------------------------------------------------------------------------------------------

class _Run(autograd.Function):
    """One call of a custom operator, known to the tape."""

    def __init__(self, prop, op, aux, shapes, types):
        super().__init__()
        self.prop, self.op, self.aux, self.shapes, self.types = prop, op, aux, shapes, types
        self.training = autograd.is_training()

    def forward(self, *inputs):
        from .ndarray import empty
        outputs = [empty(shape, ctx=inputs[0].context if inputs else None, dtype=dtype)
                   for shape, dtype in zip(self.shapes, self.types)]
        self.op.forward(self.training, ["write"] * len(outputs), list(inputs), outputs, self.aux)
        self.save_for_backward(inputs, outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def backward(self, *output_grads):
        inputs, outputs = self.saved_tensors
        grads = [x.zeros_like() for x in inputs]
        self.op.backward(["write"] * len(grads), list(output_grads), list(inputs), outputs, grads, self.aux)
        return grads[0] if len(grads) == 1 else grads


def _by_name(names, args, kwargs, op_type):
    """The inputs and auxiliary states in order, from positions and keywords; keywords that are left are options."""
    if len(args) > len(names):
        raise TypeError(f"Custom '{op_type}': {len(args)} arrays came, it takes {len(names)}: {', '.join(names)}")
    arrays = list(args) + [kwargs.pop(name, None) for name in names[len(args):]]
    for name, array in zip(names, arrays):
        if not isinstance(array, NDArray):
            raise TypeError(f"Custom '{op_type}': input '{name}' must be an NDArray, got {type(array).__name__}")
    return arrays


def custom(*args, op_type=None, name=None, out=None, **kwargs):
    """Runs a registered operator: nd.Custom(data, op_type="square", ...); options go to its properties as text."""
    if op_type not in _registered:
        raise ValueError(f"Custom: no operator is registered as {op_type!r}; there are {sorted(_registered)}")
    if any(isinstance(x, Symbol) for x in list(args) + list(kwargs.values())):
        raise UnsupportedError(f"Custom '{op_type}': operators written in Python run on arrays only, a graph cannot hold "
                               "them; leave the block that calls it without hybridize()")
    options = {key: str(value) for key, value in kwargs.items() if not isinstance(value, NDArray)}
    prop = _registered[op_type](**options)
    names, aux_names = prop.list_arguments(), prop.list_auxiliary_states()
    arrays = _by_name(names + aux_names, args, {k: v for k, v in kwargs.items() if isinstance(v, NDArray)}, op_type)
    inputs, aux = arrays[:len(names)], arrays[len(names):]
    shapes = prop.infer_shape([list(x.shape) for x in inputs])
    types = prop.infer_type([x.dtype for x in inputs])
    for given, wanted, what in zip(inputs, shapes[0], names):
        if tuple(wanted) != given.shape:
            raise ValueError(f"Custom '{op_type}': input '{what}' has shape {given.shape}, wanted {tuple(wanted)}")
    ctx = inputs[0].context if inputs else None
    op = prop.create_operator(ctx, [x.shape for x in inputs], [x.dtype for x in inputs])
    result = _Run(prop, op, aux, [tuple(s) for s in shapes[1]], list(types[1]))(*inputs)
    if out is None:
        return result
    for target, value in zip(out if isinstance(out, (list, tuple)) else [out],
                             result if isinstance(result, (list, tuple)) else [result]):
        target[:] = value
    return out


# ---- what is registered in the library -----------------------------------------------------------------------------

def get_all_registered_operators():
    """Names of all operators of the library."""
    from .ndarray import _register
    return list(_register.OPERATORS)


def get_operator_arguments(op_name):
    """Number, names and types of an operator's inputs and attributes."""
    import json
    from . import _core
    described = json.loads(_core.operator(op_name).description)
    rows = [(i["name"], "NDArray[]" if i["list"] else "NDArray") for i in described["inputs"]]
    rows += [(a["name"], a["type"]) for a in described["attributes"]]
    return OperatorArguments(len(rows), [r[0] for r in rows], [r[1] for r in rows])


class _Older:
    """The interface before CustomOp: it was for symbols only and is gone."""

    def __init__(self, *args, **kwargs):
        raise UnsupportedError(f"{type(self).__name__}: use CustomOp and CustomOpProp")


class PythonOp(_Older):
    """Replaced by CustomOp."""


class NumpyOp(_Older):
    """Replaced by CustomOp."""


class NDArrayOp(_Older):
    """Replaced by CustomOp."""
