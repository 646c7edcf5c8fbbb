"""Hybrid blocks: imperative = hybridized, in values and gradients; what tracing allows and what it rejects."""
import ctypes
import threading

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn
from hybrid_cases import ALL, Plain, Residual, TwoResults, inputs_of


def close(a, b, rtol=2e-5, atol=2e-6):
    np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=rtol, atol=atol)


def exact(a, b):
    np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


def step(net, inputs):
    """Output, gradients of the parameters and of the first input, running statistics after one recorded call."""
    first = inputs[0].copy()
    first.attach_grad()
    mx.random.seed(7)
    with autograd.record():
        out = net(first, *inputs[1:])
    out.backward()
    params = net.collect_params()
    grads = {name: p.grad().copy() for name, p in params.items() if p.grad_req != "null"}
    return out.copy(), first.grad.copy(), grads, {name: p.data().copy() for name, p in params.items()}


@pytest.mark.parametrize("name", list(ALL))
def test_imperative_equals_hybridized(name):
    inputs = inputs_of(name)
    results = []
    make = ALL[name][0]
    net = make()
    net.initialize(mx.init.Xavier() if name not in ("Embedding",) else None)
    net(*inputs)
    start = {key: p.data().copy() for key, p in net.collect_params().items()}
    for active in (False, True):
        for key, p in net.collect_params().items():
            p.set_data(start[key])
        net.hybridize(active)
        results.append((net(*inputs).copy(),) + step(net, inputs) + (net(*inputs).copy(),))
    (plain, out, grad, grads, values, after), (plain2, out2, grad2, grads2, values2, after2) = results
    close(plain, plain2), close(after, after2)  # predictions: weights may be folded or packed
    same = exact if mx.current_context().device_type == "cpu" else close
    same(out, out2), same(grad, grad2)
    assert set(grads) == set(grads2)
    for key in grads:
        same(grads[key], grads2[key])
    for key in values:
        same(values[key], values2[key])


@pytest.mark.parametrize("mode", ["clip", "wrap"])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("temperature", [None, 2])
def test_likelihoods_written_by_hand(mode, keepdims, axis, temperature):
    """The plan joins log_softmax and pick where one operator computes the same; labels outside of the classes tell modes apart."""
    class Likelihood(nn.HybridBlock):
        def hybrid_forward(self, F, x, label):
            chosen = F.pick(F.log_softmax(x, axis=-1, temperature=temperature), label, axis=axis, keepdims=keepdims, mode=mode)
            return F.negative(chosen)

    shape = (4, 5, 6)
    x = nd.random.normal(shape=shape)
    label = nd.random.randint(-3, 9, shape[:1] + ((6,) if axis == 1 else (5,))).astype("float32")
    net = Likelihood()
    plain = step(net, [x, label])
    net.hybridize()
    hybridized = step(net, [x, label])
    assert plain[0].shape == hybridized[0].shape
    same = exact if mx.current_context().device_type == "cpu" else close
    same(plain[0], hybridized[0]), same(plain[1], hybridized[1])


def test_every_library_layer_has_a_case():
    from mxnet.gluon import loss
    cases = {name.split()[0] for name in ALL}
    containers = {"Block", "HybridBlock", "SymbolBlock", "Sequential", "HybridSequential", "Lambda", "Concatenate"}
    missing = set(nn.__all__) - cases - containers
    missing |= set(loss.__all__) - cases - {"Loss", "SoftmaxCELoss", "SigmoidBCELoss", "SDMLLoss"}
    assert not missing - {"SyncBatchNorm"}


@pytest.mark.parametrize("name", ["LeNet", "Residual", "Plain", "Dense", "SoftmaxCrossEntropyLoss"])
def test_batch_sizes_may_change(name):
    net = ALL[name][0]()
    net.initialize()
    net(*inputs_of(name))
    for batch in (1, 3, 2, 5, 3, 1):
        inputs = inputs_of(name, batch)
        net.hybridize(False)
        wanted = net(*inputs)
        net.hybridize()
        close(net(*inputs), wanted)
        close(net(*inputs), wanted)


