"""mx.np.linalg against NumPy: values, shapes, and what cannot be computed.  Gradients are in test_np_functions.py."""
import numpy as onp
import pytest

from mxnet import np
from test_np_functions import A, B, C, draw, ours, same


def test_linalg():
    a = draw((3, 4, 4), "float64") + 5 * onp.eye(4)
    s = a @ a.transpose(0, 2, 1)
    same(np.linalg.inv(ours(a)), onp.linalg.inv(a), 1e-8)
    same(np.linalg.det(ours(a)), onp.linalg.det(a), 1e-8)
    same(np.linalg.det(ours(a[0])), onp.linalg.det(a[0]), 1e-8)
    same(np.linalg.cholesky(ours(s)), onp.linalg.cholesky(s), 1e-8)
    for got, want in zip(np.linalg.slogdet(ours(a)), onp.linalg.slogdet(a)):
        same(got, want, 1e-8)
    values, vectors = np.linalg.eigh(ours(s[0]))
    same(values, onp.linalg.eigvalsh(s[0]), 1e-7)
    same(ours(s[0]) @ vectors, (vectors * values).asnumpy(), 1e-6)
    b = draw((4, 2), "float64")
    same(np.linalg.solve(ours(a[0]), ours(b)), onp.linalg.solve(a[0], b), 1e-8)
    for order in (None, 1, 2, 3, 0, onp.inf, -onp.inf):
        same(np.linalg.norm(ours(C), ord=order), onp.linalg.norm(C, ord=order), 1e-6)
    for order in (None, 1, -1, onp.inf, -onp.inf):
        same(np.linalg.norm(ours(B), ord=order), onp.linalg.norm(B, ord=order), 1e-6)
    same(np.linalg.norm(ours(A), axis=(0, 2)), onp.linalg.norm(A, axis=(0, 2)), 1e-6)
    same(np.linalg.norm(ours(A), axis=1, keepdims=True), onp.linalg.norm(A, axis=1, keepdims=True), 1e-6)
    for order in (2, -2, "nuc", "fro"):
        same(np.linalg.norm(ours(B), ord=order), onp.linalg.norm(B, ord=order), 1e-6)
        same(np.linalg.norm(ours(A), ord=order, axis=(2, 0), keepdims=True), onp.linalg.norm(A, ord=order, axis=(2, 0), keepdims=True), 1e-6)


def orthonormal(columns):
    same(columns.swapaxes(-1, -2) @ columns, onp.broadcast_to(onp.eye(columns.shape[-1]), columns.shape[:-2] + (columns.shape[-1],) * 2), 1e-10)


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 5), (5, 2), (3, 4, 6), (2, 6, 4), (30, 40)], ids=str)
def test_factorisations(shape):
    x = draw(shape, "float64")
    u, values, v = np.linalg.svd(ours(x))
    same(u * values[..., None, :] @ v, x, 1e-10)
    same(values, onp.linalg.svd(x, compute_uv=False), 1e-10)
    orthonormal(u), orthonormal(v.swapaxes(-1, -2))
    for mode in ("reduced", "complete"):
        q, r = np.linalg.qr(ours(x), mode=mode)
        want_q, want_r = onp.linalg.qr(x, mode=mode)
        same(q @ r, x, 1e-10), orthonormal(q), same(np.triu(r), r.asnumpy(), 1e-14)
        assert q.shape == want_q.shape and r.shape == want_r.shape
    same(abs(np.linalg.qr(ours(x), mode="r")), abs(onp.linalg.qr(x, mode="r")), 1e-9)
    same(np.linalg.pinv(ours(x)), onp.linalg.pinv(x), 1e-8)
    same(np.linalg.matrix_rank(ours(x)), onp.linalg.matrix_rank(x))


@pytest.mark.parametrize("size", [1, 2, 3, 6, 20])
def test_eigenvalues_of_general_matrices(size):
    basis = draw((3, size, size), "float64") / size + onp.eye(size)
    spectrum = onp.sort(draw((3, size), "float64"))
    x = basis @ (spectrum[..., None] * onp.linalg.inv(basis))
    values, vectors = np.linalg.eig(ours(x))
    same(values, spectrum, 1e-7), same(np.linalg.eigvals(ours(x)), spectrum, 1e-7)
    same(ours(x) @ vectors, (vectors * values[:, None, :]).asnumpy(), 1e-6)
    same((vectors**2).sum(axis=1), onp.ones((3, size)), 1e-10)


def test_matrices_without_what_is_wanted():
    with pytest.raises(ValueError, match="real"):
        np.linalg.eigvals(np.array([[0, 1.], [-1, 0]])).asnumpy()
    with pytest.raises(ValueError, match="singular"):
        np.linalg.solve(np.ones((2, 2)), np.ones(2)).asnumpy()
    u, values, v = np.linalg.svd(np.ones((3, 4), dtype="float64"))  # a rank of 1
    same(values, onp.array([12**0.5, 0, 0]), 1e-12), orthonormal(u), orthonormal(v.T)
    assert np.linalg.matrix_rank(np.ones((3, 4))).item() == 1


def test_equations_and_products():
    a, b = draw((2, 3, 4, 4), "float64") + 5 * onp.eye(4), draw((3, 4, 2), "float64")
    same(np.linalg.solve(ours(a), ours(b)), onp.linalg.solve(a, b), 1e-9)
    same(np.linalg.solve(ours(a), ours(b[0, :, 0])), onp.linalg.solve(a, b[0, :, 0]), 1e-9)
    for n in (-2, -1, 0, 1, 2, 5):
        same(np.linalg.matrix_power(ours(a), n), onp.linalg.matrix_power(a, n), 1e-9)
    same(np.linalg.matrix_power(np.array([[1, 2], [3, 4]], dtype="int64"), 3), onp.linalg.matrix_power(onp.array([[1, 2], [3, 4]]), 3))
    for p in (None, 1, -1, 2, -2, onp.inf, -onp.inf, "fro"):
        same(np.linalg.cond(ours(a), p=p), onp.linalg.cond(a, p=p), 1e-8)
    t = draw((4, 6, 8, 3), "float64")
    same(np.linalg.tensorinv(ours(t)), onp.linalg.tensorinv(t), 1e-8)
    same(np.linalg.tensorsolve(ours(t), np.ones((4, 6), dtype="float64")), onp.linalg.tensorsolve(t, onp.ones((4, 6))), 1e-8)
    chain = [draw(s, "float64") for s in ((5,), (5, 30), (30, 2), (2, 7), (7,))]
    for some in (chain, chain[1:], chain[:-1], chain[1:-1], chain[:2]):
        same(np.linalg.multi_dot([ours(x) for x in some]), onp.linalg.multi_dot(some), 1e-10)
