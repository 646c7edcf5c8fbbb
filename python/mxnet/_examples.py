"""Examples for help(): a call of an operator that runs, made from the operator's own samples.

    >>> data, weight, bias = nd.ones((2, 3, 5, 5)), nd.ones((4, 3, 3, 3)), nd.ones((4,))
    >>> nd.Convolution(data, weight, bias, kernel=(3, 3), num_filter=4).shape
    (2, 4, 3, 3)

The shapes of the results are inferred when the text is made; nothing is computed for it.

SPDX-License-Identifier: Apache-2.0
"""
import ast
import re

LARGEST = 4096  # elements of an example's inputs


def _attributes(text):
    """{'axis': '1'} of "axis=1, keepdims=True"; commas inside brackets do not separate."""
    parts = re.split(r",\s*(?![^()\[\]]*[)\]])", text) if text else []
    return dict(part.split("=", 1) for part in parts)


def _value(text):
    """The Python text of an attribute's value: words are quoted."""
    try:
        ast.literal_eval(text)
        return text
    except (ValueError, SyntaxError):
        return repr(text)


def _shapes(sample):
    """The shapes of a sample's inputs; None if one of them is absent."""
    places = [place.strip() for place in sample["shapes"].split(";")] if sample["shapes"] else []
    if not all(places):
        return None
    return [() if place == "()" else tuple(int(n) for n in place.split(",")) for place in places]


def _size(shape):
    size = 1
    for n in shape:
        size *= n
    return size


# Notes of samples that ones suit as well as other numbers; they matter to tests only.
_ANY_NUMBERS = {"floatonly", "f32only", "nograd", "train", "distinct", "random", "positive"}


def _is_simple(sample):
    """Whether any numbers will do as inputs: a sample that asks for special ones is no example."""
    words = (sample["note"] or "").split()
    if "dominant" in words or "symmetric" in words:  # the identity will do
        shapes = _shapes(sample)
        words = [word for word in words if word not in ("dominant", "symmetric")] if shapes and _is_square(shapes[0]) else words
    return all(word.startswith("int:") or word in _ANY_NUMBERS for word in words)


def _is_square(shape):
    return len(shape) == 2 and shape[0] == shape[1]


def _inputs(described, shapes, invertible=False):
    """[(name, text that makes it)]; invertible: ones would be no good matrix."""
    names = [item["name"] for item in described["inputs"]]
    if described["inputs"] and described["inputs"][-1].get("list"):
        names = names[:-1] + [f"{names[-1].strip('*')[0]}{i}" for i in range(len(shapes) - len(names) + 1)]
    if len(shapes) > len(names):
        return None
    return [(name, f"nd.eye({shape[0]})" if invertible and _is_square(shape) else f"nd.ones({shape})")
            for name, shape in zip(names, shapes)]


def _inferred(op, shapes, attributes):
    """Shapes of the results, from inference on a graph; None if they do not follow from the inputs' shapes."""
    from . import _core, symbol
    from .base import MXNetError
    node = _core.symbol_operator(op)
    try:
        result = node(*[symbol.var(f"x{i}", shape=shape) for i, shape in enumerate(shapes)],
                      **{key: ast.literal_eval(_value(text)) for key, text in attributes.items()})
        return result.infer_shape_partial()[1]
    except (MXNetError, TypeError, ValueError, KeyError, IndexError):
        return None


def example(op, described):
    """(lines of a doctest, line with shapes) for an operator; ([], None) if no sample is simple enough."""
    for sample in op.samples:
        shapes = _shapes(sample) if _is_simple(sample) else None
        if shapes is None or any(_size(shape) > LARGEST or not _size(shape) for shape in shapes) or () in shapes:
            continue
        inputs = _inputs(described, shapes, "dominant" in (sample["note"] or "") or "symmetric" in (sample["note"] or ""))
        attributes = _attributes(sample["attrs"])
        results = _inferred(op, shapes, attributes) if inputs is not None else None
        if not results or any(not _size(shape) for shape in results):
            continue
        names = ", ".join(name for name, _ in inputs)
        given = [f"{key}={_value(text)}" for key, text in attributes.items()]
        call = f"nd.{_path(op)}({', '.join([name for name, _ in inputs] + given)})"
        shown = f"{call}.shape" if len(results) == 1 else f"[y.shape for y in {call}]"
        shown_results = results[0] if len(results) == 1 else list(results)
        shapes_line = ", ".join(f"{name} {shape}" for (name, _), shape in zip(inputs, shapes))
        made = [f">>> {names} = {', '.join(text for _, text in inputs)}"] if inputs else []
        return [*made, f">>> {shown}", str(shown_results)], f"{shapes_line or 'none'} -> {', '.join(map(str, results))}"
    return [], None


def _path(op):
    """How a program names the operator below nd: contrib.quadratic for _contrib_quadratic."""
    return re.sub("^_(contrib|linalg|image|random)_", r"\1.", op.__name__)
