"""The trainer: applies an optimizer to the parameters of a network."""
import os

from .. import _copying
from .. import _core
from ..error import StateError
from ..optimizer import Updater
from .parameter import Parameter, ParameterDict

__all__ = ["Trainer"]


class StaleGradientError(StateError, UserWarning):
    """A gradient that no backward computed since the last step."""


# What a subclass may override: a step calls each of them.  _STATE: what decides how the next step goes.
_PROCESSES = ("dist", "p3", "horovod")  # kinds of stores that sum over processes
_HOOKS = ("_check_and_rescale_grad", "_init_kvstore", "_init_params", "_allreduce_grads", "_update")
_STATE = ("_kvstore", "_update_on_kvstore", "_kv_initialized", "_params_to_init")


class Trainer(_core.Trainer):
    """Applies an optimizer to parameters.

    params: a ParameterDict or dict (taken in the order of names), or a list.  optimizer: a name with optimizer_params,
    or an Optimizer.  kvstore: the store through which contexts exchange gradients, 'local', 'device' or a KVStore; with
    None each context is updated by itself.  One context needs no store.  update_on_kvstore=False: gradients are summed
    and the trainer updates, which allows allreduce_grads() and update().  'dist_sync': gradients are summed over all
    processes that were started together (mpirun, gluon run) while backward goes on; step() gets the size of all their
    batches together.
    compression_params={'type': '2bit', 'threshold': 0.5} compresses gradients to two bits per element for these sums.
    shard_states=True: each of several processes has the optimizer's states of a part of the parameters; all of them call
    save_states(), and rank 0 writes the file.
    """

    def __init__(self, params, optimizer, optimizer_params=None, kvstore="device", compression_params=None,
                 update_on_kvstore=None, shard_states=False):
        if shard_states and update_on_kvstore:
            raise ValueError("Trainer: shard_states=True needs updates by the trainer, not update_on_kvstore=True")
        update_on_kvstore = False if shard_states else update_on_kvstore
        self._shard_states = bool(shard_states)
        self._params = _listed(params)
        self._param2idx = {p.name: i for i, p in enumerate(self._params)}
        self._contains_sparse_weight = any(p._stype != "default" for p in self._params)
        self._contains_sparse_grad = any(p._grad_stype != "default" for p in self._params)
        self._compression_params = compression_params
        self._kvstore_params = {"kvstore": _checked_store(kvstore), "update_on_kvstore": update_on_kvstore}
        if compression_params:  # a wrong option is reported now, not at the first step
            kind = kvstore if isinstance(kvstore, str) else getattr(kvstore, "type", None) or "device"
            kind = kind if kind.lower().startswith(_PROCESSES) else "device"
            _library_store()(kind).set_gradient_compression(compression_params)
        self._contexts = self._check_contexts()
        self._start_with(self._made_optimizer(optimizer, optimizer_params))
        self._reset_kvstore()
        for p in self._params:
            p._set_trainer(self)

    def __setattr__(self, name, value):
        if name in _HOOKS or name in _STATE:
            self._direct = False
        super().__setattr__(name, value)

    def _check_contexts(self):
        contexts = None
        for p in self._params:
            own = p.list_ctx()
            if contexts is not None and contexts != own:
                raise AssertionError(f"Trainer: all parameters must be on the same contexts, but {p.name} is on {own} "
                                     f"and those before it on {contexts}")
            contexts = own
        return contexts

    def _made_optimizer(self, optimizer, options):
        from .. import optimizer as opt
        if isinstance(optimizer, opt.Optimizer):
            if options:
                raise AssertionError("Trainer: optimizer_params are for an optimizer's name, not for an Optimizer")
            return optimizer
        if not isinstance(optimizer, str):
            raise TypeError(f"Trainer: optimizer must be a name or an Optimizer, got {type(optimizer).__name__}")
        return opt.create(optimizer, **(options or {}))

    def _start_with(self, optimizer):
        optimizer.param_dict = dict(enumerate(self._params))
        self._optimizer = optimizer
        self._begin(self._params, optimizer, StaleGradientError)
        scaler = self.__dict__.get("_amp_loss_scaler")
        if scaler is not None:
            scaler._attach(self)

    # ---- copies and pickles: a store is created anew

    def __getstate__(self):
        state = {key: value for key, value in self.__dict__.items() if key not in _STATE + ("_direct",)}
        store = self._kvstore_params["kvstore"]
        if store is not None and type(store) is _library_store():
            state["_kvstore_params"] = {**self._kvstore_params, "kvstore": None, "created": store.type}
        return state

    def _core_state(self):
        updater = getattr(self._kvstore, "_updater", None) if self._update_on_kvstore else None
        on_store = None if updater is None or self._updates_in_library() else dict(updater.states)
        states = {i: ([self._state(i, copy) for copy in range(len(self._contexts))], count)
                  for i, count in self._updates.items()}
        return {"states": states, "on_store": on_store, "scale": self._scale}

    def _set_core_state(self, state):
        self._restored_state = state

    def _restored(self):
        state = self.__dict__.pop("_restored_state")
        if "created" in self._kvstore_params:
            from ..kvstore import create
            self._kvstore_params["kvstore"] = create(self._kvstore_params.pop("created"))
        self._start_with(self._optimizer)
        self._scale = state["scale"]
        self._reset_kvstore()
        for parameter in self._params:
            parameter._trained_by = None
            parameter._set_trainer(self)
        for i, (values, count) in state["states"].items():
            for copy, value in enumerate(values[:len(self._params[i].list_ctx())]):
                if value is not None or copy == 0:
                    self._set_state(i, value, count, copy)
        if state["on_store"]:
            self._start()
            self._kvstore._updater.states = state["on_store"]

    @property
    def optimizer(self):
        """The optimizer."""
        return self._optimizer

    @property
    def learning_rate(self):
        """The current learning rate."""
        return self._optimizer.learning_rate

    def set_learning_rate(self, lr):
        """Sets the learning rate; an error if a schedule determines it."""
        self._optimizer.set_learning_rate(lr)

    # ---- steps

    def _step(self, batch_size, ignore_stale_grad):
        """A step in full: the first one, and every one whose parts are overridden or whose store is not the library's."""
        self._check_and_rescale_grad(self._scale / batch_size)
        self._start()
        if _overridden(self) or not self._in_library():
            self._allreduce_grads()
            self._update(ignore_stale_grad)
            return
        self._run(ignore_stale_grad)
        self._direct = not self._params_to_init

    def allreduce_grads(self):
        """Sums the gradients over contexts, so that they can be inspected or changed before update()."""
        self._start()
        self._refuse_on_store("allreduce_grads()")
        self._allreduce_grads()

    def update(self, batch_size, ignore_stale_grad=False):
        """Updates the parameters; call allreduce_grads() before it."""
        self._start()
        self._refuse_on_store("update()")
        self._check_and_rescale_grad(self._scale / batch_size)
        self._update(ignore_stale_grad)

    def _refuse_on_store(self, what):
        if self._kvstore is not None and self._update_on_kvstore:
            raise AssertionError(f"Trainer: {what} is not possible while the parameters are updated on the store; create "
                                 "the Trainer with update_on_kvstore=False")

    def _start(self):
        if not self._kv_initialized:
            self._init_kvstore()
        if self._params_to_init:
            self._init_params()

    def _start_fused(self):
        """Before fused steps: processes exchange gradients, and the plan updates unless the store was asked to."""
        kind = self._kvstore_params["kvstore"]
        kind = getattr(kind, "type", kind)
        if not self._kv_initialized and isinstance(kind, str) and kind.startswith(_PROCESSES):
            if self._kvstore_params["update_on_kvstore"] is None and not self._contains_sparse_weight:
                self._kvstore_params["update_on_kvstore"] = False
            self._start()

    def _check_and_rescale_grad(self, scale):
        """The factor of gradients in the next update."""
        self._optimizer.rescale_grad = scale

    def _allreduce_grads(self):
        """Everything that passes through the store: sums of gradients, or the updates if they are made there."""
        if self._kvstore is None:
            return
        if self._in_library():
            self._exchange()
            return
        for i, p in enumerate(self._params):
            if p.grad_req != "null":
                out = p.list_data() if self._update_on_kvstore else None
                self._kvstore.pushpull(self._param2idx[p.name], p.list_grad(), out=out, priority=-i)

    def _update(self, ignore_stale_grad=False):
        """Checks that gradients are new, then makes the updates that the store has not made."""
        self._check(ignore_stale_grad)
        if self._kvstore is None or not self._update_on_kvstore:
            self._apply(ignore_stale_grad)

    # ---- the store

    def _init_kvstore(self):
        """Creates the store, if contexts have something to exchange, and decides where updates are made."""
        store, on_store = self._chosen_store()
        if store is not None:
            if self._compression_params:
                store.set_gradient_compression(self._compression_params)
            if on_store:
                store.set_optimizer(self._optimizer)
        self._distributed = store is not None and store.type.startswith(_PROCESSES)
        self._kvstore, self._update_on_kvstore = store, None if store is None else on_store
        own = type(store) is _library_store()
        self._set_store(store if own else None, 2 if store is None else 0 if on_store and own else 1)
        if self._shard_states:
            self._set_sharding(True)
        self._kv_initialized = True

    def _chosen_store(self):
        given, wanted = self._kvstore_params["kvstore"], self._kvstore_params["update_on_kvstore"]
        if self._contains_sparse_weight:
            if wanted is False:
                raise ValueError("Trainer: row_sparse parameters are updated on the store; update_on_kvstore=False is not "
                                 "possible")
            return _store(given or "device", True), True
        store = _store(given, len(self._contexts) > 1)
        if store is None:
            if wanted:
                raise ValueError("Trainer: update_on_kvstore=True needs a store; there is none for "
                                 f"kvstore={given!r} and {len(self._contexts)} context(s)")
            return None, None
        able = _able(store)
        if wanted and not able:
            raise ValueError(f"Trainer: {type(store).__name__} runs no optimizer; set update_on_kvstore=False")
        default = able and not self._contains_sparse_grad and _default_place()
        return store, default if wanted is None else bool(wanted)

    def _init_params(self):
        """Gives the store the values of parameters that have some, and all contexts those of the first."""
        if not self._kv_initialized:
            raise AssertionError("Trainer: _init_params needs a store; call _init_kvstore first")
        if self._distributed and self._in_library():
            self._prepare()
            self._params_to_init = [p for p in self._params_to_init if p._deferred_init]
            return
        left = []
        for p in self._params_to_init if self._kvstore is not None else []:
            i = self._param2idx[p.name]
            if p._deferred_init:
                left.append(p)
            elif self._in_library():
                self._spread(i)
            else:
                self._kvstore.broadcast(i, p.list_data()[0], p.list_data())
        self._params_to_init = left

    def _reset_kvstore(self):
        """Forgets the store: the next step creates a new one and starts from the parameters' values."""
        if self._kvstore is not None:
            self._forget_states()
        self._kvstore, self._update_on_kvstore, self._distributed = None, None, None
        self._kv_initialized, self._params_to_init = False, list(self._params)

    _kvstore = None

    def _in_library(self):
        return self._kvstore is None or type(self._kvstore) is _library_store()

    def _value_was_set(self, parameter):
        """set_data() of a parameter: a store that updates starts anew."""
        if self._kv_initialized and self._update_on_kvstore and not any(p is parameter for p in self._params_to_init):
            self._reset_kvstore()

    def _row_sparse_pull(self, parameter, out, row_id, full_idx=False):
        """Copies rows of a parameter from the store; full_idx: row_id names all of them."""
        self._start()
        i = self._param2idx[parameter.name]
        if full_idx:
            self._kvstore.pull(i, out=out, priority=-i, ignore_sparse=False)
        else:
            self._kvstore.row_sparse_pull(i, out=out, row_ids=row_id, priority=-i)

    # ---- states

    @property
    def _updaters(self):
        """States like those of Updaters, one per context, for programs that read trainer._updaters[0].states."""
        apart = self._kv_initialized and self._kvstore is None
        return [_SlotUpdater(self, k if apart else 0) for k in range(max(len(self._contexts or ()), 1))]

    def _all_states(self, copy=0):
        return {i: self._state(i, copy) for i in range(len(self._params)) if i in self._updates}

    def save_states(self, fname):
        """Saves the optimizer's states: arrays of the library's optimizers, Python objects of others."""
        from ..optimizer.optimizer import _runs_in_c
        self._start()
        if self._update_on_kvstore and not (self._in_library() and _runs_in_c(type(self._optimizer))):
            return self._kvstore.save_optimizer_states(fname, dump_optimizer=True)
        if _runs_in_c(type(self._optimizer)):
            return self._save(fname)
        import pickle
        _core.write_file(fname, pickle.dumps((self._all_states(), self._optimizer)))

    def load_states(self, fname):
        """Loads states that save_states wrote, here or in MXNet."""
        with open(fname, "rb") as file:
            data = file.read()
        self._start()
        if data[:1] != b"\x80":  # no pickle
            return self._load(fname)
        from ..optimizer._states import load_states
        states = load_states(data)
        if isinstance(states, tuple):
            states, optimizer = states
            self._replace_optimizer(optimizer)
        self._take_states(states)

    def _replace_optimizer(self, optimizer):
        scale = self._scale
        self._start_with(optimizer)
        self._scale = scale
        if self._kvstore is not None and self._update_on_kvstore:
            self._kvstore.set_optimizer(optimizer)
        if self._in_library():
            self._set_store(self._kvstore, 2 if self._kvstore is None else 0 if self._update_on_kvstore else 1)

    def _take_states(self, states):
        updater = getattr(self._kvstore, "_updater", None) if self._update_on_kvstore else None
        if updater is not None and not self._updates_in_library():
            updater.states = states
            return
        counts = self._optimizer._index_update_count
        for i, state in states.items():
            self._set_state(i, state, counts.get(i, self._optimizer.num_update))

    def _updates_in_library(self):
        from ..optimizer.optimizer import _runs_in_c
        return self._in_library() and _runs_in_c(type(self._optimizer))


