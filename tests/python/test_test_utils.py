"""mx.test_utils: its checks accept what is right and really catch what is wrong."""
import os

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, nd
from mxnet import test_utils as tu


# ---- comparing -----------------------------------------------------------------------------------------------------

def test_assert_almost_equal():
    a = np.random.rand(3, 4).astype("float32")
    tu.assert_almost_equal(a, nd.array(a))
    tu.assert_almost_equal(a, a * (1 + 5e-5))
    tu.assert_almost_equal(np.array([np.nan, 1]), np.array([np.nan, 1]), equal_nan=True)
    tu.assert_almost_equal(np.array([np.inf]), np.array([np.inf]))
    b = a.copy()
    b[1, 2] += 0.1
    for wrong in ((a, b), (a, -a), (a, a[:2]), (np.array([np.nan]), np.array([np.nan])),
                  (np.array([np.inf]), np.array([-np.inf])),
                  (np.array([1.0]), np.array([np.nan])), (np.array([1]), np.array([2])),
                  (np.float64([1]), np.float64([1.0001]))):
        with pytest.raises(AssertionError):
            tu.assert_almost_equal(*wrong)
    with pytest.raises(AssertionError) as caught:
        tu.assert_almost_equal(a, b, names=("ours", "theirs"))
    assert "(1, 2)" in str(caught.value) and "ours" in str(caught.value)
    assert tu.almost_equal(a, a) and not tu.almost_equal(a, b)
    assert tu.same(a, nd.array(a)) and not tu.same(a, b)
    tu.assert_almost_equal_with_err(a, b, etol=0.1)
    with pytest.raises(AssertionError):
        tu.assert_almost_equal_with_err(a, b, etol=0.01)
    tu.assert_almost_equal_ignore_nan(np.array([1, np.nan]), np.array([1, 5.0]))
    tu.assert_exception(lambda: 1 / 0, ZeroDivisionError)
    with pytest.raises(AssertionError):
        tu.assert_exception(lambda: 1, ZeroDivisionError)
    assert tu.find_max_violation(a, b)[0] == (1, 2)


def test_tolerances_follow_the_type():
    half, single = np.float16([1.0]), np.float32([1.0])
    assert tu.almost_equal(half, np.float16([1.05])) and not tu.almost_equal(single, np.float32([1.05]))
    assert tu.get_tols(half, single, None, None) == (1e-2, 1e-1)
    assert tu.get_tols(single, single, 0.5, None) == (0.5, 1e-3)
    assert not tu.almost_equal(np.int32([5]), np.int32([6]))


# ---- gradients -----------------------------------------------------------------------------------------------------