def test_dropout_is_the_same_under_one_seed():
    net = nn.HybridSequential()
    net.add(nn.Dropout(0.5), nn.Dense(16, in_units=40), nn.Dropout(0.3))
    net.initialize()
    x = nd.ones((8, 40))
    found = []
    for active in (False, True):
        net.hybridize(active)
        for _ in range(2):
            mx.random.seed(11)
            with autograd.train_mode():
                found.append([net(x).asnumpy() for _ in range(3)])
    for other in found[1:]:
        (np.testing.assert_array_equal if mx.current_context().device_type == "cpu" else np.testing.assert_allclose)(
            np.array(found[0]), np.array(other))
    assert not np.array_equal(found[0][0], found[0][1])


# ---- structure -----------------------------------------------------------------------------------------------------

def test_nested_inputs_and_results():
    net = TwoResults()
    net.initialize()
    x, states = nd.random.uniform(shape=(2, 3)), [nd.ones((2, 4)), nd.ones((2, 4)) * 3]
    plain = net(x, states)
    net.hybridize()
    for _ in range(3):
        a, (b, c) = net(x, states)
        close(a, plain[0]), close(b, plain[1][0]), close(c, plain[1][1])
    assert isinstance(net(x, states), list) and isinstance(net(x, states)[1], list)
    symbols = net(mx.sym.var("x"), [mx.sym.var("h"), mx.sym.var("c")])
    assert isinstance(symbols[0], mx.sym.Symbol) and isinstance(symbols[1][1], mx.sym.Symbol)


def test_results_may_differ_between_training_and_prediction():
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return (x, x * 2) if autograd.is_training() else x * 3

    net = Net()
    net.hybridize()
    x = nd.ones((2,))
    for _ in range(2):
        assert net(x).asnumpy()[0] == 3
        with autograd.train_mode():
            a, b = net(x)
        assert a.asnumpy()[0] == 1 and b.asnumpy()[0] == 2


def test_absent_inputs():
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x, mask=None):
            return x if mask is None else x * mask

    net = Net()
    x = nd.ones((2, 3))
    for inputs, wanted in (((x,), x), ((x, None), x), ((x, x * 2), x * 2), ((x,), x)):
        net.hybridize()  # a plan is for one pattern of inputs
        close(net(*inputs), wanted), close(net(*inputs), wanted)


def test_hybrid_inside_plain_and_plain_sequential():
    class Outer(gluon.Block):
        def __init__(self):
            super().__init__()
            self.inner = Residual()

        def forward(self, x):
            y = self.inner(x)
            return y * 2 if y.sum().asscalar() > 0 else -y  # values may decide here

    net = Outer()
    net.initialize()
    x = nd.random.uniform(shape=(2, 4, 5, 5))
    wanted = net(x)
    net.hybridize()
    assert net.inner._active
    close(net(x), wanted)


def test_unhybridize():
    net = nn.HybridSequential()
    net.add(nn.Dense(3), nn.Dense(2))
    net.initialize()
    net.hybridize()
    x = nd.ones((2, 4))
    wanted = net(x)
    net.hybridize(active=False)
    assert not net._active and not net[0]._active
    close(net(x), wanted)


def test_children_may_be_added_later():
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=4))
    net.initialize()
    net.hybridize()
    assert net(nd.ones((2, 4))).shape == (2, 3)
    net.add(nn.Dense(5, in_units=3))
    net.initialize()
    assert net(nd.ones((2, 4))).shape == (2, 5)


def test_subclasses_of_library_layers():
    class Scaled(nn.Dense):
        def hybrid_forward(self, F, x, weight, bias=None):
            return super().hybrid_forward(F, x, weight * 2, bias)

    class Shifted(nn.Dense):
        def forward(self, x):
            return super().forward(x) + 1

    net = nn.HybridSequential()
    net.add(Scaled(3), Shifted(2))
    net.initialize()
    x = nd.random.uniform(shape=(2, 4))
    net(x)
    h = nd.dot(x, net[0].weight.data().T) * 2
    wanted = nd.dot(h, net[1].weight.data().T) + 1
    close(net(x), wanted)
    net.hybridize()
    close(net(x), wanted)
    close(net(x), wanted)


# ---- parameters ----------------------------------------------------------------------------------------------------

def test_deferred_shapes():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(3, 3), nn.BatchNorm(), nn.Dense(4), Plain())
    net.initialize()
    net.hybridize()
    x = nd.ones((2, 2, 6, 6))
    first = net(x)
    assert net[0].weight.shape == (3, 2, 3, 3) and net[2].weight.shape == (4, 48)
    close(net(x), first)


