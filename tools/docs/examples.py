"""An example of an operator with its output, made from one of its samples, and what the samples say about shapes and types.

The example is text first: it is run, and what it prints is its output.

SPDX-License-Identifier: Apache-2.0
"""
import ast
import re
from dataclasses import dataclass, field

import numpy as np

LARGEST = 4096  # elements of an input
WRITTEN = 24  # elements of an input that is written out
SHOWN = 80  # elements of a result that is printed
TRIED = 24  # samples of an operator
TYPES = ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32", "int64")


@dataclass
class Example:
    lines: list = field(default_factory=list)
    output: list = field(default_factory=list)
    shapes: list = field(default_factory=list)  # rows (inputs, attributes, result)
    types: list = field(default_factory=list)  # element types that the first input may have
    call: object = None  # the Call that the lines are


@dataclass
class Call:
    """A sample as a call: names and values of its inputs, texts of its attributes."""
    names: list
    texts: dict  # input: the expression that makes it
    shapes: list
    given: list  # (attribute, Python text)
    by_name: int  # inputs from this one on are passed by name: one before it is absent

    def arguments(self):
        inputs = [name if i < self.by_name else f"{name}={name}" for i, name in enumerate(self.names)]
        return ", ".join(inputs + [f"{key}={text}" for key, text in self.given])


# ---- inputs ----------------------------------------------------------------------------------------------------------

def _range(sample):
    low, high = sample["low"], sample["high"]
    return (low, high) if low < high else (-1.0, 1.0)


def _square(values, words):
    """Matrices that a sample wants symmetric or easy to invert."""
    if values.ndim < 2 or values.shape[-1] != values.shape[-2]:
        return values
    if "symmetric" in words:
        values = values + np.swapaxes(values, -1, -2)
    return values + np.eye(values.shape[-1]) * 2 * values.shape[-1] if "dominant" in words else values


def _numbers(sample, shape, index):
    """Values of a small input, with few digits."""
    words, (low, high) = (sample["note"] or "").split(), _range(sample)
    generator = np.random.RandomState(index)
    if f"int:{index}" in words:
        return generator.randint(int(low), max(int(high), int(low) + 1), size=shape).astype("float32")
    if any(word.startswith("int:") for word in words) and low == int(low) and "positive" not in words:
        low, high = -1.0, 1.0  # the range is that of the integers
    count = int(np.prod(shape))
    if "distinct" in words:
        values = (generator.permutation(count) + 0.5) * (high - low) / count + low
    else:
        values = generator.uniform(low, high, size=count)
    return np.round(_square(values.reshape(shape), words), 1 if high - low >= 1 and "distinct" not in words else 2).astype("float32")


def _text(sample, shape, index):
    """The expression that makes an input: its numbers, or a rule for many of them."""
    words, (low, high), count = (sample["note"] or "").split(), _range(sample), int(np.prod(shape))
    if count <= WRITTEN or "dominant" in words or "symmetric" in words:
        return f"nd.array({np.round(_numbers(sample, shape, index).astype(float), 2).tolist()})"
    if f"int:{index}" in words:
        first, many = int(low), max(1, int(high) - int(low))
        return f"(nd.arange({count}) % {many}{f' + {first}' if first else ''}).reshape({shape})"
    return f"nd.linspace({low:g}, {high:g}, {count}).reshape({shape})"


def _places(sample, declared):
    """([(number of the input, its shape)], numbers of inputs that are absent); an absent one may have an empty place."""
    absent = {int(n) for n in re.findall(r"absent:(\d+)", sample["note"] or "")}
    places = [place.strip() for place in sample["shapes"].split(";")] if sample["shapes"] else []
    no_places, found, number = len(places) + len(absent) <= declared, [], 0
    while places:
        if not (number in absent and no_places and places[0]):  # else the shape belongs to the next input
            place = places.pop(0)
            if not place:
                absent.add(number)
            elif number not in absent:
                found.append((number, () if place == "()" else tuple(int(n) for n in place.split(","))))
        number += 1
    return found, absent


