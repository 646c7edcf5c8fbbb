"""The operator cases that ship inside the onnx package, run against the reader.

    python tests/onnx/cases.py [--list] [part of a name]

A case is a model of one node (or of a function's body) with inputs and outputs.  Inputs that must be constant in a network of
this library (shapes, axes) become initializers, as they are in files.  Prints counts and what is not supported.

SPDX-License-Identifier: Apache-2.0
"""
import collections
import os
import re
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import numpy_helper

import mxnet as mx
from mxnet import _core

warnings.filterwarnings("ignore")
CONSTANT = re.compile(r"its input \d+ \('([^']*)'\) is computed from the network's inputs")
OPEN = re.compile(r"depends on values|not known|unknown")


def node_cases():
    from onnx.backend.test.loader import load_model_tests
    return sorted((case for case in load_model_tests(kind="node")), key=lambda case: case.name)


def as_numpy(value):
    if isinstance(value, np.ndarray) or np.isscalar(value):
        return np.asarray(value)
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return None


def with_constants(model, values):
    """The model with some inputs as initializers."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for name, value in values.items():
        copy.graph.initializer.append(numpy_helper.from_array(value, name))
    kept = [i for i in copy.graph.input if i.name not in values]
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    return copy


# Types that arrays do not have, and those of the arrays that hold their values.
HELD = {"uint16": "int64", "int16": "int64", "uint32": "int64", "uint64": "int64", "uint4": "uint8", "uint2": "uint8",
        "int4": "int8", "int2": "int8", "float8_e4m3fn": "float32", "float8_e4m3fnuz": "float32", "float8_e5m2": "float32",
        "float8_e5m2fnuz": "float32", "float8_e8m0fnu": "float32", "float4_e2m1fn": "float32"}


def to_array(value):
    value = value.astype(HELD.get(value.dtype.name, value.dtype))
    if value.dtype.name == "bfloat16":
        return mx.nd.array(value.astype(np.float32)).astype("bfloat16")
    return mx.nd.array(value, dtype=value.dtype)


def run_model(model, feeds, path):
    """Outputs of the model; constants are found by trying."""
    constants = {}
    for _ in range(len(feeds) + 1):
        onnx.save(with_constants(model, constants), path)
        live = {name: value for name, value in feeds.items() if name not in constants}
        try:
            symbol, _, inputs, outputs = _core.onnx_read(path, True, list(live), [v.shape for v in live.values()])
            names = [name for name, _, _ in inputs if name in symbol.list_inputs()]
            block = mx.gluon.SymbolBlock(symbol, names)
            arrays = [to_array(live[name]) for name in names]
            results = block(*arrays)
            return [r.asnumpy() for r in (results if isinstance(results, list) else [results])]
        except mx.MXNetError as error:
            wanted = CONSTANT.search(str(error))
            if wanted and wanted.group(1) in feeds and wanted.group(1) not in constants:
                constants[wanted.group(1)] = feeds[wanted.group(1)]
                continue
            if not feeds or len(constants) == len(feeds) or not (wanted or OPEN.search(str(error))):
                raise
            sizes = {name: value for name, value in live.items() if value.dtype == np.int64}
            constants.update(sizes or feeds)  # shapes are computed from integers, or depend on values
    raise AssertionError("too many constants")


def check_case(case, path):
    """None, or why the case fails."""
    model = case.model
    for inputs, outputs in case.data_sets:
        values = [as_numpy(value) for value in inputs]
        if any(value is None for value in values):
            return "unsupported: sequences, optionals or maps"
        feeds = dict(zip((i.name for i in model.graph.input), values))
        try:
            found = run_model(model, feeds, path)
        except Exception as error:  # noqa: BLE001
            return f"{type(error).__name__}: {str(error).splitlines()[0]}"
        for i, (want, got) in enumerate(zip(outputs, found)):
            want = as_numpy(want)
            if want is None:
                return "unsupported: sequences, optionals or maps"
            if got.size != want.size or (got.shape != want.shape and not (got.shape == (1,) and want.shape == ())):
                return f"WRONG: output {i} has the shape {got.shape}, wanted {want.shape}"
            if got.dtype.names == ("bfloat16",):
                got = got.view(np.uint16).view(want.dtype) if want.dtype.itemsize == 2 else got
            if got.dtype != HELD.get(want.dtype.name, want.dtype):
                return f"WRONG: output {i} has the type {got.dtype}, wanted {want.dtype}"
            if "bernoulli" in case.name:
                continue  # random numbers
            coarse = 2 ** -6 if want.dtype.name == "bfloat16" else 1e-3  # of eight bits, one or two may differ
            try:
                np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=max(case.rtol, coarse),
                                           atol=max(case.atol, 1e-5 if want.dtype != np.float16 else 2e-3))
            except AssertionError as error:
                return "WRONG: " + " ".join(str(error).split())[:160]
    return None


def unsupported_operators():
    """Operators of the cases that the reader does not have."""
    known = set(_core.onnx_operators(False))
    return {node.op_type for case in node_cases() if "_expanded" not in case.name for node in case.model.graph.node} - known


def run_all(part=""):
    folder = tempfile.mkdtemp()
    results = {}
    for case in node_cases():
        if part in case.name:
            results[case.name] = check_case(case, os.path.join(folder, "case.onnx"))
    return results


def main():
    part = next((a for a in sys.argv[1:] if not a.startswith("-")), "")
    results = run_all(part)
    passed = sum(reason is None for reason in results.values())
    reasons = collections.Counter()
    for name, reason in results.items():
        if reason is not None:
            if "--list" in sys.argv:
                print(name, "--", reason[:260])
            reasons[re.sub(r"'[^']*'|\S*case.onnx: |\d+", "", reason)[:110]] += 1
    if "--list" not in sys.argv:
        for reason, count in reasons.most_common(60):
            print(f"{count:5d}  {reason}")
    print(f"{passed} of {len(results)} cases pass ({100 * passed / max(len(results), 1):.1f} %)")


if __name__ == "__main__":
    main()
