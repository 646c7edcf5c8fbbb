"""Parameters and dictionaries of them."""
import warnings
import weakref

from .. import _core
from .. import _copying as copying
from .._core import NDArray, Symbol
from ..context import Context, cpu, current_context
from ._live import Live
from ..error import DeferredInitializationError, MXNetError, ParameterError, ShapeError

__all__ = ["DeferredInitializationError", "Parameter", "Constant", "ParameterDict", "tensor_types"]

tensor_types = (Symbol, NDArray)
_STORAGE = {"default": "0", "row_sparse": "1", "csr": "2"}  # in the attributes of variables


def _default_init():
    from .. import initializer
    return initializer.Uniform()


class _Copies(list):
    """The arrays of a parameter, one per context; an array that is assigned to a place is used from then on."""

    def __init__(self, parameter, arrays):
        super().__init__(arrays)
        self._parameter = parameter

    def __setitem__(self, place, array):
        changed = list(self)
        changed[place] = array
        self._parameter._copies = [_dense(x) for x in changed]
        super().__setitem__(place, array)

    def __reduce__(self):
        return list, (list(self),)


def _dense(array):
    return array.tostype("default") if isinstance(array, NDArray) and array.stype != "default" else array


class NotInitializedError(ParameterError, AssertionError, ValueError):
    """A parameter without data that a method needs."""


class ParameterShapeError(ShapeError, AssertionError):
    """A value of another shape than the parameter's."""


