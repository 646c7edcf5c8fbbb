"""Mixed precision: networks in 16 bits, masters in float32, scaled losses, converted graphs."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.contrib import amp
from mxnet.gluon import nn

HALVES = ["float16", "bfloat16"]


def name_of(array):
    return mx._core.dtype_name(array.dtype)


def blobs(n=96, seed=0):
    """Images with a bright corner, which says their class."""
    rng = np.random.RandomState(seed)
    label = rng.randint(0, 4, n)
    images = rng.normal(0, 0.5, (n, 1, 8, 8))
    for i, k in enumerate(label):
        images[i, 0, 4 * (k // 2):4 * (k // 2) + 4, 4 * (k % 2):4 * (k % 2) + 4] += 1
    return images.astype("float32"), label.astype("float32")


def network():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(),
            nn.Dense(16, activation="relu"), nn.Dense(4))
    return net


def train(net, trainer, dtype, scaled=False, epochs=6, batch=24):
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()
    images, labels = blobs()
    for _ in range(epochs):
        for at in range(0, len(images), batch):
            x, y = nd.array(images[at:at + batch]).astype(dtype), nd.array(labels[at:at + batch])
            with autograd.record():
                loss = criterion(net(x).astype("float32"), y)
                if scaled:
                    with amp.scale_loss(loss, trainer) as scaled_loss:
                        autograd.backward(scaled_loss)
            if not scaled:
                loss.backward()
            trainer.step(batch)
    images, labels = blobs(seed=1)
    return (net(nd.array(images).astype(dtype)).astype("float32").asnumpy().argmax(axis=1) == labels).mean()


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("hybrid", [False, True])
def test_networks_in_16_bits_learn(dtype, hybrid):
    net = network()
    net.initialize(mx.init.Xavier())
    net.cast(dtype)
    if hybrid:
        net.hybridize()
    trainer = gluon.Trainer(
    net.collect_params(), "sgd", {
        "learning_rate": 0.1, "momentum": 0.9, "multi_precision": True})
    assert train(net, trainer, dtype) > 0.95
    assert name_of(net[0].weight.data()) == dtype and name_of(net[0].weight.grad()) == dtype
    assert name_of(net[1].gamma.data()) == name_of(net[1].running_var.data()) == "float32"
    assert name_of(net(nd.ones((1, 1, 8, 8)).astype(dtype))) == dtype


@pytest.mark.parametrize("dtype", HALVES)
def test_recurrent_networks_in_16_bits_learn(dtype):
    net = nn.HybridSequential()
    net.add(gluon.rnn.LSTM(12, layout="NTC"), nn.Dense(4))
    net.initialize(mx.init.Xavier())
    net.cast(dtype)
    images, labels = blobs()
    x, y = nd.array(images[:, 0]).astype(dtype), nd.array(labels)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02, "multi_precision": True})
    criterion, losses = gluon.loss.SoftmaxCrossEntropyLoss(), []
    for _ in range(25):
        with autograd.record():
            loss = criterion(net(x).astype("float32"), y)
        loss.backward()
        trainer.step(len(images))
        losses.append(float(loss.mean().asscalar()))
    assert losses[-1] < 0.4 * losses[0]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", sorted(set(mx.optimizer.Optimizer.opt_registry) - {"test"}))
def test_masters_are_in_float32(name, dtype):
    """Updates of a weight in 16 bits are those of its float32 master."""
    start = nd.array(np.linspace(-1, 1, 12).reshape(3, 4)).astype(dtype)
    grad = nd.array(np.linspace(0.1, 0.5, 12).reshape(3, 4)).astype(dtype)
    results = []
    for weight, gradient in ((start.copy(), grad), (start.astype("float32"), grad.astype("float32"))):
        mx.random.seed(0)
        updater = mx.optimizer.get_updater(mx.optimizer.create(name, multi_precision=True))
        for _ in range(5):
            updater(0, gradient, weight)
        results.append(weight)
    assert name_of(results[0]) == dtype
    assert np.array_equal(results[0].astype("float32").asnumpy(), results[1].astype(dtype).astype("float32").asnumpy())


def test_small_updates_are_not_lost():
    for precise in (False, True):
        weight, updater = nd.ones((1,), dtype="float16"), mx.optimizer.get_updater(
            mx.optimizer.create("sgd", learning_rate=1e-4, multi_precision=precise))
        for _ in range(100):
            updater(0, nd.ones((1,), dtype="float16"), weight)
        assert (weight.asscalar() == 1) != precise


# ---- scaling ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def initialized():
    """Scaling alone: products stay in float32."""
    amp.init(fp32_ops=amp.list_lp16_ops("float16"))
    yield
    amp.amp._off()


# ---- casts -----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=HALVES)
def target(request):
    amp.init(request.param)
    yield request.param
    amp.amp._off()


def test_operators_compute_in_their_precision(target):
    x, w, b = nd.random.uniform(-1, 1, shape=(4, 6)), nd.random.uniform(-1, 1, shape=(3, 6)), nd.ones((3,))
    y = nd.FullyConnected(x, w, b, num_hidden=3)
    assert name_of(y) == target and name_of(nd.relu(y)) == target  # as it comes
    assert name_of(nd.softmax(y)) == "float32" and name_of(nd.sum(y)) == "float32"
    assert name_of(y + b) == "float32" and name_of(y + y) == target
    assert name_of(nd.Activation(y, act_type="softrelu")) == "float32"
    assert name_of(nd.Activation(y, act_type="tanh")) == target
    gamma = nd.ones((3,))
    assert name_of(nd.BatchNorm(y, gamma, gamma, gamma, gamma)) == target
    wide = x.astype("float64")
    assert name_of(nd.dot(wide, wide, transpose_b=True)) == "float64"  # left alone
    assert name_of(nd.array([1, 2], dtype="int32") + nd.array([3, 4], dtype="int32")) == "int32"
    out = nd.zeros((4, 3))
    nd.FullyConnected(x, w, b, num_hidden=3, out=out)
    assert np.array_equal(out.asnumpy(), y.astype("float32").asnumpy())
    with pytest.raises(ValueError, match="FullyConnected"):
        nd.FullyConnected(x, w, nd.ones((4,)), num_hidden=3)


def test_gradients_come_back_in_the_types_of_their_arrays(target):
    x, w = nd.random.uniform(-1, 1, shape=(4, 6)), nd.random.uniform(-1, 1, shape=(3, 6))
    for array in (x, w):
        array.attach_grad()
    with autograd.record():
        loss = (nd.FullyConnected(x, w, num_hidden=3, no_bias=True) ** 2).sum()
    loss.backward()
    assert name_of(x.grad) == name_of(w.grad) == "float32"
    expected = 2 * (x.asnumpy() @ w.asnumpy().T) @ w.asnumpy()
    assert np.allclose(x.grad.asnumpy(), expected, rtol=5e-2, atol=5e-2)


def test_symbols_have_the_casts(target):
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    net = mx.sym.softmax(net, name="soft")
    assert net.list_arguments() == ["data", "fc_weight", "fc_bias"] and net.list_outputs() == ["soft_output"]
    casts = [n for n in net.get_internals().list_outputs() if "amp_cast" in n]
    assert len(casts) == 4
    assert "amp_cast" not in net.tojson() and "amp_cast" in net.tojson(remove_amp_cast=False)
    result, = net.bind(mx.current_context(), {"data": nd.ones((2, 4)), "fc_weight": nd.ones((3, 4)),
                                              "fc_bias": nd.zeros((3,))}).forward()
    assert name_of(result) == "float32" and np.allclose(result.asnumpy(), 1 / 3, atol=1e-3)


@pytest.mark.parametrize("mode", ["imperative", "hybrid", "whole"])
def test_networks_learn_in_mixed_precision(target, mode):
    net = network()
    net.initialize(mx.init.Xavier())
    if mode != "imperative":
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    amp.init_trainer(trainer)
    if mode == "whole":
        step = gluon.TrainStep(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
        images, labels = (nd.array(part) for part in blobs())
        for _ in range(6):
            for at in range(0, 96, 24):
                step(images[at:at + 24], labels[at:at + 24])
        images, labels = blobs(seed=1)
        right = (net(nd.array(images)).astype("float32").asnumpy().argmax(axis=1) == labels).mean()
    else:
        right = train(net, trainer, "float32", scaled=True)
    assert right > 0.95
    assert name_of(net(nd.array(blobs()[0]))) == target
    assert {name_of(p.data()) for p in net.collect_params().values()} == {"float32"}


def lenet_accuracy(dtype, hybrid):
    """Of LeNet after four epochs on images of ten patterns with noise; the scale of float16 finds itself meanwhile."""
    random = np.random.RandomState(0)
    patterns = random.normal(size=(10, 1, 7, 7)).repeat(4, 2).repeat(4, 3)
    labels = random.randint(0, 10, 640)
    images = (patterns[labels] + random.normal(0, 0.5, (640, 1, 28, 28))).astype("float32")
    mx.random.seed(1)
    if dtype != "float32":
        amp.init(dtype)
    try:
        net = nn.HybridSequential()
        net.add(nn.Conv2D(6, 5, padding=2, activation="relu"), nn.MaxPool2D(2, 2), nn.Conv2D(16, 5, activation="relu"),
                nn.MaxPool2D(2, 2), nn.Dense(120, activation="relu"), nn.Dense(84, activation="relu"), nn.Dense(10))
        net.initialize(mx.init.Xavier())
        if hybrid:
            net.hybridize()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.02, "momentum": 0.9})
        if dtype == "float16":
            amp.init_trainer(trainer)
        criterion, right = gluon.loss.SoftmaxCrossEntropyLoss(), 0
        for at in list(range(0, 512, 32)) * 4:
            x, y = nd.array(images[at:at + 32]), nd.array(labels[at:at + 32])
            with autograd.record():
                loss = criterion(net(x), y)
                scaled = trainer._amp_loss_scaler._scale(loss) if dtype == "float16" else loss
            scaled.backward()
            trainer.step(32)
        said = net(nd.array(images[512:])).astype("float32").asnumpy().argmax(axis=1)
        return (said == labels[512:]).mean()
    finally:
        amp.amp._off()


@pytest.mark.parametrize("hybrid", [False, True])
def test_lenet_learns_as_in_float32(hybrid):
    reached = {dtype: lenet_accuracy(dtype, hybrid) for dtype in ("float32", "float16", "bfloat16")}
    assert min(reached.values()) > max(0.95, reached["float32"] - 0.02), reached


@pytest.mark.parametrize("kind", ["lstm", "attention", "prelu", "embedding"])
@pytest.mark.parametrize("hybrid", [False, True])
def test_layers_run_in_mixed_precision(target, kind, hybrid):
    made = {"lstm": lambda: gluon.rnn.LSTM(5, 2), "prelu": lambda: nn.PReLU(),
            "attention": lambda: nn.LayerNorm(), "embedding": lambda: nn.Embedding(9, 4)}[kind]()
    net = nn.HybridSequential()
    net.add(made, nn.Dense(3, flatten=False))
    net.initialize()
    if hybrid:
        net.hybridize()
    x = nd.array(np.random.randint(0, 9, (4, 3))) if kind == "embedding" else nd.random.normal(shape=(4, 3, 6))
    with autograd.record():
        loss = (net(x) ** 2).mean()
    loss.backward()
    assert np.isfinite(loss.asscalar()) and name_of(loss) == "float32"
    for p in net.collect_params().values():
        assert name_of(p.grad()) == "float32" and np.isfinite(p.grad().asnumpy()).all()


def test_own_lists_and_plans_made_before():
    x = nd.random.uniform(-1, 1, shape=(4, 6))
    net = nn.Dense(3)
    net.initialize()
    net.hybridize()
    plain = net(x)
    assert name_of(plain) == "float32"
    try:
        amp.init("bfloat16", target_precision_ops=["exp"], fp32_ops=["FullyConnected"],
                 conditional_fp32_ops=[("Activation", "act_type", ["relu", "tanh"])])
        assert name_of(nd.exp(x)) == "bfloat16" and np.array_equal(net(x).asnumpy(), plain.asnumpy())
        assert name_of(nd.Activation(nd.exp(x), act_type="tanh")) == "float32"
        assert name_of(nd.Activation(nd.exp(x), act_type="sigmoid")) == "bfloat16"
    finally:
        amp.amp._off()
    with pytest.raises(mx.MXNetError, match="nothing"):
        amp.init("bfloat16", fp32_ops=["nothing"])
    amp.init("bfloat16")  # the failed call has left it off
    try:
        assert name_of(net(x)) == "bfloat16"
    finally:
        amp.amp._off()
    assert np.array_equal(net(x).asnumpy(), plain.asnumpy())


def test_scaled_losses_learn(initialized):
    net = network()
    net.initialize(mx.init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    amp.init_trainer(trainer)
    assert trainer._amp_loss_scaler.loss_scale == 65536
    assert train(net, trainer, "float32", scaled=True) > 0.95


def one_step(trainer, net, x, unscale=False, scaled=True):
    with autograd.record():
        loss = (net(x) ** 2).sum()
    if scaled:
        with autograd.record(), amp.scale_loss(loss, trainer) as scaled_loss:
            pass
        scaled_loss.backward()
    else:
        loss.backward()
    if unscale:
        amp.unscale(trainer)
    grad = net.weight.grad().asnumpy()
    trainer.step(2)
    return grad


def dense():
    net = nn.Dense(2, in_units=3)
    net.initialize(mx.init.One())
    return net, gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})


def test_steps_are_divided_by_the_scale(initialized):
    x = nd.array([[1.0, 2.0, 3.0]])
    (plain, plain_trainer), (net, trainer), (other, other_trainer) = dense(), dense(), dense()
    amp.init_trainer(trainer)
    amp.init_trainer(other_trainer)
    for _ in range(3):
        expected = one_step(plain_trainer, plain, x, scaled=False)
        assert np.allclose(one_step(trainer, net, x), expected * 65536, rtol=1e-4)
        assert np.allclose(one_step(other_trainer, other, x, unscale=True), expected, rtol=1e-4)
    for one in (net, other):
        assert np.allclose(one.weight.data().asnumpy(), plain.weight.data().asnumpy(), rtol=1e-5)


def test_overflows_leave_steps_out(initialized):
    net, trainer = dense()
    amp.init_trainer(trainer)
    before = net.weight.data().asnumpy()
    one_step(trainer, net, nd.array([[1e36, 0, 0]]))
    assert np.array_equal(net.weight.data().asnumpy(), before) and trainer._amp_loss_scaler.loss_scale == 32768
    one_step(trainer, net, nd.array([[1.0, 0, 0]]))
    assert not np.array_equal(net.weight.data().asnumpy(), before)
    scaler = amp.LossScaler(init_scale=8, scale_window=2)
    for _ in range(2):
        assert not scaler.has_overflow(net.collect_params().values())
    assert scaler.loss_scale == 16


def test_sparse_gradients_are_scaled(initialized):
    results = []
    for scaled in (False, True):
        net = nn.Embedding(6, 2, sparse_grad=True)
        net.initialize(mx.init.One())
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        if scaled:
            amp.init_trainer(trainer)
            assert not trainer._amp_loss_scaler.has_overflow(net.collect_params().values())
        for unscale in (False, scaled):
            with autograd.record():
                loss = (net(nd.array([1, 4, 1])) ** 2).sum()
                head = trainer._amp_loss_scaler._scale(loss) if scaled else loss
            head.backward()
            if unscale:
                amp.unscale(trainer)
                assert abs(float(net.weight.grad().tostype("default").asnumpy()[4, 0])) < 2.1
            trainer.step(1)
        results.append(net.weight.data().asnumpy())
    assert np.allclose(*results, rtol=1e-5) and results[0][1, 0] < results[0][4, 0] < results[0][0, 0]


def test_whole_steps_scale_too(initialized):
    net, trainer = dense()
    net.hybridize()
    amp.init_trainer(trainer)
    step = gluon.TrainStep(net, gluon.loss.L2Loss(), trainer)
    plain, plain_trainer = dense()
    plain_step = gluon.TrainStep(plain, gluon.loss.L2Loss(), plain_trainer)
    for _ in range(3):
        x, y = nd.random.normal(shape=(4, 3)), nd.random.normal(shape=(4, 2))
        assert np.allclose(step(x, y).asnumpy(), plain_step(x, y).asnumpy(), rtol=1e-4, atol=1e-5)
    assert np.allclose(net.weight.data().asnumpy(), plain.weight.data().asnumpy(), rtol=1e-4)


def test_scaling_is_checked(initialized):
    _, trainer = dense()
    for call in (lambda: amp.scale_loss(nd.ones((1,)), trainer).__enter__(), lambda: amp.unscale(trainer)):
        with pytest.raises(AssertionError, match="init_trainer"):
            call()
    with pytest.raises(TypeError):
        amp.init_trainer("sgd")
    with pytest.raises(ValueError):
        amp.init("int8")
    with pytest.raises(ValueError):
        amp.LossScaler(scale_factor=1)
    amp.init_trainer(trainer)
    with amp.scale_loss([nd.ones((1,)), nd.ones((2,))], trainer) as losses:
        assert [float(x.sum().asscalar()) for x in losses] == [65536, 131072]


# ---- conversion ------------------------------------------------------------------------------------------------------


def test_converted_symbols():
    data = mx.sym.var("data")
    net = mx.sym.FullyConnected(data, num_hidden=4, name="fc1")
    net = mx.sym.relu(net, name="act")
    net = mx.sym.FullyConnected(net, num_hidden=3, name="fc2") + mx.sym.var("shift")
    net = mx.sym.softmax(net, name="soft")
    made = amp.convert_symbol(net)
    assert made.list_arguments() == net.list_arguments() and made.list_outputs() == net.list_outputs()
    casts = [name for name in made.get_internals().list_outputs() if "amp_cast" in name]
    assert "data_amp_cast_float16_output" in casts and not any(name.startswith("act") for name in casts)
    shapes, _, _ = net.infer_shape(data=(2, 5), shift=(2, 3))
    values = {name: nd.random.uniform(-1, 1, shape=shape) for name, shape in zip(net.list_arguments(), shapes)}
    expected, = net.bind(mx.current_context(), values).forward()
    got, = made.bind(mx.current_context(), values).forward()
    assert name_of(got) == "float32" and np.allclose(got.asnumpy(), expected.asnumpy(), atol=5e-3)
    assert not np.array_equal(got.asnumpy(), expected.asnumpy())  # it did run in 16 bits
    same, = amp.convert_symbol(net, excluded_sym_names=["fc1", "fc2"]).bind(mx.current_context(), values).forward()
    assert np.array_equal(same.asnumpy(), expected.asnumpy())
    with pytest.raises(ValueError, match="nothing"):
        amp.convert_symbol(net, excluded_sym_names=["nothing"])


def test_conversions_take_own_lists():
    data = mx.sym.var("data")
    net = mx.sym.Activation(mx.sym.FullyConnected(data, num_hidden=4, name="fc"), act_type="tanh", name="act")

    def casts(**lists):
        outputs = amp.convert_symbol(net, **lists).get_internals().list_outputs()
        return [name.replace("_output", "") for name in outputs if "amp_cast" in name]
    cast = ["data_amp_cast_float16", "fc_weight_amp_cast_float16", "fc_bias_amp_cast_float16"]
    assert casts() == cast
    assert casts(conditional_fp32_ops=[("Activation", "act_type", ["relu", "tanh"])]) == cast + ["fc_amp_cast_float32"]
    assert casts(target_dtype_ops=["Activation"]) == ["fc_amp_cast_float16"]
    assert casts(target_dtype_ops=[]) == [] and casts(fp32_ops=["Activation"])[-1] == "fc_amp_cast_float32"
    with pytest.raises(mx.MXNetError, match="no_operator"):
        amp.convert_symbol(net, fp32_ops=["no_operator"])
    split = mx.sym.split(mx.sym.FullyConnected(data, num_hidden=4, name="fc"), num_outputs=2, name="halves")
    names = amp.convert_symbol(mx.sym.softmax(split[1])).get_internals().list_outputs()
    assert "halves_1_amp_cast_float32_output" in names  # named after the second output


@pytest.mark.parametrize("dtype", HALVES)
def test_converted_blocks(dtype):
    net = network()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x = nd.random.normal(shape=(2, 1, 8, 8))
    expected = net(x).asnumpy()
    made = amp.convert_hybrid_block(net, target_dtype=dtype, cast_optional_params=True)
    got = made(x).astype("float32").asnumpy()
    assert np.allclose(got, expected, atol=0.1) and not np.array_equal(got, expected)
    kinds = {name_of(p.data()) for p in made.collect_params().values()}
    assert kinds == {dtype, "float32"}  # weights of products, and those of the normalisation


def test_converted_models():
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc"), name="softmax")
    module = mx.mod.Module(net)
    module.bind([("data", (4, 2))], [("softmax_label", (4,))])
    module.init_params(mx.init.One())
    symbol, arguments, auxiliary = amp.convert_model(net, *module.get_params(), cast_optional_params=True)
    assert name_of(arguments["fc_weight"]) == "float16" and auxiliary == {}
    other = mx.mod.Module(symbol)
    other.bind([("data", (4, 2))], [("softmax_label", (4,))], for_training=False)
    other.set_params(arguments, auxiliary)
    batch = mx.io.DataBatch([nd.random.uniform(shape=(4, 2))], [nd.zeros((4,))])
    for one in (module, other):
        one.forward(batch, is_train=False)
    assert np.allclose(module.get_outputs()[0].asnumpy(), other.get_outputs()[0].asnumpy(), atol=1e-2)


def test_lists():
    assert "FullyConnected" in amp.list_lp16_ops("float16") and "softmax" in amp.list_fp32_ops("bfloat16")
    assert not set(amp.list_lp16_ops("float16")) & set(amp.list_fp32_ops("float16"))
    assert set(amp.list_loss_output_functions("float16")) <= set(amp.list_fp32_ops("float16"))
    with pytest.raises(ValueError):
        amp.list_lp16_ops("float64")
