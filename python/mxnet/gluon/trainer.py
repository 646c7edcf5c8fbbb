"""The trainer: applies an optimizer to the parameters of a network."""
from .. import _core
from ..error import StateError
from .parameter import Parameter, ParameterDict

__all__ = ["Trainer"]


class StaleGradientError(StateError, UserWarning):
    """A gradient that no backward computed since the last step."""


class Trainer(_core.Trainer):
    """Applies an optimizer to parameters.

    params: a ParameterDict or dict (taken in the order of names), or a list.  optimizer: a name with optimizer_params,
    or an Optimizer.  Gradients of parameters on several contexts are summed; kvstore may be None, 'local' or 'device'.
    compression_params={'type': '2bit', 'threshold': 0.5} compresses gradients to two bits per element for these sums.
    """

    def __init__(self, params, optimizer, optimizer_params=None, kvstore="device", compression_params=None,
                 update_on_kvstore=None):
        self._params = _listed(params)
        self._param2idx = {p.name: i for i, p in enumerate(self._params)}
        self._compression_params = compression_params
        self._kvstore_params = {"kvstore": kvstore, "update_on_kvstore": update_on_kvstore}
        self._kvstore, self._update_on_kvstore, self._distributed = _checked_store(kvstore), False, False
        self._contexts = self._check_contexts()
        self._start_with(self._made_optimizer(optimizer, optimizer_params))

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
        if self._compression_params is not None:
            from ..kvstore.compression import checked
            self._set_compression(*checked(self._compression_params))
        scaler = self.__dict__.get("_amp_loss_scaler")
        if scaler is not None:
            scaler._attach(self)

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

    @property
    def _updaters(self):
        """States like those of an Updater, for programs that read trainer._updaters[0].states."""
        from ..optimizer import Updater
        updater = Updater(self._optimizer)
        updater.states = self._all_states()
        return [updater]

    # ---- states

    def _all_states(self):
        return {i: self._state(i) for i in range(len(self._params)) if i in self._updates}

    def save_states(self, fname):
        """Saves the optimizer's states: arrays of the library's optimizers, Python objects of others."""
        from ..optimizer.optimizer import _runs_in_c
        if _runs_in_c(type(self._optimizer)):
            return self._save(fname)
        import pickle
        with open(fname, "wb") as file:
            pickle.dump((self._all_states(), self._optimizer), file)

    def load_states(self, fname):
        """Loads states that save_states wrote, here or in MXNet."""
        with open(fname, "rb") as file:
            data = file.read()
        if data[:1] != b"\x80":  # no pickle
            return self._load(fname)
        from ..optimizer._states import load_states
        states = load_states(data)
        if isinstance(states, tuple):
            states, optimizer = states
            scale = self._scale
            self._start_with(optimizer)
            self._scale = scale
        self._take_states(states)

    def _take_states(self, states):
        counts = self._optimizer._index_update_count
        for i, state in states.items():
            self._set_state(i, state, counts.get(i, self._optimizer.num_update))


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
    """Checks the given store: a single process sums gradients itself, so only the name matters."""
    if isinstance(kvstore, str):
        from ..kvstore import create
        create(kvstore)  # raises an error that says what is wrong with it
    return kvstore if not isinstance(kvstore, str) else None
