"""Handlers and callbacks that write to TensorBoard, MLflow and Weights & Biases; the latter two where they are installed."""
import glob
import json
import logging
import os

import pytest

import mxnet as mx
from mxnet import gluon, nd
from mxnet.contrib import tracking
from mxnet.gluon.contrib.estimator import (Estimator, MLflowHandler, TensorBoardHandler, TrackingHandler, WandbHandler)


class Kept(tracking.Log):
    """A log in memory."""

    def __init__(self):
        self.params, self.values, self.ended = None, [], 0

    def start(self, params):
        self.params = params

    def write(self, values, step):
        self.values.append((step, values))

    def finish(self):
        self.ended += 1


def data():
    mx.random.seed(3)
    return gluon.data.DataLoader(gluon.data.ArrayDataset(nd.random.normal(shape=(12, 4)), nd.array([0, 1, 2] * 4)), batch_size=4)


def estimator(net=None):
    if net is None:
        net = gluon.nn.HybridSequential(prefix="net0_")
        with net.name_scope():
            net.add(gluon.nn.Dense(5, activation="relu"), gluon.nn.Dense(3))
    net.initialize()
    one = Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), train_metrics=mx.metric.Accuracy(),
                    trainer=gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.125}))
    one.logger.setLevel(logging.ERROR)
    return one


def test_epochs_and_batches():
    log, each = Kept(), Kept()
    one = estimator()
    one.fit(data(), val_data=data(), epochs=2, event_handlers=[TrackingHandler(log, params={"note": "x"}),
                                                               TrackingHandler(each, log_interval=2)])
    assert log.params == {"optimizer": "Adam", "learning_rate": 0.125, "loss": "SoftmaxCrossEntropyLoss", "epochs": 2, "note": "x"}
    assert [step for step, _ in log.values] == [1, 2] and [step for step, _ in each.values] == [2, 4, 6]
    assert set(log.values[0][1]) == {"training/accuracy", "validation/accuracy", "learning_rate"}
    assert log.values[1][1]["validation/accuracy"] == one.val_metrics[0].get()[1]
    assert "validation/accuracy" not in each.values[0][1]  # nothing was evaluated before
    assert log.ended == each.ended == 1
    with pytest.raises(ValueError, match="log_interval"):
        TrackingHandler(log, log_interval=0)


def test_tensorboard_handler(tmp_path):
    from test_tensorboard import events_of, fields
    for hybrid in (False, True):
        folder = tmp_path / str(hybrid)
        one = estimator()
        if hybrid:
            one.net.hybridize()
        one.fit(data(), epochs=2, event_handlers=[TensorBoardHandler(str(folder), histograms=True)])
        path, = glob.glob(str(folder / "events.*"))
        events = events_of(path)
        graph, = [event for event in events if 4 in event]
        names = [fields(node)[1][0] for node in fields(graph[4][0])[1]]
        assert b"net0/dense0/weight" in names and len(events) == 1 + 1 + 2 * (2 + 4)
        tags = {fields(fields(event[5][0])[1][0])[1][0].decode() for event in events if 5 in event}
        assert {"settings", "training/accuracy", "learning_rate", "net0_dense1_bias"} <= tags


def test_a_network_without_a_graph(tmp_path):
    class Odd(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x * float(x.sum().asscalar())

    net, log = Odd(), []
    one = Estimator(net, gluon.loss.L2Loss(), train_metrics=mx.metric.Loss("l"), trainer=gluon.Trainer({}, "sgd"))
    one.logger.handlers = [logging.NullHandler()]
    one.logger.warning = lambda *args: log.append(args[0] % args[1:])
    handler = TensorBoardHandler(tmp_path)
    handler._add_graph(one, [nd.ones((4, 4))])
    assert len(log) == 1 and "left out" in log[0]
    one.net = gluon.nn.Sequential()
    handler._add_graph(one, [nd.ones((4, 4))])
    assert len(log) == 1


def test_missing_packages(monkeypatch):
    for name, make in (("mlflow", MLflowHandler), ("wandb", WandbHandler), ("mlflow", tracking.MLflowCallback),
                       ("wandb", tracking.WandbCallback)):
        monkeypatch.setitem(__import__("sys").modules, name, None)
        with pytest.raises(ImportError, match=f"needs the package {name}.*pip install"):
            make()


def one_batch(callback):
    metric = mx.metric.Accuracy()
    metric.update([nd.array([0, 1])], [nd.array([[1, 0], [1, 0]])])
    callback(mx.model.BatchEndParam(epoch=0, nbatch=0, eval_metric=metric, locals=None))
    callback(mx.model.BatchEndParam(epoch=0, nbatch=1, eval_metric=None, locals=None))
    callback.close()


def test_callback():
    log = Kept()
    one_batch(tracking.MetricsCallback(log, prefix="train", params={"a": 1}))
    assert log.params == {"a": 1} and log.values == [(1, {"train-accuracy": 0.5})] and log.ended == 1


def test_mlflow(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    store = "sqlite:///" + str(tmp_path / "runs.db") if _has("sqlalchemy") else (tmp_path / "runs").as_uri()
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    handler = MLflowHandler("trial", run_name="first", tracking_uri=store, params={"note": "x"})
    one = estimator()
    one.fit(data(), epochs=2, event_handlers=[handler])
    assert mlflow.active_run() is None
    client = mlflow.tracking.MlflowClient(tracking_uri=store)
    run, = client.search_runs([client.get_experiment_by_name("trial").experiment_id])
    assert run.info.run_name == "first" and run.info.status == "FINISHED" and run.data.params["optimizer"] == "Adam"
    history = client.get_metric_history(run.info.run_id, "training/accuracy")
    assert [point.step for point in history] == [1, 2] and history[1].value == one.train_metrics[0].get()[1]
    with mlflow.start_run(run_name="mine") as mine:
        one_batch(tracking.MLflowCallback(prefix="train"))
        assert mlflow.active_run() is not None
    assert client.get_metric_history(mine.info.run_id, "train-accuracy")[0].value == 0.5


def _has(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def test_wandb(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    one = estimator()
    one.fit(data(), epochs=2, event_handlers=[WandbHandler(mode="offline", dir=str(tmp_path), project="trial", params={"note": "x"})])
    assert wandb.run is None
    wandb.teardown()  # its service writes the file
    file, = glob.glob(str(tmp_path / "wandb" / "offline-run-*" / "*.wandb"))
    with open(file, "rb") as log:
        text = log.read()
    assert b"training/accuracy" in text and json.dumps(one.train_metrics[0].get()[1]).encode() in text and b"note" in text
