"""Compiled networks with blocked channels and prepared weights: whatever changes a parameter, the next run sees it."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn


def network():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
            nn.Conv2D(48, 3, padding=1), nn.GlobalAvgPool2D(), nn.Flatten())
    net.initialize(mx.init.Xavier())
    return net


DATA = np.random.RandomState(1).uniform(-1, 1, (2, 3, 18, 18)).astype("float32")


def agree(net):
    """Compiled and imperative runs give the same; returns it."""
    x = nd.array(DATA)
    net.hybridize(active=False)
    plain = net(x).asnumpy()
    net.hybridize()
    for _ in range(2):
        np.testing.assert_allclose(net(x).asnumpy(), plain, rtol=1e-5, atol=2e-6 * np.abs(plain).max())
    return plain


def set_data(net, tmp_path):
    weight = net[3].weight
    weight.set_data(nd.random.uniform(-1, 1, weight.shape))


def in_place(net, tmp_path):
    net[3].weight.data()[:] += 0.5


def one_element(net, tmp_path):
    net[3].weight.data()[1, 2, 0, 1] = 9


def slice_view(net, tmp_path):
    rows = net[3].weight.data()[4:6]
    rows *= 3


def operator_out(net, tmp_path):
    weight = net[3].weight.data()
    nd.elemwise_add(weight, weight, out=weight)


def statistics(net, tmp_path):
    net[1].running_mean.set_data(nd.ones(32) * 0.3)


def training_step(net, tmp_path):
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    with autograd.record():
        loss = (net(nd.array(DATA)) ** 2).mean()
    loss.backward()
    trainer.step(1)


def whole_step(net, tmp_path):
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
    step = gluon.TrainStep(net, gluon.loss.L2Loss(), trainer)
    step(nd.array(DATA), nd.ones((2, 48)))


def loaded_file(net, tmp_path):
    other = network()
    other(nd.array(DATA))
    other.save_parameters(str(tmp_path / "other.params"))
    net.load_parameters(str(tmp_path / "other.params"))


def buffer(net, tmp_path):
    mx.current_context().device_type == "gpu" and pytest.skip("memory of a GPU is not lent")
    view = np.frombuffer(memoryview(net[3].weight.data()), "float32")
    assert view.flags.writeable
    view[:100] = 1


def dlpack(net, tmp_path):
    mx.current_context().device_type == "gpu" and pytest.skip("NumPy cannot look into a GPU")
    view = np.from_dlpack(net[3].weight.data())
    view.flags.writeable or pytest.skip("this NumPy gives DLPack arrays as read-only")
    view[0] = 1


def initialized_again(net, tmp_path):
    net.initialize(mx.init.Normal(0.3), force_reinit=True)


CHANGES = [set_data, in_place, one_element, slice_view, operator_out, statistics, training_step, whole_step, loaded_file,
           buffer, dlpack, initialized_again]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_changed_parameters_are_seen(change, tmp_path):
    net = network()
    before = agree(net)
    change(net, tmp_path)
    after = agree(net)
    assert np.abs(after - before).max() > 1e-4


def test_memory_that_was_lent_is_read_in_every_run(on_host):
    net = network()
    agree(net)
    view = np.frombuffer(memoryview(net[3].weight.data()), "float32")
    for value in (1, 2, 3):
        before = net(nd.array(DATA)).asnumpy()
        view[:500] += value  # no call of the library between this and the next run
        assert np.abs(net(nd.array(DATA)).asnumpy() - before).max() > 1e-4
        agree(net)


def test_symbol_block_and_export(tmp_path):
    net = network()
    wanted = agree(net)
    net.export(str(tmp_path / "net"))
    loaded = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    np.testing.assert_allclose(loaded(nd.array(DATA)).asnumpy(), wanted, rtol=1e-5, atol=1e-6)
