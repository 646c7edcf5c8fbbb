"""Sparse arrays: making, converting, arithmetic, products, gradients, lazy updates, files, iterators, refusals."""
import pickle
import struct

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.error import MXNetError
from mxnet.test_utils import default_context

sparse = nd.sparse


@pytest.fixture(autouse=True)
def on_default_context():
    with default_context():
        yield


def random_csr(shape, density=0.3, dtype="float32", seed=0):
    draw = np.random.RandomState(seed)
    dense = (draw.uniform(-1, 1, shape) * (draw.uniform(size=shape) < density)).astype(dtype)
    return sparse.csr_matrix(nd.array(dense, dtype=dtype)), dense


def random_rows(shape, rows, dtype="float32", seed=0):
    data = np.random.RandomState(seed).uniform(-1, 1, (len(rows),) + shape[1:]).astype(dtype)
    dense = np.zeros(shape, dtype)
    dense[list(rows)] = data
    return sparse.row_sparse_array((data, list(rows)), shape=shape), dense


def same(x, expected, stype=None, tolerance=1e-6):
    if stype:
        assert x.stype == stype
    np.testing.assert_allclose(x.asnumpy(), expected, rtol=tolerance, atol=tolerance)


# ---- making and looking ---------------------------------------------------------------------------------------------

def test_row_sparse_parts():
    x, dense = random_rows((6, 3), [1, 4])
    assert isinstance(x, sparse.RowSparseNDArray) and isinstance(x, nd.NDArray)
    assert (x.stype, x.shape, x.dtype, x.ndim) == ("row_sparse", (6, 3), np.float32, 2)
    assert x.indices.dtype == np.int64 and x.indices.asnumpy().tolist() == [1, 4]
    assert x.data.shape == (2, 3) and "RowSparseNDArray 6x3" in repr(x)
    same(x, dense)
    same(x.todense(), dense, "default")
    assert sparse.row_sparse_array(([[1, 2]], [3])).shape == (4, 2)
    assert sparse.row_sparse_array((2, 3)).shape == (2, 3)
    same(sparse.row_sparse_array(dense), dense, "row_sparse")
    assert sparse.row_sparse_array(np.eye(2)).dtype == np.float64


def test_csr_parts():
    x = sparse.csr_matrix(([1, 2, 3], [0, 0, 2], [0, 1, 3]), shape=(2, 4))
    assert isinstance(x, sparse.CSRNDArray) and x.stype == "csr" and x.dtype == np.float32
    same(x, [[1, 0, 0, 0], [2, 0, 3, 0]])
    assert x.indptr.asnumpy().tolist() == [0, 1, 3] and x.indices.asnumpy().tolist() == [0, 0, 2]
    assert "CSRNDArray 2x4" in repr(x) and len(x) == 2
    same(sparse.csr_matrix(([1, 2, 3, 4], ([1, 0, 1, 1], [2, 1, 0, 2])), shape=(2, 3)), [[0, 2, 0], [3, 0, 5]])
    same(sparse.csr_matrix(([1, 2], ([1, 0], [2, 1]))), [[0, 2, 0], [0, 0, 1]], "csr")
    same(sparse.csr_matrix([[0, 1], [2, 0]]), [[0, 1], [2, 0]], "csr")
    assert sparse.csr_matrix((3, 2)).shape == (3, 2)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "uint8"])
def test_conversions(dtype):
    dense = np.array([[0, 0, 0], [1, 0, 2], [0, 0, 0], [0, 3, 0]], dtype)
    x = nd.array(dense, dtype=dtype)
    for stype in ("row_sparse", "csr"):
        made = x.tostype(stype)
        assert made.stype == stype and made.dtype == np.dtype(dtype)
        same(made, dense), same(made.tostype("default"), dense, "default")
        same(nd.cast_storage(x, stype), dense, stype)
        same(made.copy(), dense, stype), same(made.astype("float32"), dense, stype)
        same(sparse.array(made), dense, stype), same(nd.array(made), dense)
        same(pickle.loads(pickle.dumps(made)), dense, stype)
    assert x.tostype("row_sparse").indices.asnumpy().tolist() == [1, 3]
    assert x.tostype("csr").indptr.asnumpy().tolist() == [0, 0, 2, 2, 3]
    assert nd.array([[-0.0, 0.0]]).tostype("csr").data.shape == (0,)
    assert nd.array([[np.nan, 0.0]]).tostype("row_sparse").data.shape == (1, 2)


def test_zeros_and_empty():
    for stype in ("row_sparse", "csr"):
        for made in (sparse.zeros(stype, (3, 2)), nd.zeros((3, 2), stype=stype), sparse.empty(stype, (3, 2)),
                     nd.zeros_like(nd.ones((3, 2)).tostype(stype))):
            same(made, np.zeros((3, 2)), stype)
    assert sparse.zeros("csr", (5, 3)).indptr.shape == (6,)
    assert sparse.zeros("default", (2,)).stype == "default"


def test_writing():
    x, dense = random_rows((4, 2), [0, 3])
    y = sparse.zeros("row_sparse", (4, 2))
    assert x.copyto(y) is y
    same(y, dense)
    z = nd.ones((4, 2))
    x.copyto(z)
    same(z, dense, "default")
    nd.ones((4, 2)).copyto(y)
    same(y, np.ones((4, 2)), "row_sparse")
    z[:] = x
    same(z, dense, "default")
    y[:] = 0
    assert y.indices.shape == (0,)
    x.data = nd.ones((2, 2))
    same(x, (dense != 0).astype("f"))
    with pytest.raises(MXNetError):
        x.data = nd.ones((3, 2))
    same(x, (dense != 0).astype("f"))


