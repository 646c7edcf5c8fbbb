"""Functions of mx.np against NumPy: values, types, shapes and gradients over random shapes, types, axes and broadcasting."""
import numpy as onp
import pytest

import mxnet as mx
from mxnet import autograd, np

SHAPES = [(), (1,), (4,), (3, 1), (2, 3), (2, 0), (0,), (2, 1, 3), (1, 2, 3, 2)]
TYPES = ["float32", "float64", "float16", "int32", "int64", "uint8", "int8", "bool"]
FLOATS = ("float32", "float64", "float16")


def draw(shape, dtype, low=-3, high=4):
    if dtype == "bool":
        return onp.asarray(onp.random.uniform(size=shape) > 0.5)
    low = 0 if dtype == "uint8" else low
    if dtype in FLOATS:
        return onp.asarray(onp.random.uniform(low, high, shape)).astype(dtype)
    return onp.asarray(onp.random.randint(low, high, shape)).astype(dtype)


def ours(x):
    return np.array(x, dtype=x.dtype)


def same(got, wanted, tolerance=None, exact_type=True):
    """Equal values and shapes; types may differ where ours are narrower than NumPy's on purpose."""
    wanted = onp.asarray(wanted)
    assert got.shape == wanted.shape, f"shape {got.shape}, NumPy's {wanted.shape}"
    if exact_type:
        assert onp.dtype(got.dtype).kind == wanted.dtype.kind, f"type {got.dtype}, NumPy's {wanted.dtype}"
    loose = {"float16": 2e-2, "float32": 2e-5}.get(str(got.dtype), 1e-9) if tolerance is None else tolerance
    onp.testing.assert_allclose(got.asnumpy().astype("float64"), wanted.astype("float64"), rtol=loose, atol=loose)


# ---- single elements ---------------------------------------------------------------------------------------------------

UNARY = {"exp": (-3, 3), "expm1": (-3, 3), "log": (0.1, 4), "log2": (0.1, 4), "log10": (0.1, 4), "log1p": (0, 4), "sqrt": (0, 4),
         "cbrt": (-3, 3), "square": (-3, 3), "sin": (-3, 3), "cos": (-3, 3), "tan": (-1, 1), "arcsin": (-1, 1),
         "arccos": (-1, 1), "arctan": (-3, 3), "sinh": (-3, 3), "cosh": (-3, 3), "tanh": (-3, 3), "arcsinh": (-3, 3),
         "arccosh": (1, 4), "arctanh": (-0.9, 0.9), "degrees": (-3, 3), "radians": (-90, 90), "rad2deg": (-3, 3),
         "deg2rad": (-90, 90), "abs": (-3, 3), "absolute": (-3, 3), "fabs": (-3, 3), "negative": (-3, 3), "sign": (-3, 3),
         "floor": (-3, 3), "ceil": (-3, 3), "trunc": (-3, 3), "rint": (-3, 3), "isnan": (-3, 3), "isinf": (-3, 3),
         "isfinite": (-3, 3), "logical_not": (-1, 2), "fix": (-3, 3), "around": (-3, 3), "round": (-3, 3)}


@pytest.mark.parametrize("name", sorted(UNARY))
def test_unary(name):
    low, high = UNARY[name]
    for dtype in TYPES:
        for shape in SHAPES:
            whole = dtype not in FLOATS
            x = draw(shape, dtype, int(onp.ceil(low)) if whole else low, int(high) + 1 if whole else high)
            if dtype == "bool" and name in ("negative", "sign", "floor", "ceil", "trunc", "fix", "log", "log2", "log10", "arccosh",
                                            "arctanh", "around", "round", "square", "fabs"):
                continue
            if not x.size and name == "around":
                continue
            with onp.errstate(all="ignore"):
                wanted = getattr(onp, name)(x if dtype in FLOATS else x.astype("float64") if name in FLOAT_RESULTS else x)
                same(getattr(np, name)(ours(x)), wanted)


FLOAT_RESULTS = set(UNARY) - {"square", "abs", "absolute", "negative", "sign", "floor", "ceil", "trunc", "isnan", "isinf",
                              "isfinite", "logical_not", "fix", "around", "round"}


