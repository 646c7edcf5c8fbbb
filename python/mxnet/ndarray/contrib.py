"""Newer operators and control flow: mx.nd.contrib.

Every operator _contrib_X of the library is contrib.X here.  foreach, while_loop and cond run immediately, like Python
loops, and are recorded like everything else.
"""
import math

from .. import _control
from .._core import NDArray
from . import _internal, _register
from . import op as _op
from .random import uniform  # noqa: F401

globals().update(_register.family("contrib"))


def __getattr__(name):
    if name.startswith("dgl_"):
        raise AttributeError(f"mx.nd.contrib.{name}: graphs are not sampled or cut here; there are edge_id, getnnz and dgl_adjacency")
    raise AttributeError(f"module 'mxnet.ndarray.contrib' has no attribute '{name}'")


# ---- control flow --------------------------------------------------------------------------------------------------

def foreach(body, data, init_states):
    """Runs body(slice, states) -> (output, states) over the first axis of data.

    Returns (outputs stacked along a new first axis, the last states); data, states and outputs may be nested lists.
    """
    return _control.foreach(NDArray, body, data, init_states, None)


def while_loop(cond, func, loop_vars, max_iterations=None):
    """While cond(*loop_vars): step_output, loop_vars = func(*loop_vars).

    Returns (step outputs stacked along a new first axis of length max_iterations, the last loop_vars).  Rows of steps
    that did not run are zeros.
    """
    return _control.while_loop(NDArray, cond, func, loop_vars, max_iterations, None)


def cond(pred, then_func, else_func):
    """then_func() if pred (an NDArray of one element) is not 0, else else_func()."""
    return _control.cond_arrays(pred, then_func, else_func)


# ---- tests of numbers ----------------------------------------------------------------------------------------------

def isnan(data):
    """1 where an element is NaN, else 0."""
    return data != data


def isinf(data):
    """1 where an element is infinite, else 0."""
    return _op.abs(data) == math.inf


def isfinite(data):
    """1 where an element is finite, else 0."""
    return _op.abs(data) < math.inf


# ---- sampling ------------------------------------------------------------------------------------------------------

def rand_zipfian(true_classes, num_sampled, range_max, ctx=None):
    """Candidate classes for sampled softmax from an approximately Zipfian distribution.

    Class k has probability (log(k + 2) - log(k + 1)) / log(range_max + 1).  Returns (samples, expected count of each
    true class, expected count of each sample).
    """
    ctx = true_classes.context if ctx is None else ctx
    scale = math.log(range_max + 1)
    drawn = _op.exp(uniform(0, scale, shape=(num_sampled,), dtype="float64", ctx=ctx)).astype("int64") - 1
    samples = drawn % range_max

    def expected(classes):
        number = classes.as_in_context(ctx).astype("float64")
        return _op.log((number + 2.0) / (number + 1.0)) / scale * num_sampled

    return samples, expected(true_classes), expected(samples)


# ---- updates -------------------------------------------------------------------------------------------------------

def _rescale(rescale_grad, like):
    """The gradient scale as an array; None if it is not finite: the step is then skipped."""
    if not isinstance(rescale_grad, NDArray):
        from .ndarray import full
        rescale_grad = full((1,), rescale_grad, ctx=like.context)
    value = float(rescale_grad.asscalar())
    return rescale_grad.as_in_context(like.context) if math.isfinite(value) and value else None


def adamw_update(weight, grad, mean, var, rescale_grad, lr, eta, beta1=0.9, beta2=0.999, epsilon=1e-8, wd=0,
                 clip_gradient=-1, out=None, name=None, **kwargs):
    """One step of AdamW; skipped if rescale_grad is not finite or 0 (a step whose gradients overflowed)."""
    factor = _rescale(rescale_grad, weight)
    if factor is None:
        return out if out is not None else weight
    return _internal._adamw_update(weight, grad, mean, var, factor, lr=lr, eta=eta, beta1=beta1, beta2=beta2,
                                   epsilon=epsilon, wd=wd, clip_gradient=clip_gradient, out=out, **kwargs)


def mp_adamw_update(weight, grad, mean, var, weight32, rescale_grad, lr, eta, beta1=0.9, beta2=0.999, epsilon=1e-8,
                    wd=0, clip_gradient=-1, out=None, name=None, **kwargs):
    """AdamW with a float32 master copy of a float16 weight."""
    factor = _rescale(rescale_grad, weight)
    if factor is None:
        return out if out is not None else weight
    return _internal._mp_adamw_update(weight, grad, mean, var, weight32, factor, lr=lr, eta=eta, beta1=beta1,
                                      beta2=beta2, epsilon=epsilon, wd=wd, clip_gradient=clip_gradient, out=out,
                                      **kwargs)


def _interleave(*lists):
    """w0 g0 m0 v0 w1 g1 ..., the order of the multi-tensor operators."""
    lengths = {len(items) for items in lists}
    if len(lengths) != 1:
        raise ValueError(f"multi-tensor update: lists of different lengths {sorted(lengths)}")
    return [item for group in zip(*lists) for item in group]


def multi_adamw_update(weights, grads, mean, var, rescale_grad, lrs, wds, etas, out=None, name=None, size=0, **kwargs):
    """AdamW for many tensors."""
    factor = _rescale(rescale_grad, weights[0])
    if factor is None:
        return out if out is not None else weights
    return _internal._multi_adamw_update(*_interleave(weights, grads, mean, var), factor, lrs=lrs, wds=wds, etas=etas,
                                         num_weights=size or len(weights), out=out, **kwargs)


def multi_mp_adamw_update(weights, grads, mean, var, weights32, rescale_grad, lrs, wds, etas, out=None, name=None,
                          size=0, **kwargs):
    """AdamW for many tensors with float32 master copies."""
    factor = _rescale(rescale_grad, weights[0])
    if factor is None:
        return out if out is not None else weights
    return _internal._multi_mp_adamw_update(*_interleave(weights, grads, mean, var, weights32), factor, lrs=lrs,
                                            wds=wds, etas=etas, num_weights=size or len(weights), out=out, **kwargs)


def multi_lamb_update(weights, grads, mean, var, step_count, lrs, wds, out=None, num_tensors=0, **kwargs):
    """LAMB for many tensors."""
    return _internal._multi_lamb_update(*_interleave(weights, grads, mean, var), step_count=step_count,
                                        learning_rates=lrs, wds=wds, num_tensors=num_tensors or len(weights), out=out,
                                        **kwargs)


def multi_mp_lamb_update(weights, grads, mean, var, weights32, step_count, lrs, wds, out=None, num_tensors=0, **kwargs):
    """LAMB for many tensors with float32 master copies."""
    return _internal._multi_mp_lamb_update(*_interleave(weights, grads, mean, var, weights32), step_count=step_count,
                                           learning_rates=lrs, wds=wds, num_tensors=num_tensors or len(weights),
                                           out=out, **kwargs)
