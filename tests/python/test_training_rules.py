"""Rules of stores, initializers, metrics, losses and recurrent layers that programs rely on."""
import json

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import rnn
from mxnet.gluon.contrib import rnn as contrib_rnn

# ---- row_sparse_pull


def rows():
    return nd.sparse.zeros("row_sparse", (4, 3))


def store():
    kv = mx.kv.create("local")
    value = nd.array(np.arange(12).reshape(4, 3)).tostype("row_sparse")
    kv.init(["a", "b"], [value, value * 2])
    return kv


@pytest.mark.parametrize("ids,expected", [
    (lambda r: [[r, nd.array([1])], [r, r]], [[0, 2], [1], [0, 2], [0, 2]]), (lambda r: r, [[0, 2]] * 4),
    (lambda r: [r, nd.array([1]), r, nd.array([3])], [[0, 2], [1], [0, 2], [3]])])
def test_row_ids_may_be_nested_as_out(ids, expected):
    out = [[rows(), rows()], [rows(), rows()]]
    store().row_sparse_pull(["a", "b"], out=out, row_ids=ids(nd.array([0, 2])))
    assert [x.indices.asnumpy().tolist() for pair in out for x in pair] == expected
    assert out[1][0].asnumpy()[2].tolist() == [12, 14, 16]


def test_rows_are_not_pulled_into_dense_arrays():
    with pytest.raises(mx.MXNetError, match="row_sparse"):
        store().row_sparse_pull("a", out=nd.zeros((4, 3)), row_ids=nd.array([0]))
    with pytest.raises(ValueError, match="4 arrays but 2"):
        store().row_sparse_pull(["a", "b"], out=[[rows(), rows()]] * 2, row_ids=[nd.array([0])] * 2)


# ---- initializers


@pytest.mark.parametrize("init", [mx.init.Bilinear(), mx.init.Constant(3), mx.init.Constant(nd.ones((2, 2, 3, 3))),
                                  mx.init.Xavier(), mx.init.One(), mx.init.Uniform(), mx.init.Normal(),
                                  mx.init.Orthogonal(), mx.init.MSRAPrelu()])
def test_weights_need_no_name(init):
    array = nd.zeros((2, 2, 3, 3))
    init._init_weight(None, array)
    assert float(array.abs().sum().asscalar()) > 0