def test_special_values():
    x = onp.array([onp.nan, onp.inf, -onp.inf, 0, 1], "float32")
    for name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf"):
        same(getattr(np, name)(ours(x)), getattr(onp, name)(x))
    same(np.nan_to_num(ours(x)), onp.nan_to_num(x))
    same(np.nan_to_num(ours(x), nan=2.0, posinf=3.0, neginf=-4.0), onp.nan_to_num(x, nan=2.0, posinf=3.0, neginf=-4.0))
    same(np.around(np.array([1.2345, 2.5]), 2), onp.around(onp.array([1.2345, 2.5], "f4"), 2))
    same(np.round(np.array([15, 25], dtype="int32"), -1), onp.round(onp.array([15, 25], "i4"), -1))
    same(~np.array([True, False]), [False, True])
    same(~np.array([1, -3], dtype="int32"), ~onp.array([1, -3]))


BINARY = ["add", "subtract", "multiply", "divide", "true_divide", "floor_divide", "mod", "remainder", "power", "maximum",
          "minimum", "hypot", "arctan2", "copysign", "fmod", "logaddexp", "equal", "not_equal", "less", "less_equal", "greater",
          "greater_equal", "logical_and", "logical_or", "logical_xor"]
PAIRS = [((), ()), ((3,), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((4, 1, 2), (3, 1)), ((0, 2), (1, 2)), ((2, 3), (2, 3))]
NARROW = {frozenset(p) for p in [("float32", "int32"), ("float32", "int64"), ("float16", "int32"), ("float16", "int64")]}


def numpy_of(name, a, b):
    """NumPy's result; integers beside floats take part as that float, as here."""
    kinds = {a.dtype.kind, b.dtype.kind}
    if "f" in kinds and kinds != {"f"}:
        other = a.dtype if a.dtype.kind == "f" else b.dtype
        a, b = a.astype(other), b.astype(other)
    with onp.errstate(all="ignore"):
        return getattr(onp, name)(a, b)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    for left in TYPES:
        for right in TYPES:
            if "bool" in (left, right) and name in ("subtract", "floor_divide", "mod", "remainder", "power", "fmod", "add", "multiply",
                                                    "maximum", "minimum"):
                continue
            if "float16" in (left, right) and name in ("mod", "remainder", "fmod", "floor_divide"):
                continue  # they jump, so a rounding error is a whole step
            s, t = PAIRS[onp.random.randint(len(PAIRS))]
            a, b = draw(s, left, 1, 4), draw(t, right, 1, 4)
            if left == right == "bool" and name in ("divide", "true_divide", "hypot", "arctan2", "copysign", "logaddexp"):
                continue
            wide = onp.float64 if {left, right}.isdisjoint(FLOATS) and name in (
                "divide", "true_divide", "hypot", "arctan2", "copysign", "logaddexp") else None
            wanted = numpy_of(name, a.astype(wide) if wide else a, b.astype(wide) if wide else b)
            same(getattr(np, name)(ours(a), ours(b)), wanted, 2e-2 if "float16" in (left, right) else 2e-5)


def test_binary_negative_operands():
    a, b = draw((5, 7), "float32", -5, 5), draw((5, 7), "float32", -5, 5)
    for name in ("floor_divide", "mod", "fmod", "arctan2", "copysign", "ldexp"):
        second = onp.rint(b) if name == "ldexp" else b
        wanted = onp.ldexp(a, second.astype("int32")) if name == "ldexp" else getattr(onp, name)(a, second)
        same(getattr(np, name)(ours(a), ours(second)), wanted)
    i, j = draw((30,), "int32", -9, 9), draw((30,), "int32", 1, 5) * onp.random.choice([-1, 1], 30).astype("int32")
    for name in ("floor_divide", "mod", "bitwise_and", "bitwise_or", "bitwise_xor"):
        same(getattr(np, name)(ours(i), ours(j)), getattr(onp, name)(i, j))


def test_where_and_out():
    x, mask = draw((2, 3), "float32", 1, 3), draw((2, 3), "bool")
    for name in ("add", "multiply", "power"):
        out, wanted = np.full((2, 3), 9.0), onp.full((2, 3), 9, "float32")
        assert getattr(np, name)(ours(x), 2, out=out, where=ours(mask)) is out
        getattr(onp, name)(x, onp.float32(2), out=wanted, where=mask)
        same(out, wanted)
    out, wanted = np.zeros((2, 3)), onp.zeros((2, 3), "float32")
    np.exp(ours(x), out=out, where=ours(mask[0])), onp.exp(x, out=wanted, where=mask[0])
    same(out, wanted)
    same(np.sqrt(ours(x), where=True), onp.sqrt(x))


def test_numbers_give_way():
    for dtype in TYPES:
        x = draw((2, 3), dtype, 1, 4)
        assert (ours(x) * 2).dtype == ("int64" if dtype == "bool" else dtype)
        assert (ours(x) + 1.5).dtype == (dtype if dtype in FLOATS else "float32")
        same(3 - ours(x), 3 - x.astype("int64") if dtype == "bool" else 3 - x)
        assert (2 / ours(x)).dtype == (dtype if dtype in FLOATS else "float32")
        assert (ours(x) > 1).dtype == "bool" and (1 == ours(x)).dtype == "bool"
    assert (np.array([2**60], dtype="int64") + (2**60 + 1)).item() == 2**61 + 1
    with mx.util.np_default_dtype():
        assert (np.array([1], dtype="int32") / 2).dtype == "float64" and np.ones(2).dtype == "float64"


def test_promotion_of_arrays():
    pairs = {("int32", "float32"): "float32", ("int64", "float16"): "float16", ("float16", "float32"): "float32",
             ("float32", "float64"): "float64", ("bool", "int8"): "int8", ("uint8", "int8"): "int32", ("int8", "int32"): "int32",
             ("uint8", "int64"): "int64", ("bool", "float16"): "float16"}
    for (a, b), wanted in pairs.items():
        x, y = np.ones(2, dtype=a), np.ones(2, dtype=b)
        assert (x + y).dtype == (y + x).dtype == np.concatenate([x, y]).dtype == np.where(x, x, y).dtype == wanted


# ---- reductions --------------------------------------------------------------------------------------------------------

REDUCTIONS = ["sum", "prod", "mean", "max", "min", "amax", "amin", "any", "all", "std", "var", "argmax", "argmin", "ptp",
              "count_nonzero"]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    for shape in [(), (4,), (2, 3), (2, 3, 4), (0, 3), (3, 0)]:
        for dtype in ("float32", "float64", "int32", "bool"):
            for axis in [None] + list(range(-len(shape), len(shape))) + ([(0, 1), (-1, 0)] if len(shape) > 1 else []):
                for keepdims in (False, True):
                    if dtype == "bool" and name in ("ptp", "std", "var"):
                        continue
                    if isinstance(axis, tuple) and name in ("argmax", "argmin"):
                        continue
                    x = draw(shape, dtype)
                    arguments = {"axis": axis, "keepdims": keepdims}
                    try:
                        with onp.errstate(all="ignore"):
                            wanted = getattr(onp, name)(x, **arguments)
                    except ValueError:
                        with pytest.raises(ValueError):
                            getattr(np, name)(ours(x), **arguments)
                        continue
                    if not x.size and name in ("mean", "std", "var"):
                        continue  # NaN with a warning
                    same(getattr(np, name)(ours(x), **arguments), wanted)


def test_reduction_arguments():
    x = draw((2, 3), "float32")
    same(np.sum(ours(x), dtype="float64"), onp.sum(x, dtype="float64"))
    same(np.sum(ours(x), axis=0, initial=2.0), onp.sum(x, axis=0, initial=2.0), 1e-5)
    same(np.std(ours(x), ddof=1, axis=1), onp.std(x, ddof=1, axis=1))
    same(np.cumsum(ours(x), axis=1), onp.cumsum(x, axis=1), 1e-5)
    same(np.cumsum(ours(x)), onp.cumsum(x), 1e-5)
    same(np.average(ours(x), axis=1, weights=np.array([1, 2, 3.])), onp.average(x, axis=1, weights=[1, 2, 3]), 1e-5)
    out = np.zeros((3,))
    assert np.sum(ours(x), axis=0, out=out) is out
    same(out, x.sum(0))
    for bad in (2, -3, (0, 5)):
        with pytest.raises(ValueError, match="axis"):
            np.sum(ours(x), axis=bad)


def test_variance_of_an_unknown_size():
    x = mx.sym.var("x", shape=(0, 3)).as_np_ndarray()
    with pytest.raises(mx.MXNetError, match="the size of axis 0 must be known"):
        mx.sym.np.var(x, axis=0, ddof=1)


@pytest.mark.parametrize("axis", [1, (0, 2), None])
def test_shares_with_two_axes(axis):
    x, q = draw((3, 4, 5), "float32"), [[0.1, 0.5, 0.7], [0.9, 0.3, 0.0]]
    same(np.quantile(ours(x), np.array(q), axis=axis), onp.quantile(x, q, axis=axis))


# ---- shapes ------------------------------------------------------------------------------------------------------------

def case(name, *arrays, **arguments):
    return pytest.param(name, arrays, arguments, id=f"{name}-{'-'.join(map(str, arguments.values()))}".replace(" ", ""))


A, B, C = onp.arange(24.).reshape(2, 3, 4), onp.arange(12.).reshape(3, 4), onp.arange(5.)
SHAPING = [
    case("reshape", A, newshape=(4, -1)), case("reshape", A, newshape=-1), case("reshape", onp.zeros((0, 3)), newshape=(3, 0)),
    case("transpose", A), case("transpose", A, axes=(1, 0, -1)), case("swapaxes", A, axis1=0, axis2=-1),
    case("moveaxis", A, source=0, destination=-1), case("moveaxis", A, source=(0, 1), destination=(2, 0)),
    case("expand_dims", A, axis=1), case("expand_dims", B, axis=(0, -1)), case("squeeze", onp.ones((1, 3, 1))),
    case("squeeze", onp.ones((1, 3, 1)), axis=0), case("ravel", A), case("broadcast_to", C, shape=(2, 5)),
    case("tile", B, reps=2), case("tile", B, reps=(2, 1, 2)), case("repeat", B, repeats=2), case("repeat", B, repeats=3, axis=1),
    case("repeat", C, repeats=[1, 0, 2, 0, 3]), case("flip", A), case("flip", A, axis=(0, 2)), case("flip", A, axis=-1),
    case("roll", A, shift=2), case("roll", A, shift=-1, axis=2), case("roll", B, shift=(1, 2), axis=(0, 1)),
    case("rot90", B), case("rot90", A, k=3, axes=(1, 2)), case("fliplr", B), case("flipud", B), case("rollaxis", A, axis=2),
    case("diag", C), case("diag", B, k=1), case("diagonal", A, offset=1), case("diagonal", A, axis1=1, axis2=2),
    case("trace", B), case("trace", A, offset=-1), case("tril", B), case("tril", A, k=1), case("triu", B, k=-1),
    case("pad", B, pad_width=1), case("pad", B, pad_width=((1, 0), (2, 3)), mode="edge"),
    case("pad", B, pad_width=((1, 1), (0, 2)), mode="reflect"), case("pad", B, pad_width=2, mode="symmetric"),
    case("pad", C, pad_width=(1, 2), constant_values=3.5), case("pad", C, pad_width=2, mode="wrap"),
    case("diff", A), case("diff", A, n=2, axis=1), case("sort", -A), case("sort", -B, axis=None), case("argsort", -B, axis=0),
    case("clip", A, a_min=3, a_max=9.5), case("clip", A, a_min=None, a_max=4), case("clip", A, a_min=20, a_max=None),
    case("atleast_2d", C), case("atleast_3d", B), case("median", B), case("percentile", B, q=30), case("unique", B % 3),
    case("cumprod", C), case("bincount", onp.array([1, 2, 2])), case("trapz", C), case("polyval", C, x=onp.array(2.)),
]


@pytest.mark.parametrize("name, arrays, arguments", SHAPING)
def test_shaping(name, arrays, arguments):
    function = getattr(onp, name, None) or onp.trapezoid
    given = {key: ours(value) if isinstance(value, onp.ndarray) else value for key, value in arguments.items()}
    if name == "reshape":
        same(np.reshape(ours(arrays[0]), **given), onp.reshape(arrays[0], arguments["newshape"]))
    else:
        same(getattr(np, name)(*map(ours, arrays), **given), function(*arrays, **arguments))


def test_joining_and_parts():
    a, b, v = onp.arange(6.).reshape(2, 3), onp.ones((2, 3)), onp.arange(3.)
    for name, arrays, arguments in [("concatenate", (a, b), {"axis": 1}), ("concatenate", (a, b), {"axis": None}),
                                    ("stack", (a, b), {"axis": -1}), ("vstack", (v, v), {}), ("vstack", (a, v), {}),
                                    ("hstack", (a, b), {}), ("hstack", (v, v), {}), ("dstack", (a, b), {}), ("dstack", (v, v), {}),
                                    ("column_stack", (v, v), {})]:
        same(getattr(np, name)([ours(x) for x in arrays], **arguments), getattr(onp, name)(arrays, **arguments))
    for name, how in [("split", 3), ("split", (1, 2)), ("array_split", 2), ("array_split", (5,)), ("split", (-1,))]:
        parts, wanted = getattr(np, name)(ours(a), how, axis=1), getattr(onp, name)(a, how, axis=1)
        assert isinstance(parts, list) and len(parts) == len(wanted)
        for part, want in zip(parts, wanted):
            same(part, want)
    for got, want in zip(np.meshgrid(ours(v), ours(C)), onp.meshgrid(v, C)):
        same(got, want)
    for got, want in zip(np.broadcast_arrays(ours(a), ours(v)), onp.broadcast_arrays(a, v)):
        same(got, want)
    with pytest.raises(ValueError):
        np.split(ours(a), 2, axis=1)
    with pytest.raises(ValueError):
        np.concatenate([ours(a), ours(v)])


def test_products():
    shapes = [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)),
              ((5, 1, 2, 3), (4, 3, 2)), ((3,), (5, 3, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 3))]
    for s, t in shapes:
        for dtype in ("float32", "float64", "int32"):
            a, b = draw(s, dtype), draw(t, dtype)
            same(np.matmul(ours(a), ours(b)), a @ b, 1e-4)
            same(ours(a) @ ours(b), a @ b, 1e-4)
            same(np.dot(ours(a), ours(b)), onp.dot(a, b), 1e-4)
    a, b = draw((2, 3, 4), "float64"), draw((4, 3, 2), "float64")
    for axes in (0, 1, ((1, 2), (1, 0)), (2, 0)):
        same(np.tensordot(ours(a), ours(b), axes), onp.tensordot(a, b, axes))
    same(np.einsum("ijk,kjl->il", ours(a), ours(b)), onp.einsum("ijk,kjl->il", a, b))
    same(np.einsum("ijk->", ours(a)), onp.einsum("ijk->", a))
    same(np.inner(ours(a), ours(a)), onp.inner(a, a))
    same(np.outer(ours(C), ours(C)), onp.outer(C, C))
    same(np.vdot(ours(B), ours(B)), onp.vdot(B, B))
    for f in (np.dot, np.matmul):
        with pytest.raises(ValueError):
            f(np.ones((2, 3)), np.ones((2, 3)))


