"""Executors: symbols bound to arrays, ready to run forward and backward."""
import os
import warnings

from . import _core
from ._core import NDArray
from .context import Context

__all__ = ["Executor"]


class Executor(_core.Executor):
    """The result of Symbol.bind and Symbol.simple_bind.

        executor = net.simple_bind(mx.cpu(), data=(64, 100))
        executor.arg_dict["data"][:] = batch
        output, = executor.forward(is_train=True)
        executor.backward()
        executor.grad_dict["fc_weight"]
    """

    _watching = None  # (callback, monitor_all)

    @property
    def handle(self):
        """The executor itself: the library's object."""
        return self

    def _start(self, symbol, ctx, arguments, gradients, reqs, auxiliary):
        self._grad_req = reqs
        self._bind(symbol, ctx, arguments, gradients, reqs, auxiliary)
        return self._remember(symbol, ctx)

    def _remember(self, symbol, ctx):
        self._symbol, self._ctx = symbol, ctx
        self._merges = os.environ.get("MXNET_ELIMINATE_COMMON_EXPR", "1") != "0"
        self._arg_names, self._aux_names = symbol.list_arguments(), symbol.list_auxiliary_states()
        return self

    def forward(self, is_train=False, **kwargs):
        """Computes the outputs, a list; keywords set arguments first."""
        arguments = self.arg_dict if kwargs else None
        for name, value in kwargs.items():
            if name not in arguments:
                raise TypeError(f"forward: the symbol has no argument named '{name}'; there are "
                                f"{', '.join(arguments)}")
            if not isinstance(value, NDArray):
                value = _core.array(value, ctx=self._ctx)
            if value.shape != arguments[name].shape:
                raise ValueError(f"forward: argument '{name}' has shape {arguments[name].shape}, got {value.shape}; "
                                 "use reshape() for other shapes")
            arguments[name][:] = value
        return self._forward(is_train)

    def backward(self, out_grads=None, is_train=True):
        """Computes the gradients of the last forward; out_grads: those of the outputs, ones if not given.

        Without a forward one in prediction mode is run first. is_train changes nothing: the gradients are those of the
        mode in which forward ran."""
        if isinstance(out_grads, NDArray):
            out_grads = [out_grads]
        elif isinstance(out_grads, dict):
            out_grads = [out_grads[name] for name in self._symbol.list_outputs()]
        self._backward(out_grads)

    def set_monitor_callback(self, callback, monitor_all=False):
        """callback(name, handle) is called with every output that forward computes, with inputs too if monitor_all.

        The name is bytes, the handle an integer: NDArray(ctypes.cast(handle, NDArrayHandle)) is the array, and owns it.
        """
        self._monitor(callback, monitor_all)
        self._watching = (callback, monitor_all)

    @property
    def arg_dict(self):
        """Arguments by name."""
        return _by_name(self._arg_names, self.arg_arrays)

    @property
    def grad_dict(self):
        """Gradients of arguments by name; None where there is none."""
        return _by_name(self._arg_names, self.grad_arrays)

    @property
    def aux_dict(self):
        """Auxiliary states by name."""
        return _by_name(self._aux_names, self.aux_arrays)

    @property
    def output_dict(self):
        """Outputs by name."""
        return _by_name(self._symbol.list_outputs(), self.outputs)

    def copy_params_from(self, arg_params, aux_params=None, allow_extra_params=False):
        """Copies values into the arguments and auxiliary states of these names."""
        for given, own in ((arg_params, self.arg_dict), (aux_params or {}, self.aux_dict)):
            for name, array in given.items():
                if name in own:
                    own[name][:] = array.astype(own[name].dtype, copy=False).as_in_context(own[name].context)
                elif not allow_extra_params:
                    raise ValueError(f"copy_params_from: the symbol has no argument named '{name}'; set "
                                     "allow_extra_params=True to skip it")

    def reshape(self, partial_shaping=False, allow_up_sizing=False, **kwargs):
        """An executor for other input shapes, which shares the memory of this one.

        Arrays of the same shape are the same, smaller ones are the leading part of the old ones, outputs too; only
        arrays that grow are new.

        Parameters
        ----------
        partial_shaping : bool
            Arrays whose shapes are not given may change as well.
        allow_up_sizing : bool
            Arrays may grow.
        """
        made = type(self)()
        made._reshape(self, list(kwargs), list(kwargs.values()), partial_shaping, allow_up_sizing)
        made._remember(self._symbol, self._ctx)
        if self._watching:
            made.set_monitor_callback(*self._watching)
        return made

    def get_optimized_symbol(self):
        """The symbol with equal subexpressions merged, unless MXNET_ELIMINATE_COMMON_EXPR was 0 at binding."""
        return self._optimized() if self._merges else self._symbol


