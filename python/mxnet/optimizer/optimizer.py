"""Optimizers: the base class that users derive from, the library's own, and the updater that keeps states by index."""
import pickle
import warnings

from .. import _core, registry
from .._core import NDArray
from ._states import load_states

_WHOLE = ("learning_rate", "wd", "rescale_grad", "clip_gradient", "lr_scheduler", "begin_num_update", "multi_precision",
          "aggregate_num")  # options that all optimizers have


class Optimizer:
    """Base of optimizers.

    A subclass overrides create_state(index, weight), which gives what is remembered of a weight (None, an array or a
    tuple), and update(index, weight, grad, state), which changes the weight in place.  Inside update,
    self._update_count(index) counts, self._get_lr(index) and self._get_wd(index) give the rates of that weight.
    """

    opt_registry = {}

    def __init__(self, rescale_grad=1.0, param_idx2name=None, wd=0.0, clip_gradient=None, learning_rate=None,
                 lr_scheduler=None, sym=None, begin_num_update=0, multi_precision=False, param_dict=None,
                 aggregate_num=0):
        self.rescale_grad = rescale_grad
        self.lr_scheduler = lr_scheduler
        if lr_scheduler is None:
            self.lr = 0.01 if learning_rate is None else learning_rate
        else:
            self._settle_rate(learning_rate)
        self.wd, self.clip_gradient = wd, clip_gradient
        self.begin_num_update = self.num_update = begin_num_update
        self._index_update_count = {}
        self._all_index_update_counts = {0: self._index_update_count}
        self.multi_precision, self.aggregate_num = multi_precision, aggregate_num
        param_idx2name = {} if param_idx2name is None else param_idx2name
        if not isinstance(param_idx2name, dict):
            raise AssertionError(f"{type(self).__name__}: param_idx2name must be a dict from index to name, "
                                 f"got {type(param_idx2name).__name__}")
        self.idx2name = dict(param_idx2name)
        self.sym_info = (sym.attr_dict(), sym.list_arguments()) if sym is not None else ()
        self.param_dict = param_dict if param_dict else {}
        self.set_lr_mult({})
        self.set_wd_mult({})

    def _settle_rate(self, learning_rate):
        base = getattr(self.lr_scheduler, "base_lr", 0.01)
        if learning_rate is not None and learning_rate != base:
            depth = 5 if isinstance(self, _RowOptimizer) else 4  # the line that makes the optimizer
            warnings.warn(f"{type(self).__name__}: learning_rate={learning_rate} replaces the base rate {base} of the "
                          "schedule", UserWarning, stacklevel=depth)
        self.lr = base if learning_rate is None else learning_rate
        if hasattr(self.lr_scheduler, "base_lr"):
            self.lr_scheduler.base_lr = self.lr

    # ---- registry

    @staticmethod
    def register(klass):
        """Registers an optimizer class, so that it is known by its name in lower case."""
        if not isinstance(klass, type):
            raise AssertionError(f"optimizer.register: a class is wanted, got {klass!r}")
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

    @property
    def learning_rate(self):
        """The rate now: the schedule's, or lr."""
        return self.lr if self.lr_scheduler is None else self.lr_scheduler(self.num_update)

    def set_learning_rate(self, lr):
        """Sets the rate; not if a schedule gives it."""
        if self.lr_scheduler is not None:
            raise UserWarning(f"{type(self).__name__}: the learning rate comes from a schedule; set its base_lr")
        self.lr = lr

    def set_lr_scale(self, args_lrscale):
        """An old name: use set_lr_mult."""
        raise DeprecationWarning("set_lr_scale: use set_lr_mult")

    def _multipliers_of_symbol(self, key):
        attributes, names = self.sym_info or ({}, ())
        return {n: float(attributes[n][key]) for n in names if key in attributes.get(n, {})}

    def set_lr_mult(self, args_lr_mult):
        """Multipliers of the learning rate by name or index of a weight."""
        self.lr_mult = {**self._multipliers_of_symbol("__lr_mult__"), **args_lr_mult}

    def set_wd_mult(self, args_wd_mult):
        """Multipliers of the weight decay by name or index; what is named, but no weight or gamma, does not decay."""
        plain = {n: 0.0 for n in self.idx2name.values() if not n.endswith(("_weight", "_gamma"))}
        self.wd_mult = {**plain, **self._multipliers_of_symbol("__wd_mult__"), **args_wd_mult}

    def _set_current_context(self, device_id):
        self._index_update_count = self._all_index_update_counts.setdefault(device_id, {})

    def _update_count(self, index):
        for i in index if isinstance(index, (list, tuple)) else [index]:
            count = self._index_update_count.get(i, self.begin_num_update) + 1
            self._index_update_count[i] = count
            self.num_update = max(count, self.num_update)

    def _multiplier(self, index, table, attribute):
        if index in self.param_dict:
            return getattr(self.param_dict[index], attribute)
        return table.get(index, table.get(self.idx2name.get(index), 1.0))

    def _get_lrs(self, indices):
        rate = self.learning_rate
        return [rate * self._multiplier(i, self.lr_mult, "lr_mult") for i in indices]

    def _get_wds(self, indices):
        return [self.wd * self._multiplier(i, self.wd_mult, "wd_mult") for i in indices]

    def _get_lr(self, index):
        return self._get_lrs([index])[0]

    def _get_wd(self, index):
        return self._get_wds([index])[0]

    # ---- states and steps

    def create_state(self, index, weight):
        """What is remembered of a weight between its updates."""

    def create_state_multi_precision(self, index, weight):
        """The state of a weight, with a float32 master if multi_precision is on and the weight has 16 bits."""
        if self.multi_precision and _is_half(weight):
            master = weight.astype("float32")
            return (master, self.create_state(index, master))
        if _is_half(weight):
            warnings.warn(f"{type(self).__name__}: updates in float16 lose accuracy; multi_precision=True keeps a "
                          "float32 master")
        return self.create_state(index, weight)

    def update(self, index, weight, grad, state):
        """Changes a weight in place by its gradient and state."""
        raise NotImplementedError(f"{type(self).__name__} does not override update")

    def update_multi_precision(self, index, weight, grad, state):
        """update() on the float32 master, where there is one."""
        if self.multi_precision and _is_half(weight):
            master, inner = state
            self.update(index, master, grad.astype("float32"), inner)
            weight[:] = master.astype(weight.dtype)
        else:
            self.update(index, weight, grad, state)

    def __getstate__(self):
        state = dict(self.__dict__)
        state.pop("param_dict", None)  # parameters belong to their network
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.param_dict = {}