def test_choosing():
    x = draw((3, 4), "float32")
    same(np.where(ours(x) > 0, ours(x), 0), onp.where(x > 0, x, onp.float32(0)))
    same(np.where(np.array([[True], [False], [True]]), 1, ours(x)), onp.where([[True], [False], [True]], onp.float32(1), x))
    for got, want in zip(np.where(ours(x) > 0), onp.where(x > 0)):
        same(got, want)
    index = onp.array([[0, 2], [1, 1]])
    same(np.take(ours(x), ours(index), axis=1), onp.take(x, index, axis=1))
    same(np.take(ours(x), ours(index)), onp.take(x, index))
    same(np.take(ours(x), ours(index + 9), axis=0, mode="clip"), onp.take(x, index + 9, axis=0, mode="clip"))
    order = onp.argsort(x, axis=1)
    same(np.take_along_axis(ours(x), ours(order), axis=1), onp.take_along_axis(x, order, axis=1))
    with pytest.raises(IndexError):
        np.take(ours(x), ours(index + 9), axis=0)


def test_making():
    for got, want in [(np.zeros((2, 0)), onp.zeros((2, 0), "f4")), (np.ones(3, dtype="int32"), onp.ones(3, "i4")),
                      (np.full((2,), 2.5), onp.full(2, 2.5, "f4")), (np.arange(3), onp.arange(3, dtype="f4")),
                      (np.arange(2, 9, 3), onp.arange(2, 9, 3, dtype="f4")), (np.arange(5, 2, -1), onp.arange(5, 2, -1, "f4")),
                      (np.arange(3, 3), onp.zeros(0, "f4")), (np.linspace(0, 1, 5), onp.linspace(0, 1, 5, dtype="f4")),
                      (np.linspace(0, 1, 4, endpoint=False), onp.linspace(0, 1, 4, False, dtype="f4")),
                      (np.eye(2, 3, k=1), onp.eye(2, 3, 1, "f4")), (np.identity(2), onp.eye(2, dtype="f4")),
                      (np.zeros_like(np.ones((2, 3), dtype="int8")), onp.zeros((2, 3), "i1")),
                      (np.full_like(np.ones(2), 7), onp.full(2, 7, "f4")), (np.array([[1, 2], [3, 4]]), onp.array([[1, 2], [3, 4.]], "f4")),
                      (np.array([True, False]), onp.array([True, False])), (np.array(3), onp.array(3, "f4"))]:
        assert got.dtype == want.dtype
        same(got, want)


