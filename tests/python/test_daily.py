"""Conveniences of daily use: formatting, containers from their blocks, listings, what notebooks show."""
import xml.dom.minidom

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn
from mxnet.gluon.data.vision import transforms


def test_format_of_one_element():
    assert f"{nd.array([1.23456]):.3f}" == "1.235"
    assert f"{nd.array([[7]], dtype='int32'):>4d}" == "   7"
    assert f"{nd.array([0.5]).sum():.0%}" == "50%"
    x = nd.array([1.0, 2.0])
    assert f"{x}" == str(x)
    with pytest.raises(TypeError, match="2 elements"):
        f"{x:.3f}"
    with pytest.raises(ValueError):
        f"{x[0]:q}"


@pytest.mark.parametrize("container", [nn.Sequential, nn.HybridSequential])
def test_containers_take_their_blocks(container, ctx):
    net = container(nn.Dense(3, in_units=4), nn.Dense(2, in_units=3))
    net.initialize(mx.init.Constant(0.5), ctx=ctx)
    assert len(net) == 2 and net(nd.ones((1, 4), ctx=ctx)).shape == (1, 2)
    assert container("front_").prefix == "front_"  # MXNet's first argument
    named = container(nn.Dense(1), prefix="back_")
    assert named.prefix == "back_" and len(named) == 1
    shared = container("p_", net.collect_params())
    assert shared.prefix == "p_"
    with pytest.raises(TypeError):
        container(3)


def test_containers_of_subclasses():
    class Net(nn.HybridSequential):
        def __init__(self, units, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.add(nn.Dense(units))
    assert len(Net(3, prefix="n_")) == 1


def test_listing_of_transforms():
    text = repr(transforms.Compose([transforms.Resize(32), transforms.ToTensor(), transforms.Normalize(0.5, 0.25)]))
    assert "Resize(size=(32,), keep_ratio=False, interpolation=1)" in text
    assert "ToTensor()" in text and "mean=(0.5,), std=(0.25,)" in text


def test_summary_of_a_hybridized_network(capsys, ctx):
    net = nn.HybridSequential(nn.Dense(3), nn.Dropout(0.5), nn.Dense(2))
    net.initialize(ctx=ctx)
    x = nd.ones((2, 4), ctx=ctx)
    plain = net(x).asnumpy()
    net.summary(x)
    before = capsys.readouterr().out
    net.hybridize()
    net(x)
    net.summary(x)
    assert capsys.readouterr().out == before and "(2, 3)" in before
    assert net._active and np.array_equal(net(x).asnumpy(), plain)


def test_arrays_in_notebooks(ctx):
    text = nd.array([[1, 2], [3, 4.5]], ctx=ctx)._repr_html_()
    assert "<td>4.5</td>" in text and "2x2" in text and text.count("<tr>") == 2
    assert "<pre>" in nd.zeros((2, 3, 4), ctx=ctx)._repr_html_()
    assert "<pre>" in nd.zeros((100, 100), ctx=ctx)._repr_html_()
    assert "CSR" in nd.array([[0, 1]]).tostype("csr")._repr_html_()


def boxes(symbol):
    """The texts of a drawing."""
    drawn = xml.dom.minidom.parseString(symbol._repr_svg_())
    return [node.firstChild.data for node in drawn.getElementsByTagName("text") if node.firstChild]


def test_symbols_in_notebooks():
    a, b = mx.sym.var("a<&>", shape=(2, 3)), mx.sym.var("b")
    texts = boxes(mx.sym.FullyConnected(mx.sym.exp(a) + a * b, num_hidden=4, name="fc"))
    assert {"a<&>", "b", "exp", "fc", "(2, 3)"} <= set(texts)
    assert "fc_weight" not in texts and "fc_bias" not in texts
    assert boxes(mx.sym.var("alone")) == ["alone"]


def test_every_node_of_a_network_is_drawn():
    net = gluon.model_zoo.vision.resnet18_v1()
    symbol = net(mx.sym.var("data", shape=(1, 3, 64, 64)))
    texts = boxes(symbol)
    operators = [name for name in symbol.get_internals().list_outputs() if name.endswith("_output")]
    assert all(name[:-len("_output")] in texts for name in operators)
    assert "(1, 64, 32, 32)" in texts


def test_loss_in_a_message(ctx):
    x = nd.ones((2, 2), ctx=ctx)
    x.attach_grad()
    with autograd.record():
        loss = (x * 2).mean()
    assert f"loss {loss:.2f}" == "loss 2.00"
