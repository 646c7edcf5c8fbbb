"""Every function of mx.np against NumPy on drawn calls (np_table.py): values, types, shapes, refusals; hybridized; gradients.

A function that is added to the library's table is tested here without a line for it, as long as its arguments have usual names.
"""
import inspect
import warnings

import numpy as onp
import pytest

import mxnet as mx
from mxnet import autograd, np
from np_table import call, drawn, find, functions, numpys

FUNCTIONS = functions()
CALLS = 60  # of each function
REFUSALS = (TypeError, ValueError, IndexError, NotImplementedError)


def ours(x):
    return np.array(x, dtype=x.dtype)


def numpys_arguments(name, arguments):
    """Arguments under the names of NumPy, which takes most of them by position."""
    new = {"newshape": "shape", "arrays": "tup" if name in ("vstack", "hstack", "dstack", "row_stack") else "arrays"}
    return {new.get(key, key): value for key, value in arguments.items()}


def outcome(function, arguments, convert, positional):
    """The results as a list, or the exception."""
    with onp.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if positional:
                order = list(arguments)
                result = call(lambda **kw: function(*(kw[key] for key in order[:positional]), **{k: kw[k] for k in order[positional:]}),
                              arguments, convert)
            else:
                result = call(function, arguments, convert)
            result = list(result) if isinstance(result, (list, tuple)) else [result]
            return [x.asnumpy() if isinstance(x, np.ndarray) else onp.asarray(x) for x in result]
        except REFUSALS as error:
            return error


def tolerance(*arrays):
    return max({"float16": 2e-2, "float32": 3e-5}.get(str(x.dtype), 1e-9) for x in arrays)


def inputs_of(arguments):
    found = []
    for value in arguments.values():
        found += [x for x in value if isinstance(x, onp.ndarray)] if isinstance(value, list) else [value] if isinstance(value, onp.ndarray) else []
    return found


# Where we differ from NumPy on purpose: a part of the difference, and the reason.
INTENDED = {
    "arange": {"type float32": "numbers have the default type, as in MXNet"},
    "full": {"type float32": "numbers have the default type, as in MXNet"},
    "ldexp": {"TypeError": "floating exponents are accepted, as in MXNet"},
    "ptp": {"NumPy raises ValueError, we DTypeError": "bool is refused first"},
    "ediff1d": {"same_kind": "what is added gets the type of the array"},
    "percentile": {"boolean subtract": "bool is interpolated as 0 and 1"}, "quantile": {"boolean subtract": "bool is interpolated as 0 and 1"},
}


def is_intended(name, difference):
    if "array of dimension 0" in difference:
        return True  # numbers have an axis 0 in every reduction; in NumPy only in some
    return any(part in difference for part in INTENDED.get(name, ()))


def both_about_axes(got, wanted):
    """NumPy's errors about axes are ValueError and IndexError at once, or come from indexing a shape."""
    return isinstance(wanted, IndexError) and isinstance(got, ValueError) and "ax" in str(got)


def required(function):
    return [p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty]


def compare(name, arguments, got, wanted):
    """None, or what differs."""
    if isinstance(wanted, Exception):
        if not isinstance(got, Exception):
            return f"NumPy refuses it: {type(wanted).__name__}: {wanted}"
        kinds = [kind for kind in REFUSALS if isinstance(wanted, kind)]
        return None if both_about_axes(got, wanted) or any(isinstance(got, kind) for kind in kinds) else f"NumPy raises {type(wanted).__name__}, we {type(got).__name__}: {got}"
    if isinstance(got, Exception):
        return f"we refuse it: {type(got).__name__}: {got}"
    if len(got) != len(wanted):
        return f"{len(got)} results, NumPy has {len(wanted)}"
    for mine, numpys_result in zip(got, wanted):
        if mine.shape != numpys_result.shape:
            return f"shape {mine.shape}, NumPy's {numpys_result.shape}"
        kinds = mine.dtype.kind + numpys_result.dtype.kind
        if kinds[0] != kinds[1] and kinds not in ("iu", "ui"):
            return f"type {mine.dtype}, NumPy's {numpys_result.dtype}"
        loose = tolerance(mine, numpys_result, *inputs_of(arguments))
        if not onp.allclose(mine.astype("float64"), numpys_result.astype("float64"), rtol=loose, atol=loose, equal_nan=True):
            return f"elements {mine.tolist()}, NumPy's {numpys_result.tolist()}"
    return None


