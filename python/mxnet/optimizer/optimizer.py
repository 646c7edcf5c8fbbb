"""Optimizers: the base class for users, the library's optimizers, and the updater that stores states by index.

Rates, counts, states and masters are in the library: this file has their Python names, so that a subclass can override
each of them, and pickling.
"""
import pickle
import warnings
from numbers import Number

from .. import _copying, _core, registry
from .._core import NDArray
from ..error import AttributeValueError
from ._states import Table, load_states

# Methods that, once overridden, make updaters, trainers and stores call Python.
_HOOKS = ("update", "update_multi_precision", "_update_impl", "create_state", "create_state_multi_precision", "_update_count",
          "_set_current_context", "_get_lr", "_get_wd", "_get_lrs", "_get_wds", "learning_rate")
_NUMBERS = ("lr", "wd", "rescale_grad", "clip_gradient", "begin_num_update", "num_update", "multi_precision",
            "aggregate_num")
_TABLES = ("lr_mult", "wd_mult", "idx2name")


class _OptionError(AttributeValueError, AssertionError):
    """An invalid value: an AssertionError, as in MXNet's optimizers."""


def _number(value):
    """An object that behaves as a number as a float."""
    try:
        return float(value)
    except TypeError:
        return float(value * 1.0)


def _table(name, doc):
    """A property: a table of the library; assignment replaces its contents."""
    def get(self):
        return Table(self, name)

    def fill(self, values):
        table = Table(self, name)
        values = dict(values)
        table.clear()
        table.update(values)

    return property(get, fill, doc=doc)


