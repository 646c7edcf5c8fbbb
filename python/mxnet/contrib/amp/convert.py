"""Graphs in mixed precision: casts are put before the operators that want another precision.

The graph is rewritten in its JSON form, node by node.  Of every node it is known whether its results are `low` (16
bits) or not; variables and unknown operators are not.  amp_cast passes integers unchanged, so labels and indices may go
through it.
"""
import json

from . import lists

__all__ = ["rewrite"]


class _Writer:
    """The new graph while it grows."""

    def __init__(self, target):
        self.target, self.nodes, self.low, self.casts = target, [], [], {}

    def add(self, node, low):
        """Appends a node; gives its number."""
        self.nodes.append(node)
        self.low.append(low)
        return len(self.nodes) - 1

    def cast(self, entry, dtype):
        """The entry [node, output, 0] as another type; one cast per entry and type."""
        key = (entry[0], entry[1], dtype)
        if key not in self.casts:
            source = self.nodes[entry[0]]["name"]
            suffix = f"{entry[1]}_" if entry[1] else ""
            self.casts[key] = self.add({"op": "amp_cast", "name": f"{source}_{suffix}amp_cast_{dtype}",
                                        "attrs": {"dtype": dtype}, "inputs": [entry]}, dtype != "float32")
        return [self.casts[key], 0, 0]

    def as_target(self, entries):
        """All entries in 16 bits."""
        return [e if self.low[e[0]] else self.cast(e, self.target) for e in entries]

    def as_float32(self, entries):
        """All entries in 32 bits."""
        return [self.cast(e, "float32") if self.low[e[0]] else e for e in entries]


def _kinds(target_ops, fp32_ops, conditional_ops):
    """Function from (operator, attributes) to the kind of its precision."""
    target = set(lists.TARGET if target_ops is None else target_ops)
    single = set(lists.FLOAT32 if fp32_ops is None else fp32_ops) - (target if target_ops is not None else set())
    conditional = {op: (name, values) for op, name, values in
                   (lists.CONDITIONAL if conditional_ops is None else conditional_ops)}

    def kind_of(op, attributes):
        if op in target:
            return "target"
        if op in single:
            return "float32"
        if op in conditional and attributes.get(conditional[op][0]) in conditional[op][1]:
            return "float32"
        return "widest" if op in lists.WIDEST else "both" if op in lists.BOTH else "any"
    return kind_of


def _inputs(writer, kind, entries):
    """(entries with casts, whether the results are low)."""
    low = [writer.low[e[0]] for e in entries]
    if kind == "target":
        return writer.as_target(entries), True
    if kind == "float32":
        return writer.as_float32(entries), False
    if kind == "both":
        return entries[:1] + writer.as_float32(entries[1:]), bool(low and low[0])
    if any(low) and not all(low):  # several inputs of different precision: the wider one
        return writer.as_float32(entries), False
    return entries, bool(low) and all(low)


def rewrite(text, target, target_ops=None, fp32_ops=None, conditional_ops=None, excluded=()):
    """The JSON text of a graph with casts; nodes with names in `excluded` stay in float32."""
    graph = json.loads(text)
    kind_of, writer, place = _kinds(target_ops, fp32_ops, conditional_ops), _Writer(target), []
    for node in graph["nodes"]:
        entries = [[place[e[0]]] + list(e[1:]) for e in node["inputs"]]
        low = False
        if node["op"] != "null":
            attributes = node.get("attrs", node.get("attr", node.get("param", {}))) or {}
            kind = "float32" if node["name"] in excluded else kind_of(node["op"], attributes)
            entries, low = _inputs(writer, kind, entries)
        place.append(writer.add({**node, "inputs": entries}, low))
    graph.pop("node_row_ptr", None)  # follows from the nodes
    return json.dumps({**graph, "nodes": writer.nodes,
                       "arg_nodes": [i for i, node in enumerate(writer.nodes) if node["op"] == "null"],
                       "heads": [[place[e[0]]] + list(e[1:]) for e in graph["heads"]]})
