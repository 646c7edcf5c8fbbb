"""An example of an operator with its output, made from one of its samples, and what the samples say about shapes and types.

SPDX-License-Identifier: Apache-2.0
"""
import ast
from dataclasses import dataclass, field

import numpy as np

LARGEST = 4096  # elements of an input
WRITTEN = 12  # elements of an input that is written out
SHOWN = 40  # elements of a result that is printed
TYPES = ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32", "int64")


@dataclass
class Example:
    lines: list = field(default_factory=list)
    output: list = field(default_factory=list)
    shapes: list = field(default_factory=list)  # rows (inputs, attributes, result)
    types: list = field(default_factory=list)  # element types that the first input may have


def _given(sample):
    """[(name, Python text)] of a sample's attributes"""
    from mxnet._examples import _attributes, _value
    return [(key, _value(text)) for key, text in _attributes(sample["attrs"]).items()]


def _call(op, inputs, given):
    result = op(*inputs, **{key: ast.literal_eval(text) for key, text in given})
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _numbers(sample, shape, seed):
    low, high = (sample["low"], sample["high"]) if sample["low"] < sample["high"] else (-1.0, 1.0)
    generator = np.random.RandomState(seed)
    if "int:" in (sample["note"] or ""):
        return generator.randint(max(0, int(low)), max(1, int(high)), size=shape).astype("float32")
    return np.round(generator.uniform(low, high, size=shape), 1).astype("float32")


def _usable(op, described):
    """(sample, shapes, names of the inputs) of samples that any numbers suit, those of a good size first"""
    from mxnet._examples import _inputs, _is_simple, _shapes, _size
    found = []
    for sample in op.samples:
        shapes = _shapes(sample) if _is_simple(sample) else None
        if shapes is None or () in shapes or any(not 0 < _size(shape) <= LARGEST for shape in shapes):
            continue
        inputs = _inputs(described, shapes)
        if inputs is not None:
            sizes = list(map(_size, shapes))
            awkward = not all(1 < size <= WRITTEN for size in sizes) or max(sizes, default=4) < 4
            found.append((awkward, sum(sizes), len(found), sample, shapes, [name for name, _ in inputs]))
    return [one[3:] for one in sorted(found, key=lambda one: one[:3])]


def _written(name, values):
    if values.size <= WRITTEN:
        return f"{name} = nd.array({np.round(values.astype(float), 2).tolist()})"
    return f"{name} = nd.random.uniform({values.min():.1f}, {values.max():.1f}, shape={values.shape})"


def _types(op, inputs, given):
    """Element types of the first input for which the operator computes something."""
    from mxnet.base import MXNetError
    accepted = []
    for name in TYPES:
        try:
            for result in _call(op, [x.astype(name) for x in inputs], given):
                result.wait_to_read()
            accepted.append(name)
        except (MXNetError, TypeError, ValueError):
            pass
    return accepted


def _lines(path, names, values, given, results):
    """(program, its output)"""
    head = [_written(name, value) for name, value in zip(names, values)]
    call = f"{path}({', '.join(names + [f'{key}={text}' for key, text in given])})"
    small = len(results) == 1 and results[0].size <= SHOWN and all(v.size <= WRITTEN for v in values)
    if small:
        return [*head, call], str(results[0]).strip().splitlines()
    if len(results) == 1:
        return [*head, f"{call}.shape"], [str(results[0].shape)]
    return [*head, f"[y.shape for y in {call}]"], [str([y.shape for y in results])]


def example(op, described, path):
    """An Example; None where no sample is simple enough to be shown."""
    import mxnet as mx
    from mxnet.base import MXNetError
    made = Example()
    for sample, shapes, names in _usable(op, described)[:12]:
        given = _given(sample)
        values = [_numbers(sample, shape, i) for i, shape in enumerate(shapes)]
        inputs = [mx.nd.array(value) for value in values]
        try:
            mx.random.seed(0)
            results = _call(op, inputs, given)
            text, output = _lines(path, names, values, given, results)
        except (MXNetError, TypeError, ValueError, KeyError):
            continue
        if not made.lines:
            made.lines, made.output = text, output
            made.types = _types(op, inputs, given) if inputs and "random" not in described["flags"] else []
        if len(made.shapes) < 4:
            made.shapes.append((", ".join(f"{n} {s}" for n, s in zip(names, shapes)) or "none",
                                ", ".join(f"`{k}={v}`" for k, v in given), ", ".join(str(y.shape) for y in results)))
    return made
