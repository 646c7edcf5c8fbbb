"""Modules: the older interface for training, where a symbol is bound to arrays and fitted to an iterator."""
from .base_module import BaseModule
from .module import Module
from .bucketing_module import BucketingModule
from .sequential_module import SequentialModule
from .python_module import PythonModule, PythonLossModule
from .executor_group import DataParallelExecutorGroup

__all__ = ["BaseModule", "BucketingModule", "DataParallelExecutorGroup", "Module", "PythonLossModule", "PythonModule",
           "SequentialModule"]