def _is_half(weight):
    return _core.dtype_name(weight.dtype) in ("float16", "bfloat16")


class _RowOptimizer(Optimizer):
    """What the library's optimizers have in common: numbers and steps are in C."""

    _master_last = False  # where the float32 master stands in a state
    _single_in_tuple = False
    _aggregate = 0

    def _begin(self, options, rest):
        own = {name: value for name, value in options.items() if name != "learning_rate"}
        for name in rest:
            if name not in _COMMON:
                registry.unknown_option(type(self)._row, name, list(options) + [k for k in _COMMON if k not in options])
        self._start(_core.OPTIMIZER, type(self)._row, **own)
        rest.setdefault("aggregate_num", self._aggregate)
        Optimizer.__init__(self, learning_rate=options.get("learning_rate", rest.pop("learning_rate", None)), **rest)
        if type(self)._row == "GroupAdaGrad" and self.wd:
            raise AssertionError("GroupAdaGrad has no weight decay")

    @property
    def lr_scheduler(self):
        """The schedule of the learning rate, or None."""
        return self.__dict__.get("_lr_scheduler")

    @lr_scheduler.setter
    def lr_scheduler(self, scheduler):
        self._set_scheduler(scheduler)
        self.__dict__["_lr_scheduler"] = scheduler

    def create_state(self, index, weight):
        return self._shaped(self._make_states(weight))

    def _shaped(self, states):
        if len(states) == 1 and not self._single_in_tuple:
            return states[0]
        return tuple(states) if states else None

    def _layout(self, arrays, weight):
        """A trainer's list of arrays, a float32 master last, as create_state_multi_precision gives them."""
        if not (self.multi_precision and _is_half(weight)):
            return self._shaped(arrays)
        pair = (arrays[-1], self._shaped(arrays[:-1]))
        return pair[::-1] if self._master_last else pair

    def _unlayout(self, state, weight):
        """The opposite of _layout."""
        if not (self.multi_precision and _is_half(weight)):
            return _flat(state, weight)
        master, inner = state[::-1] if self._master_last else state
        return _flat(inner, master) + [master]

    def create_state_multi_precision(self, index, weight):
        state = super().create_state_multi_precision(index, weight)
        return state[::-1] if self._master_last and self.multi_precision and _is_half(weight) else state

    def update(self, index, weight, grad, state):
        if isinstance(index, (list, tuple)):
            for one in zip(index, weight, grad, state):
                self.update(*one)
            return
        self._update_count(index)
        self._apply(weight, grad, _flat(state, weight), self._get_lr(index), self._get_wd(index),
                    self._index_update_count[index], self.learning_rate, self._name_of(index))

    def update_multi_precision(self, index, weight, grad, state):
        if isinstance(index, (list, tuple)):
            for one in zip(index, weight, grad, state):
                self.update_multi_precision(*one)
            return
        swap = self._master_last and self.multi_precision and _is_half(weight)
        super().update_multi_precision(index, weight, grad, state[::-1] if swap else state)

    def _name_of(self, index):
        parameter = self.param_dict.get(index)
        return parameter.name if parameter is not None else str(self.idx2name.get(index, ""))

    def __getstate__(self):
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        return {**super().__getstate__(), "_now": (self._options(), numbers, self._memory)}

    def __setstate__(self, state):
        if "_now" not in state:
            return self._from_plain(state)
        options, numbers, memory = state.pop("_now")
        scheduler = state.pop("_lr_scheduler", None)
        self._start(_core.OPTIMIZER, type(self)._row, **{k: v for k, v in options.items() if k not in _WHOLE})
        super().__setstate__(state)
        self.lr_scheduler = scheduler
        for name, value in numbers.items():
            setattr(self, name, value)
        self._memory = memory

    def _from_plain(self, state):
        """From the attributes of an optimizer that MXNet pickled."""
        names = {row[0]: [option[0] for option in row[3]] for row in _core.class_rows(_core.OPTIMIZER)}[type(self)._row]
        self._start(_core.OPTIMIZER, type(self)._row, **{k: v for k, v in state.items()
                                                          if k in names and k not in _WHOLE and v is not None})
        self.param_dict = {}
        for name, value in state.items():
            setattr(self, name, value)


