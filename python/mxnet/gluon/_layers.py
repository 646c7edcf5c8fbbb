"""Creates the classes of layers and losses from the library's descriptions."""
import inspect
import json

from .. import _core
from .block import Block, _LayerBase

LAYER, LOSS = 0, 1


class _Described:
    """Documentation and signature of a class, read from the library on demand."""

    def __init__(self, address):
        self.address = address

    def load(self):
        return json.loads(_core.describe_class(self.address))


class _Doc:
    """__doc__ of a generated class: the text is composed when it is read."""

    def __get__(self, instance, owner):
        if owner is None or owner._address is None:
            return None
        d = json.loads(_core.describe_class(owner._address))
        lines = [d["doc"], "", "Parameters", "----------"]
        for option in _options(d):
            default = option.get("default")
            lines.append(f"{option['name']} : {option['type']}" + (f", default {default}" if default is not None else ""))
            lines.append(f"    {option.get('doc', '')}")
        return "\n".join(lines)


def _options(description):
    return description.get("options", description.get("attributes", []))


class _Signature:
    """__signature__ of a generated class."""

    def __get__(self, instance, owner):
        from .._describe import _Spelled
        kind = inspect.Parameter
        parameters = []
        for option in _options(json.loads(_core.describe_class(owner._address))):
            default = option.get("default")
            parameters.append(kind(option["name"], kind.POSITIONAL_OR_KEYWORD,
                                   default=kind.empty if default is None else _Spelled(default)))
        parameters += [kind(name, kind.KEYWORD_ONLY, default=None) for name in ("prefix", "params")]
        seen_default = False
        fixed = []
        for p in parameters:
            if p.default is not kind.empty:
                seen_default = True
            elif seen_default and p.kind == kind.POSITIONAL_OR_KEYWORD:
                p = p.replace(default=None)
            fixed.append(p)
        return inspect.Signature(fixed)


class _PlainLayerBase(Block):
    """Base of those that cannot be compiled: their forward draws random numbers or reads values."""

    _address = None

    def __init__(self, *args, **kwargs):
        self._start_layer(self._address, self._made, *args, **kwargs)

    forward = _core.Block.forward


def make(kind, base=_LayerBase, module=None, group=None):
    """Classes of a kind (and of a group in it, such as "transforms") by name."""
    made = {}
    for row_kind, name, address, row_group, hybrid in _core.layers():
        if row_kind != kind or row_group != group:
            continue
        cls = type(name, (base if hybrid else _PlainLayerBase,), {"__doc__": _Doc(), "__module__": module or __name__, "_address": address,
                                   "__signature__": _Signature()})
        cls._made = cls
        _core.register_layer(address, cls)
        made[name] = cls
    return made
