"""Exported networks: the files, the blocks made from them, and blocks made from symbols."""
import json
import os

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd, sym
from mxnet.gluon import nn
from hybrid_cases import ALL, LAYERS, NETWORKS, Residual, TwoResults, inputs_of


def close(a, b, rtol=2e-5, atol=2e-6):
    np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=rtol, atol=atol)


def exported(net, inputs, path):
    """The names of the inputs in the files that net writes."""
    net.hybridize()
    net(*inputs)
    assert net.export(path) == (path + "-symbol.json", path + "-0000.params")
    return ["data"] if len(inputs) == 1 else [f"data{i}" for i in range(len(inputs))]


@pytest.mark.parametrize("name", list(ALL))
def test_exported_and_reloaded(name, tmp_path):
    net = ALL[name][0]()
    net.initialize(mx.init.Xavier() if name != "Embedding" else None)
    inputs = inputs_of(name)
    path = str(tmp_path / "net")
    wanted = net(*inputs)
    names = exported(net, inputs, path)
    params = path + "-0000.params" if net.collect_params() else None
    block = gluon.SymbolBlock.imports(path + "-symbol.json", names, params)
    close(block(*inputs), wanted)
    block.hybridize()
    close(block(*inputs), wanted)
    gradients = []
    for each in (net, block):
        mx.random.seed(4)
        first = inputs[0].copy()
        first.attach_grad()
        with autograd.record():
            out = each(first, *inputs[1:])
        out.backward()
        learned = {k: p.grad().copy() for k, p in each.collect_params().items() if p.grad_req != "null"}
        gradients.append((first.grad, learned))
    close(gradients[0][0], gradients[1][0])
    assert set(gradients[0][1]) <= set(gradients[1][1])
    for key, value in gradients[0][1].items():
        close(value, gradients[1][1][key])


@pytest.mark.parametrize("name", [n for n in list(LAYERS) + list(NETWORKS) if n not in ("Plain",)])
def test_exported_graphs_take_other_batch_sizes(name, tmp_path):
    net = ALL[name][0]()
    net.initialize(mx.init.Xavier() if name != "Embedding" else None)
    path = str(tmp_path / "net")
    names = exported(net, inputs_of(name), path)
    block = gluon.SymbolBlock.imports(path + "-symbol.json", names,
                                      path + "-0000.params" if net.collect_params() else None)
    for batch in (1, 4):
        inputs = inputs_of(name, batch)
        close(block(*inputs), net(*inputs))


def test_files(tmp_path):
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3), nn.BatchNorm(), nn.Activation("relu"), nn.Dense(3))
    net.initialize()
    path = str(tmp_path / "model")
    exported(net, [nd.ones((1, 2, 5, 5))], path)
    net.export(path, epoch=12)
    assert os.path.exists(path + "-0012.params")
    graph = json.load(open(path + "-symbol.json"))
    assert [n["name"] for n in graph["nodes"] if n["op"] != "null"] == [
        "net_conv0_fwd", "net_batchnorm0_fwd", "net_relu0_fwd", "net_dense0_fwd"]
    saved = nd.load(path + "-0000.params")
    assert sorted(saved) == ["arg:net_batchnorm0_beta", "arg:net_batchnorm0_gamma", "arg:net_conv0_bias",
                             "arg:net_conv0_weight", "arg:net_dense0_bias", "arg:net_dense0_weight",
                             "aux:net_batchnorm0_running_mean", "aux:net_batchnorm0_running_var"]
    symbol, arguments, auxiliary = mx.model.load_checkpoint(path, 12)
    assert set(arguments) | set(auxiliary) | {"data"} == set(symbol.list_inputs())


def test_export_wants_a_hybridized_block_that_ran(tmp_path):
    net = nn.Dense(3, in_units=2)
    net.initialize()
    with pytest.raises(RuntimeError, match="hybridize"):
        net.export(str(tmp_path / "a"))
    net.hybridize()
    with pytest.raises(RuntimeError, match="once"):
        net.export(str(tmp_path / "a"))
    net(nd.ones((1, 2)))
    with pytest.raises(OSError):
        net.export(str(tmp_path / "missing" / "a"))
    net.export(str(tmp_path / "a"))