def test_csr_rows():
    x, dense = random_csr((6, 5))
    for key in (0, -1, 3, slice(1, 4), slice(None), slice(4, 2), slice(None, None, 1), slice(-2, None)):
        same(x[key], dense[key] if isinstance(key, slice) else dense[key][None], "csr")
    same(nd.slice(x, begin=(1,), end=(3,)), dense[1:3], "csr")
    same(nd.take(x, nd.array([5, 0, 0, 2])), dense[[5, 0, 0, 2]], "csr")
    same(nd.concat(x, x[1:3], dim=0), np.concatenate([dense, dense[1:3]]), "csr")
    assert [row.shape for row in x] == [(1, 5)] * 6
    for rows, columns in (((0, 6), (1, 4)), ((2, 5), (0, 2)), ((1, 3), (3, 5)), ((0, 2), (2, 2))):
        same(nd.slice(x, begin=(rows[0], columns[0]), end=(rows[1], columns[1])), dense[slice(*rows), slice(*columns)], "csr")
    for key, error in ((6, IndexError), (-7, IndexError), ((0, 1), ValueError), (slice(0, 4, 2), ValueError),
                       ("a", ValueError)):
        with pytest.raises(error):
            x[key]


@pytest.mark.parametrize("make", [
    lambda: sparse.row_sparse_array((np.ones((2, 2), "f"), [3, 1]), shape=(4, 2)),
    lambda: sparse.row_sparse_array((np.ones((2, 2), "f"), [1, 1]), shape=(4, 2)),
    lambda: sparse.row_sparse_array((np.ones((2, 2), "f"), [1, 4]), shape=(4, 2)),
    lambda: sparse.row_sparse_array((np.ones((2, 2), "f"), [-1, 2]), shape=(4, 2)),
    lambda: sparse.row_sparse_array((np.ones((2, 3), "f"), [1, 2]), shape=(4, 2)),
    lambda: sparse.row_sparse_array((np.ones((2, 2), "f"), [1]), shape=(4, 2)),
    lambda: sparse.row_sparse_array((np.ones((2, 2), "f"), [1.5, 2]), shape=(4, 2)),
    lambda: sparse.row_sparse_array((np.ones((2, 2), "f"), [[1, 2]]), shape=(4, 2)),
    lambda: sparse.csr_matrix(([1., 2], [0, 1], [0, 1]), shape=(1, 2)),
    lambda: sparse.csr_matrix(([1., 2], [1, 0], [0, 2]), shape=(1, 2)),
    lambda: sparse.csr_matrix(([1., 2], [0, 0], [0, 2]), shape=(1, 2)),
    lambda: sparse.csr_matrix(([1.], [5], [0, 1]), shape=(1, 2)),
    lambda: sparse.csr_matrix(([1.], [-1], [0, 1]), shape=(1, 2)),
    lambda: sparse.csr_matrix(([1.], [0], [1, 1]), shape=(1, 2)),
    lambda: sparse.csr_matrix(([1., 2], [0, 1], [0, 5, 2]), shape=(2, 2)),
    lambda: sparse.csr_matrix(([1., 2], [0, 1], [0, 2]), shape=(3, 2)),
    lambda: sparse.csr_matrix(([1.], ([0], [7])), shape=(2, 2)),
    lambda: sparse.csr_matrix(([1.], ([7], [0])), shape=(2, 2)),
    lambda: sparse.csr_matrix(([1.], ([-1], [1])), shape=(2, 2)),
    lambda: sparse.csr_matrix(([1.], ([0, 1], [0])), shape=(2, 2)),
    lambda: sparse.csr_matrix((1, 2, 3, 4)), lambda: sparse.row_sparse_array(([1], [2], [3])),
    lambda: sparse.zeros("csr", (2,)), lambda: sparse.zeros("coo", (2, 2)), lambda: nd.ones((2,)).tostype("csr"),
    lambda: nd.ones((2, 2)).tostype("nothing"), lambda: sparse.array([[1]]),
    lambda: sparse.csr_matrix([[1]]).tostype("row_sparse"),
])
def test_hostile_parts(make):
    with pytest.raises((MXNetError, ValueError, TypeError)):
        make()


# ---- arithmetic -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_arithmetic(dtype):
    a, x = random_rows((8, 3), [0, 2, 5], dtype, 1)
    b, y = random_rows((8, 3), [2, 3, 5, 7], dtype, 2)
    if dtype == "int32":
        a, x, b, y = a * 4, x * 4, b * 4, y * 4
    dense = nd.array(y + 1, dtype=dtype)
    same(a + b, x + y, "row_sparse"), same(a - b, x - y, "row_sparse"), same(a * b, x * y, "row_sparse")
    same(a + dense, x + y + 1, "default"), same(dense - a, y + 1 - x, "default")
    same(a * dense, x * (y + 1), "row_sparse"), same(a * 3, x * 3, "row_sparse"), same(-a, -x, "row_sparse")
    same(sparse.add(a, b), x + y, "row_sparse"), same(sparse.add_n(a, b, a), 2 * x + y, "row_sparse")
    same(a + sparse.zeros("row_sparse", (8, 3), dtype=dtype), x, "row_sparse")
    assert (a + b).indices.asnumpy().tolist() == [0, 2, 3, 5, 7]
    a += b
    same(a, x + y, "row_sparse")
    a *= 2
    same(a, 2 * (x + y), "row_sparse")


