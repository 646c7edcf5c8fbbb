"""Methods of Symbol in addition to those of the C type: operators, queries, binding, and unsupported methods."""
import warnings

from .. import _core
from .._core import Symbol
from ..error import MXNetError
from . import _register
from ._refuse import refuse
from .symbol import load_json, split_v2 as _split_v2


# ---- methods whose arguments differ from the operator's ------------------------------------------------------------

def reshape(self, *args, **kwargs):
    """x.reshape(2, 3), x.reshape((2, 3)), x.reshape(shape=(2, 3), reverse=False)."""
    if len(args) == 1 and not isinstance(args[0], int):
        args = tuple(args[0])
    if args:
        kwargs["shape"] = args
    return _register.OPERATORS["reshape"](self, **kwargs)


def astype(self, dtype=None, copy=True, **kwargs):
    """The symbol with another element type."""
    return _register.OPERATORS["cast"](self, dtype="float32" if dtype is None else dtype, **kwargs)


def expand_dims(self, axis, inplace=False, **kwargs):
    """The symbol with a new axis of size 1."""
    return _register.OPERATORS["expand_dims"](self, axis=axis, **kwargs)


def squeeze(self, axis=None, inplace=False, **kwargs):
    """The symbol without its axes of size 1, or without those named."""
    return _register.OPERATORS["squeeze"](self, axis=axis, **kwargs)


def flatten(self, inplace=False, **kwargs):
    """The symbol with all axes but the first merged."""
    return _register.OPERATORS["flatten"](self, **kwargs)


def broadcast_like(self, other, **kwargs):
    """The symbol broadcast to the shape of another."""
    return _register.OPERATORS["broadcast_like"](self, other, **kwargs)


def split_v2(self, *args, **kwargs):
    """Parts of the symbol: see sym.split_v2."""
    return _split_v2(self, *args, **kwargs)


def as_in_context(self, ctx):
    """The symbol itself while a block is traced: a graph runs on one context."""
    return self if _core.is_tracing() else refuse("as_in_context()", False)


def detach(self):
    """The same without a gradient, while a block is traced."""
    return _register.OPERATORS["BlockGrad"](self) if _core.is_tracing() else refuse("detach()", False)


def copy(self):
    """A copy, while a block is traced."""
    return _register.OPERATORS["_copy"](self) if _core.is_tracing() else refuse("copy()", False)


# ---- questions -----------------------------------------------------------------------------------------------------

def list_attr(self, recursive=False):
    """Attributes of the symbol's node as a dict."""
    if recursive:
        raise DeprecationWarning("list_attr: recursive=True is no longer supported; use attr_dict()")
    flat = self._list_attrs()
    return dict(zip(flat[::2], flat[1::2]))


def attr_dict(self):
    """Attributes of all nodes: a dict of dicts by the nodes' names."""
    found, flat = {}, self._list_attrs_deep()
    for i in range(0, len(flat), 3):
        found.setdefault(flat[i], {})[flat[i + 1]] = flat[i + 2]
    return found


def _gen_atomic_symbol(self):
    """The operator of the symbol's first output with the same attributes; its inputs are new variables."""
    import json
    graph = json.loads(self.tojson())
    node = graph["nodes"][graph["heads"][0][0]]
    if node["op"] == "null":
        raise MXNetError(f"_gen_atomic_symbol: '{node['name']}' is a variable, not the result of an operator")
    return _register.OPERATORS[node["op"]](**node.get("attrs", {}))


def _known(self, args, kwargs, who):
    """(names or None, values) of the arguments that the caller passed."""
    if args and kwargs:
        raise ValueError(f"{who}: arguments are given by position or by name, not both")
    if args:
        names = self.list_arguments()
        if len(args) > len(names):
            raise ValueError(f"{who}: got {len(args)} arguments, the symbol has {len(names)}")
        return names[:len(args)], list(args)
    return list(kwargs), list(kwargs.values())


def _shapes(self, args, kwargs, partial):
    names, shapes = _known(self, args, kwargs, "infer_shape")
    for name, shape in zip(names, shapes):
        if shape is not None and not isinstance(shape, (tuple, list)):
            raise TypeError(f"infer_shape: the shape of '{name}' must be a tuple, got {type(shape).__name__}")
    shapes = [None if shape is None or len(shape) == 0 else tuple(shape) for shape in shapes]
    return self._infer(names, shapes, None, True)


def infer_shape(self, *args, **kwargs):
    """Shapes of (arguments, outputs, auxiliary states) inferred from those given; Nones if some are not determined."""
    (arguments, outputs, auxiliary), _, complete, _ = _shapes(self, args, kwargs, False)
    if complete:
        return arguments, outputs, auxiliary
    missing = [f"{name}: {shape}" for name, shape in zip(self.list_arguments(), arguments) if not shape or 0 in shape]
    warnings.warn("infer_shape: the given shapes do not determine these: " + ", ".join(missing[:10]),
                  stacklevel=2)
    return None, None, None


def infer_shape_partial(self, *args, **kwargs):
    """The same, as far as known: () is an unknown shape, 0 an unknown size."""
    return _shapes(self, args, kwargs, True)[0]


