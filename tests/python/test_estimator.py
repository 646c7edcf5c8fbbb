"""The Estimator: training with handlers, checkpoints and resuming from them, early stopping."""
import io
import logging
import os

import numpy as np
import pytest

import mxnet as mx
from mxnet import gluon
from mxnet.gluon import nn
from mxnet.gluon.contrib.estimator import (BatchBegin, BatchEnd, BatchProcessor, CheckpointHandler,
                                           EarlyStoppingHandler,
                                           EpochBegin, EpochEnd, Estimator, GradientUpdateHandler, LoggingHandler,
                                           MetricHandler, ProgressBarHandler, StoppingHandler, TrainBegin, TrainEnd)


def loader(n=64, batch_size=16, seed=0):
    rng = np.random.RandomState(seed)
    x = rng.normal(0, 1, (n, 4)).astype("float32")
    return gluon.data.DataLoader(gluon.data.ArrayDataset(x, (x[:, 0] > x[:, 1]).astype("float32")), batch_size)


def estimator(rate=0.5, hybrid=True, **kwargs):
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="tanh"), nn.Dense(2))
    net.initialize(mx.init.Xavier())
    if hybrid:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": rate, "momentum": 0.5})
    made = Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer, **kwargs)
    made.logger.setLevel(logging.WARNING)
    return made


class Notes(TrainBegin, EpochBegin, BatchBegin, BatchEnd, EpochEnd, TrainEnd):
    """Stores every event."""

    def __init__(self):
        self.seen = []

    def train_begin(self, estimator, *args, **kwargs):
        self.seen.append("train")

    def epoch_begin(self, estimator, *args, **kwargs):
        self.seen.append("epoch")

    def batch_begin(self, estimator, *args, **kwargs):
        self.seen.append("b" + str(len(kwargs["batch"])))

    def batch_end(self, estimator, *args, **kwargs):
        assert set(kwargs) == {"batch", "pred", "label", "loss"} and kwargs["pred"][0].shape == (16, 2)
        self.seen.append("B")

    def epoch_end(self, estimator, *args, **kwargs):
        self.seen.append("EPOCH")

    def train_end(self, estimator, *args, **kwargs):
        self.seen.append("TRAIN")


def values(listed):
    return dict(pair for metric in listed for pair in metric.get_name_value())


def test_fit_learns_and_evaluates():
    est = estimator()
    est.fit(loader(256), val_data=loader(128, seed=1), epochs=15)
    trained, validated = values(est.train_metrics), values(est.val_metrics)
    assert set(trained) == {"training accuracy", "training softmaxcrossentropyloss"}
    assert set(validated) == {"validation accuracy", "validation softmaxcrossentropyloss"}
    assert trained["training accuracy"] > 0.97 and validated["validation accuracy"] > 0.93
    est.evaluate(loader(32, seed=2))
    assert values(est.val_metrics) != validated


def test_events_come_in_order():
    notes = Notes()
    estimator().fit(loader(32), epochs=2, event_handlers=[notes])
    epoch = ["epoch", "b2", "B", "b2", "B", "EPOCH"]
    assert notes.seen == ["train"] + epoch * 2 + ["TRAIN"]


def test_batches_end_the_training_within_an_epoch():
    notes = Notes()
    estimator().fit(loader(64), batches=6, event_handlers=notes)
    assert notes.seen.count("B") == 6 and notes.seen.count("EPOCH") == 2 and notes.seen[-1] == "TRAIN"


def test_a_handler_may_end_the_training():
    class Enough(BatchEnd):
        def batch_end(self, estimator, *args, **kwargs):
            return True
    notes = Notes()
    estimator().fit(loader(64), epochs=3, event_handlers=[notes, Enough()])
    assert notes.seen.count("B") == 1 and notes.seen.count("EPOCH") == 1


