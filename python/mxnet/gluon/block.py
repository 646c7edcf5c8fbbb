"""Blocks: networks and their parts."""
import inspect
import re
import warnings

from .. import _copying
from .. import _core
from .._core import NDArray, Symbol
from .. import autograd
from .. import ndarray as nd
from ..error import ArgumentError, ParameterError
from .parameter import ParameterDict, load_into
from . import _insides
from ._insides import _BlockScope, _flatten, _regroup  # noqa: F401
from .utils import HookHandle

__all__ = ["Block", "HybridBlock", "SymbolBlock"]


def _indent(text, spaces):
    first, *rest = text.split("\n")
    return "\n".join([first] + [spaces * " " + line for line in rest])


class Block(_core.Block):
    """A network or a part of one.  Subclasses define what it computes in forward(); children and parameters that are
    assigned as attributes are registered.

        class Net(gluon.Block):
            def __init__(self, **kwargs):
                super().__init__(**kwargs)
                with self.name_scope():
                    self.hidden = nn.Dense(64, activation="relu")
                    self.output = nn.Dense(10)

            def forward(self, x):
                return self.output(self.hidden(x))
    """

    _kind = 0

    def __init__(self, prefix=None, params=None):
        self._start(self._kind, self._base, prefix, params)

    def _alias(self):
        return type(self).__name__.lower()

    def __repr__(self):
        if self._is_layer:
            text = self._text()  # starts with the class name, the library's or the subclass's
            return type(self).__name__ + (text[text.index("("):] if "(" in text else "")
        lines = "\n".join(f"  ({key}): {_indent(repr(child), 2)}" for key, child in self._children.items())
        return f"{type(self).__name__}(\n{lines}\n)"

    # ---- structure -------------------------------------------------------------------------------------------------

    def register_child(self, block, name=None):
        """Adds a child block: its parameters are then collected, saved and initialized with this one's."""
        self._register_child(block, name)

    def collect_params(self, select=None):
        """All parameters of the block and its children; only those whose full name matches the pattern `select`."""
        self._check_containers()
        try:
            collected = self._collect()
        except ParameterError as error:
            raise _SameName(str(error)) from None
        if select is None:
            return collected
        pattern = re.compile(select)
        chosen = ParameterDict(self.params.prefix)
        for name, parameter in collected.items():
            if pattern.match(name):
                chosen._add(parameter)
        return chosen

    def _check_containers(self):
        """Warns of Blocks in lists and dicts, which are not registered."""
        children = None
        for key, value in self.__dict__.items():
            if not isinstance(value, (list, tuple, dict)) or not value:
                continue
            for item in _blocks_in(value):
                children = set(map(id, self._children.values())) if children is None else children
                if id(item) not in children:
                    warnings.warn(f"{self.name}: '{key}' is a {type(value).__name__} with Blocks in it, "
                                  "which are not registered; use Sequential or register_child", stacklevel=3)
                    break

    def apply(self, fn):
        """Calls fn(block) for every child and then for the block itself."""
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    # ---- parameters ------------------------------------------------------------------------------------------------

    def initialize(self, init=None, ctx=None, verbose=False, force_reinit=False):
        """Initializes all parameters; default Uniform(0.07)."""
        self.collect_params().initialize(init, ctx, verbose, force_reinit)

    def cast(self, dtype):
        """Changes the element type of all parameters."""
        for child in self._children.values():
            child.cast(dtype)
        for parameter in self.params.values():
            parameter.cast(dtype)

    def _collect_params_with_prefix(self, prefix=""):
        if prefix:
            prefix += "."
        found = {prefix + key: value for key, value in self._reg_params.items()}
        for key, child in self._children.items():
            found.update(child._collect_params_with_prefix(prefix + key))
        return found

    def save_parameters(self, filename, deduplicate=False):
        """Writes all parameters under structural names such as '0.weight'."""
        params = self._collect_params_with_prefix()
        if deduplicate:
            last = {value: key for key, value in params.items()}  # a shared parameter is stored under its last name
            params = {key: value for value, key in last.items()}
        _core.save(filename, [p._reduce() for p in params.values()], list(params))

    def load_parameters(self, filename, ctx=None, allow_missing=False, ignore_extra=False, cast_dtype=False,
                        dtype_source="current"):
        """Reads parameters written by save_parameters (or, by full names, by older versions)."""
        loaded = _core.load(filename)
        self.load_dict(loaded, ctx, allow_missing, ignore_extra, cast_dtype, dtype_source, filename)

    def load_dict(self, param_dict, ctx=None, allow_missing=False, ignore_extra=False, cast_dtype=False,
                  dtype_source="current", filename=None):
        """The same from a dict of arrays."""
        params = self._collect_params_with_prefix()
        if not param_dict and not params:
            return
        if not isinstance(param_dict, dict):
            raise ValueError(f"load_parameters: '{filename}' holds arrays without names")
        if not any("." in name for name in param_dict) and not any("." not in name for name in params):
            self.collect_params().load_dict(param_dict, ctx, allow_missing, ignore_extra, self.prefix, filename,
                                            cast_dtype, dtype_source)
            return
        where = f"file '{filename}'" if filename else "param_dict"
        by_parameter = {}
        for name, parameter in params.items():
            by_parameter.setdefault(id(parameter), []).append(name)
        if not allow_missing:
            for name, parameter in params.items():
                if not any(other in param_dict for other in by_parameter[id(parameter)]):
                    raise AssertionError(f"load_parameters: parameter '{name}' is not in {where}; was it saved from "
                                         "another network? set allow_missing=True to load the others")
        for name, value in param_dict.items():
            if name not in params:
                if not ignore_extra:
                    raise ValueError(f"load_parameters: '{name}' from {where} is not in this block; set "
                                         "ignore_extra=True to skip it")
                continue
            load_into(params[name], value, ctx, cast_dtype, dtype_source, key=name)

    def save(self, prefix):
        """Writes prefix-model.json, the structure of the network, and prefix-model.params."""
        import json
        _core.write_file(f"{prefix}-model.json", json.dumps(_structure(self)).encode())
        self.save_parameters(f"{prefix}-model.params")

    def load(self, prefix):
        """Loads the files of save() into a network of the same structure, whatever the attributes are called."""
        import json
        with open(f"{prefix}-model.json", encoding="utf8") as file:
            places = dict(_matched(self, json.load(file), prefix))
        loaded = _core.load(f"{prefix}-model.params")
        if isinstance(loaded, dict):
            loaded = {_renamed(name, places): value for name, value in loaded.items()}
        self.load_dict(loaded, filename=f"{prefix}-model.params")

    def save_params(self, filename):
        """The old form: full names without this block's prefix."""
        self.collect_params().save(filename, strip_prefix=self.prefix)

    def load_params(self, filename, ctx=None, allow_missing=False, ignore_extra=False):
        """The old name of load_parameters."""
        self.load_parameters(filename, ctx, allow_missing, ignore_extra)

    # ---- running ---------------------------------------------------------------------------------------------------

    def register_forward_pre_hook(self, hook):
        """hook(block, inputs) runs before forward; returns a handle with detach()."""
        return _attached(self._forward_pre_hooks, hook)

    def register_forward_hook(self, hook):
        """hook(block, inputs, outputs) runs after forward; returns a handle with detach()."""
        return _attached(self._forward_hooks, hook)

    def hybridize(self, active=True, **kwargs):
        """Lets hybrid children run as compiled plans."""
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    def register_op_hook(self, callback, monitor_all=False):
        """callback(tensor name, operator name, handle) for every operator that hybridized children run."""
        for child in self._children.values():
            child.register_op_hook(callback, monitor_all)

    # ---- copies and pickles

    def _core_state(self):
        """What the library holds of the block, with its children and own parameters by attribute name."""
        kwargs = getattr(self, "_kwargs", None) if self._is_layer and "_kwargs" not in self.__dict__ else None
        return {**self._get_state(), "attributes": dict(self._reg_params), "children": dict(self._children),
                "kwargs": kwargs if kwargs is None else dict(kwargs)}

    def _set_core_state(self, state):
        self._set_state(state)
        self._set_reg_params(state["attributes"])
        self._set_children(state["children"])
        self._reg_params, self._children  # these dictionaries keep the Python objects
        if state["kwargs"] is not None:
            self._kwargs = state["kwargs"]
        for live, hooks in zip((self._forward_pre_hooks, self._forward_hooks), state["hooks"]):
            if hooks:
                live._assign({id(hook): hook for hook in hooks})

    def _restored(self):
        """After a copy has its attributes, which may be methods."""
        self._find_overrides()

    def summary(self, *inputs):
        """Prints a table of layers with output shapes and numbers of parameters for these inputs."""
        from ._summary import summarize
        print(summarize(self, inputs))


