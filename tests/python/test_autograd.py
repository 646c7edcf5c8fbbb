"""Recording, backward, gradients of any order, custom functions."""
import gc
import weakref

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.error import AutogradError


def variable(values, req="write"):
    x = nd.array(values)
    x.attach_grad(req)
    return x


def test_modes():
    state = lambda: (autograd.is_recording(), autograd.is_training())  # noqa: E731
    assert state() == (False, False)
    with autograd.record():
        assert state() == (True, True)
        with autograd.pause():
            assert state() == (False, False)
            with autograd.train_mode():
                assert state() == (False, True)
        with autograd.pause(train_mode=True):
            assert state() == (False, True)
        with autograd.predict_mode():
            assert state() == (True, False)
        assert state() == (True, True)
    with autograd.record(train_mode=False):
        assert state() == (True, False)
    with autograd.record(False):
        assert state() == (True, False)
    assert autograd.set_recording(True) is False and autograd.set_recording(False) is True
    assert autograd.set_training(True) is False and autograd.set_training(False) is True
    with pytest.raises(ZeroDivisionError):
        with autograd.record():
            1 / 0
    assert state() == (False, False)
    for wrong in (lambda: autograd.record(1, 2), lambda: autograd.record(mode=1), lambda: autograd.train_mode(1)):
        with pytest.raises(TypeError):
            wrong()


def test_backward_and_reqs():
    x = variable([1, 2, 3])
    with autograd.record():
        y = (x * x).sum()
    y.backward()
    assert x.grad.asnumpy().tolist() == [2, 4, 6]
    a = variable([1.0], "add")
    for _ in range(3):
        with autograd.record():
            z = a * 2
        z.backward()
    assert a.grad.asnumpy().tolist() == [6]
    n = nd.ones(2)
    n.attach_grad("null")
    assert n.grad.asnumpy().tolist() == [0, 0]
    with pytest.raises(KeyError):
        n.attach_grad("foo")
    with pytest.raises(ValueError):
        n.attach_grad(stype="coo")


def test_head_gradients_and_lists():
    x = variable([1, 2])
    with autograd.record():
        y, z = x * 2, x * x
    autograd.backward([y, z], [nd.array([1, 10]), None])
    assert x.grad.asnumpy().tolist() == [4, 24]
    with autograd.record():
        y = x * 3
    y.backward(nd.array([2, 0.5]))
    assert x.grad.asnumpy().tolist() == [6, 1.5]
    with autograd.record():
        y = x * 3
    with pytest.raises(ValueError):
        y.backward(nd.ones((3,)))
    with pytest.raises(ValueError):
        autograd.backward([y], [nd.ones(2), nd.ones(2)])
    for wrong in (3, [3], None, "x"):
        with pytest.raises(TypeError):
            autograd.backward(wrong)


def test_retain():
    x = variable([3.0])
    with autograd.record():
        y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.asscalar() == 6
    with pytest.raises(AutogradError):
        y.backward()


def test_unrecorded():
    x = variable([1.0])
    for head in (x * 2, nd.ones(2)):
        with pytest.raises(mx.MXNetError):
            head.backward()
    with autograd.record():
        y = x.detach() * 2
    with pytest.raises(mx.MXNetError):
        y.backward()