def _types(self, args, kwargs):
    names, types = _known(self, args, kwargs, "infer_type")
    return self._infer(names, None, types, True) if types else self._infer(None, None, None, True)


def infer_type(self, *args, **kwargs):
    """Element types of (arguments, outputs, auxiliary states) inferred from those given; Nones if some are not determined."""
    _, types, _, typed = _types(self, args, kwargs)
    return types if typed else (None, None, None)


def infer_type_partial(self, *args, **kwargs):
    """The same, with None where a type is not known."""
    return _types(self, args, kwargs)[1]


# ---- files and pickles ---------------------------------------------------------------------------------------------

def save(self, fname, remove_amp_cast=True):
    """Writes the graph to a file as JSON, without the casts of mixed precision if remove_amp_cast."""
    if not isinstance(fname, str):
        raise TypeError(f"save: expected the name of a file, got {type(fname).__name__}")
    if remove_amp_cast:
        self._save(fname)
    else:
        _core.write_file(fname, self._json_with_casts().encode())


def tojson(self, remove_amp_cast=True):
    """The graph as JSON text, without the casts of mixed precision if remove_amp_cast."""
    return self._json() if remove_amp_cast else self._json_with_casts()


def _rebuild(cls, text):
    if not (isinstance(cls, type) and issubclass(cls, Symbol)):
        raise TypeError(f"a pickled symbol is of the class {cls!r}, expected Symbol or a subclass")
    made = load_json(text)
    return made if cls is Symbol else cls(made)


def __reduce__(self):
    return _rebuild, (type(self), self._json_with_casts())


def __getstate__(self):
    return {"handle": self._json()}


def __setstate__(self, state):
    _core.rebind_symbol(self, load_json(state["handle"]))


def __copy__(self):
    return self.__deepcopy__(None)


def __deepcopy__(self, memo):
    return _rebuild(type(self), self._json())


# ---- running -------------------------------------------------------------------------------------------------------

def simple_bind(self, ctx, grad_req="write", type_dict=None, stype_dict=None, group2ctx=None, shared_arg_names=None,
                shared_exec=None, shared_buffer=None, **kwargs):
    """An Executor with new arrays: shapes of the inputs are given by name, the others are inferred."""
    from ..executor import simple_bind as bind_simply
    return bind_simply(self, ctx, grad_req, type_dict, shared_exec, kwargs, stype_dict)


def bind(self, ctx, args, args_grad=None, grad_req="write", aux_states=None, group2ctx=None, shared_exec=None):
    """An Executor on given arrays: lists in order of the names, or dicts by name."""
    from ..executor import bind as bind_given
    return bind_given(self, ctx, args, args_grad, grad_req, aux_states)


def eval(self, ctx=None, **kwargs):
    """The outputs for these arguments, a list of NDArrays."""
    from ..context import current_context
    return self.bind(current_context() if ctx is None else ctx, kwargs, grad_req="null").forward()


def optimize_for(self, backend, args=None, aux=None, ctx=None, shape_dict=None, type_dict=None, stype_dict=None,
                 skip_infer=False, **kwargs):
    """The symbol itself: graphs are optimized when they are bound."""
    return self


def get_backend_symbol(self, backend):
    """The symbol itself: graphs are optimized when they are bound."""
    return self


def as_nd_ndarray(self):
    """The symbol itself."""
    return self


def as_np_ndarray(self):
    """The same symbol in the interface mx.sym.np."""
    return _core.as_np(self)


def _refused(name):
    def method(self, *args, **kwargs):
        refuse(name + "()", _core.is_tracing())
    method.__name__ = name
    method.__doc__ = "Raises an error: a symbol has no values."
    return method


_WITHOUT_VALUE = ("asnumpy", "asscalar", "item", "tolist", "wait_to_read", "wait_to_write", "backward", "attach_grad",
                  "copyto", "__array__")


def _add_all():
    for name in _core.operator_methods():
        _core.add_symbol_method(name, _register.OPERATORS[name])
    for method in (reshape, astype, expand_dims, squeeze, flatten, broadcast_like, split_v2, as_in_context, detach,
                   copy, list_attr, attr_dict, _gen_atomic_symbol, infer_shape, infer_shape_partial, infer_type,
                   infer_type_partial, save,
                   tojson, __reduce__, __getstate__, __setstate__, __copy__, __deepcopy__, simple_bind, bind, eval,
                   optimize_for, get_backend_symbol, as_nd_ndarray, as_np_ndarray):
        _core.add_symbol_method(method.__name__, method)
    _core.add_symbol_method("as_in_ctx", as_in_context)
    _core.add_symbol_method("broadcast_to", _register.OPERATORS["broadcast_to"])
    for name in _WITHOUT_VALUE:
        _core.add_symbol_method(name, _refused(name))
    for old, new in (("div", "truediv"), ("rdiv", "rtruediv")):  # names of Python 2
        _core.add_symbol_method(f"__{old}__", getattr(Symbol, f"__{new}__"))


_add_all()
