"""Writes type stubs (.pyi) of the Python package from the library's descriptions.

    pystubs.py FOLDER    FOLDER holds the package mxnet, ready to be imported

The build runs it on the staged package; editors and type checkers then know every operator with its inputs,
attributes, defaults and documentation.  SPDX-License-Identifier: Apache-2.0
"""
import importlib
import inspect
import json
import keyword
import os
import sys

TYPES = {"bool": "Union[bool, int, str]", "int": "Union[int, str]", "float": "Union[float, str]", "dtype": "Any",
         "tuple": "_Dims", "floats": "Union[float, Sequence[float], str]", "str": "str", "context": "Any"}
HEAD = '''# Made by tools/pystubs.py from the library's descriptions.
from typing import Any, Literal, Optional, Sequence, Union

from {core} import NDArray

_Dims = Union[int, Sequence[Optional[int]], str]
'''


def annotation(attribute):
    """The type of an attribute."""
    if attribute.get("choices"):
        return f"Optional[Literal[{', '.join(repr(c) for c in attribute['choices'])}]]"
    kind = TYPES.get(attribute["type"], "Any")
    return kind if kind == "Any" else f"Optional[{kind}]"


def parameters(described, front):
    """Parameters of an operator as text; `front` holds what comes first ("self")."""
    listed = [i for i in described["inputs"] if i.get("list")]
    parts = list(front)
    for item in described["inputs"]:
        if item.get("list"):
            parts.append(f"*{item['name']}: NDArray")
        else:
            parts.append(f"{item['name']}: Optional[NDArray] = ...")
    taken = {i["name"] for i in described["inputs"]}
    for attribute in described["attributes"]:
        if keyword.iskeyword(attribute["name"]) or attribute["name"] in taken:
            continue
        parts.append(f"{attribute['name']}: {annotation(attribute)} = ...")
    if not listed:
        parts.append("*")
    return ", ".join(parts + ["out: Any = ...", "name: Optional[str] = ...", "**kwargs: Any"])


def operator(name, op, indent="", method=False):
    """The stub of an operator; as a method its first input is self."""
    described = json.loads(op.description)
    outputs = described.get("outputs", ["output"])
    result = "NDArray" if len(outputs) == 1 and "*" not in outputs[0] else "Any"
    if method:
        described["inputs"] = described["inputs"][1:]
    text = described["doc"].replace("\\", "\\\\").replace('"""', "'''")
    return (f"{indent}def {name}({parameters(described, ['self'] if method else [])}) -> {result}:\n"
            f'{indent}    """{text}"""\n')


def function(name, value, indent=""):
    """The stub of a Python or C function."""
    try:
        signature = str(inspect.signature(value))
    except (TypeError, ValueError):
        signature = "(*args: Any, **kwargs: Any)"
    signature = signature.replace("_Null", "...").replace("<class 'mxnet.ndarray.NDArray'>", "...")
    text = (inspect.getdoc(value) or "").replace('"""', "'''").replace("\\", "\\\\")
    return f'{indent}def {name}{signature} -> Any:\n{indent}    """{text}"""\n'


def module(name, package="mxnet.ndarray"):
    """Stub of a module: its operators and functions."""
    core = importlib.import_module("mxnet._core")
    loaded = importlib.import_module(package + ("." + name if name else ""))
    lines = [HEAD.format(core="mxnet._core")]
    for key in sorted(vars(loaded)):
        value = getattr(loaded, key)
        if keyword.iskeyword(key) or (key.startswith("_") and name != "_internal") or not key.isidentifier():
            continue
        if isinstance(value, core.Op):
            lines.append(operator(key, value))
        elif inspect.isroutine(value):
            lines.append(function(key, value))
        elif inspect.isclass(value) and value.__module__.startswith("mxnet.ndarray.sparse"):
            lines.append(f"class {key}: ...\n")
    lines.append("def __getattr__(name: str) -> Any: ...\n")
    return "\n".join(lines)


def array_class():
    """Stub of mxnet._core: the class NDArray, and everything else as Any."""
    core = importlib.import_module("mxnet._core")
    importlib.import_module("mxnet.ndarray")
    lines = [HEAD.replace("\nfrom {core} import NDArray\n", ""), "class NDArray:", '    """An array of numbers."""']
    for key, value in sorted(vars(core.NDArray).items()):
        if key in ("__doc__", "__new__", "__module__", "__hash__", "__getstate__", "__getattribute__"):
            continue
        if isinstance(value, core.Op):
            lines.append(operator(key, value, "    ", method=True))
        elif inspect.isgetsetdescriptor(value):
            lines.append(f"    @property\n    def {key}(self) -> Any: ...\n")
        elif callable(value):
            lines.append(f"    def {key}(self, *args: Any, **kwargs: Any) -> Any: ...\n")
    lines.append("def __getattr__(name: str) -> Any: ...\n")
    return "\n".join(lines)


def main():
    folder = os.path.abspath(sys.argv[1])
    sys.path.insert(0, folder)
    package = os.path.join(folder, "mxnet")
    stubs = {f"ndarray/{name}.pyi": module(name) for name in
             ("op", "_internal", "random", "linalg", "contrib", "image", "sparse")}
    stubs["ndarray/__init__.pyi"] = module("") + "\nfrom . import contrib, image, linalg, op, random, sparse\n"
    stubs["_core.pyi"] = array_class()
    for path, text in stubs.items():
        compile(text, path, "exec")  # a stub must at least be Python
        with open(os.path.join(package, path), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
