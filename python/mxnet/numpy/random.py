"""mx.np.random: draws from the library's generator, which mx.random.seed and npx.random.seed start."""
from ._functions import FUNCTIONS as _np, RANDOM as _functions

globals().update(_functions)


def rand(*size, dtype=None, ctx=None):
    """Uniform numbers in [0, 1) of a shape."""
    return uniform(0.0, 1.0, size=size, dtype=dtype, ctx=ctx)  # noqa: F821


def randn(*size, dtype=None, ctx=None):
    """Numbers of the standard normal distribution of a shape."""
    return normal(0.0, 1.0, size=size, dtype=dtype, ctx=ctx)  # noqa: F821


def randint(low, high=None, size=None, dtype=None, ctx=None, out=None):
    """Integers from low up to, not including, high; without high from 0 up to low."""
    low, high = (0, low) if high is None else (low, high)
    return _functions["randint"](low=int(low), high=int(high), size=() if size is None else size, dtype=dtype or "int64",
                                 ctx=ctx, out=out)


def shuffle(x):
    """Puts the rows of x into a random order, in place."""
    from .. import nd
    x[:] = nd.random.shuffle(x.as_nd_ndarray()).as_np_ndarray()


def permutation(x):
    """A random order of the numbers below x, or of the rows of an array."""
    x = _np["arange"](x, dtype="int64") if isinstance(x, int) else x.copy()
    shuffle(x)
    return x


def choice(a, size=None, replace=True, p=None, ctx=None, out=None):
    """Elements of a (an int: of the numbers below it), with equal or given probabilities, with or without repetition."""
    from ._arrays import array
    count = a if isinstance(a, int) else len(a)
    shape = () if size is None else (size,) if isinstance(size, int) else tuple(size)
    number = 1
    for length in shape:
        number *= length
    if not replace and number > count:
        raise ValueError(f"choice: {number} different elements of {count} cannot be chosen")
    if p is not None:  # the largest of log p + Gumbel noise, one draw each; without repetition the first of one draw
        weights = _np["log"](array(p, dtype="float64", ctx=ctx))
        if replace:
            noise = gumbel(size=(number, count), ctx=ctx).astype("float64")  # noqa: F821
            chosen = _np["argmax"](weights + noise, axis=1)
        else:
            chosen = _np["argsort"](-(weights + gumbel(size=count, ctx=ctx).astype("float64")))[:number]  # noqa: F821
    elif replace:
        chosen = randint(0, count, size=(number,), ctx=ctx)
    else:
        chosen = permutation(count)[:number]
    chosen = chosen.reshape(shape)
    result = chosen if isinstance(a, int) else array(a, ctx=ctx)[chosen]
    if out is None:
        return result
    out[()] = result
    return out


def multinomial(n, pvals, size=None):
    """How often each outcome occurs in n draws; size: so many times."""
    from ._arrays import array
    pvals = array(pvals)
    shape = () if size is None else (size,) if isinstance(size, int) else tuple(size)
    number = 1
    for length in shape:
        number *= length
    draws = choice(len(pvals), size=(number, n), p=pvals)
    counts = (draws.reshape((number, n, 1)) == _np["arange"](len(pvals), dtype="int64")).sum(axis=1)
    return counts.reshape(shape + (len(pvals),))


def multivariate_normal(mean, cov, size=None, check_valid=None, tol=None):
    """Vectors of a normal distribution with this mean and covariance."""
    from ._arrays import array
    from .linalg import cholesky
    mean, cov = array(mean), array(cov)
    shape = () if size is None else (size,) if isinstance(size, int) else tuple(size)
    noise = normal(size=shape + mean.shape)  # noqa: F821
    return mean + _np["matmul"](noise.reshape(-1, mean.shape[-1]), cholesky(cov).T).reshape(noise.shape)


def seed(seed=None):
    """Starts the generator; None: from a number that differs in every run."""
    import random as chance
    from .. import random
    random.seed(chance.getrandbits(31) if seed is None else seed)


__all__ = sorted(name for name in globals() if not name.startswith("_"))
