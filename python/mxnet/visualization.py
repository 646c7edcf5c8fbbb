"""Drawings and tables of graphs: mx.viz."""
import json

from ._core import Symbol

__all__ = ["print_summary", "plot_network"]

_HIDDEN = ("_weight", "_bias", "_gamma", "_beta", "_moving_var", "_moving_mean", "_running_var", "_running_mean",
           "_alpha", "_parameters")


def _check(symbol, who):
    if not isinstance(symbol, Symbol):
        raise TypeError(f"{who}: expected a Symbol, got {type(symbol).__name__}")


def _output_shapes(symbol, shape, dtype=None):
    """Shapes of all node outputs by name; empty if no shape is given."""
    if shape is None:
        return {}
    internals = symbol.get_internals()
    names = list(dict.fromkeys(list(shape) + list(dtype or {})))
    (_, outputs, _), _, complete, _ = internals._infer(names, [shape.get(n) for n in names],
                                                        [(dtype or {}).get(n) for n in names], True)
    if not complete:
        raise ValueError("the given shapes do not determine the shapes of the graph")
    return dict(zip(internals.list_outputs(), outputs))


def _nodes(symbol):
    graph = json.loads(symbol.tojson())
    for node in graph["nodes"]:
        node.setdefault("attrs", node.get("param", {}))
    return graph["nodes"], {head[0] for head in graph["heads"]}


def _is_hidden(node):
    return node["op"] == "null" and node["name"].endswith(_HIDDEN)


class Dot:
    """A drawing as DOT text: the result of plot_network if the Python package graphviz is not installed."""

    def __init__(self, name="plot", format="pdf"):
        self.name, self.format, self._lines = name, format, []

    @staticmethod
    def _quoted(text):
        return '"' + str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'

    def _attributes(self, attrs):
        return " [" + " ".join(f"{key}={self._quoted(value)}" for key, value in attrs.items()) + "]" if attrs else ""

    def attr(self, kw=None, **attrs):
        """Sets attributes of all boxes ("node"), all arrows ("edge") or the drawing ("graph", None)."""
        self._lines.append(f"\t{kw or 'graph'}{self._attributes(attrs)}")

    def node(self, name, label=None, **attrs):
        """Adds a box."""
        if label is not None:
            attrs = {"label": label, **attrs}
        self._lines.append(f"\t{self._quoted(name)}{self._attributes(attrs)}")

    def edge(self, tail_name, head_name, label=None, **attrs):
        """Adds an arrow."""
        if label is not None:
            attrs = {"label": label, **attrs}
        self._lines.append(f"\t{self._quoted(tail_name)} -> {self._quoted(head_name)}{self._attributes(attrs)}")

    @property
    def source(self):
        """The drawing as text for the program `dot`."""
        return f"digraph {self._quoted(self.name)} {{\n" + "\n".join(self._lines) + "\n}\n"

    def save(self, filename=None, directory=None):
        """Writes the text to a file, by default <name>.gv, and returns its path."""
        import os
        path = os.path.join(directory or "", filename or self.name + ".gv")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.source)
        return path

    def render(self, filename=None, directory=None, view=False, cleanup=False, format=None):
        """Writes the text and, if the program `dot` is installed, the image; returns the path of the last one written."""
        import shutil
        import subprocess
        import warnings
        path = self.save(filename, directory)
        if shutil.which("dot") is None:
            warnings.warn("plot_network: the program 'dot' (graphviz) is not installed: only the text was written",
                          stacklevel=2)
            return path
        kind = format or self.format
        subprocess.run(["dot", f"-T{kind}", "-O", path], check=True)
        return f"{path}.{kind}"

    def view(self, *args, **kwargs):
        """Renders; does not open a viewer."""
        return self.render(*args, **kwargs)

    def __str__(self):
        return self.source


def _new_drawing(title, save_format, text):
    """A drawing that starts with the library's text."""
    lines = text.splitlines()[1:-1]  # without "digraph {" and "}"
    try:
        from graphviz import Digraph
    except ImportError:
        drawing = Dot(title, save_format)
        drawing._lines += lines
        return drawing
    return Digraph(name=title, format=save_format, body=[line + "\n" for line in lines])