def test_priorities_and_own_update():
    order = []

    class Update(GradientUpdateHandler):
        def batch_end(self, estimator, *args, **kwargs):
            order.append("update")
            super().batch_end(estimator, *args, **kwargs)

    class Early(BatchEnd):
        priority = -3000

        def batch_end(self, estimator, *args, **kwargs):
            order.append("early")

    estimator().fit(loader(16), epochs=1, event_handlers=[Update(), Early()])
    assert order == ["early", "update"]


def test_a_batch_processor_of_ones_own():
    class Doubled(BatchProcessor):
        calls = 0

        def fit_batch(self, estimator, train_batch, batch_axis=0):
            Doubled.calls += 1
            return super().fit_batch(estimator, train_batch, batch_axis)
    est = estimator(batch_processor=Doubled())
    est.fit(loader(32), epochs=2)
    assert Doubled.calls == 4


def test_several_contexts():
    net = nn.Dense(2)
    net.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    est = Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), train_metrics=mx.metric.Accuracy(), trainer=trainer,
                    context=[mx.cpu(0), mx.cpu(1)])
    est.logger.setLevel(logging.WARNING)
    est.fit(loader(256), epochs=8)
    assert values(est.train_metrics)["training accuracy"] > 0.95


def test_checkpoints_and_going_on(tmp_path):
    est = estimator()
    est.fit(loader(), val_data=loader(seed=1), epochs=4, event_handlers=[
        CheckpointHandler(str(tmp_path), "net", monitor=est.val_metrics[0], save_best=True, max_checkpoints=2)])
    names = sorted(os.listdir(tmp_path))
    assert names == ["net-best.params", "net-best.states", "net-epoch2batch12.params", "net-epoch2batch12.states",
                     "net-epoch3batch16.params", "net-epoch3batch16.states", "net-symbol.json"]
    again, notes = estimator(), Notes()
    handler = CheckpointHandler(str(tmp_path), "net", resume_from_checkpoint=True)
    again.fit(loader(), epochs=6, event_handlers=[notes, handler])
    assert notes.seen.count("EPOCH") == 2 and handler.trained_epoch == 3
    assert "net-epoch5batch24.params" in os.listdir(tmp_path)
    with pytest.raises(ValueError, match="nothing left"):
        estimator().fit(loader(), epochs=6, event_handlers=[handler])


def test_going_on_equals_one_go(tmp_path):
    def made():
        mx.random.seed(3)
        return estimator()
    whole = made()
    whole.net(mx.nd.zeros((1, 4)))
    start = [p.data().copy() for p in whole.net.collect_params().values()]

    def begin(est):
        est.net(mx.nd.zeros((1, 4)))
        for p, value in zip(est.net.collect_params().values(), start):
            p.set_data(value)
        return est
    whole.fit(loader(), epochs=4)
    half = begin(made())
    half.fit(loader(), epochs=2, event_handlers=[CheckpointHandler(str(tmp_path))])
    rest = made()
    rest.fit(loader(), epochs=4, event_handlers=[CheckpointHandler(str(tmp_path), resume_from_checkpoint=True)])
    for a, b in zip(whole.net.collect_params().values(), rest.net.collect_params().values()):
        assert np.allclose(a.data().asnumpy(), b.data().asnumpy(), atol=1e-6)


def test_checkpoints_by_batches(tmp_path):
    estimator().fit(
    loader(),
    epochs=1,
    event_handlers=[
        CheckpointHandler(
            str(tmp_path),
            epoch_period=None,
             batch_period=3)])
    assert "model-epoch0batch2.params" in os.listdir(tmp_path)
    with pytest.raises(ValueError, match="monitor"):
        CheckpointHandler(str(tmp_path), save_best=True)


def test_early_stopping():
    est = estimator(rate=0.0)
    stopping = EarlyStoppingHandler(est.val_metrics[1], patience=2)
    notes = Notes()
    est.fit(loader(), val_data=loader(seed=1), epochs=20, event_handlers=[notes, stopping])
    assert notes.seen.count("EPOCH") == 3 and stopping.stopped_epoch == 2
    assert EarlyStoppingHandler(est.val_metrics[0]).monitor_op(2, 1)  # accuracy: more is better
    with pytest.raises(ValueError, match="monitor"):
        EarlyStoppingHandler("accuracy")


