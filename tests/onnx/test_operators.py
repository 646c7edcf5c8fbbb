"""Every operator: its own samples as ONNX files, run by ONNX Runtime, and read back; or it is refused by name.

docs/onnx.md lists the operators without a counterpart, so a new operator is either written or listed there.

SPDX-License-Identifier: Apache-2.0
"""
import fnmatch
import os
import pathlib
import re
import sys

import numpy as np
import onnx
import onnxruntime
import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "python"))

import mxnet as mx  # noqa: E402
from mxnet import _core, sym  # noqa: E402
from samples import all_operators, as_python, attributes, inputs_of  # noqa: E402

OPERATORS = all_operators()
WRITTEN = [name for name in _core.onnx_operators(True) if name in OPERATORS]
OPSETS = (13, 17, 21)
DOCUMENT = (pathlib.Path(__file__).parents[2] / "docs" / "onnx.md").read_text()
LISTED = re.findall(r"`([\w*?]+)`", DOCUMENT.split("## Operators that are not written")[1].split("##")[0])
WITHOUT = {name for name in OPERATORS if any(fnmatch.fnmatch(name, pattern) for pattern in LISTED if pattern.strip("*"))}
# Results whose shapes depend on values: files are written, but such networks are not read.
WRITTEN_ONLY = {"_contrib_boolean_mask"}


def regions(values):
    """Boxes inside of the images: ONNX Runtime wants corners in order, and numbers of images that exist."""
    data, rois = values[0], values[1].copy()
    rois[:, 0] = np.arange(len(rois)) % len(data)
    rois[:, 1:3], rois[:, 3:] = np.minimum(rois[:, 1:3], rois[:, 3:]), np.maximum(rois[:, 1:3], rois[:, 3:])
    return [data, rois]


def lengths(values):
    """Of a sequence without steps, ONNX Runtime does not hand on the initial state."""
    return [np.maximum(value, 1) if i >= 3 and value is not None and value.ndim == 1 else value for i, value in enumerate(values)]


def small_integers(values):
    """Matrices of bytes, and their zero points."""
    return [None if value is None else np.array(np.round(value), dtype="int8") for value in values]


ADAPTED = {"ROIPooling": regions, "_contrib_ROIAlign": regions, "RNN": lengths, "_integer_dot": small_integers}


def graph_of(op, sample):
    """(symbol, {name: values}) of a sample."""
    values = ADAPTED.get(op.operator_name, list)(inputs_of(op, sample))
    feeds = {f"x{i}": value for i, value in enumerate(values) if value is not None}
    inputs = [None if value is None else sym.var(f"x{i}", shape=value.shape, dtype="int8" if value.dtype == np.int8 else None)
              for i, value in enumerate(values)]
    while inputs and inputs[-1] is None:
        inputs.pop()
    given = {key: as_python(value) for key, value in attributes(sample["attrs"]).items()}
    op = getattr(sym, op.operator_name, None) or getattr(sym._internal, op.operator_name)
    if op.operator_name == "RNN":  # lengths take the place of a missing cell state
        inputs = [i for i in inputs if i is not None]
    return op(*inputs, **given), feeds


def ours(graph, feeds):
    arrays = {name: mx.nd.array(value, dtype=value.dtype) for name, value in feeds.items()}
    states = {name: arrays.pop(name) for name in graph.list_auxiliary_states()}
    return [y.asnumpy() for y in graph.bind(mx.cpu(), arrays, aux_states=states).forward(is_train=False)]


def runtime(path, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()})


def compare(found, wanted, what):
    assert len(found) == len(wanted), what
    for i, (a, b) in enumerate(zip(found, wanted)):
        assert a.shape == b.shape, f"{what}: output {i} has the shape {a.shape}, wanted {b.shape}"
        np.testing.assert_allclose(a.astype("float64"), b.astype("float64"), rtol=2e-4,
                                   atol=1e-4 if "fft" in what else 2e-5, err_msg=what)


def compare_draws(found, wanted, what):
    """Random numbers: of the same shapes and types, and finite."""
    assert [(a.shape, a.dtype) for a in found] == [(b.shape, b.dtype) for b in wanted], what
    assert all(np.isfinite(a.astype("float64")).all() for a in found), what


def check_sample(op, sample, path, opset):
    graph, feeds = graph_of(op, sample)
    same = compare_draws if "random" in (sample["note"] or "").split() else compare
    names = list(feeds)
    wanted = ours(graph, feeds)
    if any(y.dtype.names for y in wanted):
        return  # bfloat16, which NumPy does not have
    used = [n for n in names if n in graph.list_inputs()]
    try:
        _core.onnx_write(graph, None, path, opset, used, [feeds[n].shape for n in used], None)
    except mx.error.UnsupportedError as error:
        if "ONNX has this operator since" not in str(error):
            raise
        _core.onnx_write(graph, None, path, OPSETS[-1], used, [feeds[n].shape for n in used], None)
    onnx.checker.check_model(path)
    same(runtime(path, feeds), wanted, f"{op.operator_name} ({sample['attrs']}) in ONNX Runtime")
    if op.operator_name in WRITTEN_ONLY:
        return
    read, _, inputs, _ = _core.onnx_read(path, True, [], [])
    same(ours(read, {n: feeds[n] for n in read.list_inputs() if n in feeds} |
              {n: read._constant(n).asnumpy() for n in read.list_inputs() if n not in feeds}), wanted,
         f"{op.operator_name} ({sample['attrs']}) read back")