class Parameter(_core.Parameter):
    """A named array that a network learns, with one copy per context.

    A shape with a 0 in it is completed at the first forward (allow_deferred_init); until then data() raises
    DeferredInitializationError.
    """

    _var = None  # the symbol that var() returned last
    _trained_by = None  # a function that returns the Trainer

    def __repr__(self):
        return f"{type(self).__name__} {self.name} (shape={self.shape}, dtype={self.dtype})"

    def initialize(self, init=None, ctx=None, default_init=None, force_reinit=False):
        """Sets the initial value; `init` overrides the parameter's own initializer, `default_init` is the fallback."""
        if self._is_initialized and not force_reinit and not self._deferred_init:
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

    def set_data(self, data):
        """Sets the value on all contexts; a trainer that updates on its store starts from it in its next step."""
        try:
            super().set_data(data)
        except ParameterError as error:
            raise NotInitializedError(str(error)) from None
        except ShapeError as error:
            raise ParameterShapeError(str(error)) from None
        trainer = self._trainer
        if trainer is not None:
            trainer._value_was_set(self)

    def reset_ctx(self, ctx):
        """Moves the parameter to other contexts."""
        if not self._is_initialized:
            raise NotInitializedError(f"reset_ctx: parameter '{self.name}' has not been initialized; call initialize() "
                                      "first")
        super().reset_ctx(ctx)

    def as_in_context(self, ctx):
        """Moves the parameter to a context."""
        self.reset_ctx(ctx)

    def var(self):
        """The symbol of this parameter in a graph."""
        if _core.is_tracing():  # the variable that the plan will bind
            return _core.Parameter.data(self)
        from .. import symbol
        words = dict(shape=self.shape, dtype=self.dtype, lr_mult=self.lr_mult, wd_mult=self.wd_mult, init=self.init,
                     attr={"__storage_type__": _STORAGE[self.stype]})
        if self._var is None or self._var_words != words:
            self._var, self._var_words = symbol.var(self.name, **words), words
        return self._var

    # ---- rows of row_sparse parameters

    def row_sparse_data(self, row_id):
        """The rows with these indices, as a row_sparse array; gradients flow back to the parameter."""
        self._check_rows("row_sparse_data")
        return _core.parameter_rows(self, row_id)

    def list_row_sparse_data(self, row_id):
        """The same rows of the copies on all contexts."""
        self._check_rows("list_row_sparse_data")
        return [_core.parameter_rows(self, row_id.as_in_context(ctx)) for ctx in self.list_ctx()]

    def _check_rows(self, method):
        if self.stype != "row_sparse":
            raise RuntimeError(f"Parameter '{self.name}' has the storage type '{self.stype}': use data() instead of "
                               f"{method}()")
        if self._is_initialized and self._trainer is None:
            raise RuntimeError(f"{method}: no Trainer has the row_sparse parameter '{self.name}'; create one first")

    @property
    def _trainer(self):
        """The Trainer that has the parameter, or None."""
        return self._trained_by and self._trained_by()

    @_trainer.setter
    def _trainer(self, trainer):
        self._set_trainer(trainer)

    def _set_trainer(self, trainer):
        if self.stype != "default" and trainer is not None and self._trainer not in (None, trainer):
            raise RuntimeError(f"the row_sparse parameter '{self.name}' already has a Trainer, and can have only one")
        if trainer is None:
            self._trained_by = None
        else:  # rows cannot be read without it, so a row_sparse parameter keeps it alive
            self._trained_by = weakref.ref(trainer) if self.stype == "default" else lambda: trainer

    # ---- below the methods: what libraries read and write

    @property
    def _data(self):
        """The arrays of all contexts; None before initialization.  Assigning arrays replaces those in use."""
        arrays = self._copies
        if arrays is None:
            return None
        return _Copies(self, arrays if self.stype == "default" else [x.tostype(self.stype) for x in arrays])

    @_data.setter
    def _data(self, arrays):
        if isinstance(arrays, NDArray):
            arrays = [arrays]
        self._copies = arrays and [_dense(x) for x in arrays]

    @property
    def _grad(self):
        """The gradients of all contexts; None if there are none.  Assigning arrays replaces those in use."""
        return self._grads

    @_grad.setter
    def _grad(self, arrays):
        if arrays and self._copies:
            from ..autograd import mark_variables
            arrays = [arrays] if isinstance(arrays, NDArray) else list(arrays)
            mark_variables(self._copies, arrays, self.grad_req)

    @property
    def _ctx_list(self):
        """The contexts; None before the parameter has data."""
        return self.list_ctx() if self._is_ready else None

    @_ctx_list.setter
    def _ctx_list(self, contexts):
        """They are those of _data, which is assigned as well."""

    @property
    def _ctx_map(self):
        """Places in _data by kind (CPU 1, GPU 0) and number of the context; None before the parameter has data."""
        if not self._is_ready:
            return None
        places = [[], []]
        for i, ctx in enumerate(self.list_ctx()):
            numbers = places[ctx.device_typeid & 1]
            numbers += [None] * (ctx.device_id + 1 - len(numbers))
            numbers[ctx.device_id] = i
        return places

    @_ctx_map.setter
    def _ctx_map(self, places):
        """It follows from _data."""

    @property
    def _deferred_init(self):
        """(initializer, contexts, initializer, value) while the initialization waits for the shape, else ()."""
        waiting = self._waiting
        if waiting is None:
            return ()
        contexts, init, value = waiting
        return init, contexts, init, value

    @_deferred_init.setter
    def _deferred_init(self, waiting):
        if not self._is_made:  # assigned by a subclass before super().__init__(), which starts without
            return
        if not waiting:
            if self._waiting is not None:
                self._copies = None
            return
        init, contexts, default_init, value = waiting
        _core.Parameter.initialize(self, init, contexts, default_init or _default_init(), True)
        if value is not None:
            _core.Parameter.set_data(self, value)

    def _check_and_get(self, arr_list, ctx):
        """The array of a context, all of them (ctx is list), or the error that says why there is none."""
        if arr_list is None:
            return (self.list_grad if self._is_ready else self.list_data)()  # raises the error
        if ctx is list:
            return arr_list
        if ctx is None:
            ctx = arr_list[0].context if len(arr_list) == 1 else current_context()
        for array in arr_list:
            if array.context == ctx:
                return array
        raise RuntimeError(f"Parameter '{self.name}' was not initialized on {ctx}, only on {self.list_ctx()}")

    def _init_impl(self, data, ctx_list):
        """Puts a value on these contexts."""
        _core.Parameter.initialize(self, _Value(data), ctx_list, None, True)

    def _init_grad(self):
        """New gradients of zeros."""
        self._attach()

    def _reduce(self):
        """The mean of the copies, on the CPU."""
        arrays = self._copies
        if arrays is None:
            return _core.Parameter.list_data(self)[0]
        arrays = [x.as_in_context(cpu()) for x in arrays]
        total = arrays[0].copy()
        for x in arrays[1:]:
            total += x
        return total if len(arrays) == 1 or self.stype != "default" else total / len(arrays)

    def _load_init(self, data, ctx=None, cast_dtype=False, dtype_source="current"):
        """Sets the value from a file; an uninitialized parameter is created on ctx."""
        data = self._fitting(data, cast_dtype, dtype_source)
        if self.shape is not None:
            fits = len(self.shape) == len(data.shape) and all(
                a in (0, -1, b) for a, b in zip(self.shape, data.shape))
            if not fits:
                raise AssertionError(f"parameter '{self.name}' has shape {self.shape}, the file has {data.shape}")
        self.shape = data.shape
        if not self._is_initialized:
            self.initialize("zeros", ctx or current_context())
        elif ctx is not None and not self._is_deferred:
            wanted = [ctx] if isinstance(ctx, Context) else list(ctx)
            if set(wanted) != set(self.list_ctx()):
                self.reset_ctx(ctx)
        self.set_data(data)

    def _fitting(self, data, cast_dtype, dtype_source):
        own, given = _core.dtype_name(self.dtype), _core.dtype_name(data.dtype)
        if own == given:
            return data
        if not cast_dtype:
            raise AssertionError(f"parameter '{self.name}' has dtype {own}, the file has {given}; set cast_dtype=True to "
                                 "convert")
        if dtype_source not in ("current", "saved"):
            raise ValueError(f"dtype_source must be 'current' or 'saved', got {dtype_source!r}")
        if dtype_source == "current":
            return data.astype(self.dtype)
        self.cast(data.dtype)
        return data

    # ---- copies and pickles

    def _core_state(self):
        """What the library holds of the parameter."""
        words = {key: getattr(self, key) for key in
                 ("name", "grad_req", "shape", "dtype", "lr_mult", "wd_mult", "init", "allow_deferred_init", "stype")}
        words.update(differentiable=self._differentiable, grad_stype=self._grad_stype)
        grads = self._grads if self._grads_written and self._grad_stype == "default" else None
        return {"words": words, "constant": self._is_constant, "waiting": self._waiting, "data": self._copies,
                "grads": grads}

    def _set_core_state(self, state):
        words = state["words"]
        if state["constant"]:
            _core.make_constant(self, words["name"], state["value"])
        else:
            _core.Parameter.__init__(self, **words)
        if state["waiting"] is not None:
            contexts, init, value = state["waiting"]
            _core.Parameter.initialize(self, init, _existing(contexts), _default_init(), False)
            if value is not None:
                _core.Parameter.set_data(self, value)
        elif state["data"] is not None:
            self._copies = list({x.context: x for x in reversed(state["data"])}.values())[::-1]
            for own, value in zip(self._copies, state["grads"] or ()):
                if own.grad is not None:
                    own.grad[:] = value