# ---- gradients ---------------------------------------------------------------------------------------------------------

GRADIENTS = {
    "arithmetic": lambda x, y: ((x * y - 2) / (y + 5) + x**2 + np.maximum(x, y)).sum(),
    "functions": lambda x, y: (np.exp(x) * np.tanh(y) + np.log(x + 5) + np.sqrt(y + 5) + np.arctan2(x, y)).sum(),
    "reductions": lambda x, y: (x.mean(axis=0) * y.max(axis=0)).sum() + np.var(x) + np.std(y, ddof=1) + np.prod(x, axis=1).sum(),
    "shapes": lambda x, y: (x.T.reshape(-1)[:4] * np.concatenate([x, y], axis=1)[0, :4]).sum() + np.tril(y).sum() + (
        np.pad(x, 1) * 2).sum() + np.stack([x, y])[1].sum(),
    "products": lambda x, y: (np.dot(x, y.T) ** 2).sum() + np.matmul(x, y.T).sum() + np.tensordot(x, y, 2) + np.einsum("ij,ij->", x, y),
    "choosing": lambda x, y: np.where(x > 0, x, y * 2).sum() + x[x > 0].sum() * 3 + np.take(y, np.array([0, 1, 0]), axis=0).sum(),
    "factors": lambda x, y: (np.linalg.svd(x)[1] * np.array([1, 2, 3])).sum() + (np.linalg.pinv(x) * y.T).sum() + np.linalg.norm(
        y, "nuc") + np.abs(np.linalg.qr(x.T)[0]).sum() + np.linalg.cond(y) + np.linalg.norm(x, 2),
    "equations": lambda x, y: (np.linalg.solve(np.dot(x, x.T) + np.eye(3), y) ** 2).sum() + np.linalg.matrix_power(
        np.dot(x, y.T), 3).sum() + np.linalg.multi_dot([x, y.T, x]).sum(),
    "order": lambda x, y: np.percentile(x, np.array([20., 70.]), axis=1).sum() + np.median(y) + np.sort(x)[:, 1].sum(),
    "masks": lambda x, y: np.mean(x, where=y > 0) + np.std(x, where=y > 0) + np.nanmean(y) + np.nanstd(x) + np.max(
        x, axis=1, initial=0.1, where=y > 0).sum() + np.cumprod(y, axis=1).sum(),
    "parts": lambda x, y: (np.insert(x, 1, y[0], axis=0) * 2).sum() + (np.delete(y, [0, 2], axis=1) ** 2).sum() + np.cross(
        x[:, :3], y[:, 1:]).sum() + (np.kron(x, y)[2:5] ** 2).sum() + np.trapz(x).sum() + np.cov(x)[0, 1] + np.corrcoef(y)[0, 1],
    "norms": lambda x, y: np.linalg.norm(x) + np.linalg.norm(y, ord=1, axis=1).sum() + np.trace(np.dot(x, y.T)),
}


