"""Rules of optimizers that programs rely on: schedules, rates, overridden parts, AdamW, sparse weights, label smoothing."""
import pickle
import warnings

import numpy as np
import pytest

import mxnet as mx
from mxnet import gluon, nd, optimizer


def run(o, steps, gradient=1.0, start=1.0):
    w, updater = nd.full((2,), start), optimizer.get_updater(o)
    for _ in range(steps):
        updater(0, nd.full((2,), gradient), w)
    return float(w[0].asscalar())


# ---- schedules


def test_ftrl_leaves_the_schedule_its_base_rate():
    schedule = mx.lr_scheduler.FactorScheduler(step=100, base_lr=0.3)
    with pytest.warns(UserWarning, match="not used.*0.3"):
        o = optimizer.Ftrl(learning_rate=0.1, lr_scheduler=schedule)
    assert schedule.base_lr == 0.3 and o.learning_rate == 0.3
    with pytest.warns(UserWarning, match="replaces"):
        o = optimizer.Adam(learning_rate=0.1, lr_scheduler=schedule)
    assert schedule.base_lr == 0.1


def test_lbsgd_takes_the_rate_before_it_counts():
    def poly():
        return mx.lr_scheduler.PolyScheduler(max_update=10, base_lr=0.3, warmup_steps=3, warmup_begin_lr=0.05)
    rates = [0.05, 0.05 + 0.25 / 3, 0.05 + 0.5 / 3]
    for steps in (1, 2, 3):
        assert run(optimizer.LBSGD(lr_scheduler=poly()), steps) == pytest.approx(1 - sum(rates[:steps]), abs=1e-6)

    class Python(optimizer.LBSGD):
        def update(self, index, weight, grad, state):
            super().update(index, weight, grad, state)
    assert run(Python(lr_scheduler=poly()), 3) == pytest.approx(1 - sum(rates), abs=1e-6)


# ---- rates


class Number:
    """Behaves as a number in products only."""

    def __init__(self, value):
        self.value = value

    def __mul__(self, other):
        return self.value * other

    __rmul__ = __mul__


@pytest.mark.parametrize("rate", [Number(0.25), nd.array([0.25]), np.float32(0.25), np.array(0.25)])
def test_a_rate_is_any_object_that_behaves_as_a_number(rate):
    o = optimizer.SGD()
    o.lr = rate
    assert o.lr is rate
    assert run(o, 1) == 0.75
    o.set_learning_rate(0.5)
    assert o.lr == 0.5 and type(o.lr) is float
    with pytest.raises((TypeError, ValueError)):
        o.lr = "fast"


def test_a_rate_that_changes_is_asked_at_every_update():
    rate, o = Number(0.25), optimizer.SGD()
    o.lr = rate
    assert run(o, 1) == 0.75
    rate.value = 0.5
    assert run(o, 1) == 0.5 and o.learning_rate == 0.5
    weight = gluon.Parameter("w", shape=(1,), init="ones")
    weight.initialize()
    trainer = gluon.Trainer([weight], o)
    for value in (0.5, 0.125):
        rate.value = value
        with mx.autograd.record():
            loss = weight.data().sum()
        loss.backward()
        trainer.step(1)
    assert weight.data().asscalar() == 0.375
    o.lr_scheduler = mx.lr_scheduler.FactorScheduler(1, base_lr=0.0625, factor=1)
    assert run(o, 1) == 1 - 0.0625
    o.lr_scheduler = None
    assert run(o, 1) == 1 - 0.125
    copy = pickle.loads(pickle.dumps(o))
    copy.lr = 0.25
    assert run(copy, 1) == 0.75


def test_a_trainer_fills_the_counts():
    net = gluon.nn.Dense(2, in_units=3)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    for _ in range(3):
        with mx.autograd.record():
            loss = net(nd.ones((1, 3))).sum()
        loss.backward()
        trainer.step(1)
    assert dict(trainer._optimizer._index_update_count) == {0: 3, 1: 3} and trainer._optimizer.num_update == 3
    trainer._optimizer._index_update_count[0] = 10
    loss = None
    with mx.autograd.record():
        loss = net(nd.ones((1, 3))).sum()
    loss.backward()
    trainer.step(1)
    assert dict(trainer._optimizer._index_update_count) == {0: 11, 1: 4} and trainer._optimizer.num_update == 11


