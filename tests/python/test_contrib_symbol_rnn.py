"""mx.rnn: cells of symbols, their weights in files, sentences in buckets; a small language model with buckets."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import gluon, nd


def run(symbol, values):
    """Outputs of a symbol for these arguments."""
    executor = symbol.bind(mx.current_context(), {k: nd.array(v) for k, v in values.items()})
    return [x.asnumpy() for x in executor.forward()]


def weights(symbol, seed=0, **shapes):
    """Random values for all arguments of a symbol."""
    arguments, _, _ = symbol.infer_shape(**shapes)
    rng = np.random.RandomState(seed)
    return {name: rng.uniform(-1, 1, shape).astype("float32") for name, shape in zip(symbol.list_arguments(),
                                                                                     arguments)}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, w, prefix):
    """(N, T, C) -> (N, T, H) in NumPy."""
    h = c = np.zeros((x.shape[0], w[prefix + "h2h_weight"].shape[1]))
    outputs = []
    for t in range(x.shape[1]):
        gates = x[:, t] @ w[prefix + "i2h_weight"].T + w[prefix + "i2h_bias"] + h @ w[prefix + "h2h_weight"].T \
            + w[prefix + "h2h_bias"]
        i, f, g, o = np.split(gates, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.stack(outputs, axis=1)


def test_lstm():
    cell = mx.rnn.LSTMCell(4, prefix="l_")
    output, states = cell.unroll(3, mx.sym.var("data"), merge_outputs=True)
    assert output.list_arguments() == ["data", "l_i2h_weight", "l_i2h_bias", "l_h2h_weight", "l_h2h_bias"]
    assert len(states) == 2 and cell.state_shape == [(0, 4), (0, 4)]
    w = weights(output, data=(5, 3, 2))
    assert np.allclose(run(output, w)[0], lstm(w["data"], w, "l_"), atol=1e-5)


@pytest.mark.parametrize("make", [lambda: mx.rnn.RNNCell(4, prefix="c_"), lambda: mx.rnn.GRUCell(4, prefix="c_"),
                                  lambda: mx.rnn.LSTMCell(4, prefix="c_")])
def test_cells_agree_with_gluon(make):
    output, _ = make().unroll(3, mx.sym.var("data"), layout="TNC", merge_outputs=True)
    w = weights(output, data=(3, 5, 2))
    other = {"RNNCell": gluon.rnn.RNNCell, "GRUCell": gluon.rnn.GRUCell, "LSTMCell": gluon.rnn.LSTMCell}
    net = other[type(make()).__name__](4, prefix="c_", input_size=2)
    net.initialize()
    for name, p in net.collect_params().items():
        p.set_data(nd.array(w[name]))
    expected, _ = net.unroll(3, nd.array(w["data"]), layout="TNC", merge_outputs=True)
    assert np.allclose(run(output, w)[0], expected.asnumpy(), atol=1e-5)


def test_weights_by_gate():
    cell = mx.rnn.LSTMCell(4, prefix="l_")
    packed = {"l_i2h_weight": nd.arange(48).reshape((16, 3)), "l_i2h_bias": nd.arange(16),
              "l_h2h_weight": nd.arange(64).reshape((16, 4)), "l_h2h_bias": nd.arange(16), "other": nd.ones((1,))}
    parts = cell.unpack_weights(packed)
    assert parts["l_i2h_f_weight"].shape == (4, 3) and parts["l_i2h_f_bias"].asnumpy().tolist() == [4, 5, 6, 7]
    again = cell.pack_weights(parts)
    assert set(again) == set(packed)
    for name in packed:
        assert np.array_equal(packed[name].asnumpy(), again[name].asnumpy())


@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_fused_and_unfused_agree(mode, bidirectional):
    fused = mx.rnn.FusedRNNCell(4, num_layers=2, mode=mode, bidirectional=bidirectional, prefix="f_",
                                get_next_state=True)
    output, states = fused.unroll(3, mx.sym.var("data"), merge_outputs=True)
    assert len(states) == len(fused.state_info)
    w = weights(output, data=(5, 3, 2))
    parts = fused.unpack_weights({"f_parameters": nd.array(w["f_parameters"])})
    assert np.array_equal(fused.pack_weights(parts)["f_parameters"].asnumpy(), w["f_parameters"])
    stack = fused.unfuse()
    plain, _ = stack.unroll(3, mx.sym.var("data"), merge_outputs=True)
    values = {k: v.asnumpy() for k, v in stack.pack_weights(parts).items()}
    assert np.allclose(run(output, w)[0], run(plain, dict(values, data=w["data"]))[0], atol=1e-5)


def test_cells_around_cells():
    stack = mx.rnn.SequentialRNNCell()
    stack.add(mx.rnn.LSTMCell(4, prefix="a_"))
    stack.add(mx.rnn.DropoutCell(0.5))
    stack.add(mx.rnn.ResidualCell(mx.rnn.GRUCell(4, prefix="b_")))
    stack.add(mx.rnn.ZoneoutCell(mx.rnn.RNNCell(4, prefix="c_"), 0.1, 0.2))
    stack.add(mx.rnn.BidirectionalCell(mx.rnn.LSTMCell(3, prefix="x_"), mx.rnn.LSTMCell(3, prefix="y_")))
    output, _ = stack.unroll(2, mx.sym.var("data"), merge_outputs=True)
    w = weights(output, data=(2, 2, 4))
    assert run(output, w)[0].shape == (2, 2, 6)  # outside of training nothing is dropped
    h = run(mx.rnn.LSTMCell(4, prefix="a_").unroll(2, mx.sym.var("data"), merge_outputs=True)[0],
            {k: v for k, v in w.items() if k == "data" or k.startswith("a_")})[0]
    residual, _ = mx.rnn.ResidualCell(mx.rnn.GRUCell(4, prefix="b_")).unroll(2, mx.sym.var("data"))
    plain, _ = mx.rnn.GRUCell(4, prefix="b_").unroll(2, mx.sym.var("data"))
    values = dict({k: v for k, v in w.items() if k.startswith("b_")}, data=h)
    assert np.allclose(run(residual[1], values)[0], run(plain[1], values)[0] + h[:, 1], atol=1e-5)
    with pytest.raises(AssertionError):
        mx.rnn.ZoneoutCell(mx.rnn.BidirectionalCell(mx.rnn.RNNCell(3), mx.rnn.RNNCell(3)))


@pytest.mark.parametrize("make, states", [(mx.rnn.ConvRNNCell, 1), (mx.rnn.ConvLSTMCell, 2), (mx.rnn.ConvGRUCell, 1)])
def test_convolutional_cells(make, states):
    cell = make((1, 3, 6, 6), 4)
    output, last = cell.unroll(2, mx.sym.var("data"), merge_outputs=True)
    assert len(last) == states and cell.state_info[0]["shape"] == (0, 4, 6, 6)
    w = weights(output, data=(2, 2, 3, 6, 6))
    assert run(output, w)[0].shape == (2, 2, 4, 6, 6)


def test_sentences():
    encoded, words = mx.rnn.encode_sentences([["a", "b", "c"], ["b", "a"]], start_label=1, invalid_label=0)
    assert encoded == [[1, 2, 3], [2, 1]] and words == {"\n": 0, "a": 1, "b": 2, "c": 3}
    assert mx.rnn.encode_sentences([["z", "a"]], vocab=words, unknown_token="c")[0] == [[3, 1]]
    with pytest.raises(AssertionError, match="z"):
        mx.rnn.encode_sentences([["z"]], vocab=words)


def test_buckets_of_sentences():
    source = mx.rnn.BucketSentenceIter([[1, 2, 3], [1, 2], [1, 2, 3, 4], [3, 2]], 2, buckets=[2, 4], invalid_label=0)
    assert source.default_bucket_key == 4 and source.provide_data[0].shape == (2, 4)
    batches = {batch.bucket_key: batch for batch in source}
    assert set(batches) == {2, 4} and batches[2].data[0].shape == (2, 2)
    for batch in batches.values():
        data, label = batch.data[0].asnumpy(), batch.label[0].asnumpy()
        assert np.array_equal(data[:, 1:], label[:, :-1]) and (label[:, -1] == 0).all()
    source = mx.rnn.BucketSentenceIter([[1, 2, 3]] * 4, 2, layout="TN")
    assert source.buckets == [3] and next(source).data[0].shape == (3, 2)


def test_a_language_model_with_buckets(tmp_path):
    rng = np.random.RandomState(0)
    sentences = [[(start + i) % 7 + 1 for i in range(length)] for start, length in
                 zip(rng.randint(0, 7, 300), rng.choice([5, 8], 300))]
    source = mx.rnn.BucketSentenceIter(sentences, 20, buckets=[5, 8], invalid_label=0)
    cell = mx.rnn.LSTMCell(16, prefix="l_")

    def sym_gen(length):
        embedded = mx.sym.Embedding(mx.sym.var("data"), input_dim=8, output_dim=8, name="embed")
        output, _ = cell.unroll(length, embedded, merge_outputs=True)
        scores = mx.sym.FullyConnected(mx.sym.reshape(output, shape=(-1, 16)), num_hidden=8, name="scores")
        label = mx.sym.reshape(mx.sym.var("softmax_label"), shape=(-1,))
        return mx.sym.SoftmaxOutput(scores, label, name="softmax", use_ignore=True, ignore_label=0,
                                    normalization="valid"), ("data",), ("softmax_label",)
    module = mx.mod.BucketingModule(sym_gen, source.default_bucket_key)
    metric = mx.metric.Perplexity(ignore_label=0)
    module.fit(source, num_epoch=6, eval_metric=metric, optimizer="adam", initializer=mx.init.Xavier(),
               optimizer_params={"learning_rate": 0.02, "rescale_grad": 1.0},
               epoch_end_callback=mx.rnn.do_rnn_checkpoint(cell, str(tmp_path / "lm"), period=6))
    assert module.score(source, mx.metric.Perplexity(ignore_label=0))[0][1] < 1.3  # the next word is certain: 1
    _, arguments, _ = mx.rnn.load_rnn_checkpoint(cell, str(tmp_path / "lm"), 6)
    assert np.array_equal(arguments["l_i2h_weight"].asnumpy(), module.get_params()[0]["l_i2h_weight"].asnumpy())