class Optimizer(_core.Optimizer):
    """Base of optimizers.

    A subclass overrides create_state(index, weight), which returns the state of a weight (None, an array or a
    tuple), and update(index, weight, grad, state), which changes the weight in place.  Inside update,
    self._update_count(index) counts, self._get_lr(index) and self._get_wd(index) return the rates of that weight.
    """

    opt_registry = {}

    def __init__(self, rescale_grad=1.0, param_idx2name=None, wd=0.0, clip_gradient=None, learning_rate=None,
                 lr_scheduler=None, sym=None, begin_num_update=0, multi_precision=False, param_dict=None,
                 aggregate_num=0):
        self._start_own(type(self).__name__)
        self.rescale_grad, self.wd, self.clip_gradient = rescale_grad, wd, clip_gradient
        self.begin_num_update = self.num_update = begin_num_update
        self.multi_precision, self.aggregate_num = multi_precision, aggregate_num
        self._settle_rate(learning_rate, lr_scheduler)
        self._take_names(param_idx2name, sym, param_dict)

    def _settle_rate(self, learning_rate, lr_scheduler):
        self.lr_scheduler = lr_scheduler
        base = getattr(lr_scheduler, "base_lr", 0.01)
        if lr_scheduler is not None and learning_rate is not None and learning_rate != base:
            what = (f"learning_rate={learning_rate} is not used, the schedule starts from its own base rate {base}"
                    if self._own_schedule else
                    f"learning_rate={learning_rate} replaces the base rate {base} of the schedule")
            warnings.warn(f"{type(self).__name__}: {what}", UserWarning, stacklevel=4)  # the line that creates it
        self._settle(learning_rate)
        if hasattr(lr_scheduler, "base_lr") and not self._own_schedule:
            lr_scheduler.base_lr = self.lr

    def _take_names(self, param_idx2name, sym, param_dict):
        param_idx2name = {} if param_idx2name is None else param_idx2name
        if not isinstance(param_idx2name, dict):
            raise AssertionError(f"{type(self).__name__}: param_idx2name must be a dict from index to name, "
                                 f"got {type(param_idx2name).__name__}")
        _core.Optimizer._set_current_context(self, 0)
        self.idx2name = param_idx2name
        self.sym_info = (sym.attr_dict(), sym.list_arguments()) if sym is not None else ()
        self.param_dict = param_dict or {}
        self.set_lr_mult({})
        self.set_wd_mult({})
        self._choose()

    def _choose(self):
        """The library calls this object back if a method is overridden that it would run itself."""
        if not _runs_in_c(type(self)):
            self._call_back()

    # ---- registry

    @staticmethod
    def register(klass):
        """Registers an optimizer class under its name in lower case."""
        if not isinstance(klass, type):
            raise AssertionError(f"optimizer.register: expected a class, got {klass!r}")
        name = klass.__name__.lower()
        if name in Optimizer.opt_registry:
            old = Optimizer.opt_registry[name]
            warnings.warn(f"optimizer.register: {klass.__module__}.{klass.__name__} replaces {old.__module__}.{name}")
        Optimizer.opt_registry[name] = klass
        return klass

    @staticmethod
    def create_optimizer(name, **kwargs):
        """An optimizer by its name, in any case."""
        found = Optimizer.opt_registry.get(name.lower())
        if found is None:
            advice = registry._advice(name.lower(), Optimizer.opt_registry)
            raise ValueError(f"there is no optimizer named '{name}'{advice}")
        return found(**kwargs)

    # ---- rates and counts

    lr_mult = _table("lr_mult", "multipliers of the learning rate by name or index of a weight")
    wd_mult = _table("wd_mult", "multipliers of the weight decay by name or index of a weight")
    idx2name = _table("idx2name", "names of weights by index")
    param_dict = _table("param_dict", "parameters by index; their multipliers take precedence")

    @property
    def lr(self):
        """The learning rate, before the schedule: the object that was set, if it has the value of the rate."""
        rate, given = super().lr, self.__dict__.get("_given_lr")
        return given if self._lr_is_asked() or (given is not None and _number(given) == rate) else rate

    @lr.setter
    def lr(self, value):
        asked = self._lr_is_asked()
        _core.Optimizer.lr.__set__(self, _number(value))
        self.__dict__["_given_lr"] = None if type(value) is float else value
        if asked or self._lr_is_asked():
            self.lr_scheduler = self.lr_scheduler

    def _lr_is_asked(self):
        """Whether lr is an object that is no number, but behaves as one: its value may change, so every update asks."""
        return not isinstance(self.__dict__.get("_given_lr"), (Number, type(None)))

    def set_learning_rate(self, lr):
        """Sets the rate; an error if a schedule determines it."""
        if self._lr_is_asked() and self.lr_scheduler is None:
            self.lr = lr
        else:
            super().set_learning_rate(lr)

    @property
    def lr_scheduler(self):
        """The schedule of the learning rate, or None."""
        return self.__dict__.get("_lr_scheduler")

    @lr_scheduler.setter
    def lr_scheduler(self, scheduler):
        asked = scheduler is None and self._lr_is_asked()
        self._set_scheduler((lambda num_update: _number(self.lr)) if asked else scheduler)
        self.__dict__["_lr_scheduler"] = scheduler

    @property
    def sym_info(self):
        """(attributes, arguments) of the symbol whose variables define multipliers, or ()."""
        return self.__dict__.get("_sym_info", ())

    @sym_info.setter
    def sym_info(self, info):
        self.__dict__["_sym_info"] = info
        attributes, names = info or ({}, ())
        for key, name in (("__lr_mult__", "noted_lr"), ("__wd_mult__", "noted_wd")):
            table = Table(self, name)
            table.clear()
            table.update({n: float(attributes[n][key]) for n in names if key in attributes.get(n, {})})

    @property
    def _index_update_count(self):
        """Update counts of the weights on the current device."""
        return Table(self, "counts", self._device)

    @_index_update_count.setter
    def _index_update_count(self, counts):
        table, counts = self._index_update_count, dict(counts)
        table.clear()
        table.update(counts)

    @property
    def _all_index_update_counts(self):
        """The same by number of the device."""
        return {device: Table(self, "counts", device) for device in self._devices}

    @_all_index_update_counts.setter
    def _all_index_update_counts(self, counts):
        for device, numbers in counts.items():
            table, numbers = Table(self, "counts", device), dict(numbers)
            table.clear()
            table.update(numbers)

    def set_lr_scale(self, args_lrscale):
        """An old name: use set_lr_mult."""
        raise DeprecationWarning("set_lr_scale: use set_lr_mult")

    def set_lr_mult(self, args_lr_mult):
        """Multipliers of the learning rate by name or index of a weight."""
        self._reset_lr_mult()
        self.lr_mult.update(args_lr_mult)

    def set_wd_mult(self, args_wd_mult):
        """Multipliers of the weight decay by name or index; named parameters except weights and gammas default to 0."""
        self._reset_wd_mult()
        self.wd_mult.update(args_wd_mult)

    def _get_lrs(self, indices):
        return self._rates(indices, self.learning_rate)

    def _get_wds(self, indices):
        return self._decays(indices)

    def _get_lr(self, index):
        return self._get_lrs([index])[0]

    def _get_wd(self, index):
        return self._get_wds([index])[0]

    # ---- states and steps

    def create_state(self, index, weight):
        """The state of a weight between its updates."""

    def create_state_multi_precision(self, index, weight):
        """The state of a weight, with a float32 master if multi_precision is on and the weight has 16 bits."""
        master = self._new_master(weight)
        if master is None:
            return self.create_state(index, weight)
        return self._with_master(master, self.create_state(index, master))

    def update(self, index, weight, grad, state):
        """Changes a weight in place by its gradient and state."""
        raise NotImplementedError(f"{type(self).__name__} does not override update")

    def update_multi_precision(self, index, weight, grad, state):
        """update() on the float32 master, if there is one."""
        pair = self._without_master(weight, state)
        if pair is None:
            return self.update(index, weight, grad, state)
        master, inner = pair
        self._update_master(weight, grad, master, lambda w, g: self.update(index, w, g, inner))

    # ---- pickles: the attributes that MXNet's optimizers have

    def __getstate__(self):
        state = {name: value for name, value in self.__dict__.items() if name not in ("_lr_scheduler", "_sym_info", "_given_lr")}
        state.update({name: getattr(self, name) for name in _NUMBERS + ("lr_scheduler", "sym_info")})
        state.update({name: dict(getattr(self, name)) for name in _TABLES})
        state["_all_index_update_counts"] = {d: dict(counts) for d, counts in self._all_index_update_counts.items()}
        state["_index_update_count"] = state["_all_index_update_counts"].get(self._device, {})
        return state

    def __setstate__(self, state):
        self._start_own(type(self).__name__)
        self._take_attributes(state)

    def _take_attributes(self, state):
        _core.Optimizer._set_current_context(self, 0)
        for name in sorted(state, key=lambda name: name in _TABLES):  # attributes that reset multipliers must come first
            setattr(self, name, state[name])
        self._choose()


