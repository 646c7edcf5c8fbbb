"""Registries of classes by name, and classes created from the library's descriptions."""
from . import _core
from .base import MXNetError

_registries = {}


def get_registry(base_class):
    """A copy of the registry of a base class: a dict from lower-case names to classes."""
    return dict(_registries.setdefault(base_class, {}))


def get_register_func(base_class, nickname):
    """A decorator that registers subclasses of base_class under their name in lower case."""
    registry = _registries.setdefault(base_class, {})

    def register(klass, name=None):
        if not (isinstance(klass, type) and issubclass(klass, base_class)):
            kind = TypeError if not isinstance(klass, type) else AssertionError
            raise kind(f"{nickname}.register: {klass!r} is not a subclass of {base_class.__name__}")
        registry[(name or klass.__name__).lower()] = klass
        return klass

    register.__doc__ = f"Registers a {nickname} class, so that create() and text options find it by name."
    return register


def get_alias_func(base_class, nickname):
    """A decorator that registers a class under further names."""
    register = get_register_func(base_class, nickname)

    def alias(*names):
        def under_names(klass):
            for name in names:
                register(klass, name)
            return klass
        return under_names

    alias.__doc__ = f"Registers a {nickname} class under further names."
    return alias


def get_create_func(base_class, nickname):
    """A function that creates objects from a name, JSON text '["name", {...}]', a dict, or an object itself."""
    registry = _registries.setdefault(base_class, {})

    def create(*args, **kwargs):
        name, args = (args[0], args[1:]) if args else (kwargs.pop(nickname), args)
        if isinstance(name, base_class):
            if args or kwargs:
                raise AssertionError(f"{nickname} is already an object: it takes no further arguments")
            return name
        if isinstance(name, dict):
            return create(**name)
        if not isinstance(name, str):
            raise AssertionError(f"{nickname}: expected a name, got {type(name).__name__}")
        if name[:1] in "[{" and name:
            import json
            if args or kwargs:
                raise AssertionError(f"{nickname}: JSON text takes no further arguments")
            parsed = json.loads(name)
            return create(**parsed) if isinstance(parsed, dict) else create(parsed[0], **parsed[1])
        if name.lower() not in registry:
            raise AssertionError(f"there is no {nickname} named '{name}'{_advice(name.lower(), registry)}")
        return registry[name.lower()](*args, **kwargs)

    create.__doc__ = f"Creates a {nickname} from a name and arguments, JSON text, or an object (returned unchanged)."
    return create


# ---- classes from descriptions of the library -----------------------------------------------------------------------

def _advice(name, known):
    """"; did you mean ...?" with the known name that is closest, or whose initials it is (lr: learning_rate)."""
    import difflib
    known = list(known)
    close = difflib.get_close_matches(name, known, 1)
    if not close and len(name) > 1:
        close = [k for k in known if "".join(word[:1] for word in k.split("_")) == name]
    return f"; did you mean '{close[0]}'?" if close else ""


def unknown_option(who, name, known):
    """Raises the error for a keyword that a class does not have."""
    raise TypeError(f"{who}: unknown keyword '{name}'{_advice(name, known)} (it takes {', '.join(known) or 'none'})")


def row_classes(kind, base, row_type, module, orders=None, parents=None, extra=(), hidden=()):
    """Classes of all descriptions of a kind; each __init__ has the right signature and calls self._begin(options, rest).

    orders: positional parameters where they differ from the description's; parents: other base classes; extra: (name,
    default) of parameters that only Python has; hidden: options passed in **kwargs, in addition to those that the
    description takes by name only.  Yields (class, aliases).
    """
    made = {}
    for name, aliases, doc, options, by_name in _core.class_rows(kind):
        rest = set(hidden).union(option[0] for option in options[len(options) - by_name:])
        defaults = {option: default for option, default, _, _ in options}
        required = {option for option, _, needed, _ in options if needed}
        defaults.update(extra)
        order = (orders or {}).get(name) or [o for o in defaults if o not in rest]
        parent = made[parents[name]] if parents and name in parents else None
        bases = (parent,) if parent else (base, row_type)
        text = _text(doc, options, rest)
        cls = type(name, bases, {"__module__": module, "__doc__": text, "_row": name,
                                 "__init__": _init_of(name, order, defaults, required)})
        made[name] = cls
        yield cls, aliases.split()


def _text(doc, options, hidden):
    lines = [doc[:1].upper() + doc[1:] + ".", ""]
    for option, default, required, about in options:
        if option not in hidden:
            lines.append(f"{option}: {about}" + ("" if required else f" (default {default!r})"))
    return "\n".join(lines)


def _init_of(name, order, defaults, required):
    last = max((i for i, o in enumerate(order) if o in required), default=-1)
    required = set(order[:last + 1])  # a parameter before a required one cannot have a default
    head = ", ".join(o if o in required else f"{o}={defaults[o]!r}" for o in order)
    body = ", ".join(f"'{o}': {o}" for o in order)
    source = f"def __init__(self{', ' if head else ''}{head}, **kwargs):\n    self._begin({{{body}}}, kwargs)\n"
    space = {}
    exec(compile(source, f"<{name}>", "exec"), space)
    function = space["__init__"]
    function.__qualname__ = f"{name}.__init__"
    return function


__all__ = ["get_registry", "get_register_func", "get_alias_func", "get_create_func", "MXNetError"]
