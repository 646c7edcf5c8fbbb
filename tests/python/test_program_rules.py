"""Rules on which random programs (tests/oracle/programs.py) once differed from MXNet 1.9.1."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn


@pytest.mark.parametrize("hybrid", [False, True])
def test_constants_of_the_graph_are_not_overwritten(hybrid):
    """The gradient of a weight reads the data, also if the data have no gradient."""
    net, x = nn.Dense(2, in_units=3), nd.array([[1, 2, 3]])
    net.initialize()
    if hybrid:
        net.hybridize()
    net(x)
    with autograd.record():
        y = net(x)
        with pytest.raises(mx.MXNetError, match="recording"):
            x += 1
        with pytest.raises(mx.MXNetError, match="recording"):
            x[0] = 9
        with autograd.pause():
            held = x * 1  # reading is fine
    y.backward()
    np.testing.assert_array_equal(net.weight.grad().asnumpy(), np.repeat(held.asnumpy(), 2, axis=0))
    with autograd.record():
        x += 1  # the graph is gone
        y = net(x)
        x = None
    del y


def test_buffers_are_written_row_by_row_while_recording():
    """Rows are arrays of their own: what was used does not forbid to write the others."""
    buffer, w = nd.zeros((3, 2)), nd.ones((2,))
    w.attach_grad()
    total = 0
    with autograd.record():
        for i in range(3):
            buffer[i] = i + 1
            total = total + (buffer[i] * w).sum()
    total.backward()
    assert w.grad.asnumpy().tolist() == [6, 6]


@pytest.mark.parametrize("layer", [lambda: nn.Dense(4), lambda: nn.Dense(4, activation="relu"), lambda: nn.Conv1D(2, 1),
                                   lambda: nn.LayerNorm()], ids=["dense", "activated", "convolution", "norm"])
def test_children_added_to_a_layer_do_not_run(layer):
    net, x = layer(), nd.random.normal(shape=(2, 3, 4))
    net.initialize()
    before = net(x).asnumpy()
    net.extra = nn.Dense(2)
    net.extra.initialize()
    np.testing.assert_array_equal(net(x).asnumpy(), before)
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), before, rtol=1e-5, atol=1e-6)


def test_the_activation_of_a_dense_layer_may_be_given_later():
    net, x = nn.Dense(2, in_units=3, use_bias=False), nd.array([[1, 2, -30]])
    net.initialize(mx.init.One())
    net.extra, net.act = nn.Dense(7), nn.Activation("relu")
    assert net(x).asnumpy().tolist() == [[0, 0]]


def test_the_last_initializer_counts_while_shapes_are_unknown():
    net = nn.Dense(2, use_bias=False)
    net.initialize(mx.init.Constant(0.1))
    net.initialize(mx.init.Constant(5))
    assert net(nd.ones((1, 3))).asnumpy().tolist() == [[15, 15]]
    with pytest.warns(UserWarning, match="already initialized"):
        net.initialize(mx.init.Zero())
    assert net(nd.ones((1, 3))).asnumpy().tolist() == [[15, 15]]


def test_cast_keeps_the_gradient():
    net = nn.Dense(1, in_units=2, use_bias=False)
    net.initialize()
    with autograd.record():
        y = net(nd.array([[3, 4]]))
    y.backward()
    net.cast("float64")
    assert net.weight.grad().dtype == np.float64
    assert net.weight.grad().asnumpy().tolist() == [[3, 4]]


@pytest.mark.parametrize("layer, requests", [(nn.LayerNorm, "write"), (nn.InstanceNorm, "write"), (nn.BatchNorm, "null")])
def test_gradients_of_a_fixed_scale(layer, requests):
    """gamma of scale=False is fixed until somebody asks for its gradient; that of BatchNorm always."""
    net = layer(scale=False)
    assert net.gamma.grad_req == "null"
    net.collect_params().setattr("grad_req", "write")
    assert net.gamma.grad_req == requests


def test_unknown_shapes_are_value_errors():
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.w = self.params.get("w", shape=(0,), allow_deferred_init=True)

        def hybrid_forward(self, F, x, w):
            return F.broadcast_add(x, w)
    net = Net()
    net.initialize()
    with pytest.raises(ValueError):
        net(nd.ones((2, 3)))