def test_grad_of():
    x, w = variable([2.0]), variable([5.0])
    with autograd.record():
        y = x * x * w
    gx, gw = autograd.grad(y, [x, w])
    assert (gx.asscalar(), gw.asscalar()) == (20, 4) and x.grad.asscalar() == 0
    with autograd.record():
        y = x * x
    assert isinstance(autograd.grad(y, x), list)
    with pytest.raises(AssertionError):
        autograd.grad(y, [])
    with autograd.record():
        y = x * x
    with pytest.raises(mx.MXNetError):
        autograd.grad(y, [nd.ones(1)])


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_higher_orders(order):
    """Derivatives of x^5 and of sin(x) * exp(x)."""
    x = variable([1.5])
    with autograd.record():
        y, z = x ** 5, nd.sin(x) * nd.exp(x)
        for _ in range(order):
            y = autograd.grad(y, [x], create_graph=True)[0]
            z = autograd.grad(z, [x], create_graph=True)[0]
    coefficient = np.prod([5 - i for i in range(order)])
    assert y.asscalar() == pytest.approx(coefficient * 1.5 ** (5 - order), rel=1e-4)
    # the n-th derivative of exp(x) sin(x) is 2^(n/2) exp(x) sin(x + n pi/4)
    assert z.asscalar() == pytest.approx(2 ** (order / 2) * np.exp(1.5) * np.sin(1.5 + order * np.pi / 4), rel=1e-3,
                                         abs=1e-4)


def test_mark_variables():
    x, g = nd.ones(2), nd.zeros(2)
    autograd.mark_variables([x], [g])
    with autograd.record():
        y = x * 3
    y.backward()
    assert g.asnumpy().tolist() == [3, 3]
    autograd.mark_variables(x, g, "add")
    with autograd.record():
        y = x * 3
    y.backward()
    assert g.asnumpy().tolist() == [6, 6]
    for wrong in (([x], []), ([x], [3]), (3, 4), ([x], [nd.zeros(3)])):
        with pytest.raises((TypeError, ValueError)):
            autograd.mark_variables(*wrong)


def test_attach_in_the_middle_cuts():
    x = variable([2.0])
    with autograd.record():
        y = x * 3
    y.attach_grad()
    with autograd.record():
        z = y * y
    z.backward()
    assert y.grad.asscalar() == 12 and x.grad.asscalar() == 0


def test_casts_and_copies_are_recorded():
    x = variable([1.0, 2.0])
    with autograd.record():
        y = x.astype("float64").copy().reshape((2, 1)).T.as_in_context(x.context)
        z = (y * y).sum()
    z.backward()
    assert x.grad.dtype is np.float32 and x.grad.asnumpy().tolist() == [2, 4]


def test_copies_between_contexts_are_recorded():
    x = variable([1.0, 2.0])
    other = mx.cpu(1)
    target = lambda **kw: nd.zeros((2,), **kw)  # noqa: E731
    for copy in (lambda: x.as_in_context(other), lambda: x.copyto(other), lambda: x.copyto(target(ctx=other)),
                 lambda: x.copyto(target()), lambda: x.copyto(target(dtype="float64")), lambda: x.copyto(x.context)):
        with autograd.record():
            y = copy() * 3
        y.backward()
        assert x.grad.asnumpy().tolist() == [3, 3] and x.grad.context == x.context
        x.grad[:] = 0


def test_deep_tape():
    x = variable([1.0])
    with autograd.record():
        y = x
        for _ in range(20000):
            y = y + 1
    y.backward()
    assert x.grad.asscalar() == 1


# ---- custom functions ----------------------------------------------------------------------------------------------

class Sigmoid(autograd.Function):
    def forward(self, x):
        y = 1 / (1 + nd.exp(-x))
        self.save_for_backward(y)
        return y

    def backward(self, dy):
        y, = self.saved_tensors
        return dy * y * (1 - y)


class Pair(autograd.Function):
    def forward(self, a, b):
        self.save_for_backward(a, b)
        return a * b, a + b

    def backward(self, d_product, d_sum):
        a, b = self.saved_tensors
        return d_product * b + d_sum, d_product * a + d_sum


def test_function():
    x = variable([0.0, 1.0])
    with autograd.record():
        y = Sigmoid()(x) * 2
    y.backward()
    s = 1 / (1 + np.exp(-np.array([0.0, 1.0])))
    assert np.allclose(x.grad.asnumpy(), 2 * s * (1 - s))
    a, b = variable([2.0]), variable([3.0])
    with autograd.record():
        product, total = Pair()(a, b)
        z = product * 10 + total
    z.backward()
    assert (a.grad.asscalar(), b.grad.asscalar()) == (31, 21)
    assert isinstance(Pair()(a, b), tuple)


