"""Learning-rate schedules: values, warmup, users' own, use by optimizers."""
import math
import pickle

import numpy as np
import pytest

import mxnet as mx
from mxnet import lr_scheduler, nd


def rates(schedule, count=12):
    return [schedule(n) for n in range(1, count + 1)]


def test_factor():
    wanted = [0.4] * 3 + [0.2] * 3 + [0.1] * 3 + [0.08] * 3
    np.testing.assert_allclose(rates(lr_scheduler.FactorScheduler(3, 0.5, stop_factor_lr=0.08, base_lr=0.4)), wanted)


def test_multi_factor():
    wanted = [1, 1, 1, 0.1, 0.1, 0.01, 0.01, 0.01]
    np.testing.assert_allclose(rates(lr_scheduler.MultiFactorScheduler([3, 5], 0.1, base_lr=1), 8), wanted)


def test_poly_and_cosine():
    poly = lr_scheduler.PolyScheduler(10, base_lr=0.5, pwr=2, final_lr=0.1)
    cosine = lr_scheduler.CosineScheduler(10, base_lr=0.5, final_lr=0.1)
    left = [max(0, 1 - n / 10) for n in range(1, 13)]
    np.testing.assert_allclose(rates(poly), [0.1 + 0.4 * x ** 2 for x in left])
    np.testing.assert_allclose(rates(cosine), [0.1 + 0.2 * (1 + math.cos(math.pi * (1 - x))) for x in left], atol=1e-12)


def test_warmup():
    schedule = lr_scheduler.FactorScheduler(100, base_lr=0.4, warmup_steps=4, warmup_begin_lr=0.2)
    np.testing.assert_allclose(rates(schedule, 5), [0.25, 0.3, 0.35, 0.4, 0.4])
    constant = lr_scheduler.CosineScheduler(100, 0.4, warmup_steps=4, warmup_begin_lr=0.2, warmup_mode="constant")
    np.testing.assert_allclose(rates(constant, 3), [0.2] * 3)
    base = lr_scheduler.LRScheduler(0.4, 4, 0.2)
    assert base.get_warmup_lr(2) == pytest.approx(0.3)


def test_attributes_and_pickle():
    schedule = lr_scheduler.MultiFactorScheduler([3, 5], 0.1, base_lr=1)
    assert (tuple(schedule.step), schedule.factor, schedule.base_lr, schedule.warmup_steps) == ((3, 5), 0.1, 1, 0)
    schedule(4)
    assert schedule.base_lr == pytest.approx(0.1)
    twin = pickle.loads(pickle.dumps(schedule))
    assert twin(6) == schedule(6) == pytest.approx(0.01)
    schedule.base_lr = 5
    assert schedule(7) == 5


@pytest.mark.parametrize("call, kind", [
    (lambda: lr_scheduler.FactorScheduler(0), ValueError), (lambda: lr_scheduler.FactorScheduler(1, 2.0), ValueError),
    (lambda: lr_scheduler.MultiFactorScheduler(3), AssertionError),
    (lambda: lr_scheduler.MultiFactorScheduler([3, 2]), ValueError),
    (lambda: lr_scheduler.PolyScheduler(0), ValueError),
    (lambda: lr_scheduler.PolyScheduler(1.5), AssertionError),
    (lambda: lr_scheduler.FactorScheduler(3, warmup_begin_lr=1), ValueError),
    (lambda: lr_scheduler.FactorScheduler(3, warmup_mode="x"), ValueError),
    (lambda: lr_scheduler.FactorScheduler(3, warmup_steps=1.5), AssertionError),
    (lambda: lr_scheduler.FactorScheduler(3, factr=1), TypeError),
    (lambda: lr_scheduler.LRScheduler(warmup_mode="x"), ValueError),
    (lambda: lr_scheduler.LRScheduler()(1), NotImplementedError)])
def test_errors(call, kind):
    with pytest.raises(kind):
        call()


class Halving(lr_scheduler.LRScheduler):
    def __call__(self, num_update):
        return self.base_lr / 2 ** num_update


@pytest.mark.filterwarnings("ignore:.*replaces the base rate")
@pytest.mark.parametrize("schedule", [Halving(), Halving(base_lr=0.8)])
def test_own_schedule_in_an_optimizer(schedule):
    optimizer = mx.optimizer.SGD(learning_rate=0.8, lr_scheduler=schedule)
    assert schedule.base_lr == 0.8 == optimizer.learning_rate
    weight = nd.zeros(2)
    for _ in range(3):
        optimizer.update(0, weight, nd.ones(2), None)
    np.testing.assert_allclose(weight.asnumpy(), [-0.7, -0.7], rtol=1e-6)
    assert optimizer.learning_rate == pytest.approx(0.1)
    with pytest.raises(UserWarning):
        optimizer.set_learning_rate(1)


def test_overriding_a_row():
    class Double(lr_scheduler.FactorScheduler):
        def __call__(self, num_update):
            return 2 * super().__call__(num_update)

    optimizer = mx.optimizer.SGD(lr_scheduler=Double(1, 0.5, base_lr=0.1))
    assert optimizer.learning_rate == pytest.approx(0.2)


def test_many_steps():
    """More steps than a tuple of the library holds."""
    steps = list(range(2, 82, 2))
    schedule = lr_scheduler.MultiFactorScheduler(steps, 0.5, base_lr=1)
    assert list(schedule.step) == steps
    np.testing.assert_allclose(rates(schedule, 100), [0.5 ** sum(n > s for s in steps) for n in range(1, 101)])
    copy = pickle.loads(pickle.dumps(lr_scheduler.MultiFactorScheduler(steps, 0.5, base_lr=1)))
    np.testing.assert_allclose(copy(70), 0.5 ** 34)
    with pytest.raises(ValueError):
        lr_scheduler.MultiFactorScheduler(steps + [3])
