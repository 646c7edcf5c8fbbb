"""A reader of pickled optimizer states that runs no code of the file.

A pickle is a program for a small stack machine, and pickle.loads() lets it call any function that can be imported.  Files of
optimizer states come from other people, too, so they are read here:

    pickletools.genops (decodes, checks lengths) -> _Machine (a stack and a memo) -> numbers, texts, containers, objects

The machine knows the operations that build containers, and the few functions by which MXNet, NumPy and this package restore
arrays and contexts (_FUNCTIONS).  Of classes it creates optimizers and schedules only, and only those that the program has
already imported (_class): their names are looked up, nothing is imported for a file.  Everything else is an error.
"""
import pickletools
import struct
import sys
from collections import OrderedDict

import numpy as _np

from . import _core
from .error import MXNetError


class PickleError(ValueError):
    """A pickle that is damaged or contains more than optimizer states do."""


class _Name:
    """A function or class that the file names."""

    def __init__(self, module, name):
        self.module, self.name = str(module), str(name)

    def __str__(self):
        return f"{self.module}.{self.name}"


class _Unfinished:
    """An object whose elements follow: `finish(state)` makes it; entries of the memo that refer to it are replaced then."""

    def __init__(self, finish):
        self.finish, self.places = finish, []


_MARK = object()


# ---- classes --------------------------------------------------------------------------------------------------------

def _class(name):
    """The class of that name, if it is one of those whose objects are states."""
    from .lr_scheduler import LRScheduler
    from .ndarray import NDArray
    from .optimizer.optimizer import Optimizer
    found = sys.modules.get(name.module)
    for part in name.name.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    if not (isinstance(found, type) and issubclass(found, (Optimizer, LRScheduler, NDArray))):
        raise PickleError(f"it contains {name}, which is neither an optimizer nor a schedule of this program")
    return found


def _new(name, args):
    """An object without attributes; arrays of MXNet are made of the bytes that follow."""
    from .ndarray import NDArray
    cls = _class(name)
    if issubclass(cls, NDArray):
        return _Unfinished(_mxnet_array)
    if args not in ((), (None,)):
        raise PickleError(f"{name} is created with arguments")
    return cls.__new__(cls)


def _mxnet_array(state):
    record = bytes(state["handle"])
    return _core.load_buffer(struct.pack("<QQQ", 0x112, 0, 1) + record + struct.pack("<Q", 0))[0]


def _set_state(made, state):
    """What a pickle calls BUILD, for objects of _new() only."""
    from .lr_scheduler import LRScheduler
    from .optimizer.optimizer import Optimizer
    if not isinstance(made, (Optimizer, LRScheduler)) or not isinstance(state, dict):
        raise PickleError(f"attributes for a {type(made).__name__}")
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
    else:
        made.__dict__.update(state)


# ---- functions ------------------------------------------------------------------------------------------------------

def _encode(text, encoding="latin1"):
    return text.encode({"latin1": "latin1", "utf8": "utf8"}[encoding])


def _array(cls, *rest):
    from .ndarray.ndarray import _rebuild
    return _rebuild(_class(cls), *rest)


def _np_array(cls, elements, ctx):
    from .numpy._methods import _rebuild
    return _rebuild(_class(cls), elements, str(ctx))


def _sparse(*parts):
    from .ndarray.sparse import _remake
    return _remake(*parts)


def _context(kind, number):
    from .context import Context
    return Context(kind, number)


class _Type(_Unfinished):
    """An element type of NumPy: its byte order follows."""

    def __init__(self, name, *unused):
        self.dtype = _np.dtype(str(name))
        if self.dtype.kind not in "biuf":
            raise PickleError(f"elements of NumPy's type {name!r}")
        super().__init__(lambda state: self.dtype.newbyteorder(state[1]))


def _numpy_type(given):
    return given.dtype if isinstance(given, _Type) else _np.dtype(given)


def _numpy_array(*unused):
    return _Unfinished(lambda state: _elements(state[4], state[2], state[1], "F" if state[3] else "C"))


def _elements(data, dtype, shape, order):
    return _np.frombuffer(data, _numpy_type(dtype)).reshape(shape, order=order).copy()


def _numpy_scalar(dtype, data):
    return _np.frombuffer(data, _numpy_type(dtype))[0]


_FUNCTIONS = {"_codecs.encode": _encode, "builtins.bytearray": bytes, "__builtin__.bytearray": bytes,
              "collections.OrderedDict": OrderedDict, "mxnet.context.Context": _context,
              "mxnet.ndarray.ndarray._rebuild": _array, "mxnet.numpy._methods._rebuild": _np_array,
              "mxnet.ndarray.sparse._remake": _sparse, "numpy.dtype": _Type}
for _module in ("numpy.core", "numpy._core"):
    _FUNCTIONS[f"{_module}.multiarray._reconstruct"] = _numpy_array
    _FUNCTIONS[f"{_module}.multiarray.scalar"] = _numpy_scalar
    _FUNCTIONS[f"{_module}.numeric._frombuffer"] = _elements


# ---- the machine ----------------------------------------------------------------------------------------------------

