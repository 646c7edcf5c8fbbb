"""Local key-value stores: sums over contexts, lists of keys, updaters and optimizers."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import nd


def pulled(store, key, shape=(2, 2)):
    out = nd.zeros(shape)
    store.pull(key, out=out)
    return out.asnumpy()


@pytest.mark.parametrize("kind", ["local", "device"])
def test_push_sums(kind):
    store = mx.kv.create(kind)
    assert (store.type, store.rank, store.num_workers) == (kind, 0, 1)
    store.init(3, nd.ones((2, 2)))
    assert (pulled(store, 3) == 1).all()
    store.push(3, [nd.ones((2, 2)), nd.ones((2, 2)) * 2])
    assert (pulled(store, 3) == 3).all()


def test_lists_of_keys():
    store = mx.kv.create()
    store.init(["a", "b"], [nd.ones(2), nd.ones(2) * 2])
    outs = [[nd.zeros(2), nd.zeros(2)], [nd.zeros(2), nd.zeros(2)]]
    store.pushpull(["a", "b"], [[nd.ones(2)] * 2, [nd.ones(2) * 3] * 2], out=outs)
    assert all((o.asnumpy() == 2).all() for o in outs[0]) and all((o.asnumpy() == 6).all() for o in outs[1])
    out = nd.zeros(2)
    store.broadcast("c", nd.ones(2) * 5, out=out)
    assert (out.asnumpy() == 5).all()


def test_updater():
    store = mx.kv.create("local")
    store.init("w", nd.ones(2))
    store._set_updater(lambda key, pushed, stored: stored.__iadd__(pushed * 2))
    store.push("w", nd.ones(2))
    assert (pulled(store, "w", 2) == 3).all()


def test_optimizer(tmp_path):
    store = mx.kv.create("local")
    store.init(0, nd.ones(2))
    store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5, momentum=0.5))
    for _ in range(2):
        store.push(0, [nd.ones(2)] * 2)
    np.testing.assert_allclose(pulled(store, 0, 2), 1 - 1 - 1.5)
    path = str(tmp_path / "states")
    store.save_optimizer_states(path)
    store._updater.states.clear()
    store.load_optimizer_states(path)
    np.testing.assert_allclose(store._updater.states[0].asnumpy(), -1.5)
    assert store.is_capable("optimizer")


@pytest.mark.parametrize("call, kind, part", [
    (lambda s: mx.kv.create("byteps"), NotImplementedError, "dist_sync"),
    (lambda s: mx.kv.create("nope"), ValueError, "nope"), (lambda s: mx.kv.create(3), TypeError, "int"),
    (lambda s: s.init("a", nd.ones(2)), mx.MXNetError, "before"),
    (lambda s: s.push("b", nd.ones(2)), mx.MXNetError, "not initialized"),
    (lambda s: s.push(1, nd.ones(2)), mx.MXNetError, "all strings"),
    (lambda s: s.push("a", 3), TypeError, "int"), (lambda s: s.pull("a"), AssertionError, "out"),
    (lambda s: s.row_sparse_pull("a", out=nd.ones(2), row_ids=nd.ones(1)), ValueError, "row_sparse"),
    (lambda s: s.save_optimizer_states("x"), AssertionError, "no optimizer"),
    (lambda s: s.init(["b", "c"], [nd.ones(2)]), AssertionError, "2 keys")])
def test_errors(call, kind, part):
    store = mx.kv.create("local")
    store.init("a", nd.ones(2))
    with pytest.raises(kind, match=part):
        call(store)


def test_registered_store():
    assert isinstance(mx.kv.create("teststore"), mx.kvstore.KVStoreBase)
    a, b = nd.ones(2), nd.ones(2)
    mx.kv.create("teststore").pushpull(0, [a, b])
    assert (a.asnumpy() == 2).all() and (b.asnumpy() == 2).all()


def test_updaters_of_ones_own(tmp_path):
    class Counting(mx.optimizer.Updater):
        calls = 0

        def __call__(self, index, grad, weight):
            self.calls += 1
            super().__call__(index, grad * 2, weight)

    store = mx.kv.create("local")
    store.init("w", nd.ones(2))
    updater = Counting(mx.optimizer.SGD(learning_rate=0.5))
    store._set_updater(updater)
    store.push("w", [nd.ones(2), nd.ones(2)])
    assert updater.calls == 1 and store._updater is updater is store._updater_func
    assert (pulled(store, "w", 2) == 1 - 0.5 * 4).all() and updater.optimizer._index_update_count == {"w": 1}

    def broken(key, pushed, stored):
        raise LookupError("on purpose")

    store._updater = broken
    with pytest.raises(LookupError, match="on purpose"):
        store.push("w", nd.ones(2))
    store._updater = None
    store.push("w", nd.ones(2))
    assert (pulled(store, "w", 2) == 1).all()


def test_pushed_arrays_stay(tmp_path):
    kept, store = [], mx.kv.create()
    store.init(0, nd.zeros(2))
    store._set_updater(lambda key, pushed, stored: kept.append(pushed))
    gradient = nd.ones(2)
    store.push(0, gradient)
    gradient[:] = 5
    assert (kept[0].asnumpy() == 1).all()


def test_states_with_the_optimizer(tmp_path):
    path = str(tmp_path / "states")

    def made(options):
        store = mx.kv.create()
        store.init(0, nd.ones(2))
        store.set_optimizer(mx.optimizer.Adam(**options))
        return store

    one, other = made({"learning_rate": 0.5, "wd": 0.1}), made({})
    one.push(0, nd.ones(2))
    one.save_optimizer_states(path, dump_optimizer=True)
    other.load_optimizer_states(path)
    assert not other._updater.states_synced[0]
    assert other._updater.optimizer.lr == 0.5 and other._updater.optimizer.num_update == 1
    weight = nd.array(pulled(one, 0, 2))
    one.push(0, nd.ones(2))
    other._updater(0, nd.ones(2), weight)
    np.testing.assert_array_equal(pulled(one, 0, 2), weight.asnumpy())
    other.load_optimizer_states(path)
    other.push(0, nd.ones(2))
    assert other._updater.states_synced[0] and other._updater.optimizer.num_update == 2
    assert not (other._updater.states[0][0].asnumpy() == nd.ones(2).asnumpy() * 0.1).all()


def test_16_bits_without_master_are_worth_a_warning():
    store = mx.kv.create()
    store.init(0, nd.ones(2, dtype="float16"))
    store.set_optimizer(mx.optimizer.SGD())
    with pytest.warns(UserWarning, match="multi_precision"):
        store.push(0, nd.ones(2, dtype="float16"))


def test_compressed_trainer():
    p = mx.gluon.Parameter("w", shape=(3,), init="zeros")
    p.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    trainer = mx.gluon.Trainer([p], "sgd", {"learning_rate": 1}, compression_params={"type": "2bit", "threshold": 0.5})
    for _ in range(10):
        with mx.autograd.record():
            losses = [(w * 0.3).sum() for w in p.list_data()]
        for loss in losses:
            loss.backward()
        trainer.step(1)
        assert set(np.unique(p.data(mx.cpu(0)).asnumpy() % 0.5)) == {0.0}  # units of the threshold
    for weight in p.list_data():
        np.testing.assert_allclose(weight.asnumpy(), -6, atol=1)
