"""Copies and pickles of objects that wrap the library's.

Such an object has two parts: what the library holds (`_core_state()`, restored by `_set_core_state(state)`) and its Python
attributes.  A pickle is

    _blank(class)                        an object without either, before the parts: an object may contain itself
    restore(object, (core, attributes))  the library's part first; then __setstate__ if the class has one; then
                                         _restored() if the class has one

so unpickling calls no function but these two, and no constructor.  A subclass may define __getstate__ and __setstate__ for
its attributes as usual.  A member that cannot be copied or pickled is named in the error.
"""
import copy
import io
import pickle
import sys

_ROOTS = []  # classes that _blank() creates objects of
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_OTHER_PICKLERS = ("cloudpickle", "dill", "multiprocess")  # they pickle more than the pickle module does


def supports(cls, skip=()):
    """Gives a class copy.copy, copy.deepcopy and pickle; the attributes `skip` are left out."""
    _ROOTS.append(cls)
    cls._not_copied = tuple(skip)
    cls.__reduce__ = _reduce
    cls.__deepcopy__ = _deepcopy
    if "__copy__" not in cls.__dict__:
        cls.__copy__ = _copy


def _blank(cls):
    if not (isinstance(cls, type) and issubclass(cls, tuple(_ROOTS))):
        raise pickle.UnpicklingError(f"expected a class of this package or a subclass of one, got {cls!r}")
    return cls.__new__(cls)


def restore(made, state):
    """Gives a blank object its two parts."""
    if not isinstance(made, tuple(_ROOTS)):
        raise pickle.UnpicklingError(f"expected an object of this package, got {type(made).__name__}")
    core, attributes = state
    made._set_core_state(core)
    if hasattr(made, "__setstate__"):
        made.__setstate__(attributes)
    elif attributes:
        made.__dict__.update(attributes)
    if hasattr(made, "_restored"):
        made._restored()


def _attributes(self):
    """What __getstate__ returns if the class defines it, else the attributes."""
    own = getattr(type(self), "__getstate__", None)
    if own is not None and own is not getattr(object, "__getstate__", None):
        return own(self)
    return {key: value for key, value in self.__dict__.items() if key not in self._not_copied}


def _reduce(self):
    core, attributes = self._core_state(), _attributes(self)
    _check_members(self, attributes)
    return _blank, (type(self),), (core, attributes), None, None, restore


def _copy(self):
    made = _blank(type(self))
    restore(made, (self._core_state(), _attributes(self)))
    return made


def _deepcopy(self, memo):
    made = memo[id(self)] = _blank(type(self))
    core, attributes = copy.deepcopy(self._core_state(), memo), _attributes(self)
    if isinstance(attributes, dict):
        attributes = {key: _member(self, key, value, memo) for key, value in attributes.items()}
    else:
        attributes = copy.deepcopy(attributes, memo)
    restore(made, (core, attributes))
    return made


class MemberError(TypeError, pickle.PicklingError):
    """A member that cannot be copied or pickled."""


def _named(self):
    return f"{getattr(self, 'name', None) or '(unnamed)'} ({type(self).__name__})"


def _member(self, key, value, memo):
    try:
        return copy.deepcopy(value, memo)
    except MemberError:
        raise
    except (TypeError, ValueError, NotImplementedError, pickle.PicklingError) as error:
        raise MemberError(f"{_named(self)}: attribute '{key}', a {type(value).__name__}, cannot be copied: {error}") from None


# ---- which member cannot be pickled ---------------------------------------------------------------------------------

def _pickler():
    from multiprocessing.reduction import ForkingPickler

    class Trial(ForkingPickler):
        """Pickles a member to see whether it can be; objects of this package check their own members."""

        def persistent_id(self, value):
            return id(value) if isinstance(value, _OURS) else None

    return Trial


_OURS = ()
_TRIAL = None


def _check_members(self, attributes):
    """An error that names the first member that cannot be pickled."""
    global _OURS, _TRIAL
    if not isinstance(attributes, dict) or _extended():
        return
    if _TRIAL is None:
        from . import _core
        _OURS, _TRIAL = tuple(_ROOTS) + (_core.NDArray, _core.Symbol), _pickler()
    for key, value in attributes.items():
        if isinstance(value, _PLAIN + _OURS) or type(value).__module__ == "numpy":
            continue
        try:
            _TRIAL(io.BytesIO(), pickle.HIGHEST_PROTOCOL).dump(value)
        except MemberError:
            raise
        except Exception as error:
            raise MemberError(f"{_named(self)}: attribute '{key}', a {type(value).__name__}, cannot be pickled: {error}; "
                              "leave it out in __getstate__, or use cloudpickle") from None


def _extended():
    """Whether a pickler is at work that can do more than the pickle module."""
    frame, depth = sys._getframe(2), 0
    while frame is not None and depth < 50:
        if frame.f_globals.get("__name__", "").split(".")[-1].startswith(_OTHER_PICKLERS) or \
                "cloudpickle" in frame.f_globals.get("__name__", ""):
            return True
        frame, depth = frame.f_back, depth + 1
    return False
