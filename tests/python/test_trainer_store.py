"""gluon.Trainer on several contexts, its store, and the methods that a subclass may override."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd

BOTH = [mx.cpu(0), mx.cpu(1)]


def dense(ctx=BOTH):
    net = gluon.nn.Dense(1, in_units=2, use_bias=False)
    net.initialize(mx.init.One(), ctx=ctx)
    return net


def made(net, optimizer="sgd", kind=gluon.Trainer, rate=1.0, momentum=0.0, wd=0.0, **options):
    given = {"learning_rate": rate, "momentum": momentum, "wd": wd}
    return kind(net.collect_params(), optimizer, given, **options)


def backward(net, ctx=BOTH):
    """Gradients 1 on the first context, 2 on the second."""
    with autograd.record():
        losses = [net(nd.ones((1, 2), ctx=c) * (i + 1)).sum() for i, c in enumerate(ctx)]
    autograd.backward(losses)


def values(net):
    return [w.asnumpy()[0, 0] for w in net.weight.list_data()]


# ---- what a subclass overrides


class Counting(gluon.Trainer):
    """Notes the calls of every part of a step."""

    def __init__(self, *args, **kwargs):
        self.calls = []
        super().__init__(*args, **kwargs)

    def _init_kvstore(self):
        self.calls.append("_init_kvstore")
        super()._init_kvstore()

    def _init_params(self):
        self.calls.append("_init_params")
        super()._init_params()

    def _allreduce_grads(self):
        self.calls.append("_allreduce_grads")
        super()._allreduce_grads()

    def _update(self, ignore_stale_grad=False):
        self.calls.append("_update")
        super()._update(ignore_stale_grad)


@pytest.mark.parametrize("ctx", [BOTH, BOTH[:1]])
def test_overridden_parts_of_a_step_run(ctx):
    net = dense(ctx)
    trainer = made(net, kind=Counting, update_on_kvstore=False if len(ctx) > 1 else None)
    for _ in range(2):
        backward(net, ctx)
        trainer.step(1)
    assert trainer.calls == ["_init_kvstore", "_init_params"] + ["_allreduce_grads", "_update"] * 2
    assert values(net) == ([1 - 6.0] * 2 if len(ctx) > 1 else [1 - 2.0])
    backward(net, ctx)
    trainer.allreduce_grads()
    trainer.update(1)
    assert trainer.calls[6:] == ["_allreduce_grads", "_update"]


def test_a_trainer_that_sums_by_itself():
    """As in libraries for several machines: no store, sums of their own."""
    class Summing(gluon.Trainer):
        def __init__(self, params, *args, **kwargs):
            super().__init__(params, *args, kvstore=None, **kwargs)
            self._scale /= 2

        def _allreduce_grads(self):
            for p in self._params:
                total = sum(g.asnumpy() for g in p.list_grad())
                for g in p.list_grad():
                    g[:] = total

    net = dense()
    trainer = made(net, kind=Summing)
    backward(net)
    trainer.step(1)
    assert values(net) == [1 - 1.5] * 2


def test_a_method_of_one_object_can_be_replaced():
    net = dense(BOTH[:1])
    trainer = made(net)
    backward(net, BOTH[:1])
    trainer.step(1)
    seen = []
    trainer._update = lambda ignore_stale_grad=False: seen.append(ignore_stale_grad)
    trainer.step(1, ignore_stale_grad=True)
    assert seen == [True] and values(net) == [0]


def test_an_override_that_raises():
    class Broken(gluon.Trainer):
        def _update(self, ignore_stale_grad=False):
            raise KeyError("mine")

    net = dense()
    trainer = made(net, kind=Broken)
    backward(net)
    with pytest.raises(KeyError, match="mine"):
        trainer.step(1)


# ---- the store


def test_the_store_after_a_step():
    net = dense()
    trainer = made(net, momentum=0.9)
    assert trainer._kvstore is None and trainer._update_on_kvstore is None and not trainer._kv_initialized
    assert trainer._params_to_init == [net.weight]
    backward(net)
    trainer.step(1)
    assert type(trainer._kvstore) is mx.kv.KVStore and trainer._kvstore.type == "device"
    assert trainer._update_on_kvstore is True and trainer._kv_initialized and trainer._params_to_init == []
    assert trainer._kvstore._updater.optimizer is trainer._optimizer
    assert trainer._kvstore._updater.states[0].shape == (1, 2)
    pulled = nd.zeros((1, 2))
    trainer._kvstore.pull(0, out=pulled)
    assert pulled.asnumpy().tolist() == net.weight.list_data()[0].asnumpy().tolist()
    assert trainer._optimizer._index_update_count == {0: 1}


def test_multipliers_count_on_the_store():
    net = dense()
    trainer = made(net)
    backward(net)
    trainer.step(1)
    net.weight.lr_mult = 0
    backward(net)
    trainer.step(1)
    assert values(net) == [1 - 3.0] * 2


@pytest.mark.parametrize("options,kind,on_store", [
    ({}, "device", True), ({"kvstore": "local"}, "local", True), ({"update_on_kvstore": False}, "device", False),
    ({"kvstore": "teststore"}, "teststore", False), ({"kvstore": None}, None, None)])
def test_stores_by_name(options, kind, on_store):
    net = dense()
    trainer = made(net, momentum=0.9, wd=0.1, rate=0.1, **options)
    for _ in range(3):
        backward(net)
        trainer.step(1)
    assert (trainer._kvstore and trainer._kvstore.type) == kind and trainer._update_on_kvstore is on_store

    def alone(g):
        w = np.float64(1)
        m = 0
        for _ in range(3):
            m = 0.9 * m - 0.1 * (g + 0.1 * w)
            w = w + m
        return w
    expected = [alone(3)] * 2 if kind else [alone(1), alone(2)]
    np.testing.assert_allclose(values(net), expected, rtol=1e-5)


def test_one_context_needs_no_store():
    net = dense(BOTH[:1])
    trainer = made(net)
    backward(net, BOTH[:1])
    trainer.step(1)
    assert trainer._kvstore is None and trainer._update_on_kvstore is None and trainer._kv_initialized
    trainer.allreduce_grads()
    backward(net, BOTH[:1])
    trainer.update(1)
    assert trainer._optimizer._index_update_count == {0: 2}
    own = made(net, kvstore=mx.kv.create("device"))
    backward(net, BOTH[:1])
    own.step(1)
    assert own._kvstore is not None and own._update_on_kvstore is True and values(net) == [1 - 3.0]


def test_a_store_written_in_python_is_used():
    @mx.kv.KVStoreBase.register
    class Mean(mx.kv.KVStoreBase):
        calls = []

        def broadcast(self, key, value, out, priority=0):
            self.calls.append("broadcast")
            for array in out:
                array[:] = value

        def pushpull(self, key, value, out=None, priority=0):
            self.calls.append("pushpull")
            mean = sum(v.asnumpy() for v in value) / len(value)
            for array in value if out is None else out:
                array[:] = mean

        @staticmethod
        def is_capable(capability):
            return False

        type, rank, num_workers = "mean", 0, 1

    net = dense()
    trainer = made(net, kvstore=Mean())
    for _ in range(2):
        backward(net)
        trainer.step(1)
    assert Mean.calls == ["broadcast", "pushpull", "pushpull"] and values(net) == [1 - 3.0] * 2


def test_gradients_without_exchange_stay_apart():
    net = dense()
    trainer = made(net, kvstore=None)
    backward(net)
    trainer.step(1)
    assert values(net) == [0, -1] and [g.asnumpy()[0, 0] for g in net.weight.list_grad()] == [1, 2]
    assert [sorted(u.states) for u in trainer._updaters] == [[0], [0]]


def test_the_first_step_spreads_the_first_values():
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(2, in_units=2), gluon.nn.BatchNorm(in_channels=2))
    net.initialize(ctx=BOTH)
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    for _ in range(2):
        with autograd.record():
            losses = [net(nd.array([[1, 2], [3, 4.5]], ctx=c) * (i + 1)).sum() for i, c in enumerate(BOTH)]
        autograd.backward(losses)
    means = [a.asnumpy() for a in net[1].running_mean.list_data()]
    assert not np.allclose(*means)
    trainer.step(2)
    after = [a.asnumpy() for a in net[1].running_mean.list_data()]
    assert np.array_equal(after[0], means[0]) and np.array_equal(after[1], means[0])
    for p in net.collect_params().values():
        assert np.array_equal(*[a.asnumpy() for a in p.list_data()])


def test_old_gradients_on_the_store():
    """A parameter without a new gradient goes on with what its gradient array holds."""
    for ignore in (False, True):
        net = dense()
        trainer = made(net, momentum=0.5)
        backward(net)
        trainer.step(1)
        trainer.step(1, ignore_stale_grad=ignore)
        assert values(net) == [1 - 3 - 4.5] * 2
    net = dense()
    trainer = made(net)
    backward(net, BOTH[:1])
    with pytest.raises(UserWarning, match="cpu.1."):
        trainer.step(1)
    assert values(net) == [1, 1]


@pytest.mark.parametrize("options", [{"update_on_kvstore": False}, {"kvstore": None}])
def test_old_gradients_without_updates_on_the_store(options):
    net = dense()
    trainer = made(net, **options)
    backward(net)
    trainer.step(1)
    with pytest.raises(UserWarning, match="since the last step"):
        trainer.step(1)


def test_halves_of_a_step_on_the_store():
    net = dense()
    trainer = made(net)
    backward(net)
    with pytest.raises(AssertionError, match="update_on_kvstore=False"):
        trainer.allreduce_grads()
    with pytest.raises(AssertionError, match="update_on_kvstore=False"):
        trainer.update(1)
    assert values(net) == [1, 1] and [g.asnumpy()[0, 0] for g in net.weight.list_grad()] == [1, 2]


def test_set_data_resets_the_store():
    net = dense()
    trainer = made(net, momentum=0.9)
    backward(net)
    trainer.step(1)
    net.weight.set_data(nd.ones((1, 2)) * 5)
    assert trainer._kvstore is None and not trainer._kv_initialized and trainer._params_to_init == [net.weight]
    backward(net)
    trainer.step(1)
    assert values(net) == [5 - 3.0] * 2  # the momentum started anew, too
    other = made(net, update_on_kvstore=False)
    backward(net)
    other.step(1)
    net.weight.set_data(nd.ones((1, 2)))
    assert other._kv_initialized


def test_values_written_into_the_array_count():
    net = dense()
    trainer = made(net)
    backward(net)
    trainer.step(1)
    net.weight.data(BOTH[0])[:] = 10
    backward(net)
    trainer.step(1)
    assert values(net) == [10 - 3.0] * 2


def test_states_of_a_store_are_saved(tmp_path):
    path = str(tmp_path / "states")
    for optimizer in ("sgd", Doubling()):
        results = []
        for stop in (False, True):
            net = dense()
            options = {"learning_rate": 1.0, "momentum": 0.5} if optimizer == "sgd" else None
            trainer = gluon.Trainer(net.collect_params(), "sgd" if options else Doubling(), options)
            for i in range(4):
                backward(net)
                trainer.step(1)
                if stop and i == 1:
                    trainer.save_states(path)
                    trainer = gluon.Trainer(net.collect_params(), "sgd" if options else Doubling(), options)
                    trainer.load_states(path)
            results.append(values(net))
        assert results[0] == results[1]


@mx.optimizer.register
class Doubling(mx.optimizer.Optimizer):
    """Steps of doubling length, in Python."""

    def create_state(self, index, weight):
        return nd.ones(weight.shape, ctx=weight.context)

    def update(self, index, weight, grad, state):
        self._update_count(index)
        weight -= grad * state
        state *= 2


def test_members():
    net = dense()
    trainer = made(net, kvstore="teststore", update_on_kvstore=True)
    with pytest.raises(ValueError, match="update_on_kvstore=False"):
        trainer._init_kvstore()
    with pytest.raises(AssertionError, match="_init_kvstore"):
        trainer._init_params()
    with pytest.raises(TypeError, match="int"):
        made(net, kvstore=5)
    trainer = made(net)
    assert not trainer._contains_sparse_weight and not trainer._contains_sparse_grad
    trainer._check_and_rescale_grad(0.25)
    assert trainer._optimizer.rescale_grad == 0.25
    assert net.weight._trainer is trainer
    trainer._init_kvstore()
    trainer._init_params()
    trainer._reset_kvstore()
    assert not trainer._kv_initialized


def sparse(ctx, stype="default"):
    p = gluon.Parameter("w", shape=(4, 2), stype=stype, grad_stype="row_sparse")
    p.initialize(mx.init.One(), ctx=ctx)
    return p


def test_sparse_weights_and_gradients():
    p = sparse(BOTH)
    trainer = gluon.Trainer([p], "sgd")
    trainer._init_kvstore()
    assert trainer._contains_sparse_grad and trainer._update_on_kvstore is False
    p = sparse(mx.cpu(), "row_sparse")
    trainer = gluon.Trainer([p], "sgd", update_on_kvstore=False)
    with pytest.raises(ValueError, match="row_sparse"):
        trainer._init_kvstore()
    with pytest.raises(RuntimeError, match="only one"):
        gluon.Trainer([p], "sgd")
    p._set_trainer(None)
    trainer = gluon.Trainer([p], "sgd")
    out = nd.sparse.zeros("row_sparse", (4, 2))
    trainer._row_sparse_pull(p, out, nd.array([1, 3]))
    assert trainer._update_on_kvstore is True and out.indices.asnumpy().tolist() == [1, 3]
    trainer._row_sparse_pull(p, out, nd.arange(4), full_idx=True)
    assert out.indices.shape == (4,)
