"""Newer operators and control flow on symbols: mx.sym.contrib.

foreach, while_loop and cond create one node each, which owns the graphs of their functions as subgraphs.  When a block is
compiled, short loops are unrolled instead.
"""
from .. import _control
from .._core import Symbol
from ..attribute import AttrScope
from . import _internal, _register
from . import op as _op

globals().update(_register.family("contrib"))


def _count_subgraphs(*names):
    for name in names:
        AttrScope._subgraph_names[name] += 1


def foreach(body, data, init_states, name="foreach"):
    """Runs body(slice, states) -> (output, states) over the first axis of data.

    Returns (outputs stacked along a new first axis, the last states); data, states and outputs may be nested lists.
    """
    _count_subgraphs(name)
    return _control.foreach(Symbol, body, data, init_states, name)


def while_loop(cond, func, loop_vars, max_iterations=None, name="while_loop"):
    """While cond(*loop_vars): step_output, loop_vars = func(*loop_vars).

    Returns (step outputs stacked along a new first axis of length max_iterations, the last loop_vars).  Rows of steps
    that did not run are zeros.
    """
    _count_subgraphs(f"{name}_cond", f"{name}_func")
    return _control.while_loop(Symbol, cond, func, loop_vars, max_iterations, name)


def cond(pred, then_func, else_func, name="cond"):
    """then_func() where pred (one element) is not 0, else else_func(); only that branch is run."""
    _count_subgraphs(f"{name}_pred", f"{name}_then", f"{name}_else")
    return _control.cond_symbols(pred, then_func, else_func, name)


# ---- tests of numbers ----------------------------------------------------------------------------------------------

def isnan(data):
    """1 where an element is NaN, else 0."""
    return data != data


def isinf(data):
    """1 where an element is infinite, else 0."""
    return _op.abs(data) == float("inf")


def isfinite(data):
    """1 where an element is finite, else 0."""
    return _op.abs(data) < float("inf")


def rand_zipfian(true_classes, num_sampled, range_max):
    """Candidate classes from an approximately Zipfian distribution: (samples, expected counts of both)."""
    import math
    from .random import uniform
    scale = math.log(range_max + 1)
    drawn = _op.cast(_op.exp(uniform(0, scale, shape=(num_sampled,), dtype="float64")), dtype="int64") - 1
    samples = drawn % range_max

    def expected(classes):
        number = _op.cast(classes, dtype="float64")
        return _op.log((number + 2.0) / (number + 1.0)) / scale * num_sampled

    return samples, expected(true_classes), expected(samples)


def adamw_update(weight, grad, mean, var, rescale_grad, lr, eta, beta1=0.9, beta2=0.999, epsilon=1e-8, wd=0,
                 clip_gradient=-1, out=None, name=None, **kwargs):
    """One step of AdamW."""
    return _internal._adamw_update(weight, grad, mean, var, rescale_grad, lr=lr, eta=eta, beta1=beta1, beta2=beta2,
                                   epsilon=epsilon, wd=wd, clip_gradient=clip_gradient, name=name, **kwargs)


def mp_adamw_update(weight, grad, mean, var, weight32, rescale_grad, lr, eta, beta1=0.9, beta2=0.999, epsilon=1e-8,
                    wd=0, clip_gradient=-1, out=None, name=None, **kwargs):
    """AdamW with a float32 master copy of a float16 weight."""
    return _internal._mp_adamw_update(weight, grad, mean, var, weight32, rescale_grad, lr=lr, eta=eta, beta1=beta1,
                                      beta2=beta2, epsilon=epsilon, wd=wd, clip_gradient=clip_gradient, name=name,
                                      **kwargs)
