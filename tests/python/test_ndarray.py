"""Arrays: creation, properties, methods, arithmetic, copies, files, pickling."""
import copy
import pickle
import sys

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.test_utils import assert_almost_equal, same


def same_as(array, expected):
    expected = np.asarray(expected)
    assert array.shape == expected.shape
    assert np.array_equal(array.asnumpy(), expected)


# ---- creation ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("source, dtype", [
    ([1, 2, 3], np.float32), ([[1.5, 2], [3, 4]], np.float32), (3, np.float32), ([], np.float32), ((1, 2), np.float32),
    (np.arange(6).reshape(2, 3), np.float32), (np.ones((2, 2), "int8"), np.float32), (range(3), np.float32),
    (np.array([True, False]), np.float32), (np.arange(4, dtype=">i4"), np.float32), (np.uint32([7]), np.float32),
])
def test_array_is_float32(source, dtype):
    x = nd.array(source)
    assert x.dtype is dtype
    assert np.array_equal(x.asnumpy(), np.asarray(source, np.float32))


def test_array_dtype_and_order():
    assert nd.array([1, 2], dtype="int32").dtype is np.int32
    assert nd.array([1, 2], dtype=np.float64).dtype is np.float64
    assert nd.array([1, 2], dtype=float).dtype is np.float64
    assert nd.array([1, 2], dtype=int).dtype is np.int64
    assert nd.array(nd.array([1], dtype="int8")).dtype is np.int8
    assert nd.array([2**53 + 1], dtype="int64").asnumpy()[0] == 2**53 + 1
    fortran = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    same_as(nd.array(fortran), fortran)
    same_as(nd.array(np.arange(10.0)[::-2]), np.arange(10.0)[::-2])


def test_array_copies():
    source = np.ones(3, "float32")
    x = nd.array(source)
    source[:] = 5
    same_as(x, np.ones(3))
    y = nd.array(x)
    y[:] = 7
    same_as(x, np.ones(3))


@pytest.mark.parametrize("source", ["text", ["a"], [[1, 2], [3]], None, {}, {"a": 1}, object(), [1, None], [[1], 2]])
def test_array_refuses(source):
    with pytest.raises(TypeError):
        nd.array(source)


@pytest.mark.parametrize("dtype", ["int16", "complex64", "foo", object, 99, (1, 2), np.datetime64])
def test_dtype_refused(dtype):
    with pytest.raises(TypeError):
        nd.array([1], dtype=dtype)


def test_filled():
    same_as(nd.zeros((2, 3)), np.zeros((2, 3)))
    same_as(nd.ones(3), np.ones(3))
    same_as(nd.full((2,), 7), [7, 7])
    same_as(nd.full((2,), 7, dtype="int32"), [7, 7])
    same_as(nd.zeros_like(nd.ones((2, 2))), np.zeros((2, 2)))
    same_as(nd.ones_like(nd.zeros((2, 2))), np.ones((2, 2)))
    out = nd.zeros((2,))
    assert nd.full((2,), 3, out=out) is out
    same_as(out, [3, 3])
    assert nd.empty((2, 3), dtype="int64").dtype is np.int64
    assert nd.zeros((2, 0)).shape == (2, 0)
    assert nd.zeros(shape=(2,), ctx=mx.current_context(), dtype="float16").dtype is np.float16


def test_ranges():
    same_as(nd.arange(5), np.arange(5.0))
    same_as(nd.arange(1, 7, 2), [1, 3, 5])
    same_as(nd.arange(0, 2, repeat=2), [0, 0, 1, 1])
    same_as(nd.arange(5, dtype="int32"), np.arange(5))
    assert_almost_equal(nd.linspace(0, 1, 5), np.linspace(0, 1, 5))
    assert_almost_equal(nd.linspace(0, 1, 5, endpoint=False), np.linspace(0, 1, 5, endpoint=False))
    same_as(nd.eye(2, 3, 1), np.eye(2, 3, 1))
    same_as(nd.eye(3), np.eye(3))