class _SlotUpdater(Updater):
    """The states of a trainer on one context as those of an Updater; set_states() changes the trainer's."""

    def __init__(self, trainer, copy):
        super().__init__(trainer._optimizer)
        self._trainer = trainer
        self.states = trainer._all_states(copy)

    def set_states(self, states):
        """Restores the states from get_states()."""
        super().set_states(states)
        self._trainer._take_states(dict(self.states))


def _overridden(trainer):
    kind, own = type(trainer), trainer.__dict__
    return kind is not Trainer and any(getattr(kind, name) is not getattr(Trainer, name) for name in _HOOKS) or any(
        name in own for name in _HOOKS)


_copying.supports(Trainer)


def _listed(params):
    if isinstance(params, (dict, ParameterDict)):
        params = [params[name] for name in sorted(params.keys())]
    if not isinstance(params, (list, tuple)):
        raise ValueError(f"Trainer: expected a list or dict of Parameters, got {type(params).__name__}")
    for p in params:
        if not isinstance(p, Parameter):
            raise ValueError(f"Trainer: expected a list or dict of Parameters, got one with a {type(p).__name__}")
    return list(params)


def _checked_store(kvstore):
    """Checks the given store: an unknown name is an error at once."""
    from ..kvstore import KVStoreBase, create
    if isinstance(kvstore, str):
        create(kvstore)  # raises an error that says what is wrong with it
    elif kvstore is not None and not isinstance(kvstore, KVStoreBase):
        raise TypeError(f"Trainer: kvstore must be None, a name or a KVStore, got {type(kvstore).__name__}")
    return kvstore


def _library_store():
    from ..kvstore import KVStore
    return KVStore


def _store(given, needed):
    """The store for a trainer; one that the program created is used on one context, too."""
    from ..kvstore import create
    if isinstance(given, str):
        return create(given) if needed or given.lower().startswith(_PROCESSES) else None
    return given


def _able(store):
    from ..kvstore import KVStoreBase
    return store.is_capable(KVStoreBase.OPTIMIZER)


def _default_place():
    """Whether updates are made on the store if the program does not say."""
    return os.environ.get("MXNET_UPDATE_ON_KVSTORE", "1") != "0"