def test_infer_shape():
    net = nn.HybridSequential()
    net.add(nn.Dense(3), nn.Dense(2))
    net.initialize()
    net.infer_shape(nd.ones((2, 7)))
    assert net[0].weight.shape == (3, 7)


def test_frozen_and_freed_parameters():
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=4), nn.Dense(2, in_units=3))
    net.initialize()
    net.hybridize()
    x = nd.ones((2, 4))

    def run():
        with autograd.record():
            loss = net(x).sum()
        loss.backward()
    run()
    net[0].weight.grad_req = "null"
    run()
    with pytest.raises(RuntimeError):
        net[0].weight.grad()
    net[0].weight.grad_req = "write"
    run()
    assert float(net[0].weight.grad().abs().sum().asscalar()) > 0


def test_forwards_that_look_at_shapes_of_parameters():
    """They cannot be traced before these are known: the first call is imperative."""
    class Curious(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.a, self.b = nn.Dense(3), nn.Dense(2)

        def hybrid_forward(self, F, x):
            y = self.a(x)
            if not self.a.weight.shape[1]:
                raise ValueError("not known yet")
            return self.b(y) / self.a.weight.shape[1]
    net = Curious()
    net.initialize()
    net.hybridize()
    first = net(nd.ones((2, 4)))
    assert first.shape == (2, 2)
    close(net(nd.ones((2, 4))), first)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    other = Curious()
    other.initialize()
    step = gluon.TrainStep(other, gluon.loss.L2Loss(), gluon.Trainer(other.collect_params(), "sgd"))
    for _ in range(3):
        assert step(nd.ones((2, 4)), nd.ones((2, 2))).shape == (2,)
    assert step.compiled and trainer


def test_cast_with_its_input_after_hybridize():
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=4))
    net.initialize()
    net.hybridize()
    x = nd.random.uniform(shape=(2, 4))
    wanted = net(x)
    net.cast("float64")
    out = net(x.astype("float64"))
    assert out.dtype == np.float64
    np.testing.assert_allclose(out.asnumpy(), wanted.asnumpy(), rtol=1e-5)


def test_parameters_may_be_set_between_calls():
    net = nn.Dense(1, in_units=2, use_bias=False)
    net.initialize()
    net.hybridize()
    x = nd.ones((1, 2))
    net(x)
    net.weight.set_data(nd.array([[2, 3]]))
    assert net(x).asscalar() == 5
    net.weight.data()[:] = 1
    assert net(x).asscalar() == 2


def test_training_reduces_the_loss_as_the_imperative_loop_does():
    def losses(active):
        mx.random.seed(3)
        np.random.seed(3)
        net = nn.HybridSequential()
        net.add(nn.Dense(8, activation="relu"), nn.BatchNorm(), nn.Dense(3))
        net.initialize(mx.init.Xavier())
        if active:
            net.hybridize()
        criterion = gluon.loss.SoftmaxCrossEntropyLoss()
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
        x = nd.array(np.random.rand(12, 6))
        label = nd.array(np.arange(12) % 3)
        found = []
        for _ in range(8):
            with autograd.record():
                loss = criterion(net(x), label)
            loss.backward()
            trainer.step(12)
            found.append(float(loss.mean().asscalar()))
        return found
    plain, compiled = losses(False), losses(True)
    np.testing.assert_allclose(plain, compiled, rtol=5e-4)  # a GPU may choose other algorithms
    assert plain[-1] < plain[0]


# ---- what tracing supports and rejects -----------------------------------------------------------------------------

def test_shapes_are_known_while_tracing():
    seen = []

    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            seen.append((x.shape, x.ndim, x.size, x.dtype, len(x)))
            rows = [row * (i + 1) for i, row in enumerate(x)]
            return F.stack(*rows) + x[0] + x[-1]

    net = Net()
    x = nd.arange(6).reshape((3, 2))
    wanted = net(x)
    net.hybridize()
    close(net(x), wanted)
    assert seen[0] == seen[-1] == ((3, 2), 2, 6, np.float32, 3)


def test_broadcasting_means_the_same_in_both_modes():
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x, y):
            return x * y + y - x / (y + 2) + (x > y) + F.maximum(x, y) + F.power(x, 2) + F.add(x, y)

    net = Net()
    x, y = nd.random.uniform(shape=(3, 1, 2)), nd.random.uniform(shape=(4, 1))
    wanted = net(x, y)
    net.hybridize()
    close(net(x, y), wanted)