# ---- properties ----------------------------------------------------------------------------------------------------

def test_properties(ctx):
    x = nd.array([[1, 2, 3], [4, 5, 6]])
    assert (x.shape, x.size, x.ndim, x.dtype) == ((2, 3), 6, 2, np.float32)
    assert x.context == x.ctx == ctx
    assert x.stype == "default" and x.writable and len(x) == 2
    same_as(x.T, x.asnumpy().T)
    v = nd.ones(3)
    assert v.T is v
    assert x.grad is None
    assert hash(x) == hash(x) and len({x, x, x.copy()}) == 2


def test_repr():
    assert repr(nd.array([[1, 2], [3, 4]])) == f"\n[[1. 2.]\n [3. 4.]]\n<NDArray 2x2 @{mx.current_context()}>"
    assert str(nd.array([1], dtype="int32")).startswith("\n[1]\n<NDArray 1 @")


def test_scalars():
    x = nd.array([3.5])
    assert isinstance(x.asscalar(), np.float32) and x.asscalar() == 3.5
    assert x.item() == 3.5 and float(x) == 3.5 and int(x) == 3
    assert nd.array([2**60 + 1], dtype="int64").item() == 2**60 + 1
    assert bool(nd.array([1])) and not bool(nd.array([0])) and not bool(nd.zeros((0,)))
    assert nd.array([1, 2]).tolist() == [1.0, 2.0]
    for wrong in (lambda: nd.ones(2).asscalar(), lambda: bool(nd.ones(2)), lambda: nd.ones(2).item()):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(TypeError):
        float(nd.ones(2))
    with pytest.raises(TypeError):
        len(nd.array(1.0))


# ---- methods -------------------------------------------------------------------------------------------------------

def test_reshape_codes():
    x = nd.zeros((2, 6, 5))
    for shape, expected in [((0, -1), (2, 30)), ((3, -1, 5), (3, 4, 5)), ((-2, 1), (2, 6, 5, 1)), ((-3, 5), (12, 5)),
                            ((0, -3), (2, 30)), ((-4, 2, 1, -2), (2, 1, 6, 5)), ((0, -4, -1, 3, 0), (2, 2, 3, 5)),
                            (-1, (60,))]:
        assert x.reshape(shape).shape == expected
        assert x.reshape(shape=shape).shape == expected
        assert nd.reshape(x, shape=shape).shape == expected
    assert x.reshape(2, 30).shape == (2, 30)
    assert nd.zeros((6, 5, 4)).reshape((-1, 0)).shape == (24, 5)
    assert nd.zeros((6, 5, 4)).reshape((-1, 0), reverse=True).shape == (30, 4)
    for wrong in ((7, -1), (-1, -1), (61,)):
        with pytest.raises(ValueError):
            x.reshape(wrong)
    with pytest.raises(TypeError):
        x.reshape(60, foo=1)
    with pytest.raises(AssertionError):
        x.reshape()


def test_views_share_memory():
    x = nd.zeros((2, 3))
    for view in (x.reshape((3, 2)), x.expand_dims(axis=1, inplace=True), x.flatten(inplace=True),
                 x.reshape((1, 2, 3)).squeeze(inplace=True), x.squeeze(axis=(), inplace=True), x.detach(), x[0], x[:]):
        before = x.asnumpy().sum()
        view[:] = before + 1
        assert x.asnumpy().sum() != before


@pytest.mark.parametrize("change", [
    lambda x: x.flatten(), lambda x: x.squeeze(), lambda x: x.expand_dims(0), lambda x: x.reshape_like(nd.ones(6)),
    lambda x: nd.reshape(x, shape=(6,)), lambda x: nd.squeeze(x), lambda x: nd.expand_dims(x, axis=0),
    nd.flatten, nd.Flatten, lambda x: nd.reshape_like(x, nd.ones(6)), gluon.nn.Flatten()])
