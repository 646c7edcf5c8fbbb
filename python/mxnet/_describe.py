"""Documentation and signatures, generated from the library's descriptions on demand."""
import inspect
import json
import warnings


def _described(op):
    return json.loads(op.description)


# ---- help() --------------------------------------------------------------------------------------------------------

def _attribute_head(attribute):
    """'act_type : {'relu', 'sigmoid'}, required'"""
    choices, rule = attribute.get("choices"), attribute.get("rule")
    kind = "{" + ", ".join(repr(c) for c in choices) + "}" if choices else attribute["type"]
    kind = "tuple of ints" if kind == "tuple" else "tuple of floats" if kind == "floats" else kind
    where = f" in {rule}" if rule and not choices else ""
    default = ", required" if attribute.get("required") else f", default {attribute.get('default')}"
    return f"{attribute['name']} : {kind}{where}{default}"


def _input_head(item):
    kind = "NDArrays" if item.get("list") else "NDArray"
    star = "*" if item.get("list") else ""
    notes = [note for note, on in (("optional", item.get("optional")), ("written to", item.get("mutated"))) if on]
    return f"{star}{item['name']} : {', '.join([kind] + notes)}"


def _returns(described):
    names = described.get("outputs") or ["output"]
    count = described.get("visible_outputs", len(names))
    names = names[:count] if isinstance(count, int) and count > 0 else names
    return "NDArray: " + names[0] if len(names) == 1 else "list of NDArrays: " + ", ".join(names)


def op_doc(op):
    """The docstring of an operator."""
    d = _described(op)
    text = d["doc"]
    if text.split(" ")[0].isalpha() and text[1:2] != " ":  # the x of a formula stays as it is
        text = text[:1].upper() + text[1:]
    lines = [text if text.endswith(".") else text + ".", "", "Parameters", "----------"]
    lines += [_input_head(i) for i in d["inputs"]]
    for attribute in d["attributes"]:
        lines.append(_attribute_head(attribute))
        if attribute.get("doc"):
            lines.append("    " + attribute["doc"])
    if op.symbolic:
        lines += ["name : str, optional", "    name of the node", "attr : dict of str, optional", "    attributes of the node"]
    else:
        lines += ["out : NDArray, optional", "    where to write the result"]
    lines += ["", "Returns", "-------", _returns(d)]
    names = [n for n in d.get("aliases", []) if not n.startswith("_")]
    if names:
        lines += ["", "Also called " + ", ".join(names) + "."]
    if d.get("differentiable") == "no":
        lines += ["", "It has no gradient."]
    if not op.symbolic:
        from ._examples import example
        calls, shapes = example(op, d)
        lines += ["", "Examples", "--------", f"Shapes: {shapes}", ""] + calls if calls else []
    text = "\n".join(lines)
    return text.replace("NDArray", "Symbol") if op.symbolic else text


# ---- signatures ----------------------------------------------------------------------------------------------------

class _Spelled:
    """A default value that prints as the library spells it."""

    def __init__(self, text):
        self.text = str(text)

    def __repr__(self):
        return self.text


def _input_parameters(inputs):
    kind, required = inspect.Parameter, True
    for i in inputs:
        required = required and not i.get("optional")
        if i.get("list"):
            yield kind(i["name"], kind.VAR_POSITIONAL)
        elif required:
            yield kind(i["name"], kind.POSITIONAL_OR_KEYWORD)
        else:
            yield kind(i["name"], kind.POSITIONAL_OR_KEYWORD, default=None)


def op_signature(op):
    """The signature of an operator, for completion and help()."""
    d = _described(op)
    kind = inspect.Parameter
    mask = d["inputs"][-1:] if d["inputs"][1:] and d["inputs"][-1]["name"] == "where" else []  # by keyword only
    parameters = list(_input_parameters(d["inputs"][:len(d["inputs"]) - len(mask)]))
    variadic = any(p.kind == kind.VAR_POSITIONAL for p in parameters)
    some_default = any(p.default is not kind.empty for p in parameters)
    for a in d["attributes"]:
        where = kind.KEYWORD_ONLY if variadic else kind.POSITIONAL_OR_KEYWORD
        if a.get("required"):
            default = kind.empty if variadic or not some_default else _Spelled("required")
        else:
            default = _Spelled(a.get("default"))
        some_default = some_default or default is not kind.empty
        parameters.append(kind(a["name"], where, default=default))
    names = {p.name for p in parameters}
    parameters += [kind(name, kind.KEYWORD_ONLY, default=None)
                   for name in ["where"] * len(mask) + ["out", "name"] if name not in names]
    return inspect.Signature(parameters)


# ---- errors --------------------------------------------------------------------------------------------------------

_IGNORED = set()  # (operator, keyword) that were warned about


def _ignore_keyword(operator, name, known):
    """Operators without attributes ignore unknown keywords, as in MXNet: libraries write zeros_like(x, dtype=...)."""
    if (operator, name) in _IGNORED:
        return
    _IGNORED.add((operator, name))
    warnings.warn(f"{operator}: the keyword '{name}' is ignored (it takes {', '.join(known)})", stacklevel=3)


def unknown_keyword(op, name):
    """Raises for a keyword that the operator does not take, with a suggestion."""
    d = _described(op)
    known = [i["name"] for i in d["inputs"]] + [a["name"] for a in d["attributes"]] + ["out"]
    if not d["attributes"]:
        _ignore_keyword(op.operator_name, name, known)
        return
    from .error import AttributeValueError
    from .registry import _advice
    advice = _advice(name, known)
    raise AttributeValueError(f"{op.operator_name}: unknown keyword '{name}'{advice} (it takes {', '.join(known)})")
