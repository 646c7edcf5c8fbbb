"""Checking mode: mistakes that otherwise give wrong numbers are errors, where they happen."""
import os
import subprocess
import sys

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn


@pytest.fixture(autouse=True)
def checking():
    before = mx.util.set_check(True)
    yield
    mx.util.set_check(before)


class Net(nn.HybridBlock):
    """log of a dense layer without bias: -inf where its weights are zero."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.body = nn.HybridSequential()
            self.body.add(nn.Dense(4, in_units=3), nn.HybridLambda(lambda F, x: F.log(x)))
            self.fc2 = nn.Dense(2, in_units=4)

    def hybrid_forward(self, F, x):
        return self.fc2(self.body(x))


def test_switch():
    assert mx.util.is_check() and mx.util.set_check(False) is True
    assert np.isinf(nd.log(nd.zeros((1,))).asnumpy()).all()
    assert not mx.util.is_check() and mx.util.set_check(True) is False


def test_environment():
    """MXNET_CHECK=1 switches it on."""
    program = "import mxnet as mx; print(mx.util.is_check()); mx.nd.log(mx.nd.zeros((2,)))"
    run = subprocess.run([sys.executable, "-c", program], env=dict(os.environ, MXNET_CHECK="1"), capture_output=True,
                         text=True)
    assert run.stdout == "True\n" and "log: made -inf from finite inputs" in run.stderr and run.returncode


@pytest.mark.parametrize("hybrid", [False, True])
def test_nan_names_the_block(hybrid):
    net = Net()
    net.initialize(mx.init.Zero())
    if hybrid:
        net.hybridize(static_alloc=True)
    with pytest.raises(mx.MXNetError, match=rf"^{net.name}\.body\.1 \(.*\): log: made -inf from finite inputs, at"):
        net(nd.ones((2, 3)))
    mx.util.set_check(False)
    net(nd.ones((2, 3))).asnumpy()


def test_backward_names_the_block():
    net = nn.Dense(1, in_units=2, use_bias=False, prefix="fc_")
    net.initialize(mx.init.Zero())
    with autograd.record():
        loss = nd.sqrt(net(nd.ones((1, 2))))
    with pytest.raises(mx.MXNetError, match="backward of sqrt: .*made inf"):
        loss.backward()
    net = nn.HybridSequential()
    net.add(nn.Dense(4, in_units=3), nn.HybridLambda(lambda F, x: F.sqrt(x)))
    net.initialize(mx.init.Zero())
    with autograd.record():
        loss = net(nd.ones((2, 3))).sum()
    with pytest.raises(mx.MXNetError, match=rf"^{net[1].name}: backward of sqrt: .*made inf"):
        loss.backward()


def test_gradients_of_scaled_losses_may_overflow():
    """In 16 bits, where a trainer looks at them and takes a smaller factor; values may not."""
    x = nd.full((2,), 300, dtype="float16")
    x.attach_grad()
    with autograd.record():
        y = x * 200
    y.backward(nd.full((2,), 2000, dtype="float16"))
    assert np.isinf(x.grad.asnumpy()).all()
    with pytest.raises(mx.MXNetError, match="made inf"):
        x * 300
    x = nd.full((2,), 1e30)
    x.attach_grad()
    with autograd.record():
        y = x * 1e5
    with pytest.raises(mx.MXNetError, match="made inf"):
        y.backward(nd.full((2,), 1e35))


def test_labels():
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    loss(nd.ones((3, 10)), nd.array([0, 9, 5])).asnumpy()
    with pytest.raises(IndexError, match="index holds 10 at position 2, wanted 0 to 9"):
        loss(nd.ones((3, 10)), nd.array([0, 9, 10]))
    embedding = nn.Embedding(5, 4)
    embedding.initialize()
    with pytest.raises(IndexError, match="embedding.*: data holds 5 at position 1, wanted 0 to 4"):
        embedding(nd.array([4, 5]))
    with pytest.raises(IndexError, match="label holds 3"):
        nd.SoftmaxOutput(nd.ones((2, 3)), nd.array([1, 3]))
    nd.CTCLoss(nd.ones((4, 2, 5)), nd.array([[1, 2, -1], [4, 0, 0]])).asnumpy()
    with pytest.raises(IndexError, match="label holds 5"):
        nd.CTCLoss(nd.ones((4, 2, 5)), nd.array([[1, 2, -1], [5, 0, 0]]))


@pytest.mark.parametrize("call, low, high, name", [
    (lambda x: nd.softmax_cross_entropy(nd.ones((3, 4)), x), 0, 3, "label"),
    (lambda x: nd.SVMOutput(nd.ones((3, 4)), x), 0, 3, "label"),
    (lambda x: nd.SoftmaxOutput(nd.ones((3, 4)), x), 0, 3, "label"),
    (lambda x: nd.SoftmaxOutput(nd.ones((3, 4)), x, use_ignore=True, ignore_label=-7), 0, 3, "label"),
    (lambda x: nd.SoftmaxOutput(nd.ones((1, 4, 3)), x.reshape((1, 3)), multi_output=True), 0, 3, "label"),
    (lambda x: nd.take(nd.ones((4, 2)), x, mode="raise"), -4, 3, "indices"),
    (lambda x: nd.take(nd.ones((4, 2)), x, mode="clip"), 0, 3, "indices"),
    (lambda x: nd.pick(nd.ones((3, 4)), x), 0, 3, "index"),
    (lambda x: nd.one_hot(x, 4), 0, 3, "indices")])
def test_ranges_of_indices(call, low, high, name):
    call(nd.array([low, high, 0])).asnumpy()
    for wrong in (low - 1, high + 1):
        with pytest.raises(IndexError, match=rf"{name} holds {wrong} at position 1, wanted {low} to {high}"):
            call(nd.array([0, wrong, 0]))


def test_indices_without_a_range():
    nd.take(nd.ones((4, 2)), nd.array([-9, 11]), mode="wrap").asnumpy()
    nd.SoftmaxOutput(nd.ones((2, 4)), nd.array([-7, 3]), use_ignore=True, ignore_label=-7).asnumpy()
    nd.SoftmaxOutput(nd.ones((2, 4)), 9 * nd.ones((2, 4))).asnumpy()  # probabilities


def test_lengths_of_sequences():
    """No longer than the axis of time, which is the first or the second one."""
    for call in (nd.SequenceMask, nd.SequenceLast, nd.SequenceReverse):
        for axis, shape in ((0, (4, 2, 1)), (1, (2, 4, 1))):
            if call is nd.SequenceReverse and axis:
                continue  # has no other axis
            call(nd.ones(shape), nd.array([4, 3]), use_sequence_length=True, axis=axis)
            with pytest.raises(IndexError, match=call.__name__):
                call(nd.ones(shape), nd.array([3, 5]), use_sequence_length=True, axis=axis)


def test_integer_division():
    image = nd.array(np.arange(12), dtype="uint8")
    with pytest.raises(TypeError, match="uint8 elements are divided with a remainder: 1 / 255 gives 0; cast the data"):
        image / 255
    assert (image.astype("float32") / 255).dtype == np.float32
    assert ((image * 2) / 2 == image).asnumpy().all()


def test_stale_gradients():
    net = nn.Dense(2, in_units=3)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    with autograd.record():
        loss = net(nd.ones((1, 3))).sum()
    loss.backward()
    trainer.step(1, ignore_stale_grad=True)
    with pytest.raises(UserWarning, match="all gradients are stale"):
        trainer.step(1, ignore_stale_grad=True)


def test_stale_gradients_of_a_store():
    """A store that updates takes old gradients without a word, except in checking mode."""
    contexts = [mx.cpu(0), mx.cpu(1)]
    net = nn.Dense(2, in_units=3)
    net.initialize(ctx=contexts)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore="local", update_on_kvstore=True)

    def backward(on):
        with autograd.record():
            losses = [net(nd.ones((1, 3), ctx=context)).sum() for context in on]
        autograd.backward(losses)

    for _ in range(2):
        backward(contexts)
        trainer.step(1)
    with pytest.raises(UserWarning, match="was not computed by a backward since the last step"):
        trainer.step(1)
    backward(contexts[:1])
    with pytest.raises(UserWarning, match="cpu\\(1\\) was not computed"):
        trainer.step(1)
    trainer.step(1, ignore_stale_grad=True)
    mx.util.set_check(False)
    trainer.step(1, ignore_stale_grad=True)


def test_indices_of_sparse_arrays():
    weight = nd.ones((5, 4)).tostype("row_sparse")
    nd.Embedding(nd.array([0, 4]), weight, input_dim=5, output_dim=4).asnumpy()
    with pytest.raises(IndexError, match="data holds 5 at position 1, wanted 0 to 4"):
        nd.Embedding(nd.array([4, 5]), weight, input_dim=5, output_dim=4)
    with pytest.raises(IndexError, match="indices holds -1 at position 0, wanted 0 to 4"):
        nd.take(nd.ones((5, 4)).tostype("csr"), nd.array([-1]))
    with pytest.raises(IndexError, match="wanted 0 to 4"):
        nd.contrib.SparseEmbedding(nd.array([5]), nd.ones((5, 4)), input_dim=5, output_dim=4)


def test_training_is_unchanged(on_host):
    """A program without mistakes computes the same bits."""
    def train():
        mx.random.seed(3)
        np.random.seed(3)
        net = nn.HybridSequential()
        net.add(nn.Conv2D(4, 3), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(), nn.Dropout(0.3), nn.Dense(5))
        net.initialize(mx.init.Xavier())
        net.hybridize()
        loss, trainer = gluon.loss.SoftmaxCrossEntropyLoss(), gluon.Trainer(net.collect_params(), "adam")
        for _ in range(3):
            x, y = nd.random.uniform(shape=(4, 1, 8, 8)), nd.array([0, 1, 4, 2])
            with autograd.record():
                value = loss(net(x), y)
            value.backward()
            trainer.step(4)
        return [p.data().asnumpy() for p in net.collect_params().values()]
    checked = train()
    mx.util.set_check(False)
    for a, b in zip(checked, train()):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
