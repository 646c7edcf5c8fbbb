"""Symbols: making, naming, asking, files."""
import copy
import json
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, nd, sym
from mxnet.symbol import Symbol


def mlp():
    data = sym.Variable("data")
    net = sym.FullyConnected(data=data, name="fc1", num_hidden=8)
    net = sym.Activation(net, name="relu1", act_type="relu")
    net = sym.FullyConnected(net, name="fc2", num_hidden=3)
    return sym.SoftmaxOutput(net, name="softmax")


# ---- making --------------------------------------------------------------------------------------------------------

def test_lists():
    net = mlp()
    assert net.list_arguments() == ["data", "fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias", "softmax_label"]
    assert net.list_outputs() == ["softmax_output"]
    assert net.list_auxiliary_states() == [] and net.name == "softmax"
    bn = sym.BatchNorm(sym.var("x"), name="bn")
    assert bn.list_arguments() == ["x", "bn_gamma", "bn_beta"]
    assert bn.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    assert bn.list_inputs() == ["x", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"]


def test_every_operator_is_there():
    from mxnet.ndarray import _register as arrays
    from mxnet.symbol import _register as symbols
    assert set(arrays.OPERATORS) == set(symbols.OPERATORS)
    for name in ("Convolution", "softmax", "elemwise_add", "where", "concat", "RNN"):
        assert hasattr(sym, name) and hasattr(sym.op, name)
    assert hasattr(sym.contrib, "box_nms") and hasattr(sym.linalg, "gemm2") and hasattr(sym.image, "to_tensor")
    assert hasattr(sym._internal, "_plus_scalar")
    text = sym.FullyConnected.__doc__
    assert "num_hidden" in text and "NDArray" not in text and "Symbol" in text and "name : str" in text


def test_inputs_by_position_and_keyword():
    a, b, c = sym.var("a"), sym.var("b"), sym.var("c")
    assert sym.FullyConnected(a, b, c, num_hidden=2).list_arguments() == ["a", "b", "c"]
    assert sym.FullyConnected(bias=c, data=a, num_hidden=2, name="f").list_arguments() == ["a", "f_weight", "c"]
    assert sym.FullyConnected(a, num_hidden=2, no_bias=True, name="f").list_arguments() == ["a", "f_weight"]
    assert sym.concat(a, b, c, dim=1).list_arguments() == ["a", "b", "c"]
    assert sym.concat(*[a, b], num_args=2).list_arguments() == ["a", "b"]
    assert sym.clip(a, 0, 1).attr("a_max") in ("1", "1.0")
    assert sym.LeakyReLU(a, act_type="prelu", name="p").list_arguments() == ["a", "p_gamma"]


def test_automatic_names():
    with mx.name.NameManager():
        a, b = sym.var("a"), sym.var("b")
        assert [(a + b).name, (a + b).name, (a * 2).name, (2 / a).name, (-a).name, (a > b).name, abs(a).name] == [
            "_plus0", "_plus1", "_mulscalar0", "_rdivscalar0", "_mulscalar1", "_greater0", "abs0"]
        assert [sym.FullyConnected(a, num_hidden=1).name, a.reshape((1,)).name, sym.contrib.box_nms(a).name] == [
            "fullyconnected0", "reshape0", "box_nms0"]


def test_prefixes_and_managers():
    with mx.name.Prefix("net_"):
        a = sym.var("a")
        assert sym.FullyConnected(a, num_hidden=1).name == "net_fullyconnected0"
        assert sym.FullyConnected(a, num_hidden=1, name="x").name == "net_x"
        assert sym.FullyConnected(a, num_hidden=1, name="y").list_arguments() == ["a", "net_y_weight", "net_y_bias"]

    class Loud(mx.name.NameManager):
        def get(self, name, hint):
            return (name or hint).upper()

    with Loud():
        assert sym.relu(sym.var("a")).name == "RELU"
        assert mx.name.NameManager.current.get(None, "q") == "Q"
        with mx.name.Prefix("in_"):
            assert sym.relu(sym.var("a")).name == "in_relu0"
        assert sym.relu(sym.var("a"), name="b").name == "B"
    assert sym.relu(sym.var("a"), name="b").name == "b"


def test_attributes():
    with mx.AttrScope(ctx_group="one", __data__="great"):
        data = sym.Variable("data", attr={"dtype": "data", "__force__": "1"}, lr_mult=2)
        with mx.AttrScope(__data__="inner"):
            net = sym.Convolution(data, kernel=(1, 1), num_filter=1, name="conv",
                                  attr={"__mood__": "so so", "wd_mult": "3"})
    assert data.attr("ctx_group") == "one" and data.attr("__data__") == "great" and data.attr("dtype") == "data"
    assert data.attr("__force__") == "1" and float(data.attr("__lr_mult__")) == 2
    assert net.attr("__data__") == "inner" and net.attr("__mood__") == "so so" and net.attr("__wd_mult__") == "3"
    assert net.attr("kernel") == "(1, 1)" and net.attr("nothing") is None
    assert net.attr_dict()["data"]["dtype"] == "data"
    assert net.attr_dict()["conv_weight"]["__mood__"] == "so so"
    assert net.list_attr()["num_filter"] == "1"
    with pytest.raises(ValueError):
        mx.AttrScope(x=1)
    with pytest.raises(ValueError):
        sym.var("x", attr={"a": 1})
    with pytest.raises(ValueError, match="__b__"):
        sym.var("x", b="1")


def test_arithmetic_values():
    a, b = nd.array([[1, 2], [3, 4]]), nd.array([[0.5, 2], [1.5, 5]])
    x, y = sym.var("x"), sym.var("y")
    expressions = [lambda p, q: p + q, lambda p, q: p - q, lambda p, q: p * q, lambda p, q: p / q, lambda p, q: p % q,
                   lambda p, q: p ** q, lambda p, q: p > q, lambda p, q: p >= q, lambda p, q: p < q,
                   lambda p, q: p <= q, lambda p, q: p == q, lambda p, q: p != q, lambda p, q: 3 - p + q * 0,
                   lambda p, q: 3 / p + q * 0,
                   lambda p, q: 7 % p + q * 0, lambda p, q: 2 ** p + q * 0, lambda p, q: -p + q + 1,
                   lambda p, q: abs(p - q), lambda p, q: (p > 2) + (q <= 2) + (1 < q), lambda p, q: p / 2 - 1 + q % 2]
    for f in expressions:
        found, = f(x, y).eval(x=a, y=b)
        np.testing.assert_allclose(found.asnumpy(), f(a, b).asnumpy(), rtol=1e-5)
    for name in ("maximum", "minimum", "hypot", "power", "add", "subtract", "multiply", "divide", "modulo", "equal",
                 "greater", "lesser_equal", "logical_and", "logical_xor"):
        for u, v, p, q in ((x, y, a, b), (x, 2, a, 2)):
            s = getattr(sym, name)(u, v)
            found, = s.eval(**{k: w for k, w in dict(x=a, y=b).items() if k in s.list_arguments()})
            np.testing.assert_allclose(found.asnumpy(), getattr(nd, name)(p, q).asnumpy(), rtol=1e-5)
    assert sym.maximum(2, 3) == 3
    with pytest.raises(TypeError):
        sym.maximum("a", "b")
    with pytest.raises(TypeError):
        x + "text"


def test_slicing():
    x = sym.var("x")
    a = nd.arange(2 * 3 * 4 * 5).reshape((2, 3, 4, 5))
    keys = [np.s_[:, :, 1:, 1:], np.s_[1:, :], np.s_[:, 1], np.s_[..., 0], np.s_[:, None, 0], np.s_[0, 1],
            np.s_[:, ::2, 1:3], np.s_[:, -1], np.s_[-1:, :, -3:-1]]
    for key in keys:
        if key is not Ellipsis and (not isinstance(key, tuple) or Ellipsis not in key):
            found, = x[key].eval(x=a)
            np.testing.assert_array_equal(found.asnumpy(), a.asnumpy()[key])
    known = sym.var("x", shape=(2, 3, 4, 5))
    for key in keys:
        found, = known[key].eval(x=a)
        np.testing.assert_array_equal(found.asnumpy(), a.asnumpy()[key])
    with pytest.raises(mx.MXNetError):
        x[0:1] = 3


def test_several_outputs():
    parts = sym.split(sym.var("x"), num_outputs=3, axis=1, name="s")
    assert len(parts) == 3 and parts.list_outputs() == ["s_output0", "s_output1", "s_output2"]
    assert parts[1].list_outputs() == ["s_output1"] and parts["s_output2"].list_outputs() == ["s_output2"]
    assert [p.list_outputs()[0] for p in parts] == parts.list_outputs()
    assert parts[-1].list_outputs() == ["s_output2"] and parts[0:2].list_outputs() == ["s_output0", "s_output1"]
    a, b, c = parts
    found, = (a + b * c).eval(x=nd.array([[1, 2, 3]]))
    assert found.asscalar() == 7
    assert sym.concat(*parts, dim=1).list_arguments() == ["x"]
    with pytest.raises(IndexError):
        parts[3]
    with pytest.raises(ValueError):
        parts["nothing"]
    with pytest.raises(ValueError):
        parts + 1
    group = sym.Group([parts[0], sym.var("y")])
    assert group.list_outputs() == ["s_output0", "y"] and group.name is None
    with pytest.raises(TypeError):
        sym.Group([])


def test_inputs_that_an_attribute_asks_for():
    x = sym.var("x")
    assert sym.softmax(x, name="a").list_arguments() == ["x"]
    assert sym.softmax(x, use_length=True, name="a").list_arguments() == ["x", "a_length"]
    assert sym.contrib.attention(x, heads=2, roles="packed", name="a").list_arguments() == ["x"]
    assert sym.contrib.attention(x, heads=2, roles="packed", use_mask=True, name="a").list_arguments() == ["x", "a_mask"]
    assert sym.FullyConnected(x, num_hidden=2, name="a").list_arguments() == ["x", "a_weight", "a_bias"]
    assert sym.FullyConnected(x, num_hidden=2, no_bias=True, name="a").list_arguments() == ["x", "a_weight"]


def test_methods():
    x = sym.var("x")
    a = nd.array(np.random.rand(2, 3, 4))
    cases = [("sum", dict(axis=1)), ("mean", {}), ("exp", {}), ("reshape", dict(shape=(2, 12))),
             ("transpose", dict(axes=(2, 0, 1))), ("expand_dims", dict(axis=0)), ("flatten", {}),
             ("clip", dict(a_min=0.2, a_max=0.6)), ("softmax", {}),
             ("slice_axis", dict(axis=1, begin=0, end=2)), ("tile", dict(reps=(2, 1, 1))),
             ("astype", dict(dtype="float64")), ("norm", {}), ("relu", {}), ("square", {}),
             ("argmax", dict(axis=2)), ("swapaxes", dict(dim1=0, dim2=1)),
             ("max", dict(axis=0)), ("topk", dict(k=2)), ("sort", {}), ("one_hot", dict(depth=2)),
             ("repeat", dict(repeats=2)), ("flip", dict(axis=0)), ("zeros_like", {}), ("sign", {})]
    for name, attrs in cases:
        found, = getattr(x, name)(**attrs).eval(x=a)
        wanted = getattr(a, name)(**attrs)
        np.testing.assert_allclose(found.asnumpy(), wanted.asnumpy(), rtol=1e-5)
        assert found.dtype == wanted.dtype
    assert x.reshape(2, 12).eval(x=a)[0].shape == (2, 12)
    for name in ("asnumpy", "asscalar", "wait_to_read", "backward", "detach", "copy", "as_in_context"):
        with pytest.raises(mx.base.NotImplementedForSymbol):
            getattr(x, name)(*([mx.cpu()] if name == "as_in_context" else []))
    with pytest.raises(mx.base.NotImplementedForSymbol):
        bool(x)


def test_creation():
    for made, wanted in [(sym.zeros((2, 3)), np.zeros((2, 3))), (sym.ones((2,), dtype="int32"), np.ones(2)),
                         (sym.full((2,), 3), np.full(2, 3)), (sym.arange(1, 7, 2), np.arange(1, 7, 2)),
                         (sym.linspace(0, 1, 5), np.linspace(0, 1, 5)), (sym.eye(3, k=1), np.eye(3, k=1))]:
        found, = made.eval()
        np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-6)
    mx.random.seed(1)
    found, = sym.random.uniform(2, 3, shape=(50,)).eval()
    mx.random.seed(1)
    np.testing.assert_array_equal(found.asnumpy(), nd.random.uniform(2, 3, shape=(50,)).asnumpy())
    low = sym.var("low")
    assert sym.random.normal(low, low, shape=(2,)).eval(low=nd.ones((3,)))[0].shape == (3, 2)


