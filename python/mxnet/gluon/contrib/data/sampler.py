"""Samplers."""
from ...data import sampler

__all__ = ["IntervalSampler"]


class IntervalSampler(sampler.Sampler):
    """Every interval-th index below `length`; with rollover from 0, then from 1 and so on until all were returned.

        list(IntervalSampler(7, 3))  ->  [0, 3, 6, 1, 4, 2, 5]
    """

    def __init__(self, length, interval, rollover=True):
        if interval > length:
            raise AssertionError(f"IntervalSampler: interval={interval} is larger than length={length}")
        self._length, self._interval, self._rollover = length, interval, rollover

    def __iter__(self):
        for first in range(self._interval if self._rollover else 1):
            yield from range(first, self._length, self._interval)

    def __len__(self):
        return self._length  # with rollover=False too, as programs expect