def test_other_shapes_are_copies(change):
    """What a program holds does not change when the array that it was made of is overwritten, or the other way round."""
    x = nd.ones((2, 1, 3))
    y = change(x)
    x[:] = 5
    assert (y.asnumpy() == 1).all()
    y[:] = 7
    assert (x.asnumpy() == 5).all()
    if isinstance(change, gluon.Block):
        return
    x.attach_grad()
    with autograd.record():
        z = change(x) * 2
    z.backward()
    assert (x.grad.asnumpy() == 2).all()


def test_method_results():
    a = np.array([[3.0, 1, 2], [6, 5, 4]], "float32")
    x = nd.array(a)
    same_as(x.sum(), [a.sum()])
    same_as(x.sum(0), a.sum(0))
    same_as(x.sum(axis=(0, 1), keepdims=True), a.sum(keepdims=True))
    same_as(x.mean(1, True), a.mean(1, keepdims=True))
    same_as(x.max(axis=1), a.max(1))
    same_as(x.argmax(0), a.argmax(0))
    assert x.argmax(0).dtype is np.float32
    same_as(x.sort(axis=1), np.sort(a, 1))
    same_as(x.transpose((1, 0)), a.T)
    same_as(x.swapaxes(0, 1), a.T)
    same_as(x.flip(1), a[:, ::-1])
    same_as(x.clip(2, 4), a.clip(2, 4))
    same_as(x.tile((2, 1)), np.tile(a, (2, 1)))
    same_as(x.repeat(2, axis=0), a.repeat(2, 0))
    same_as(x.take(nd.array([1])), a[[1]])
    same_as(x.pick(nd.array([0, 2])), [3, 4])
    same_as(x.slice_axis(1, 0, 2), a[:, :2])
    same_as(x.slice((0, 1), (2, 3)), a[0:2, 1:3])
    same_as(x.broadcast_to((4, 2, 3)), np.broadcast_to(a, (4, 2, 3)))
    same_as(nd.ones((1, 3)).broadcast_like(x), np.ones((2, 3)))
    same_as(nd.array([0, 2]).one_hot(3), np.eye(3)[[0, 2]])
    same_as(x.square(), a * a)
    assert x.shape_array().asnumpy().tolist() == [2, 3]
    assert [p.shape for p in x.split(num_outputs=3, axis=1)] == [(2, 1)] * 3
    assert [p.shape for p in x.split_v2((1,), axis=1)] == [(2, 1), (2, 2)]
    assert_almost_equal(x.norm(), [np.linalg.norm(a)])
    assert_almost_equal(x.softmax(axis=1).sum(axis=1), np.ones(2))
    with pytest.raises(ValueError):
        x.broadcast_to((3, 3))
    assert x.tostype("default") is not x
    assert isinstance(x.as_np_ndarray(), mx.np.ndarray) and type(x.as_np_ndarray().as_nd_ndarray()) is type(x)


def test_slice_assign():
    x = nd.zeros((3, 4))
    x.slice_assign(nd.ones((2, 2)), (0, 1), (2, 3), (1, 1))
    x.slice_assign_scalar(5, (2, 0), (3, 4), (1, 2))
    a = np.zeros((3, 4))
    a[0:2, 1:3] = 1
    a[2, ::2] = 5
    same_as(x, a)


def test_astype_and_copies(ctx):
    x = nd.array([1.7, -1.7])
    same_as(x.astype("int32"), [1, -1])
    assert x.astype("float32") is not x and x.astype("float32", copy=False) is x
    assert x.as_in_context(ctx) is x and x.as_in_ctx(ctx) is x
    y = x.copy()
    y[:] = 0
    same_as(x, np.float32([1.7, -1.7]))
    target = nd.zeros((2,), dtype="float64")
    assert x.copyto(target) is target
    assert_almost_equal(target, x)
    assert same(x.copyto(ctx), x)
    with pytest.warns(RuntimeWarning):
        assert x.copyto(x) is False
    for wrong in (5, "no such context", None, object()):
        with pytest.raises((TypeError, KeyError)):
            x.copyto(wrong)
    with pytest.raises(ValueError):
        x.copyto(nd.zeros((3,)))