def plot_network(symbol, title="plot", save_format="pdf", shape=None, dtype=None, node_attrs={}, hide_weights=True):
    """A drawing of a graph, from the outputs at the bottom up: a graphviz.Digraph, or text if that is not installed.

    shape: a dict of input shapes; arrows then show shapes.  Weights are left out unless hide_weights is
    False.
    """
    _check(symbol, "plot_network")
    if not isinstance(node_attrs, dict):
        raise TypeError(f"plot_network: node_attrs must be a dict, got {type(node_attrs).__name__}")
    if len(set(symbol.get_internals().list_outputs())) != len(symbol.get_internals().list_outputs()):
        import warnings
        warnings.warn("plot_network: names of nodes are not unique: some are drawn as one", stacklevel=2)
    boxes = " ".join(f"{key}={Dot._quoted(value)}" for key, value in node_attrs.items())
    hidden = [name for name in symbol.list_inputs() if hide_weights and name.endswith(_HIDDEN)]
    names = None if shape is None else list(dict.fromkeys(list(shape) + list(dtype or {})))
    text = symbol._draw(title, boxes, hidden, names, [(shape or {}).get(name) for name in names or ()],
                        [(dtype or {}).get(name) for name in names or ()])
    return _new_drawing(title, save_format, text)


def _names_of_outputs(symbol, nodes):
    """{(index of a node, index of its output): name of the output}"""
    names, at = {}, {}
    order = {node["name"]: i for i, node in enumerate(nodes)}
    for output, name in zip(symbol.get_internals(), symbol.get_internals().list_outputs()):
        i = order[output.name]
        names[(i, at.get(i, 0))] = name
        at[i] = at.get(i, 0) + 1
    return names


def _flow(shape):
    """'3x8x8' for (1, 3, 8, 8): without the batch."""
    return "" if shape is None else "x".join(str(dim) for dim in shape[1:]) or str(shape[0])


# ---- the table -----------------------------------------------------------------------------------------------------

def print_summary(symbol, shape=None, line_length=120, positions=(.44, .64, .74, 1.)):
    """Prints a table of the nodes with output shapes, numbers of parameters and inputs."""
    _check(symbol, "print_summary")
    columns = [int(line_length * p) if p <= 1 else int(p) for p in positions]
    shapes = _output_shapes(symbol, shape)
    nodes, heads = _nodes(symbol)
    auxiliary = set(symbol.list_auxiliary_states())
    outputs = _names_of_outputs(symbol, nodes)

    def row(*fields):
        line = ""
        for field, end in zip(fields, columns):
            line = (line + str(field))[:end]
            line += " " * (end - len(line))
        print(line)

    def parameters(node):
        total = 0
        for source, *_ in node["inputs"]:
            name = nodes[source]["name"]
            if nodes[source]["op"] == "null" and _is_hidden(nodes[source]) and name not in auxiliary and name in shapes:
                size = 1
                for dim in shapes[name]:
                    size *= dim
                total += size
        return total

    print("_" * line_length)
    row("Layer (type)", "Output Shape", "Param #", "Previous Layer")
    print("=" * line_length)
    given = {name for name in shape or () if not name.endswith(_HIDDEN + ("label",))}
    shown = [i for i, node in enumerate(nodes)
             if node["op"] != "null" or i in heads or node["name"] in given or not _is_parameter(node, nodes)]
    total = 0
    for place, i in enumerate(shown):
        node = nodes[i]
        count = parameters(node)
        total += count
        before = [nodes[source]["name"] for source, *_ in node["inputs"] if source in shown]
        row(f"{node['name']}({node['op']})", _flow(shapes.get(outputs.get((i, 0)))), count, before[0] if before else "")
        for name in before[1:]:
            row("", "", "", name)
        print(("=" if place == len(shown) - 1 else "_") * line_length)
    print(f"Total params: {total}")
    print("_" * line_length)


def _is_parameter(node, nodes):
    """A variable that is not the first input of any operator: a weight or a label."""
    firsts = {n["inputs"][0][0] for n in nodes if n["inputs"]}
    return _is_hidden(node) or nodes.index(node) not in firsts