def test_lars_scales_every_parameter_of_a_trainer():
    net = gluon.nn.Dense(1, in_units=2)
    net.initialize(mx.init.One())
    net.bias.set_data(nd.ones((1,)))
    trainer = gluon.Trainer(net.collect_params(), "lars", {"learning_rate": 1.0, "eta": 0.001})
    with mx.autograd.record():
        loss = net(nd.ones((1, 2))).sum()
    loss.backward()
    trainer.step(1)
    assert net.bias.data().asscalar() == pytest.approx(1 - 0.001, abs=1e-6)


# ---- overridden parts


def test_an_overridden_update_impl_runs():
    class Mine(optimizer.SGD):
        calls = []

        def _update_impl(self, indices, weights, grads, states, multi_precision=False):
            self.calls.append((indices, multi_precision))
            super()._update_impl(indices, weights, grads, states, multi_precision=multi_precision)

    o = Mine(learning_rate=0.5, momentum=0.5, multi_precision=True)
    assert run(o, 2) == 1 - 0.5 - 0.75 and Mine.calls == [(0, False)] * 2
    w = nd.ones((2,), dtype="float16")
    state = o.create_state_multi_precision(1, w)
    o.update_multi_precision(1, w, nd.ones((2,), dtype="float16"), state)
    assert Mine.calls[-1] == (1, True) and w.asnumpy().tolist() == [0.5, 0.5]
    weights, states = [nd.ones((2,)), nd.ones((3,))], [nd.zeros((2,)), nd.zeros((3,))]
    optimizer.SGD(learning_rate=1, momentum=0.5)._update_impl([0, 1], weights, [nd.ones((2,)), nd.ones((3,))], states)
    assert weights[0].asnumpy().tolist() == [0, 0] and states[1].asnumpy().tolist() == [-1, -1, -1]


# ---- AdamW


def by_hand(w, g, steps, lr, wd, beta1=0.9, beta2=0.999, eps=1e-6, correct=True):
    m = v = 0
    for t in range(1, steps + 1):
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        c = np.sqrt(1 - beta2 ** t) / (1 - beta1 ** t) if correct else 1
        w = w - lr * (c * m / (np.sqrt(v) + eps) + wd * w)
    return w


@pytest.mark.parametrize("options", [{}, {"correct_bias": False}, {"beta1": 0.5, "beta2": 0.8, "epsilon": 0.01}])
def test_adamw(options):
    g, w = np.array([0.5, -1, 2], "float32"), np.array([1, 2, -3], "float32")
    weight, updater = nd.array(w), optimizer.get_updater(mx.optimizer.create("adamw", learning_rate=0.1, wd=0.1, **options))
    for _ in range(4):
        updater(0, nd.array(g), weight)
    names = {"correct_bias": "correct", "epsilon": "eps"}
    expected = by_hand(w.astype("float64"), g, 4, 0.1, 0.1, **{names.get(k, k): v for k, v in options.items()})
    np.testing.assert_allclose(weight.asnumpy(), expected, rtol=2e-5)
    assert type(mx.optimizer.create("AdamW")) is mx.optimizer.AdamW


def test_adamw_without_decay_is_adam():
    assert run(optimizer.AdamW(epsilon=1e-8), 5) == run(optimizer.Adam(), 5)


def test_adamw_keeps_masters():
    w = nd.ones((4,), dtype="float16")
    updater = optimizer.get_updater(optimizer.AdamW(learning_rate=1e-4, multi_precision=True))
    for _ in range(20):
        updater(0, nd.ones((4,), dtype="float16"), w)
    assert w.dtype == np.float16 and float(w[0].asscalar()) == pytest.approx(1 - 20e-4, abs=1e-3)


# ---- sparse weights

W = np.array([[1, 2], [7, 8], [3, 4], [5, 6]], "float32")
G = np.array([[1, 1], [0, 0], [0, 0], [0.5, 0.25]], "float32")


def kinds(state):
    return [s.stype for s in (state if isinstance(state, tuple) else (state,)) if s is not None]


@pytest.mark.parametrize("name,options,states", [("sgd", {"momentum": 0.9}, 1), ("adam", {}, 2), ("ftrl", {}, 2),
                                                 ("adagrad", {}, 1)])
@pytest.mark.parametrize("stype", ["row_sparse", "csr"])
def test_states_have_the_storage_of_the_weight(name, options, states, stype):
    w = nd.array(W).tostype(stype)
    assert kinds(optimizer.create(name, **options).create_state(0, w)) == [stype] * states
    if name in ("sgd", "adam"):
        eager = optimizer.create(name, lazy_update=False, **options)
        assert kinds(eager.create_state(0, w)) == ["default"] * states