class _Machine:
    """Runs the operations of a pickle; `stack` is what was made and not used yet, _MARK begins a group."""

    def __init__(self):
        self.stack, self.memo = [], {}

    def run(self, data):
        for op, value, _ in pickletools.genops(data):
            if op.name in _VALUES:
                self.stack.append(value)
            elif op.name == "STOP":
                return self.stack.pop()
            elif op.name not in ("PROTO", "FRAME"):
                _OPERATIONS.get(op.name, _unknown)(self, value if op.name in _WITH_VALUE else op.name)
        raise PickleError("it has no end")

    def group(self):
        """What was pushed since the last mark."""
        at = len(self.stack) - 1
        while self.stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise PickleError("a group has no beginning")
        items = self.stack[at + 1:]
        del self.stack[at:]
        return items

    def remember(self, place):
        top = self.stack[-1]
        if isinstance(top, _Unfinished):
            top.places.append(place)
        self.memo[place] = top

    def top(self, wanted):
        if not isinstance(self.stack[-1], wanted):
            raise PickleError(f"elements for a {type(self.stack[-1]).__name__}")
        return self.stack[-1]

    def append_all(self, items):
        self.top(list).extend(items)

    def set_items(self, items):
        target = self.top(dict)
        for key, value in zip(items[::2], items[1::2]):
            target[key] = value

    def call(self, unused):
        args, name = self.stack.pop(), self.stack.pop()
        if not isinstance(name, _Name) or not isinstance(args, tuple):
            raise PickleError("a call of something that is no function")
        known = _FUNCTIONS.get(str(name))
        self.stack.append(known(*args) if known else _new(name, args))

    def create(self, unused):
        args, name = self.stack.pop(), self.stack.pop()
        if not isinstance(name, _Name):
            raise PickleError("an object of something that is no class")
        self.stack.append(_new(name, args))

    def build(self, unused):
        state, made = self.stack.pop(), self.stack.pop()
        if isinstance(made, _Unfinished):
            finished = made.finish(state)
            self.memo.update((place, finished) for place in made.places)
            made = finished
        else:
            _set_state(made, state)
        self.stack.append(made)

    def name(self, words):
        self.stack.append(_Name(*words.split(" ", 1)))

    def name_of_two(self, unused):
        name, module = self.stack.pop(), self.stack.pop()
        self.stack.append(_Name(module, name))

    def tuple_of(self, count):
        items = self.stack[len(self.stack) - count:]
        del self.stack[len(self.stack) - count:]
        self.stack.append(tuple(items))


def _unknown(machine, name):
    raise PickleError(f"the operation {name} occurs, which states do not need")


def _to_dict(items):
    return dict(zip(items[::2], items[1::2]))


_VALUES = frozenset("INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT UNICODE SHORT_BINUNICODE BINUNICODE BINUNICODE8 "
                    "STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8".split())
_WITH_VALUE = frozenset("PUT BINPUT LONG_BINPUT GET BINGET LONG_BINGET GLOBAL".split())
_OPERATIONS = {
    "NONE": lambda m, _: m.stack.append(None), "NEWTRUE": lambda m, _: m.stack.append(True),
    "NEWFALSE": lambda m, _: m.stack.append(False), "MARK": lambda m, _: m.stack.append(_MARK),
    "EMPTY_LIST": lambda m, _: m.stack.append([]), "EMPTY_DICT": lambda m, _: m.stack.append({}),
    "EMPTY_TUPLE": lambda m, _: m.stack.append(()), "LIST": lambda m, _: m.stack.append(m.group()),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.group())), "DICT": lambda m, _: m.stack.append(_to_dict(m.group())),
    "TUPLE1": lambda m, _: m.tuple_of(1), "TUPLE2": lambda m, _: m.tuple_of(2), "TUPLE3": lambda m, _: m.tuple_of(3),
    "APPEND": lambda m, _: m.append_all([m.stack.pop()]), "APPENDS": lambda m, _: m.append_all(m.group()),
    "SETITEM": lambda m, _: m.set_items([m.stack.pop(-2), m.stack.pop()]), "SETITEMS": lambda m, _: m.set_items(m.group()),
    "MEMOIZE": lambda m, _: m.remember(len(m.memo)), "REDUCE": _Machine.call, "NEWOBJ": _Machine.create,
    "BUILD": _Machine.build, "GLOBAL": _Machine.name, "STACK_GLOBAL": _Machine.name_of_two,
}
for _op in ("PUT", "BINPUT", "LONG_BINPUT"):
    _OPERATIONS[_op] = _Machine.remember
for _op in ("GET", "BINGET", "LONG_BINGET"):
    _OPERATIONS[_op] = lambda m, place: m.stack.append(m.memo[place])


def read(data):
    """The object in a pickle of optimizer states."""
    try:
        return _Machine().run(data)
    except PickleError as error:
        raise PickleError(f"this pickle cannot be read as optimizer states: {error}") from None
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, struct.error, UnicodeError, MXNetError) as error:
        raise PickleError(f"this pickle of optimizer states is damaged: {error}") from None