def test_function_errors():
    x = variable([1.0])
    f = Sigmoid()
    f(x)
    with pytest.raises(AssertionError):
        f(x)

    class Wrong(autograd.Function):
        def __init__(self, result):
            super().__init__()
            self.result = result

        def forward(self, a):
            return a * 2

        def backward(self, d):
            if isinstance(self.result, Exception):
                raise self.result
            return self.result

    for result, kind in ((KeyError("boo"), KeyError), ((x, x), AssertionError), (3, TypeError), ("a", TypeError),
                         ([object()], TypeError)):
        with autograd.record():
            y = Wrong(result)(x)
        with pytest.raises(kind):
            y.backward()
        assert (x * 1).asscalar() == 1  # the library still works
    with pytest.raises(NotImplementedError):
        autograd.Function()(x)
    with pytest.raises(TypeError):
        with autograd.record():
            Wrong(None)(3)


def test_function_is_released():
    """What a function saved must not keep the tape alive."""
    x = variable([1.0])
    for backward in (False, True):
        f = Sigmoid()
        alive = weakref.ref(f)
        with autograd.record():
            y = f(x)
        if backward:
            y.backward()
        del f, y
        gc.collect()
        assert alive() is None


def test_get_symbol_of_an_unrecorded_array():
    with pytest.raises(mx.MXNetError):
        autograd.get_symbol(nd.ones(1))


def test_state_carried_from_batch_to_batch():
    """After backward() what the graph computed is a constant: truncated backpropagation needs no detach."""
    cell = gluon.rnn.LSTMCell(3, input_size=2)
    cell.initialize()
    for hybrid in (False, True):
        if hybrid:
            cell.hybridize()
        states = cell.begin_state(1)
        detached = cell.begin_state(1)
        x = nd.array([[1.0, 2.0]])
        for _ in range(3):
            with autograd.record():
                out, states = cell(x, states)
                loss = out.sum()
            loss.backward()
            got = cell.h2h_weight.grad().asnumpy()
            with autograd.record():
                out, detached = cell(x, [s.detach() for s in detached])
                loss = out.sum()
            loss.backward()
            np.testing.assert_array_equal(got, cell.h2h_weight.grad().asnumpy())
    w = nd.ones(2)
    w.attach_grad()
    with autograd.record():
        h = w * 2
        a, b = h * h, h * 3
    a.backward()
    with pytest.raises(mx.MXNetError, match="retain_graph"):
        b.backward()
    h += 1  # not a part of any graph any more
    with autograd.record():
        c = h * w
    c.backward()
    assert w.grad.asnumpy().tolist() == [3, 3]


def test_fresh_grad():
    x, other = nd.ones(2), nd.ones(2)
    x.attach_grad()
    autograd.mark_variables([other], [nd.zeros(2)])
    assert (x._fresh_grad, other._fresh_grad) == (0, 0)
    with autograd.record():
        y = x * 2
    y.backward()
    assert x._fresh_grad == 1 and type(x._fresh_grad) is int and other._fresh_grad == 0
    x._fresh_grad = False
    assert x._fresh_grad == 0
    x.grad[:] = 3
    assert x._fresh_grad == 0
    with pytest.raises(mx.MXNetError):
        nd.ones(2)._fresh_grad = True


def test_fresh_grad_and_trainer():
    net = gluon.nn.Dense(1, in_units=2)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    with autograd.record():
        loss = net(nd.ones((1, 2)))
    loss.backward()
    assert all(p.data()._fresh_grad == 1 for p in net.collect_params().values())
    trainer.step(1)
    assert all(p.data()._fresh_grad == 0 for p in net.collect_params().values())
    with autograd.record():
        loss = net(nd.ones((1, 2)))
    loss.backward()
    net.weight.data()._fresh_grad = False
    with pytest.raises(UserWarning):
        trainer.step(1)


