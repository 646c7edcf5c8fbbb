"""Blocks: networks and their parts."""
import re
import warnings
from collections import OrderedDict

from .. import _core
from .._core import NDArray
from .. import ndarray as nd
from .parameter import ParameterDict, load_into
from .utils import HookHandle

__all__ = ["Block", "HybridBlock", "SymbolBlock"]


def _indent(text, spaces):
    first, *rest = text.split("\n")
    return "\n".join([first] + [spaces * " " + line for line in rest])


class Block(_core.Block):
    """A network or a part of one.  Subclasses say in forward() what it computes; children and parameters that are
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
        self._start(self._kind, prefix, params)

    def _alias(self):
        return type(self).__name__.lower()

    def __repr__(self):
        if self._is_layer:
            return self._text()
        lines = "\n".join(f"  ({key}): {_indent(repr(child), 2)}" for key, child in self._children.items())
        return f"{type(self).__name__}(\n{lines}\n)"

    # ---- structure -------------------------------------------------------------------------------------------------

    def register_child(self, block, name=None):
        """Makes a block a child: its parameters are then collected, saved and initialized with this one's."""
        self._register_child(block, name)

    def collect_params(self, select=None):
        """All parameters of the block and its children; only those whose full name matches the pattern `select`."""
        self._check_containers()
        collected = self._collect()
        if select is None:
            return collected
        pattern = re.compile(select)
        chosen = ParameterDict(self.params.prefix)
        for name, parameter in collected.items():
            if pattern.match(name):
                chosen._add(parameter)
        return chosen

    def _check_containers(self):
        """Blocks in plain lists and dicts are not registered: say so."""
        children = None
        for key, value in self.__dict__.items():
            if not isinstance(value, (list, tuple, dict)) or not value:
                continue
            items = value.values() if isinstance(value, dict) else value
            for item in items:
                if isinstance(item, Block):
                    children = set(map(id, self._children.values())) if children is None else children
                    if id(item) not in children:
                        warnings.warn(f"{self.name}: '{key}' is a plain {type(value).__name__} with Blocks in it, which "
                                      "are not registered; use Sequential or register_child", stacklevel=3)
                        return

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
            seen, unique = set(), {}
            for key, value in params.items():
                if value.name not in seen:
                    seen.add(value.name)
                    unique[key] = value
            params = unique
        _core.save(filename, [p.list_data()[0].as_in_context(_CPU) for p in params.values()], list(params))

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
                    raise AssertionError(f"load_parameters: '{name}' from {where} is not in this block; set "
                                         "ignore_extra=True to skip it")
                continue
            load_into(params[name], value, ctx, cast_dtype, dtype_source)

    def save_params(self, filename):
        """The old form: full names without this block's prefix."""
        self.collect_params().save(filename, strip_prefix=self.prefix)

    def load_params(self, filename, ctx=None, allow_missing=False, ignore_extra=False):
        """The old name of load_parameters."""
        self.load_parameters(filename, ctx, allow_missing, ignore_extra)

    # ---- running ---------------------------------------------------------------------------------------------------

    def register_forward_pre_hook(self, hook):
        """hook(block, inputs) runs before forward; returns a handle with detach()."""
        return HookHandle(self, self._hooks(True), hook)

    def register_forward_hook(self, hook):
        """hook(block, inputs, outputs) runs after forward; returns a handle with detach()."""
        return HookHandle(self, self._hooks(False), hook)

    def hybridize(self, active=True, **kwargs):
        """Lets hybrid children run as compiled plans."""
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    def summary(self, *inputs):
        """Prints a table of layers with output shapes and numbers of parameters for these inputs."""
        from ._summary import summarize
        print(summarize(self, inputs))


class HybridBlock(Block):
    """A block made of operators only, which can be traced and run as a plan.  Subclasses override

        hybrid_forward(self, F, x, *args, **parameters)

    where F is mx.nd or mx.sym and the block's own parameters come as keywords; or forward, as in Block.
    """

    _kind = 1

    def register_child(self, block, name=None):
        """Makes a hybrid block a child."""
        if not isinstance(block, HybridBlock):
            raise ValueError(f"{self.name} ({type(self).__name__}): children of a HybridBlock must be HybridBlocks, "
                             f"{getattr(block, 'name', block)!s} ({type(block).__name__}) is not; use Block as the parent")
        super().register_child(block, name)

    def hybridize(self, active=True, static_alloc=False, static_shape=False, inline_limit=2,
                  forward_bulk_size=None, backward_bulk_size=None, **kwargs):
        """Runs the block as a compiled plan from now on."""
        self._set_active(active)
        super().hybridize(active, static_alloc=static_alloc, static_shape=static_shape, inline_limit=inline_limit,
                          **kwargs)

    def forward(self, x, *args):
        """Calls hybrid_forward with the operators of arrays and the block's own parameters."""
        parameters = self._own_data(x)
        if parameters is None:
            self._infer((x,) + args)
            parameters = self._own_data(x)
        return self.hybrid_forward(nd, x, *args, **parameters)

    def hybrid_forward(self, F, x, *args, **kwargs):
        """Override it to say what the block computes."""
        raise NotImplementedError(f"{self.name} ({type(self).__name__}) overrides neither hybrid_forward nor forward")

    def infer_shape(self, *args):
        """Infers the shapes of parameters from inputs."""
        self._infer(args)

    def infer_type(self, *args):
        """Casts the parameters to the type of the inputs."""
        for parameter in self.collect_params().values():
            if parameter.dtype != args[0].dtype:
                parameter.cast(args[0].dtype)

    def optimize_for(self, x, *args, backend=None, clear=True, **kwargs):
        """Prepares the block for inputs like these: hybridizes it and runs it once."""
        self.hybridize(True, **{k: v for k, v in kwargs.items() if k in ("static_alloc", "static_shape")})
        return self(x, *args)


class _LayerBase(HybridBlock):
    """Base of the layers and losses that the library brings; the classes are made in layers()."""

    _address = None

    def __init__(self, *args, **kwargs):
        self._start_layer(self._address, self._made, *args, **kwargs)

    forward = _core.Block.forward

    def hybrid_forward(self, F, *args, **parameters):
        """What the layer computes, with these arrays in place of its parameters."""
        names = self._reg_params
        inputs = tuple(args)
        given = {}
        if len(inputs) > 1 and names:  # parameters may be passed by position, after the input
            rest = list(inputs[1:])
            for name in names:
                if name not in parameters and rest:
                    given[name] = rest.pop(0)
            inputs = inputs[:1] + tuple(rest)
        given.update(parameters)
        return self._layer_forward(inputs, given)


class SymbolBlock(HybridBlock):
    """A block made from a symbol: what imports() of an exported model gives."""


_CPU = None


def _late():
    global _CPU
    from ..context import cpu
    _CPU = cpu()


_late()
_core.set_class(3, Block)
_core.set_class(4, HybridBlock)
