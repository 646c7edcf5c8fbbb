"""Operators written in Python: subclass CustomOp and CustomOpProp, register, call mx.nd.Custom(..., op_type="name").

mx.sym.Custom creates a graph node, which calls back whenever the graph runs: in executors and hybridized blocks, and
after loading it from a file, which stores op_type and the options.

    @mx.operator.register("square")
    class SquareProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Square()
"""
import functools
from collections import namedtuple
from functools import partial

from . import _core
from ._core import NDArray, Symbol
from ._python_op import NDArrayOp, NumpyOp, PythonOp
from .error import MXNetError

__all__ = ["CustomOp", "CustomOpProp", "register", "get_all_registered", "get_all_registered_operators",
           "get_operator_arguments", "OperatorArguments", "PythonOp", "NumpyOp", "NDArrayOp"]

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
    """Properties of an operator: names, shapes, types."""

    def __init__(self, need_top_grad=True):
        self.need_top_grad_ = need_top_grad

    def infer_shape(self, in_shape):
        """(shapes of inputs, of outputs, of auxiliary states); here all are those of the first input."""
        return in_shape, [in_shape[0]] * len(self.list_outputs()), []

    def infer_type(self, in_type):
        """(types of inputs, of outputs, of auxiliary states); here all are that of the first input."""
        return in_type, [in_type[0]] * len(self.list_outputs()), [in_type[0]] * len(self.list_auxiliary_states())

    def infer_storage_type(self, in_stype):
        """Storage types of inputs, outputs and auxiliary states; here all are dense.  Override it to get sparse inputs as they
        are: otherwise they arrive as dense copies."""
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
        """The arrays that backward reads; for programs that override it."""
        return list(out_grad if self.need_top_grad_ else []) + list(in_data) + list(out_data)

    def create_operator(self, ctx, in_shapes, in_dtypes):
        """A new CustomOp for inputs of these shapes and types."""
        return CustomOp()


def register(reg_name):
    """Decorator that registers a CustomOpProp as op_type=reg_name."""
    def remember(prop_cls):
        _registered[reg_name] = prop_cls
        _core.custom_register(reg_name, partial(_Use, reg_name))
        return prop_cls
    return remember


def get_all_registered():
    """The registered classes by name."""
    return dict(_registered)


# ---- running -------------------------------------------------------------------------------------------------------

_ERRORS = {}  # class of an exception -> the same as an MXNetError


def _as_mxnet_error(error, place):
    """The exception as one that is an MXNetError, too: an operator's caller can catch either."""
    kind = type(error)
    if kind not in _ERRORS:
        try:
            _ERRORS[kind] = type(kind.__name__, (MXNetError, kind), {"__module__": kind.__module__})
            kind.__new__(_ERRORS[kind], *error.args)
        except TypeError:  # a class that cannot be combined
            _ERRORS[kind] = None
    if _ERRORS[kind] is None:
        return MXNetError(f"{place}: {kind.__name__}: {error}")
    made = kind.__new__(_ERRORS[kind], *error.args)
    made.args = error.args
    vars(made).update(vars(error))
    return made


def _raises_mxnet_errors(method):
    """Decorator: exceptions of the user's methods leave as MXNetErrors."""
    @functools.wraps(method)
    def call(self, *args):
        try:
            return method(self, *args)
        except MXNetError:
            raise
        except Exception as error:
            raise _as_mxnet_error(error, f"Custom '{self.op_type}', {method.__name__}") from error
    return call


