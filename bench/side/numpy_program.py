"""NumPy: the small operations.  SPDX-License-Identifier: Apache-2.0"""
import numpy as np

from timing import Workloads

work = Workloads("numpy", np.__version__)


def ones(*shape):
    return np.ones(shape, "float32")


@work("add", "plain")
def add():
    a, b = ones(16), ones(16)
    return lambda: a + b


@work("reshape", "plain")
def reshape():
    x = ones(4, 4)
    return lambda: x.reshape((2, 8))


@work("index", "plain")
def index():
    x = ones(4, 4)
    return lambda: x[0]


@work("dot", "plain")
def dot():
    a, b = ones(4, 4), ones(4, 4)
    return lambda: np.dot(a, b)


@work("dense", "plain")
def dense():
    x, weight, bias = ones(4, 16), ones(16, 16), ones(16)
    return lambda: np.dot(x, weight.T) + bias


if __name__ == "__main__":
    work.serve()
