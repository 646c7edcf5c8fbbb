"""gluon.Trainer: steps, rates, stale gradients, several contexts, saved states, users' optimizers."""
import pickle

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd


def dense(ctx=None):
    net = gluon.nn.Dense(2, in_units=3, prefix="d_", weight_initializer="ones")
    net.initialize(ctx=ctx)
    return net


def backward(net, scale=1.0):
    with autograd.record():
        loss = (net(nd.ones((4, 3))) * scale).sum()
    loss.backward()


def weight(net):
    return net.weight.data().asnumpy()


def test_step_divides_by_the_batch():
    net = dense()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    backward(net)
    trainer.step(8)
    np.testing.assert_allclose(weight(net), 1 - 0.5 * 4 / 8)
    np.testing.assert_allclose(net.bias.data().asnumpy(), -0.25)
    backward(net)
    trainer.step(batch_size=0.5)
    np.testing.assert_allclose(weight(net), 0.75 - 0.5 * 4 / 0.5)
    assert trainer.optimizer.num_update == 2 and trainer.optimizer.rescale_grad == 2


def test_parameters_as_dict_list_and_dictionary():
    net = dense()
    params = net.collect_params()
    for given in (params, dict(params.items()), list(params.values()), tuple(params.values())):
        trainer = gluon.Trainer(given, mx.optimizer.SGD(learning_rate=0.1))
        backward(net)
        trainer.step(1)
    assert [p.name for p in gluon.Trainer(params, "sgd")._params] == ["d_bias", "d_weight"]
    assert [p.name for p in gluon.Trainer([net.weight, net.bias], "sgd")._params] == ["d_weight", "d_bias"]


def test_multipliers_and_null_gradients():
    net = dense()
    net.weight.lr_mult, net.bias.grad_req = 0.5, "null"
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1, "wd": 0.1})
    backward(net)
    trainer.step(4)
    np.testing.assert_allclose(weight(net), 1 - 0.5 * (1 + 0.1), rtol=1e-6)
    assert (net.bias.data().asnumpy() == 0).all()


def test_rates():
    trainer = gluon.Trainer(dense().collect_params(), "sgd", {"learning_rate": 0.3})
    trainer.set_learning_rate(0.7)
    assert trainer.learning_rate == 0.7 == trainer.optimizer.lr
    schedule = mx.lr_scheduler.FactorScheduler(1, 0.5, base_lr=0.4)
    net = dense()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"lr_scheduler": schedule})
    for _ in range(2):
        backward(net)
        trainer.step(1)
    assert trainer.learning_rate == pytest.approx(0.2)
    with pytest.raises(UserWarning):
        trainer.set_learning_rate(1)


def test_stale_gradients():
    net = dense()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    with pytest.raises(UserWarning, match="d_bias"):
        trainer.step(1)
    backward(net)
    trainer.step(1)
    before = weight(net)
    with pytest.raises(UserWarning):
        trainer.step(1)
    trainer.step(1, ignore_stale_grad=True)
    np.testing.assert_array_equal(weight(net), before)


def test_several_contexts():
    contexts = [mx.cpu(0), mx.cpu(1)]
    net = dense(contexts)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1}, update_on_kvstore=False)
    for split in (False, True):
        with autograd.record():
            losses = [net(x).sum() for x in gluon.utils.split_and_load(nd.ones((4, 3), ctx=mx.cpu()), contexts)]
        for loss in losses:
            loss.backward()
        if split:
            trainer.allreduce_grads()
            assert all((g.asnumpy() == 4).all() for g in net.weight.list_grad())
            trainer.update(4)
        else:
            trainer.step(4)
    for copy in net.weight.list_data():
        np.testing.assert_allclose(copy.asnumpy(), -1)


@pytest.mark.parametrize("name, options", [("adam", {}), ("sgd", {"momentum": 0.9}), ("nadam", {}), ("ftml", {})])
def test_saved_states_continue(tmp_path, name, options):
    path = str(tmp_path / "states")

    def run(save_at):
        net = dense()
        trainer = gluon.Trainer(net.collect_params(), name, dict(options))
        for i in range(5):
            if i == save_at:
                trainer.save_states(path)
                trainer = gluon.Trainer(net.collect_params(), name, dict(options))
                trainer.load_states(path)
            backward(net, i)
            trainer.step(2)
        return weight(net)

    np.testing.assert_array_equal(run(3), run(None))