def test_control_flow_on_values_names_line_and_remedy():
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            if x.sum() > 0:
                return x
            return -x

    net = Net()
    x = nd.ones((2,))
    close(net(x), x)
    net.hybridize()
    with pytest.raises(mx.MXNetError) as caught:
        net(x)
    text = str(caught.value)
    assert "test_hybrid.py" in text and "hybrid_forward" in text and "F.contrib.cond" in text
    net.hybridize(False)
    close(net(x), x)


@pytest.mark.parametrize("what", ["asnumpy", "asscalar", "float", "assign"])
def test_values_are_refused_while_tracing(what):
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            if what == "float":
                float(x)
            elif what == "assign":
                x[0] = 1
            else:
                getattr(x, what)()
            return x

    net = Net()
    net.hybridize()
    with pytest.raises(mx.base.NotImplementedForSymbol, match="test_hybrid.py"):
        net(nd.ones((1,)))


def test_errors_inside_forward_come_out():
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            raise KeyError("mine")

    net = Net()
    net.hybridize()
    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            net(nd.ones((1,)))
    dense = nn.Dense(3, in_units=4)
    dense.initialize()
    dense.hybridize()
    with pytest.raises(mx.MXNetError, match="dense"):
        dense(nd.ones((2, 5)))
    assert dense(nd.ones((2, 4))).shape == (2, 3)


def test_wrong_arguments():
    net = Residual()
    net.initialize()
    net.hybridize()
    with pytest.raises((TypeError, ValueError)):
        net("text")
    with pytest.raises((TypeError, ValueError)):
        net(nd.ones((2, 4, 5, 5)), 3)


def test_arrays_met_while_tracing_become_constants():
    offset = nd.array([10, 20])

    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x + offset

    net = Net()
    net.hybridize()
    assert net(nd.ones((2,))).asnumpy().tolist() == [11, 21]


def test_creation_and_random_inside():
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x + F.ones((2, 2)) + F.random.uniform(0, 1, shape=(2, 2)) + F.arange(0, 4).reshape((2, 2))

    net = Net()
    x = nd.zeros((2, 2))
    mx.random.seed(5)
    wanted = net(x)
    net.hybridize()
    net(x)
    mx.random.seed(5)
    close(net(x), wanted)


def test_control_flow_operators():
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            out, state = F.contrib.foreach(lambda row, s: (row + s, s + row), x, F.zeros((2,)))
            steps, (i, total) = F.contrib.while_loop(lambda i, s: i < 3, lambda i, s: (s + i, (i + 1, s * 2)),
                                                     (F.zeros((1,)), F.ones((1,))), max_iterations=5)
            both = F.contrib.cond(x.sum() > 5, lambda: x * 2, lambda: x - 1)
            return out, state, steps, i, total, both

    net = Net()
    for scale in (1, 0.1):
        x = nd.arange(6).reshape((3, 2)) * scale
        net.hybridize(False)
        wanted = net(x)
        net.hybridize()
        found = net(x)
        for a, b in zip(found[:2] + found[3:], wanted[:2] + wanted[3:]):
            close(a, b)
        np.testing.assert_allclose(found[2].asnumpy()[:3], wanted[2].asnumpy()[:3])
        assert found[2].shape == wanted[2].shape and (found[2].asnumpy()[3:] == 0).all()


# ---- hooks ---------------------------------------------------------------------------------------------------------

def test_hooks_keep_working():
    calls = []
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=4), nn.Dense(2, in_units=3))
    net.initialize()
    net.hybridize()
    x = nd.ones((2, 4))
    handles = [net.register_forward_pre_hook(lambda block, inputs: calls.append(("before", inputs[0].shape))),
               net.register_forward_hook(lambda block, inputs, out: calls.append(("after", out.shape))),
               net[0].register_forward_hook(lambda block, inputs, out: calls.append(("inner", out.shape)))]
    for _ in range(2):
        calls.clear()
        net(x)
        assert calls == [("before", (2, 4)), ("inner", (2, 3)), ("after", (2, 2))]
    handles[2].detach()
    calls.clear()
    net(x)
    assert calls == [("before", (2, 4)), ("after", (2, 2))]
    for handle in handles[:2]:
        handle.detach()
    calls.clear()
    net(x)
    assert not calls