class _RowOptimizer(Optimizer):
    """Base of the library's optimizers: hyperparameters and steps are in C."""

    def _begin(self, options, rest):
        names = {name: rest.pop(name, None) for name in ("param_idx2name", "sym", "param_dict")}
        scheduler, known = rest.pop("lr_scheduler", None), _OPTIONS[type(self)._row]
        for name in rest:
            if name not in known:
                registry.unknown_option(type(self)._row, name, known + list(names))
        options = {**options, **rest}
        rate = options.pop("learning_rate", None)
        try:
            self._start(_core.OPTIMIZER, type(self)._row, **options)
        except AttributeValueError as error:
            raise _OptionError(str(error)) from None
        self._settle_rate(rate, scheduler)
        self._take_names(**names)

    def create_state(self, index, weight):
        return self._make_states(weight)

    def update(self, index, weight, grad, state):
        self._update_impl(index, weight, grad, state)

    def update_multi_precision(self, index, weight, grad, state):
        if type(self)._update_impl is not _RowOptimizer._update_impl:
            master = self._without_master(weight, state) is not None if not isinstance(index, (list, tuple)) else (
                self.multi_precision and weight[0].dtype.itemsize == 2)
            self._update_impl(index, weight, grad, state, multi_precision=master)
        elif isinstance(index, (list, tuple)):
            for one in zip(index, weight, grad, state):
                self.update_multi_precision(*one)
        else:
            super().update_multi_precision(index, weight, grad, state)

    def _update_impl(self, indices, weights, grads, states, multi_precision=False):
        """The update of one weight or of a list of them; multi_precision: the states have float32 masters."""
        if isinstance(indices, (list, tuple)):
            for one in zip(indices, weights, grads, states):
                _RowOptimizer._update_impl(self, *one, multi_precision=multi_precision)
        elif multi_precision:
            master, inner = self._without_master(weights, states)
            self._update_master(weights, grads, master,
                                lambda w, g: _RowOptimizer._update_impl(self, indices, w, g, inner))
        else:
            self._step_of_one(indices, weights, grads, states)

    def _step_of_one(self, index, weight, grad, state):
        early = (self._get_lr(index), self.learning_rate) if self._early_rate else None
        self._update_count(index)
        rate, base = early or (self._get_lr(index), self.learning_rate)
        self._apply(index, weight, grad, state, rate, self._get_wd(index), base)

    def __getstate__(self):
        memory = {self._memory_name: self._memory[0]} if self._memory_name else {}
        return {**self._options(), **super().__getstate__(), **memory, "_memory": self._memory}

    def __setstate__(self, state):
        state = dict(state)
        if "_now" in state:  # the first format of this package
            options, numbers, memory = state.pop("_now")
            state = {**options, **state, **numbers, "_memory": memory, "lr_scheduler": state.pop("_lr_scheduler", None)}
        known = _OPTIONS[type(self)._row]
        own = {name: state.pop(name) for name in known if name in state and name not in _NUMBERS + ("lr_scheduler",)}
        own.pop("learning_rate", None)
        self._start(_core.OPTIMIZER, type(self)._row, **{n: v for n, v in own.items() if v is not None})
        memory = state.pop(self._memory_name, self._memory[0])
        state.setdefault("_memory", (memory, self._memory[1]))
        self._take_attributes(state)


