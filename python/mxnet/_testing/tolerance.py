"""How far two arrays may be apart, and comparing them."""
import numpy as np

from .._core import NDArray

_KINDS = ("float16", "float32", "float64", "bool", "int8", "uint8", "int32", "uint32", "int64", "uint64")


def _table(half, single, double):
    table = {np.dtype(name): 0 for name in _KINDS}
    table.update({np.dtype("float16"): half, np.dtype("float32"): single, np.dtype("float64"): double})
    return table


def default_rtols():
    """Relative tolerance by element type."""
    return _table(1e-2, 1e-4, 1e-5)


def default_atols():
    """Absolute tolerance by element type."""
    return _table(1e-1, 1e-3, 1e-20)


def default_numeric_eps():
    """Step of finite differences by element type."""
    return {np.dtype("float16"): 1.0 / 2**6, np.dtype("float32"): 1.0 / 2**9, np.dtype("float64"): 1.0 / 2**14}


def to_numpy(x):
    """A NumPy array of an NDArray, a NumPy array, a number or lists."""
    return x.asnumpy() if isinstance(x, NDArray) else np.asarray(x)


def effective_dtype(dat):
    """The type that determines the precision of data."""
    return np.dtype(dat.dtype) if hasattr(dat, "dtype") else np.dtype("float64")


def get_tolerance(dat, tol, default_tol):
    """tol as a number: itself, the entry of a dict by type, or the default for the data's type."""
    if isinstance(tol, dict):
        return tol[effective_dtype(dat)]
    return default_tol.get(effective_dtype(dat), 0) if tol is None else tol


def get_tols(x, y, rtol, atol):
    """(rtol, atol) for comparing x and y: the larger of the tolerances of both types."""
    pick = lambda tol, table: max(get_tolerance(x, tol, table), get_tolerance(y, tol, table))  # noqa: E731
    return pick(rtol, default_rtols()), pick(atol, default_atols())


def get_rtol(rtol=None, dtype=np.dtype("float64")):
    """rtol, or the default for a type."""
    return default_rtols()[np.dtype(dtype)] if rtol is None else rtol


def get_atol(atol=None, dtype=np.dtype("float64")):
    """atol, or the default for a type."""
    return default_atols()[np.dtype(dtype)] if atol is None else atol


def get_etol(etol=None):
    """Share of elements that may be wrong; 0 if not given."""
    return 0 if etol is None else etol


# ---- comparing -----------------------------------------------------------------------------------------------------

def same(a, b):
    """Whether two arrays have the same shape and the same elements."""
    return np.array_equal(to_numpy(a), to_numpy(b))


def checkShapes(a, b):
    """AssertionError unless the shapes are equal."""
    if a.shape != b.shape:
        raise AssertionError(f"the shapes differ: {a.shape} and {b.shape}")


def almost_equal(a, b, rtol=None, atol=None, equal_nan=False, use_broadcast=True):
    """Whether |a - b| <= atol + rtol * |b| everywhere."""
    a, b = to_numpy(a), to_numpy(b)
    rtol, atol = get_tols(a, b, rtol, atol)
    if not use_broadcast and a.shape != b.shape:
        return False
    return bool(np.allclose(_wide(a), _wide(b), rtol=rtol, atol=atol, equal_nan=equal_nan))


def _wide(x):
    return x.astype("float64") if x.dtype.kind in "fiub" else x


def violations(a, b, rtol, atol, equal_nan):
    """The error of each element in tolerances: above 1 is wrong; NaN on one side only is infinite."""
    a, b = np.broadcast_arrays(_wide(a), _wide(b))
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(a - b) / (atol + rtol * np.abs(b) + 1e-300)
    off = np.where(a == b, 0, off)
    lone = np.isnan(a) != np.isnan(b) if equal_nan else np.isnan(a) | np.isnan(b)
    off = np.where(np.isnan(a) & np.isnan(b), 0, off) if equal_nan else off
    return np.where(lone | np.isnan(off), np.inf, off)


def find_max_violation(a, b, rtol=None, atol=None):
    """(position, error) of the worst element."""
    a, b = to_numpy(a), to_numpy(b)
    off = violations(a, b, *get_tols(a, b, rtol, atol), False)
    place = np.unravel_index(np.argmax(off), off.shape)
    return place, off[place]


def report(a, b, off, rtol, atol, names, count):
    """Text naming the worst elements."""
    wide_a, wide_b = np.broadcast_arrays(a, b)
    order = np.argsort(off, axis=None)[::-1][:count]
    lines = [f"{int((off > 1).sum())} of {off.size} elements differ by more than rtol={rtol:g}, atol={atol:g}:"]
    for flat in order:
        place = tuple(int(i) for i in np.unravel_index(flat, off.shape))
        if off[place] > 1:
            lines.append(f"  at {place}: {names[0]}={wide_a[place]!r} {names[1]}={wide_b[place]!r} "
                         f"({off[place]:.3g} tolerances)")
    return "\n".join(lines)


def assert_almost_equal(a, b, rtol=None, atol=None, names=("a", "b"), equal_nan=False, use_broadcast=True,
                        mismatches=(10, 10)):
    """AssertionError naming the worst elements unless |a - b| <= atol + rtol * |b| everywhere."""
    assert_almost_equal_with_err(a, b, rtol, atol, 0, names, equal_nan, mismatches, use_broadcast)


def assert_almost_equal_with_err(a, b, rtol=None, atol=None, etol=None, names=("a", "b"), equal_nan=False,
                                 mismatches=(10, 10), use_broadcast=True):
    """The same, but a share etol of the elements may differ."""
    a, b = to_numpy(a), to_numpy(b)
    rtol, atol = get_tols(a, b, rtol, atol)
    if a.shape != b.shape:
        try:
            if not use_broadcast:
                raise ValueError
            np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            raise AssertionError(f"the shapes differ: {names[0]} {a.shape}, {names[1]} {b.shape}") from None
    off = violations(a, b, rtol, atol, equal_nan)
    if (off > 1).sum() > get_etol(etol) * off.size:
        raise AssertionError(report(a, b, off, rtol, atol, names, mismatches[0]))


def assert_allclose(a, b, rtol=1e-07, atol=0, equal_nan=True):
    """assert_almost_equal with the tolerances of NumPy's function of that name."""
    assert_almost_equal(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def _without_nan(a, b):
    a, b = to_numpy(a).copy(), to_numpy(b).copy()
    lost = np.isnan(a) | np.isnan(b)
    a[lost] = b[lost] = 0
    return a, b


def almost_equal_ignore_nan(a, b, rtol=None, atol=None):
    """almost_equal where neither side is NaN."""
    return almost_equal(*_without_nan(a, b), rtol=rtol, atol=atol)


def assert_almost_equal_ignore_nan(a, b, rtol=None, atol=None, names=("a", "b")):
    """assert_almost_equal where neither side is NaN."""
    assert_almost_equal(*_without_nan(a, b), rtol=rtol, atol=atol, names=names)


def assert_exception(f, exception_type, *args, **kwargs):
    """AssertionError unless f(*args, **kwargs) raises exception_type."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{getattr(f, '__name__', f)} did not raise {exception_type}")


def compare_ndarray_tuple(t1, t2, rtol=None, atol=None):
    """assert_almost_equal over nested tuples of arrays."""
    if t1 is None or t2 is None:
        return
    if isinstance(t1, (tuple, list)):
        if len(t1) != len(t2):
            raise AssertionError(f"tuples of {len(t1)} and {len(t2)} arrays")
        for a, b in zip(t1, t2):
            compare_ndarray_tuple(a, b, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol=rtol, atol=atol)
