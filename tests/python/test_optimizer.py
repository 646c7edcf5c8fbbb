"""Optimizers by hand: formulas against NumPy, states, rates by weight, users' own, the updater."""
import pickle

import numpy as np
import pytest

import mxnet as mx
from mxnet import nd, optimizer

LR, WD, SCALE, CLIP = 0.1, 0.01, 0.5, 0.4
COMMON = dict(learning_rate=LR, wd=WD, rescale_grad=SCALE, clip_gradient=CLIP)


def cut(g):
    return np.clip(SCALE * g, -CLIP, CLIP)


def sgd(w, g, s, t):
    return w - LR * (cut(g) + WD * w)


def momentum(w, g, s, t):
    s[0] = 0.9 * s[0] - LR * (cut(g) + WD * w)
    return w + s[0]


def adam(w, g, s, t):
    g = np.clip(SCALE * g + WD * w, -CLIP, CLIP)
    s[0] = 0.9 * s[0] + 0.1 * g
    s[1] = 0.999 * s[1] + 0.001 * g * g
    return w - LR * np.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t) * s[0] / (np.sqrt(s[1]) + 1e-8)


def adagrad(w, g, s, t):
    s[0] = s[0] + cut(g) ** 2
    return w - LR * (cut(g) / np.sqrt(s[0] + 1e-7) + WD * w)


def rmsprop(w, g, s, t):
    g = np.clip(SCALE * g + WD * w, -CLIP, CLIP)
    s[0] = 0.9 * s[0] + 0.1 * g * g
    return w - LR * g / np.sqrt(s[0] + 1e-8)


def signum(w, g, s, t):
    s[0] = 0.9 * s[0] - 0.1 * (WD * w + cut(g))
    return w + LR * np.sign(s[0])


def adamax(w, g, s, t):
    g = np.clip(SCALE * g + WD * w, -CLIP, CLIP)
    s[0] = 0.9 * s[0] + 0.1 * g
    s[1] = np.maximum(0.999 * s[1], np.abs(g))
    return w - LR / (1 - 0.9 ** t) * s[0] / s[1]


