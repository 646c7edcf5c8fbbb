"""Version and location of the library."""
from . import _core

__version__ = "1.9.1+gluon" + _core.version


def find_lib_path(prefix="libmxnet"):
    """Path of the shared library, whatever the prefix: the extension module, which exports MXNet's C interface for
    prediction and for arrays (mxnet/c_predict_api.h, mxnet/c_api.h) to ctypes."""
    return [_core.__file__]


def find_include_path():
    """Path of the C headers installed with the package, or '' if there are none."""
    import os
    path = os.path.join(os.path.dirname(__file__), "include")
    return path if os.path.isdir(path) else ""


def find_conf_path(prefix="tvmop"):
    """Paths of configuration files: the package has none."""
    return []
