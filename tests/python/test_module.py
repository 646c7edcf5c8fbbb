"""Modules: training by symbols, buckets, modules in a row, checkpoints, FeedForward."""
import logging

import numpy as np
import pytest

import mxnet as mx
from mxnet import nd


def blobs(n=200, seed=0):
    """Points around three corners of a square, which a small network learns to classify."""
    rng = np.random.RandomState(seed)
    label = rng.randint(0, 3, n)
    data = np.array([[0, 0], [2, 0], [0, 2]])[label] + rng.normal(0, 0.35, (n, 2))
    return data.astype("float32"), label.astype("float32")


def mlp(hidden=16, classes=3):
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=hidden, name="fc1")
    net = mx.sym.Activation(net, act_type="relu")
    net = mx.sym.BatchNorm(net, name="bn", fix_gamma=False)
    net = mx.sym.FullyConnected(net, num_hidden=classes, name="fc2")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def iterators(batch_size=20):
    data, label = blobs()
    test, test_label = blobs(seed=1)
    return (mx.io.NDArrayIter(data, label, batch_size, shuffle=True),
            mx.io.NDArrayIter(test, test_label, batch_size))


def fitted(epochs=6, **kwargs):
    train, test = iterators()
    module = mx.mod.Module(mlp(), **kwargs)
    module.fit(train, eval_data=test, num_epoch=epochs, initializer=mx.init.Xavier(),
               optimizer_params={"learning_rate": 0.2, "momentum": 0.9})
    return module, test


def test_fit_learns_and_predicts():
    module, test = fitted()
    (name, value), = module.score(test, "acc")
    assert name == "accuracy" and value > 0.97
    probabilities = module.predict(test)
    assert probabilities.shape == (200, 3)
    assert np.allclose(probabilities.asnumpy().sum(axis=1), 1, atol=1e-5)
    assert (probabilities.asnumpy().argmax(axis=1) == blobs(seed=1)[1]).mean() == value
    assert module.output_shapes == [("softmax_output", (20, 3))]
    assert module.data_shapes[0].name == "data" and module.label_shapes[0].shape == (20,)


def test_several_contexts_give_what_one_gives():
    train, _ = iterators()
    train = mx.io.NDArrayIter(*blobs(), batch_size=20)
    results = []
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc"), name="softmax")
    start = {"fc_weight": nd.array(np.random.uniform(-1, 1, (3, 2))), "fc_bias": nd.zeros((3,))}
    for contexts in (mx.cpu(0), [mx.cpu(0), mx.cpu(1)]):
        module = mx.mod.Module(net, context=contexts)
        module.fit(train, num_epoch=2, arg_params=start, aux_params={},
                   optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
        results.append(module.get_params()[0]["fc_weight"].asnumpy())
    assert np.allclose(*results, atol=1e-5) and not np.allclose(results[0], start["fc_weight"].asnumpy())


def test_callbacks_and_logging(caplog):
    train, test = iterators()
    seen, epochs = [], []
    module = mx.mod.Module(mlp())
    with caplog.at_level(logging.INFO):
        module.fit(train, eval_data=test, num_epoch=2, batch_end_callback=[lambda p: seen.append((p.epoch, p.nbatch)),
                                                                           mx.callback.Speedometer(20, 5)],
                   epoch_end_callback=lambda epoch, symbol, arg, aux: epochs.append((epoch, sorted(arg), sorted(aux))))
    assert seen == [(e, b) for e in range(2) for b in range(10)]
    assert epochs[1] == (1, ["bn_beta", "bn_gamma", "fc1_bias", "fc1_weight", "fc2_bias", "fc2_weight"],
                         ["bn_moving_mean", "bn_moving_var"])
    assert "Validation-accuracy" in caplog.text and "samples/sec" in caplog.text


def test_checkpoint_and_states(tmp_path):
    module, test = fitted(3)
    prefix = str(tmp_path / "net")
    module.save_checkpoint(prefix, 3, save_optimizer_states=True)
    loaded = mx.mod.Module.load(prefix, 3, load_optimizer_states=True)
    loaded.bind(test.provide_data, test.provide_label)
    assert loaded.score(test, "acc") == module.score(test, "acc")
    loaded.init_optimizer(optimizer_params={"learning_rate": 0.2, "momentum": 0.9})
    test.reset()
    batch = next(test)
    for one in (module, loaded):
        one.forward_backward(batch)
        one.update()
    for name, value in module.get_params()[0].items():
        assert np.allclose(value.asnumpy(), loaded.get_params()[0][name].asnumpy(), atol=1e-6), name
    symbol, arguments, auxiliary = mx.model.load_checkpoint(prefix, 3)
    assert symbol.list_outputs() == ["softmax_output"] and set(auxiliary) == {"bn_moving_mean", "bn_moving_var"}
    other = mx.mod.Module(symbol)
    other.bind(test.provide_data, test.provide_label)
    other.set_params(arguments, auxiliary)
    other.save_params(str(tmp_path / "plain.params"))
    other.load_params(str(tmp_path / "plain.params"))
    assert other.score(test, "acc")[0][1] > 0.9


def test_shapes_may_change_between_batches():
    module, _ = fitted(1)
    before = module.get_params()[0]["fc1_weight"].asnumpy()
    x = nd.random.uniform(shape=(7, 2))
    module.forward(mx.io.DataBatch([x], [nd.zeros((7,))]), is_train=False)
    assert module.get_outputs()[0].shape == (7, 3) and module.data_shapes[0].shape == (7, 2)
    assert np.array_equal(module.get_params()[0]["fc1_weight"].asnumpy(), before)
    module.reshape([("data", (20, 2))], [("softmax_label", (20,))])
    assert module.output_shapes[0][1] == (20, 3)


def test_input_gradients_and_fixed_parameters():
    net = mx.sym.sum(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, no_bias=True, name="fc"))
    module = mx.mod.Module(mx.sym.MakeLoss(net), label_names=None, fixed_param_names=["fc_weight"])
    module.bind([("data", (2, 4))], inputs_need_grad=True)
    module.init_params(mx.init.One())
    module.init_optimizer(optimizer_params={"learning_rate": 1.0})
    module.forward(mx.io.DataBatch([nd.ones((2, 4))]), is_train=True)
    module.backward()
    assert np.array_equal(module.get_input_grads()[0].asnumpy(), np.full((2, 4), 3))
    module.update()
    assert np.array_equal(module.get_params()[0]["fc_weight"].asnumpy(), np.ones((3, 4)))


