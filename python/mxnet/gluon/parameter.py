"""Parameters and dictionaries of them."""
import warnings
import weakref

from .. import _core
from .._core import NDArray, Symbol
from ..context import Context, cpu, current_context
from ..error import DeferredInitializationError, MXNetError

__all__ = ["DeferredInitializationError", "Parameter", "Constant", "ParameterDict", "tensor_types"]

tensor_types = (Symbol, NDArray)

_TRAINERS = weakref.WeakKeyDictionary()  # Parameter -> reference to its Trainer


def _default_init():
    from .. import initializer
    return initializer.Uniform()


class Parameter(_core.Parameter):
    """A named array that a network learns, with one copy per context.

    A shape with a 0 in it is completed at the first forward (allow_deferred_init); until then data() raises
    DeferredInitializationError.
    """

    def __repr__(self):
        return f"{type(self).__name__} {self.name} (shape={self.shape}, dtype={_core.dtype_name(self.dtype)})"

    def initialize(self, init=None, ctx=None, default_init=None, force_reinit=False):
        """Sets the initial value; `init` overrides the parameter's own initializer, `default_init` is the fallback."""
        if self._is_initialized and not force_reinit:
            warnings.warn(f"Parameter '{self.name}' is already initialized; pass force_reinit=True to initialize it again",
                          stacklevel=2)
            return
        if init is None and default_init is None and self.init is None:
            default_init = _default_init()
        try:
            super().initialize(init, ctx, default_init, force_reinit)
        except DeferredInitializationError:
            raise
        except MXNetError as error:
            if "unknown shape" in str(error):
                raise ValueError(str(error)) from None
            raise

    def var(self):
        """The symbol of this parameter in a graph."""
        from .. import symbol
        return symbol.var(self.name, shape=self.shape, dtype=self.dtype, lr_mult=self.lr_mult, wd_mult=self.wd_mult,
                          init=self.init)

    def row_sparse_data(self, row_id):
        """The rows with these indices, as a row_sparse array; gradients flow back to the parameter."""
        if self.stype != "row_sparse":
            raise RuntimeError(f"Parameter '{self.name}' has the storage type '{self.stype}': use data() instead of "
                               "row_sparse_data()")
        return _core.parameter_rows(self, row_id)

    def list_row_sparse_data(self, row_id):
        """The same rows of the copies on all contexts."""
        return [self.row_sparse_data(row_id.as_in_context(ctx)) for ctx in self.list_ctx()]

    def set_data(self, data):
        """Sets the value on all contexts; a trainer that updates on its store starts from it in its next step."""
        super().set_data(data)
        trainer = self._trainer
        if trainer is not None:
            trainer._value_was_set(self)

    @property
    def _trainer(self):
        """The last Trainer that was given this parameter, while it exists."""
        found = _TRAINERS.get(self)
        return None if found is None else found()

    def _set_trainer(self, trainer):
        """A row_sparse parameter has one Trainer only; None releases it."""
        old = self._trainer
        if self._stype != "default" and None not in (old, trainer) and old is not trainer:
            raise RuntimeError(f"Parameter '{self.name}' is {self._stype} and has a Trainer already; it cannot get a "
                               "second one")
        _TRAINERS.pop(self, None) if trainer is None else _TRAINERS.__setitem__(self, weakref.ref(trainer))

    def as_in_context(self, ctx):
        """Moves the parameter to a context."""
        self.reset_ctx(ctx)


class Constant(Parameter):
    """A parameter that is not trained: its value is given and has no gradient."""

    def __init__(self, name, value):
        if not isinstance(value, NDArray):
            value = _core.array(value, dtype="float32")
        self.value = value
        _core.make_constant(self, name, value)

    @property
    def grad_req(self):
        """Always 'null'."""
        return "null"

    @grad_req.setter
    def grad_req(self, req):
        if req != "null":
            warnings.warn(f"Constant '{self.name}' has no gradient: grad_req stays 'null'", stacklevel=2)