def test_several_inputs_and_outputs(tmp_path):
    net = TwoResults()
    net.initialize()
    x, states = nd.random.uniform(shape=(2, 3)), [nd.ones((2, 4)), nd.ones((2, 4)) * 3]
    net.hybridize()
    a, (b, c) = net(x, states)
    net.export(str(tmp_path / "two"))
    block = gluon.SymbolBlock.imports(str(tmp_path / "two-symbol.json"), ["data0", "data1", "data2"],
                                      str(tmp_path / "two-0000.params"))
    for found, wanted in zip(block(x, *states), (a, b, c)):
        close(found, wanted)


# ---- blocks made from symbols --------------------------------------------------------------------------------------

def test_symbol_block_of_internals():
    net = Residual(prefix="r_")
    net.initialize()
    x = nd.random.uniform(shape=(2, 4, 5, 5))
    net(x)
    data = mx.sym.var("data")
    symbol = net(data)
    relu = [name for name in symbol.get_internals().list_outputs() if "relu" in name]
    inner = symbol.get_internals()[relu[0]]
    block = gluon.SymbolBlock(inner, data, params=net.collect_params())
    close(block(x), net.body(x))
    block = gluon.SymbolBlock([inner, symbol], data, params=net.collect_params())
    first, second = block(x)
    close(first, net.body(x)), close(second, net(x))


def test_symbol_block_learns():
    data = mx.sym.var("data")
    hidden = mx.sym.relu(mx.sym.FullyConnected(data, num_hidden=5, name="a"))
    symbol = mx.sym.FullyConnected(hidden, num_hidden=2, name="b")
    net = gluon.SymbolBlock(symbol, data)
    net.initialize(mx.init.Normal(0.5))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    x, y = nd.random.uniform(shape=(8, 3)), nd.ones((8, 2))
    losses = []
    for _ in range(20):
        with autograd.record():
            loss = ((net(x) - y) ** 2).sum()
        loss.backward()
        trainer.step(8)
        losses.append(loss.asscalar())
    assert losses[-1] < losses[0] * 0.5
    assert sorted(net.collect_params().keys()) == ["a_bias", "a_weight", "b_bias", "b_weight"]


def test_symbol_block_inside_another_block(tmp_path):
    inner = nn.Dense(3, in_units=4, prefix="inner_")
    inner.initialize()
    x = nd.random.uniform(shape=(2, 4))
    path = str(tmp_path / "inner")
    exported(inner, [x], path)
    net = nn.HybridSequential()
    net.add(gluon.SymbolBlock.imports(path + "-symbol.json", "data", path + "-0000.params"), nn.Dense(2))
    net[1].initialize()
    wanted = net(x)
    net.hybridize()
    close(net(x), wanted)
    close(net[0](x), inner(x))
    symbol = net(mx.sym.var("x"))
    assert "inner_weight" in symbol.list_arguments()


def test_symbol_block_refusals(tmp_path):
    data = mx.sym.var("data")
    symbol = mx.sym.FullyConnected(data, num_hidden=2, name="fc")
    with pytest.warns(UserWarning, match="other.*data, fc_weight"):
        without = gluon.SymbolBlock(symbol, mx.sym.var("other"))
    assert list(without.collect_params()) == ["data", "fc_weight", "fc_bias"]  # as in MXNet
    with pytest.raises(mx.MXNetError, match="data"):
        without(nd.ones((1, 3)))
    with pytest.raises(ValueError):
        gluon.SymbolBlock(symbol, symbol)
    with pytest.raises(TypeError):
        gluon.SymbolBlock("text", data)
    with pytest.raises(OSError):
        gluon.SymbolBlock.imports(str(tmp_path / "no-symbol.json"), ["data"])
    net = gluon.SymbolBlock(symbol, data)
    net.initialize()
    with pytest.raises((TypeError, ValueError)):
        net(nd.ones((1, 3)), nd.ones((1, 3)))