def test_given_parameters_are_checked():
    module = mx.mod.Module(mlp())
    with pytest.raises(AssertionError, match="bind"):
        module.init_params()
    module.bind([("data", (4, 2))], [("softmax_label", (4,))])
    with pytest.raises(AssertionError, match="init_params"):
        module.forward(mx.io.DataBatch([nd.ones((4, 2))], [nd.zeros((4,))]))
    with pytest.raises(RuntimeError, match="fc1_weight"):
        module.init_params(arg_params={}, aux_params={})
    with pytest.raises(ValueError, match="shape"):
        module.init_params(arg_params={"fc1_weight": nd.ones((2, 2))}, allow_missing=True)
    module.init_params(arg_params={"fc1_bias": nd.ones((16,)), "extra": nd.ones((1,))}, allow_missing=True)
    assert np.array_equal(module.get_params()[0]["fc1_bias"].asnumpy(), np.ones(16))
    larger = {**module.get_params()[0], "fc1_bias": nd.zeros((16,)), "extra": nd.ones((1,))}  # of a larger symbol
    module.set_params(larger, module.get_params()[1])
    assert np.array_equal(module.get_params()[0]["fc1_bias"].asnumpy(), np.zeros(16))
    with pytest.raises(ValueError, match="input"):
        mx.mod.Module(mlp(), data_names=["input"])
    with pytest.raises(AssertionError, match="num_epoch"):
        module.fit(iterators()[0])
    with pytest.raises(AssertionError, match="init_optimizer"):
        module.update()


def test_states_are_set_by_the_program():
    net = mx.sym.FullyConnected(mx.sym.var("data") + mx.sym.var("h"), num_hidden=2, name="fc")
    module = mx.mod.Module(net, label_names=None, state_names=["h"])
    module.bind([("data", (3, 2))], for_training=False)
    module.init_params(mx.init.One())
    module.set_states(value=2)
    assert np.array_equal(module.get_states()[0].asnumpy(), np.full((3, 2), 2))
    module.forward(mx.io.DataBatch([nd.ones((3, 2))]))
    assert np.allclose(module.get_outputs()[0].asnumpy(), 6)


def test_monitor():
    train, _ = iterators()
    found = []
    monitor = mx.mon.Monitor(1, lambda x: found.append(1) or x.norm(), pattern=".*fc1.*")
    mx.mod.Module(mlp()).fit(train, num_epoch=1, monitor=monitor)
    assert found


# ---- buckets -------------------------------------------------------------------------------------------------------


class Lengths(mx.io.DataIter):
    """Batches of sequences of two lengths; the label is whether the mean is positive."""

    def __init__(self, lengths=(4, 6), batch_size=16, batches=30):
        super().__init__(batch_size)
        self.lengths, self.batches, self.default_bucket_key = lengths, batches, max(lengths)
        self.provide_data = [mx.io.DataDesc("data", (batch_size, max(lengths), 2))]
        self.provide_label = [mx.io.DataDesc("softmax_label", (batch_size,))]
        self.reset()

    def reset(self):
        self.done, self.rng = 0, np.random.RandomState(0)

    def next(self):
        if self.done == self.batches:
            raise StopIteration
        self.done += 1
        length = self.lengths[self.done % len(self.lengths)]
        x = self.rng.normal(0, 1, (self.batch_size, length, 2))
        return mx.io.DataBatch([nd.array(x)], [nd.array(x.mean(axis=(1, 2)) > 0)], bucket_key=length,
                               provide_data=[mx.io.DataDesc("data", x.shape)], provide_label=self.provide_label)