class ParameterDict(_core.ParameterDict):
    """Parameters by full name, in order of creation; missing ones are looked up in `shared`."""

    def __init__(self, prefix="", shared=None):
        super().__init__(prefix, shared)

    def __copy__(self):
        other = ParameterDict(self.prefix, self._shared)
        other.update(self)
        return other

    def get_constant(self, name, value=None):
        """The constant prefix + name; created from value if it does not exist."""
        full = self.prefix + name
        found = self._find(full)
        if found is None:
            if value is None:
                raise KeyError(f"ParameterDict: there is no constant named '{full}'; pass its value to create it")
            return self._add(Constant(full, value))
        if value is not None:
            import numpy
            given = value.asnumpy() if isinstance(value, NDArray) else numpy.asarray(value)
            if not isinstance(found, Constant) or found.shape != given.shape \
                    or not (getattr(found, "value", None) is value or (found.value.asnumpy() == given).all()):
                raise AssertionError(f"ParameterDict: '{full}' exists with another value")
        return found

    def update(self, other):
        """Adds all parameters of another dictionary."""
        for parameter in other.values():
            self._add(parameter)

    def initialize(self, init=None, ctx=None, verbose=False, force_reinit=False):
        """Initializes every parameter; an initializer of the parameter itself takes precedence."""
        if init is None:
            init = _default_init()
        if verbose:
            init.set_verbosity(verbose=verbose)
        for parameter in self.values():
            parameter.initialize(None, ctx, init, force_reinit=force_reinit)

    def list_ctx(self):
        """The contexts of the parameters."""
        found = []
        for parameter in self.values():
            found += [ctx for ctx in parameter.list_ctx() if ctx not in found]
        return found

    def reset_ctx(self, ctx):
        """Moves all parameters to other contexts."""
        for parameter in self.values():
            parameter.reset_ctx(ctx)

    def setattr(self, name, value):
        """Sets an attribute of all parameters: params.setattr('grad_req', 'null')."""
        for parameter in self.values():
            setattr(parameter, name, value)

    def save(self, filename, strip_prefix=""):
        """Writes all values to a file, names without strip_prefix."""
        arrays, names = [], []
        for parameter in self.values():
            if not parameter.name.startswith(strip_prefix):
                raise ValueError(f"ParameterDict.save: '{parameter.name}' does not begin with '{strip_prefix}'")
            arrays.append(parameter.list_data()[0].as_in_context(cpu()))
            names.append(parameter.name[len(strip_prefix):])
        _core.save(filename, arrays, names)

    def load(self, filename, ctx=None, allow_missing=False, ignore_extra=False, restore_prefix="",
             cast_dtype=False, dtype_source="current"):
        """Reads values written by save()."""
        loaded = _core.load(filename)
        if not isinstance(loaded, dict):
            raise ValueError(f"ParameterDict.load: '{filename}' holds arrays without names")
        self.load_dict(loaded, ctx, allow_missing, ignore_extra, restore_prefix, filename, cast_dtype, dtype_source)

    def load_dict(self, param_dict, ctx=None, allow_missing=False, ignore_extra=False, restore_prefix="",
                  filename=None, cast_dtype=False, dtype_source="current"):
        """The same from a dict of arrays."""
        where = f"file '{filename}'" if filename else "param_dict"
        values = {restore_prefix + name.split(":", 1)[-1] if name[:4] in ("arg:", "aux:") else restore_prefix + name: v
                  for name, v in param_dict.items()}
        if not allow_missing:
            for name in self.keys():
                if name not in values:
                    raise AssertionError(f"ParameterDict.load: parameter '{name}' is not in {where}, which has "
                                         f"{_some(values)}; set allow_missing=True to load the others")
        for name, value in values.items():
            parameter = self._find(name)
            if parameter is None:
                if not ignore_extra:
                    raise AssertionError(f"ParameterDict.load: '{name}' from {where} is not a parameter here; there are "
                                         f"{_some(self.keys())}; set ignore_extra=True to skip it")
                continue
            load_into(parameter, value, ctx, cast_dtype, dtype_source)


def _some(names):
    names = list(names)
    return ", ".join(names[:5]) + (f", ... ({len(names)} in all)" if len(names) > 5 else "")


def load_into(parameter, value, ctx=None, cast_dtype=False, dtype_source="current"):
    """Sets a parameter to a value from a file; an uninitialized one is created on ctx."""
    if value.dtype != parameter.dtype:
        if cast_dtype and dtype_source == "current":
            value = value.astype(parameter.dtype)
        elif cast_dtype and dtype_source == "saved":
            parameter.cast(value.dtype)
        elif not cast_dtype:
            raise AssertionError(f"parameter '{parameter.name}' has dtype {_core.dtype_name(parameter.dtype)}, the file "
                                 f"has {_core.dtype_name(value.dtype)}; set cast_dtype=True to convert")
        else:
            raise ValueError(f"dtype_source must be 'current' or 'saved', got {dtype_source!r}")
    if parameter.shape is not None:
        ok = len(parameter.shape) == len(value.shape) and all(a in (0, b) for a, b in zip(parameter.shape, value.shape))
        if not ok:
            raise AssertionError(f"parameter '{parameter.name}' has shape {parameter.shape}, the file has {value.shape}")
    parameter.shape = value.shape
    if not parameter._is_initialized:
        parameter.initialize("zeros", ctx or current_context())
    elif ctx is not None and not parameter._deferred_init:
        wanted = [ctx] if isinstance(ctx, Context) else list(ctx)
        if set(wanted) != set(parameter.list_ctx()):
            parameter.reset_ctx(ctx)
    parameter.set_data(value)


_core.set_class(0, Parameter)
_core.set_class(1, Constant)
_core.set_class(2, ParameterDict)
