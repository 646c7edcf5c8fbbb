"""The classes of the library's rows of group "contrib"."""
from .. import _layers

MADE = _layers.make(_layers.LAYER, module=__package__, group="contrib")


def placed(names, module):
    """Classes by name, which say that they live in `module`."""
    classes = []
    for name in names:
        MADE[name].__module__ = module
        classes.append(MADE[name])
    return classes