def bucket(length):
    net = mx.sym.mean(mx.sym.var("data"), axis=1)
    net = mx.sym.FullyConnected(net, num_hidden=2, name="fc")
    return mx.sym.SoftmaxOutput(net, name="softmax"), ("data",), ("softmax_label",)


def test_buckets_share_parameters(tmp_path):
    source = Lengths()
    module = mx.mod.BucketingModule(bucket, default_bucket_key=6)
    module.fit(source, num_epoch=5, optimizer_params={"learning_rate": 1.0, "momentum": 0.9})
    assert sorted(module._buckets) == [4, 6]
    weights = [m.get_params()[0]["fc_weight"].asnumpy() for m in module._buckets.values()]
    assert np.array_equal(*weights)
    assert module.score(source, "acc")[0][1] > 0.9
    module.save_checkpoint(str(tmp_path / "b"), 1)
    again = mx.mod.BucketingModule.load(str(tmp_path / "b"), 1, bucket, 6)
    again.bind(source.provide_data, source.provide_label, for_training=False)
    assert again.score(source, "acc") == module.score(source, "acc")


# ---- modules in a row ----------------------------------------------------------------------------------------------


def test_modules_in_a_row():
    body = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=8, name="fc1"), act_type="tanh")
    head = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc2"), name="softmax")
    net = mx.mod.SequentialModule()
    net.add(mx.mod.Module(body, label_names=None)).add(mx.mod.Module(head), take_labels=True, auto_wiring=True)
    train, test = iterators()
    net.fit(train, num_epoch=8, initializer=mx.init.Xavier(), optimizer_params={"learning_rate": 0.5})
    assert net.score(test, "acc")[0][1] > 0.95
    assert set(net.get_params()[0]) == {"fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"}
    with pytest.raises(AssertionError, match="option"):
        net.add(net, labels=True)


def test_a_loss_in_python():
    def gradient(scores, labels):
        p = scores.softmax().asnumpy()
        p[np.arange(len(p)), labels.asnumpy().astype(int)] -= 1
        return p
    body = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    net = mx.mod.SequentialModule()
    net.add(mx.mod.Module(body, label_names=None))
    net.add(mx.mod.PythonLossModule(grad_func=gradient), take_labels=True, auto_wiring=True)
    train, test = iterators()
    net.fit(train, num_epoch=8, optimizer_params={"learning_rate": 0.5})
    assert net.score(test, "acc")[0][1] > 0.95


def test_feed_forward(tmp_path):
    data, label = blobs()
    model = mx.model.FeedForward.create(mlp(), data, label, num_epoch=20, learning_rate=0.2, momentum=0.9,
                                        initializer=mx.init.Xavier())
    _, test = iterators()
    assert model.score(test) > 0.95
    assert model.predict(blobs(seed=1)[0]).shape == (200, 3)
    outputs, inputs, labels = model.predict(test, return_data=True)
    assert inputs.shape == (200, 2) and labels.shape == (200,) and outputs.shape == (200, 3)
    model.save(str(tmp_path / "f"))
    loaded = mx.model.FeedForward.load(str(tmp_path / "f"), 20)
    assert loaded.score(test) == model.score(test)


def test_variance_reduced_gradients():
    rng = np.random.RandomState(0)
    x = rng.normal(0, 1, (120, 3)).astype("float32")
    y = x @ np.array([[1.0], [-2.0], [0.5]], "float32")
    source = mx.io.NDArrayIter(x, y, 10, label_name="lin_reg_label")
    net = mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1, name="fc"),
                                        mx.sym.var("lin_reg_label"))
    from mxnet.contrib.svrg_optimization.svrg_module import SVRGModule
    module = SVRGModule(net, label_names=["lin_reg_label"], update_freq=2)
    module.fit(source, num_epoch=8, eval_metric="mse", optimizer_params={"learning_rate": 0.1})
    assert np.allclose(module.get_params()[0]["fc_weight"].asnumpy(), [[1, -2, 0.5]], atol=0.02)
    # Right after mu was computed w~ is w: every batch's gradient is mu.
    module.update_full_grads(source)
    module.forward_backward(next(source))
    assert np.allclose(module._exec_group.grad_arrays[0][0].asnumpy(), module._means[0][0].asnumpy(), atol=1e-5)
    with pytest.raises(ValueError, match="update_freq"):
        SVRGModule(net, update_freq=0)