def test_what_you_pass_in_is_what_you_get_out():
    x = sym.var("x")
    assert isinstance(nd.relu(x), Symbol) and isinstance(nd.concat(x, nd.ones((1,)), dim=0), Symbol)
    assert isinstance(nd.add(x, 1), Symbol) and isinstance(nd.ones((2,)) + x, Symbol)
    found, = (nd.ones((2,)) * 3 + x).eval(x=nd.ones((2,)))
    assert found.asnumpy().tolist() == [4, 4]


# ---- asking --------------------------------------------------------------------------------------------------------

def test_infer_shape():
    net = mlp()
    arguments, outputs, auxiliary = net.infer_shape(data=(5, 7))
    assert dict(zip(net.list_arguments(), arguments)) == {"data": (5, 7), "fc1_weight": (8, 7), "fc1_bias": (8,),
                                                          "fc2_weight": (3, 8), "fc2_bias": (3,), "softmax_label": (5,)}
    assert outputs == [(5, 3)] and auxiliary == []
    assert net.infer_shape((5, 7))[1] == [(5, 3)]
    with pytest.warns(UserWarning):
        assert net.infer_shape() == (None, None, None)
    partial = net.infer_shape_partial()
    assert partial[0][0] == () and partial[0][2] == ()
    known = sym.FullyConnected(sym.var("x", shape=(4, 0)), num_hidden=2, name="f")
    assert known.infer_shape(x=(4, 3))[0] == [(4, 3), (2, 3), (2,)]
    backwards = sym.relu(sym.var("a")) + sym.var("b")
    assert backwards.infer_shape(b=(2, 3)) == ([(2, 3), (2, 3)], [(2, 3)], [])


