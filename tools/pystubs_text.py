"""The text of stubs: operators and layers from their descriptions, functions and classes as Python sees them.

SPDX-License-Identifier: Apache-2.0
"""
import ast
import inspect
import json
import keyword
import re
import textwrap

import pystubs_facts as facts

P = inspect.Parameter


class Writer:
    """Writes definitions; `homes` says where the classes are that they refer to."""

    def __init__(self, core, homes, found):
        self.core, self.homes, self.found = core, homes, found

    # ---- pieces ----------------------------------------------------------------------------------------------------

    @staticmethod
    def doc(text):
        """A docstring, quoted."""
        text = (text or "").replace("\\", "\\\\").replace('"""', "'''")
        return f'"""{text}{" " if text.endswith(chr(34)) else ""}"""'

    @staticmethod
    def used(text):
        """Modules of ours that the annotations of a definition name."""
        return {name.rpartition(".")[0] for name in re.findall(r"(?<![\w.])mxnet(?:\.\w+)+", text)}

    @staticmethod
    def constant(value):
        kinds = {bool: "builtins.bool", int: "builtins.int", float: "builtins.float", str: "builtins.str"}
        return kinds.get(type(value), "_t.Any")

    @staticmethod
    def attribute(described):
        """The type of a described attribute."""
        if described.get("choices"):
            known = ", ".join(repr(choice) for choice in described["choices"])
            return f"_t.Union[_t.Literal[{known}], builtins.str, None]"
        kind = facts.ATTRIBUTES.get(described["type"])
        return f"_t.Optional[{kind}]" if kind else "_t.Any"

    # ---- operators -------------------------------------------------------------------------------------------------

    def inputs(self, described, kind, symbolic):
        """Parameters for the inputs of an operator; on symbols, inputs that are left out become variables."""
        must = not symbolic
        for item in described["inputs"]:
            must = must and not item.get("optional")
            if item.get("list"):
                yield f"*{item['name']}: {kind}"
            else:
                yield f"{item['name']}: {kind}" if must else f"{item['name']}: _t.Optional[{kind}] = ..."

    def operator(self, name, op, indent="", method=False):
        """The stub of an operator; as a method its first input is self."""
        described = json.loads(op.description)
        kind = facts.SYMBOL if op.symbolic else facts.NUMPY_ARRAY if op.np else facts.ARRAY
        accepted = "_t.Any" if op.np else kind  # mx.np takes arrays, numbers, lists and symbols
        if method:
            described["inputs"] = described["inputs"][1:]
        parts = (["self"] if method else []) + list(self.inputs(described, accepted, op.symbolic))
        taken = {item["name"] for item in described["inputs"]}
        must = not any("= ..." in part or part.startswith("*") for part in parts)
        for attribute in described["attributes"]:
            if keyword.iskeyword(attribute["name"]) or attribute["name"] in taken:
                continue
            must = must and bool(attribute.get("required"))
            parts.append(f"{attribute['name']}: {self.attribute(attribute)}" + ("" if must else " = ..."))
            taken.add(attribute["name"])
        if not any(part.startswith("*") for part in parts):
            parts.append("*")
        extra = ["out: _t.Any = ..."] + (facts.NODE if op.symbolic else facts.NODE[:1])
        parts += [part for part in extra if part.split(":")[0] not in taken]
        one = described.get("visible_outputs", 1) == 1
        return (f"{indent}def {name}({', '.join(parts)}) -> {kind if one else '_t.Any'}:\n"
                f"{indent}    {self.doc(described['doc'])}\n")

    # ---- functions -------------------------------------------------------------------------------------------------

    def parameters(self, function, name, owner=None, symbolic=False):
        """Parameters of a Python function, its **kwargs replaced by those of where they go; None: unknown."""
        try:
            found = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            return None
        if not found or found[-1].kind != P.VAR_KEYWORD or self.is_open(name, owner):
            return found
        taken = {p.name for p in found}
        extra = [p.replace(kind=P.KEYWORD_ONLY) for p in self.handed(name, owner)
                 if p.name not in taken and p.kind in (P.POSITIONAL_OR_KEYWORD, P.KEYWORD_ONLY)]
        if symbolic:
            extra += [P(part.split(":")[0], P.KEYWORD_ONLY, default=None) for part in facts.NODE
                      if part.split(":")[0] not in taken]
        return found[:-1] + extra

    @staticmethod
    def is_open(name, owner):
        owners = [cls.__name__ for cls in owner.__mro__] if owner else []
        if name == "__init__":  # a base may be open: its subclasses say what they take
            owners = owners[:1]
        return name in facts.OPEN or any(f"{one}.{name}" in facts.OPEN for one in owners)

    def handed(self, name, owner):
        """Parameters of the function to which the keywords of owner.name are handed."""
        target = facts.HANDED.get(f"{owner.__name__}.{name}" if owner else name)
        if target:
            parts = target.split(".")
            value = self.found[".".join(parts[:2])]
            for part in parts[2:]:
                value = getattr(value, part)
            return [p for p in self.parameters(value.__init__ if inspect.isclass(value) else value, "", None) or []
                    if p.name != "self"]
        if owner is None or name != "__init__":
            return []
        for base in owner.__mro__[1:]:  # super().__init__(**kwargs)
            if "__init__" in vars(base):
                if base is object or base.__module__ == "mxnet._core":
                    break
                return [p for p in self.parameters(vars(base)["__init__"], name, base) or [] if p.name != "self"]
        return []

    @staticmethod
    def parameter(p, first):
        """One parameter as text."""
        star = {P.VAR_POSITIONAL: "*", P.VAR_KEYWORD: "**"}.get(p.kind, "")
        if first and p.name in ("self", "cls"):
            return p.name
        kind = "_t.Optional[_t.Bool]" if isinstance(p.default, bool) else "_t.Any"
        return f"{star}{p.name}: {kind}" + ("" if p.default is P.empty else " = ...")

    def signature(self, found):
        """(text of parameters); the markers / and * where they belong."""
        if found is None:
            return "*args: _t.Any"
        parts, star = [], False
        for i, p in enumerate(found):
            if keyword.iskeyword(p.name):
                continue
            if p.kind == P.KEYWORD_ONLY and not star:
                parts.append("*")
            star = star or p.kind in (P.KEYWORD_ONLY, P.VAR_POSITIONAL)
            if i and found[i - 1].kind == P.POSITIONAL_ONLY and p.kind != P.POSITIONAL_ONLY:
                parts.append("/")
            parts.append(self.parameter(p, i == 0))
        if found and found[-1].kind == P.POSITIONAL_ONLY:
            parts.append("/")
        return ", ".join(parts)

    def function(self, name, value, module):
        """The stub of a function of a module."""
        found = self.parameters(value, name, symbolic=module.startswith("mxnet.symbol"))
        model = self.model_options(value, module)
        parts = model if model is not None else self.signature(found)
        result = "mxnet.gluon.block.HybridBlock" if model is not None else self.result(name, module)
        return f"def {name}({parts}) -> {result}:\n    {self.doc(inspect.getdoc(value))}\n"

    @staticmethod
    def result(name, module):
        """What a function returns; the table names the package that offers it."""
        places = (module, module.rpartition(".")[0])
        return next((facts.RETURNS[f"{m}.{name}"] for m in places if f"{m}.{name}" in facts.RETURNS), "_t.Any")

    def model_options(self, value, module):
        """Keywords of a function of the model zoo: those of the network's class and of loading; None for others."""
        if not module.startswith("mxnet.gluon.model_zoo.") or not hasattr(value, "__wrapped_model__"):
            return None
        if module == "mxnet.gluon.model_zoo.text":
            cls, fixed = self.found[module]._MODELS[value.__wrapped_model__]
            return ", ".join(["*"] + self.options(self.found[module]._CLASSES[cls]))
        build = self.found["mxnet.gluon.model_zoo.vision._build"]
        cls, fixed = build.MODELS[value.__wrapped_model__]
        taken = set(fixed) | {"pretrained", "ctx", "root"}
        options = [part for part in self.options(build.CLASSES[cls]) if part.split(":")[0] not in taken]
        loading = ["pretrained: _t.Bool = ...", "ctx: _t.Any = ...", "root: builtins.str = ..."]
        return ", ".join(["*"] + loading + options)

    # ---- classes ---------------------------------------------------------------------------------------------------

    def options(self, cls):
        """Constructor parameters of a described layer."""
        address = next((vars(c)["_address"] for c in cls.__mro__ if vars(c).get("_address") is not None), None)
        described = json.loads(self.core.describe_class(address))
        parts, must = [], True
        for option in described.get("options", described.get("attributes", [])):
            must = must and bool(option.get("required"))
            parts.append(f"{option['name']}: {self.attribute(option)}" + ("" if must else " = ..."))
        return parts + ["prefix: _t.Optional[builtins.str] = ...", "params: _t.Any = ..."]

    def is_described(self, cls):
        """Whether the constructor's parameters are in a description."""
        return vars(cls).get("_address") is not None and hasattr(cls, "_start_layer") and "__signature__" in vars(cls)

    def bases(self, cls):
        names = []
        for base in cls.__bases__:
            home = self.homes.of(base)
            if home:
                names.append(".".join(home))
            elif base.__module__ == "builtins" and base is not object:
                names.append(base.__name__)
        return f"({', '.join(names)})" if names else ""

    def method(self, cls, name, value):
        """One method; static and class methods included."""
        head = "    @staticmethod\n" if isinstance(value, staticmethod) else \
            "    @classmethod\n" if isinstance(value, classmethod) else ""
        plain = getattr(value, "__func__", value)
        known = next((facts.METHODS[f"{c.__name__}.{name}"] for c in cls.__mro__ if f"{c.__name__}.{name}" in facts.METHODS),
                     None)
        if known is None and name in facts.SPECIAL and not inspect.isfunction(plain):
            kind = "_t.Any" if cls.__name__ in facts.ITEMS else ".".join(self.homes.of(cls) or ("_t", "Any"))
            known = facts.SPECIAL[name].format(kind)
        if known is None:
            if name.startswith("__") and not inspect.isfunction(plain):
                return ""
            found = self.parameters(plain, name, cls)
            result = next((facts.RETURNS[f"{c.__name__}.{name}"] for c in cls.__mro__
                           if f"{c.__name__}.{name}" in facts.RETURNS), "None" if name == "__init__" else "_t.Any")
            parts = ("self, " if found is None and not head else "") + self.signature(found)
            known = f"({parts}) -> {result}"
        text = inspect.getdoc(plain) if not name.startswith("__") else None
        body = f":\n        {self.doc(text)}\n" if text else ": ...\n"
        return f"{head}    def {name}{known}{body}"

    def member(self, cls, name, value):
        if isinstance(value, self.core.Op):
            return self.operator(name, value, "    ", method=True)
        if isinstance(value, property):
            setter = f"    @{name}.setter\n    def {name}(self, value: _t.Any) -> None: ...\n" if value.fset else ""
            return f"    @builtins.property\n    def {name}(self) -> _t.Any: ...\n{setter}"
        if inspect.isgetsetdescriptor(value) or inspect.ismemberdescriptor(value):
            return f"    {name}: {facts.PROPERTIES.get(f'{cls.__name__}.{name}', '_t.Any')}\n"
        if inspect.isclass(value):
            return f"    {name}: _t.Any\n"
        if callable(value) or isinstance(value, (staticmethod, classmethod)):
            return self.method(cls, name, value)
        return f"    {name}: _t.Any\n"

    def assigned(self, cls):
        """Names that the methods of a Python class assign to self."""
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
        except (OSError, TypeError, SyntaxError):
            return set()
        return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and
                isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self"}

    def cls(self, name, value):
        """The stub of a class."""
        lines = [f"class {name}{self.bases(value)}:", f"    {self.doc(inspect.getdoc(value))}"]
        skipped = {"__doc__", "__module__", "__new__", "__hash__", "__getstate__", "__getattribute__", "__dict__",
                   "__weakref__", "__signature__", "__qualname__", "__class_getitem__", "__slots__"}
        members = {key: member for key, member in vars(value).items() if key not in skipped and not keyword.iskeyword(key)
                   and (not key.startswith("__") or callable(member))}
        if self.is_described(value):
            lines.append(f"    def __init__(self, {', '.join(self.options(value))}) -> None: ...\n")
            lines.append("    def __getattr__(self, name: builtins.str) -> _t.Any: ...\n")  # weight, bias ...
            members.pop("__init__", None)
        if type(value).__module__.startswith("mxnet"):  # properties of the class itself
            lines += [f"    {key}: _t.Any\n" for key, member in vars(type(value)).items() if isinstance(member, property)]
        for key, member in sorted(members.items()):
            lines.append(self.member(value, key, member))
        known = {key for c in value.__mro__ for key in vars(c)}
        lines += [f"    {key}: _t.Any" for key in sorted(self.assigned(value) - known)]
        return "\n".join(line for line in lines if line) + "\n"

    def define(self, name, value, module):
        if isinstance(value, self.core.Op):
            return self.operator(name, value)
        return self.cls(name, value) if inspect.isclass(value) else self.function(name, value, module)
