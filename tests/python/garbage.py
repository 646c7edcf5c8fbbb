"""Garbage for calls: everything that a Python program might pass by mistake, drawn with a fixed seed."""
import random

import numpy as np

import mxnet as mx
from mxnet import nd


class Unspeakable:
    """Raises for every operation."""

    def __str__(self):
        raise RuntimeError("no text")

    __index__ = __float__ = __len__ = __str__


class Liar:
    """Numbers that are too large, a length that is impossible."""

    def __index__(self):
        return 2**80

    def __len__(self):
        return -1

    def __getitem__(self, i):
        return self


def deep(depth):
    """A list in a list in a list ..."""
    value = []
    for _ in range(depth):
        value = [value]
    return value


def endless():
    """A list that contains itself."""
    value = [1]
    value.append(value)
    return value


def arrays():
    """Arrays of all kinds."""
    return [nd.ones((2, 3)), nd.ones((0,)), nd.zeros((1, 2, 3, 4)), nd.ones((2, 3), dtype="int32"), nd.array(3.0),
            nd.ones((3,), dtype="float64"), nd.ones((2, 2, 2), dtype="uint8"), nd.ones((1,), dtype="bool"),
            nd.ones((4,), dtype="float16"), nd.array([np.nan, np.inf, -1e30]), nd.array([2**62], dtype="int64"),
            nd.zeros((3, 0, 2)), nd.ones((2, 3)).reshape((1,) * 6 + (2, 3)), nd.ones((2, 3)).astype("bfloat16")]


def values():
    """Everything else."""
    return ["", "x" * 1000, "None", "(", "(1,", "\x00", "\ud800", None, True, -1, 0, 1, 2**31, 2**63, -2**63, 2**200,
            1e308, float("nan"), float("inf"), -0.5, (), (1,) * 1000, (0, 0), (-1, -2, -3), (2**62, 2**62),
            (2**40,) * 3,
            [1, [2]], {}, {1: 2}, set(), b"abc", bytearray(b"x"), object(), lambda: 1, Unspeakable(), Liar(), deep(50),
            deep(5000), endless(), np.zeros((2, 2)), np.array(["a"]), np.float32(3), np.int64(-7), mx.cpu(), "cpu(0)",
            "gpu(99)", "float32", np.float16, int, type, Ellipsis, slice(1, 2), range(3), iter([1]), 3 + 4j, "1e400",
            (None, None), ("a", "b"), (1.5, 2), nd, nd.relu, mx.base._Null]


class Garbage:
    """Draws arguments for calls."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.arrays, self.values = arrays(), values()

    def one(self, share_of_arrays=0.3):
        """One value."""
        return self.random.choice(self.arrays if self.random.random() < share_of_arrays else self.values)

    def arguments(self, count, keywords):
        """(args, kwargs) for a call that takes about `count` arrays and these keywords."""
        positional = self.random.choice([0, 1, 1, count, count, count + 1, 2])
        args = [self.one(0.8) for _ in range(positional)]
        named = {name: self.one(0.1) for name in keywords if self.random.random() < 0.4}
        if self.random.random() < 0.2:
            named[self.random.choice(["out", "name", "data", "foo", "attr"])] = self.one()
        return args, named