def test_csr_arithmetic():
    a, x = random_csr((6, 9), seed=1)
    b, y = random_csr((6, 9), seed=2)
    same(a + b, x + y, "csr"), same(a - b, x - y, "csr"), same(a * b, x * y, "csr")
    same(a / 2, x / 2, "csr"), same(a * nd.array(y + 2), x * (y + 2), "csr"), same(a / nd.array(y + 2), x / (y + 2))
    same(a + nd.array(y), x + y, "default"), same(a * nd.array([3.0]), 3 * x, "csr")
    for name in ("square", "abs", "sign", "relu", "sin", "tanh", "expm1", "floor", "sqrt", "negative"):
        with np.errstate(invalid="ignore"):
            expected = np.maximum(x, 0) if name == "relu" else -x if name == "negative" else getattr(np, name)(x)
        same(getattr(sparse, name)(a), expected, "csr", 1e-5)
    same(sparse.clip(a, -0.1, 0.2), x.clip(-0.1, 0.2), "csr")
    same(a.sum(), [x.sum()], tolerance=1e-5), same(a.sum(axis=0), x.sum(0), tolerance=1e-5)
    same(a.sum(axis=1, keepdims=True), x.sum(1, keepdims=True), tolerance=1e-5)
    same(a.mean(), [x.mean()]), same(a.mean(axis=-1), x.mean(1)), same(a.norm(), [np.linalg.norm(x)], tolerance=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_dot(dtype):
    a, x = random_csr((7, 11), dtype=dtype, seed=3)
    w = np.random.RandomState(4).uniform(-1, 1, (11, 5)).astype(dtype)
    v = np.random.RandomState(5).uniform(-1, 1, (7, 5)).astype(dtype)
    tolerance = 2e-3 if dtype == "float16" else 1e-5
    same(nd.dot(a, nd.array(w, dtype=dtype)), x @ w, "default", tolerance)
    same(sparse.dot(a, nd.array(v, dtype=dtype), transpose_a=True), x.T @ v, "row_sparse", tolerance)
    same(sparse.dot(a, nd.array(v, dtype=dtype), transpose_a=True, forward_stype="default"), x.T @ v, "default",
         tolerance)
    same(nd.dot(a, nd.array(w.T, dtype=dtype), transpose_b=True), x @ w, "default", tolerance)
    same(nd.dot(nd.array(v.T, dtype=dtype), a), v.T @ x, "csr", tolerance)
    same(nd.dot(nd.array(w.T, dtype=dtype), a, transpose_b=True, forward_stype="default"), w.T @ x.T, "default",
         tolerance)
    rows, dense = random_rows((11, 4), [0, 3, 9], dtype)
    same(nd.dot(a, rows), x @ dense, "default", tolerance)


def test_retain():
    x, dense = random_rows((6, 2), [1, 3, 4])
    kept = sparse.retain(x, nd.array([3, 2, 3]))
    expected = np.zeros((6, 2), "f")
    expected[3] = dense[3]
    same(kept, expected, "row_sparse")
    assert kept.indices.asnumpy().tolist() == [2, 3]
    same(x.retain(nd.array([1])), np.where(np.arange(6)[:, None] == 1, dense, 0))
    with pytest.raises(MXNetError, match="row 6"):
        x.retain(nd.array([6]))


FUNCTIONS = {
    "exp": nd.exp, "log": lambda x: nd.log(x + 2), "cos": nd.cos, "ones_like": nd.ones_like, "sigmoid": nd.sigmoid,
    "softmax": nd.softmax, "max": nd.max, "argmax": lambda x: nd.argmax(x, axis=1), "transpose": nd.transpose,
    "take": lambda x: nd.take(x, nd.array([0, 2]), axis=1), "stack": lambda x: nd.stack(x, x), "T": lambda x: x.T,
    "where": lambda x: nd.where(x, x, x), "concat": lambda x: nd.concat(x, x, dim=1),
    "FullyConnected": lambda x: nd.FullyConnected(x, nd.ones((2, 3)), num_hidden=2, no_bias=True),
    "maximum": lambda x: nd.maximum(x, 1), "allclose": lambda x: nd.contrib.allclose(x, x), "- 2": lambda x: x - 2,
    "+ 1": lambda x: x + 1, "2 -": lambda x: 2 - x, "** 2": lambda x: x ** 2, "2 /": lambda x: 2 / (x + 3),
    "dense.dot": lambda x: nd.dot(nd.ones((2, 3)), x.tostype("default") if x.stype == "csr" else x),
    "== 0": lambda x: x == 0, "< 1": lambda x: x < 1, "x == x": lambda x: x == x, "clip": lambda x: nd.clip(x, 1, 2),
    "dense + x": lambda x: nd.ones((3, 3)) + x, "dense * x": lambda x: nd.ones((3, 3)) * x,
    "norm": lambda x: nd.norm(x, axis=1), "exclude": lambda x: x.sum(axis=0, exclude=True), "flatten": nd.flatten,
    "broadcast_add": lambda x: nd.broadcast_add(x, nd.array([1, 2, 3]))}


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_operator_takes_sparse_arrays(name, stype):
    """What has no form for sparse arrays computes with dense copies; forward and gradient are those of dense arrays."""
    dense = nd.array([[0, 1, 0], [0, 0, 0], [-2, 0, 3]])
    results = []
    for x in (dense, dense.tostype(stype)):
        x.attach_grad()
        outside = FUNCTIONS[name](x)
        with autograd.record():
            y = FUNCTIONS[name](x)
        assert y.stype == outside.stype == "default"
        if name not in ("argmax", "allclose", "ones_like", "== 0", "< 1", "x == x", "where"):
            y.backward()
        results.append([outside.asnumpy(), y.asnumpy(), x.grad.asnumpy()])
        assert x.grad.stype == x.stype
    for got, expected in zip(*reversed(results)):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
@pytest.mark.parametrize("function", [
    lambda x: x * 2, lambda x: x * x, lambda x: x + x, lambda x: x - x * 3, nd.square, nd.abs, nd.relu, nd.sqrt,
    lambda x: -x, lambda x: nd.clip(x, -1, 2), lambda x: x == 1, lambda x: x > 0, lambda x: x >= 1,
    lambda x: x.astype("float64").astype("float32")])
def test_storage_types_and_gradients(function, stype):
    dense = nd.array([[0, 1, 0], [0, 0, 0], [4, 0, 3]])
    sparse_x = dense.tostype(stype)
    for head in (None, dense):
        results = []
        for x in (dense, sparse_x):
            x.attach_grad()
            with autograd.record():
                y = function(x)
            assert y.stype == x.stype
            g = head if head is None or x is dense else head.tostype(stype)
            y.backward(g)
            results.append([y.asnumpy(), np.nan_to_num(x.grad.asnumpy())])
            assert x.grad.stype == x.stype
        for got, expected in zip(*reversed(results)):
            np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_sparse_destinations():
    dense = nd.array([[0, 1], [2, 0]])
    for stype in ("csr", "row_sparse"):
        out = nd.zeros((2, 2), stype=stype)
        assert nd.log(dense + 1, out=out) is out and out.stype == stype
        np.testing.assert_allclose(out.asnumpy(), np.log(dense.asnumpy() + 1), rtol=1e-6)
        nd.exp(dense.tostype(stype), out=out)
        np.testing.assert_allclose(out.asnumpy(), np.exp(dense.asnumpy()), rtol=1e-6)
        with pytest.raises(MXNetError):
            nd.exp(nd.ones((3, 3)), out=out)


@pytest.mark.parametrize("hybrid", [False, True])
def test_blocks_take_sparse_inputs(hybrid):
    class Exp(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.exp(x) * 2

    net = gluon.nn.HybridSequential()
    net.add(Exp(), gluon.nn.Dense(2, in_units=3))
    net.initialize()
    if hybrid:
        net.hybridize()
    dense = nd.array([[0, 1, 0], [0, 0, 0], [-2, 0, 3]])
    results = []
    for x in (dense, dense.tostype("row_sparse"), dense.tostype("csr")):
        x.attach_grad()
        with autograd.record():
            y = net(x)
        y.backward()
        results.append([y.asnumpy(), x.grad.asnumpy(), net[1].weight.grad().asnumpy()])
    for other in results[1:]:
        for got, expected in zip(other, results[0]):
            np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_refusals_name_the_remedy():
    x, _ = random_csr((3, 3))
    rows, _ = random_rows((3, 3), [1])
    for name in ("reshape", "item", "asscalar", "tolist"):
        with pytest.raises(MXNetError, match="tostype"):
            getattr(x, name)(*([(9,)] if name == "reshape" else []))
    with pytest.raises(NotImplementedError):
        rows[0]
    with pytest.raises(ValueError):
        bool(x)


@pytest.mark.filterwarnings("ignore")
def test_no_method_crashes():
    for x in (random_csr((3, 3))[0], random_rows((3, 3), [1])[0], sparse.zeros("csr", (0, 3)),
              sparse.zeros("row_sparse", (0, 2))):
        for name in dir(x):
            if name in ("__class__", "__del__", "__init_subclass__", "__new__", "__reduce_ex__", "__sizeof__"):
                continue
            for args in ((), (1,), (x,), (nd.ones((3, 3)),), ("csr",), (0, 1)):
                try:
                    value = getattr(x, name)
                    if callable(value):
                        value(*args)
                except Exception:  # noqa: BLE001: whatever it says, the process goes on
                    pass
        nd.waitall()


# ---- gradients ------------------------------------------------------------------------------------------------------

def lookup(ids, w, **kwargs):
    return nd.Embedding(nd.array(ids), w, input_dim=w.shape[0], output_dim=w.shape[1], **kwargs)


def embedding_gradient(ids, shape):
    expected = np.zeros(shape, "f")
    np.add.at(expected, np.array(ids).ravel(), 1)
    return expected


@pytest.mark.parametrize("stype", ["row_sparse", "default"])
def test_embedding_gradient(stype):
    ids = [[1, 4], [4, 0]]
    w = nd.ones((6, 3))
    w.attach_grad(stype=stype)
    with autograd.record():
        y = lookup(ids, w, sparse_grad=True)
    y.backward()
    same(w.grad, embedding_gradient(ids, (6, 3)), stype)
    if stype == "row_sparse":
        assert w.grad.indices.asnumpy().tolist() == [0, 1, 4]
    with autograd.record():  # a dense gradient for a variable that asked for a sparse one
        y = (lookup(ids, w) * 2).sum()
    y.backward()
    same(w.grad, 2 * embedding_gradient(ids, (6, 3)), stype)


def test_several_uses_and_accumulation():
    w = nd.ones((6, 2))
    w.attach_grad(grad_req="add", stype="row_sparse")
    for _ in range(2):
        with autograd.record():
            y = lookup([1, 2], w, sparse_grad=True) * 2 + lookup([2, 5], w, sparse_grad=True)
        y.backward()
    expected = 2 * (2 * embedding_gradient([1, 2], (6, 2)) + embedding_gradient([2, 5], (6, 2)))
    same(w.grad, expected, "row_sparse")
    assert w.grad.indices.asnumpy().tolist() == [1, 2, 5]
    w.attach_grad(stype="row_sparse")
    with autograd.record():  # a dense use beside a sparse one, and a weight that is computed
        y = lookup([1, 2], w, sparse_grad=True).sum() + (w * 3).sum() + lookup([0], w * 2, sparse_grad=True).sum()
    y.backward()
    same(w.grad, embedding_gradient([1, 2], (6, 2)) + 3 + 2 * embedding_gradient([0], (6, 2)), "row_sparse")
    with autograd.record():  # nothing of it is used: zero
        y = (w * 0).sum()
    y.backward()
    same(w.grad, np.zeros((6, 2)), "row_sparse")


def test_nothing_stored():
    none, rows = sparse.zeros("csr", (3, 4)), sparse.zeros("row_sparse", (4, 2))
    dense = nd.ones((4, 2))
    same(nd.dot(none, dense), np.zeros((3, 2)), "default")
    same(nd.dot(none, nd.ones((3, 2)), transpose_a=True), np.zeros((4, 2)), "row_sparse")
    same(nd.dot(none, rows), np.zeros((3, 2))), same(nd.dot(random_csr((3, 4))[0], rows), np.zeros((3, 2)))
    for x in (none, rows):
        for made in (x + x, x - x, x * x, x * 2, x.copy(), sparse.abs(x), nd.add_n(x, x, x)):
            same(made, np.zeros(x.shape), x.stype)
        same(x.sum(), [0]), same(x.norm(), [0])
    same(rows.retain(nd.array([1])), np.zeros((4, 2)))
    same(nd.concat(none, none, dim=0), np.zeros((6, 4))), same(nd.take(none, nd.array([2, 2])), np.zeros((2, 4)))
    assert sparse.csr_matrix(np.zeros((0, 3))).shape == (0, 3)
    assert nd.zeros((3, 0)).tostype("csr").shape == (3, 0) and nd.zeros((0, 2)).tostype("row_sparse").shape == (0, 2)
    w = nd.ones((4, 2))
    w.attach_grad(stype="row_sparse")
    with autograd.record():
        y = nd.Embedding(nd.zeros((0,)), w, input_dim=4, output_dim=2, sparse_grad=True)
    y.backward()
    assert w.grad.indices.shape == (0,)
    nd.sgd_update(w, w.grad, out=w, lr=1, wd=1)
    same(w, np.ones((4, 2)))


def test_marked_variables():
    w, grad = nd.ones((4, 2)), sparse.zeros("row_sparse", (4, 2))
    autograd.mark_variables([w], [grad])
    with autograd.record():
        y = lookup([2], w, sparse_grad=True)
    y.backward()
    same(grad, embedding_gradient([2], (4, 2)), "row_sparse")
    with autograd.record():  # through a change of storage
        y = (w * 2).tostype("row_sparse").tostype("default").sum()
    y.backward()
    same(w.grad, np.full((4, 2), 2.0), "row_sparse")


def test_gradient_functions():
    w = nd.ones((4, 2))
    w.attach_grad(stype="row_sparse")
    with autograd.record():
        y = lookup([3], w, sparse_grad=True).sum()
    same(autograd.grad(y, [w])[0], embedding_gradient([3], (4, 2)))
    with autograd.record():  # twice differentiable
        y = (lookup([3, 3], w, sparse_grad=True) ** 3).sum()
        g = autograd.grad(y, [w], create_graph=True)[0]
        z = (g ** 2).sum()
    z.backward()
    expected = np.zeros((4, 2))
    expected[3] = 2 * 6 * 12
    same(w.grad, expected, "row_sparse")


@pytest.mark.parametrize("stype", ["row_sparse", "default"])
def test_dot_gradient(stype):
    a, x = random_csr((4, 9), seed=6)
    w = nd.ones((9, 2))
    w.attach_grad(stype=stype)
    head = np.random.RandomState(0).uniform(size=(4, 2)).astype("f")
    with autograd.record():
        y = nd.dot(a, w)
    y.backward(nd.array(head))
    same(w.grad, x.T @ head, stype, 1e-5)
    weight = nd.ones((9, 2)).tostype("row_sparse")  # a sparse variable
    weight.attach_grad()
    with autograd.record():
        y = sparse.dot(a, weight)
    y.backward(nd.array(head))
    same(weight.grad, x.T @ head, "row_sparse", 1e-5)
    with autograd.record():
        y = sparse.dot(a, weight)
    same(autograd.grad(y, [weight], [nd.array(head)])[0], x.T @ head, "row_sparse", 1e-5)
    weight.grad[:] = 0
    assert weight.grad.indices.shape == (0,)


# ---- networks and optimizers ----------------------------------------------------------------------------------------

def train(net, optimizer, options, steps=4, hybridize=False):
    net.initialize(mx.init.Constant(0.5), force_reinit=True)
    if hybridize:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), optimizer, options)
    for i in range(steps):
        with autograd.record():
            loss = (net(nd.array([[i, 2], [2, i + 1]])) ** 2).sum()
        loss.backward()
        trainer.step(2)
    return [p.data().asnumpy() for p in net.collect_params().values()]


