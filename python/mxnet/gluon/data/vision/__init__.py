"""Images: data sets and transforms."""
from . import datasets, transforms  # noqa: F401
from .datasets import (MNIST, FashionMNIST, CIFAR10, CIFAR100, ImageRecordDataset, ImageFolderDataset,  # noqa: F401
                       ImageListDataset)

__all__ = ["MNIST", "FashionMNIST", "CIFAR10", "CIFAR100", "ImageRecordDataset", "ImageFolderDataset",
           "ImageListDataset",
           "transforms"]
