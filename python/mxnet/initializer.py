"""Initializers: initial values of parameters.

The classes are created from the library's descriptions; a subclass may override _init_weight (or __call__), and any
callable(desc, array) can be used in their place.
"""
import json

from . import _core, registry
from ._core import NDArray


class InitDesc(str):
    """The name of a parameter, with attributes that say how to initialize it."""

    def __new__(cls, name, attrs=None, global_init=None):
        self = super().__new__(cls, name)
        self.attrs = attrs or {}
        self.global_init = global_init
        return self


# Name suffixes with a special rule when an initializer is called with a name without attributes.
_RULES = [("weight", "_init_weight"), ("bias", "_init_bias"), ("gamma", "_init_gamma"), ("beta", "_init_beta"),
          ("min", "_init_zero"), ("max", "_init_one")]
_OLD_RULES = [("bias", "_init_bias"), ("gamma", "_init_gamma"), ("beta", "_init_beta"), ("weight", "_init_weight"),
              ("moving_mean", "_init_zero"), ("moving_var", "_init_one"), ("moving_inv_var", "_init_zero"),
              ("moving_avg", "_init_zero"), ("min", "_init_zero"), ("max", "_init_one")]


class Initializer:
    """Base of initializers: override _init_weight(name, array), which fills array in place."""

    def __init__(self, **kwargs):
        self._kwargs = kwargs
        self._verbose, self._print_func = False, None

    def dumps(self):
        """JSON text from which create() builds an equal initializer."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def set_verbosity(self, verbose=False, print_func=None):
        """Sets whether every initialized parameter is logged; print_func(array) returns the text."""
        self._verbose = verbose
        self._print_func = print_func or _deviation
        return self

    def __eq__(self, other):
        if not isinstance(other, Initializer):
            return NotImplemented
        return type(self) is type(other) and self._kwargs == other._kwargs

    __hash__ = object.__hash__

    def __call__(self, desc, arr):
        if not isinstance(desc, InitDesc):
            return self._by_ending(desc, arr, _OLD_RULES)
        chosen = desc.attrs.get("__init__")
        if chosen:
            init = create(chosen)
            init._init_weight(desc, arr)
            return self._report(desc, chosen, arr)
        if desc.global_init is None:
            desc.global_init = self
        self._by_ending(desc, arr, _RULES)

    def _by_ending(self, name, array, rules):
        if not isinstance(name, str):
            raise TypeError(f"initializer: the first argument must be a name, got {type(name).__name__}")
        if not isinstance(array, NDArray):
            raise TypeError(f"initializer: the second argument must be an NDArray, got {type(array).__name__}")
        if rules is _OLD_RULES and name.startswith("upsampling"):
            return self._init_bilinear(name, array)
        for ending, method in rules:
            if name.endswith(ending):
                getattr(self, method)(name, array)
                return self._report(name, ending, array)
        self._init_default(name, array)

    def _report(self, name, what, array):
        if self._verbose and self._print_func:
            import logging
            logging.info("Initialized %s as %s: %s", name, what, self._print_func(array))

    def _init_bilinear(self, _, arr):
        Bilinear()._init_weight(_, arr)

    def _init_zero(self, _, arr):
        arr[:] = 0.0

    def _init_one(self, _, arr):
        arr[:] = 1.0

    _init_bias = _init_beta = _init_zero
    _init_gamma = _init_one

    def _init_weight(self, name, arr):
        raise NotImplementedError(f"{type(self).__name__} does not override _init_weight")

    def _init_default(self, name, _):
        raise ValueError(f"initializer: parameter '{name}' ends in none of weight, bias, gamma, beta; "
                         "set an initializer for it")


def _deviation(array):
    return str((array.norm() / array.size ** 0.5).asscalar())


class _RowInitializer(Initializer):
    """Base of the library's initializers."""

    def _begin(self, options, unknown):
        if unknown:
            registry.unknown_option(type(self)._row, next(iter(unknown)), list(options))
        Initializer.__init__(self, **options)
        self._start(_core.INITIALIZER, type(self)._row, **options)

    def _init_weight(self, name, arr):
        self._fill("" if name is None else name, arr)

    def __getstate__(self):
        return {**self.__dict__, "_now": self._options()}

    def __setstate__(self, state):
        options = {**self._kwargs_of(state), **state.pop("_now", {})}
        self.__dict__.update(state)
        self._start(_core.INITIALIZER, type(self)._row, **options)

    @staticmethod
    def _kwargs_of(state):
        return {k: v for k, v in state.get("_kwargs", {}).items() if k == "init"}


