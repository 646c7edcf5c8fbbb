"""The library's classes of group "contrib"."""
from .. import _layers

MADE = _layers.make(_layers.LAYER, module=__package__, group="contrib")


def placed(names, module):
    """Classes by name, with `module` as their __module__."""
    classes = []
    for name in names:
        MADE[name].__module__ = module
        classes.append(MADE[name])
    return classes