# What the samples contain that ONNX, or its runtime, does not have: pieces of the message.
REFUSED = ("cannot be written", "ONNX has no", "ONNX has this operator since", "only ", "needs opset")

# What ONNX Runtime does not accept: indices outside of an axis, LRN of other than images, zero points for every row.
STRICTER = ("out of data bounds", "is out of range", "X_shape.NumDimensions() == 4", "index out of", "zero point must be a scalar")
RuntimeErrors = (onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument, onnxruntime.capi.onnxruntime_pybind11_state.Fail)


def check_samples(op, tmp_path):
    passed, refused = 0, []
    for number, sample in enumerate(op.samples):
        if any(0 in (value.shape if value is not None else ()) for value in inputs_of(op, sample)):
            continue  # ONNX Runtime does not run many operators on empty arrays
        try:
            check_sample(op, sample, str(tmp_path / f"{number}.onnx"), OPSETS[number % len(OPSETS)])
            passed += 1
        except (mx.error.UnsupportedError, *RuntimeErrors) as error:
            if not any(piece in str(error) for piece in (REFUSED if isinstance(error, mx.MXNetError) else STRICTER)):
                raise
            refused.append(str(error))
    assert passed, f"no sample can be written: {refused[:1]}"


def check_refused(op, path):
    """The error names node and operator."""
    arity = max(len(inputs_of(op, sample)) for sample in op.samples)
    sample = next(sample for sample in op.samples if len(inputs_of(op, sample)) == arity)
    graph, feeds = graph_of(op, sample)
    feeds = {name: value for name, value in feeds.items() if name in graph.list_inputs()}
    if not graph.list_outputs():
        return  # reset_arrays: there is nothing to write
    with pytest.raises(mx.error.UnsupportedError, match=rf"node '\w+' \({op.operator_name}\): ONNX has no such operator"):
        _core.onnx_write(graph, None, path, OPSETS[-1], list(feeds), [value.shape for value in feeds.values()], None)


@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name, tmp_path):
    assert (name in WRITTEN) != (name in WITHOUT), "an operator has a row in src/gluon/onnx/def, or docs/onnx.md lists it"
    if name in WRITTEN:
        check_samples(OPERATORS[name], tmp_path)
    else:
        check_refused(OPERATORS[name], str(tmp_path / "net.onnx"))


MANY = 20000


def check_moments(found, wanted):
    """Mean and deviation, up to five deviations of the mean of that many numbers."""
    for a, b in zip(found, wanted, strict=True):
        a, b = a.astype("float64"), b.astype("float64")
        assert abs(a.mean() - b.mean()) < 5 * b.std() * (2 / MANY) ** 0.5 and abs(a.std() / b.std() - 1) < 0.06


DRAWS = {
    "uniform": lambda x: sym.random.uniform(-1, 3, shape=(MANY,)),
    "normal": lambda x: sym.random.normal(2, 0.5, shape=(MANY,)),
    "exponential": lambda x: sym.random.exponential(2, shape=(MANY,)),
    "randint": lambda x: sym.random.randint(-5, 9, shape=(MANY,)),
    "uniform_like": lambda x: sym.random.uniform_like(x, low=-2, high=1),
    "normal_like": lambda x: sym.random.normal_like(x, loc=1, scale=3),
    "exponential_like": lambda x: sym.random.exponential_like(x, lam=4),
    "sample_uniform": lambda x: sym.sample_uniform(x - 4, x + 1),
    "sample_normal": lambda x: sym.sample_normal(x, x + 0.5),
    "sample_exponential": lambda x: sym.sample_exponential(x + 1),
    "multinomial": lambda x: sym.sample_multinomial(sym.softmax(sym.slice_axis(x, axis=0, begin=0, end=5)), shape=(MANY,)),
    "shuffle": lambda x: sym.shuffle(x),
    "brightness": lambda x: sym.image.random_brightness(sym.reshape(x, shape=(-1, 1, 1, 1)), 0.5, 1.5),
    "lighting": lambda x: sym.image.random_lighting(sym.tile(sym.reshape(x, shape=(-1, 1, 1, 1)), reps=(1, 1, 1, 3)), 0.2),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws(name, tmp_path):
    """Random numbers have the same mean and deviation on both sides, and differ from run to run."""
    path, x = str(tmp_path / "net.onnx"), np.linspace(0, 1, MANY).astype("float32")
    graph = DRAWS[name](sym.var("x", shape=x.shape))
    feeds = {"x": x} if "x" in graph.list_inputs() else {}
    _core.onnx_write(graph, None, path, 17, list(feeds), [x.shape] * len(feeds), None)
    read, _, _, _ = _core.onnx_read(path, True, [], [])
    mine = {n: feeds[n] if n in feeds else read._constant(n).asnumpy() for n in read.list_inputs()}
    wanted = ours(graph, feeds)
    check_moments(runtime(path, feeds), wanted)
    check_moments(ours(read, mine), wanted)
    assert (ours(read, mine)[0] != ours(read, mine)[0]).any()