def test_two_variables_of_one_name():
    net = sym.var("x") + sym.var("x")
    for one in (net, sym.load_json(net.tojson())):
        assert one.list_arguments() == ["x", "x"]
        assert one.infer_shape(x=(2, 3))[:2] == ([(2, 3), (2, 3)], [(2, 3)])
    executor = net.bind(mx.cpu(), [mx.nd.ones((2,)), mx.nd.full((2,), 3)])
    assert executor.forward()[0].asnumpy().tolist() == [4, 4]
    dot = sym.dot(sym.var("x"), sym.var("x"))
    assert dot.infer_shape((2, 3), (3, 4))[1] == [(2, 4)]
    assert dot.bind(mx.cpu(), [mx.nd.ones((2, 3)), mx.nd.ones((3, 4))]).outputs[0].shape == (2, 4)


def test_infer_shape_errors_name_the_node():
    net = mlp()
    with pytest.raises(mx.MXNetError, match="fc1"):
        net.infer_shape(data=(5, 7), fc1_weight=(8, 9))
    with pytest.raises(mx.MXNetError, match="_plus"):
        (sym.var("a") + sym.var("b")).infer_shape(a=(2, 3), b=(3, 2))
    with pytest.raises(TypeError):
        net.infer_shape(data=3)
    with pytest.raises(ValueError):
        net.infer_shape((1, 2), data=(1, 2))
    with pytest.raises(mx.MXNetError, match="nothing"):
        net.infer_shape(nothing=(2,), data=(5, 7))


