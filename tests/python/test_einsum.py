"""einsum: numbers and gradients of NumPy's, on arrays, on symbols of any size, hybridized."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd

CASES = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bqhd,bkhd->bhqk", (2, 3, 4, 5), (2, 6, 4, 5)), ("bhqk,bkhd->bqhd", (2, 4, 3, 6), (2, 6, 4, 5)),
    ("i,j->ij", (3,), (4,)), ("i,i->i", (3,), (3,)), ("i,i->", (3,), (3,)), ("i,i", (3,), (3,)), ("ij->ji", (2, 3)),
    ("ij->", (2, 3)), ("ij->j", (2, 3)), ("ii->i", (3, 3)), ("ii", (3, 3)), ("iji->ij", (3, 2, 3)), ("ba", (2, 3)),
    ("ijk,ijk->k", (2, 3, 4), (2, 3, 4)), ("ij,kl->ijkl", (2, 3), (4, 5)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ij,ij,ij->i", (2, 3), (2, 3), (2, 3)), ("...ij,...jk->...ik", (2, 5, 3, 4), (2, 5, 4, 6)),
    ("...ij,jk->...ik", (2, 5, 3, 4), (4, 6)), ("i...->...", (3, 2, 4)), ("...i,...i->...", (2, 3), (2, 3)),
    ("...ij,...jk", (2, 3, 4), (5, 1, 4, 6)), ("ij,ij->ij", (1, 3), (2, 3)), ("abc,cd,def->abef", (2, 3, 4), (4, 5), (5, 2, 3)),
    (" ij , jk -> ik ", (2, 3), (3, 4)), ("ij,k->", (2, 3), (4,)), ("aB,Bc->ac", (2, 3), (3, 4)),
]


def made(shapes):
    random = np.random.RandomState(3)
    return [random.uniform(-1, 1, shape).astype("float32") for shape in shapes]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_values(case):
    text, *shapes = case
    values = made(shapes)
    wanted = np.einsum(text.replace(" ", ""), *values)
    result = nd.einsum(text, *map(nd.array, values))
    assert result.shape == (wanted.shape or (1,))
    np.testing.assert_allclose(result.asnumpy().reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", CASES[:6] + CASES[12:20], ids=[case[0] for case in CASES[:6] + CASES[12:20]])
def test_gradient(case):
    """einsum is linear in each operand: the derivative along a direction is einsum with the direction in its place."""
    text, *shapes = case
    values, directions = made(shapes), made([shape for shape in shapes][::-1])[::-1]
    for i in range(len(values)):
        arrays = [nd.array(value) for value in values]
        arrays[i].attach_grad()
        with autograd.record():
            loss = (nd.einsum(text, *arrays)).sum()
        loss.backward()
        moved = values[:i] + [directions[i]] + values[i + 1:]
        wanted = np.einsum(text, *moved).sum()
        np.testing.assert_allclose((arrays[i].grad.asnumpy() * directions[i]).sum(), wanted, rtol=1e-3, atol=1e-4)


def test_symbols_of_any_size():
    a, b = mx.sym.var("a"), mx.sym.var("b")
    attention = mx.sym.einsum("bqhd,bkhd->bhqk", a, b)
    for q, k in ((3, 5), (4, 2)):
        values = made([(2, q, 3, 4), (2, k, 3, 4)])
        executor = attention.bind(mx.cpu(), {"a": nd.array(values[0]), "b": nd.array(values[1])})
        np.testing.assert_allclose(executor.forward()[0].asnumpy(), np.einsum("bqhd,bkhd->bhqk", *values), rtol=1e-4,
                                   atol=1e-5)


def test_hybridized():
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x, y):
            return F.einsum("bi,bj->bij", x, y)

    net = Net()
    values = made([(2, 3), (2, 4)])
    plain = net(*map(nd.array, values)).asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(*map(nd.array, values)).asnumpy(), plain, rtol=1e-6)
    np.testing.assert_allclose(plain, np.einsum("bi,bj->bij", *values), rtol=1e-6)


@pytest.mark.parametrize("text, shapes, message", [
    ("ij,jk->ik", [(2, 3)], "2 terms|more terms|operands"), ("ij->ij", [(2, 3), (3, 4)], "1 terms"),
    ("ij,jk->ik", [(2, 3), (4, 5)], "'j'.* 4 .* 3"), ("ijk->i", [(2, 3)], "2 axes"), ("ij->ik", [(2, 3)], "'k'.*no operand"),
    ("ij->ii", [(2, 3)], "occurs twice"), ("i1->i", [(2, 3)], "not a letter"), ("ij-ij", [(2, 3)], "is not like"),
    ("i->i", [(2, 3)], "2 axes"), ("i,i->", [(5,), (0,)], "'i'.* 0 elements .* 5 before"), ("i,i->", [(0,), (5,)], "'i'.* 5 .* 0"),
])
def test_errors(text, shapes, message):
    with mx.util.np_shape(True), pytest.raises(mx.MXNetError, match=message):
        nd.einsum(text, *map(nd.ones, shapes))


@pytest.mark.parametrize("text, shapes", [("i,i->", [(0,), (1,)]), ("i,i->i", [(1,), (0,)]), ("ij,jk->ik", [(2, 0), (0, 3)]),
                                          ("ij,jk->ik", [(2, 1), (0, 3)]), ("ij->j", [(0, 3)]), ("i,j->ij", [(0,), (3,)])])
def test_empty_axes(text, shapes):
    result = mx.np.einsum(text, *map(mx.np.ones, shapes)).asnumpy()
    wanted = np.einsum(text, *map(np.ones, shapes))
    assert result.shape == wanted.shape and (result == wanted).all()


def test_wrong_kinds():
    with pytest.raises(TypeError):
        nd.einsum("i->i", [1, 2])
    with pytest.raises(TypeError):
        nd.einsum(nd.ones((2,)), nd.ones((2,)))
    with pytest.raises(mx.MXNetError):
        nd.einsum("i->i")


def test_result_is_not_the_operand():
    x = nd.ones((2, 3))
    y = nd.einsum("ij->ij", x)
    y[:] = 0
    assert x.asnumpy().sum() == 6