class Own(mx.optimizer.Optimizer):
    """Steps in Python with a state that is no array."""

    def create_state(self, index, weight):
        return {"index": index, "count": 0}

    def update(self, index, weight, grad, state):
        assert state["index"] == index
        self._update_count(index)
        state["count"] += 1
        weight[:] = weight - self._get_lr(index) * self.rescale_grad * grad / state["count"]


def test_own_optimizer(tmp_path):
    net = dense()
    trainer = gluon.Trainer(net.collect_params(), Own(learning_rate=0.5))
    for _ in range(2):
        backward(net)
        trainer.step(2)
    np.testing.assert_allclose(weight(net), 1 - 0.5 * 2 * (1 + 0.5))
    assert trainer.optimizer.num_update == 2 and trainer.optimizer.rescale_grad == 0.5
    path = str(tmp_path / "states")
    trainer.save_states(path)
    other = gluon.Trainer(net.collect_params(), Own(learning_rate=0.5))
    other.load_states(path)
    backward(net)
    other.step(2)
    np.testing.assert_allclose(weight(net), -0.5 - 0.5 * 2 / 3, rtol=1e-6)


def test_overriding_a_library_optimizer():
    class Doubled(mx.optimizer.SGD):
        def update(self, index, weight, grad, state):
            super().update(index, weight, grad * 2, state)

    net = dense()
    trainer = gluon.Trainer(net.collect_params(), Doubled(learning_rate=0.5))
    backward(net)
    trainer.step(4)
    np.testing.assert_allclose(weight(net), 1 - 0.5 * 2)


def test_exceptions_of_own_optimizers_arrive():
    class Broken(mx.optimizer.Optimizer):
        def update(self, index, weight, grad, state):
            raise LookupError("on purpose")

    net = dense()
    trainer = gluon.Trainer(net.collect_params(), Broken())
    backward(net)
    with pytest.raises(LookupError, match="on purpose"):
        trainer.step(1)

    def schedule(num_update):
        raise LookupError("no rate")

    trainer = gluon.Trainer(net.collect_params(), "sgd", {"lr_scheduler": schedule})
    with pytest.raises(LookupError, match="no rate"):
        trainer.step(1)


@pytest.mark.parametrize("call, kind", [
    (lambda p: gluon.Trainer(3, "sgd"), ValueError), (lambda p: gluon.Trainer([3], "sgd"), ValueError),
    (lambda p: gluon.Trainer(p, "nope"), ValueError), (lambda p: gluon.Trainer(p, "sgd", {"foo": 1}), TypeError),
    (lambda p: gluon.Trainer(p, mx.optimizer.SGD(), {"learning_rate": 1}), AssertionError),
    (lambda p: gluon.Trainer(p, 3), TypeError), (lambda p: gluon.Trainer(p, "sgd").step(0), ZeroDivisionError),
    (lambda p: gluon.Trainer(p, "sgd").step("a"), TypeError), (lambda p: gluon.Trainer(p, "sgd").step(), TypeError),
    (lambda p: gluon.Trainer(p, "sgd").step(1, wrong=2), TypeError),
    (lambda p: gluon.Trainer(p, "sgd").load_states("/nowhere/x"), OSError),
    (lambda p: gluon.Trainer(p, "sgd", kvstore="byteps"), NotImplementedError)])
def test_errors(call, kind):
    with pytest.raises(kind):
        call(dense().collect_params())


def test_parameters_must_be_ready():
    net = gluon.nn.Dense(2)
    with pytest.raises(RuntimeError, match="not been initiali"):
        gluon.Trainer(net.collect_params(), "sgd")
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    with pytest.raises(gluon.DeferredInitializationError):
        trainer.step(1)
    with pytest.raises(AssertionError, match="same contexts"):
        gluon.Trainer([net.bias, dense([mx.cpu(0), mx.cpu(1)]).bias], "sgd")


def test_stores_are_accepted():
    for store in (None, "local", "device", mx.kv.create("local")):
        net = dense()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1}, kvstore=store)
        backward(net)
        trainer.step(4)
        assert (weight(net) == 0).all()


def test_memory_is_stable(resident):
    net = dense()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    own = gluon.Trainer(net.collect_params(), Own(learning_rate=0.5))

    def run(count):
        for _ in range(count):
            backward(net)
            trainer.step(1)
            backward(net)
            own.step(1)
            gluon.Trainer(net.collect_params(), "sgd")
            pickle.dumps(trainer.optimizer)
            with pytest.raises(UserWarning):
                trainer.step(1)

    run(300)
    before = resident()
    run(2000)
    assert resident() - before < 2 << 20
