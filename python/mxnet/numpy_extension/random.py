"""mx.npx.random."""
from ..numpy._functions import RANDOM as _np


def seed(seed, ctx="all"):
    """Starts the generator of random numbers."""
    from .. import random
    random.seed(seed, ctx)


def bernoulli(prob=None, logit=None, size=None, dtype=None, ctx=None, out=None):
    """1 with the given probability (or its logit), else 0."""
    from ..numpy import exp
    if (prob is None) == (logit is None):
        raise ValueError("bernoulli: one of prob and logit is required")
    prob = prob if logit is None else 1 / (1 + exp(-logit))
    shape = size if size is not None else getattr(prob, "shape", ())
    drawn = (_np["uniform"](size=shape, ctx=ctx) < prob).astype(dtype or "float32")
    if out is None:
        return drawn
    out[()] = drawn
    return out


def _batched(name, first, second, batch_shape, dtype, ctx):
    shape = getattr(first, "shape", ()) or getattr(second, "shape", ())
    batch = () if batch_shape is None else (batch_shape,) if isinstance(batch_shape, int) else tuple(batch_shape)
    return _np[name](first, second, size=batch + tuple(shape), dtype=dtype, ctx=ctx)


def uniform_n(low=0.0, high=1.0, batch_shape=None, dtype=None, ctx=None):
    """Uniform numbers: batch_shape many for each pair of low and high."""
    return _batched("uniform", low, high, batch_shape, dtype, ctx)


def normal_n(loc=0.0, scale=1.0, batch_shape=None, dtype=None, ctx=None):
    """Normal numbers: batch_shape many for each pair of loc and scale."""
    return _batched("normal", loc, scale, batch_shape, dtype, ctx)
