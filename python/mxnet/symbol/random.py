"""Random numbers in graphs: mx.sym.random.

Every distribution takes numbers or Symbols as parameters, as in mx.nd.random.
"""
from .._core import Symbol
from ..base import _Null
from . import _internal

__all__ = ["uniform", "normal", "randn", "gamma", "exponential", "poisson", "negative_binomial",
           "generalized_negative_binomial", "multinomial", "shuffle", "randint", "uniform_like", "normal_like",
           "gamma_like", "exponential_like", "poisson_like", "negative_binomial_like",
           "generalized_negative_binomial_like"]


def _draw(name, parameters, shape, dtype, kwargs):
    values = list(parameters.values())
    symbols = sum(isinstance(v, Symbol) for v in values)
    kwargs.pop("ctx", None)
    if symbols == len(values):
        return getattr(_internal, "_sample_" + name)(*values, shape=shape, dtype=dtype, **kwargs)
    if symbols:
        raise ValueError(f"random.{name}: {', '.join(parameters)} must be all numbers or all Symbols")
    kwargs = {key: value for key, value in kwargs.items() if not isinstance(value, Symbol)}  # data=..., not an input here
    for parameter, value in parameters.items():
        if not isinstance(value, (int, float)) and not hasattr(value, "dtype"):
            raise ValueError(f"random.{name}: {parameter} must be a number or a Symbol, got {type(value).__name__}")
    return getattr(_internal, "_random_" + name)(**parameters, shape=shape, dtype=dtype, **kwargs)


def uniform(low=0, high=1, shape=_Null, dtype=_Null, **kwargs):
    """Uniform numbers in [low, high)."""
    return _draw("uniform", {"low": low, "high": high}, shape, dtype, kwargs)


def normal(loc=0, scale=1, shape=_Null, dtype=_Null, **kwargs):
    """Normal numbers with mean loc and standard deviation scale."""
    return _draw("normal", {"loc": loc, "scale": scale}, shape, dtype, kwargs)


def randn(*shape, **kwargs):
    """Normal numbers: randn(2, 3, loc=0, scale=1)."""
    loc, scale = kwargs.pop("loc", 0), kwargs.pop("scale", 1)
    return normal(loc, scale, shape=shape, **kwargs)


def gamma(alpha=1, beta=1, shape=_Null, dtype=_Null, **kwargs):
    """Numbers of the gamma distribution with shape alpha and scale beta."""
    return _draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, kwargs)


def exponential(scale=1, shape=_Null, dtype=_Null, **kwargs):
    """Numbers of the exponential distribution with mean scale."""
    return _draw("exponential", {"lam": 1.0 / scale}, shape, dtype, kwargs)


def poisson(lam=1, shape=_Null, dtype=_Null, **kwargs):
    """Numbers of the Poisson distribution with mean lam."""
    return _draw("poisson", {"lam": lam}, shape, dtype, kwargs)


def negative_binomial(k=1, p=1, shape=_Null, dtype=_Null, **kwargs):
    """Failures before the k-th success, each of probability p."""
    return _draw("negative_binomial", {"k": k, "p": p}, shape, dtype, kwargs)


def generalized_negative_binomial(mu=1, alpha=1, shape=_Null, dtype=_Null, **kwargs):
    """Negative binomial numbers with mean mu and dispersion alpha."""
    return _draw("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, kwargs)


def multinomial(data, shape=_Null, get_prob=True, dtype="int32", **kwargs):
    """Class numbers drawn with the probabilities in data's last axis; with get_prob also their log probabilities."""
    return _internal._sample_multinomial(data, shape=shape, get_prob=get_prob, dtype=dtype, **kwargs)


def shuffle(data, **kwargs):
    """The first axis in random order."""
    return _internal._shuffle(data, **kwargs)


def randint(low, high, shape=_Null, dtype=_Null, **kwargs):
    """Integers in [low, high)."""
    kwargs.pop("ctx", None)
    return _internal._random_randint(low=low, high=high, shape=shape, dtype=dtype, **kwargs)


def _like(name, doc, **renamed):
    def function(data, **kwargs):
        for old, new in renamed.items():
            if old in kwargs:
                kwargs[new] = 1.0 / kwargs.pop(old)
        return getattr(_internal, f"_random_{name}_like")(data, **kwargs)
    function.__name__ = function.__qualname__ = name + "_like"
    function.__doc__ = doc
    return function


uniform_like = _like("uniform", "Uniform numbers in an array like data: low=0, high=1.")
normal_like = _like("normal", "Normal numbers in an array like data: loc=0, scale=1.")
gamma_like = _like("gamma", "Gamma numbers in an array like data: alpha=1, beta=1.")
exponential_like = _like("exponential", "Exponential numbers in an array like data: scale=1.", scale="lam")
poisson_like = _like("poisson", "Poisson numbers in an array like data: lam=1.")
negative_binomial_like = _like("negative_binomial", "Negative binomial numbers in an array like data: k=1, p=1.")
generalized_negative_binomial_like = _like("generalized_negative_binomial",
                                           "Generalized negative binomial numbers in an array like data: mu=1, alpha=1.")
