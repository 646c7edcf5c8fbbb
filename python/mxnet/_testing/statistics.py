"""Tests of random number generators."""
import math

import numpy as np

from .tolerance import to_numpy


def _upper_gamma(a, x):
    """The regularized upper incomplete gamma function Q(a, x)."""
    if x <= 0:
        return 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:  # series of the lower function
        term = total = 1.0 / a
        n = a
        while abs(term) > 1e-16 * abs(total):
            n += 1
            term *= x / n
            total += term
        return max(0.0, 1.0 - total * scale)
    b, c = x + 1 - a, 1e300  # continued fraction, evaluated forwards
    d = 1.0 / b
    h = d
    for i in range(1, 10000):
        factor = -i * (i - a)
        b += 2
        d = 1.0 / (factor * d + b or 1e-300)
        c = b + factor / c or 1e-300
        h *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return h * scale


def gen_buckets_probs_with_ppf(ppf, nbuckets):
    """(buckets, probabilities): nbuckets of equal probability from the inverse of a distribution function."""
    edges = [ppf(i / float(nbuckets)) for i in range(nbuckets + 1)]
    return [(edges[i], edges[i + 1]) for i in range(nbuckets)], [1.0 / nbuckets] * nbuckets


def mean_check(generator, mu, sigma, nsamples=1000000):
    """Whether the mean of samples is within three standard errors of mu."""
    mean = to_numpy(generator(nsamples)).astype("float64").mean()
    return bool(abs(mean - mu) < 3 * sigma / math.sqrt(nsamples))


def var_check(generator, sigma, nsamples=1000000):
    """Whether the variance of samples is within three standard errors of sigma squared (normal samples)."""
    samples = to_numpy(generator(nsamples)).astype("float64")
    return bool(abs(samples.var(ddof=1) - sigma**2) < 3 * math.sqrt(2 * sigma**4 / (nsamples - 1)))


def _counts(samples, buckets):
    if isinstance(buckets[0], (list, tuple)):
        edges = [low for low, _ in buckets] + [buckets[-1][1]]
        return np.histogram(samples, bins=edges)[0]
    return np.array([(samples == value).sum() for value in buckets])


def chi_square_check(generator, buckets, probs, nsamples=1000000):
    """(p, observed, expected) of Pearson's test; buckets are intervals or single values."""
    if not buckets or len(buckets) != len(probs):
        raise AssertionError(f"chi_square_check: {len(buckets)} buckets and {len(probs)} probabilities")
    samples = to_numpy(generator(nsamples)).reshape(-1)
    observed = _counts(samples, buckets)
    expected = np.asarray(probs, "float64") * nsamples
    rest = nsamples - expected.sum()
    statistic = ((observed - expected) ** 2 / expected).sum()
    freedom = len(buckets) - 1
    if rest > 1e-6 * nsamples:  # everything outside the buckets is one more bucket
        statistic += (nsamples - observed.sum() - rest) ** 2 / rest
        freedom += 1
    elif observed.sum() != nsamples:
        return 0.0, observed, expected
    return _upper_gamma(freedom / 2.0, statistic / 2.0), observed, expected


def verify_generator(generator, buckets, probs, nsamples=1000000, nrepeat=5, success_rate=0.2, alpha=0.05):
    """AssertionError unless the test passes (p > alpha) in a share success_rate of nrepeat runs."""
    ps = [chi_square_check(generator, buckets, probs, nsamples)[0] for _ in range(nrepeat)]
    if sum(p > alpha for p in ps) < nrepeat * success_rate:
        raise AssertionError(f"the generator does not follow the distribution: p = {ps}")
    return ps
