"""Drawings and tables of graphs."""
import pytest

import mxnet as mx
from mxnet import nd, sym
from mxnet.gluon import nn


def net_of():
    net = sym.Convolution(sym.var("data"), kernel=(3, 3), num_filter=8, name="conv")
    net = sym.BatchNorm(net, name="bn")
    net = sym.Activation(net, act_type="relu", name="act")
    net = sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool")
    return sym.FullyConnected(net, num_hidden=10, name="fc")


def test_plot_network():
    drawing = mx.viz.plot_network(net_of(), title="net", shape={"data": (1, 3, 8, 8)})
    text = drawing.source
    for part in ("digraph", "conv", "3x8x8", "8x6x6", "8x3x3", "Convolution", "#fbc4bd"):
        assert part in text
    assert "conv_weight" not in text
    shown = mx.viz.plot_network(net_of(), hide_weights=False, node_attrs={"shape": "oval"}).source
    assert "conv_weight" in shown and "bn_moving_mean" in shown


def test_text_without_the_package(tmp_path, monkeypatch):
    import builtins
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "graphviz":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    drawing = mx.viz.plot_network(net_of(), title="a b", shape={"data": (1, 3, 8, 8)})
    assert drawing.source.startswith('digraph "a b" {') and str(drawing) == drawing.source
    path = drawing.save("x.gv", str(tmp_path))
    assert open(path).read() == drawing.source
    monkeypatch.setenv("PATH", "")
    with pytest.warns(UserWarning, match="dot"):
        drawing.render("y.gv", str(tmp_path))


def test_print_summary(capsys):
    mx.viz.print_summary(net_of(), shape={"data": (1, 3, 8, 8)})
    text = capsys.readouterr().out
    lines = {line.split("(")[0]: line for line in text.split("\n")}
    assert "224" in lines["conv"] and "8x6x6" in lines["conv"] and "730" in lines["fc"] and "16" in lines["bn"]
    assert "Total params: 970" in text
    mx.viz.print_summary(net_of())
    assert "fc(FullyConnected)" in capsys.readouterr().out


def branches():
    """A residual block with two inputs, one more branch and two results."""
    data, other = sym.var("data"), sym.var("other")
    body = sym.BatchNorm(sym.Convolution(data, kernel=(3, 3), pad=(1, 1), num_filter=4, no_bias=True, name="conv"),
                         name="bn")
    short = sym.Convolution(data, kernel=(1, 1), num_filter=4, no_bias=True, name="short")
    total = sym.Activation(body + short, act_type="relu", name="relu")
    parts = sym.SliceChannel(sym.Concat(total, other, name="join"), num_outputs=2, name="split")
    return sym.Group([parts[0], sym.Flatten(parts[1], name="flat")])


def test_branches_are_drawn_and_listed(capsys):
    shape = {"data": (2, 3, 8, 8), "other": (2, 2, 8, 8)}
    text = mx.viz.plot_network(branches(), shape=shape).source
    for part in ("3x8x8", "4x8x8", "2x8x8", "6x8x8", "3x3, 4", "1x1, 4"):
        assert part in text
    arrows = [line for line in text.split("\n") if "->" in line]
    assert len(arrows) == 10 and sum("data" in line for line in arrows) == 2
    mx.viz.print_summary(branches(), shape=shape)
    table = capsys.readouterr().out
    lines = {line.split("(")[0]: line for line in table.split("\n")}
    assert "108" in lines["conv"] and "12" in lines["short"] and " 8 " in lines["bn"] and "6x8x8" in lines["join"]
    assert "other(null)" in table and "Total params: 128" in table
    rows = table.split("\n")
    joined = next(i for i, line in enumerate(rows) if line.startswith("join("))
    assert "relu" in rows[joined] and rows[joined + 1].split() == ["other"]


def test_drawings_are_rendered(tmp_path):
    import shutil
    if not shutil.which("dot"):
        pytest.skip("the program dot is not installed")
    drawing = mx.viz.plot_network(branches(), save_format="svg", shape={"data": (2, 3, 8, 8), "other": (2, 2, 8, 8)})
    path = drawing.render("net.gv", str(tmp_path))
    assert path.endswith(".svg") and "<svg" in open(path).read()


def test_blocks_are_drawn():
    net = nn.HybridSequential()
    net.add(nn.Dense(4, activation="relu"), nn.Dense(2))
    assert "FullyConnected" in mx.viz.plot_network(net(sym.var("x"))).source
    net.initialize()
    net(nd.ones((1, 3)))
    assert 'label=4' in mx.viz.plot_network(net(sym.var("x")), shape={"x": (1, 3)}).source.replace('"', "")


def test_refusals():
    with pytest.raises(TypeError):
        mx.viz.plot_network("text")
    with pytest.raises(TypeError):
        mx.viz.print_summary(nd.ones((1,)))
    with pytest.raises(TypeError):
        mx.viz.plot_network(net_of(), node_attrs=3)
    with pytest.raises((ValueError, mx.MXNetError)):
        mx.viz.plot_network(net_of(), shape={})
