"""mxnet.init is mxnet.initializer."""
import sys

from . import initializer

sys.modules[__name__] = initializer