def _call(described, sample):
    """A Call, or None where a sample cannot be shown."""
    from mxnet._examples import _attributes, _value
    names = [item["name"] for item in described["inputs"]]
    found, absent = _places(sample, len(names))
    shapes = [shape for _, shape in found]
    if any(not 0 < int(np.prod(shape)) <= LARGEST or shape == () for shape in shapes):
        return None
    if described["inputs"] and described["inputs"][-1].get("list"):
        names = names[:-1] + [f"{names[-1].strip('*')[0]}{i}" for i in range(len(shapes) - len(names) + 1)]
    if any(number >= len(names) for number, _ in found):
        return None
    texts = {names[number]: _text(sample, shape, number) for number, shape in found}
    given = [(key, _value(text)) for key, text in _attributes(sample["attrs"]).items() if key != "num_args"]  # they are counted
    by_name = next((i for i, (number, _) in enumerate(found) if number > min(absent, default=len(names))), len(found))
    return Call(list(texts), texts, shapes, given, by_name)


def _calls(op, described):
    """Calls of the samples, those of a good size first, in the order of the description."""
    several = 2 if described["inputs"] and described["inputs"][-1].get("list") else 0
    found = []
    for sample in op.samples:
        call = _call(described, sample)
        if call:
            sizes = [int(np.prod(shape)) for shape in call.shapes]
            small = all(1 < size <= WRITTEN for size in sizes) and max(sizes, default=4) >= 4 and len(sizes) >= several
            found.append(("train" in (sample["note"] or "").split(), 0 if small else max(sizes, default=1), len(found), call))
    return [one[-1] for one in sorted(found, key=lambda one: one[:-1])]


# ---- running ---------------------------------------------------------------------------------------------------------

def _names(head):
    import mxnet as mx
    namespace = {"nd": mx.nd, "mx": mx}
    exec("\n".join(head), namespace)
    return namespace


def _types(op, call, namespace):
    """Element types of the inputs for which the operator computes something."""
    from mxnet.base import MXNetError
    accepted = []
    given = {key: ast.literal_eval(text) for key, text in call.given}
    for name in TYPES:
        try:
            inputs = {input_: namespace[input_].astype(name) for input_ in call.names}
            result = op(*[inputs[n] for n in call.names[:call.by_name]], **{n: inputs[n] for n in call.names[call.by_name:]}, **given)
            for one in result if isinstance(result, (list, tuple)) else [result]:
                one.wait_to_read()
            accepted.append(name)
        except (MXNetError, TypeError, ValueError):
            pass
    return accepted


def _program(path, call, described):
    """(lines of a program, its output, shapes of the results, its variables)"""
    head = ["mx.random.seed(0)"] if "random" in described["flags"] else []
    head += [f"{name} = {text}" for name, text in call.texts.items()]
    namespace, last = _names(head), f"{path}({call.arguments()})"
    result = eval(last, namespace)
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    shapes = [one.shape for one in results]
    if not results:  # it changes its inputs
        head, last, output = [*head, last], call.names[0], str(namespace[call.names[0]]).strip()
    elif sum(one.size for one in results) <= SHOWN:
        output = str(result if len(results) > 1 else results[0]).strip()
    else:
        last = f"{last}.shape" if len(results) == 1 else f"[y.shape for y in {last}]"
        output = str(shapes[0] if len(results) == 1 else shapes)
    return [*head, last], [line.rstrip() for line in output.splitlines()], shapes, namespace


def _dull(lines, output):
    """How little an example shows: nothing but NaN, nothing but shapes, or numbers."""
    return 2 * any("nan" in line for line in output) + lines[-1].endswith((".shape", "]"))


def example(op, described, path):
    """An Example; without lines where no sample can be shown."""
    from mxnet.base import MXNetError
    made = Example()
    for call in _calls(op, described)[:TRIED]:
        try:
            lines, output, results, namespace = _program(path, call, described)
        except (MXNetError, TypeError, ValueError, KeyError, AttributeError):
            continue
        if not made.lines or _dull(made.lines, made.output) > _dull(lines, output):
            made.lines, made.output, made.call = lines, output, call
        if not made.types and call.names and "random" not in described["flags"]:
            made.types = _types(op, call, namespace)
        if len(made.shapes) < 4:
            made.shapes.append((", ".join(f"{n} {s}" for n, s in zip(call.names, call.shapes)) or "none",
                                ", ".join(f"`{k}={v}`" for k, v in call.given), ", ".join(map(str, results))))
    return made
