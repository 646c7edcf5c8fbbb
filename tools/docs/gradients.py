"""The gradient of an operator in words: the graph that differentiation makes of it, written as an expression.

SPDX-License-Identifier: Apache-2.0
"""
import ast
import json
import re
from functools import lru_cache
from pathlib import Path

FUSED = object()
LONGEST = 160  # characters of an expression
POINTWISE = Path(__file__).resolve().parents[2] / "src/op/formula/pointwise.h"
INFIX = {"elemwise_mul": "*", "elemwise_add": "+", "elemwise_sub": "-", "elemwise_div": "/", "broadcast_mul": "*",
         "broadcast_add": "+", "broadcast_sub": "-", "broadcast_div": "/", "_plus_scalar": "+", "_mul_scalar": "*",
         "_minus_scalar": "-", "_div_scalar": "/", "_power_scalar": "**"}


def _fields(row):
    """The arguments of a table entry, split at commas outside of brackets and texts."""
    fields, depth, quoted, start = [], 0, False, 0
    for i, c in enumerate(row):
        quoted ^= c == '"' and row[i - 1] != "\\"
        depth += (c in "([{") - (c in ")]}") if not quoted else 0
        if c == "," and depth == 0 and not quoted:
            fields.append(row[start:i].strip())
            start = i + 1
    return [*fields, row[start:].strip()]


@lru_cache(None)
def pointwise():
    """{operator: (formula, gradient)} of the entries that have both as text"""
    found = {}
    for kind, row in re.findall(r"^\s+(U|B)\((.*)\)\s*\\?$", POINTWISE.read_text(), flags=re.M):
        fields = _fields(row)
        if kind == "U" and len(fields) >= 6:
            found[fields[0]] = tuple(re.sub(r"\bm_|\(T\)", "", text) for text in (fields[2], fields[4]))
    return found


def _expression(graph, at, names):
    """The text of one node's value."""
    if at in names:
        return names[at]
    node = graph["nodes"][at[0]]
    inputs = [_expression(graph, tuple(one[:2]), names) for one in node["inputs"]]
    attributes = {key: value for key, value in node.get("attrs", {}).items() if not key.startswith("__")}
    if node["op"] in INFIX:
        inputs += [attributes["scalar"]] if "scalar" in attributes else []
        return "(" + f" {INFIX[node['op']]} ".join(inputs) + ")"
    if node["op"] == "negative":
        return f"-{inputs[0]}"
    given = [f"{key}={value}" for key, value in attributes.items() if key not in ("dtype",) and value not in ("None", "")]
    return f"{node['op']}({', '.join(inputs + given)})"


def _graph(op, described, of):
    """The graph of the gradient of input `of`, for the first sample that has one"""
    from mxnet import _core, symbol
    from mxnet._examples import _attributes, _shapes, _value
    from mxnet.base import MXNetError
    for sample in op.samples[:8]:
        shapes = _shapes(sample)
        names = [i["name"] for i in described["inputs"]][:len(shapes or ())]
        if of not in names:
            continue
        try:
            result = _core.symbol_operator(op)(*[symbol.var(n, shape=s) for n, s in zip(names, shapes)], name="y",
                                               **{k: ast.literal_eval(_value(v)) for k, v in _attributes(sample["attrs"]).items()})
            return json.loads(result.gradient(of).tojson())
        except (MXNetError, TypeError, ValueError, KeyError, IndexError, AttributeError):
            continue
    return None


def _composed(op, described, of):
    """The expression of one input's gradient; FUSED where a kernel of its own computes it, None where there is no graph."""
    graph = _graph(op, described, of)
    fused = graph and any(node["op"].startswith("_backward") for node in graph["nodes"])
    if graph is None or fused:
        return FUSED if fused else None
    names = {}
    for i, node in enumerate(graph["nodes"]):
        if node["op"] == "null":
            names[i, 0] = node["name"]
        elif node["name"] == "y":
            names[i, 0] = "y"
        elif node["op"] == "ones_like" and [graph["nodes"][one[0]]["name"] for one in node["inputs"]] == ["y"]:
            names[i, 0] = "g"  # what arrives is made of ones here
    text = _expression(graph, tuple(graph["heads"][0][:2]), names)
    return text[1:-1] if text.startswith("(") and text.endswith(")") and text.count("(") == 1 else text


def gradient_text(op, described):
    """A paragraph; y is the result, g the gradient that arrives."""
    if described["name"] in pointwise():
        formula, gradient = pointwise()[described["name"]]
        return f"With y = `{formula}` and g, the gradient of y, that of x is `{gradient}`."
    inputs = [i["name"] for i in described["inputs"] if i.get("differentiable", True) and not i.get("list")]
    found = {of: _composed(op, described, of) for of in inputs[:4]}
    if FUSED in found.values():
        return "A fused kernel computes it in one pass; differentiated again, it is a composition of operators."
    short = {of: text for of, text in found.items() if text and len(text) <= LONGEST}
    if short:
        return "With y, the result, and g, its gradient:\n\n" + "\n".join(f"- of {of}: `{text}`" for of, text in short.items())
    return "Differentiable; the gradient is a composition of operators."