@pytest.mark.parametrize("function", [nd.radians, nd.degrees, nd.Dropout, lambda x: x * 3])
def test_second_derivative_of_linear_functions(function):
    x = nd.ones(2)
    x.attach_grad()
    with autograd.record():
        first = autograd.grad(function(x), x, create_graph=True)[0]
    first.backward()
    assert x.grad.asnumpy().tolist() == [0, 0]


def test_null_gradient_is_never_written():
    x, w = nd.ones(2), nd.ones(2)
    x.attach_grad("null")
    w.attach_grad()
    with autograd.record():
        y = x * w
    y.backward()
    assert x.grad.asnumpy().tolist() == [0, 0] and w.grad.asnumpy().tolist() == [1, 1]
    with autograd.record():
        y = x * 2
    with pytest.raises(mx.MXNetError):
        y.backward()


def test_setters_take_keywords():
    assert autograd.set_training(train_mode=True) is False
    assert autograd.set_training(train_mode=False) is True
    assert autograd.set_recording(is_recording=True) is False
    assert autograd.set_recording(is_recording=False) is True


def test_get_symbol_through_hybridized_blocks():
    from mxnet.gluon import nn
    net = nn.HybridSequential()
    net.add(nn.Dense(3, activation="relu"), nn.Dense(2))
    net.initialize()
    net.hybridize()
    x = nd.random.uniform(shape=(2, 4))
    x.attach_grad()
    for static in (False, True):
        net.hybridize(static_alloc=static)
        with autograd.record():
            y = net(x * 2) + 1
        symbol = autograd.get_symbol(y)
        internals = symbol.get_internals().list_outputs()
        assert any("relu" in name for name in internals) and sum("dense" in name for name in internals) >= 2
        values = {p.shape: p.data() for p in net.collect_params().values()}
        shapes = dict(zip(symbol.list_arguments(), symbol.infer_shape()[0]))
        found, = symbol.eval(**{name: x if shape == x.shape else values[shape] for name, shape in shapes.items()})
        np.testing.assert_allclose(found.asnumpy(), y.asnumpy(), rtol=1e-5)


def test_function_in_a_hybridized_block_warns():
    """Its backward cannot be part of a plan: the program is told so."""
    class Straight(autograd.Function):
        def forward(self, x):
            return x.sign()

        def backward(self, dy):
            return dy

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return Straight()(x)

    net = Net()
    net.hybridize()
    with pytest.warns(UserWarning, match="Straight.*backward"):
        net(nd.ones((2,)))


def test_gradients_at_the_edges():
    """clip passes NaN on, and the remainder of integers has none."""
    x = nd.array([float("nan"), -1, 0, 2])
    x.attach_grad()
    with autograd.record():
        y = nd.clip(x, -0.5, 1)
    y.backward()
    assert x.grad.asnumpy().tolist() == [1, 0, 1, 0]
    a, b = nd.array([7, -7], dtype="int32"), nd.array([3, 2], dtype="int32")
    a.attach_grad()
    b.attach_grad()
    with autograd.record():
        y = a % b + a % 3 + 20 % b
    y.backward()
    assert a.grad.asnumpy().tolist() == b.grad.asnumpy().tolist() == [0, 0]


@pytest.mark.parametrize("training", [True, False])
def test_a_function_sees_the_mode(training):
    class Double(autograd.Function):
        def forward(self, x):
            assert autograd.is_training() is training and not autograd.is_recording()
            return x * 2

        def backward(self, dy):
            return dy * 2

    x = nd.ones(2)
    x.attach_grad()
    with autograd.record(train_mode=training):
        y = Double()(x)
    y.backward()
    assert x.grad.asnumpy().tolist() == [2, 2]