def test_infer_type():
    net = mlp()
    arguments, outputs, _ = net.infer_type(data="float64")
    assert arguments[:5] == [np.float64] * 5 and outputs == [np.float64]
    assert sym.cast(sym.var("x"), dtype="int32").infer_type(x="float32")[1] == [np.int32]
    assert sym.var("x").infer_type() == (None, None, None)
    assert sym.var("x").infer_type_partial() == ([None], [None], [])


def test_known_shapes():
    x = sym.var("x", shape=(2, 3), dtype="float32")
    y = sym.concat(x, x, dim=1)
    assert y.shape == (2, 6) and y.ndim == 2 and y.size == 12 and y.dtype == np.float32
    with pytest.raises(AttributeError):
        sym.var("z").shape
    assert not hasattr(sym.var("z", shape=(0, 2)), "shape")


def test_internals_and_children():
    net = mlp()
    internals = net.get_internals()
    assert "fc1_output" in internals.list_outputs()
    assert internals["fc1_output"].list_arguments() == ["data", "fc1_weight", "fc1_bias"]
    assert net.get_children().list_outputs() == ["fc2_output", "softmax_label"]
    assert sym.var("x").get_children() is None


def test_composing():
    a = sym.FullyConnected(sym.var("x"), num_hidden=3, name="a")
    b = sym.FullyConnected(sym.var("y"), num_hidden=2, name="b")
    both = b(y=a, name="both")
    assert both.list_arguments() == ["x", "a_weight", "a_bias", "b_weight", "b_bias"]
    assert b.list_arguments()[0] == "y" and both.name == "both"
    assert b(a).list_arguments()[0] == "x"
    with pytest.raises(TypeError):
        b(y=3)
    with pytest.raises(mx.MXNetError, match="nothing"):
        b(nothing=a)


def test_gradient():
    x, w = sym.var("x", shape=(2,)), sym.var("w", shape=(2,))
    net = sym.sum(sym.square(x * w))
    found = net.gradient(["x", "w"])
    assert len(found) == 2
    a, b = nd.array([1, 2]), nd.array([3, 4])
    dx, dw = found.eval(x=a, w=b)
    np.testing.assert_allclose(dx.asnumpy(), 2 * a.asnumpy() * b.asnumpy() ** 2)
    np.testing.assert_allclose(dw.asnumpy(), 2 * b.asnumpy() * a.asnumpy() ** 2)
    with pytest.raises(mx.MXNetError, match="nothing"):
        net.gradient(["nothing"])
    with pytest.raises(mx.MXNetError, match="shape"):
        sym.sum(sym.var("x")).gradient(["x"])


# ---- files ---------------------------------------------------------------------------------------------------------

def same(a, b):
    assert json.loads(a.tojson()) == json.loads(b.tojson())


def test_json_and_files(tmp_path):
    net = mlp()
    same(sym.load_json(net.tojson()), net)
    same(sym.fromjson(net.tojson()), net)
    path = str(tmp_path / "net.json")
    net.save(path)
    same(sym.load(path), net)
    same(pickle.loads(pickle.dumps(net)), net)
    same(copy.deepcopy(net), net)
    same(copy.copy(net), net)
    with pytest.raises(TypeError):
        sym.load(3)
    with pytest.raises(mx.MXNetError):
        sym.load_json("{")
    with pytest.raises(OSError):
        sym.load(str(tmp_path / "absent.json"))
    with pytest.raises(OSError):
        net.save(str(tmp_path / "absent" / "a.json"))


def test_old_files_are_read():
    text = json.dumps({
        "nodes": [{"op": "null", "param": {}, "name": "data", "inputs": [], "backward_source_id": -1},
                  {"op": "null", "param": {}, "name": "fc_weight", "inputs": [], "backward_source_id": -1},
                  {"op": "null", "param": {}, "name": "fc_bias", "inputs": [], "backward_source_id": -1},
                  {"op": "FullyConnected", "param": {"no_bias": "False", "num_hidden": "4"}, "name": "fc",
                   "inputs": [[0, 0], [1, 0], [2, 0]], "backward_source_id": -1}],
        "arg_nodes": [0, 1, 2], "heads": [[3, 0]]})
    net = sym.load_json(text)
    assert net.list_arguments() == ["data", "fc_weight", "fc_bias"] and net.infer_shape(data=(2, 3))[1] == [(2, 4)]


def test_printing():
    assert repr(sym.var("x")) == "<Symbol x>"
    assert repr(sym.Group([sym.var("x"), sym.var("y")])) == "<Symbol group [x, y]>"
    assert "fc1" in mlp().debug_str()


def test_wrong_calls():
    x = sym.var("x")
    with pytest.raises(mx.MXNetError, match="num_hiden"):
        sym.FullyConnected(x, num_hiden=3)
    with pytest.raises(mx.MXNetError):
        sym.FullyConnected(x)
    with pytest.raises(TypeError):
        sym.relu(3)
    with pytest.raises(TypeError):
        sym.relu(x, name=3)
    with pytest.raises(TypeError):
        sym.relu(x, out=nd.ones((1,)))
    with pytest.raises((TypeError, mx.MXNetError)):
        sym.relu(x, x)
    with pytest.raises(TypeError):
        sym.var(3)
    with pytest.raises(mx.MXNetError):
        sym.Convolution(x, kernel="text", num_filter=3)
    with pytest.raises(TypeError):
        sym.relu(x, attr={3: "a"})


