"""The operators' own samples as Python calls, for the tests of operators and the comparison with MXNet."""
import ast
import json
import re

import numpy as np

from mxnet import _core, nd


def all_operators():
    """One Op per operator, under its canonical name; aliases are left out."""
    found = {}
    for op in _core.operators().values():
        found.setdefault(op.operator_name, op)
    return dict(sorted(found.items()))


def attributes(text):
    """{'axis': '1', 'keepdims': 'True'} of "axis=1, keepdims=True"; commas inside brackets do not separate."""
    parts = re.split(r",\s*(?![^()\[\]]*[)\]])", text) if text else []
    return dict(part.split("=", 1) for part in parts)


def as_python(value):
    """The Python value that a text spells: '(1, 1)' is a tuple; words stay words."""
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value


def _notes(sample):
    words = (sample["note"] or "").split()
    numbers = lambda kind: {int(w.split(":")[1]) for w in words if w.startswith(kind + ":")}  # noqa: E731
    return set(words), numbers("int"), numbers("absent")


def _values(shape, index, sample, words, integers, random):
    low, high = sample["low"], sample["high"]
    if low == high == 0:
        low, high = -2.0, 2.0
    if index in integers:
        return random.randint(int(low), max(int(high), int(low) + 1), size=shape)
    if integers and low != int(low):
        low, high = -2.0, 2.0
    if "distinct" in words:
        count = int(np.prod(shape))
        return (random.permutation(count) * ((high - low) / max(count, 1)) + low).reshape(shape)
    values = random.uniform(low, high, size=shape)
    if "symmetric" in words and len(shape) >= 2 and shape[-1] == shape[-2]:
        values = values + np.swapaxes(values, -1, -2)
    if "dominant" in words and len(shape) >= 2 and shape[-1] == shape[-2]:
        values = values + np.eye(shape[-1]) * (2 * shape[-1])
    return values


def inputs_of(op, sample, seed=0):
    """NumPy arrays (None where an optional input is absent) for a sample."""
    random = np.random.RandomState(seed)
    words, integers, absent = _notes(sample)
    declared = len(json.loads(op.description)["inputs"])
    places = [s.strip() for s in sample["shapes"].split(";")] if sample["shapes"] else []
    no_places = len(places) + len(absent) <= declared  # absent inputs have no place in the list of shapes
    made = []
    while places or len(made) in absent:
        number, text = len(made), places[0] if places else ""
        if number in absent and (no_places or not places) and text:
            made.append(None)  # the shape belongs to the next input
            continue
        shape = () if text == "()" else tuple(int(n) for n in text.split(",")) if text else None
        missing = number in absent or shape is None
        made.append(None if missing else _values(shape, number, sample, words, integers, random).astype("float32"))
        places = places[1:]
    return made


def arrays_of(op, sample, seed=0):
    """The same as NDArrays."""
    return [None if value is None else nd.array(value) for value in inputs_of(op, sample, seed)]
