"""Attributes of blocks that are not documented, but that libraries use; and the functions _flatten and _regroup."""
import threading

from .. import _core
from .._core import NDArray, Symbol


def _flatten(args, inout_str):
    """The arrays in nested lists, and how they were nested: 0 for an array, -1 for None."""
    if isinstance(args, (NDArray, Symbol)):
        return [args], 0
    if args is None:
        return [None], -1
    if not isinstance(args, (list, tuple)):
        raise ValueError(f"HybridBlock: {inout_str} must be arrays, symbols, None or (nested) lists of them, got {args!r} "
                         f"of type {type(args).__name__}")
    flat, form = [], []
    for arg in args:
        arrays, nested = _flatten(arg, inout_str)
        flat.extend(arrays)
        form.append(nested)
    return flat, form


def _regroup(args, fmt):
    """The reverse: the value of this form, and the arrays that are left."""
    if isinstance(fmt, int):
        if fmt == -1:
            if args[0] is not None:
                raise ValueError(f"_regroup: the form has None, but there is a {type(args[0]).__name__}")
            return None, args[1:]
        return (args[0], args[1:]) if fmt == 0 else (args[:fmt], args[fmt:])
    made = []
    for nested in fmt:
        value, args = _regroup(args, nested)
        made.append(value)
    return made, args


class _BlockScope:
    """`with _BlockScope(block):` new blocks and parameters get the prefix of a block, or of any object that has prefix and
    _empty_prefix."""

    _current = threading.local()  # .value: the innermost one that this thread has entered

    def __init__(self, block):
        self._block, self._old_scope, self._name_scope, self._holder = block, None, None, None

    @staticmethod
    def create(prefix, params, hint):
        """The prefix and the ParameterDict of a new block."""
        return _core.name_block(prefix, params, hint)

    @property
    def _counter(self):
        """How many blocks of each kind were named in the scope."""
        holder = self._block_of()
        return dict(_core.Block._get_state(holder)["counters"])

    def _block_of(self):
        from .block import Block
        if self._holder is None:
            block = self._block
            self._holder = block if isinstance(block, Block) else _core.scope_block(block.prefix)
        return self._holder

    def __enter__(self):
        if getattr(self._block, "_empty_prefix", False):
            return self
        self._old_scope = getattr(_BlockScope._current, "value", None)
        _BlockScope._current.value = self
        self._name_scope = _core.Block.name_scope(self._block_of())
        self._name_scope.__enter__()
        return self

    def __exit__(self, *unused):
        if getattr(self._block, "_empty_prefix", False):
            return
        self._name_scope.__exit__(*unused)
        self._name_scope = None
        _BlockScope._current.value = self._old_scope


def _scope(self):
    found = self.__dict__.get("_own_scope")
    if found is None:
        found = self.__dict__["_own_scope"] = _BlockScope(self)
    return found


def _cached_graph(self):
    """(inputs, outputs) as symbols of a hybridized block that has run, else ()."""
    if not self._active or not _core.Block._get_state(self)["seen"]:
        return ()
    graph = self._trace()
    from .. import symbol
    own = set(self.collect_params())
    return [symbol.var(name) for name in graph.list_inputs() if name not in own], graph


def _form(value):
    """A form of the library (None for an array) as _flatten writes it."""
    if value is None:
        return 0
    return [_form(part) for part in value] if isinstance(value, (list, tuple)) else value


def _in_format(self):
    forms = _core.Block._get_state(self)
    return None if not forms["seen"] else _form(forms["forms"][0]) if forms["forms"][0] is not None else \
        [0] * len(forms["seen"])


def _out_format(self):
    forms = _core.Block._get_state(self)
    return None if not forms["seen"] else _form(forms["forms"][1] or forms["forms"][2])


def add_to(block_class):
    """Gives the class of blocks these attributes, where it does not have them."""
    found = {
        "_name": property(lambda self: self.name), "_prefix": property(lambda self: self.prefix),
        "_empty_prefix": property(lambda self: _core.Block._get_state(self)["plain_scope"]),
        "_params": property(lambda self: self.params), "_scope": property(_scope), "_backend": None, "_backend_opts": {},
        "_cached_op": None, "_cached_op_args": [], "_callback": property(lambda self: self._watching[0]),
        "_monitor_all": property(lambda self: self._watching[1]), "_watching": (None, False),
        "_flags": property(lambda self: [("static_alloc", True)] if _core.Block._get_state(self)["static_alloc"] else []),
        "_cached_graph": property(_cached_graph), "_in_format": property(_in_format), "_out_format": property(_out_format),
        "_clear_cached_op": lambda self: self._forget(), "_check_container_with_block": lambda self: self._check_containers(),
    }
    for name, value in found.items():
        if not hasattr(block_class, name):
            setattr(block_class, name, value)