def check(name, function, arguments):
    """Runs a call on both sides: "" if they agree on results, None if both refuse it, or what differs."""
    count = len(arguments) if name == "where" else len(required(function))
    try:
        wanted = outcome(numpys(name), numpys_arguments(name, arguments), onp.array, count)
    except OverflowError:
        return None  # Python's integers do not fit the type: NumPy 1 wrapped them around
    got = outcome(function, arguments, ours, 0)
    difference = compare(name, arguments, got, wanted)
    if difference and is_intended(name, difference):
        return None
    return difference or ("" if isinstance(got, list) else None)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_calls(name):
    calls = [drawn(name, FUNCTIONS[name], number) for number in range(CALLS)]
    results = [(check(name, FUNCTIONS[name], arguments), arguments) for arguments in calls]
    wrong = [f"{arguments}: {difference}" for difference, arguments in results if difference]
    assert not wrong, f"{len(wrong)} of {CALLS} calls:\n" + "\n".join(wrong[:5])
    compared = sum(difference == "" for difference, _ in results)
    assert compared >= 8, f"NumPy accepts only {compared} of {CALLS} calls"


# ---- out, hybridized, gradients ----------------------------------------------------------------------------------------

def good_calls(name, most, accept=lambda arguments: True):
    """Calls that give one array, with that array."""
    found = []
    for number in range(CALLS):
        arguments = drawn(name, FUNCTIONS[name], number)
        got = outcome(FUNCTIONS[name], arguments, ours, 0) if accept(arguments) and len(found) < most else None
        if isinstance(got, list) and len(got) == 1:
            found.append((arguments, got[0]))
    return found


@pytest.mark.parametrize("name", sorted(name for name, function in FUNCTIONS.items() if isinstance(function, mx._core.Op)))
def test_out(name):
    for arguments, wanted in good_calls(name, 5):
        out = np.zeros(wanted.shape, dtype=wanted.dtype)
        assert call(lambda **kw: FUNCTIONS[name](**kw, out=out), arguments, ours) is out
        onp.testing.assert_array_equal(out.asnumpy(), wanted)


class Traced(mx.gluon.nn.HybridBlock):
    """A function of F.np; arrays are inputs, the rest is fixed."""

    def __init__(self, name, arguments):
        super().__init__()
        self.function, self.arguments = name, arguments

    def hybrid_forward(self, F, *inputs):
        given = iter(inputs)
        arguments = {key: [next(given) if isinstance(x, onp.ndarray) else x for x in value] if isinstance(value, list)
                     else next(given) if isinstance(value, onp.ndarray) else value for key, value in self.arguments.items()}
        return find(F.np, self.function)(**arguments)


def only_float64(arguments):
    arrays = inputs_of(arguments)
    return bool(arrays) and arrays[0].dtype == "float64" and all(x.size and x.dtype in ("float64", "bool", "int64") for x in arrays)


# Results whose size depends on elements cannot be traced; the others look at elements in Python.
NOT_TRACED = {"split", "unique", "delete", "extract", "compress", "argwhere", "flatnonzero", "bincount", "histogram"}


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - NOT_TRACED))
def test_hybridized(name):
    """A plan gives the bits of the calls."""
    for arguments, wanted in good_calls(name, 3, only_float64):
        block = Traced(name, arguments)
        block.hybridize()
        try:
            got = block(*map(ours, inputs_of(arguments)))
        except mx.error.MXNetError:
            assert name == "pad"  # some borders are made by NumPy
            continue
        assert type(got) is np.ndarray and got.dtype == wanted.dtype
        onp.testing.assert_allclose(got.asnumpy(), wanted, rtol=1e-12, atol=1e-12)


CONSTANT = {"full_like", "split"}  # they do not depend on the array, or give a list
SYMMETRIC = {"linalg.cholesky", "linalg.eigvalsh"}  # one triangle is read, the gradient is symmetric


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - CONSTANT))
def test_gradients(name):
    """Gradients of the first array against central differences."""
    for arguments, wanted in good_calls(name, 3, only_float64):
        arrays = [ours(x) for x in inputs_of(arguments)]
        if wanted.dtype != "float64" or not wanted.size or not onp.isfinite(wanted).all():
            continue

        def total(x):
            given = iter([x] + arrays[1:])
            return call(lambda **kw: (FUNCTIONS[name](**kw) * weights).sum(), arguments, lambda _: next(given))
        weights = ours(onp.random.uniform(0.5, 1.5, wanted.shape).astype(wanted.dtype))
        arrays[0].attach_grad()
        try:
            with autograd.record():
                y = total(arrays[0])
        except mx.error.UnsupportedError:
            assert name == "pad"
            continue
        if arguments.get("n") == 0:
            continue  # the identity
        y.backward()
        x, step = arrays[0].asnumpy(), 1e-6
        numeric = onp.zeros_like(x)
        for place in onp.ndindex(x.shape):
            moved = x.copy(), x.copy()
            moved[0][place] += step
            moved[1][place] -= step
            numeric[place] = (total(ours(moved[0])).item() - total(ours(moved[1])).item()) / (2 * step)
        if name in SYMMETRIC:
            numeric = (numeric + onp.swapaxes(numeric, -1, -2)) / 2
        onp.testing.assert_allclose(arrays[0].grad.asnumpy(), numeric, rtol=1e-4, atol=1e-4, err_msg=str(arguments))