class _SameName(ParameterError, AssertionError):
    """Two different parameters of one name."""


def _attached(hooks, hook):
    handle = HookHandle()
    handle.attach(hooks, hook)
    return handle


def _blocks_in(value):
    """The Blocks in lists and dicts at any depth."""
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, Block):
            yield item
        elif isinstance(item, (list, tuple, dict)):
            yield from _blocks_in(item)


def _structure(block):
    return {"name": block.name, "class": type(block).__name__, "hybridized": bool(getattr(block, "_active", False)),
            "children": {key: _structure(child) for key, child in block._children.items()}}


def _matched(block, saved, prefix, ours="", theirs=""):
    """Pairs of the paths of a block in the file and here: children correspond by their places."""
    if not isinstance(saved, dict) or not isinstance(saved.get("children"), dict):
        raise ValueError(f"load: '{prefix}-model.json' does not describe a network")
    if len(saved["children"]) != len(block._children):
        raise ValueError(f"load: {block.name} has children {list(block._children)}, '{prefix}-model.json' has "
                         f"{list(saved['children'])}")
    yield theirs, ours
    if saved.get("hybridized") and isinstance(block, HybridBlock):
        block._set_active(True, False)
    for (key, child), (other, inside) in zip(block._children.items(), saved["children"].items()):
        yield from _matched(child, inside, prefix, f"{ours}{key}.", f"{theirs}{other}.")


