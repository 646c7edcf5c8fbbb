"""Pages of Python modules: their public classes and functions with signatures and docstrings.

SPDX-License-Identifier: Apache-2.0
"""
import importlib
import inspect
import pkgutil

from markup import ORPHAN, call, code, prose

# Operators have pages of their own; old names of modules are aliases.
LEFT_OUT = ("mxnet._", "mxnet.ndarray.", "mxnet.symbol.", "mxnet.notebook", "mxnet.torch", "mxnet.rtc", "mxnet.test_utils",
            "mxnet.tools")


def modules():
    """{name: module} of what programs import."""
    package = importlib.import_module("mxnet")
    found = {}
    for info in pkgutil.walk_packages(package.__path__, "mxnet."):
        if any(part.startswith("_") for part in info.name.split(".")[1:]) or info.name.startswith(LEFT_OUT):
            continue
        try:
            found[info.name] = importlib.import_module(info.name)
        except ImportError:
            continue
    return found


def _members(module, known):
    """Public classes and functions whose page is this one: of this module, or of a private one that it shows to programs."""
    from mxnet import _core
    for name, value in sorted(vars(module).items(), key=lambda item: item[0].lower()):
        if name.startswith("_") or inspect.ismodule(value) or not callable(value):
            continue
        home = getattr(value, "__module__", None) or ""
        if isinstance(value, _core.Op) and not home:  # a page of its own
            continue
        if home.split(".")[0] not in ("mxnet", ""):
            continue
        elsewhere = home != module.__name__ and getattr(known.get(home), getattr(value, "__name__", name), None) is value
        if not elsewhere:
            yield name, value


def _signature(value):
    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(...)"


def _doc(value):
    doc = inspect.getdoc(value) if not inspect.isclass(value) else value.__doc__ and inspect.cleandoc(value.__doc__)
    return code("text", *doc.splitlines()) if doc else ""


def _methods(cls):
    for name, value in sorted(vars(cls).items()):
        if name.startswith("_") or not (inspect.isroutine(value) or isinstance(value, property)):
            continue
        doc = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")
        signature = "" if isinstance(value, property) else _signature(value)
        yield f"- `{name}{signature}`" + (f": {prose(doc)}" if doc else "")


def page(name, module, known):
    members = list(_members(module, known))
    if not members:
        return None
    doc = (inspect.getdoc(module) or "").replace("SPDX-License-Identifier: Apache-2.0", "").strip()
    parts = [ORPHAN, f"# {prose(name)}", "", prose(doc.split("\n\n")[0]), ""]
    for member, value in members:
        kind = "class " if inspect.isclass(value) else ""
        parts += [f"## {prose(member)}", "", code("python", *call(f"{kind}{name}.{member}{_signature(value)}")), _doc(value)]
        if inspect.isclass(value):
            parts += [*_methods(value), ""]
    return "\n".join(parts)


def write(folder):
    folder.mkdir()
    pages = []
    known = modules()
    for name, module in sorted(known.items()):
        text = page(name, module, known)
        if text:
            (folder / f"{name}.md").write_text(text)
            pages.append(name)
    (folder / "index.md").write_text("# Python modules\n\nClasses and functions by module. Operators (`mx.nd`, `mx.sym`) have "
                                     "[pages of their own](../operators/index.md).\n\n" +
                                     "\n".join(f"- [{prose(name)}]({name}.md)" for name in pages) + "\n")
