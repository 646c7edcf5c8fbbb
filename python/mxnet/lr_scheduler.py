"""Learning-rate schedules: the rate as a function of the number of updates."""
from . import _core, registry


class LRScheduler:
    """Base of schedules: override __call__(num_update), which returns the learning rate.

    For warmup_steps updates get_warmup_lr rises linearly from warmup_begin_lr to base_lr ('linear'), or stays at
    warmup_begin_lr ('constant').
    """

    def __init__(self, base_lr=0.01, warmup_steps=0, warmup_begin_lr=0, warmup_mode="linear"):
        if not isinstance(warmup_steps, int):
            raise AssertionError(f"{type(self).__name__}: warmup_steps must be an int, got {warmup_steps!r}")
        self.base_lr = base_lr
        self.warmup_steps, self.warmup_begin_lr, self.warmup_mode = warmup_steps, warmup_begin_lr, warmup_mode
        self.warmup_final_lr = base_lr
        if warmup_begin_lr > base_lr:
            raise ValueError(f"{type(self).__name__}: warmup_begin_lr={warmup_begin_lr} is higher than {base_lr=}")
        if warmup_steps < 0:
            raise ValueError(f"{type(self).__name__}: warmup_steps={warmup_steps} is negative")
        if warmup_mode not in ("linear", "constant"):
            raise ValueError(f"{type(self).__name__}: warmup_mode must be 'linear' or 'constant', got {warmup_mode!r}")

    def get_warmup_lr(self, num_update):
        """The rate after num_update updates of the warmup."""
        if num_update >= self.warmup_steps:
            raise AssertionError(f"get_warmup_lr: the warmup ends after {self.warmup_steps} updates, got {num_update}")
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        rise = (self.warmup_final_lr - self.warmup_begin_lr) * float(num_update) / float(self.warmup_steps)
        return self.warmup_begin_lr + rise

    def __call__(self, num_update):
        raise NotImplementedError(f"{type(self).__name__} does not override __call__")


_TUPLE = 16  # largest tuple of the library; more steps are passed as text


def _split_steps(options):
    steps = options.get("step")
    if not isinstance(steps, (list, tuple)) or len(steps) <= _TUPLE:
        return options
    return {**options, "step": steps[:_TUPLE], "more_steps": " ".join(str(int(s)) for s in steps[_TUPLE:])}


class _RowScheduler(LRScheduler):
    """Base of the library's schedules."""

    def _begin(self, options, unknown):
        if unknown:
            registry.unknown_option(type(self)._row, next(iter(unknown)), list(options))
        self._checks(options)
        self._start(_core.LR_SCHEDULER, type(self)._row, **_split_steps(options))

    def _checks(self, options):
        steps = options["warmup_steps"]
        if not isinstance(steps, int):
            raise AssertionError(f"{type(self).__name__}: warmup_steps must be an int, got {steps!r}")
        if options["warmup_begin_lr"] > options["base_lr"]:
            raise ValueError(f"{type(self).__name__}: warmup_begin_lr={options['warmup_begin_lr']} is higher than "
                             f"base_lr={options['base_lr']}")
        for name, value in options.items():
            wanted = (list, tuple) if name == "step" and self._row == "MultiFactorScheduler" else int
            if name in ("step", "max_update") and not isinstance(value, wanted):
                kind = "an int" if wanted is int else "a list"
                raise AssertionError(f"{type(self).__name__}: {name} must be {kind}, got {value!r}")

    @property
    def warmup_final_lr(self):
        """The rate at the end of the warmup."""
        return self._memory[1]

    base_lr_orig = warmup_final_lr

    def __call__(self, num_update):
        return self._rate(num_update)

    def __getstate__(self):
        return {**self.__dict__, "_now": (self._options(), self._memory)}

    def __setstate__(self, state):
        if "_now" not in state:
            return self._from_plain(state)
        options, memory = state.pop("_now")
        self.__dict__.update(state)
        self._start(_core.LR_SCHEDULER, type(self)._row, **options)
        self._memory = memory


    def _from_plain(self, state):
        """Restores the attributes of a schedule that MXNet pickled."""
        state = {"pwr": state.get("power"), **state}
        row = next(row for row in _core.class_rows(_core.LR_SCHEDULER) if row[0] == type(self)._row)
        options = {option[0]: state[option[0]] for option in row[3] if state.get(option[0]) is not None}
        first = state.get("base_lr_orig", state["warmup_final_lr"])
        self._start(_core.LR_SCHEDULER, type(self)._row, **_split_steps({**options, "base_lr": first}))
        self._memory = (state["base_lr"], first, state.get("count", 0) if self._row == "FactorScheduler"
                        else state.get("cur_step_ind", 0), 0.0, 0.0)


_core.set_scheduler_method(_RowScheduler.__call__)

for _cls, _ in registry.row_classes(_core.LR_SCHEDULER, _RowScheduler, _core.SchedulerRow, __name__,
                                        hidden=("more_steps",)):
    globals()[_cls.__name__] = _cls


def _all_steps(self):
    """The number of updates after which the rate changes."""
    options = self._options()
    return tuple(options["step"]) + tuple(int(s) for s in (options["more_steps"] or "").split())


def _factor_count(self):
    """The last number of updates at which the rate changed."""
    return int(self._memory[2])


FactorScheduler.count = property(_factor_count)  # noqa: F821
MultiFactorScheduler.step = property(_all_steps)  # noqa: F821 - the class is one of those created above