@pytest.mark.parametrize("weight", ["default", "row_sparse", "csr"])
@pytest.mark.parametrize("grad", ["default", "row_sparse", "csr"])
@pytest.mark.parametrize("name,options", [
    ("sgd", {}), ("sgd", {"momentum": 0.9}), ("sgd", {"momentum": 0.9, "lazy_update": False}), ("adam", {}),
    ("adam", {"lazy_update": False}), ("ftrl", {}), ("adagrad", {}), ("nag", {"momentum": 0.9}), ("rmsprop", {})])
def test_updates_of_sparse_weights(name, options, weight, grad):
    def trained(weight_kind, grad_kind):
        w = nd.array(W).tostype(weight_kind)
        updater = optimizer.get_updater(optimizer.create(name, learning_rate=0.1, wd=0.1, **options))
        for _ in range(3):
            updater(0, nd.array(G).tostype(grad_kind), w)
        assert w.stype == weight_kind
        return w.asnumpy()

    dense, found = trained("default", "default"), trained(weight, grad)
    lazy = (grad == "row_sparse" and weight != "csr" and options.get("lazy_update", True)
            and name in ("sgd", "adam", "adagrad", "ftrl") and (name != "ftrl" or weight == "row_sparse"))
    expected = dense.copy()
    if lazy:
        expected[1:3] = W[1:3]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_ftrl_of_sparse_parameters():
    for stype, touched in (("default", True), ("row_sparse", False)):
        p = gluon.Parameter("w", shape=(4, 2), stype=stype, grad_stype="row_sparse", init="ones")
        p.initialize()
        trainer = gluon.Trainer([p], "ftrl")
        with mx.autograd.record():
            rows = p.row_sparse_data(nd.array([0])) if stype == "row_sparse" else p.data()
            loss = nd.Embedding(nd.array([0]), rows, input_dim=4, output_dim=2, sparse_grad=True).sum()
        loss.backward()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer.step(1)
        value = p.row_sparse_data(nd.arange(4)) if stype == "row_sparse" else p.data()
        assert (value.asnumpy()[1] == 1).all() == (not touched)


# ---- label smoothing


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("sparse_label,axis", [(True, -1), (False, -1), (True, 1), (False, 1)])
def test_label_smoothing(hybrid, sparse_label, axis):
    rng, e = np.random.RandomState(0), 0.2
    x, label = rng.normal(size=(4, 5, 3)).astype("float32"), rng.randint(0, 3 if axis == -1 else 5, (4, 5 if axis == -1 else 3))
    classes = x.shape[axis]
    one_hot = np.moveaxis(np.eye(classes)[label], -1, axis)
    logs = x - np.log(np.exp(x).sum(axis=axis, keepdims=True))
    smooth = (1 - e) * one_hot + e / classes
    expected = -(smooth * logs).sum(axis=axis).mean(axis=1)
    loss = gluon.loss.SoftmaxCELoss(axis=axis, sparse_label=sparse_label, label_smoothing=e)
    if hybrid:
        loss.hybridize()
    data = nd.array(x)
    data.attach_grad()
    with mx.autograd.record():
        found = loss(data, nd.array(label if sparse_label else one_hot))
    found.backward()
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-5)
    share = (np.exp(logs) - smooth) / (x[0].size / classes)
    np.testing.assert_allclose(data.grad.asnumpy(), share, rtol=1e-4, atol=1e-6)


def test_no_label_smoothing_is_the_plain_loss():
    x, label = nd.random.normal(shape=(4, 3)), nd.array([0, 1, 2, 0])
    plain = gluon.loss.SoftmaxCrossEntropyLoss()(x, label).asnumpy()
    assert (gluon.loss.SoftmaxCrossEntropyLoss(label_smoothing=0)(x, label).asnumpy() == plain).all()
    weights = nd.array([[1], [0], [2], [1]])
    smooth = gluon.loss.SoftmaxCELoss(weight=2, label_smoothing=0.1)
    np.testing.assert_allclose(smooth(x, label, weights).asnumpy(),
                               2 * weights.asnumpy()[:, 0] * gluon.loss.SoftmaxCELoss(label_smoothing=0.1)(x, label).asnumpy(),
                               rtol=1e-6)
    with pytest.raises(mx.MXNetError, match="label_smoothing"):
        gluon.loss.SoftmaxCELoss(label_smoothing=1.5)
