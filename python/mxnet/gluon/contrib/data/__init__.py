"""Samplers and data sets of texts."""
from . import text
from .sampler import IntervalSampler

__all__ = ["IntervalSampler", "text"]