_NUMBERS = ("lr", "wd", "rescale_grad", "clip_gradient", "begin_num_update", "num_update", "multi_precision",
            "aggregate_num")
_COMMON = ("rescale_grad", "param_idx2name", "wd", "clip_gradient", "learning_rate", "lr_scheduler", "sym",
           "begin_num_update", "multi_precision", "param_dict", "aggregate_num")


def _flat(state, weight):
    """A state as the list of arrays that the library wants."""
    if state is None:
        return []
    if isinstance(state, NDArray):
        return [state]
    return [weight.zeros_like() if part is None else part for part in state]


register = Optimizer.register
create = Optimizer.create_optimizer

_RATED = {"Signum": ["momentum", "wd_lh"], "Adam": ["beta1", "beta2", "epsilon", "lazy_update"],
          "Adamax": ["beta1", "beta2"], "Nadam": ["beta1", "beta2", "epsilon", "schedule_decay"],
          "LAMB": ["beta1", "beta2", "epsilon", "lower_bound", "upper_bound", "bias_correction"],
          "RMSProp": ["gamma1", "gamma2", "epsilon", "centered", "clip_weights"]}
_ORDERS = {name: ["learning_rate"] + rest for name, rest in _RATED.items()}
_ORDERS["Ftrl"] = ["lamda1", "learning_rate", "beta"]

for _cls, _aliases in registry.row_classes(_core.OPTIMIZER, _RowOptimizer, _core.OptimizerRow, __name__, orders=_ORDERS,
                                           hidden=_WHOLE):
    globals()[_cls.__name__] = register(_cls)
    for _alias in _aliases:
        Optimizer.opt_registry[_alias] = _cls

for _name in ("SGD", "NAG", "LARS"):
    globals()[_name]._master_last = True
for _name in ("SGD", "LARS"):
    globals()[_name]._aggregate = 4
globals()["RMSProp"]._single_in_tuple = True


class ccSGD(globals()["SGD"]):  # noqa: N801
    """An old name of SGD."""


Optimizer.opt_registry["ccsgd"] = ccSGD


class Updater:
    """Applies an optimizer to weights by index and keeps their states: updater(index, grad, weight)."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.states, self.states_synced = {}, {}
        self.aggregate_updates = getattr(optimizer, "aggregate_num", 0) > 0

    def __call__(self, index, grad, weight):
        if not isinstance(index, (list, tuple)):
            index, grad, weight = [index], [grad], [weight]
        for i, g, w in zip(index, grad, weight):
            self.optimizer._set_current_context(w.context.device_id)
            if i not in self.states:
                self.states[i] = self.optimizer.create_state_multi_precision(i, w)
                self.states_synced[i] = True
            elif not self.states_synced[i]:
                self.states[i] = self.sync_state_context(self.states[i], w.context)
                self.states_synced[i] = True
            self.optimizer.update_multi_precision(i, w, g, self.states[i])

    def sync_state_context(self, state, context):
        """The state with all its arrays on a context."""
        if isinstance(state, NDArray):
            return state.as_in_context(context)
        if isinstance(state, (list, tuple)):
            return type(state)(self.sync_state_context(part, context) for part in state)
        return state

    def set_states(self, states):
        """Takes over what get_states gave."""
        states = load_states(states)
        if isinstance(states, tuple) and len(states) == 2:
            self.states, self.optimizer = states
        else:
            self.states = states
        self.states_synced = dict.fromkeys(self.states, False)

    def get_states(self, dump_optimizer=False):
        """The states as bytes, with the optimizer if wanted."""
        return pickle.dumps((self.states, self.optimizer) if dump_optimizer else self.states)


def get_updater(optimizer):
    """An updater, as key-value stores take it: updater(index, grad, weight)."""
    return Updater(optimizer)


__all__ = [cls.__name__ for cls in Optimizer.opt_registry.values() if cls.__name__ != "GroupAdaGrad"]
__all__ += ["Optimizer", "Updater", "ccSGD", "create", "get_updater", "register"]
