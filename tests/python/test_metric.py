"""Metrics: values against NumPy, groups, functions, users' own, both counts."""
import math
import pickle

import numpy as np
import pytest

import mxnet as mx
from mxnet import metric, nd


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).astype("float32")


def classes(count=5, samples=20):
    return np.random.randint(0, count, samples).astype("float32"), softmax(np.random.randn(samples, count))


def value_of(m, labels, preds):
    m.update([nd.array(x) for x in labels], [nd.array(x) for x in preds])
    return m.get()[1]


def test_accuracy():
    label, pred = classes()
    assert value_of(metric.Accuracy(), [label], [pred]) == pytest.approx((pred.argmax(1) == label).mean())
    image = np.random.randn(2, 5, 3, 3)
    wanted = np.random.randint(0, 5, (2, 3, 3))
    assert value_of(metric.Accuracy(), [wanted], [image]) == pytest.approx((image.argmax(1) == wanted).mean())
    assert value_of(metric.Accuracy(), [label], [label]) == 1


def test_top_k():
    label, pred = classes()
    top = np.argsort(-pred, axis=1)[:, :3]
    m = metric.TopKAccuracy(top_k=3)
    assert value_of(m, [label], [pred]) == pytest.approx((top == label[:, None]).any(1).mean())
    assert m.name == "top_k_accuracy_3" == m.get()[0]


def test_logs():
    label, pred = classes()
    picked = pred[np.arange(20), label.astype(int)]
    assert value_of(metric.CrossEntropy(), [label], [pred]) == pytest.approx(-np.log(picked).mean(), rel=1e-5)
    assert value_of(metric.NegativeLogLikelihood(), [label], [pred]) == pytest.approx(-np.log(picked).mean(), rel=1e-5)
    assert value_of(metric.Perplexity(None), [label], [pred]) == pytest.approx(np.exp(-np.log(picked).mean()), rel=1e-5)
    kept = picked[label != 0]
    assert value_of(metric.Perplexity(0), [label], [pred]) == pytest.approx(np.exp(-np.log(kept).mean()), rel=1e-5)


def test_errors_of_numbers():
    a, b = np.random.randn(2, 8).astype("float32")
    assert value_of(metric.MAE(), [a], [b]) == pytest.approx(np.abs(a - b).mean(), rel=1e-5)
    assert value_of(metric.MSE(), [a], [b]) == pytest.approx(((a - b) ** 2).mean(), rel=1e-5)
    assert value_of(metric.RMSE(), [a], [b[:, None]]) == pytest.approx(((a - b) ** 2).mean() ** 0.5, rel=1e-5)
    assert value_of(metric.PearsonCorrelation(), [a], [b]) == pytest.approx(np.corrcoef(a, b)[0, 1], rel=1e-5)
    loss = metric.Loss()
    loss.update(0, [nd.array(a)])
    assert loss.get()[1] == pytest.approx(a.mean(), rel=1e-5)


@pytest.mark.parametrize("average", ["macro", "micro"])
def test_f1(average):
    batches = [classes(2) for _ in range(2)]

    def f1(label, pred):
        found = pred.argmax(1)
        tp, fp, fn = ((found == 1) & (label == 1)).sum(), ((found == 1) & (label == 0)).sum(), \
            ((found == 0) & (label == 1)).sum()
        return 2 * tp / (2 * tp + fp + fn)

    m = metric.F1(average=average)
    for label, pred in batches:
        value = value_of(m, [label], [pred])
    both = f1(*(np.concatenate(x) for x in zip(*batches)))
    assert value == pytest.approx(np.mean([f1(*b) for b in batches]) if average == "macro" else both)


def test_pcc_equals_mcc_for_two_classes():
    label, pred = classes(2)
    assert value_of(metric.PCC(), [label], [pred]) == pytest.approx(value_of(metric.MCC(), [label], [pred]))


def test_two_counts():
    m = metric.Accuracy()
    m.update(nd.array([0, 1]), nd.array([[1, 0], [1, 0]]))
    m.reset_local()
    assert math.isnan(m.get()[1]) and m.get_global()[1] == 0.5
    m.update(nd.array([0]), nd.array([[1, 0]]))
    assert m.get()[1] == 1 and m.get_global()[1] == pytest.approx(2 / 3)
    assert (m.sum_metric, m.num_inst, m.global_sum_metric, m.global_num_inst) == (1, 1, 2, 3)
    twin = pickle.loads(pickle.dumps(m))
    assert twin.get() == m.get() and twin.get_global() == m.get_global()
    m.reset()
    assert math.isnan(m.get_global()[1])