def small_net(sparse_grad):
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Embedding(9, 3, sparse_grad=sparse_grad), gluon.nn.Dense(2))
    return net


@pytest.mark.parametrize("optimizer,options", [
    ("sgd", {}), ("sgd", {"momentum": 0.9, "lazy_update": False, "wd": 0.1}),
    ("sgd", {"wd": 0.1, "lazy_update": False}),
    ("adam", {"lazy_update": False}), ("adagrad", {}), ("rmsprop", {}), ("nag", {"momentum": 0.9}), ("adamax", {})])
@pytest.mark.parametrize("hybridize", [False, True])
def test_updates_agree_with_dense_ones(optimizer, options, hybridize):
    options = dict(options, learning_rate=0.1)
    for a, b in zip(train(small_net(True), optimizer, options, hybridize=hybridize),
                    train(small_net(False), optimizer, options)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optimizer,options", [("sgd", {"momentum": 0.9, "wd": 0.1}), ("adam", {"wd": 0.1}),
                                               ("adagrad", {"wd": 0.1}), ("ftrl", {}), ("sgd", {"wd": 0.1})])
@pytest.mark.parametrize("stype", ["default", "row_sparse"])
def test_lazy_updates_touch_their_rows_only(optimizer, options, stype):
    made = mx.optimizer.create(optimizer, learning_rate=0.1, **options)
    weight, few = nd.ones((6, 3)), nd.ones((2, 3))
    if stype == "row_sparse":
        weight = weight.tostype(stype)
    state, few_state = made.create_state(0, weight), made.create_state(1, few)
    for step in range(3):
        values = np.random.RandomState(step).uniform(-1, 1, (2, 3)).astype("f")
        made.update(0, weight, sparse.row_sparse_array((values, [1, 4]), shape=(6, 3)), state)
        made.update(1, few, nd.array(values), few_state)
    expected = np.ones((6, 3), "f")
    expected[[1, 4]] = few.asnumpy()
    if (optimizer, stype) == ("ftrl", "default"):  # lazy only for row_sparse weights: the other rows shrink to 0
        expected[[0, 2, 3, 5]] = 0
    same(weight, expected, stype)