def test_parameter_as_variable():
    from mxnet.gluon import nn
    net = nn.Dense(3, in_units=2, weight_initializer="ones")
    variable = net.weight.var()
    assert variable.name == net.weight.name and variable.shape == (3, 2)


def test_recorded_computation_as_a_symbol():
    x, w = nd.array([[1.0, 2.0]]), nd.array([[3.0, 4.0], [5.0, 6.0]])
    w.attach_grad()
    with autograd.record():
        y = nd.FullyConnected(x, w, no_bias=True, num_hidden=2)
        z = nd.tanh(y * 0.1) + y
    symbol = autograd.get_symbol(z)
    names = symbol.list_arguments()
    assert len(names) == 2
    shapes = dict(zip(names, symbol.infer_shape(**{names[0]: (1, 2), names[1]: (2, 2)})[0]))
    values = {name: x if shape == (1, 2) else w for name, shape in shapes.items()}
    np.testing.assert_allclose(symbol.eval(**values)[0].asnumpy(), z.asnumpy(), rtol=1e-6)
    with pytest.raises(mx.MXNetError):
        autograd.get_symbol(nd.ones((2,)))


PARTIAL = [  # symbol of x, y, c; known shapes; shape of the first output, 0 where it is not known
    (lambda x, y, c: sym.dot(x, y), {"x": (0, 3, 4), "y": (4, 5)}, (0, 3, 5)),
    (lambda x, y, c: sym.dot(x, y, transpose_a=True), {"x": (4, 0), "y": (4, 5)}, (0, 5)),
    (lambda x, y, c: sym.batch_dot(x, y), {"x": (0, 3, 4), "y": (0, 4, 5)}, (0, 3, 5)),
    (lambda x, y, c: sym.batch_dot(x, y), {"x": (0, 3, 0), "y": (0, 4, 5)}, ()),
    (lambda x, y, c: sym.pick(x, y), {"x": (0, 3)}, (0,)),
    (lambda x, y, c: sym.slice(x, begin=(0, 0), end=(1, 2)), {"x": (0, 5)}, (0, 2)),
    (lambda x, y, c: sym.slice(x, begin=(None, 1), end=(None, None)), {"x": (0, 5)}, (0, 4)),
    (lambda x, y, c: sym.slice_axis(x, axis=0, begin=0, end=2), {"x": (0, 5)}, (0, 5)),
    (lambda x, y, c: sym.slice_axis(x, axis=-1, begin=-2, end=None), {"x": (0, 5)}, (0, 2)),
    (lambda x, y, c: sym.split(x, num_outputs=2, axis=1), {"x": (0, 4)}, (0, 2)),
    (lambda x, y, c: sym.split(x, num_outputs=2, axis=1, squeeze_axis=True), {"x": (0, 2)}, (0,)),
    (lambda x, y, c: sym.broadcast_add(x, y), {"x": (0, 4), "y": (3, 4)}, (0, 4)),
    (lambda x, y, c: sym.broadcast_mul(x, y), {"x": (2, 0, 4), "y": (4,)}, (2, 0, 4)),
    (lambda x, y, c: sym.broadcast_add(x, y), {"x": (0, 4)}, ()),
    (lambda x, y, c: sym.broadcast_add(sym.zeros(shape=(0, 4)), x), {"x": (2, 4)}, (0, 4)),
    (lambda x, y, c: sym.Reshape(x, shape=(0, -1)), {"x": (0, 3, 4)}, (0, 0)),
    (lambda x, y, c: sym.Reshape(x, shape=(-1, 6)), {"x": (0, 3, 4)}, (0, 6)),
    (lambda x, y, c: sym.Reshape(x, shape=(-1, 11)), {"x": (0, 0, 4)}, (0, 11)),
    (lambda x, y, c: sym.Reshape(x, shape=(-3, -2)), {"x": (0, 3, 4)}, (0, 4)),
    (lambda x, y, c: sym.Reshape(x, shape=(0, -4, 2, -1, -2)), {"x": (0, 0, 4)}, (0, 2, 0, 4)),
    (lambda x, y, c: sym.where(c, x, y), {"c": (2, 3), "x": (0, 3)}, (0, 3)),
    (lambda x, y, c: sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max"), {"x": (0, 3, 8, 8)}, (0, 3, 4, 4)),
    (lambda x, y, c: sym.Pooling(x, global_pool=True, pool_type="avg"), {"x": (0, 3, 0, 0)}, (0, 3, 1, 1)),
    (lambda x, y, c: sym.Pad(x, mode="edge", pad_width=(0, 0, 0, 0, 1, 1, 2, 2)), {"x": (0, 3, 8, 8)}, (0, 3, 10, 12)),
    (lambda x, y, c: sym.UpSampling(x, scale=2, sample_type="nearest"), {"x": (0, 3, 8, 8)}, (0, 3, 16, 16)),
    (lambda x, y, c: sym.repeat(x, repeats=2, axis=1), {"x": (0, 3)}, (0, 6)),
    (lambda x, y, c: sym.Crop(x, h_w=(4, 4)), {"x": (0, 3, 8, 8)}, (0, 3, 4, 4)),
    (lambda x, y, c: sym.Crop(x, y, num_args=2), {"x": (0, 3, 8, 8), "y": (0, 2, 4, 5)}, (0, 3, 4, 5)),
    (lambda x, y, c: sym.Convolution(x, num_filter=4, kernel=(3, 3)), {"x": (0, 3, 8, 8)}, (0, 4, 6, 6)),
    (lambda x, y, c: sym.space_to_depth(x, block_size=2), {"x": (0, 4, 4, 4)}, (0, 16, 2, 2)),
    (lambda x, y, c: sym.take(x, y, axis=1), {"x": (0, 4), "y": (3,)}, (0, 3)),
    (lambda x, y, c: sym.topk(x, k=2, axis=1), {"x": (0, 3)}, (0, 2)),
    (lambda x, y, c: sym.diag(x), {"x": (0, 3)}, (0,)),
    (lambda x, y, c: sym.ROIPooling(x, y, pooled_size=(2, 2), spatial_scale=1), {"x": (0, 3, 8, 8), "y": (4, 5)},
     (4, 3, 2, 2)),
]


@pytest.mark.parametrize("number", range(len(PARTIAL)))
def test_partial_shapes_keep_what_is_known(number):
    make, known, expected = PARTIAL[number]
    net = make(sym.var("x"), sym.var("y"), sym.var("c"))
    assert net.infer_shape_partial(**known)[1][0] == expected


def test_partial_shapes_of_parameters():
    net = sym.FullyConnected(sym.var("x"), num_hidden=4, name="fc")
    assert net.infer_shape_partial() == ([(), (), ()], [()], [])
    assert net.infer_shape_partial(x=(0, 3)) == ([(0, 3), (4, 3), (4,)], [(0, 4)], [])
    assert net.infer_shape_partial(x=(0, 3, 2))[0][1] == (4, 6)
    net = sym.FullyConnected(sym.var("x"), num_hidden=4, flatten=False, name="fc")
    assert net.infer_shape_partial(x=(0, 0, 2)) == ([(0, 0, 2), (4, 2), (4,)], [(0, 0, 4)], [])
    net = sym.RNN(sym.var("x"), state_size=4, num_layers=1, mode="lstm", state_outputs=True, name="rnn")
    assert net.infer_shape_partial(x=(5, 0, 3)) == ([(5, 0, 3), (144,), (1, 0, 4), (1, 0, 4)],
                                                    [(5, 0, 4), (1, 0, 4), (1, 0, 4)], [])
    with pytest.raises(mx.MXNetError):
        sym.Reshape(sym.var("x"), shape=(0, -4, 2, -1)).infer_shape_partial(x=(0, 3))


@pytest.mark.parametrize("make, y, expected", [
    (lambda: sym.Convolution(sym.var("x", shape=(0, 2, 0, 0)), num_filter=4, kernel=(3, 3), pad=(1, 1)), (5, 4, 8, 9),
     (5, 2, 8, 9)),
    (lambda: sym.Convolution(sym.var("x", shape=(0, 2, 0)), num_filter=4, kernel=(3,), dilate=(2,)), (5, 4, 8),
     (5, 2, 12)),
    (lambda: sym.Convolution(sym.var("x", shape=(0, 2, 0, 0, 0)), num_filter=4, kernel=(3, 1, 2)), (5, 4, 8, 9, 7),
     (5, 2, 10, 9, 8)),
    (lambda: sym.Convolution(sym.var("x", shape=(0, 2, 0)), num_filter=4, kernel=(3,), stride=(2,)), (5, 4, 8),
     (5, 2, 0)),
    (lambda: sym.SliceChannel(sym.var("x", shape=(0, 3)), num_outputs=3, axis=1, squeeze_axis=True)[1], (5,), (5, 3)),
    (lambda: sym.SliceChannel(sym.var("x"), num_outputs=3, axis=0, squeeze_axis=True)[2], (5, 2), (3, 5, 2)),
    (lambda: sym.SliceChannel(sym.var("x", shape=(0, 6, 0)), num_outputs=3)[1], (3, 2, 7), (3, 6, 7)),
])
def test_shapes_follow_from_outputs(make, y, expected):
    net = make() + sym.var("y", shape=y)
    found = dict(zip(net.list_arguments(), net.infer_shape_partial()[0]))
    assert found["x"] == expected


def test_constants_of_open_size():
    net = sym.ones(shape=(2, -1)) + sym.transpose(sym.ones(shape=(3, 2)))
    assert net.bind(mx.cpu(), []).forward()[0].asnumpy().tolist() == [[2] * 3] * 2
    net = sym.ones(shape=(-1, -1)) + sym.transpose(sym.zeros(shape=(3, -1))) + sym.ones(shape=(2, 3))
    executor = net.bind(mx.cpu(), [])
    assert executor.outputs[0].shape == (2, 3) and executor.forward()[0].asnumpy().tolist() == [[2] * 3] * 2


# ---- attributes and names ------------------------------------------------------------------------------------------

def test_multipliers_as_keywords():
    net = sym.FullyConnected(sym.var("x"), num_hidden=3, name="f", lr_mult=2, wd_mult=0.5, ctx_group="g",
                             force_mirroring=True)
    attrs = net.attr_dict()
    assert "x" not in attrs  # a variable that was passed in
    for name in ("f", "f_weight", "f_bias"):
        for key, text in (("lr_mult", "2"), ("wd_mult", "0.5"), ("ctx_group", "g"), ("force_mirroring", "True")):
            assert attrs[name][key] == attrs[name][f"__{key}__"] == text
    assert sym.elemwise_add(sym.var("x"), sym.var("y"), ctx_group="q").attr("ctx_group") == "q"
    with pytest.raises(mx.MXNetError):
        mx.nd.Activation(mx.nd.ones((1,)), act_type="relu", lr_mult=2)
    optimizer = mx.optimizer.SGD(sym=net, param_idx2name={0: "f_weight", 1: "f_bias"}, learning_rate=1)
    assert optimizer._get_lr(0) == 2 and optimizer._get_lr(1) == 2


def test_attributes_keep_their_text():
    x = sym.var("x")
    assert sym.var("v", lr_mult=1).attr("lr_mult") == "1" and sym.var("v", wd_mult=1.0).attr("wd_mult") == "1.0"
    with pytest.raises((TypeError, ValueError)):
        sym.var("v", lr_mult="much")
    for made, text in ((x * 2, "2"), (x * 2.0, "2.0"), (3 - x, "3"), (x + 0.1, "0.1"), (x > 1, "1")):
        assert made.list_attr() == {"scalar": text} and made.attr("scalar") == text
        assert sym.load_json(made.tojson()).attr("scalar") == text
    assert sym.Dropout(x, p=0).list_attr() == {"p": "0"} and sym.Dropout(x, p=0.5).list_attr() == {"p": "0.5"}
    assert sym.sum(x, axis=1).list_attr() == {"axis": "1"} and sym.sum(x, axis=(1,)).list_attr() == {"axis": "(1,)"}
    assert (x * 2)(x=sym.var("y")).list_attr() == {"scalar": "2"}
    assert (x * 2).eval(x=mx.nd.ones((1,)))[0].asscalar() == 2


def test_values_of_attr_become_text():
    net = sym.Convolution(sym.var("x"), num_filter=1, kernel=(1, 1), name="c", attr={"__a__": 3, "__b__": (1, 2)})
    assert net.attr("__a__") == "3" and net.attr_dict()["c_weight"]["__b__"] == "(1, 2)"
    with pytest.raises(TypeError):
        sym.Convolution(sym.var("x"), num_filter=1, kernel=(1, 1), attr={1: "a"})


def test_slices_are_outputs():
    x = sym.var("x")
    group = sym.Group([x * 2, x + 1, x - 1])
    assert group[0:2].list_outputs() == group.list_outputs()[:2] and len(group[1:]) == 2
    assert x[0:1].list_outputs() == ["x"] and (x * 2)[0:1].list_arguments() == ["x"]
    for bad in (lambda: x[0:2], lambda: group[0:9], lambda: x[1], lambda: x[0:0]):
        with pytest.raises(IndexError):
            bad()


def test_names_of_several_outputs():
    x = sym.var("x")
    assert sym.topk(x, ret_typ="both", name="t").list_outputs() == ["t_output0", "t_output1"]
    assert sym.topk(x, name="t").list_outputs() == ["t_output"]
    assert sym.topk(x, ret_typ="value", name="t").list_outputs() == ["t_output0"]
    assert sym.moments(x, axes=(0,), name="m").list_outputs() == ["m_output0", "m_output1"]
    assert sym.linalg.slogdet(x, name="s").list_outputs() == ["s_output0", "s_output1"]
    assert sym.BatchNorm(x, output_mean_var=True, name="b").list_outputs() == ["b_output", "b_mean", "b_var"]


def test_debug_str_of_a_variable():
    assert sym.var("x").debug_str() == "Variable:x\n"
    assert (sym.var("x") * 2).debug_str().startswith("Symbol Outputs:\n\toutput[0]=_mulscalar")


def test_errors_of_symbols():
    x = sym.var("x")
    group = sym.Group([x * 2, x * 3])
    for bad in (lambda: sym.relu(group), lambda: group + x, lambda: sym.FullyConnected(group, num_hidden=2),
                lambda: sym.var("a")(a=x)):
        with pytest.raises(mx.MXNetError):
            bad()


def test_current_attribute_scope_can_be_set():
    before = mx.AttrScope.current
    mx.AttrScope.current = mx.AttrScope(ctx_group="zz")
    try:
        assert mx.AttrScope.current._attr == {"ctx_group": "zz"} == mx.AttrScope._current.value._attr
        assert sym.var("q").attr("ctx_group") == "zz"
        with mx.AttrScope(__a__="1"):
            mx.AttrScope.current = mx.AttrScope(__b__="2")
            assert sym.var("q").attr("__b__") == "2" and sym.var("q").attr("__a__") is None
        assert sym.var("q").attr("__b__") is None and sym.var("q").attr("ctx_group") == "zz"
        found = []
        thread = threading.Thread(target=lambda: found.append(sym.var("q").list_attr()))
        thread.start()
        thread.join()
        assert found == [{}]
    finally:
        mx.AttrScope.current = before
    assert sym.var("q").list_attr() == {} and mx.AttrScope.current is before
    with pytest.raises(TypeError):
        mx.AttrScope.current = 3


def test_current_name_manager_can_be_set():
    before = mx.name.NameManager.current
    x, y = sym.var("x"), sym.var("y")
    mx.name.NameManager.current = mx.name.Prefix("pp_")
    try:
        assert (x + 1).name == "pp__plusscalar0"
    finally:
        mx.name.NameManager.current = before
    assert not (x + 1).name.startswith("pp_")
    with mx.name.NameManager() as manager:
        assert [(x + y).name, (x + y).name, sym.relu(x).name] == ["_plus0", "_plus1", "relu0"]
        assert manager._counter == {"_plus": 2, "relu": 1} and mx.name.NameManager.current is manager
        manager._counter["_plus"] = 7
        assert (x + y).name == "_plus7"
    assert mx.name.NameManager.current is before
    with pytest.raises(TypeError):
        mx.name.NameManager.current = "a"


def test_subgraphs_are_counted():
    x, y, names = sym.var("x"), sym.var("y"), mx.AttrScope._subgraph_names
    names.clear()
    sym.contrib.foreach(lambda d, s: (d + s, s * 1.0), x, y, name="fe")
    sym.contrib.while_loop(lambda a: a < 3, lambda a: (a, [a + 1]), [x], max_iterations=3, name="wl")
    sym.contrib.cond(sym.var("p"), lambda: x * 1, lambda: y * 1, name="cd")
    assert dict(names) == {"fe": 1, "wl_cond": 1, "wl_func": 1, "cd_pred": 1, "cd_then": 1, "cd_else": 1}
    assert names["other"] == 0
    with pytest.raises(AssertionError):
        sym.contrib.foreach(lambda d, s: (s * 1, s), x, y)


def test_methods_are_there_before_the_module():
    program = ("from mxnet.gluon import nn, Parameter; x = Parameter('p', shape=(2, 3)).var(); "
               "assert x.sum(axis=1).infer_shape()[1] == [(2,)] and x.reshape((-1,)).list_arguments() == ['p']")
    subprocess.run([sys.executable, "-c", program], check=True)


def test_scopes_know_those_around_them():
    outer, inner = mx.AttrScope(a="1"), mx.AttrScope(b="2")
    assert outer._old_scope is None
    with outer:
        assert outer._old_scope is not outer
        with inner:
            assert inner._old_scope is outer and mx.AttrScope._current.value is inner
    manager, prefix = mx.name.NameManager(), mx.name.Prefix("p_")
    with manager:
        with prefix:
            assert prefix._old_manager is manager


def test_counters_of_the_outermost_name_manager():
    def work():
        counter = mx.name.NameManager.current._counter
        assert counter == {} and repr(counter) == "{}"
        x = sym.exp(sym.var("x"))
        assert mx.name.NameManager.current._counter == {"exp": 1} == mx.name.NameManager._current.value._counter
        mx.name.NameManager.current._counter["exp"] = 10
        found.append(sym.exp(x).name)
        mx.name.NameManager.current._counter.clear()
        found.append(sym.exp(x).name)
        with pytest.raises(TypeError):
            mx.name.NameManager.current._counter["exp"] = "many"
        found.append(sym.exp(x).name)

    found = []
    thread = threading.Thread(target=work)  # every thread counts for itself
    thread.start()
    thread.join()
    assert found == ["exp10", "exp0", "exp1"]


def test_default_context_by_its_old_name():
    assert mx.Context._default_ctx.value == mx.current_context()
    with mx.cpu(3):
        assert mx.Context._default_ctx.value == mx.cpu(3)
        mx.Context._default_ctx.value = mx.cpu(2)
        assert mx.current_context() == mx.cpu(2)
    assert mx.Context._default_ctx.value == mx.current_context()


def test_upsampling_creates_its_weight():
    x = sym.var("x")
    up = sym.UpSampling(x, scale=2, sample_type="bilinear", num_filter=2, name="up")
    assert up.list_arguments() == ["x", "up_weight"]
    assert up.infer_shape(x=(1, 2, 4, 4)) == ([(1, 2, 4, 4), (2, 1, 4, 4)], [(1, 2, 8, 8)], [])
    assert up.attr_dict()["up_weight"]["__init__"] == '["bilinear", {}]'
    assert sym.load_json(up.tojson()).list_arguments() == ["x", "up_weight"]
    assert sym.UpSampling(x, sym.var("w"), scale=2, sample_type="bilinear", num_filter=2).list_arguments() == ["x", "w"]
    pair = sym.UpSampling(x, sym.var("y"), scale=2, sample_type="nearest", num_args=2)
    assert pair.list_arguments() == ["x", "y"] and "__init__" not in pair.attr_dict().get("y", {})
    assert sym.UpSampling(x, scale=2, sample_type="nearest").list_arguments() == ["x"]


def test_symbol_of_the_operator_alone():
    conv = sym.Convolution(sym.var("x"), kernel=(3, 3), num_filter=2, name="c")
    alone = conv._gen_atomic_symbol()
    assert alone.list_attr()["num_filter"] == "2" and "x" not in alone.list_arguments()
    assert alone(sym.var("z"), name="again").list_arguments()[0] == "z"
    assert len(sym.SliceChannel(sym.var("x"), num_outputs=2)._gen_atomic_symbol().list_outputs()) == 2
    with pytest.raises(mx.MXNetError, match="variable"):
        sym.var("x")._gen_atomic_symbol()