def _existing(contexts):
    """Contexts of this machine: the CPU takes the place of a GPU that is missing."""
    from ..context import num_gpus
    found = [ctx if ctx.device_type != "gpu" or ctx.device_id < num_gpus() else cpu() for ctx in contexts]
    return list(dict.fromkeys(found))


class _Value:
    """An initializer that copies a value."""

    def __init__(self, value):
        self.value = value

    def __call__(self, desc, array):
        array[:] = self.value.as_in_context(array.context) if isinstance(self.value, NDArray) else self.value


copying.supports(Parameter, skip=("_trained_by", "_var", "_var_words"))


class Constant(Parameter):
    """A parameter that is not trained: its value is given and has no gradient."""

    def __init__(self, name, value):
        if not isinstance(value, NDArray):
            value = _core.array(value, dtype="float32")
        self.value = value
        _core.make_constant(self, name, value)

    def _core_state(self):
        return {**super()._core_state(), "value": self.value}

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

    def __repr__(self):
        lines = "\n".join(f"  {parameter!r}" for parameter in self.values())
        return f"{self.prefix}{' ' if self.prefix else ''}(\n{lines}\n)"

    def __copy__(self):
        other = type(self).__new__(type(self))
        copying.restore(other, (self._core_state(), {key: self.__dict__[key] for key in self.__dict__ if key != "_live"}))
        return other

    @property
    def _prefix(self):
        return self.prefix

    @property
    def _params(self):
        """The parameters by full name, as a dictionary; changing it changes this one."""
        live = self.__dict__.get("_live")
        if live is None:
            live = self.__dict__["_live"] = Live(self, "_set_all", self.items(), keep=True)
        elif list(live.values()) != self.values():
            live._fill(self.items())
        return live

    @_params.setter
    def _params(self, parameters):
        self._params._assign(parameters)

    def _get_impl(self, name):
        """The parameter of a full name; a shared one becomes one of this dictionary.  None if there is none."""
        found = self._find(name)
        return found if found is None or name in self else self._add(found)

    def _core_state(self):
        return {"prefix": self.prefix, "shared": self._shared, "parameters": list(self.values())}

    def _set_core_state(self, state):
        _core.ParameterDict.__init__(self, state["prefix"], state["shared"])
        for parameter in state["parameters"]:
            self._add(parameter)

    def get_constant(self, name, value=None):
        """The constant prefix + name; created from value if it does not exist."""
        full = self.prefix + name
        found = self._get_impl(full)
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
            arrays.append(parameter._reduce())
            names.append(parameter.name[len(strip_prefix):])
        _core.save(filename, arrays, names)

    def load(self, filename, ctx=None, allow_missing=False, ignore_extra=False, restore_prefix="",
             cast_dtype=False, dtype_source="current"):
        """Reads values written by save()."""
        loaded = _core.load(filename)
        if loaded and not isinstance(loaded, dict):
            raise ValueError(f"ParameterDict.load: '{filename}' holds arrays without names")
        self.load_dict(loaded or {}, ctx, allow_missing, ignore_extra, restore_prefix, filename, cast_dtype, dtype_source)

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
            parameter = self[name] if name in self else None
            if parameter is None:
                if not ignore_extra:
                    raise AssertionError(f"ParameterDict.load: '{name}' from {where} is not a parameter here; there are "
                                         f"{_some(self.keys())}; set ignore_extra=True to skip it")
                continue
            load_into(parameter, value, ctx, cast_dtype, dtype_source)


def _some(names):
    names = list(names)
    return ", ".join(names[:5]) + (f", ... ({len(names)} in all)" if len(names) > 5 else "")


def load_into(parameter, value, ctx=None, cast_dtype=False, dtype_source="current", key=None):
    """Sets a parameter to a value from a file, which calls it `key`; an uninitialized one is created on ctx."""
    try:
        parameter._load_init(value, ctx, cast_dtype, dtype_source)
    except AssertionError as error:
        if key in (None, parameter.name):
            raise
        raise AssertionError(f"'{key}' in the file: {error}") from None


copying.supports(ParameterDict, skip=("_live",))
_core.set_class(0, Parameter)
_core.set_class(1, Constant)
_core.set_class(2, ParameterDict)