def wrapped(handle):
    """The array of a handle, as published callbacks wrap it."""
    return nd.NDArray(ctypes.cast(handle, mx.base.NDArrayHandle), writable=False)


def test_operator_hooks():
    seen = []
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=4, activation="relu"))
    net.initialize()
    net.hybridize()
    net.register_op_hook(lambda name, op, array: seen.append((name, op, wrapped(array).shape)))
    x = nd.ones((2, 4))
    net(x)
    assert [(op, shape) for _, op, shape in seen] == [(b"FullyConnected", (2, 3)), (b"Activation", (2, 3))]
    assert seen[0][0].endswith(b"_fwd_output")
    seen.clear()
    net.register_op_hook(lambda name, op, array: seen.append(name), monitor_all=True)
    net(x)
    assert any(name.endswith(b"weight") for name in seen) and seen[-2].endswith(b"relu_fwd_input0")
    assert net._callback is not None and net._monitor_all is True


def test_optimize_for_and_flags():
    net = nn.Dense(3, in_units=4)
    net.initialize()
    assert net.optimize_for(nd.ones((2, 4)), backend="anything", clear=False) is None
    assert net._active
    out = net(nd.ones((2, 4)))
    assert out.shape == (2, 3)
    net.hybridize(static_alloc=True, static_shape=True, inline_limit=1, forward_bulk_size=2, backward_bulk_size=3)
    close(net(nd.ones((2, 4))), out)
    with pytest.raises(ValueError, match="static_alloc"):
        net.hybridize(static_shape=True)
    outer = nn.Sequential()
    outer.add(net)
    outer.hybridize(static_alloc=True, inline_limit=3)
    close(outer(nd.ones((2, 4))), out)


def test_op_hooks_show_inputs_by_the_operators_names():
    net = nn.HybridSequential(prefix="n_")
    with net.name_scope():
        net.add(nn.Dense(3, activation="relu"), nn.BatchNorm(), nn.Dropout(0.5))
    net.initialize()
    net.hybridize()
    seen = []
    net.register_op_hook(lambda name, op, array: seen.append((name.decode(), op.decode(), wrapped(array).shape)),
                         monitor_all=True)
    net(nd.ones((2, 4)))  # the first call, too, although shapes follow from it
    assert seen[:4] == [("n_dense0_fwd_data", "FullyConnected", (2, 4)), ("n_dense0_fwd_weight", "FullyConnected", (3, 4)),
                        ("n_dense0_fwd_bias", "FullyConnected", (3,)), ("n_dense0_fwd_output", "FullyConnected", (2, 3))]
    assert ("n_batchnorm0_fwd_moving_var", "BatchNorm", (3,)) in seen
    assert seen[-1] == ("n_dropout0_fwd_output", "Dropout", (2, 3))


# ---- threads, fused steps ------------------------------------------------------------------------------------------

def test_many_threads_on_one_block():
    net = Residual()
    net.initialize()
    xs = [nd.random.uniform(shape=(1 + i % 3, 4, 6, 6)) for i in range(6)]
    wanted = [net(x).asnumpy() for x in xs]
    net.hybridize()
    problems = []

    def work(i):
        try:
            for k in range(12):
                at = (i + k) % len(xs)
                np.testing.assert_allclose(net(xs[at]).asnumpy(), wanted[at], rtol=2e-5, atol=2e-6)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("kind", ["layers", "python"])
def test_train_step_equals_the_plain_loop(optimizer, kind):
    x, label = nd.random.uniform(shape=(6, 4, 6, 6)), nd.array([0, 1, 2, 0, 1, 2])

    def make():
        mx.random.seed(2)
        net = nn.HybridSequential()
        net.add(Residual() if kind == "python" else nn.Conv2D(4, 3), nn.Dense(3))
        net.initialize(mx.init.Xavier())
        net(x)
        trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.05, "wd": 0.01})
        return net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer

    net, criterion, trainer = make()
    plain = []
    for _ in range(4):
        with autograd.record():
            loss = criterion(net(x), label)
        loss.backward()
        trainer.step(6)
        plain.append(loss.asnumpy())
    net2, criterion, trainer = make()
    run = gluon.TrainStep(net2, criterion, trainer)
    whole = [run(x, label).asnumpy() for _ in range(4)]
    assert run.compiled
    on_cpu = mx.current_context().device_type == "cpu"
    np.testing.assert_allclose(whole, plain, rtol=0 if on_cpu else 1e-4, atol=0 if on_cpu else 1e-5)
    for a, b in zip(net.collect_params().values(), net2.collect_params().values()):
        exact(a.data(), b.data()) if on_cpu else close(a.data(), b.data(), rtol=1e-4, atol=1e-5)


