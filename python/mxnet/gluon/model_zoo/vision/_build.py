"""Classes and functions of the zoo, created from the library's descriptions.

The networks are in the library: _core.models() lists the class and options of each name.
"""
import os

from .... import _core, base
from ....context import cpu
from ... import _layers

ROOT = os.path.join(base.data_dir(), "models")
CLASSES = _layers.make(_layers.LAYER, module=__package__, group="zoo")
MODELS = {name: (cls, options) for name, cls, options, _ in _core.models()}


def checked(cls):
    """The class, with AssertionError for inconsistent arguments."""
    made = CLASSES[cls]

    def __init__(self, *args, **kwargs):
        try:
            made.__init__(self, *args, **kwargs)
        except ValueError as error:
            raise AssertionError(str(error)) from None

    return replaced(cls, type(cls, (made,), {"__init__": __init__, "__module__": __package__}))


def replaced(name, cls):
    """Makes cls the class of the library's networks of a name."""
    cls._made = cls
    CLASSES[name] = cls
    _core.register_layer(cls._address, cls)
    return cls


def model(name, pretrained=False, ctx=cpu(), root=ROOT, **kwargs):
    """The network of a name; pretrained=True loads its parameters from the folder root."""
    cls, options = MODELS[name]
    net = CLASSES[cls](**{**options, **kwargs})
    return load_pretrained(net, name, pretrained, ctx, root)


def load_pretrained(net, name, pretrained, ctx, root):
    """Loads parameters from the model folder if pretrained; returns the network."""
    if pretrained:
        from ..model_store import get_model_file
        net.load_parameters(get_model_file(name, root=root), ctx=ctx)
    return net


def functions(scope, **names):
    """Adds a function for each network to scope: functions(globals(), vgg11="vgg11")."""
    for function, name in names.items():
        def build(name=name, **kwargs):
            return model(name, **kwargs)

        build.__wrapped_model__ = name  # for the stubs
        build.__name__ = build.__qualname__ = function
        build.__module__ = scope["__name__"]
        cls, options = MODELS[name]
        given = "".join(f"{key}={value!r}, " for key, value in options.items())
        build.__doc__ = (f"{cls}({given}...); further arguments: pretrained, ctx, root, classes, prefix and those of the "
                         "network's class.")
        scope[function] = build
    return list(names)


def by_number(pattern):
    """{number of layers: options} of the names that match a pattern with {}."""
    before, after = pattern.split("{}")
    found = {}
    for name, (_, options) in MODELS.items():
        number = name[len(before):len(name) - len(after)] if after else name[len(before):]
        if name.startswith(before) and name.endswith(after) and number.isdigit():
            found[int(number)] = options
    return found