class _Use:
    """One use of a registered operator: the callbacks of the library."""

    def __init__(self, op_type, options):
        self.op_type = op_type
        self._start(options)

    @_raises_mxnet_errors
    def _start(self, options):
        self.prop = _registered[self.op_type](**options)

    @_raises_mxnet_errors
    def names(self, which):
        """Names of arguments, outputs or auxiliary states."""
        return (self.prop.list_arguments, self.prop.list_outputs, self.prop.list_auxiliary_states)[which]()

    @_raises_mxnet_errors
    def infer(self, shapes, types):
        """(shapes of arguments, outputs, auxiliary states, types of them); types are None while none is known."""
        found = self.prop.infer_shape(shapes)
        shapes = tuple(found) if len(found) == 3 else (*found, [])
        if types and types[0] is None:
            return (*shapes, None, None, None)
        types = [types[0] if t is None else t for t in types]
        found = self.prop.infer_type(types)
        return (*shapes, *(found if len(found) == 3 else (*found, [])))

    @property
    def takes_sparse(self):
        """Whether sparse inputs are passed as they are: if the properties say what becomes of them."""
        return type(self.prop).infer_storage_type is not CustomOpProp.infer_storage_type

    @_raises_mxnet_errors
    def storage(self, backward, arguments, outputs):
        """Storage types of inputs and outputs; of the backward: of the gradients of outputs and of inputs."""
        if not backward:
            return self.prop.infer_storage_type(arguments)[:2]
        dense, aux = ["default"], ["default"] * len(self.prop.list_auxiliary_states())
        found = self.prop.infer_storage_type_backward(dense * len(outputs), arguments, outputs, dense * len(arguments), aux)
        return found[0], found[3]

    @_raises_mxnet_errors
    def forward(self, ctx, training, in_data, out_data, aux):
        """Runs a new operator and returns it for a later backward."""
        op = self.prop.create_operator(ctx, [x.shape for x in in_data], [x.dtype for x in in_data])
        op.forward(is_train=training, req=["write"] * len(out_data), in_data=in_data, out_data=out_data, aux=aux)
        return op

    @_raises_mxnet_errors
    def backward(self, op, out_grad, in_data, out_data, in_grad, aux):
        """Writes the gradients into in_grad."""
        op.backward(req=["write"] * len(in_grad), out_grad=out_grad, in_data=in_data, out_data=out_data,
                    in_grad=in_grad, aux=aux)


def custom(*args, op_type=None, name=None, out=None, _symbolic=False, **kwargs):
    """A registered operator: nd.Custom(data, op_type="square", ...); options are passed to its properties as text."""
    if op_type not in _registered:
        raise ValueError(f"Custom: no operator is registered as {op_type!r}; there are {sorted(_registered)}")
    inputs, names, keys, values = list(args), [None] * len(args), [], []
    for key, value in kwargs.items():
        if isinstance(value, (NDArray, Symbol)):
            inputs.append(value)
            names.append(key)
        else:
            keys.append(key)
            values.append(str(value))
    for x in inputs:
        if not isinstance(x, (NDArray, Symbol)):
            raise TypeError(f"Custom '{op_type}': inputs must be arrays or symbols, got {type(x).__name__}")
    result = _core.custom(op_type, name, _symbolic, inputs, names, keys, values)
    if out is None:
        return result
    for target, value in zip(out if isinstance(out, (list, tuple)) else [out],
                             result if isinstance(result, (list, tuple)) else [result]):
        target[:] = value
    return out


# ---- operators of the library --------------------------------------------------------------------------------------

def get_all_registered_operators():
    """Names of all operators of the library."""
    from .ndarray import _register
    return list(_register.OPERATORS)


_TYPES = {"int": "int", "float": "float", "bool": "boolean", "tuple": "Shape(tuple)", "string": "string"}


def _attribute_type(attribute):
    """"int, optional, default='1'", "{'relu', 'tanh'}, required"."""
    choices, default = attribute.get("choices"), attribute["default"]
    if choices:
        listed = ["None"] * (default == "None") + [repr(c) for c in sorted(choices) if c != "None"]
        kind = "{" + ", ".join(listed) + "}"
    else:
        kind = _TYPES.get(attribute["type"], attribute["type"])
    if attribute["required"]:
        return f"{kind}, required"
    if attribute["type"] == "bool":
        default = int(default == "True")
    elif attribute["type"] == "tuple":
        default = default if default == "None" else default.replace("(", "[").replace(")", "]")
    else:
        default = repr(default)
    return f"{kind}, optional, default={default}"


def get_operator_arguments(op_name):
    """Number, names and types of an operator's inputs and attributes; types are texts."""
    import json
    described = json.loads(_core.operator(op_name).description)
    rows = [(i["name"], "NDArray-or-Symbol[]" if i["list"] else "NDArray-or-Symbol") for i in described["inputs"]]
    rows += [(a["name"], _attribute_type(a)) for a in described["attributes"]]
    return OperatorArguments(len(rows), [r[0] for r in rows], [r[1] for r in rows])
