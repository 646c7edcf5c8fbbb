"""Callbacks and the monitor."""
import logging
import types

import pytest

import mxnet as mx
from mxnet import callback, gluon, nd


def param(nbatch, metric=None, epoch=1):
    return types.SimpleNamespace(epoch=epoch, nbatch=nbatch, eval_metric=metric, locals=None)


@pytest.fixture
def logged(caplog):
    caplog.set_level(logging.INFO)
    return caplog


def accuracy():
    metric = mx.metric.Accuracy()
    metric.update(nd.array([1]), nd.array([[0, 1]]))
    return metric


def test_speedometer(logged):
    meter, metric = callback.Speedometer(32, frequent=2), accuracy()
    for n in range(5):
        meter(param(n, metric))
    lines = [r.getMessage() for r in logged.records]
    assert len(lines) == 2 and "samples/sec" in lines[0] and "accuracy=1.000000" in lines[0] and "Epoch[1]" in lines[0]
    assert "nan" in lines[1] and metric.get_global()[1] == 1  # auto_reset


def test_progress_bar(logged):
    callback.ProgressBar(10, length=10)(param(5))
    assert "=====-----" in logged.text and "50%" in logged.text


def test_metric_logs(logged):
    callback.log_train_metric(2)(param(3, accuracy()))
    assert not logged.records
    callback.log_train_metric(2)(param(4, accuracy()))
    callback.LogValidationMetricsCallback()(param(4, accuracy()))
    assert "Train-accuracy=1.0" in logged.text and "Validation-accuracy=1.0" in logged.text


def test_module_checkpoint():
    saved = []
    module = types.SimpleNamespace(save_checkpoint=lambda *args: saved.append(args))
    save = callback.module_checkpoint(module, "p", period=2, save_optimizer_states=True)
    for epoch in range(4):
        save(epoch)
    assert saved == [("p", 2, True), ("p", 4, True)]


def test_monitor_of_a_block():
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Dense(2, in_units=2), gluon.nn.Dense(1, in_units=2))
    net.initialize(mx.init.One())
    monitor = mx.monitor.Monitor(2, stat_func=lambda x: x.max(), pattern=".*dense0.*", sort=True)
    monitor.install(net)
    monitor.tic()
    net(nd.ones((1, 2)))
    found = monitor.toc()
    assert [(name, text) for _, name, text in found] == [("net_dense0_bias", "0.0"), ("net_dense0_output", "2.0"),
                                                         ("net_dense0_weight", "1.0")]
    monitor.tic()  # not every batch
    net(nd.ones((1, 2)))
    assert monitor.toc() == []
    with pytest.raises(TypeError):
        monitor.install(3)