def test_train_step_wants_blocks_and_a_trainer():
    net = nn.Dense(2, in_units=2)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    with pytest.raises(TypeError):
        gluon.TrainStep(net, lambda a, b: a, trainer)
    with pytest.raises(TypeError):
        gluon.TrainStep(net, gluon.loss.L2Loss(), "sgd")
    step = gluon.TrainStep(net, gluon.loss.L2Loss(), trainer)
    with pytest.raises(TypeError):
        step([1, 2], nd.ones((1, 2)))


# ---- gradients of gradients ----------------------------------------------------------------------------------------

class Critic(gluon.HybridBlock):
    """A small critic of a Wasserstein network; its forward is Python's."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.conv = nn.Conv2D(4, 3)
            self.norm = nn.LayerNorm()
            self.out = nn.Dense(1)
            self.drop = nn.Dropout(0.3)
            self.scale = self.params.get("scale", shape=(1,), init="ones")

    def hybrid_forward(self, F, x, scale):
        h = self.drop(F.tanh(self.norm(self.conv(x))))
        return F.broadcast_mul(self.out(h), scale)


def penalties(hybrid, steps=3):
    mx.random.seed(4)
    net = Critic(prefix="critic_")
    net.initialize(mx.init.Xavier())
    net(nd.zeros((2, 2, 6, 6)))
    if hybrid:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.005})
    found = []
    for step in range(steps):
        rng = np.random.RandomState(step)
        real, fake = nd.array(rng.randn(4, 2, 6, 6)), nd.array(rng.randn(4, 2, 6, 6))
        mix = 0.3 * real + 0.7 * fake
        mix.attach_grad()
        with autograd.record():
            slope = autograd.grad(net(mix), mix, create_graph=True, retain_graph=True)[0]
            length = nd.sqrt(nd.sum(slope ** 2, axis=(1, 2, 3)) + 1e-12)
            loss = net(fake).mean() - net(real).mean() + 10 * ((length - 1) ** 2).mean()
        loss.backward()
        trainer.step(1)
        found += [loss.asnumpy(), mix.grad.asnumpy()] + [p.data().asnumpy() for p in net.collect_params().values()]
    return found


def test_gradient_penalty():
    for a, b in zip(penalties(False), penalties(True)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * max(1, np.abs(a).max()))


# ---- what the first call makes ---------------------------------------------------------------------------------------

def test_first_call_names_and_numbers():
    """hybridize() before or after the first call, or never: the same parameters, names and results."""
    def run(when):
        mx.random.seed(8)
        with mx.name.NameManager():
            net = nn.HybridSequential(prefix="net_")
            with net.name_scope():
                net.add(nn.Conv2D(3, 3, activation="relu"), nn.BatchNorm(), nn.Flatten(), nn.Dense(4), nn.Dense(2))
        net.initialize(mx.init.Normal(0.2))
        if when == "before":
            net.hybridize()
        x = nd.array(np.random.RandomState(1).randn(2, 1, 6, 6))
        outs = [net(x).asnumpy()]
        if when == "after":
            net.hybridize()
        outs.append(net(x).asnumpy())
        return outs + [(p.name, p.data().asnumpy().tolist()) for p in net.collect_params().values()]
    never, before, after = run("never"), run("before"), run("after")
    for a, b, c in zip(never, before, after):
        if isinstance(a, tuple):
            assert a == b == c
        else:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(a, c, rtol=1e-5, atol=1e-6)


def test_cast_after_hybridize():
    net = nn.HybridSequential()
    net.add(nn.Embedding(5, 4), nn.Dense(3, flatten=False))
    net.initialize()
    net.hybridize()
    x = nd.array([1, 2, 3])
    first = net(x)
    for dtype in ("float64", "float16", "float32"):
        net.cast(dtype)
        for parameter in net.collect_params().values():
            assert parameter.data().dtype == np.dtype(dtype)
        again = net(x)
        assert again.dtype == np.dtype(dtype)
        np.testing.assert_allclose(again.asnumpy(), first.asnumpy(), rtol=1e-2, atol=1e-3)


def test_unused_random_numbers():
    class Wasteful(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            F.random.uniform(shape=(3, 3))
            F.Dropout(x, p=0.5)
            return F.Dropout(x, p=0.5) + F.random.normal(shape=(2, 5))

    def run(hybrid, recorded):
        net = Wasteful()
        if hybrid:
            net.hybridize()
        mx.random.seed(5)
        outs = []
        for _ in range(3):
            if recorded:
                with autograd.record():
                    outs.append(net(nd.ones((2, 5))).asnumpy())
            else:
                outs.append(net(nd.ones((2, 5))).asnumpy())
        return outs
    for recorded in (False, True):
        for a, b in zip(run(False, recorded), run(True, recorded)):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_threads_share_a_step_and_a_block_of_python():
    """Plans are compiled while other threads run; forward is in Python, so the GIL changes hands."""
    net = Residual()
    net.initialize()
    head = nn.HybridSequential()
    head.add(net, nn.Flatten(), nn.Dense(3))
    head.initialize()
    head.hybridize()
    trainer = gluon.Trainer(head.collect_params(), "adam", {"learning_rate": 0.001})
    step = gluon.TrainStep(head, gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
    problems, context = [], mx.current_context()

    def work(i):
        try:
            for k in range(8):
                batch = 1 + (i + k) % 3
                x, y = nd.ones((batch, 4, 6, 6), ctx=context), nd.zeros((batch,), ctx=context)
                assert np.isfinite(step(x, y).asnumpy()).all()
                assert head(x).shape == (batch, 3)
                if k == 4:
                    head.hybridize()
        except Exception as error:  # pylint: disable=broad-except
            problems.append(error)
    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not problems and not any(thread.is_alive() for thread in threads)


class ComputedStatistics(gluon.HybridBlock):
    """Batch normalisation whose beta is computed after the convolution has run."""

    def hybrid_forward(self, F, x, weight, bias, gamma, mean, var):
        y = F.Convolution(x, weight, bias, kernel=(3, 3), num_filter=4)
        beta = F.log_softmax(bias)
        return F.BatchNorm(y, gamma, beta, mean, var, fix_gamma=False)


def test_folding_waits_for_computed_statistics():
    inputs = [mx.nd.random.uniform(0.1, 1, shape) for shape in [(2, 3, 6, 5), (4, 3, 3, 3), (4,), (4,), (4,), (4,)]]
    net = ComputedStatistics()
    expected = net(*inputs).asnumpy()
    net.hybridize()
    for _ in range(2):
        np.testing.assert_allclose(net(*inputs).asnumpy(), expected, rtol=1e-4, atol=1e-5)


def test_a_symbol_block_waits_for_the_types_of_its_inputs():
    index, weight, x = (mx.sym.var(name) for name in ("index", "weight", "x"))
    rows = mx.sym.Embedding(index, weight, input_dim=5, output_dim=4)  # float32, unless the weight says otherwise
    total = mx.sym.broadcast_sub(weight + x, mx.sym.Cast(x, dtype="float64"))
    block = gluon.SymbolBlock(mx.sym.Group([rows, total]), [index, weight, x])
    doubles = mx.nd.ones((5, 4), dtype="float64")
    results = block(mx.nd.zeros((2, 3), dtype="float64"), doubles, doubles)
    assert [y.dtype for y in results] == [np.float64, np.float64]


def test_a_view_of_a_constant_that_is_returned_is_computed_at_every_call():
    """What depends on constants alone is computed once; not if the caller gets its memory, as a view."""
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            unit = F.L2Normalization(F.ones_like(x))
            return unit * 1.5, F.Reshape(F.Reshape(unit, shape=(0, -3)), shape=(-1,))

    net, x = Net(), nd.random.normal(shape=(3, 1, 5))
    wanted = [y.asnumpy() for y in net(x)]
    net.hybridize()
    for recording in (False, True, True, True, False, False):
        with autograd.record() if recording else autograd.pause():
            got = net(x)
        for y, z in zip(got, wanted):
            np.testing.assert_array_equal(y.asnumpy(), z)
            y[:] = -1  # the caller's own
