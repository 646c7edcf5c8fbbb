"""Samplers: the order of examples."""

from ... import _core

__all__ = ["Sampler", "SequentialSampler", "RandomSampler", "FilterSampler", "BatchSampler", "IntervalSampler",
           "SplitSampler"]


class Sampler:
    """Yields indices of examples.  Subclasses have __iter__ and __len__."""

    def __len__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __len__")

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")


class SequentialSampler(Sampler):
    """start, start + 1, ..., start + length - 1."""

    def __init__(self, length, start=0):
        self._length, self._start = length, start

    def __iter__(self):
        return iter(range(self._start, self._start + self._length))

    def __len__(self):
        return self._length


class RandomSampler(Sampler):
    """0 ... length - 1 in a random order determined by mx.random.seed()."""

    def __init__(self, length):
        self._length = length

    def __iter__(self):
        return iter(_core.permutation(self._length))

    def __len__(self):
        return self._length


class FilterSampler(Sampler):
    """Indices of the examples for which fn(example) holds."""

    def __init__(self, fn, dataset):
        self._indices = [i for i in range(len(dataset)) if fn(dataset[i])]

    def __iter__(self):
        return iter(self._indices)

    def __len__(self):
        return len(self._indices)


class IntervalSampler(Sampler):
    """Every interval-th index; with rollover then those that were skipped, and so on."""

    def __init__(self, length, interval, rollover=True):
        if interval > length:
            raise AssertionError(f"IntervalSampler: interval {interval} is greater than length {length}")
        self._length, self._interval, self._rollover = length, interval, rollover

    def __iter__(self):
        return iter(_core.intervals(self._length, self._interval, self._rollover))

    def __len__(self):
        return self._length if self._rollover else _core.batch_count(self._length, self._interval, "keep")


class SplitSampler(Sampler):
    """The part of one process: of 0 ... length - 1, shuffled together anew in every epoch, every num_parts-th index.

    num_parts, part_index: by default the processes that were started together.  rest: if the length does not divide, parts
    repeat examples ('pad'), drop the rest of the epoch ('discard') or differ by one example ('keep').  The order follows
    from seed and epoch, so it is the same whatever the number of parts; set_epoch() continues after a restart.
    """

    def __init__(self, length, num_parts=None, part_index=None, shuffle=True, rest="pad", seed=0):
        if rest not in ("pad", "discard", "keep"):
            raise ValueError(f"SplitSampler: rest must be 'pad', 'discard' or 'keep', got {rest!r}")
        if num_parts is None:
            num_parts = _core.comm_info()[2]
        if part_index is None:
            part_index = _core.comm_info()[1]
        if not 0 <= part_index < num_parts:
            raise ValueError(f"SplitSampler: there is no part {part_index} of {num_parts}")
        self._length, self._parts, self._part, self._rest = length, num_parts, part_index, rest
        self._shuffle, self._seed, self._epoch = shuffle, seed, 0

    def set_epoch(self, epoch):
        """The number of the next epoch, from 0 on."""
        self._epoch = epoch

    def __iter__(self):
        epoch, self._epoch = self._epoch, self._epoch + 1
        return iter(_core.split_order(self._length, self._shuffle, self._seed, epoch, self._parts, self._part, self._rest))

    def __len__(self):
        more = self._length % self._parts
        return self._length // self._parts + (more > 0 if self._rest == "pad" else self._rest == "keep" and self._part < more)


class BatchSampler(Sampler):
    """Lists of batch_size indices of another sampler; last_batch: 'keep', 'discard' or 'rollover' to the next epoch."""

    def __init__(self, sampler, batch_size, last_batch="keep"):
        self._sampler, self._batch_size, self._last_batch = sampler, batch_size, last_batch
        self._left = []

    def _check(self):
        """Programs may make a sampler with another word, as long as they do not use it."""
        if self._last_batch not in ("keep", "discard", "rollover"):
            raise ValueError(f"BatchSampler: last_batch must be 'keep', 'discard' or 'rollover', got {self._last_batch!r}")

    def __iter__(self):
        self._check()
        batch, self._left = list(self._left), []
        for i in self._sampler:
            batch.append(i)
            if len(batch) == self._batch_size:
                yield batch
                batch = []
        if batch and self._last_batch == "keep":
            yield batch
        elif batch and self._last_batch == "rollover":
            self._left = batch

    def __len__(self):
        self._check()
        return _core.batch_count(len(self._sampler) + len(self._left), self._batch_size, self._last_batch)
