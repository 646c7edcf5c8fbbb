"""Arrays of random numbers: mx.nd.random.

Every distribution takes numbers or NDArrays as parameters.  With numbers `shape` is that of the result ((1,) if not
given); with arrays it is the shape drawn for each element, so the result has shape parameters.shape + shape.
"""
from .._core import NDArray
from ..base import _Null
from . import _internal

__all__ = ["uniform", "normal", "randn", "gamma", "exponential", "poisson", "negative_binomial",
           "generalized_negative_binomial", "multinomial", "shuffle", "randint", "uniform_like", "normal_like",
           "gamma_like", "exponential_like", "poisson_like", "negative_binomial_like",
           "generalized_negative_binomial_like"]


def _is_number(value):
    return isinstance(value, (int, float)) or (hasattr(value, "dtype") and getattr(value, "shape", None) == ())


def _draw(name, parameters, shape, dtype, ctx, out, kwargs):
    """Numbers of a distribution: by _random_<name> or, for arrays of parameters, _sample_<name>."""
    values = list(parameters.values())
    arrays = sum(isinstance(v, NDArray) for v in values)
    if arrays == len(values):
        return getattr(_internal, "_sample_" + name)(*values, shape=shape, dtype=dtype, out=out, **kwargs)
    for parameter, value in parameters.items():
        if not isinstance(value, NDArray) and not _is_number(value):
            raise ValueError(f"random.{name}: {parameter} must be a number or an NDArray, got {type(value).__name__}")
    if arrays:
        raise AssertionError(f"random.{name}: {', '.join(parameters)} must be all numbers or all NDArrays")
    if shape is _Null and out is not None:
        shape = out.shape
    return getattr(_internal, "_random_" + name)(**parameters, shape=shape, dtype=dtype, ctx=ctx, out=out, **kwargs)


def uniform(low=0, high=1, shape=_Null, dtype=_Null, ctx=None, out=None, **kwargs):
    """Uniform numbers in [low, high)."""
    return _draw("uniform", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs)


def normal(loc=0, scale=1, shape=_Null, dtype=_Null, ctx=None, out=None, **kwargs):
    """Normal numbers with mean loc and standard deviation scale."""
    return _draw("normal", {"loc": loc, "scale": scale}, shape, dtype, ctx, out, kwargs)


def randn(*shape, **kwargs):
    """Normal numbers: randn(2, 3, loc=0, scale=1, dtype=..., ctx=..., out=...)."""
    loc, scale = kwargs.pop("loc", 0), kwargs.pop("scale", 1)
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    if not isinstance(loc, (int, float, NDArray)) or not isinstance(scale, (int, float, NDArray)):
        raise AssertionError("random.randn: loc and scale must be numbers or NDArrays")
    return normal(loc, scale, shape=shape, **kwargs)


def gamma(alpha=1, beta=1, shape=_Null, dtype=_Null, ctx=None, out=None, **kwargs):
    """Numbers of the gamma distribution with shape alpha and scale beta."""
    return _draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, ctx, out, kwargs)


def exponential(scale=1, shape=_Null, dtype=_Null, ctx=None, out=None, **kwargs):
    """Numbers of the exponential distribution with mean scale."""
    if _is_number(scale) and not scale > 0:
        raise ValueError(f"random.exponential: scale must be positive, got {scale}")
    if not _is_number(scale) and not isinstance(scale, NDArray):
        raise ValueError(f"random.exponential: scale must be a number or an NDArray, got {type(scale).__name__}")
    return _draw("exponential", {"lam": 1.0 / scale}, shape, dtype, ctx, out, kwargs)


def poisson(lam=1, shape=_Null, dtype=_Null, ctx=None, out=None, **kwargs):
    """Numbers of the Poisson distribution with mean lam."""
    return _draw("poisson", {"lam": lam}, shape, dtype, ctx, out, kwargs)


def negative_binomial(k=1, p=1, shape=_Null, dtype=_Null, ctx=None, out=None, **kwargs):
    """Failures before the k-th success, each of probability p."""
    return _draw("negative_binomial", {"k": k, "p": p}, shape, dtype, ctx, out, kwargs)


def generalized_negative_binomial(mu=1, alpha=1, shape=_Null, dtype=_Null, ctx=None, out=None, **kwargs):
    """Negative binomial numbers with mean mu and dispersion alpha."""
    return _draw("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, ctx, out, kwargs)


def multinomial(data, shape=_Null, get_prob=False, out=None, dtype="int32", **kwargs):
    """Class numbers drawn with the probabilities in data's last axis; with get_prob also their log probabilities."""
    return _internal._sample_multinomial(data, shape=shape, get_prob=get_prob, out=out, dtype=dtype, **kwargs)


def shuffle(data, **kwargs):
    """The array with its first axis in random order."""
    return _internal._shuffle(data, **kwargs)


def randint(low, high, shape=_Null, dtype=_Null, ctx=None, out=None, **kwargs):
    """Integers in [low, high)."""
    if shape is _Null and out is not None:
        shape = out.shape
    return _internal._random_randint(low=low, high=high, shape=shape, dtype=dtype, ctx=ctx, out=out, **kwargs)


def uniform_like(data, low=0, high=1, out=None, **kwargs):
    """Uniform numbers in an array like data."""
    return _internal._random_uniform_like(data, low=low, high=high, out=out, **kwargs)


def normal_like(data, loc=0, scale=1, out=None, **kwargs):
    """Normal numbers in an array like data."""
    return _internal._random_normal_like(data, loc=loc, scale=scale, out=out, **kwargs)


def gamma_like(data, alpha=1, beta=1, out=None, **kwargs):
    """Gamma numbers in an array like data."""
    return _internal._random_gamma_like(data, alpha=alpha, beta=beta, out=out, **kwargs)


def exponential_like(data, scale=1, out=None, **kwargs):
    """Exponential numbers in an array like data."""
    return _internal._random_exponential_like(data, lam=1.0 / scale, out=out, **kwargs)


def poisson_like(data, lam=1, out=None, **kwargs):
    """Poisson numbers in an array like data."""
    return _internal._random_poisson_like(data, lam=lam, out=out, **kwargs)


def negative_binomial_like(data, k=1, p=1, out=None, **kwargs):
    """Negative binomial numbers in an array like data."""
    return _internal._random_negative_binomial_like(data, k=k, p=p, out=out, **kwargs)


def generalized_negative_binomial_like(data, mu=1, alpha=1, out=None, **kwargs):
    """Generalized negative binomial numbers in an array like data."""
    return _internal._random_generalized_negative_binomial_like(data, mu=mu, alpha=alpha, out=out, **kwargs)