def _by_name(names, arrays):
    if len(set(names)) != len(names):
        warnings.warn(f"names of arguments are not unique: {names}", stacklevel=3)
    return dict(zip(names, arrays))


def _zeros(shape, ctx, dtype, stype=None):
    from .ndarray import zeros
    return zeros(shape, ctx=ctx, dtype="float32" if dtype is None else dtype, stype=stype)


def _stypes(symbol, names, stype_dict):
    """Storage types of the arguments: given, or noted by the variables."""
    noted = symbol.attr_dict()
    known = {"0": "default", "1": "row_sparse", "2": "csr"}
    return [(stype_dict or {}).get(name) or known[noted.get(name, {}).get("__storage_type__", "0")] for name in names]


def _requests(grad_req, names):
    """One of 'write', 'add', 'null' per argument from a string, list or dict."""
    if isinstance(grad_req, str):
        return [grad_req] * len(names)
    if isinstance(grad_req, dict):
        return [grad_req.get(name, "null") for name in names]
    if isinstance(grad_req, (list, tuple)):
        if len(grad_req) != len(names):
            raise ValueError(f"bind: {len(grad_req)} grad_req were given for {len(names)} arguments")
        return list(grad_req)
    raise TypeError(f"bind: grad_req must be text, a list or a dict, got {type(grad_req).__name__}")


def _in_order(given, names, what, may_miss=False):
    """Arrays in the order of the names, from a list or dict."""
    if isinstance(given, dict):
        missing = [name for name in names if name not in given]
        if missing and not may_miss:
            raise ValueError(f"bind: {what} '{missing[0]}' is missing; there are {', '.join(given)}")
        given = [given.get(name) for name in names]
    elif isinstance(given, (list, tuple)):
        if len(given) != len(names):
            raise ValueError(f"bind: {len(given)} arrays were given for {len(names)} {what}s: {', '.join(names)}")
    else:
        raise TypeError(f"bind: {what}s must be a list or a dict of NDArrays, got {type(given).__name__}")
    for name, array in zip(names, given):
        if not isinstance(array, NDArray) and not (array is None and may_miss):
            raise TypeError(f"bind: {what} '{name}' must be an NDArray, got {type(array).__name__}")
    return list(given)


def bind(symbol, ctx, args, args_grad, grad_req, aux_states):
    """An Executor on given arrays."""
    if not isinstance(ctx, Context):
        raise TypeError(f"bind: ctx must be a Context such as mx.cpu(), got {type(ctx).__name__}")
    names, aux_names = symbol.list_arguments(), symbol.list_auxiliary_states()
    auxiliary = _in_order(aux_states or [], aux_names, "auxiliary state")
    if isinstance(args, dict):
        args = {**{name: c for name in names if (c := symbol._constant(name)) is not None}, **args}
    arguments = _in_order(args, names, "argument")
    gradients = _in_order(args_grad, names, "gradient", may_miss=True) if args_grad else [None] * len(names)
    reqs = ["null" if g is None else r for g, r in zip(gradients, _requests(grad_req, names))]
    return Executor()._start(symbol, ctx, arguments, gradients, reqs, auxiliary)


def simple_bind(symbol, ctx, grad_req, type_dict, shared_exec, shapes, stype_dict=None):
    """An Executor with new arrays, filled with zeros."""
    names, aux_names = symbol.list_arguments(), symbol.list_auxiliary_states()
    own_names, type_dict = set(names) | set(aux_names), type_dict or {}
    listed = [n for n in dict.fromkeys([*shapes, *type_dict]) if n in own_names]  # programs pass more than is needed
    (arg_shapes, _, aux_shapes), (arg_types, _, aux_types), _, _ = symbol._infer(
        listed, [shapes.get(n) for n in listed], [type_dict.get(n) for n in listed], False)
    shared = shared_exec.arg_dict if shared_exec is not None else {}

    stypes = _stypes(symbol, names, stype_dict)

    def own(name, shape, dtype, stype):
        constant = symbol._constant(name)
        if constant is not None:
            return constant
        old = shared.get(name)
        fits = old is not None and old.shape == shape and old.stype == stype
        return old if fits else _zeros(shape, ctx, dtype, stype)

    arguments = [own(*row) for row in zip(names, arg_shapes, arg_types, stypes)]
    reqs = _requests(grad_req, names)
    of_gradients = ["row_sparse" if stype == "row_sparse" or symbol._gives_rows(name) else "default"
                    for name, stype in zip(names, stypes)]
    gradients = [None if r == "null" else _zeros(*row) for r, row in
                 zip(reqs, zip(arg_shapes, [ctx] * len(names), arg_types, of_gradients))]
    auxiliary = [_zeros(shape, ctx, dtype) for shape, dtype in zip(aux_shapes, aux_types)]
    return Executor()._start(symbol, ctx, arguments, gradients, reqs, auxiliary)
