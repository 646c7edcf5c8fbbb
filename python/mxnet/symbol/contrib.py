"""Newer operators and control flow on symbols: mx.sym.contrib.

Control flow is written out into the graph: foreach as one copy of the body per step, so the length must be known (it is
while a block is traced, and where the variable has a shape); while_loop as max_iterations copies whose results count as
long as the condition held; cond as both branches, of which one counts.
"""
from .._core import Symbol
from ..error import UnsupportedError
from ..ndarray.contrib import _regroup
from . import _internal, _register
from . import op as _op

globals().update(_register.family("contrib"))


def _flatten(value, who):
    """(symbols, form) of a nested list; form: None for one symbol, else a list of forms."""
    if isinstance(value, Symbol):
        return [value], None
    if not isinstance(value, (list, tuple)):
        raise AssertionError(f"{who}: Symbols or (nested) lists of them are wanted, got {type(value).__name__}")
    symbols, form = [], []
    for item in value:
        inner, shape = _flatten(item, who)
        symbols += inner
        form.append((len(inner), shape))
    return symbols, form


def _shape(x, who):
    try:
        return x.shape
    except AttributeError:
        message = (f"{who}: the shape of '{x.name}' is not known here, so the steps cannot be written out; give the "
                   "variable a shape, or hybridize the block, which is then traced with known shapes")
        raise UnsupportedError(message) from None


def _row(x, i, ndim):
    part = _op.slice_axis(x, axis=0, begin=i, end=i + 1)
    return part if ndim == 1 else _op.squeeze(part, axis=0)


def foreach(body, data, init_states, name="foreach"):
    """Runs body(slice, states) -> (output, states) over the first axis of data.

    Returns (outputs stacked along a new first axis, the last states); data, states and outputs may be nested lists.
    """
    symbols, form = _flatten(data, "foreach data")
    _flatten(init_states, "foreach init_states")
    shapes = [_shape(x, "foreach") for x in symbols]
    lengths = {shape[0] for shape in shapes}
    if len(lengths) != 1:
        raise AssertionError(f"foreach: the first axes of data differ: {sorted(lengths)}")
    states, outputs, out_form = init_states, [], None
    for i in range(lengths.pop()):
        rows = [_row(x, i, len(shape)) for x, shape in zip(symbols, shapes)]
        output, states = body(_regroup(rows, form), states)
        flat, out_form = _flatten(output, "foreach output")
        outputs.append(flat)
    stacked = [_op.stack(*column, axis=0) for column in zip(*outputs)]
    return (_regroup(stacked, out_form) if outputs else []), states


def _choose(condition, one, other, who):
    """one where the condition (one element) is not 0, else other."""
    shape = _shape(one, who)
    if _shape(other, who) != shape:
        raise ValueError(f"{who}: both results must have one shape, got {shape} and {other.shape}")
    wide = _op.broadcast_to(_op.reshape(condition, shape=(1,) * max(len(shape), 1)), shape=shape)
    return _op.where(wide, one, other)


def while_loop(cond, func, loop_vars, max_iterations=None, name="while_loop"):
    """While cond(*loop_vars): step_output, loop_vars = func(*loop_vars).

    Returns (step outputs stacked along a new first axis of length max_iterations, the last loop_vars).  Rows of steps
    that did not happen are zeros.
    """
    if max_iterations is None:
        raise ValueError("while_loop: max_iterations is missing")
    single = isinstance(loop_vars, Symbol)
    loop_vars = [loop_vars] if single else list(loop_vars)
    if not loop_vars:
        raise ValueError("while_loop: loop_vars is empty")
    going, outputs, form = None, [], None
    for _ in range(int(max_iterations)):
        holds = _op.reshape(cond(*loop_vars), shape=(1,)) != 0
        going = holds if going is None else going * _op.cast(holds, dtype=going.dtype)
        output, new = func(*loop_vars)
        new = [new] if isinstance(new, Symbol) or not isinstance(new, (list, tuple)) else list(new)
        if len(new) != len(loop_vars):
            raise ValueError(f"while_loop: func returned {len(new)} loop_vars, wanted {len(loop_vars)}")
        flat, form = _flatten([] if output is None else output, "while_loop output")
        outputs.append([_choose(going, x, _op.zeros_like(x), "while_loop") for x in flat])
        loop_vars = [_choose(going, x, old, "while_loop") for x, old in zip(new, loop_vars)]
    stacked = [_op.stack(*column, axis=0) for column in zip(*outputs)]
    result = _regroup(stacked, form) if stacked else []
    return result, loop_vars[0] if single else loop_vars


def cond(pred, then_func, else_func, name="cond"):
    """then_func() where pred (one element) is not 0, else else_func(); both are part of the graph."""
    one, form = _flatten(then_func(), "cond then_func")
    other, other_form = _flatten(else_func(), "cond else_func")
    if len(one) != len(other):
        raise ValueError(f"cond: then_func returned {len(one)} symbols, else_func {len(other)}")
    return _regroup([_choose(pred, a, b, "cond") for a, b in zip(one, other)], form)


# ---- tests of numbers ----------------------------------------------------------------------------------------------

def isnan(data):
    """1 where an element is not a number, else 0."""
    return data != data


def isinf(data):
    """1 where an element is infinite, else 0."""
    return _op.abs(data) == float("inf")


def isfinite(data):
    """1 where an element is neither infinite nor not a number, else 0."""
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