@pytest.mark.parametrize("name", sorted(GRADIENTS))
def test_gradients(name):
    """Recorded gradients against central differences in float64."""
    f, values = GRADIENTS[name], [draw((3, 4), "float64", -2, 2) for _ in range(2)]
    arrays = [ours(v) for v in values]
    for x in arrays:
        x.attach_grad()
    with autograd.record():
        y = f(*arrays)
    assert y.shape == () and isinstance(y, np.ndarray)
    y.backward()
    for i, x in enumerate(arrays):
        wanted = onp.zeros(x.shape)
        for place in onp.ndindex(*x.shape):
            sides = []
            for step in (1e-6, -1e-6):
                moved = [v.copy() for v in values]
                moved[i][place] += step
                sides.append(float(f(*[ours(v) for v in moved])))
            wanted[place] = (sides[0] - sides[1]) / 2e-6
        onp.testing.assert_allclose(x.grad.asnumpy(), wanted, rtol=1e-5, atol=1e-6)
        assert isinstance(x.grad, np.ndarray)


def test_random():
    mx.random.seed(7)
    for name, arguments, mean in [("uniform", (2, 4), 3), ("normal", (1, 2), 1), ("exponential", (2,), 2), ("gumbel", (0, 1), 0.5772),
                                  ("logistic", (1, 1), 1), ("rayleigh", (2,), 2.5066), ("weibull", (2,), 0.8862), ("gamma", (3, 2), 6),
                                  ("beta", (2, 2), 0.5), ("chisquare", (3,), 3), ("lognormal", (0, 0.5), 1.1331), ("power", (2,), 2 / 3),
                                  ("pareto", (4,), 1 / 3)]:
        x = getattr(np.random, name)(*arguments, size=(200, 100))
        assert x.shape == (200, 100) and x.dtype == "float32"
        assert abs(float(x.mean()) - mean) < 0.06 * max(1, mean), name
        assert getattr(np.random, name)(*arguments).shape == ()
    assert np.random.normal(np.zeros((2, 1)), np.ones(3)).shape == (2, 3)
    assert np.random.uniform(size=(2, 0)).shape == (2, 0)
    i = np.random.randint(2, 5, size=1000)
    assert i.dtype == "int64" and set(i.asnumpy().tolist()) == {2, 3, 4}
    assert set(np.random.choice(3, size=50).asnumpy().tolist()) == {0, 1, 2}
    assert sorted(np.random.choice(5, size=5, replace=False).asnumpy().tolist()) == [0, 1, 2, 3, 4]
    assert set(np.random.choice(3, size=50, p=[0, 1, 0]).asnumpy().tolist()) == {1}
    assert sorted(np.random.permutation(6).asnumpy().tolist()) == list(range(6))
    x = np.arange(20)
    np.random.shuffle(x)
    assert sorted(x.asnumpy().tolist()) == list(range(20))
    assert np.random.multinomial(10, [0.5, 0.5], size=3).sum(axis=1).asnumpy().tolist() == [10, 10, 10]
    assert np.random.multivariate_normal(np.zeros(2), np.eye(2), size=4).shape == (4, 2)
    loc = np.zeros(3)
    loc.attach_grad()
    with autograd.record():
        np.random.normal(loc, 1).sum().backward()
    assert loc.grad.asnumpy().tolist() == [1, 1, 1]