def test_copy_module_and_pickle():
    x = nd.array([[1, 2], [3, 4]], dtype="int64")
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), pickle.loads(pickle.dumps({"k": x}))["k"]):
        same_as(y, x.asnumpy())
        assert y.dtype is np.int64 and y.context == x.context
        y[:] = 0
        assert x.asnumpy().any()
    for dtype in ("float16", "uint8", "bool", "float64"):
        z = nd.ones((2, 0), dtype=dtype)
        assert pickle.loads(pickle.dumps(z)).shape == (2, 0)
    z = nd.zeros((1,))
    z.__setstate__(x.__getstate__())
    same_as(z, x.asnumpy())


# ---- arithmetic ----------------------------------------------------------------------------------------------------

OPERATORS = ["+", "-", "*", "/", "%", "**", "<", "<=", "==", "!=", ">", ">="]


@pytest.mark.parametrize("sign", OPERATORS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_operators(sign, dtype):
    a = np.random.uniform(1, 3, (2, 3)).astype(dtype)
    b = np.random.uniform(1, 3, (3,)).astype(dtype)
    b[0] = a[0, 0]
    x, y = nd.array(a, dtype=dtype), nd.array(b, dtype=dtype)
    for expression in (f"x {sign} y", f"x {sign} 2", f"2 {sign} x", f"x {sign} 1.5", f"y {sign} x"):
        result = eval(expression)
        expected = eval(expression, {"x": a, "y": b})
        assert result.dtype is np.dtype(dtype).type
        assert_almost_equal(result, expected.astype(dtype), rtol=1e-2 if dtype == "float16" else 1e-5, atol=1e-3)


def test_in_place():
    x = nd.array([1, 2, 3])
    keep = x
    x += 1
    x *= nd.array([2, 2, 2])
    x -= 2
    x /= 2
    assert x is keep
    same_as(x, [1, 2, 3])
    x **= 2
    x %= 4
    same_as(x, [1, 0, 1])
    with pytest.raises(ValueError):
        x += nd.ones((2, 3))


def test_unary_and_other():
    x = nd.array([-1, 2])
    same_as(-x, [1, -2])
    same_as(abs(x), [1, 2])
    assert +x is x
    same_as(nd.array([[1, 2], [3, 4]]) @ nd.eye(2), [[1, 2], [3, 4]])
    assert 2 in x and 5 not in x
    assert (x == None) is False and (x != None) is True  # noqa: E711
    for wrong in (lambda: x + "a", lambda: x + None, lambda: "a" - x, lambda: x + [1], lambda: x // 2, lambda: x & x,
                  lambda: x < "a", lambda: pow(x, 2, 3), lambda: x @ 2):
        with pytest.raises(TypeError):
            wrong()


@pytest.mark.parametrize("name, reference", [
    ("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply), ("divide", np.divide),
    ("true_divide", np.divide), ("modulo", np.mod), ("power", np.power), ("maximum", np.maximum),
    ("minimum", np.minimum), ("hypot", np.hypot), ("equal", np.equal), ("not_equal", np.not_equal),
    ("greater", np.greater), ("greater_equal", np.greater_equal), ("lesser", np.less), ("lesser_equal", np.less_equal),
    ("logical_and", np.logical_and), ("logical_or", np.logical_or), ("logical_xor", np.logical_xor)])
def test_functions_of_two(name, reference):
    function = getattr(nd, name)
    a, b = np.float32([[1, 2], [3, 4]]), np.float32([2, 3])
    x, y = nd.array(a), nd.array(b)
    assert_almost_equal(function(x, y), reference(a, b).astype("float32"))
    assert_almost_equal(function(x, 2), reference(a, np.float32(2)).astype("float32"))
    assert_almost_equal(function(3, x), reference(np.float32(3), a).astype("float32"))
    assert function(3, 2) == reference(3, 2)
    assert not isinstance(function(3, 2), nd.NDArray)
    names = ("base", "exp") if name == "power" else ("lhs", "rhs")
    assert_almost_equal(function(**{names[0]: x, names[1]: y}), reference(a, b).astype("float32"))
    for wrong in (("a", "b"), (x, "b"), (None, x), (x,), (x, x, x), ([1], x)):
        with pytest.raises(TypeError):
            function(*wrong)


# ---- combining -----------------------------------------------------------------------------------------------------

def test_combining():
    x = nd.array([[1, 2], [3, 4]])
    a = x.asnumpy()
    same_as(nd.concatenate([x, x], axis=1), np.concatenate([a, a], 1))
    assert nd.concatenate([x], always_copy=False) is x
    assert nd.concatenate([x]) is not x
    same_as(nd.concat(x, x, dim=0), np.concatenate([a, a]))
    same_as(nd.stack(x, x, axis=1), np.stack([a, a], 1))
    same_as(nd.add_n(x, x, x), 3 * a)
    same_as(nd.ElementWiseSum(x, x), 2 * a)
    for tensor, source, to in [((2, 3, 4), 0, -1), ((2, 3, 4), [0, 1], [1, 2]), ((2, 3, 4), (2, 0), (0, 1))]:
        t = np.arange(24.0).reshape(tensor)
        same_as(nd.moveaxis(nd.array(t), source, to), np.moveaxis(t, source, to))
    for wrong in ((0, 5), ([0, 0], [1, 2]), ([0], [1, 2])):
        with pytest.raises(ValueError):
            nd.moveaxis(nd.zeros((2, 3, 4)), *wrong)
    for wrong in ([], 3, None):
        with pytest.raises(AssertionError):
            nd.concatenate(wrong)


def test_split_v2_and_histogram():
    x = nd.arange(6)
    assert [p.asnumpy().tolist() for p in nd.split_v2(x, (1, 3))] == [[0], [1, 2], [3, 4, 5]]
    assert [p.shape for p in nd.split_v2(nd.zeros((2, 3)), 3, axis=1, squeeze_axis=True)] == [(2,)] * 3
    with pytest.raises(ValueError):
        nd.split_v2(x, "2")
    counts, edges = nd.histogram(nd.arange(10), bins=3)
    expected = np.histogram(np.arange(10), bins=3)
    assert counts.asnumpy().tolist() == expected[0].tolist()
    assert_almost_equal(edges, expected[1])
    counts, _ = nd.histogram(nd.arange(10), bins=nd.array([0, 5, 10]))
    assert counts.asnumpy().tolist() == [5, 5]
    same_as(nd.onehot_encode(nd.array([0, 2]), nd.zeros((2, 3))), np.eye(3)[[0, 2]])
    same_as(nd.fill_element_0index(nd.zeros((2, 3)), nd.array([5, 6]), nd.array([0, 2])), [[5, 0, 0], [0, 0, 6]])


# ---- files ---------------------------------------------------------------------------------------------------------

def test_save_and_load(tmp_path):
    path = str(tmp_path / "a.params")
    x, y = nd.array([[1, 2], [3, 4]]), nd.array([1, 2, 3], dtype="int64")
    nd.save(path, {"x": x, "y": y})
    loaded = nd.load(path)
    assert list(loaded) == ["x", "y"] and same(loaded["x"], x) and loaded["y"].dtype is np.int64
    nd.save(path, [x, y])
    assert [z.shape for z in nd.load(path)] == [(2, 2), (3,)]
    nd.save(path, x)
    assert same(nd.load(path)[0], x)
    with open(path, "rb") as file:
        data = file.read()
    assert same(nd.load_frombuffer(data)[0], x) and same(nd.loads(data)[0], x)
    for cut in (0, 3, 20, len(data) - 1):
        with pytest.raises(mx.MXNetError):
            nd.load_frombuffer(data[:cut])
    for wrong, kind in ((3, ValueError), ([3], TypeError), ({"a": 3}, TypeError), ({1: x}, TypeError),
                        ("x", ValueError)):
        with pytest.raises(kind):
            nd.save(path, wrong)
    with pytest.raises(OSError):
        nd.load(str(tmp_path / "absent"))
    with pytest.raises(OSError):
        nd.save(str(tmp_path / "no" / "such" / "folder"), x)


# ---- what old programs and libraries do ----------------------------------------------------------------------------

def test_state_of_an_array():
    x = nd.array([[1, 2], [3, 4]], dtype="int32")
    state = x.__getstate__()
    assert list(state) == ["handle"] and isinstance(state["handle"], bytearray)
    assert state["handle"][:4] == b"\xc9\xfa\x93\xf9"  # a record of a .params file
    other = nd.zeros(1)
    other.__setstate__(state)
    same_as(other, x.asnumpy())
    assert other.dtype is np.int32 and other.context == mx.cpu()
    on_gpu = bytearray(state["handle"])
    at = 4 + 4 + 4 + 16  # version, storage, axes, sizes; then the device
    assert on_gpu[at] == 1
    on_gpu[at] = 2
    other.__setstate__({"handle": on_gpu})
    assert other.context == mx.cpu()
    for bad in ({}, 3, {"handle": b"no record"}, {"handle": state["handle"] + b"x"}, {"handle": state["handle"][:-1]}):
        with pytest.raises((TypeError, mx.MXNetError)):
            other.__setstate__(bad)
    rows = x.astype("float32").tostype("row_sparse")
    other = nd.zeros((1, 1), stype="row_sparse")
    assert mx._core.unpack(rows.__getstate__()["handle"]).asnumpy().tolist() == x.asnumpy().tolist()


def test_astype_of_another_array():
    assert nd.ones(2).astype(nd.ones(2, dtype="int32")).dtype is np.int32


def test_from_numpy_of_shared_memory():
    a = np.ones(3, "float32")
    first, second = nd.from_numpy(a), nd.from_numpy(a)
    second[:] = 4
    assert a.tolist() == [4, 4, 4] == first.asnumpy().tolist()
    assert not a.flags["WRITEABLE"]
    text = np.frombuffer(b"\x00\x00\x80?", "float32")  # read-only memory stays so
    with pytest.raises((ValueError, mx.MXNetError)):
        nd.from_numpy(text)[:] = 2
    assert text[0] == 1


def test_unknown_keywords_of_operators_without_attributes():
    x = nd.ones(2)
    with pytest.warns(UserWarning, match="ignored"):
        assert nd.hypot(x, x).shape == nd.broadcast_hypot(x, x, axis=1).shape == (2,)
    assert nd.broadcast_hypot(x, x, axis=1).shape == (2,)  # warned about once
    with pytest.warns(UserWarning, match="dtype"):
        assert nd.sinh(x, dtype="float64").dtype is np.float32
    with pytest.warns(UserWarning, match="ctx"):
        assert mx.sym.sinh(mx.sym.var("x"), ctx=mx.cpu()).list_arguments() == ["x"]
    with pytest.raises(mx.MXNetError, match="foo"):
        nd.sum(x, foo=1)


@pytest.mark.skipif(sys.version_info < (3, 10), reason="Python 3.9 keeps classes of extensions closed")
def test_classes_are_open():
    try:
        nd.NDArray.doubled = lambda self: self * 2
        mx.sym.Symbol.doubled = lambda self: self * 2
        assert nd.ones(1).doubled().asscalar() == 2
        assert mx.sym.var("a").doubled().list_arguments() == ["a"]
    finally:
        del nd.NDArray.doubled, mx.sym.Symbol.doubled
    with pytest.raises(AttributeError):
        nd.ones(1).doubled


def test_contiguous_slices():
    contiguous = nd.NDArray._basic_indexing_slice_is_contiguous
    s = slice
    for slices, shape, expected in [
            ((s(0, 2), s(0, 3)), (2, 3), True), ((s(1, 2), s(0, 2)), (2, 3), True), ((s(0, 2), s(0, 2)), (2, 3), False),
            ((s(None), s(None)), (2, 3), True), ((s(0, 2, 2), s(0, 3)), (2, 3), True),
            ((s(0, 1), s(1, 3), s(0, 3)), (2, 3, 4), False), ((s(0, 1), s(1, 3), s(0, 4)), (2, 3, 4), True),
            ((s(0, 3, 2), s(0, 1)), (3, 1), False), ((s(0, 0), s(0, 1)), (3, 2), True)]:
        assert contiguous(slices, shape) is expected, slices
        x = nd.zeros(shape)
        if expected:
            part = x[slices]
            part[:] = 1
            assert x.asnumpy().sum() == part.size


def test_cached_op():
    a, b = mx.sym.var("a"), mx.sym.var("b")
    assert nd._internal.CachedOp is nd.CachedOp
    for flags in ([], [("static_alloc", True), ("static_shape", True)], {"inline_limit": 3}):
        op = nd.CachedOp(a * b, flags)
        x, y = nd.array([1.0, 2]), nd.array([3.0, 4])
        x.attach_grad()
        with autograd.record():
            z = op(x, y)
        z.backward(retain_graph=True)
        z.backward()
        assert x.grad.asnumpy().tolist() == [3, 4]
        out = nd.zeros(2)
        assert op(x, y, out=out) is out and out.asnumpy().tolist() == [3, 8]
    assert [r.asscalar() for r in nd.CachedOp(mx.sym.Group([a + 1, a * 2]))(nd.ones(1))] == [2, 2]
    norm = nd.CachedOp(mx.sym.BatchNorm(a, name="bn", fix_gamma=False))
    mean = nd.zeros(2)
    with autograd.record():
        norm(nd.array([[1.0, 2], [3, 4]]), nd.ones(2), nd.zeros(2), mean, nd.ones(2))
    assert mean.asnumpy().any()  # states are updated in place
    with pytest.raises(ValueError, match="wanted 2"):
        op(x)
    with pytest.raises(ValueError, match="static_alloc"):
        nd.CachedOp(a, [("statik", 1)])


def test_operator_rules():
    for shape, codes, expected in [((64,), (16, 4, -4), (16, 4)), ((64,), (16, -1, -4), (16, 4)),
                                   ((1, 2, 3, 64), (-2, -1, 16, -4), (1, 2, 3, 4, 16)),
                                   ((8, 3, 3), (2, 4, -4, 0, 0), (2, 4, 3, 3)), ((2, 3, 4, 5), (0, -3, 0), (2, 12, 5))]:
        assert nd.zeros(shape).reshape(codes, reverse=True).shape == expected
    with pytest.raises(mx.MXNetError, match="-4"):
        nd.zeros((4,)).reshape((-4, 2, 2), reverse=True)
    same_as(nd.arange(1.3, 10.6, 1.3, dtype="int32"), np.arange(1, 9, dtype="int32"))
    same_as(nd.arange(0, 2, 0.5, dtype="int64"), np.zeros(4, "int64"))
    assert nd.contrib.allclose(nd.ones(3), nd.ones(3)).shape == ()
    assert nd.diag(nd.ones((2, 3)), k=3).shape == nd.diag(nd.ones((2, 3)), k=-2).shape == (0,)
    for k in (4, 5, -3):
        with pytest.raises(mx.MXNetError, match="diagonal"):
            nd.diag(nd.ones((2, 3)), k=k)
    x = nd.array(np.arange(16.0).reshape(1, 1, 4, 4))
    same_as(nd.Pooling(x, kernel=(2, 2), pad=(0, 0, 0), stride=(2, 2, 2)),
            nd.Pooling(x, kernel=(2, 2), stride=(2, 2)).asnumpy())
    with pytest.raises(mx.MXNetError):
        nd.Pooling(x, kernel=(2, 2), stride=(2,))
    assert nd.broadcast_to(nd.array(np.array(3.0)), shape=()).shape == ()
    a, b = nd.ones((1, 2)), nd.ones((3, 2))
    assert nd.broadcast_like(a, b, lhs_axes=(0,)).shape == (3, 2)
    assert nd.broadcast_like(a, nd.ones((3, 5)), lhs_axes=(0,), rhs_axes=(1,)).shape == (5, 2)
    with pytest.raises(mx.MXNetError, match="empty"):
        nd.broadcast_like(a, b, lhs_axes=(), rhs_axes=())


def test_names_of_base():
    from mxnet import base
    assert base.integer_types == (int, np.int32, np.int64)
    assert base.py_str("a") == base.py_str(b"a") == "a"


@pytest.mark.parametrize("data, gamma", [((2, 3), (2, 3)), ((2, 3, 2, 2), (2, 3)), ((2, 3), (1, 3)), ((2, 3), (2, 1)),
                                         ((2, 3, 4), (1, 3, 1)), ((2, 3, 4), (3,)), ((2, 3), (1,))])
def test_slopes_of_prelu(data, gamma):
    x = nd.array(-np.arange(1.0, 1 + np.prod(data)).reshape(data))
    w = nd.array(np.arange(1.0, 1 + np.prod(gamma)).reshape(gamma))
    w.attach_grad()
    x.attach_grad()
    with autograd.record():
        y = nd.LeakyReLU(x, w, act_type="prelu")
    y.backward()
    shape = (1,) * (len(gamma) == 1) + gamma
    slopes = w.asnumpy().reshape(shape + (1,) * (len(data) - len(shape)))
    assert_almost_equal(y, x.asnumpy() * slopes)
    assert_almost_equal(x.grad, np.broadcast_to(slopes, data))
    axes = tuple(i for i in range(len(data)) if slopes.shape[i] == 1)
    assert_almost_equal(w.grad, x.asnumpy().sum(axes).reshape(gamma))


def test_slopes_of_prelu_that_do_not_fit():
    for gamma in ((2, 2), (3, 2), (2, 3, 4, 1), (2, 1, 4)):
        with pytest.raises(mx.MXNetError):
            nd.LeakyReLU(nd.ones((2, 3, 4)), nd.ones(gamma), act_type="prelu")


def test_memory_of_the_host_is_one(on_host):
    """cpu(0), cpu(1), shared and pinned memory meet in one call; the result is on the context of the first input."""
    a, b = nd.full((2, 2), 2, ctx=mx.cpu(1)), nd.full((2, 2), 3, ctx=mx.cpu(2))
    a.attach_grad(), b.attach_grad()
    with mx.autograd.record():
        y = (a * b).sum()
    y.backward()
    assert y.context == mx.cpu(1) and y.asscalar() == 24
    assert a.grad.context == mx.cpu(1) and (a.grad.asnumpy() == 3).all()
    assert b.grad.context == mx.cpu(2) and (b.grad.asnumpy() == 2).all()
    out = nd.empty((2, 2, 2), ctx=mx.Context("cpu_shared", 0))
    nd.stack(a, b, out=out)
    assert out.context.device_type == "cpu_shared" and out.sum().asscalar() == 20
    net = mx.gluon.nn.Dense(1, in_units=2)
    net.initialize(mx.init.One(), ctx=mx.cpu(0))
    assert net(out[0]).asnumpy().tolist() == [[4], [4]]
    net.hybridize()
    assert net(out[0]).asnumpy().tolist() == [[4], [4]]
    with mx.autograd.record():
        loss = net(out[0]).sum()
    loss.backward()
    assert net.weight.grad().asnumpy().tolist() == [[4, 4]]