def test_logging(caplog):
    est = estimator()
    est.logger.setLevel(logging.INFO)
    est.logger.addHandler(caplog.handler)
    with caplog.at_level(logging.INFO):
        est.fit(loader(), val_data=loader(seed=1), epochs=1,
                event_handlers=[LoggingHandler(log_interval=2, metrics=est.train_metrics)])
    for part in ("using optimizer SGD", "Train for 1 epochs", "[Epoch 0][Batch 2][Samples 48]", "training accuracy",
                 "Validation Begin", "validation accuracy", "Train finished"):
        assert part in caplog.text, part
    est.logger.setLevel(logging.WARNING)


def test_progress_bar():
    est, out = estimator(), io.StringIO()
    est.fit(loader(), epochs=2, event_handlers=[ProgressBarHandler(est.train_metrics, length=10, file=out)])
    lines = out.getvalue().splitlines()
    assert len(lines) == 2 and lines[1].startswith("[Epoch 1] [==========] 4/4 ") and "training accuracy" in lines[1]


def test_arguments_are_checked():
    est = estimator()
    for call in (lambda: est.fit(loader()), lambda: est.fit(loader(), epochs=1, batches=1), lambda: est.fit([1],
                                                                                                            epochs=1),
                 lambda: est.fit(loader(), epochs=0), lambda: est.fit(loader(), epochs=1, event_handlers=[1]),
                 lambda: Estimator(est.net, "loss"), lambda: Estimator(est.net, est.loss, train_metrics=["acc"]),
                 lambda: Estimator(
    est.net, est.loss, trainer="sgd"), lambda: Estimator(
        est.net, est.loss, context="cpu"),
                 lambda: LoggingHandler(log_interval="batch"), lambda: MetricHandler(["acc"])):
        with pytest.raises(ValueError):
            call()
    with pytest.warns(UserWarning, match="trainer"):
        assert Estimator(est.net, est.loss).trainer.learning_rate == 0.001
    assert StoppingHandler(3).max_epoch == 3


# ---- rules of MXNet that programs rely on


def small(**options):
    net = mx.gluon.nn.Dense(3, in_units=4)
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    return mx.gluon.contrib.estimator.Estimator(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer,
                                                context=mx.cpu(), **options)


def small_data():
    labels = mx.nd.array([i % 3 for i in range(20)])
    return mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(mx.nd.random.normal(shape=(20, 4)), labels), batch_size=5)


def names(handlers):
    return [type(handler).__name__ for handler in handlers]


def test_all_handlers_are_in_the_module_of_handlers():
    from mxnet.gluon.contrib import estimator
    from mxnet.gluon.contrib.estimator import event_handler
    assert event_handler.CheckpointHandler is estimator.CheckpointHandler
    assert event_handler.EarlyStoppingHandler is estimator.EarlyStoppingHandler


def test_lines_and_loggers(monkeypatch):
    import io
    import re
    from mxnet.gluon.contrib.estimator import LoggingHandler
    stream = io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    one = small()
    monkeypatch.undo()
    assert one.logger.name == "Estimator" and one.logger.level == 20 and one.logger is not small().logger
    one.fit(small_data(), epochs=1, event_handlers=[LoggingHandler(log_interval=2, metrics=one.train_metrics)])
    lines = re.sub(r"\d+\.\d+", "F", stream.getvalue()).splitlines()
    shown = "training accuracy: F, training softmaxcrossentropyloss: F"
    assert f"[Epoch 0][Batch 2][Samples 15] time/interval: Fs {shown}" in lines
    assert f"[Epoch 0] Finished in Fs, {shown}" in lines
    assert lines[-1] == f"Train finished using total 0s with 1 epochs. {shown}"