def test_update_operators():
    grad = sparse.row_sparse_array((np.ones((1, 2), "f"), [1]), shape=(3, 2))
    w, m = nd.ones((3, 2)), nd.zeros((3, 2))
    sparse.sgd_mom_update(w, grad, m, out=w, lr=0.5, momentum=0.9)
    same(w, [[1, 1], [0.5, 0.5], [1, 1]]), same(m, [[0, 0], [-0.5, -0.5], [0, 0]])
    other = nd.sgd_update(w, grad, lr=0.5)
    same(other, [[1, 1], [0, 0], [1, 1]]), same(w, [[1, 1], [0.5, 0.5], [1, 1]])
    w16 = nd.ones((3, 2), dtype="float16")
    nd.sgd_update(w16, grad.astype("float16"), out=w16, lr=0.5)
    same(w16, [[1, 1], [0.5, 0.5], [1, 1]])
    with pytest.raises(MXNetError):
        nd.sgd_update(nd.ones((4, 2)), grad, lr=0.5)


def test_gradients_of_a_step_are_small():
    net = gluon.nn.Embedding(200000, 8, sparse_grad=True)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    with autograd.record():
        loss = net(nd.array([5, 7, 5])).sum()
    loss.backward()
    trainer.step(1)
    grad = net.weight.grad()
    assert grad.stype == "row_sparse" and grad.indices.asnumpy().tolist() == [5, 7]
    same(grad.data, [[2] * 8, [1] * 8])
    net.collect_params().zero_grad()
    assert net.weight.grad().indices.shape == (0,)
    norm = gluon.utils.clip_global_norm([grad], 1.0)
    assert norm == 0
    with autograd.record():
        loss = net(nd.array([5, 7, 5])).sum()
    loss.backward()
    assert abs(gluon.utils.clip_global_norm([net.weight.grad()], 1.0) - np.sqrt(40)) < 1e-4
    assert abs(net.weight.grad().norm().asscalar() - 1) < 1e-4


