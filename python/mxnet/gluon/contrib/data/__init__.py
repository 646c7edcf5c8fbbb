"""Samplers and text data sets."""
from . import text
from .sampler import IntervalSampler

__all__ = ["IntervalSampler", "text"]