def test_create():
    assert isinstance(metric.create("acc"), metric.Accuracy)
    assert isinstance(metric.create("top_k_accuracy", top_k=2), metric.TopKAccuracy)
    assert metric.create(["acc", metric.MAE()]).get()[0] == ["accuracy", "mae"]
    same = metric.MAE()
    assert metric.create(same) is same
    config = metric.Accuracy(axis=2, name="a").get_config()
    assert config == {"axis": 2, "metric": "Accuracy", "name": "a", "output_names": None, "label_names": None}
    assert metric.create(config).axis == 2


def test_functions():
    def wrong(label, pred):
        assert isinstance(label, np.ndarray)
        return (label != pred.argmax(1)).sum(), label.size

    label, pred = classes()
    for m in (metric.create(wrong), metric.np(wrong), metric.CustomMetric(wrong, name="wrong")):
        assert value_of(m, [label], [pred]) == pytest.approx((label != pred.argmax(1)).mean())
        assert m.name == "wrong"
    assert metric.create(lambda label, pred: 1.0).name == "custom(<lambda>)"
    with pytest.raises(NotImplementedError):
        metric.create(wrong).get_config()


def test_own_metric():
    @metric.register
    class Misses(metric.EvalMetric):
        def __init__(self, name="misses"):
            super().__init__(name)

        def update(self, labels, preds):
            for label, pred in zip(labels, preds):
                self.sum_metric += (label.asnumpy() != pred.asnumpy().argmax(1)).sum()
                self.num_inst += label.size

    label, pred = classes()
    m = metric.create("misses")
    assert value_of(m, [label], [pred]) == pytest.approx((label != pred.argmax(1)).mean())
    assert m.get_global() == m.get()
    assert str(m).startswith("EvalMetric: {'misses'")

    class Twice(metric.Accuracy):
        def update(self, labels, preds):
            super().update(labels, preds)
            self.sum_metric *= 2

    assert value_of(Twice(), [label], [pred]) == pytest.approx(2 * (label == pred.argmax(1)).mean())


def test_composite():
    label, pred = classes(2)
    group = metric.CompositeEvalMetric(["acc"])
    group.add(metric.F1())
    group.update([nd.array(label)], [nd.array(pred)])
    names, values = group.get()
    assert names == ["accuracy", "f1"] and len(group.get_name_value()) == 2
    assert values[0] == pytest.approx((label == pred.argmax(1)).mean())
    assert isinstance(group.get_metric(0), metric.Accuracy) and isinstance(group.get_metric(7), ValueError)
    group.reset()
    assert all(math.isnan(v) for v in group.get()[1])


def test_update_dict():
    m = metric.Accuracy(output_names=["out"], label_names=["y"])
    m.update_dict({"y": nd.array([1]), "z": nd.array([0])}, {"out": nd.array([[0, 1]]), "b": nd.array([[1, 0]])})
    assert m.get() == ("accuracy", 1.0)


@pytest.mark.parametrize("call, kind", [
    (lambda: metric.create("nope"), AssertionError), (lambda: metric.create(3), AssertionError),
    (lambda: metric.TopKAccuracy(1), AssertionError), (lambda: metric.Accuracy(axs=1), TypeError),
    (lambda: metric.Accuracy().update([nd.ones(2)], [nd.ones((2, 2))] * 2), ValueError),
    (lambda: metric.Accuracy().update(nd.ones(3), nd.ones((2, 4))), ValueError),
    (lambda: metric.CrossEntropy().update(nd.array([9]), nd.ones((1, 2))), IndexError),
    (lambda: metric.F1(average="x"), ValueError), (lambda: metric.EvalMetric("x").update(1, 2), NotImplementedError),
    (lambda: metric.check_label_shapes([1], [1, 2]), ValueError)])
def test_errors(call, kind):
    with pytest.raises(kind):
        call()


def test_check_label_shapes_wraps():
    x = nd.ones(1)
    assert metric.check_label_shapes(x, x, wrap=True) == ([x], [x])
    assert mx.metric is metric