def test_parameters_with_storage_types():
    p = gluon.Parameter("w", shape=(5, 3), stype="row_sparse", grad_stype="row_sparse", init="ones")
    p.initialize()
    assert p.stype == "row_sparse" and p.grad().stype == "row_sparse"
    with pytest.raises(RuntimeError, match="no Trainer"):
        p.row_sparse_data(nd.array([3, 1, 3]))
    trainer = gluon.Trainer([p], "sgd", {"learning_rate": 0.5})
    rows = p.row_sparse_data(nd.array([3, 1, 3]))
    assert rows.indices.asnumpy().tolist() == [1, 3] and rows.shape == (5, 3)
    ids = nd.array([3, 1])
    with autograd.record():
        y = nd.Embedding(ids, p.row_sparse_data(ids), input_dim=5, output_dim=3, sparse_grad=True)
    y.backward()
    same(p.grad(), embedding_gradient([3, 1], (5, 3)), "row_sparse")
    trainer.step(1)
    same(p.list_row_sparse_data(nd.array([1]))[0].data, [[0.5] * 3])
    p.set_data(nd.ones((5, 3)).tostype("row_sparse"))
    with pytest.raises(RuntimeError):
        gluon.Parameter("v", shape=(2, 2)).row_sparse_data(ids)
    for wrong in ({"stype": "coo"}, {"grad_stype": "nothing"}):
        with pytest.raises(AssertionError):
            gluon.Parameter("w", shape=(2,), **wrong)


def test_whole_steps_run_plainly():
    weights = []
    for whole in (False, True):
        net, loss = small_net(True), gluon.loss.L2Loss()
        net.initialize(mx.init.Constant(0.5))
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
        step = gluon.TrainStep(net, loss, trainer)
        for i in range(3):
            x, y = nd.array([[i, 2], [2, i + 1]]), nd.ones((2, 2))
            if whole:
                step(x, y)
                continue
            with autograd.record():
                value = loss(net(x), y)
            value.backward()
            trainer.step(2)
        weights.append([p.data().asnumpy() for p in net.collect_params().values()])
    for a, b in zip(*weights):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_scipy_matrices():
    class Matrix:  # what is asked of one
        data, indices, indptr = np.array([1.0, 2.0]), np.array([1, 0], "int32"), np.array([0, 1, 2], "int32")
        shape, dtype, has_canonical_format = (2, 3), np.dtype("float64"), True

        def tocsr(self):
            return self

    for make in (nd.array, sparse.array, sparse.csr_matrix):
        same(make(Matrix()), [[0, 1, 0], [2, 0, 0]], "csr")
    scipy_sparse = pytest.importorskip("scipy.sparse")
    back = sparse.csr_matrix([[0, 1], [2, 0]]).asscipy()
    assert scipy_sparse.issparse(back) and back.toarray().tolist() == [[0, 1], [2, 0]]


def test_two_contexts_sum_sparse_gradients():
    contexts = [mx.cpu(0), mx.cpu(1)]
    net = gluon.nn.Embedding(5, 2, sparse_grad=True)
    net.initialize(mx.init.One(), ctx=contexts)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1})
    with autograd.record():
        losses = [net(nd.array([i, 3], ctx=ctx)).sum() for i, ctx in enumerate(contexts)]
    autograd.backward(losses)
    trainer.step(1)
    expected = np.ones((5, 2)) - [[1], [1], [0], [2], [0]]
    for ctx in contexts:
        same(net.weight.data(ctx), expected)


