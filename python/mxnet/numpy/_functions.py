"""The operators of the library under their names in mx.np and mx.npx: FUNCTIONS["sum"], LINALG, RANDOM, EXTENSION."""
from .. import _core

FUNCTIONS, LINALG, RANDOM, EXTENSION, IMAGE = {}, {}, {}, {}, {}


def _as_array(x):
    """What an operand means: numbers and lists have the default type, other arrays keep theirs."""
    from ._arrays import array
    return array(x)


def _place(full_name, operator):
    place, module, name = FUNCTIONS, "mxnet.numpy", full_name.partition(".")[2]
    for prefix, table, path in (("np.linalg.", LINALG, "mxnet.numpy.linalg"), ("np.random.", RANDOM, "mxnet.numpy.random"),
                                ("npx.image_", IMAGE, "mxnet.numpy_extension.image"),
                                ("npx.", EXTENSION, "mxnet.numpy_extension")):
        if full_name.startswith(prefix):
            place, module, name = table, path, full_name[len(prefix):]
            break
    operator.__module__ = module
    place[name] = operator


for _name, _operator in _core.np_operators().items():
    _place(_name, _operator)
