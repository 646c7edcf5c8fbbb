"""Data sets, samplers and loaders."""
from .dataset import (Dataset, SimpleDataset, ArrayDataset, RecordFileDataset)  # noqa: F401
from .sampler import (Sampler, SequentialSampler, RandomSampler, FilterSampler, BatchSampler,
                      IntervalSampler, SplitSampler)  # noqa: F401
from .dataloader import DataLoader, default_batchify_fn, default_mp_batchify_fn  # noqa: F401
from .tokenizer import Tokenizer  # noqa: F401
from . import batchify, dataloader, vision  # noqa: F401

__all__ = ["Dataset", "SimpleDataset", "ArrayDataset", "RecordFileDataset", "Sampler", "SequentialSampler",
           "RandomSampler", "FilterSampler", "BatchSampler", "IntervalSampler", "SplitSampler", "DataLoader", "Tokenizer", "batchify",
           "vision"]


def __getattr__(name):
    import importlib
    if name == "vision":
        return importlib.import_module(".vision", __name__)
    raise AttributeError(f"module 'mxnet.gluon.data' has no attribute '{name}'")