def _equal_to(row, options):
    """An initializer like one that the library created."""
    return globals()[row](**options)


_core.set_initializer_methods(Initializer.__call__, _RowInitializer._init_weight)

register = registry.get_register_func(Initializer, "initializer")
alias = registry.get_alias_func(Initializer, "initializer")
create = registry.get_create_func(Initializer, "initializer")

for _cls, _aliases in registry.row_classes(_core.INITIALIZER, _RowInitializer, _core.InitializerRow, __name__,
                                           parents={"MSRAPrelu": "Xavier"}):
    globals()[_cls.__name__] = register(_cls)
    alias(*_aliases)(_cls)


# ---- Constant: also from an array ---------------------------------------------------------------------------------

def _begin_constant(self, options, unknown):
    value = options["value"]
    if isinstance(value, (int, float)):
        return _RowInitializer._begin(self, options, unknown)
    Initializer.__init__(self, value=_nested(value))
    self.value = value


def _constant_weight(self, name, arr):
    if "value" in self.__dict__:
        arr[:] = self.value
    else:
        self._fill("" if name is None else name, arr)


def _nested(value):
    """An array as nested lists, which JSON can hold."""
    value = value.asnumpy() if isinstance(value, NDArray) else value
    return value.tolist() if hasattr(value, "tolist") else value


def _constant_equal(self, other):
    import numpy
    if not isinstance(other, Initializer):
        return NotImplemented
    return type(self) is type(other) and json.loads(self.dumps()) == json.loads(other.dumps()) and \
        numpy.shape(self._kwargs["value"]) == numpy.shape(other._kwargs["value"])


Constant = globals()["Constant"]
Constant._begin, Constant._init_weight = _begin_constant, _constant_weight
Constant.__eq__, Constant.__hash__ = _constant_equal, object.__hash__


# ---- FusedRNN: its inner initializer may be given as text ---------------------------------------------------------

def _fused_dumps(self):
    inner = self._kwargs["init"]
    inner = inner.dumps() if isinstance(inner, Initializer) else inner
    return json.dumps([type(self).__name__.lower(), {**self._kwargs, "init": inner}])


globals()["FusedRNN"].dumps = _fused_dumps


# ---- initializers composed of others ------------------------------------------------------------------------------

class Load:
    """Initial values from arrays by name (a dict or a .params file); default_init is used for all other names."""

    def __init__(self, param, default_init=None, verbose=False):
        if isinstance(param, str):
            from .ndarray import load
            param = load(param)
        if not isinstance(param, dict):
            raise AssertionError(f"Load: expected a dict or a file of named arrays, got {type(param).__name__}")
        self.param = {k[4:] if k.startswith(("arg:", "aux:")) else k: v for k, v in param.items()}
        self.default_init, self.verbose = default_init, verbose

    def __call__(self, name, arr):
        value = self.param.get(name)
        if value is not None:
            if tuple(value.shape) != tuple(arr.shape):
                raise AssertionError(f"Load: parameter {name} has shape {arr.shape}, the loaded array {value.shape}")
            arr[:] = value
        elif self.default_init is None:
            raise AssertionError(f"Load: the arrays have no {name}, and there is no default_init")
        else:
            _apply(create(self.default_init), name, arr)
        if self.verbose:
            import logging
            logging.info("Initialized %s by %s", name, "loading" if value is not None else "default_init")


class Mixed:
    """The first of several initializers whose pattern (a regular expression) matches the parameter's name."""

    def __init__(self, patterns, initializers):
        import re
        if len(patterns) != len(initializers):
            raise AssertionError(f"Mixed: {len(patterns)} patterns but {len(initializers)} initializers")
        self.map = [(re.compile(pattern), create(init) if isinstance(init, str) else init)
                    for pattern, init in zip(patterns, initializers)]

    def __call__(self, name, arr):
        for pattern, init in self.map:
            if pattern.match(name):
                return init(name, arr)
        raise ValueError(f"Mixed: no pattern matches parameter {name}; add the pattern '.*' at the end")


def _apply(init, name, array):
    """Runs an initializer written in Python on a parameter; called by the library."""
    desc = name if isinstance(name, InitDesc) else InitDesc(name, {"__init__": init})
    if isinstance(init, Initializer) and type(init).__call__ is Initializer.__call__:
        init._init_weight(desc, array)
        init._report(desc, init, array)
    elif isinstance(init, Mixed):
        for pattern, chosen in init.map:
            if pattern.match(name):
                return _apply(chosen, name, array)
        init(name, array)
    else:
        init(desc, array)
