"""BatchNorm without a learned scale: gamma is 1 in every use, and in files."""
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("axis", [1, -1])
def test_gamma_without_scale_becomes_ones(hybrid, train, axis, tmp_path):
    net = gluon.nn.BatchNorm(axis=axis, scale=False, in_channels=3)
    net.initialize()
    if hybrid:
        net.hybridize()
    for _ in range(3):
        net.gamma.set_data(nd.array([2, 3, 4]))
        x = nd.random.normal(shape=(2, 3, 4, 3))
        with autograd.record(train):
            y = net(x)
        assert net.gamma.data().asnumpy().tolist() == [1, 1, 1]
        assert y.shape == x.shape
    net.gamma.set_data(nd.array([2, 3, 4]))
    net(nd.ones((2, 3, 4, 3)))
    net.save_parameters(str(tmp_path / "norm.params"))
    assert nd.load(str(tmp_path / "norm.params"))["gamma"].asnumpy().tolist() == [1, 1, 1]


def test_gamma_with_scale_stays():
    net = gluon.nn.BatchNorm(in_channels=2)
    net.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    net.gamma.set_data(nd.array([2, 3]))
    net(nd.ones((2, 2), ctx=mx.cpu(0)))
    assert [g.asnumpy().tolist() for g in net.gamma.list_data()] == [[2, 3]] * 2


def test_only_the_copy_that_is_used():
    net = gluon.nn.BatchNorm(in_channels=2, scale=False)
    net.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    net.gamma.set_data(nd.array([2, 3]))
    net(nd.ones((2, 2), ctx=mx.cpu(1)))
    assert [g.asnumpy().tolist() for g in net.gamma.list_data()] == [[2, 3], [1, 1]]
