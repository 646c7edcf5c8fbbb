"""Operator samples of the registry as cases for program.py."""
import json
import zlib

from samples import all_operators, as_python, attributes, inputs_of  # tests/python/samples.py


def operator_cases():
    """One case per sample of every public operator."""
    made = []
    for name, op in all_operators().items():
        description = json.loads(op.description)
        for number, sample in enumerate(op.samples):
            notes = (sample["note"] or "").split()
            if "random" not in notes:  # those are compared by their statistics elsewhere
                made.append(case_of(name, op, description, number, sample, notes))
    return made


def case_of(name, op, description, number, sample, notes):
    inputs = inputs_of(op, sample, seed=zlib.crc32(f"{name}{number}".encode()))
    declared = description["inputs"]
    wanted = []
    if "nograd" not in notes and description["differentiable"] == "yes" and not any(i["mutated"] for i in declared):
        for i, x in enumerate(inputs):
            if x is not None and declared[min(i, len(declared) - 1)]["differentiable"] and f"int:{i}" not in notes:
                wanted.append(i)
    attrs = {key: as_python(value) for key, value in attributes(sample["attrs"]).items()}
    return {"op": name, "inputs": inputs, "attrs": attrs, "train": "train" in notes, "wanted": wanted,
            "label": f"{name}[{number}] {sample['shapes']} {sample['attrs'] or ''}"}