def _renamed(name, places):
    """The name of a parameter here: the longest path in front of it is replaced."""
    at = max((path for path in places if name.startswith(path)), key=len)
    return places[at] + name[len(at):]


def _both():
    """mx.sym, imported when a forward first runs on symbols."""
    global _SYMBOLS
    from .. import symbol
    _SYMBOLS = symbol
    return symbol


_SYMBOLS = None


class HybridBlock(Block):
    """A block that can be traced and run as a compiled plan.  Subclasses override

        hybrid_forward(self, F, x, *args, **parameters)

    where F is mx.nd or mx.sym and the block's own parameters are passed as keywords.  Called with arrays it returns arrays,
    called with Symbols it returns Symbols.  An overridden forward runs in Python at every call, also when the block is
    hybridized; what is compiled is the super().forward that it calls, and its children.
    """

    _kind = 1

    def register_child(self, block, name=None):
        """Adds a hybrid child block."""
        if not isinstance(block, HybridBlock):
            raise ValueError(f"{self.name} ({type(self).__name__}): children of a HybridBlock must be HybridBlocks, "
                             f"{getattr(block, 'name', block)!s} ({type(block).__name__}) is not; use Block as the "
                             "parent")
        super().register_child(block, name)

    def hybridize(self, active=True, backend=None, clear=True, static_alloc=False, static_shape=False, inline_limit=2,
                  forward_bulk_size=None, backward_bulk_size=None, recompute=False, **kwargs):
        """Runs the block as a compiled plan from now on, one per shape of inputs and mode.

        recompute=True: training takes less memory and more time, as backward computes most values again instead of
        keeping them from forward; the results are the same.  For a whole network, or a TrainStep of it: blocks inside
        that are called one by one save little.
        clear=False: existing plans stay.  The other flags are accepted and ignored: plans have fixed shapes, reuse their
        memory (that of results once nobody holds them) and are one call of any size, and there is one backend.
        static_shape needs static_alloc.
        """
        if static_shape and not static_alloc:
            raise ValueError(f"{self.name}: hybridize(static_shape=True) needs static_alloc=True")
        self._set_active(active, static_alloc, clear, recompute)
        more = {"recompute": True} if recompute else {}  # blocks of libraries may not take it
        super().hybridize(active, clear=clear, static_alloc=static_alloc, static_shape=static_shape,
                          inline_limit=inline_limit, forward_bulk_size=forward_bulk_size,
                          backward_bulk_size=backward_bulk_size, **more)

    def cast(self, dtype):
        """Changes the element type of all parameters."""
        self._forget()
        super().cast(dtype)

    def forward(self, x, *args):
        """Calls hybrid_forward with the operators of arrays or of symbols and the block's own parameters; if the block is
        hybridized, as a compiled plan."""
        return _core.Block.forward(self, x, *args) if self._active else self._forward_by_hybrid(x, *args)

    def _forward_by_hybrid(self, x, *args):
        if args or type(x) is not NDArray:
            self._check_kinds((x, *args))
        parameters = self._own_data(x)
        if parameters is None:
            self._settle_shapes((x, *args))
            parameters = self._own_data(x)
        if type(x) is NDArray or not (_core.is_tracing() or isinstance(x, Symbol)):
            return self.hybrid_forward(nd, x, *args, **parameters)
        return self.hybrid_forward(_SYMBOLS or _both(), x, *args, **parameters)

    def _settle_shapes(self, args):
        """Shapes of parameters that are not known yet, by the class's own infer_shape if it has one."""
        if type(self).infer_shape is HybridBlock.infer_shape:
            self._infer(args)
            return
        self.infer_shape(*args)
        for parameter in self._reg_params.values():
            parameter._finish_deferred_init()

    def _check_kinds(self, args):
        """Arrays or symbols, not both, and at least one."""
        arrays = symbols = False
        waiting = list(args)
        while waiting:
            item = waiting.pop()
            if isinstance(item, (list, tuple)):
                waiting.extend(item)
            else:
                arrays |= isinstance(item, NDArray)
                symbols |= isinstance(item, Symbol)
        if arrays == symbols:
            what = "NDArrays and Symbols are mixed" if arrays else "there is no NDArray or Symbol"
            raise ArgumentError(f"{self.name} ({type(self).__name__}): {what} among the inputs, which are "
                                f"{', '.join(type(item).__name__ for item in args)}")

    def _bind(self, args, keywords):
        """The inputs of a call by position: names are those of hybrid_forward's arguments after F."""
        signature = inspect.signature(self.hybrid_forward)
        names = [name for name, p in list(signature.parameters.items())[1:]
                 if p.kind == p.POSITIONAL_OR_KEYWORD and name not in self._reg_params]
        given = dict(zip(names, args))
        for name, value in keywords.items():
            if name not in names or name in given:
                what = "two values for" if name in given else "unexpected keyword"
                raise TypeError(f"{self.name} ({type(self).__name__}): {what} '{name}'; its inputs are: {' '.join(names)}")
            given[name] = value
        last = max(names.index(name) for name in given)
        missing = [name for name in names[:last] if name not in given
                   and signature.parameters[name].default is inspect.Parameter.empty]
        if missing:
            raise TypeError(f"{self.name} ({type(self).__name__}): the input '{missing[0]}' is missing")
        found = [given[name] if name in given else signature.parameters[name].default for name in names[:last + 1]]
        return (*found, *args[len(names):])

    def hybrid_forward(self, F, x, *args, **kwargs):
        """Override it to define what the block computes."""
        raise NotImplementedError(f"{self.name} ({type(self).__name__}) overrides neither hybrid_forward nor forward")

    def infer_shape(self, *args):
        """Infers the shapes of parameters from inputs."""
        self._infer(args, True)

    def infer_type(self, *args):
        """Casts the parameters to the type of the inputs."""
        for parameter in self.collect_params().values():
            if _core.dtype_name(parameter.dtype) != _core.dtype_name(args[0].dtype):
                parameter.cast(args[0].dtype)
        self._forget()

    def optimize_for(self, x, *args, backend=None, clear=False, static_alloc=False, static_shape=False, inline_limit=2,
                     forward_bulk_size=None, backward_bulk_size=None, **kwargs):
        """Hybridizes the block and compiles its prediction plan for such inputs; flags as in hybridize()."""
        self.hybridize(True, backend, clear, static_alloc, static_shape, inline_limit, forward_bulk_size,
                       backward_bulk_size)
        with autograd.pause(train_mode=False):
            self(x, *args)

    def register_op_hook(self, callback, monitor_all=False):
        """callback(tensor name, operator name, handle) for every operator that the hybridized block runs; with
        monitor_all for inputs as well.

        The names are bytes, the handle an integer: NDArray(ctypes.cast(handle, NDArrayHandle)) is the array.
        """
        self._watch(callback, monitor_all)
        self._watching = (callback, bool(monitor_all))

    def export(self, path, epoch=0, remove_amp_cast=True):
        """Writes path-symbol.json and path-NNNN.params, which SymbolBlock.imports, mx.model and the C library read.

        The block must be hybridized and must have run once.  Returns the names of both files.
        A path that ends in .onnx is one ONNX file for inputs like those of the first call, in batches of any size.
        """
        if str(path).endswith(".onnx"):
            return self._export_onnx(path)
        self._export(path, epoch)
        return f"{path}-symbol.json", f"{path}-{epoch:04d}.params"

    def _export_onnx(self, path):
        """Batches are open if the network allows it: a forward that depends on the batch size is written for that of the call."""
        from ..contrib.onnx import USUAL_OPSET
        from ..error import MXNetError
        from .. import symbol
        examples = self._seen()
        if not examples:
            raise RuntimeError(f"{self.name}: export needs a block that has run; call the block once")

        def write(shapes):
            names = ["data"] if len(shapes) == 1 else [f"data{i}" for i in range(len(shapes))]
            variables = [symbol.var(name, shape=shape, dtype=dtype)
                         for name, shape, (_, dtype) in zip(names, shapes, examples)]
            _core.onnx_write(self._trace(*variables), None, path, USUAL_OPSET, [], [], None)
        try:
            write([(0, *shape[1:]) for shape, _ in examples])
        except MXNetError:
            write([shape for shape, _ in examples])
        return path


