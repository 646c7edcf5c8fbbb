"""Calls of every function of mx.np, drawn from its signature: how arguments of a name are drawn is written here once.

A call is (arrays, arguments): NumPy gets copies of the arrays.  Calls need not be valid: what NumPy refuses, mx.np must refuse.
"""
import inspect
import zlib

import numpy as onp

from mxnet import _core, np

# Tested on their own, since results are not unique: test_np_linalg.py, test_np_functions.py.
NOT_UNIQUE = {"linalg.eig", "linalg.eigvals", "linalg.eigh", "linalg.svd", "partition", "argpartition"}

SHAPES = [(), (1,), (4,), (2, 3), (3, 1), (0,), (2, 0), (2, 1, 3), (2, 3, 4)]
PAIRS = [((), ()), ((3,), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((2, 3), (2, 3)), ((0, 2), (1, 2)), ((2,), (3,)), ((4, 1, 2), (3, 1))]
FLOATS = ["float32", "float64", "float16"]
TYPES = ["float32", "float64", "float64", "float16", "int32", "int64", "uint8", "int8", "bool"]


def functions():
    """The functions of the library's table, under their public names."""
    names = [name[3:] for name in _core.np_operators() if name.startswith("np.") and not name.startswith("np.random.")]
    return {name: find(np, name) for name in sorted(set(names) - NOT_UNIQUE)}


def find(module, name):
    for part in name.split("."):
        module = getattr(module, part, None)
    return module


def numpys(name):
    """The function of NumPy; some have new names there."""
    renamed = {"product": "prod", "alltrue": "all", "sometrue": "any", "round_": "round", "row_stack": "vstack", "trapz": "trapezoid"}
    if name == "msort":
        return lambda a: onp.sort(a, axis=0)
    return find(onp, renamed.get(name, name))


def elements(random, shape, dtype):
    if dtype == "bool":
        return onp.asarray(random.uniform(size=shape) > 0.5)
    if dtype.startswith("float"):
        return onp.asarray(random.uniform(-3, 3, shape)).astype(dtype)
    return onp.asarray(random.randint(0 if dtype == "uint8" else -3, 4, shape)).astype(dtype)


class Draw:
    """One call: `first` is the array that has been drawn first."""

    def __init__(self, random, name):
        self.random, self.name, self.first = random, name, None

    def one(self, values):
        return values[self.random.randint(len(values))]

    def array(self, shape=None, dtype=None):
        x = elements(self.random, self.one(SHAPES) if shape is None else shape, dtype or self.one(TYPES))
        self.first = x if self.first is None else self.first
        return x

    def axis(self):
        n = self.first.ndim
        return int(self.random.randint(-n, n)) if n and self.random.uniform() < 0.9 else n

    def axes(self):
        return self.axis() if self.random.uniform() < 0.7 else tuple({self.axis() for _ in range(2)})

    def matrix(self):
        """Well-conditioned square matrices, now and then others."""
        n, stack = self.random.randint(1, 4), self.one([(), (), (2,), (0,)])
        if self.random.uniform() < 0.2:
            return self.array(self.one([(2, 3), (3,), (2, 3, 2)]), self.one(["float32", "float64"]))
        x = self.array(stack + (n, n), self.one(["float32", "float64", "float64", "int32"]))
        x += (5 * onp.eye(n)).astype(x.dtype)
        return x

    def second(self):
        """An operand beside the first: broadcast to it, now and then not."""
        pairs = [pair[1] for pair in PAIRS if pair[0] == self.first.shape] or [self.first.shape]
        if self.random.uniform() < 0.2:
            return self.one([2, 1.5, True, -1])
        return elements(self.random, self.one(pairs), self.one([str(self.first.dtype), self.one(TYPES)]))

    def indices(self, count=None):
        size = max(self.first.shape[0] if self.first.ndim else 1, 1)
        return onp.asarray(self.random.randint(-size, size, self.one([(), (2,), (1, 3)]) if count is None else count))

    def listed(self):
        base = self.array(self.one([(3,), (2, 3), (1, 3, 2), ()]))
        return [base] + [elements(self.random, base.shape, self.one([str(base.dtype), self.one(TYPES)])) for _ in range(self.random.randint(3))]

    def permutation(self):
        return tuple(int(i) for i in self.random.permutation(self.first.ndim))

    def widths(self):
        return [(int(self.random.randint(3)), int(self.random.randint(3))) for _ in range(self.first.ndim)] or 0


ALWAYS = set()  # arguments that NumPy requires although they have a default here
# How arguments are drawn, by their names.  A function may have its own rule: "name.argument".
ARGUMENTS = {
    "axis": Draw.axis, "axis1": Draw.axis, "axis2": Draw.axis, "axisa": Draw.axis, "axisb": Draw.axis, "axisc": Draw.axis,
    "source": Draw.axis, "destination": Draw.axis, "axes": Draw.permutation, "keepdims": lambda d: d.one([True, False]),
    "dtype": lambda d: d.one(["float64", "float32", "int64"]), "ddof": lambda d: d.one([0, 1]), "decimals": lambda d: d.one([0, 1, -1]),
    "initial": lambda d: d.one([2.0, -1.0]), "where": lambda d: elements(d.random, d.first.shape, "bool"),
    "k": lambda d: d.one([-1, 0, 1]), "offset": lambda d: d.one([-1, 0, 1]), "shift": lambda d: d.one([1, -2, 0]),
    "reps": lambda d: d.one([2, (2, 1), (1, 2, 1)]), "repeats": lambda d: d.one([0, 1, 2]), "kth": lambda d: d.one([0, 1]),
    "newshape": lambda d: d.one([(-1,), (1, -1), d.first.shape[::-1], (5, -1)]), "new_shape": lambda d: d.one([(3,), (2, 2), (0,), ()]),
    "shape": lambda d: d.one([(2,), (2, 3), (), (0, 2)]), "pad_width": Draw.widths, "order": None, "kind": None, "casting": None,
    "mode": lambda d: d.one(["constant", "edge", "reflect", "symmetric", "wrap", "maximum", "minimum"]), "copy": None,
    "constant_values": None, "interpolation": None, "method": lambda d: d.one(["linear", "lower", "higher", "midpoint", "nearest"]),
    "overwrite_input": None, "rowvar": lambda d: d.one([True, False]), "bias": lambda d: d.one([True, False]), "fweights": None, "aweights": None,
    "dx": lambda d: d.one([0.5, 2.0]), "N": lambda d: d.one([0, 1, 3]), "M": lambda d: d.one([0, 1, 4]), "n": lambda d: d.one([-1, 0, 1, 3]),
    "start": lambda d: d.one([0, 1, -2.5]), "stop": lambda d: d.one([3, 1, -1.5]), "step": lambda d: d.one([1, 0.5, -1]), "num": lambda d: d.one([0, 1, 5]),
    "endpoint": lambda d: d.one([True, False]), "retstep": None, "base": lambda d: d.one([2.0, 10.0]), "fill_value": lambda d: d.one([2, 1.5, True]),
    "minlength": lambda d: d.one([0, 6]), "bins": lambda d: d.one([3, [-3, 0, 1, 4]]), "range": lambda d: d.one([(-2, 2), None]), "normed": None,
    "weights": lambda d: elements(d.random, d.first.shape, "float64"), "density": lambda d: d.one([True, False]),
    "return_index": lambda d: d.one([True, False]), "return_inverse": None, "return_counts": lambda d: d.one([True, False]),
    "UPLO": lambda d: d.one(["L", "U"]), "ord": lambda d: d.one([1, 2, -1, onp.inf, 3]), "p": lambda d: d.one([1, 2, onp.inf, None]),
    "ind": lambda d: 1, "nan": lambda d: 1.5, "posinf": lambda d: 9.0, "neginf": None, "rtol": lambda d: 0.1, "atol": lambda d: 0.2,
    "equal_nan": lambda d: d.one([True, False]), "increasing": lambda d: d.one([True, False]), "hermitian": None, "rcond": lambda d: 1e-3, "tol": lambda d: 0.5,
    "dimensions": lambda d: d.one([(2, 3), (1,), (0, 2)]), "full_matrices": lambda d: False, "compute_uv": lambda d: False,
    "a": Draw.array, "x": Draw.array, "m": Draw.array, "array": Draw.array, "arr": Draw.array, "ary": Draw.array, "ar": Draw.array, "A": Draw.array,
    "y": Draw.second, "x1": lambda d: d.array(d.one(PAIRS)[0]), "x2": Draw.second, "b": Draw.second, "q": lambda d: d.one([20, 0.5, 50.0, onp.array([0.25, 0.5]), 120]),
    "a_min": lambda d: d.one([-1, 0.5, None]), "a_max": lambda d: d.one([1, 2.5, None]), "indices": Draw.indices,
    "condition": lambda d: d.array(dtype="bool"), "values": Draw.second,
    "obj": lambda d: d.one([0, -1, 1, [0, 0], slice(0, 1), 9]), "to_end": lambda d: d.one([7, [1, 2]]), "to_begin": lambda d: d.one([7, [1, 2]]),
    "seq": Draw.listed, "arrays": Draw.listed, "tup": Draw.listed, "prototype": Draw.array, "edges": None,
    "indices_or_sections": lambda d: d.one([1, 2, 3, [1], [1, 2]]),
    # rules of single functions
    "cov.y": None, "histogram.bins": lambda d: d.one([3, [-3.0, 0.0, 1.0, 4.0]]), "hanning.dtype": None, "hamming.dtype": None,
    "blackman.dtype": None, "logspace.dtype": None, "extract.arr": lambda d: elements(d.random, d.first.shape, d.one(TYPES)),
    "where.x": Draw.second, "where.y": Draw.second, "tensordot.a": lambda d: d.array(d.one([(2, 3), (2, 0), (2, 1, 2)])),
    "trapz.y": lambda d: d.array(dtype=d.one(FLOATS)), "trapz.x": lambda d: elements(d.random, d.first.shape, "float64"),
    "bincount.x": lambda d: d.array((5,), d.one(["int32", "int64", "uint8", "float32"])), "vander.x": lambda d: d.array((3,)),
    "cross.a": lambda d: d.array(d.one([(3,), (3, 3)])), "cross.b": lambda d: elements(d.random, d.first.shape, "float64"),
    "dot.a": lambda d: d.array(d.one([(), (3,), (2, 3), (2, 2, 3)])), "matmul.a": lambda d: d.array(d.one([(3,), (2, 3), (2, 2, 3)])),
    "dot.b": lambda d: elements(d.random, d.one([(), (3,), (3, 2), (2, 3, 2)]), d.one(TYPES)),
    "matmul.b": lambda d: elements(d.random, d.one([(3,), (3, 2), (2, 3, 2), (4,)]), d.one(TYPES)),
    "tensordot.axes": lambda d: d.one([0, 1, ([0], [0])]),
    "take_along_axis.indices": lambda d: elements(d.random, d.first.shape, "bool").astype("int64"), "compress.condition": lambda d: elements(d.random, (2,), "bool"),
    "unravel_index.indices": lambda d: d.random.randint(0, 7, 3), "unravel_index.shape": lambda d: (2, 3), "take.mode": lambda d: d.one(["clip", "wrap", "raise"]),
    "linalg.multi_dot.arrays": lambda d: [d.array((2, 3), "float64"), d.array((3, 4), "float64"), d.array((4, 2), "float64")],
    "linalg.qr.mode": lambda d: d.one(["reduced", "complete", "r"]), "linalg.solve.b": lambda d: elements(d.random, d.first.shape, "float64"),
    "linalg.tensorsolve.axes": None, "linalg.tensorsolve.b": lambda d: elements(d.random, d.first.shape[:1], "float64"), "linalg.norm.axis": None,
    "arange.step": lambda d: d.one([1, 0.5, -1]), "corrcoef.bias": None, "corrcoef.ddof": None, "corrcoef.y": None, "unique.axis": None,
    "logspace.axis": None, "linspace.axis": None, "full.fill_value": lambda d: d.one([2, 1.5]), "full_like.dtype": lambda d: d.one(["float64", "int64"]),
}
for _name in "sum prod product max min amax amin mean std var any all alltrue sometrue nansum nanprod nanmax nanmin nanmean nanstd nanvar " \
             "count_nonzero ptp flip squeeze expand_dims median percentile quantile".split():
    ARGUMENTS[f"{_name}.axis"] = Draw.axes
for _name in "mean std var nanmean nanstd nanvar".split():  # of integers NumPy has no rule: some are refused, some undefined
    ARGUMENTS[f"{_name}.dtype"] = lambda d: d.one(["float64", "float32"])
for _name in "around round round_ reciprocal".split():  # NumPy gives float16 and int8 for bool
    ARGUMENTS[f"{_name}.x"] = lambda d: d.array(dtype=d.one(TYPES[:-1]))
for _name in "clip.a_min clip.a_max where.x where.y".split():
    ALWAYS.add(_name)
MATRICES = {"linalg." + name for name in "inv det slogdet cholesky eig eigh eigvals eigvalsh norm solve matrix_power cond tensorinv tensorsolve pinv matrix_rank svd qr".split()}
IGNORED = {"out", "name", "ctx", "kwargs", "kwarg"}


def rule(name, argument):
    for key in (f"{name}.{argument}", argument):
        if key in ARGUMENTS:
            return ARGUMENTS[key]
    raise AssertionError(f"np_table.py: no rule how {argument!r} of np.{name} is drawn")


def drawn(name, function, number):
    """The arguments of a call, by name."""
    random = onp.random.RandomState(zlib.crc32(name.encode()) % 1000003 + number)
    draw, arguments = Draw(random, name), {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in IGNORED:
            continue
        make = rule(name, parameter.name)
        wanted = parameter.default is parameter.empty or f"{name}.{parameter.name}" in ALWAYS
        if make is None or not (wanted or random.uniform() < 0.4):
            continue
        if name in MATRICES and draw.first is None:
            make = Draw.matrix
        if draw.first is None and make not in (Draw.listed,) and parameter.kind == parameter.VAR_POSITIONAL:
            make = Draw.listed
        arguments[parameter.name] = make(draw)
    return arguments


def call(function, arguments, convert=lambda x: x):
    """Calls it: a list of arrays, and what has no default, by position; the rest by name."""
    def converted(value):
        if isinstance(value, list):
            return [converted(item) for item in value] if any(isinstance(item, onp.ndarray) for item in value) else value
        return convert(value) if isinstance(value, onp.ndarray) else value
    return function(**{key: converted(value) for key, value in arguments.items()})