def test_order_of_handlers():
    from mxnet.gluon.contrib.estimator import BatchEnd, LoggingHandler, StoppingHandler
    one = small()
    lists = one._categorize_handlers([LoggingHandler(metrics=one.train_metrics), StoppingHandler(1, None)])
    both = ["LoggingHandler", "StoppingHandler"]
    assert [names(part) for part in lists] == [both, both[:1], both[:1], both, both, both[:1]]

    class Mine(BatchEnd):
        pass
    assert names(one._prepare_default_handlers(None, [Mine()])) == [
        "GradientUpdateHandler", "MetricHandler", "Mine", "StoppingHandler", "LoggingHandler"]
    assert "ValidationHandler" in names(one._prepare_default_handlers(small_data(), []))


def test_handlers_with_other_metrics():
    from mxnet.gluon.contrib.estimator import LoggingHandler, MetricHandler
    for kind in (LoggingHandler, MetricHandler):
        with pytest.raises(ValueError, match="train_metrics"):
            small().fit(small_data(), epochs=1, event_handlers=[kind(metrics=[mx.metric.Accuracy()])])


def test_a_gpu_that_does_not_exist():
    with pytest.raises(AssertionError, match="GPU"):
        mx.gluon.contrib.estimator.Estimator(mx.gluon.nn.Dense(3), mx.gluon.loss.L2Loss(), context=mx.gpu(100))


def test_the_batch_axis_of_the_data_need_not_be_one_of_the_loss(on_host):
    class Turned(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.inner = mx.gluon.nn.Dense(3, in_units=4)

        def hybrid_forward(self, F, x):
            return self.inner(F.transpose(x))

    net = Turned()
    net.initialize()
    one = mx.gluon.contrib.estimator.Estimator(
        net, mx.gluon.loss.L2Loss(), train_metrics=[mx.metric.Loss("loss")], context=mx.cpu(),
        trainer=mx.gluon.Trainer(net.collect_params(), "sgd"))
    one.batch_processor._get_data_and_label = lambda batch, ctx, batch_axis=0: ([batch[0]], [batch[1]])
    data = mx.gluon.data.DataLoader([(mx.nd.ones((4,)), mx.nd.ones((3,)))] * 8, batch_size=4,
                                    batchify_fn=lambda rows: [mx.nd.stack(*[r[0] for r in rows], axis=1),
                                                              mx.nd.stack(*[r[1] for r in rows])])
    before = net.inner.weight.data().asnumpy().copy()
    one.fit(data, epochs=1, batch_axis=1)
    assert (net.inner.weight.data().asnumpy() != before).any()


def test_patience_of_early_stopping():
    from mxnet.gluon.contrib.estimator import EarlyStoppingHandler
    one = small()
    stopping = EarlyStoppingHandler(monitor=one.train_metrics[1], patience=0, mode="max")
    one.fit(small_data(), epochs=9, event_handlers=[stopping])
    assert (stopping.current_epoch, stopping.stopped_epoch, stopping.wait) == (2, 1, 1)


def test_files_of_checkpoints(tmp_path):
    import os
    from mxnet.gluon.contrib.estimator import CheckpointHandler
    one = small()
    saving = CheckpointHandler(str(tmp_path), "m", monitor=one.train_metrics[0], save_best=True, max_checkpoints=2)
    one.fit(small_data(), epochs=3, event_handlers=[saving])
    found = {name for name in os.listdir(tmp_path) if name.endswith((".params", ".states"))}
    assert found == {f"m-{part}.{end}" for part in ("best", "epoch1batch8", "epoch2batch12") for end in ("params", "states")}
    assert (saving.current_epoch, saving.current_batch) == (3, 12)
    again = small()
    again.fit(small_data(), epochs=5, event_handlers=[CheckpointHandler(str(tmp_path), "m", resume_from_checkpoint=True)])
    assert again.max_epoch == 2 and os.path.exists(tmp_path / "m-epoch4batch20.params")