class _LayerBase(HybridBlock):
    """Base of the library's layers and losses; layers() creates the classes."""

    _address = None

    def __init__(self, *args, **kwargs):
        self._start_layer(self._address, self._made, *args, **kwargs)

    forward = _core.Block.forward

    def cast(self, dtype):
        """Changes the element type of the parameters; normalisations stay in float32 if 16 bits are requested."""
        self._forget()
        self._cast(dtype)

    def hybrid_forward(self, F, *args, **kwargs):
        """Runs the layer with these inputs, and these arrays in place of its parameters; both by position or keyword."""
        inputs, own = self._input_names, self._reg_params
        names = [*inputs, *own]
        if len(args) > len(names):
            raise TypeError(f"{self.name} ({type(self).__name__}): hybrid_forward takes {len(names)} arrays "
                            f"({', '.join(names)}), got {len(args)}")
        given = dict(zip(names, args))
        for key, value in kwargs.items():
            if value is None and key not in names:  # bias=None, from a subclass of a layer without one
                continue
            if key not in names or key in given:
                what = "two values for" if key in given else "unexpected keyword"
                raise TypeError(f"{self.name} ({type(self).__name__}): hybrid_forward got {what} '{key}'; it takes "
                                f"{', '.join(names)}")
            given[key] = value
        data = [given.get(name) for name in inputs]
        while data and data[-1] is None:
            data.pop()
        return self._layer_forward(tuple(data), {name: given.get(name) for name in own})


Block._base, HybridBlock._base = Block, HybridBlock  # the classes whose methods are the library's
_copying.supports(Block, skip=("_own_scope", "_watching"))
_insides.add_to(Block)
_core.set_class(3, Block)
_core.set_class(4, HybridBlock)

from .symbol_block import SymbolBlock  # noqa: E402  (it derives from HybridBlock)