def _runs_in_c(kind):
    """Whether C alone can run objects of a class: the library describes it, and no relevant method is overridden."""
    return issubclass(kind, _RowOptimizer) and all(
        getattr(kind, name) is getattr(_RowOptimizer, name) for name in _HOOKS)


register = Optimizer.register
create = Optimizer.create_optimizer

_OPTIONS = {row[0]: [option[0] for option in row[3]] for row in _core.class_rows(_core.OPTIMIZER)}
for _cls, _aliases in registry.row_classes(_core.OPTIMIZER, _RowOptimizer, _core.Optimizer, __name__):
    globals()[_cls.__name__] = register(_cls)
    for _alias in _aliases:
        Optimizer.opt_registry[_alias] = _cls


class ccSGD(globals()["SGD"]):  # noqa: N801
    """An old name of SGD."""


Optimizer.opt_registry["ccsgd"] = ccSGD


class Updater(_core.Updater):
    """Applies an optimizer to weights by index and stores their states: updater(index, grad, weight)."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.aggregate_updates = optimizer.aggregate_num > 0

    states = _table("states", "states of weights by index")
    states_synced = _table("states_synced", "whether the state of a weight is on the weight's device")

    def sync_state_context(self, state, context):
        """The state with all its arrays on a context."""
        if isinstance(state, NDArray):
            return state.as_in_context(context)
        if isinstance(state, (list, tuple)):
            return type(state)(self.sync_state_context(part, context) for part in state)
        return state

    def set_states(self, states):
        """Restores the states from get_states()."""
        states = load_states(states)
        if isinstance(states, tuple) and len(states) == 2:
            states, self.optimizer = states
        self.states = states

    def get_states(self, dump_optimizer=False):
        """The states as bytes, optionally with the optimizer."""
        states = dict(self.states)
        return pickle.dumps((states, self.optimizer) if dump_optimizer else states)


    def _core_state(self):
        return {"optimizer": self.optimizer, "states": dict(self.states)}

    def _set_core_state(self, state):
        self.optimizer = state["optimizer"]
        self.states = state["states"]


_copying.supports(Updater)


def get_updater(optimizer):
    """An updater for key-value stores: updater(index, grad, weight)."""
    return Updater(optimizer)


__all__ = [cls.__name__ for cls in Optimizer.opt_registry.values() if cls.__name__ != "GroupAdaGrad"]
__all__ += ["Optimizer", "Updater", "ccSGD", "create", "get_updater", "register"]
