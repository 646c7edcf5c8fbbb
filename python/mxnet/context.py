"""Contexts: the devices on which arrays are stored and operators run."""
from _thread import _local

from . import _core

_TYPES = {1: "cpu", 2: "gpu", 3: "cpu_pinned", 5: "cpu_shared"}
_NUMBERS = {name: number for number, name in _TYPES.items()}
_entered = _local()  # .outer: the contexts around this thread's `with` blocks


class _Default:
    """Context._default_ctx: the current context of the thread as an attribute `value`."""

    @property
    def value(self):
        return _core.current_context()

    @value.setter
    def value(self, context):
        _core.set_current_context(context)


class _ContextType(type):
    """Gives the class its property default_ctx."""

    @property
    def default_ctx(cls):
        """The current context."""
        return _core.current_context()

    @default_ctx.setter
    def default_ctx(cls, context):
        _core.set_current_context(context)


class Context(metaclass=_ContextType):
    """A device: Context('gpu', 0), or mx.gpu(0).  As a `with` block it is the default for arrays created inside."""

    __slots__ = ("device_typeid", "device_id", "__weakref__")
    _default_ctx = _Default()
    devtype2str = _TYPES
    devstr2type = _NUMBERS

    def __init__(self, device_type, device_id=0):
        if isinstance(device_type, Context):
            self.device_typeid, self.device_id = device_type.device_typeid, device_type.device_id
            return
        number = device_type if isinstance(device_type, int) else _NUMBERS.get(device_type)
        if number not in _TYPES:
            from .registry import _advice
            raise KeyError(f"Context: unknown device type {device_type!r}{_advice(str(device_type), _NUMBERS) or ';'} "
                           f"there are {', '.join(_NUMBERS)}")
        if not hasattr(device_id, "__index__"):
            raise TypeError(f"Context: device_id must be an int, got {type(device_id).__name__}")
        self.device_typeid = number
        self.device_id = device_id.__index__()

    @property
    def device_type(self):
        """'cpu', 'gpu', 'cpu_pinned' or 'cpu_shared'."""
        return _TYPES[self.device_typeid]

    @staticmethod
    def from_text(text):
        """The Context for 'gpu(0)' or 'gpu'."""
        name, _, rest = text.partition("(")
        number = rest.rstrip(")") or "0"
        if not number.isdigit():
            raise ValueError(f"Context: {text!r} is not of the form 'cpu(0)'")
        return Context(name, int(number))

    def __hash__(self):
        return hash((self.device_typeid, self.device_id))

    def __eq__(self, other):
        return (isinstance(other, Context) and self.device_typeid == other.device_typeid
                and self.device_id == other.device_id)

    def __repr__(self):
        return f"{self.device_type}({self.device_id})"

    def __reduce__(self):
        return Context, (self.device_type, self.device_id)

    def __enter__(self):
        if not hasattr(_entered, "outer"):
            _entered.outer = []
        _entered.outer.append(_core.set_current_context(self))
        return self

    def __exit__(self, *unused):
        _core.set_current_context(_entered.outer.pop())

    @property
    def _old_ctx(self):
        """The context around this one's innermost `with` block in this thread; None outside of one."""
        outer = getattr(_entered, "outer", None)
        return outer[-1] if outer and self == _core.current_context() else None

    def empty_cache(self):
        """Returns memory of the device that no array uses to the system."""
        _core.empty_cache(self)


_core.set_context_class(Context)


def cpu(device_id=0):
    """The CPU."""
    return Context("cpu", device_id)


def cpu_pinned(device_id=0):
    """Host memory from which copies to a GPU are fast."""
    return Context("cpu_pinned", device_id)


def gpu(device_id=0):
    """A GPU."""
    return Context("gpu", device_id)


def num_gpus():
    """The number of GPUs that this process can use."""
    return _core.num_gpus()


def gpu_memory_info(device_id=0):
    """(free, total) bytes of a GPU."""
    return _core.memory_info(gpu(device_id))


def gpu_memory_used(device_id=0):
    """(current, peak) bytes that arrays and kernels of this process use on a GPU, without cached memory."""
    return _core.memory_used(gpu(device_id))


def current_context():
    """The context of the innermost `with` block; cpu(0) by default."""
    return _core.current_context()