@pytest.mark.parametrize("value", [nd.array([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]])
def test_constants_are_kept_as_lists(value):
    init = mx.init.Constant(value)
    assert init._kwargs == {"value": [[1, 2], [3, 4]]}
    assert json.loads(init.dumps()) == ["constant", json.loads(json.dumps(init._kwargs))]
    array = nd.zeros((2, 2))
    mx.init.create(init.dumps())._init_weight(None, array)
    assert array.asnumpy().tolist() == [[1, 2], [3, 4]]


def test_operators_say_how_their_inputs_start():
    prelu = mx.sym.LeakyReLU(mx.sym.var("x"), act_type="prelu", name="p")
    assert prelu.attr_dict()["p_gamma"]["__init__"] == '["Constant", {"value": 0.25}]'
    module = mx.mod.Module(prelu, data_names=["x"], label_names=None)
    module.bind([("x", (2, 3))], for_training=False)
    module.init_params()
    assert module.get_params()[0]["p_gamma"].asnumpy().tolist() == [0.25] * 3
    own = mx.sym.LeakyReLU(mx.sym.var("x"), mx.sym.var("g", init=mx.init.One()), act_type="prelu")
    assert own.attr_dict()["g"]["__init__"] == '["one", {}]'
    assert "__init__" not in str(mx.sym.LeakyReLU(mx.sym.var("x"), act_type="leaky").attr_dict())
    norm = mx.sym.BatchNorm(mx.sym.var("x"), name="b").attr_dict()
    assert (norm["b_moving_mean"]["__init__"], norm["b_moving_var"]["__init__"]) == ('["zero", {}]', '["one", {}]')


# ---- metrics and losses


def test_pcc_takes_classes_or_scores():
    labels, classes = nd.array([0, 1, 1, 1, 0, 2]), nd.array([0, 1, 2, 1, 0, 2])
    of_classes, of_scores = mx.metric.create("pcc"), mx.metric.PCC()
    of_classes.update([labels], [classes])
    of_scores.update([labels], [nd.one_hot(classes, 3)])
    assert of_classes.get() == of_scores.get() and of_scores.get()[1] == pytest.approx(0.7833494518)
    with pytest.raises(mx.MXNetError, match="prediction 0 is -1"):
        of_classes.update([labels], [classes - 1])


def test_counts_of_binary_metrics():
    metric = mx.metric.F1(average="micro")
    metric.update([nd.array([0, 1, 1, 0])], [nd.array([[0.1, 0.9], [0.2, 0.8], [0.7, 0.3], [0.9, 0.1]])])
    counts = metric.metrics
    assert (counts.true_positives, counts.false_positives, counts.false_negatives, counts.true_negatives) == (1, 1, 1, 1)
    assert counts.global_true_positives == 1 and counts.total_examples == 4
    assert counts.precision == counts.recall == 0.5 and counts.fscore == metric.get()[1]
    assert mx.metric.MCC()._metrics.total_examples == 0
    with pytest.raises(AttributeError, match="true_positives"):
        counts.positives


def test_ctc_loss_can_be_printed():
    assert repr(gluon.loss.CTCLoss()) == "CTCLoss(batch_axis=0, w=None)"
    assert repr(gluon.loss.CTCLoss(label_layout="TN")) == "CTCLoss(batch_axis=1, w=None)"
    assert "CTCLoss" in repr(type("Net", (gluon.Block,), {"__init__": with_ctc})())


def with_ctc(self):
    gluon.Block.__init__(self)
    self.loss = gluon.loss.CTCLoss()


def test_length_of_an_interval_sampler():
    sampler = gluon.contrib.data.IntervalSampler(7, 3, rollover=False)
    assert len(sampler) == 7 and list(sampler) == [0, 3, 6]


# ---- recurrent layers and cells


def test_lengths_are_ignored_by_layers_that_do_not_use_them():
    layer = rnn.LSTM(4)
    layer.initialize()
    x = nd.random.normal(shape=(5, 2, 3))
    plain = layer(x).asnumpy()
    assert (layer(x, sequence_length=nd.array([1, 2])).asnumpy() == plain).all()
    output, states = layer(x, layer.begin_state(2), sequence_length=nd.array([1, 2]))
    assert (output.asnumpy() == plain).all() and len(states) == 2


@pytest.mark.parametrize("hybrid", [False, True])
def test_states_of_another_structure(hybrid):
    cell = rnn.LSTMCell(4)
    cell.initialize()
    if hybrid:
        cell.hybridize()
    x, states = nd.ones((2, 3)), cell.begin_state(2)
    cell(x, states)
    for wrong in (states[:1], states + states, [states, states]):
        with pytest.raises(ValueError):
            cell(x, wrong)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_names_of_convolutional_cells(kind, axes):
    cell = getattr(contrib_rnn, f"Conv{axes}D{kind}Cell")((2,) + (6,) * axes, 3, 3, 3, i2h_pad=1, prefix="c_")
    outputs, states = cell.unroll(2, [mx.sym.var("a"), mx.sym.var("b")])
    assert [o.list_outputs() for o in outputs] == [["c_t0_out_output"], ["c_t1_out_output"]]
    assert states[0].list_outputs() == ["c_t1_out_output"]
    if kind == "LSTM":
        assert states[1].list_outputs() == ["c_t1_state_output"]


@pytest.mark.parametrize("make", [
    lambda: rnn.ZoneoutCell(rnn.RNNCell(4, input_size=3), 0.5, 0.3),
    lambda: rnn.ZoneoutCell(rnn.LSTMCell(4, input_size=3), 0.5, 0.3),
    lambda: contrib_rnn.VariationalDropoutCell(rnn.LSTMCell(4, input_size=3), 0.3, 0.2, 0.4)])
def test_cells_with_memory_can_be_hybridized_later(make):
    cell = make()
    cell.initialize()
    x = nd.ones((2, 4, 3))
    for hybrid in (False, True):
        if hybrid:
            cell.hybridize()
        for _ in range(3):
            with autograd.record():
                output, _ = cell.unroll(4, x, merge_outputs=True)
                loss = (output * output).sum()
            loss.backward()
            assert np.isfinite(loss.asscalar())
        first, second = (cell.unroll(4, x, merge_outputs=True)[0].asnumpy() for _ in range(2))
        assert (first == second).all()
