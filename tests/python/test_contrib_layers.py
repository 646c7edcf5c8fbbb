"""gluon.contrib: layers, cells, deformable convolutions."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import contrib, nn


def both_ways(net, *inputs):
    """Outputs of a network, imperatively and hybridized, which must agree."""
    plain = net(*inputs)
    net.hybridize()
    compiled = net(*inputs)
    net.hybridize(False)
    for a, b in zip(plain if isinstance(plain, (list, tuple)) else [plain],
                    compiled if isinstance(compiled, (list, tuple)) else [compiled]):
        if isinstance(a, nd.NDArray):
            assert np.allclose(a.asnumpy(), b.asnumpy(), atol=1e-5)
    return plain


def test_branches():
    for kind in (contrib.nn.Concurrent, contrib.nn.HybridConcurrent):
        net = kind(axis=1)
        with net.name_scope():
            net.add(nn.Dense(2, in_units=3), contrib.nn.Identity())
        net.initialize()
        x = nd.random.uniform(shape=(4, 3))
        y = net(x)
        assert y.shape == (4, 5) and np.array_equal(y.asnumpy()[:, 2:], x.asnumpy())
        assert np.allclose(y.asnumpy()[:, :2], net[0](x).asnumpy())
        assert len(net) == 2 and net.axis == 1 and net.name.startswith(kind.__name__.lower())
        assert repr(net).startswith(kind.__name__ + "(\n  (0): Dense(3 -> 2, linear)\n  (1): Identity(")
    both_ways(net, x)
    with pytest.raises(ValueError):
        contrib.nn.HybridConcurrent().add(nn.Sequential())


@pytest.mark.parametrize("layer, factors", [(contrib.nn.PixelShuffle1D, (2,)), (contrib.nn.PixelShuffle2D, (2, 3)),
                                            (contrib.nn.PixelShuffle3D, (2, 3, 2))])
def test_pixel_shuffle(layer, factors):
    axes, channels, space = len(factors), 2, (3, 4, 2)[:len(factors)]
    net = layer(factors if axes > 1 else factors[0])
    x = nd.random.uniform(shape=(2, channels * int(np.prod(factors))) + space)
    x.attach_grad()
    y = both_ways(net, x)
    a = x.asnumpy().reshape((2, channels) + factors + space)
    order = [0, 1] + [k for i in range(axes) for k in (2 + axes + i, 2 + i)]
    expected = a.transpose(order).reshape((2, channels) + tuple(f * s for f, s in zip(factors, space)))
    assert np.array_equal(y.asnumpy(), expected)
    with autograd.record():
        loss = (net(x) * 2).sum()
    loss.backward()
    assert (x.grad.asnumpy() == 2).all()
    assert repr(net) == f"{layer.__name__}({factors if axes > 1 else factors[0]})"
    symbol = net(mx.sym.var("data"))
    assert symbol.infer_shape(data=x.shape)[1] == [expected.shape]
    with pytest.raises(mx.MXNetError):
        net(nd.ones((1, 1) + space))


def test_sync_batch_norm():
    net = contrib.nn.SyncBatchNorm(num_devices=1, momentum=0.5)
    net.initialize()
    x = nd.random.normal(3, 2, shape=(8, 3, 4))
    with autograd.record():
        y = net(x)
    assert np.allclose(y.asnumpy().mean(axis=(0, 2)), 0, atol=1e-4) and np.allclose(y.asnumpy().std(axis=(0, 2)), 1,
                                                                                    atol=1e-2)
    assert np.allclose(net.running_mean.data().asnumpy(), x.asnumpy().mean(axis=(0, 2)) / 2, atol=1e-3)
    assert repr(net) == (f"SyncBatchNorm(eps=1e-05, momentum=0.5, fix_gamma=False, use_global_stats=False, ndev=1, "
                         f"key='{net.prefix}', in_channels=3)")
    assert "ndev=4" in repr(contrib.nn.SyncBatchNorm(num_devices=4))
    with pytest.raises(ValueError, match="num_devices=5000"):
        contrib.nn.SyncBatchNorm(num_devices=5000)


def test_sparse_embedding():
    net = contrib.nn.SparseEmbedding(5, 3)
    net.initialize()
    with autograd.record():
        y = net(nd.array([1, 3, 1]))
    y.backward()
    assert np.array_equal(y.asnumpy(), net.weight.data().asnumpy()[[1, 3, 1]])
    grad = net.weight.grad()
    grad = grad.tostype("default") if grad.stype != "default" else grad
    assert grad.asnumpy().sum(axis=1).tolist() == [0, 6, 0, 3, 0]
    assert repr(net) == "SparseEmbedding(5 -> 3, float32)"


# ---- cells ---------------------------------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_lstm_with_projection():
    cell = contrib.rnn.LSTMPCell(4, 2, input_size=3)
    cell.initialize(mx.init.Uniform(1))
    x, h, c = nd.random.uniform(shape=(5, 3)), nd.random.uniform(shape=(5, 2)), nd.random.uniform(shape=(5, 4))
    output, (new_h, new_c) = both_ways(cell, x, [h, c])
    w = {name: getattr(cell, name).data().asnumpy() for name in ("i2h_weight", "h2h_weight", "h2r_weight", "i2h_bias",
                                                                 "h2h_bias")}
    gates = x.asnumpy() @ w["i2h_weight"].T + w["i2h_bias"] + h.asnumpy() @ w["h2h_weight"].T + w["h2h_bias"]
    i, f, g, o = np.split(gates, 4, axis=1)
    expected_c = sigmoid(f) * c.asnumpy() + sigmoid(i) * np.tanh(g)
    expected = (sigmoid(o) * np.tanh(expected_c)) @ w["h2r_weight"].T
    assert np.allclose(output.asnumpy(), expected, atol=1e-5) and np.allclose(new_c.asnumpy(), expected_c, atol=1e-5)
    assert np.array_equal(output.asnumpy(), new_h.asnumpy())
    assert repr(cell) == "LSTMPCell(3 -> 16 -> 2)" and cell.state_info(7)[0]["shape"] == (7, 2)
    outputs, _ = cell.unroll(6, nd.random.uniform(shape=(5, 6, 3)), merge_outputs=True)
    assert outputs.shape == (5, 6, 2)


def test_variational_dropout():
    def drops(states):
        cell = contrib.rnn.VariationalDropoutCell(gluon.rnn.RNNCell(8, input_size=8), drop_inputs=0.5,
                                                  drop_states=states,
                                                  drop_outputs=0.5)
        cell.initialize()
        x = nd.ones((4, 6, 8))
        plain, _ = cell.unroll(6, x, merge_outputs=True)  # nothing is dropped outside of training
        expected, _ = cell.base_cell.__class__.unroll(_free(cell.base_cell), 6, x, merge_outputs=True)
        assert np.allclose(plain.asnumpy(), expected.asnumpy(), atol=1e-6)
        with autograd.train_mode():
            output, _ = cell.unroll(6, x, merge_outputs=True)
        zeros = output.asnumpy() == 0
        assert 0.2 < zeros.mean() < 0.8 and (zeros == zeros[:, :1]).all()  # the same elements at every step
        return cell
    cell = drops(0.0)
    drops(0.3)
    assert repr(cell) == "VariationalDropoutCell(p_out = 0.5, p_state = 0.0)"
    with pytest.raises(AssertionError):
        contrib.rnn.VariationalDropoutCell(gluon.rnn.SequentialRNNCell(), drop_states=0.1)


def _free(cell):
    """The same weights in a cell that is in no modifier."""
    other = gluon.rnn.RNNCell(8, input_size=8, prefix=cell.prefix, params=cell.params)
    return other


SHAPES = {1: (3, 8), 2: (3, 6, 5), 3: (2, 4, 3, 4)}


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("kind, states, gates", [("RNN", 1, 1), ("LSTM", 2, 4), ("GRU", 1, 3)])
def test_convolutional_cells(axes, kind, states, gates):
    make = getattr(contrib.rnn, f"Conv{axes}D{kind}Cell")
    cell = make(SHAPES[axes], 4, 3, 3, i2h_pad=1)
    space = SHAPES[axes][1:]
    assert [info["shape"] for info in cell.state_info(2)] == [(2, 4) + space] * states
    layout = ("NCW", "NCHW", "NCDHW")[axes - 1]
    assert repr(cell) == f"Conv{axes}D{kind}Cell({SHAPES[axes][0]} -> {4 * gates}, tanh, {layout})"
    names = [p.name[len(cell.prefix):] for p in cell.collect_params().values()]
    assert names == ["i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias"]
    assert cell.prefix.startswith(f"conv_{kind.lower()}")
    cell.initialize()
    x = nd.random.uniform(shape=(2, 3) + SHAPES[axes])
    with autograd.record():
        outputs, last = cell.unroll(3, x, merge_outputs=True)
    outputs.backward()
    assert outputs.shape == (2, 3, 4) + space and len(last) == states
    assert float(cell.h2h_weight.grad().abs().sum().asscalar()) > 0
    hybrid, state = make(SHAPES[axes], 4, 3, 3, i2h_pad=1, params=cell.params), cell.begin_state(2)
    hybrid.hybridize()
    for t in range(3):
        output, state = hybrid(x[:, t], state)
    assert np.allclose(output.asnumpy(), outputs.asnumpy()[:, 2], atol=1e-5)
    symbol, _ = cell.unroll(3, mx.sym.var("data"), merge_outputs=True)
    assert symbol.infer_shape(data=x.shape)[1] == [outputs.shape]


def test_convolutional_cells_without_space_are_the_plain_ones():
    for kind in ("RNN", "LSTM", "GRU"):
        cell = getattr(contrib.rnn, f"Conv1D{kind}Cell")((3, 1), 4, 1, 1)
        plain = getattr(gluon.rnn, f"{kind}Cell")(4, input_size=3)
        cell.initialize(mx.init.Uniform(1))
        plain.initialize()
        for a, b in zip(cell.collect_params().values(), plain.collect_params().values()):
            b.set_data(a.data().reshape(b.shape))
        x = nd.random.uniform(shape=(5, 2, 3))
        expected, _ = plain.unroll(2, x, merge_outputs=True)
        got, _ = cell.unroll(2, x.expand_dims(axis=3), merge_outputs=True)
        assert np.allclose(got.asnumpy()[..., 0], expected.asnumpy(), atol=1e-5), kind


def test_activations_of_convolutional_cells():
    x = nd.random.normal(shape=(2, 3, 6, 5))
    results = []
    for activation in ("relu", nn.LeakyReLU(0.0), lambda x: nd.relu(x)):
        mx.random.seed(0)
        cell = contrib.rnn.Conv2DRNNCell((3, 6, 5), 4, 3, 3, activation=activation)
        cell.initialize()
        results.append(cell(x, cell.begin_state(2))[0].asnumpy())
    assert np.allclose(results[0], results[1]) and np.allclose(results[0], results[2]) and (results[0] >= 0).all()
    with pytest.raises(ValueError, match="odd"):
        contrib.rnn.Conv2DRNNCell((3, 6, 5), 4, 3, 2)


def test_unrolling_by_a_loop():
    cell = gluon.rnn.LSTMCell(4, input_size=3)
    cell.initialize()
    x = nd.random.uniform(shape=(5, 2, 3))
    begin = cell.begin_state(2)
    expected, last = cell.unroll(5, x, begin, layout="TNC", merge_outputs=True)
    outputs, states = contrib.rnn.dynamic_unroll(cell, x, begin, layout="TNC")
    assert np.allclose(outputs.asnumpy(), expected.asnumpy(), atol=1e-6)
    assert np.allclose(states[1].asnumpy(), last[1].asnumpy(), atol=1e-6)
    lengths = nd.array([2, 5])
    expected, last = cell.unroll(5, x, begin, layout="TNC", merge_outputs=True, valid_length=lengths)
    outputs, states = contrib.rnn.dynamic_unroll(cell, x, begin, layout="TNC", valid_length=lengths)
    assert np.allclose(outputs.asnumpy(), expected.asnumpy(), atol=1e-6)
    assert np.allclose(states[0].asnumpy(), last[0].asnumpy(), atol=1e-6)
    swapped, _ = contrib.rnn.dynamic_unroll(cell, x.swapaxes(0, 1), begin, layout="NTC")
    assert swapped.shape == (2, 5, 4)


# ---- deformable convolutions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make, channels", [(contrib.cnn.DeformableConvolution, 18),
                                            (contrib.cnn.ModulatedDeformableConvolution, 27)])
def test_deformable_convolution(make, channels):
    net = make(4, kernel_size=(3, 3), padding=(1, 1), activation="relu")
    net.initialize(mx.init.Xavier())
    x = nd.random.uniform(shape=(2, 3, 6, 5))
    y = both_ways(net, x)
    weight, bias = net.deformable_conv_weight.data(), net.deformable_conv_bias.data()
    plain = nd.relu(nd.Convolution(x, weight, bias, kernel=(3, 3), pad=(1, 1), num_filter=4))
    assert np.allclose(y.asnumpy(), plain.asnumpy(), atol=1e-5)  # offsets begin at zero
    assert net.offset_weight.shape == (channels, 3, 3, 3) and "deformable_conv" in net.name
    with autograd.record():
        loss = net(x).sum()
    loss.backward()
    assert float(net.offset_weight.grad().abs().sum().asscalar()) > 0
    with pytest.raises(ValueError):
        make(4, layout="NHWC")
    with pytest.raises(ValueError, match="op_name"):
        make(4, op_name="Convolution")
