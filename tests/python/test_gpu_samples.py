"""Every operator sample on the GPU compared with the CPU: results, gradients and what the call wrote, in all floating types.

An operator without a CUDA kernel must say so; those that Gluon itself and its tutorials use must have one.
GLUON_SAMPLES="dot|softmax" runs those operators only (a regular expression), GLUON_SAMPLES_TYPES="float32" those types,
GLUON_SAMPLES_PART="2/8" every eighth operator from the third on, for several processes.
"""
import json
import os
import re

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, nd
from samples import all_operators, as_python, attributes, inputs_of

pytestmark = pytest.mark.skipif("mx.num_gpus() == 0", reason="there is no GPU")

WANTED = re.compile(os.environ.get("GLUON_SAMPLES", "") or ".*")
TYPES = (os.environ.get("GLUON_SAMPLES_TYPES") or "float32 float64 float16 bfloat16").split()
PART, PARTS = map(int, (os.environ.get("GLUON_SAMPLES_PART") or "0/1").split("/"))
OPERATORS = dict([item for item in all_operators().items() if WANTED.fullmatch(item[0])][PART::PARTS])
NO_KERNEL = re.compile(r"there is no kernel for \S+ on gpu\(0\)")
TOLERANCES = {"float64": 1e-9, "float32": 2e-4, "float16": 1e-2, "bfloat16": 6e-2}

# The host computes these, on purpose: they call back into Python or end in a list of the host.
HOST_ONLY = {"Custom"}
# Several results are correct: vectors up to their signs.
AMBIGUOUS = {"_linalg_syevd"}


class NoKernel(Exception):
    """The operator has no CUDA kernel for a sample."""


def typed_inputs(op, sample, number, dtype, context):
    """The sample's inputs; those that hold numbers, not indices, are of the type."""
    integers = {int(word.split(":")[1]) for word in (sample["note"] or "").split() if word.startswith("int:")}
    values = inputs_of(op, sample, number)
    return [None if value is None else nd.array(value, ctx=context, dtype="float32" if i in integers else dtype)
            for i, value in enumerate(values)]


def listed(result):
    return [] if result is None else [result] if isinstance(result, nd.NDArray) else list(result)


def as_float64(array):
    wide = array.astype("float32") if mx._core.dtype_name(array.dtype) == "bfloat16" else array
    return wide.asnumpy().astype("float64")


def run(op, sample, number, dtype, context, backward):
    """(results, gradients, inputs afterwards) as NumPy arrays."""
    inputs = typed_inputs(op, sample, number, dtype, context)
    arguments = {key: as_python(value) for key, value in attributes(sample["attrs"]).items()}
    training = "train" in (sample["note"] or "").split()
    variables = [x for x in inputs if x is not None] if backward else []
    for x in variables:
        x.attach_grad()
    mx.random.seed(7)
    with context, (autograd.record(train_mode=training) if backward else
                   autograd.train_mode() if training else autograd.predict_mode()):
        results = listed(op(*inputs, **arguments))
    assert all(r.context == context for r in results), "a result is on another device"
    if backward:
        heads = [nd.array(np.random.RandomState(i).uniform(0.5, 1.5, r.shape), ctx=context).astype(r.dtype)
                 for i, r in enumerate(results)]
        autograd.backward(results, heads)
    return ([as_float64(r) for r in results], [as_float64(x.grad) for x in variables],
            [as_float64(x) for x in inputs if x is not None])


def compare(what, here, there, dtype):
    tolerance = TOLERANCES[dtype]
    assert len(here) == len(there), what
    for i, (a, b) in enumerate(zip(here, there)):
        assert a.shape == b.shape, f"{what} {i}: shapes {a.shape} and {b.shape}"
        scale = float(np.abs(a[np.isfinite(a)]).max()) if np.isfinite(a).any() else 1.0
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance * max(min(scale, 100.0), 0.1),
                                   err_msg=f"{what} {i}")


def check(op, described, sample, number, dtype):
    words = (sample["note"] or "").split()
    if dtype != "float32" and ("f32only" in words or not sample["shapes"]):  # without inputs the type is the attributes'
        return
    differentiable = described["differentiable"] not in ("no", False) and "nograd" not in words
    for backward in (False, True) if differentiable else (False,):
        try:
            here = run(op, sample, number, dtype, mx.cpu(0), backward)
        except (mx.MXNetError, TypeError, ValueError):
            return  # the CPU does not take this type either
        try:
            there = run(op, sample, number, dtype, mx.gpu(0), backward)
        except mx.MXNetError as error:
            if NO_KERNEL.search(str(error)):
                raise NoKernel(str(error)) from None
            raise
        if described["name"] in AMBIGUOUS:
            here, there = [[np.abs(a) for a in part] for part in here], [[np.abs(a) for a in part] for part in there]
        for what, a, b in zip(("result", "gradient", "input"), here, there):
            # Random numbers have the digits of float32 whatever they are stored in.
            compare(what, a, b, "float32" if "random" in words and dtype == "float64" else dtype)


@pytest.mark.parametrize("name", OPERATORS)
def test_samples(name):
    op = OPERATORS[name]
    described = json.loads(op.description)
    missing, wrong, right = [], [], 0
    for number, sample in enumerate(op.samples):
        for dtype in TYPES:
            try:
                check(op, described, sample, number, dtype)
                right += 1
            except NoKernel as error:
                missing.append(f"{dtype} {sample['shapes']} [{sample['attrs']}]: {error}")
            except AssertionError as error:
                text = " | ".join(line.strip() for line in str(error).splitlines() if line.strip())
                wrong.append(f"{dtype} {sample['shapes']} [{sample['attrs']}] {sample['note'] or ''}: {text[:300]}")
            except Exception as error:  # noqa: B902 - all samples of the operator are tried
                wrong.append(f"{dtype} {sample['shapes']} [{sample['attrs']}]: {type(error).__name__}: {error}"[:400])
    assert not wrong, f"{name}: {len(wrong)} of {len(wrong) + right} samples differ\n" + "\n".join(wrong[:8])
    if missing:
        pytest.skip(f"{name}: no kernel for {len(missing)} samples, as it says: {missing[0]}"[:300])