# ---- hybridized ----------------------------------------------------------------------------------------------------------

class Call(mx.gluon.nn.HybridBlock):
    """F.np.<name> of the inputs."""

    def __init__(self, name, arguments, listed=False):
        super().__init__()
        self.function, self.arguments, self.listed = name, arguments, listed

    def hybrid_forward(self, F, *inputs):
        module = F.np
        for part in self.function.split("."):
            module = getattr(module, part)
        return module(list(inputs), **self.arguments) if self.listed else module(*inputs, **self.arguments)


COMPILED = (
    [(name, 1, {}) for name in sorted(UNARY)] + [(name, 2, {}) for name in BINARY] +
    [(name, 1, {"axis": axis, "keepdims": keep}) for name in ("sum", "prod", "mean", "max", "min", "any", "all", "std", "var")
     for axis, keep in ((None, False), (1, True), ((0, 2), False))] +
    [("argmax", 1, {"axis": 1}), ("argmin", 1, {}), ("cumsum", 1, {"axis": 0}), ("reshape", 1, {"newshape": (4, -1)}), ("ravel", 1, {}),
     ("transpose", 1, {}), ("transpose", 1, {"axes": (1, 0, 2)}), ("swapaxes", 1, {"axis1": 0, "axis2": -1}),
     ("moveaxis", 1, {"source": 0, "destination": 2}), ("expand_dims", 1, {"axis": 1}), ("squeeze", 1, {}), ("tile", 1, {"reps": 2}),
     ("repeat", 1, {"repeats": 2, "axis": 1}), ("flip", 1, {"axis": 0}), ("roll", 1, {"shift": 1, "axis": 1}), ("tril", 1, {}), ("triu", 1, {"k": 1}),
     ("trace", 1, {}), ("diagonal", 1, {}), ("pad", 1, {"pad_width": 1}), ("sort", 1, {}), ("argsort", 1, {"axis": 0}), ("clip", 1, {"a_min": 1, "a_max": 2}),
     ("where", 3, {}), ("dot", 0, {}), ("matmul", 0, {}), ("tensordot", 2, {"axes": 3}), ("inner", 2, {}), ("vdot", 2, {}), ("outer", 2, {}),
     ("linalg.norm", 1, {}), ("linalg.norm", 1, {"axis": 1}), ("average", 1, {"axis": 1}), ("diff", 1, {}), ("rot90", 1, {}), ("nan_to_num", 1, {}),
     ("full_like", 1, {"fill_value": 3}), ("zeros_like", 1, {}), ("ones_like", 1, {})])