def test_damaged_files(tmp_path):
    net = nn.Dense(3, in_units=4)
    net.initialize()
    path = str(tmp_path / "net")
    exported(net, [nd.ones((1, 4))], path)
    text = open(path + "-symbol.json").read()
    for damaged in (text[:50], text.replace("FullyConnected", "NoSuchOperator"), "[]", "{}", "",
                    text.replace('"heads"', '"x"')):
        with open(path + "-bad.json", "w") as file:
            file.write(damaged)
        with pytest.raises(mx.MXNetError):
            mx.sym.load(path + "-bad.json")
    values = open(path + "-0000.params", "rb").read()
    with open(path + "-bad.params", "wb") as file:
        file.write(values[:40])
    with pytest.raises(mx.MXNetError):
        gluon.SymbolBlock.imports(path + "-symbol.json", ["data"], path + "-bad.params")
    other = nn.Dense(5, in_units=4)
    other.initialize()
    exported(other, [nd.ones((1, 4))], path + "2")
    with pytest.raises((AssertionError, mx.MXNetError)):
        gluon.SymbolBlock.imports(path + "-symbol.json", ["data"], path + "2-0000.params")


def test_notes_about_initializers(tmp_path):
    """__init__ of a variable in a file says how its parameter starts."""
    data = sym.var("data")
    net = sym.FullyConnected(data, weight=sym.var("w", init=mx.init.Constant(0.25)),
                             bias=sym.var("b", init=mx.init.Normal(2.0)), num_hidden=300)
    net = sym.FullyConnected(net, weight=sym.var("v", init="ones"), num_hidden=2, name="last")
    net.save(str(tmp_path / "net-symbol.json"))
    block = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"])
    block.initialize(mx.init.Zero())
    block(nd.zeros((1, 4)))
    values = {name: p.data().asnumpy() for name, p in block.collect_params().items()}
    assert (values["w"] == 0.25).all() and (values["v"] == 1).all() and (values["last_bias"] == 0).all()
    assert 1.5 < values["b"].std() < 2.5
    text = (tmp_path / "net-symbol.json").read_text().replace('[\\"constant\\", {\\"value\\": 0.25}]', "no such thing")
    (tmp_path / "net-symbol.json").write_text(text)
    block = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"])
    block.initialize(mx.init.One())
    block(nd.zeros((1, 4)))
    assert (block.collect_params()["w"].data().asnumpy() == 1).all()


def test_hidden_outputs_are_counted_as_mxnet_does():
    def rows(symbol):
        return json.loads(symbol.tojson())["node_row_ptr"]
    data = sym.var("data")
    recurrent = dict(parameters=sym.var("p"), state=sym.var("s"), state_size=3, num_layers=1)
    assert rows(sym.RNN(data, mode="gru", **recurrent)) == [0, 1, 2, 3, 4]
    assert rows(sym.RNN(data, mode="gru", state_outputs=True, **recurrent)[0]) == [0, 1, 2, 3, 5]
    assert rows(sym.RNN(data, mode="lstm", state_cell=sym.var("c"), state_outputs=True, **recurrent)[0]) == \
        [0, 1, 2, 3, 4, 7]
    assert rows(sym.LeakyReLU(data, act_type="leaky")) == [0, 1, 2]
    assert rows(sym.LeakyReLU(data, act_type="rrelu")) == [0, 1, 3]
    assert rows(sym.BatchNorm(data)) == [0, 1, 2, 3, 4, 5, 8]


def test_inputs_that_the_outputs_do_not_use():
    a, b = mx.sym.var("a"), mx.sym.var("b")
    block = gluon.SymbolBlock(a * 2, [a, b])
    for hybridize in (False, True):
        if hybridize:
            block.hybridize()
        assert block(nd.ones((2,)), nd.ones((3,))).asnumpy().tolist() == [2, 2]
    assert not list(block.collect_params())
    with pytest.raises(ValueError, match="^SymbolBlock: got 1 inputs, wanted 2"):
        block(nd.ones((2,)))
