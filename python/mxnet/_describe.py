"""Documentation and signatures, made from the library's descriptions when somebody asks."""
import difflib
import inspect
import json


def _described(op):
    return json.loads(op.description)


def op_doc(op):
    d = _described(op)
    lines = [d["doc"], ""]
    rows = [(i["name"] + (", optional" if i.get("optional") else ""), i.get("doc", "array"))
            for i in d["inputs"]]
    rows += [(f"{a['name']} : {a['type']}" + (f", default {a['default']}" if a.get("default") is not None else ", required"),
              a.get("doc", "")) for a in d["attributes"]]
    if rows:
        lines.append("Parameters")
        lines.append("----------")
        for head, text in rows:
            lines.append(head)
            if text:
                lines.append("    " + text)
    lines += ["out : NDArray, optional", "    where to write the result", "", "Returns", "-------",
              ", ".join(d.get("outputs", ["output"]))]
    return "\n".join(lines)


def op_signature(op):
    d = _described(op)
    kind = inspect.Parameter
    parameters = []
    for i in d["inputs"]:
        if i.get("list"):
            parameters.append(kind(i["name"], kind.VAR_POSITIONAL))
        else:
            parameters.append(kind(i["name"], kind.POSITIONAL_OR_KEYWORD, default=None))
    variadic = any(p.kind == kind.VAR_POSITIONAL for p in parameters)
    for a in d["attributes"]:
        where = kind.KEYWORD_ONLY if variadic else kind.POSITIONAL_OR_KEYWORD
        default = a.get("default")
        parameters.append(kind(a["name"], where, default=_Spelled(default) if default is not None else _Spelled("required")))
    names = {p.name for p in parameters}
    for name in ("out", "name"):
        if name not in names:
            parameters.append(kind(name, kind.KEYWORD_ONLY, default=None))
    return inspect.Signature(parameters)


class _Spelled:
    """A default value that prints as the library spells it."""

    def __init__(self, text):
        self.text = str(text)

    def __repr__(self):
        return self.text


def unknown_keyword(op, name):
    d = _described(op)
    known = [i["name"] for i in d["inputs"]] + [a["name"] for a in d["attributes"]] + ["out"]
    close = difflib.get_close_matches(name, known, 1)
    advice = f"; did you mean '{close[0]}'?" if close else ""
    from .error import AttributeValueError
    raise AttributeValueError(f"{op.operator_name}: unknown keyword '{name}'{advice} (it takes {', '.join(known)})")