def test_csr_through_a_block():
    class Linear(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.weight = self.params.get("weight", shape=(9, 1), grad_stype="row_sparse", init="ones")

        def hybrid_forward(self, F, x, weight):
            return F.dot(x, weight)

    a, x = random_csr((4, 9), seed=8)
    for hybridize in (False, True):
        net = Linear()
        net.initialize()
        if hybridize:
            net.hybridize()
        with autograd.record():
            y = net(a)
        y.backward()
        same(y, x.sum(1, keepdims=True), tolerance=1e-5)
        same(net.weight.grad(), x.sum(0)[:, None], "row_sparse", 1e-5)


# ---- files, iterators, stores ---------------------------------------------------------------------------------------

def test_files(tmp_path):
    path = str(tmp_path / "x.params")
    a, x = random_csr((3, 4))
    b, y = random_rows((5, 2), [0, 4])
    nd.save(path, {"a": a, "b": b, "c": nd.ones((2,)), "d": sparse.zeros("csr", (2, 3))})
    loaded = nd.load(path)
    same(loaded["a"], x, "csr"), same(loaded["b"], y, "row_sparse"), same(loaded["c"], [1, 1], "default")
    same(loaded["d"], np.zeros((2, 3)), "csr")
    raw = open(path, "rb").read()
    for cut in range(0, len(raw), 7):
        with pytest.raises(MXNetError):
            nd.load_frombuffer(raw[:cut])
    net = gluon.nn.Embedding(5, 2)
    nd.save(path, {"weight": b})
    net.load_parameters(path)
    same(net.weight.data(), y)


@pytest.mark.parametrize("stored, starts", [(4, 0), (4, 2), (4, 4), (0, 1), (0, 2)])
def test_files_with_row_starts_of_a_wrong_length(tmp_path, stored, starts):
    """Without elements there may be none at all, which MXNet writes."""
    path = str(tmp_path / "x.params")
    x = np.zeros((2, 5), "float32")
    x.flat[:stored] = 1
    nd.save(path, nd.array(x).tostype("csr"))
    raw, three = open(path, "rb").read(), struct.pack("<Iq", 1, 3)
    assert raw.count(three) == 1
    with pytest.raises(MXNetError, match="contradict each other"):
        nd.load_frombuffer(raw.replace(three, struct.pack("<Iq", 1, starts)))


def test_iterators(tmp_path):
    a, x = random_csr((5, 4))
    batches = list(mx.io.NDArrayIter(a, np.arange(5), 2, last_batch_handle="discard"))
    assert len(batches) == 2 and all(batch.data[0].stype == "csr" for batch in batches)
    same(batches[0].data[0], x[:2])
    path = tmp_path / "x.svm"
    path.write_text("1 0:0.5 2:1.5\n\n0 1:-2e-1\n1 0:1 1:2 2:3\n")
    it = mx.io.LibSVMIter(data_libsvm=str(path), data_shape=(3,), batch_size=2)
    first, second = list(it)
    same(first.data[0], [[0.5, 0, 1.5], [0, -0.2, 0]], "csr"), same(first.label[0], [1, 0], "default")
    same(second.data[0], [[1, 2, 3], [0.5, 0, 1.5]], "csr")
    assert second.pad == 1 and it.provide_data[0].shape == (2, 3)
    for text in ("1 3:1\n", "1 0\n", "x 0:1\n", "1 1:1 0:1\n", "1 -1:2\n", "", "1 0:\n", "1,2 0:1\n1 0:1\n",
                 "1 0.5:1\n"):
        path.write_text(text)
        with pytest.raises(MXNetError):
            mx.io.LibSVMIter(data_libsvm=str(path), data_shape=(3,), batch_size=1)


def test_row_sparse_pull():
    for value in (nd.arange(0, 10).reshape((5, 2)), nd.arange(0, 10).reshape((5, 2)).tostype("row_sparse")):
        store = mx.kv.create("local")
        store.init("w", value)
        out = sparse.zeros("row_sparse", (5, 2))
        store.row_sparse_pull("w", out=out, row_ids=nd.array([4, 1, 1]))
        assert out.indices.asnumpy().tolist() == [1, 4]
        same(out.data, [[2, 3], [8, 9]])
        with pytest.raises(MXNetError):
            store.row_sparse_pull("w", out=out, row_ids=nd.array([5]))
        with pytest.raises(ValueError):
            store.row_sparse_pull("w", out=nd.ones((5, 2)), row_ids=nd.array([0]))


def test_sparse_embedding_block():
    net = gluon.contrib.nn.SparseEmbedding(6, 2)
    net.initialize(mx.init.One())
    with autograd.record():
        y = net(nd.array([1, 1]))
    y.backward()
    same(net.weight.grad(), embedding_gradient([1, 1], (6, 2)), "row_sparse")


# ---- symbols -------------------------------------------------------------------------------------------------------

def test_sparse_variables():
    assert mx.sym.var("w", stype="csr").list_attr() == {"__storage_type__": "2"}
    assert mx.sym.var("w", stype="row_sparse").attr("__storage_type__") == "1"
    with pytest.raises(KeyError):
        mx.sym.var("w", stype="foo")


def test_executors_follow_storage_types():
    x, w, v = mx.sym.var("x", stype="csr"), mx.sym.var("w", stype="row_sparse"), mx.sym.var("v", stype="row_sparse")
    for symbol, shapes, stype in [
            (x, {"x": (3, 4)}, "csr"), (mx.sym.sparse.negative(x), {"x": (3, 4)}, "csr"),
            (mx.sym.sparse.elemwise_add(w, v), {"w": (3, 4), "v": (3, 4)}, "row_sparse"),
            (mx.sym.sparse.elemwise_add(x, w), {"x": (3, 4), "w": (3, 4)}, "default"),
            (mx.sym.square(w), {"w": (3, 4)}, "row_sparse"), (mx.sym.exp(w), {"w": (3, 4)}, "default"),
            (mx.sym.sparse.dot(x, w), {"x": (3, 4), "w": (4, 2)}, "default")]:
        executor = symbol.simple_bind(mx.cpu(), **shapes)
        assert {n: a.stype for n, a in executor.arg_dict.items()} == {n: "csr" if n == "x" else "row_sparse" for n in shapes}
        assert all(executor.grad_dict[n].stype == ("row_sparse" if n != "x" else "default") for n in shapes)
        assert [o.stype for o in executor.forward()] == [stype]


def test_executor_on_sparse_arrays(on_host):
    x, dense_x = random_csr((3, 4))
    w, dense_w = random_rows((4, 2), [0, 3])
    symbol = mx.sym.sparse.dot(mx.sym.var("x", stype="csr"), mx.sym.var("w", stype="row_sparse"))
    bound = symbol.bind(mx.cpu(), {"x": x, "w": w}, args_grad={"w": nd.zeros((4, 2), stype="row_sparse")},
                        grad_req={"x": "null", "w": "write"})
    made = symbol.simple_bind(mx.cpu(), x=(3, 4), w=(4, 2))
    made.arg_dict["x"][:] = x
    w.copyto(made.arg_dict["w"])
    doubled = x * 2
    for executor in (bound, made):
        output, = executor.forward(is_train=True)
        np.testing.assert_allclose(output.asnumpy(), dense_x @ dense_w, rtol=1e-5, atol=1e-7)
        executor.backward([nd.ones((3, 2))])
        assert executor.grad_dict["w"].stype == "row_sparse"
        np.testing.assert_allclose(executor.grad_dict["w"].asnumpy(), dense_x.T @ np.ones((3, 2)), rtol=1e-5, atol=1e-7)
        output, = executor.forward(x=doubled)
        np.testing.assert_allclose(output.asnumpy(), 2 * dense_x @ dense_w, rtol=1e-5, atol=1e-7)
    w[:] = w * 3  # the executor sees what its array holds now
    np.testing.assert_allclose(bound.forward()[0].asnumpy(), 6 * dense_x @ dense_w, rtol=1e-5, atol=1e-7)
    square = mx.sym.square(mx.sym.var("w", stype="row_sparse")).bind(mx.cpu(), {"w": w})
    first = square.forward()[0]
    w[:] = w * 2
    square.forward()
    np.testing.assert_allclose(first.asnumpy(), (6 * dense_w) ** 2, rtol=1e-5)  # outputs live as long as the executor


def test_logistic_regression_with_csr_label():
    label, dense = random_csr((3, 4))
    symbol = mx.sym.LogisticRegressionOutput(mx.sym.var("data"), mx.sym.var("label", stype="csr"))
    executor = symbol.bind(mx.cpu(), {"data": nd.zeros((3, 4)), "label": label}, args_grad={"data": nd.zeros((3, 4))},
                           grad_req={"data": "write", "label": "null"})
    executor.forward(is_train=True)
    executor.backward()
    np.testing.assert_allclose(executor.grad_dict["data"].asnumpy(), (0.5 - dense) / 4, rtol=1e-5)


@pytest.mark.parametrize("init", [mx.init.Constant(1), mx.init.Zero(), mx.init.One(), mx.init.Normal()])
def test_module_on_sparse_data(init):
    x = nd.array([[0, 1, 0], [0, 0, 0], [2, 0, 3]]).tostype("csr")
    weight = mx.sym.var("weight", shape=(3, 1), stype="row_sparse")
    out = mx.sym.LinearRegressionOutput(mx.sym.sparse.dot(mx.sym.var("data", stype="csr"), weight), mx.sym.var("label"))
    batches = mx.io.NDArrayIter({"data": x}, {"label": nd.array([[1], [2], [3]])}, 1, last_batch_handle="discard")
    module = mx.mod.Module(out, ["data"], ["label"])
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params(init)
    before = module.get_params()[0]["weight"].asnumpy()
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.1})
    expected = before.copy()
    for row, target, batch in zip(x.asnumpy(), (1, 2, 3), batches):
        module.forward(batch)
        module.backward()
        module.update()
        expected -= 0.1 * (row @ expected - target) * row[:, None]
    result = module.get_params()[0]["weight"]
    assert result.stype == "row_sparse"
    np.testing.assert_allclose(result.asnumpy(), expected, rtol=1e-4, atol=1e-6)


