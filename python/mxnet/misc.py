"""Learning rates by iteration, as the first versions had them; mxnet.lr_scheduler has those of today."""

__all__ = ["LearningRateScheduler", "FactorScheduler"]


class LearningRateScheduler:
    """Base of schedules: scheduler(iteration) is the learning rate."""

    def __init__(self):
        self.base_lr = 0.01

    def __call__(self, iteration):
        raise NotImplementedError(f"{type(self).__name__} does not override __call__")


class FactorScheduler(LearningRateScheduler):
    """base_lr, multiplied by factor after every `step` iterations."""

    def __init__(self, step, factor=0.1):
        super().__init__()
        if step < 1:
            raise ValueError(f"FactorScheduler: step is {step}, expected at least 1")
        if factor >= 1.0:
            raise ValueError(f"FactorScheduler: factor is {factor}, expected less than 1 for the rate to fall")
        self.step, self.factor = step, factor

    def __call__(self, iteration):
        return self.base_lr * self.factor ** (iteration // self.step)