@pytest.mark.parametrize("number", range(len(COMPILED)), ids=[f"{i}-{case[0]}" for i, case in enumerate(COMPILED)])
def test_compiled(number):
    """A plan gives what the calls give, and the same gradient."""
    name, count, arguments = COMPILED[number]
    low, high = UNARY.get(name, (0.5, 3))
    shapes = [(2, 3, 4)] * count or [(2, 3, 4), (2, 4, 3) if name == "matmul" else (4, 3)]
    arrays = [ours(draw(shape, "float64", low, high)) for shape in shapes]
    block, results, gradients = Call(name, arguments), [], []
    for active in (False, True):
        block.hybridize(active)
        for x in arrays:
            x.attach_grad()
        with autograd.record():
            y = block(*arrays)
            total = (y * 1.0).sum()
        assert type(y) is np.ndarray
        if name not in NO_GRADIENT:
            total.backward()
        results.append(y)
        gradients.append([x.grad.asnumpy() for x in arrays])
    assert results[0].dtype == results[1].dtype
    same(results[1], results[0].asnumpy(), 1e-12)
    for a, b in zip(*gradients):
        onp.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


NO_GRADIENT = {"isnan", "isinf", "isfinite", "logical_not", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
               "logical_and", "logical_or", "logical_xor", "any", "all", "argmax", "argmin", "argsort", "full_like", "zeros_like", "ones_like"}


@pytest.mark.parametrize("name", ["concatenate", "stack", "vstack", "hstack", "dstack", "column_stack"])
def test_compiled_joins(name):
    arrays = [ours(draw((2, 3), "float32")) for _ in range(3)]
    block = Call(name, {}, listed=True)
    plain = block(*arrays)
    block.hybridize()
    same(block(*arrays), plain.asnumpy())


def test_functions_without_gradient_do_not_lose_it():
    x = np.array([3.0, 1.0, 2.0])
    x.attach_grad()
    with mx.autograd.record():
        with pytest.raises(mx.error.UnsupportedError, match="nanmedian"):
            np.nanmedian(x * 2)
        assert np.searchsorted(np.array([1.0, 2.0]), x).tolist() == [2, 0, 1]  # positions have none
        with mx.autograd.pause():
            assert float(np.nanmedian(x)) == 2
