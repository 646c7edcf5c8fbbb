"""Runs a random Gluon program, statement by statement; program.py calls it on both packages (area "gluon_program").

A statement gives what it showed and, if it raised, the classes of its exception; the next one runs all the same.
"""
import os
import pickle
import sys
import tempfile
import warnings

import numpy as np

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn, rnn
from portable import plain


@mx.init.register
class Pattern(mx.init.Initializer):
    """Numbers that depend on the shape alone."""

    def __init__(self, seed=1):
        super().__init__(seed=seed)
        self.seed = seed

    def _init_weight(self, name, arr):
        arr[:] = nd.array(np.random.RandomState(self.seed).uniform(-0.5, 0.5, arr.shape))


def data(seed, *shape):
    return nd.array(np.random.RandomState(seed).uniform(-1, 1, shape))


def fill(block, seed):
    """Sets all parameters of known shape to numbers that depend on order and shape."""
    rng = np.random.RandomState(seed)
    for name, p in block.collect_params().items():
        if p.shape is None or min(p.shape) <= 0:
            continue
        low, high = (0.5, 1.5) if "running_var" in name else (-0.5, 0.5)
        p.set_data(nd.array(rng.uniform(low, high, p.shape)))


def add(container, *blocks):
    with container.name_scope():
        container.add(*blocks)
    return container


def values(x):
    """x as arrays, texts and numbers."""
    if isinstance(x, nd.NDArray):
        return [np.dtype(x.dtype).name, x.asnumpy()]
    if isinstance(x, gluon.Parameter):
        return [x.name, x.shape, x.grad_req, x.lr_mult, x.wd_mult, values(x.data())]
    if isinstance(x, (list, tuple)):
        return [type(x).__name__] + [values(item) for item in x]
    if hasattr(x, "items"):
        return {str(key): values(value) for key, value in x.items()}
    return x if isinstance(x, (bool, int, float, str, type(None))) else type(x).__name__


def run(statements):
    """What the statements showed, as a list with one dict for each."""
    results = []

    def show(*things):
        for thing in things:
            results[-1]["shown"].append(values(thing))

    space = {"mx": mx, "nd": nd, "np": np, "autograd": autograd, "gluon": gluon, "nn": nn, "rnn": rnn, "Pattern": Pattern,
             "data": data, "fill": fill, "add": add, "show": show, "F": nd, "__name__": "program"}
    for text in statements:
        results.append({"shown": []})
        try:
            exec(compile(text, "program", "exec"), space)
        except Exception as error:
            results[-1]["raises"] = [c.__name__ for c in type(error).__mro__]
            results[-1]["message"] = str(error) if len(str(error)) < 500 else f"{str(error)[:150]} ... {str(error)[-300:]}"
    settle()
    return results


def settle():
    """Errors that nobody saw must not reach the next program: MXNet raises them when it waits."""
    autograd.set_recording(False), autograd.set_training(False)
    try:
        nd.waitall()
    except Exception:
        pass


def gluon_program(statements):
    """The area: a program in a folder of its own, with names counted from 0."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, mx.name.NameManager():
        os.chdir(folder)
        try:
            return {"statements": run(statements)}
        finally:
            os.chdir(before)


def serve():
    """Answers programs from standard input on standard output, both as pickles."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            statements = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(plain(gluon_program(statements)), answers, protocol=4)
        answers.flush()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    serve()
