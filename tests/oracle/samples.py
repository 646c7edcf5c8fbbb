"""Operator samples of the registry as cases: inputs drawn from the ranges and notes that stand in the rows."""
import ast
import json
import re
import zlib

import numpy as np

from mxnet import _core


def shapes_of(text):
    found = []
    for part in text.split(";"):
        part = part.strip()
        found.append(() if part in ("()", "") else tuple(int(n) for n in part.strip("(),").split(",") if n.strip()))
    return found


def attrs_of(text):
    """"axis=1, shape=(2, 3)" as a dict; what is not a Python literal stays text."""
    if not text:
        return {}
    found = {}
    for part in re.split(r",\s*(?![^()\[\]]*[)\]])", text):
        name, _, value = part.partition("=")
        try:
            found[name.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            found[name.strip()] = value.strip()
    return found


def draw(rng, shape, low, high, integer, distinct):
    if integer:
        return rng.randint(int(low), max(int(high), int(low) + 1), size=shape).astype("float32")
    if distinct:
        size = int(np.prod(shape))
        return (low + (high - low) * (rng.permutation(size) + 0.5) / max(size, 1)).reshape(shape).astype("float32")
    return rng.uniform(low, high, size=shape).astype("float32")


def cases():
    """One case per sample of every public operator."""
    seen, made = set(), []
    for op in _core.operators().values():
        if op.operator_name in seen:
            continue
        seen.add(op.operator_name)
        description = json.loads(op.description)
        for number, sample in enumerate(_core.samples(op.operator_name)):
            case = case_of(op.operator_name, description, number, sample)
            if case:
                made.append(case)
    return made


def case_of(name, description, number, sample):
    shapes, attrs, low, high, note = sample
    notes = (note or "").split()
    if "random" in notes or "dominant" in notes or "symmetric" in notes:
        return None  # compared by statistics, or inputs that this generator does not make
    rng = np.random.RandomState(zlib.crc32(f"{name}{number}".encode()))
    low, high = (-2.0, 2.0) if low == high == 0 else (low, high)
    inputs, listed = [], shapes_of(shapes) if shapes.strip() else []
    if "create" in str(description.get("flags")):
        listed = []
    for i, shape in enumerate(listed):
        absent = f"absent:{i}" in notes
        inputs.append(None if absent else draw(rng, shape, low, high, f"int:{i}" in notes, "distinct" in notes))
    declared = description["inputs"]
    wanted = []
    if "nograd" not in notes and description.get("differentiable") == "yes" and not any(i["mutated"] for i in declared):
        for i, x in enumerate(inputs):
            info = declared[min(i, len(declared) - 1)]
            if x is not None and info["differentiable"] and f"int:{i}" not in notes:
                wanted.append(i)
    return {"op": name, "number": number, "inputs": inputs, "attrs": attrs_of(attrs), "train": "train" in notes,
            "wanted": wanted, "label": f"{name}[{number}] {shapes} {attrs or ''}"}