def test_custom_operators_take_sparse_arrays():
    class Square(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0] * in_data[0])

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], 2 * in_data[0] * out_grad[0])

    @mx.operator.register("square_of_sparse")
    class SquareProp(mx.operator.CustomOpProp):  # noqa: F841
        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Square()

    values = np.array([[0, 1, 0], [2, 0, 3]], "float32")
    for stype in ("csr", "row_sparse"):
        x = nd.array(values).tostype(stype)
        x.attach_grad()
        with mx.autograd.record():
            y = nd.Custom(x, op_type="square_of_sparse")
        y.backward()
        np.testing.assert_array_equal(y.asnumpy(), values ** 2)
        np.testing.assert_array_equal(x.grad.asnumpy(), 2 * values)


def test_edges(on_host):
    graph = nd.array([[0, 7, 0], [5, 0, 6], [0, 0, 0]])
    u, v, ids = [0, 0, 1, 1, 1, 2], [0, 1, 0, 1, 2, 2], [-1, 7, 5, -1, 6, -1]
    assert nd.contrib.edge_id(graph.tostype("csr"), nd.array(u), nd.array(v)).asnumpy().tolist() == ids
    for u, v, wrong in (((1, 1), (1,), r"u has shape \(1, 1\), wanted one axis"), ((1,), (1, 1), r"v has shape \(1, 1\), wanted one"),
                        ((2,), (1,), r"u has shape \(2,\), wanted \(1,\)")):
        with pytest.raises(mx.MXNetError, match=f"edge_id: .*{wrong}"):
            nd.contrib.edge_id(graph.tostype("csr"), nd.ones(u), nd.ones(v))


def test_edges_outside_of_the_graph(on_host):
    graph = nd.array([[0, 1], [2, 0]]).tostype("csr")
    for data in (graph, graph.tostype("default")):
        for u, v in ((2, 0), (0, 2), (-1, 0)):
            with pytest.raises(mx.MXNetError, match="outside of a matrix of 2 by 2"):
                nd.contrib.edge_id(data, nd.array([u]), nd.array([v]))
    with pytest.raises(mx.MXNetError, match="axis is 2"):
        nd.contrib.getnnz(graph, axis=2)
    with pytest.raises(AttributeError, match="dgl_subgraph: .* there are edge_id, getnnz and dgl_adjacency"):
        nd.contrib.dgl_subgraph(graph, nd.array([0]), return_mapping=False)