class Scaled(autograd.Function):
    """x * x with a gradient that is wrong by a factor."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        self.save_for_backward(x)
        return x * x

    def backward(self, dy):
        x, = self.saved_tensors
        return dy * 2 * x * self.factor


@pytest.mark.parametrize("factor, right", [(1.0, True), (1.02, False), (0.9, False), (-1.0, False), (0.0, False)])
def test_wrong_gradients_are_caught(factor, right):
    location = [np.random.uniform(0.5, 2, (3, 4))]
    check = lambda **kw: tu.check_numeric_gradient(lambda x: Scaled(factor)(x), location, **kw)  # noqa: E731
    for options in ({}, {"dtype": "float64"}):
        if right:
            check(**options)
        else:
            with pytest.raises(AssertionError):
                check(**options)


def test_numeric_gradient_of_several():
    location = {"a": np.random.rand(2, 3), "b": np.random.rand(3)}
    tu.check_numeric_gradient(lambda a, b: [nd.broadcast_mul(a, b), nd.tanh(a)], location)
    tu.check_numeric_gradient(lambda a, b: a * b.detach().reshape((1, 3)), location, grad_nodes=["a"])
    with pytest.raises(AssertionError):
        tu.check_numeric_gradient(lambda a, b: a * b.detach().reshape((1, 3)), location)
    for grads in (tu.numeric_grad(lambda x: x * x, [np.array([1.0, 3.0])], dtype="float64"),):
        assert np.allclose(grads[0], [2, 6])


def test_symbolic_checks_on_functions():
    a = np.random.rand(2, 3).astype("float32")
    tu.check_symbolic_forward(lambda x: x * 2, [a], [a * 2])
    tu.check_symbolic_backward(lambda x: x * x, [a], [np.ones_like(a)], [2 * a])
    tu.check_symbolic_backward(lambda x: x * x, {"x": a}, [np.ones_like(a)], {"x": 2 * a}, grad_req="add")
    for wrong in (lambda: tu.check_symbolic_forward(lambda x: x * 2, [a], [a * 3]),
                  lambda: tu.check_symbolic_forward(lambda x: x * 2, [a], []),
                  lambda: tu.check_symbolic_backward(lambda x: x * x, [a], [np.ones_like(a)], [3 * a]),
                  lambda: tu.check_symbolic_backward(lambda x: x * x, [a], [np.ones_like(a)], [2 * a + 1],
                                                     grad_req="add")):
        with pytest.raises(AssertionError):
            wrong()
    assert np.allclose(tu.simple_forward(lambda x: x + 1, x=a), a + 1)
    assert tu.check_speed(lambda x: x * x, [a], N=2) > 0


def test_symbolic_checks_on_symbols():
    sym = pytest.importorskip("mxnet.symbol")
    x, w = sym.Variable("x"), sym.Variable("w")
    a, b = np.random.rand(2, 3).astype("float32"), np.random.rand(2, 3).astype("float32")
    y = x * w
    tu.check_symbolic_forward(y, [a, b], [a * b])
    tu.check_symbolic_forward(y, {"w": b, "x": a}, [a * b])
    tu.check_symbolic_backward(y, [a, b], [np.ones_like(a)], {"x": b, "w": a})
    tu.check_symbolic_backward(y, [a, b], [np.ones_like(a)], [b, a], grad_req={"x": "add", "w": "write"})
    tu.check_numeric_gradient(y, [a, b])
    for wrong in (lambda: tu.check_symbolic_forward(y, [a, b], [a + b]),
                  lambda: tu.check_symbolic_backward(y, [a, b], [np.ones_like(a)], [a, a])):
        with pytest.raises(AssertionError):
            wrong()
    with pytest.raises(ValueError):
        tu.check_symbolic_forward(y, [a], [a])
    assert np.allclose(tu.simple_forward(y, x=a, w=b), a * b)


def test_check_consistency():
    ctx = mx.current_context()
    entries = [{"ctx": ctx, "x": (3, 4), "type_dict": {"x": t}} for t in ("float64", "float32", "float16")]
    tu.check_consistency(lambda x: nd.tanh(x) * 2, entries)

    def unlike(x):  # says something else in one of the types
        return x * 2 if x.dtype is np.float64 else x * 3

    with pytest.raises(AssertionError):
        tu.check_consistency(unlike, entries)


# ---- the rest ------------------------------------------------------------------------------------------------------

def test_random_data():
    assert tu.rand_ndarray((2, 3)).shape == (2, 3)
    assert len(tu.rand_shape_nd(4)) == 4 and max(tu.rand_shape_nd(50, dim=3)) <= 3
    assert 0 < tu.rand_shape_2d()[0] <= 10 and len(tu.rand_shape_3d()) == 3
    assert tu.random_arrays((2,)).shape == (2,) and len(tu.random_arrays((2,), (3,))) == 2
    assert tu.random_uniform_arrays((2, 2), low=5, high=6)[0].min() >= 5
    assert len(tu.random_sample(list(range(10)), 3)) == 3
    q = tu.new_orthonormal_matrix_2d(4)
    assert np.allclose(q @ q.T, np.eye(4), atol=1e-6)
    assert np.abs(np.linalg.eigvals(tu.new_matrix_with_real_eigvals_nd((2, 3, 3))).imag).max() < 1e-6
    assert tu.create_2d_tensor(2, 3).asnumpy().tolist() == [[0, 0, 0], [1, 1, 1]]
    assert tu.collapse_sum_like(np.ones((4, 2, 3)), (1, 3)).tolist() == [[8, 8, 8]]
    assert tu.np_reduce(np.ones((2, 3)), 1, True, np.sum).tolist() == [[3], [3]]
    x = nd.ones((2, 2))
    assert tu.same_array(x, x.reshape((2, 2))) and not tu.same_array(x, x.copy())
    assert tu.rand_ndarray((2, 2), "csr").stype == "csr"
    rows, (values, numbers) = tu.rand_sparse_ndarray((6, 2), "row_sparse", rsp_indices=[1, 4])
    assert rows.indices.asnumpy().tolist() == [1, 4] == numbers.tolist() and values.shape == (2, 2)
    assert tu.create_sparse_array_zd((3, 3), "csr", density=0).data.shape == (0,)
    assert tu.default_context() == mx.current_context() and tu.default_dtype() is np.float32
    assert len(tu.list_gpus()) == mx.num_gpus()


def test_environment(tmp_path):
    with tu.environment("GLUON_TEST_NAME", "1"):
        assert os.environ["GLUON_TEST_NAME"] == "1"
        with tu.environment({"GLUON_TEST_NAME": None, "GLUON_TEST_OTHER": "2"}):
            assert "GLUON_TEST_NAME" not in os.environ
        assert os.environ["GLUON_TEST_NAME"] == "1"
    assert "GLUON_TEST_NAME" not in os.environ

    tries = []

    @tu.retry(3)
    def flaky():
        tries.append(1)
        assert len(tries) == 3

    flaky()
    with tu.environment("MXNET_HOME", str(tmp_path)):
        with pytest.raises(OSError):
            tu.get_mnist()
    with pytest.raises(OSError):
        tu.download("http://localhost/no-such-file", dirname=str(tmp_path))


def test_get_mnist(tmp_path):
    folder = tmp_path / "datasets" / "mnist"
    folder.mkdir(parents=True)
    for prefix, n in (("train", 5), ("t10k", 3)):
        images = np.arange(n * 784, dtype="uint32").astype("uint8").tobytes()
        sizes = b"".join(v.to_bytes(4, "big") for v in (n, 28, 28))
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + sizes + images)
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01" + n.to_bytes(4, "big") + bytes(range(n)))
    with tu.environment("MXNET_HOME", str(tmp_path)):
        data = tu.get_mnist()
    assert data["train_data"].shape == (5, 1, 28, 28) and data["test_label"].tolist() == [0, 1, 2]
    assert data["train_data"].max() <= 1