@pytest.mark.parametrize("name, options, step, layout", [
    ("sgd", {}, sgd, 0), ("ccsgd", {}, sgd, 0), ("sgd", {"momentum": 0.9}, momentum, 1), ("adam", {}, adam, 2),
    ("adagrad", {}, adagrad, 1), ("rmsprop", {}, rmsprop, (1,)), ("signum", {}, signum, 1), ("adamax", {}, adamax, 2)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_formulas(name, options, step, layout, dtype):
    made = optimizer.create(name, **COMMON, **options)
    w = np.random.randn(3, 4).astype(dtype)
    weight = nd.array(w, dtype=dtype)
    state = made.create_state(7, weight)
    expected = {0: type(None), 1: nd.NDArray}.get(layout, tuple)
    assert isinstance(state, expected)
    s = [np.zeros_like(w), np.zeros_like(w)]
    for t in range(1, 5):
        g = np.random.randn(3, 4).astype(dtype)
        w = step(w, g, s, t)
        made.update(7, weight, nd.array(g, dtype=dtype), state)
        np.testing.assert_allclose(weight.asnumpy(), w, rtol=2e-5, atol=1e-6)
    assert made.num_update == 4 == made._index_update_count[7]


@pytest.mark.parametrize("name", sorted(optimizer.Optimizer.opt_registry))
def test_every_optimizer_goes_downhill(name):
    if name in ("test", "groupadagrad", "sgld", "adadelta", "lars"):
        options = {"lars": {"learning_rate": 100, "momentum": 0.0}}.get(name, {})
    else:
        options = {"learning_rate": 0.05}
    if name == "test":
        pytest.skip("it adds the gradient")
    made = optimizer.create(name, **options)
    weight = nd.array([[2.0, -3.0], [1.5, 4.0]])
    updater = optimizer.get_updater(made)
    before = weight.norm().asscalar()
    for _ in range(30):
        updater(0, 2 * weight, weight)
    assert weight.norm().asscalar() < before
    assert isinstance(pickle.loads(pickle.dumps(made)), type(made))


def test_multi_precision():
    made = optimizer.SGD(learning_rate=1e-4, momentum=0.9, multi_precision=True)
    weight, grad = nd.ones(4, dtype="float16"), nd.ones(4, dtype="float16")
    state = made.create_state_multi_precision(0, weight)
    assert state[0].dtype == state[1].dtype == np.float32  # momentum, master
    for _ in range(3):
        made.update_multi_precision(0, weight, grad, state)
    wanted = 1 - 1e-4 * (1 + 1.9 + 2.71)
    np.testing.assert_allclose(state[1].asnumpy(), wanted, rtol=1e-6)
    np.testing.assert_allclose(weight.asnumpy(), np.float16(wanted))
    master, inner = optimizer.Adam(multi_precision=True).create_state_multi_precision(0, weight)
    assert master.dtype == np.float32 and len(inner) == 2


def test_numbers_are_attributes():
    made = optimizer.Adam(beta1=0.8, wd=0.1)
    assert (made.lr, made.learning_rate, made.beta1, made.beta2, made.wd) == (0.001, 0.001, 0.8, 0.999, 0.1)
    assert made.clip_gradient is None and made.rescale_grad == 1 and made.lr_scheduler is None
    made.beta1, made.rescale_grad, made.clip_gradient, made.wd = 0.5, 0.25, 2.0, 0.0
    made.set_learning_rate(0.5)
    assert (made.beta1, made.rescale_grad, made.clip_gradient, made.lr) == (0.5, 0.25, 2.0, 0.5)
    with pytest.raises(AttributeError):
        made.momentum
    twin = pickle.loads(pickle.dumps(made))
    assert (twin.beta1, twin.rescale_grad, twin.clip_gradient, twin.lr) == (0.5, 0.25, 2.0, 0.5)


def test_multipliers():
    made = optimizer.SGD(learning_rate=1, wd=0.1, param_idx2name={0: "a_weight", 1: "a_bias", 2: "a_gamma"})
    assert made.wd_mult == {"a_bias": 0.0}
    made.set_lr_mult({"a_weight": 0.5})
    made.set_wd_mult({"a_weight": 3, 2: 4})
    assert made._get_lrs([0, 1]) == [0.5, 1]
    np.testing.assert_allclose(made._get_wds([0, 1, 2]), [0.3, 0, 0.4])
    weight = nd.ones(1)
    made.update(0, weight, nd.ones(1), None)
    np.testing.assert_allclose(weight.asnumpy(), 1 - 0.5 * 1.3, rtol=1e-6)


def test_lists_of_weights():
    made = optimizer.SGD(learning_rate=1)
    weights = [nd.ones(2), nd.ones(3)]
    made.update([0, 1], weights, [nd.ones(2), nd.ones(3)], [None, None])
    assert all((w.asnumpy() == 0).all() for w in weights)


@optimizer.register
class Sloppy(optimizer.Optimizer):
    """Stores a dict per weight."""

    def __init__(self, keep=0.5, **kwargs):
        super().__init__(**kwargs)
        self.keep = keep

    def create_state(self, index, weight):
        return {"step": nd.zeros(weight.shape), "count": 0}

    def update(self, index, weight, grad, state):
        self._update_count(index)
        state["count"] += 1
        state["step"][:] = self.keep * state["step"] + self._get_lr(index) * self.rescale_grad * grad
        weight[:] = weight - state["step"]


def test_own_optimizer():
    made = optimizer.create("sloppy", keep=0.25, learning_rate=2, begin_num_update=10)
    updater = optimizer.get_updater(made)
    weight = nd.zeros(2)
    updater(3, nd.ones(2), weight)
    updater(3, nd.ones(2), weight)
    np.testing.assert_allclose(weight.asnumpy(), -(2 + 2.5))
    assert made.num_update == 12 and updater.states[3]["count"] == 2
    with pytest.raises(NotImplementedError):
        optimizer.Optimizer().update(0, weight, weight, None)


def test_updater_states():
    updater = optimizer.get_updater(optimizer.SGD(momentum=0.9))
    weight = nd.ones((2, 2))
    updater(0, weight, weight.copy())
    other = optimizer.get_updater(optimizer.SGD(momentum=0.9))
    other.set_states(updater.get_states())
    np.testing.assert_array_equal(other.states[0].asnumpy(), updater.states[0].asnumpy())
    other.set_states(updater.get_states(dump_optimizer=True))
    assert other.optimizer.momentum == 0.9 and other.optimizer.num_update == 1


@pytest.mark.parametrize("call, kind, part", [
    (lambda: optimizer.create("sdg"), ValueError, "did you mean 'sgd'"),
    (lambda: optimizer.SGD(momentun=1), TypeError, "did you mean 'momentum'"),
    (lambda: optimizer.SGD(learning_rate="a"), TypeError, "number"),
    (lambda: optimizer.SGD(lr_scheduler=3), TypeError, "lr_scheduler"),
    (lambda: optimizer.register(3), AssertionError, "class"),
    (lambda: optimizer.Optimizer(param_idx2name=3), AssertionError, "dict"),
    (lambda: optimizer.SGD().update(0, nd.ones(2), nd.ones(3), None), mx.MXNetError, r"\(3,\)"),
    (lambda: optimizer.SGD().update(0, nd.ones(2), nd.ones(2, dtype="float16"), None), mx.MXNetError, "float16"),
    (lambda: optimizer.SGD().create_state(0, 3), TypeError, "NDArray"),
    (lambda: optimizer.GroupAdaGrad(wd=1), AssertionError, "decay")])
def test_errors(call, kind, part):
    with pytest.raises(kind, match=part):
        call()


# ---- overrides of a subclass are called everywhere


def through_updater(made):
    weight = nd.ones(2)
    optimizer.get_updater(made)(0, nd.ones(2), weight)
    return weight


def through_store(made):
    store = mx.kv.create("local")
    store.init(0, nd.ones(2))
    store.set_optimizer(made)
    store.push(0, nd.ones(2))
    weight = nd.zeros(2)
    store.pull(0, out=weight)
    return weight


def through_trainer(made):
    p = mx.gluon.Parameter("w", shape=(2,), init="ones")
    p.initialize()
    with mx.autograd.record():
        loss = p.data().sum()
    loss.backward()
    mx.gluon.Trainer([p], made).step(1)
    return p.data()


def through_module(made):
    symbol = mx.sym.MakeLoss(mx.sym.sum(mx.sym.Variable("data") * mx.sym.Variable("w_weight")))
    module = mx.mod.Module(symbol, ["data"], None)
    module.bind([("data", (2,))])
    module.init_params(mx.init.One())
    made.rescale_grad = 1.0
    module.init_optimizer(optimizer=made)
    module.forward_backward(mx.io.DataBatch([nd.ones(2)]))
    module.update()
    return module.get_params()[0]["w_weight"]


def overriding(name, method):
    return type("Derived", (optimizer.SGD,), {name: method})(learning_rate=0.5)


OVERRIDES = [
    ("update", lambda self, index, weight, grad, state: weight.__iadd__(5), 6),
    ("update_multi_precision", lambda self, index, weight, grad, state: weight.__iadd__(6), 7),
    ("create_state", lambda self, index, weight: nd.full(weight.shape, 3), 1 - 0.5),
    ("create_state_multi_precision", lambda self, index, weight: nd.full(weight.shape, 3), 1 - 0.5),
    ("_get_lr", lambda self, index: 2.0, -1), ("_get_lrs", lambda self, indices: [4.0] * len(indices), -3),
    ("_get_wd", lambda self, index: 1.0, 0), ("_get_wds", lambda self, indices: [3.0] * len(indices), -1),
    ("learning_rate", property(lambda self: 0.25), 0.75)]


@pytest.mark.parametrize("way", [through_updater, through_store, through_trainer, through_module])
@pytest.mark.parametrize("name, method, wanted", OVERRIDES, ids=[row[0] for row in OVERRIDES])
def test_overrides_are_called(way, name, method, wanted):
    np.testing.assert_allclose(way(overriding(name, method)).asnumpy(), wanted)


@pytest.mark.parametrize("way", [through_updater, through_store, through_trainer])
def test_overridden_counts(way):
    def twice(self, index):
        optimizer.Optimizer._update_count(self, index)
        optimizer.Optimizer._update_count(self, index)

    made = overriding("_update_count", twice)
    way(made)
    assert made.num_update == 2 == made._index_update_count[0]


def test_overridden_context():
    class Derived(optimizer.SGD):
        def _set_current_context(self, device_id):
            super()._set_current_context(device_id + 10)

    made = Derived()
    through_updater(made)
    through_store(made)
    assert made._all_index_update_counts == {0: {}, 10: {0: 2}}


def test_overrides_with_masters():
    class Own(optimizer.Optimizer):
        def create_state(self, index, weight):
            assert weight.dtype == np.float32
            return {"of": index}

        def update(self, index, weight, grad, state):
            assert state["of"] == index and weight.dtype == grad.dtype == np.float32
            self._update_count(index)
            weight[:] = weight - self._get_lr(index) * grad

    made = Own(learning_rate=1e-4, multi_precision=True)
    updater, weight = optimizer.get_updater(made), nd.ones(2, dtype="float16")
    for _ in range(10):
        updater("w", nd.ones(2, dtype="float16"), weight)
    master, state = updater.states["w"]
    np.testing.assert_allclose(master.asnumpy(), 1 - 1e-3, rtol=1e-6)
    np.testing.assert_array_equal(weight.asnumpy(), np.float16(1 - 1e-3))
    assert state == {"of": "w"} and made._index_update_count == {"w": 10}


def test_tables_are_dictionaries():
    made = optimizer.SGD(param_idx2name={0: "a_weight", 1: "a_bias"})
    assert made.idx2name == {0: "a_weight", 1: "a_bias"} and {**made.wd_mult} == {"a_bias": 0}
    made.lr_mult["a_weight"] = 3
    made.lr_mult = {**made.lr_mult, 1: 2}
    assert sorted(made.lr_mult.items(), key=str) == [("a_weight", 3), (1, 2)] and 5 not in made.lr_mult
    assert made._get_lrs([0, 1, 2]) == [0.03, 0.02, 0.01] and made.lr_mult.get(None, 7) == 7
    assert made.lr_mult.pop(1) == 2 and len(made.lr_mult) == 1 and repr(made.lr_mult) == "{'a_weight': 3.0}"
    made._index_update_count[0] = 41
    made._update_count([0, 1])
    assert made._index_update_count == {0: 42, 1: 1} and made.num_update == 42
    made._set_current_context(1)
    assert made._index_update_count == {} and made._all_index_update_counts == {0: {0: 42, 1: 1}, 1: {}}
    with pytest.raises(KeyError):
        made.lr_mult["b"]
    with pytest.raises(TypeError, match="list"):
        made.lr_mult[[1]] = 1
    with pytest.raises(TypeError, match="Parameters"):
        made.param_dict = {0: 3}


def test_multipliers_of_symbols():
    symbol = mx.sym.Variable("a_weight", lr_mult=2, wd_mult=0.5) * mx.sym.Variable("a_gamma")
    made = optimizer.SGD(learning_rate=1, wd=1, sym=symbol, param_idx2name={0: "a_weight", 1: "a_gamma"})
    twin = pickle.loads(pickle.dumps(made))
    for one in (made, twin):
        assert one._get_lrs([0, 1]) == [2, 1] and one._get_wds([0, 1]) == [0.5, 1]
        one.set_lr_mult({"a_gamma": 3})
        assert one._get_lrs([0, 1]) == [2, 3]


def test_states_can_be_set():
    updater = optimizer.get_updater(optimizer.SGD(learning_rate=1, momentum=0.5))
    updater.states[0] = nd.full(2, 4)
    assert not updater.states_synced[0] and (updater.states[0].asnumpy() == 4).all()
    weight = nd.zeros(2)
    updater(0, nd.zeros(2), weight)
    assert updater.states_synced[0] and (weight.asnumpy() == 2).all() and (updater.states[0].asnumpy() == 2).all()
    updater.states = {}
    updater([0, 1], [nd.ones(2)] * 2, [weight, weight])
    assert sorted(updater.states) == [0, 1]
    with pytest.raises(TypeError, match="str"):
        updater.states[0] = "x"
    with pytest.raises(TypeError, match="Optimizer"):
        optimizer.Updater(3)


@pytest.mark.parametrize("name", ["sgd", "nag", "adam", "lars", "lamb"])
def test_states_with_masters_continue(name):
    options = {"multi_precision": True, **({} if name in ("adam", "lamb") else {"momentum": 0.9})}
    made = optimizer.create(name, learning_rate=0.1, **options)
    one, weight = optimizer.get_updater(made), nd.ones(3, dtype="float16")
    other = optimizer.get_updater(optimizer.create(name))
    for i in range(3):
        one(0, nd.ones(3, dtype="float16") * (i + 1), weight)
    other.set_states(one.get_states(dump_optimizer=True))
    copy = weight.copy()
    one(0, nd.ones(3, dtype="float16"), weight)
    other(0, nd.ones(3, dtype="float16"), copy)
    np.testing.assert_array_equal(weight.asnumpy(), copy.asnumpy())
    assert [s.dtype == np.float32 for s in other.states[0] if isinstance(s, nd.NDArray)]


def test_lars_corrects_the_momentum_when_the_rate_changes():
    made = optimizer.create("lars", learning_rate=1.0, momentum=0.5, eta=0.1)
    g, w, step, last = np.array([1.0, 0.5]), np.array([3.0, 4.0]), 0, None
    weight = nd.array(w)
    state = made.create_state(0, weight)
    for rate in (1.0, 0.25, 0.5):
        made.set_learning_rate(rate)
        made.update(0, weight, nd.array(g), state)
        momentum = 0.5 * rate / last if last else 0.5
        step = momentum * step - rate * 0.1 * np.linalg.norm(w) / np.linalg.norm(g) * g
        w, last = w + step, rate
        np.testing.assert_allclose(weight.asnumpy(), w, rtol=1e-5)


def test_rates_of_layers_without_a_norm():
    rates = nd.multi_lars(nd.array([2.0, 2.0, 2.0]), nd.array([0.0, 4.0, 4.0]), nd.array([9.0, 0.0, 9.0]), nd.array([0.1, 0.1, 0.1]),
                          eta=0.5, eps=0.0)
    np.testing.assert_allclose(rates.asnumpy(), [2, 2, 2 * 0.5 * 2 / (3 + 0.1 * 2)], rtol=1e-6)


@pytest.mark.parametrize("limit", [None, 0.0, -1.0, 2.0])
def test_limits_of_weights(limit):
    weight = nd.array([3.0, -4.0, 0.5])
    made = optimizer.RMSProp(learning_rate=0.1, clip_weights=limit)
    made.update(0, weight, nd.zeros(3), made.create_state(0, weight))
    np.testing.assert_allclose(weight.asnumpy(), [2, -2, 0.5] if limit == 2 else [3, -4, 0.5], rtol=1e-6)


def test_lars_applies_to_all_parameters_of_a_trainer():
    p = mx.gluon.Parameter("x_bias", shape=(2,), init="ones")
    p.initialize()
    with mx.autograd.record():
        loss = p.data().sum()
    loss.backward()
    mx.gluon.Trainer([p], "lars", {"learning_rate": 0.5}).step(1)
    np.testing.assert_allclose(p.data().asnumpy(), 1 - 0.5 * 0.001)
    named = optimizer.LARS(learning_rate=0.5, param_idx2name={0: "x_bias"})
    np.testing.assert_allclose(through_updater(named).asnumpy(), 0.5)


def test_positional_options():
    assert optimizer.Adam(0.5, 0.8).beta1 == 0.8 and optimizer.Ftrl(0.2, 0.3).lr == 0.3
    assert optimizer.SGD(0.7).momentum == 0.7 and optimizer.SGD().aggregate_num == 4


def test_attributes_of_mxnet_are_taken():
    """What MXNet 1.9.1 pickles of an optimizer is the dictionary of its attributes."""
    common = dict(rescale_grad=0.5, lr=0.1, lr_scheduler=None, wd=0.01, lr_mult={"a_weight": 2.0}, wd_mult={"a_bias": 0.0},
                  begin_num_update=0, num_update=7, _all_index_update_counts={0: {0: 7, 1: 6}},
                  _index_update_count={0: 7, 1: 6}, clip_gradient=None, multi_precision=False, aggregate_num=4,
                  idx2name={0: "a_weight", 1: "a_bias"}, sym_info=())
    made = optimizer.SGD.__new__(optimizer.SGD)
    made.__setstate__({**common, "momentum": 0.9, "lazy_update": True})
    assert (made.momentum, made.lr, made.rescale_grad, made.num_update) == (0.9, 0.1, 0.5, 7)
    assert made._index_update_count == {0: 7, 1: 6} and made._get_lrs([0, 1]) == [0.2, 0.1]
    assert made._get_wds([0, 1]) == [0.01, 0] and set(common) < set(made.__getstate__())
    nadam = optimizer.Nadam.__new__(optimizer.Nadam)
    nadam.__setstate__({**common, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "schedule_decay": 0.004,
                        "m_schedule": 0.25})
    assert nadam.__getstate__()["m_schedule"] == 0.25 == nadam._memory[0]
