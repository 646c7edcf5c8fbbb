"""Executors: symbols bound to arrays."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, nd, sym


def net_of():
    net = sym.FullyConnected(sym.var("data"), num_hidden=4, name="fc1")
    net = sym.BatchNorm(net, name="bn", fix_gamma=False)
    net = sym.FullyConnected(sym.Activation(net, act_type="tanh", name="act"), num_hidden=3, name="fc2")
    return sym.SoftmaxOutput(net, name="softmax")


def filled(executor):
    for name, array in executor.arg_dict.items():
        array[:] = nd.array(np.random.RandomState(len(name)).rand(*array.shape))
    executor.arg_dict["softmax_label"][:] = nd.array([0, 1, 2, 0, 1])
    executor.aux_dict["bn_moving_var"][:] = 1
    return executor


def test_simple_bind(ctx):
    executor = filled(net_of().simple_bind(ctx, data=(5, 6)))
    assert executor.arg_dict["fc1_weight"].shape == (4, 6) and executor.arg_dict["softmax_label"].shape == (5,)
    assert list(executor.aux_dict) == ["bn_moving_mean", "bn_moving_var"]
    out, = executor.forward(is_train=True)
    np.testing.assert_allclose(out.asnumpy().sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(executor.outputs[0].asnumpy(), out.asnumpy())
    assert executor.output_dict["softmax_output"].shape == (5, 3)
    executor.backward()
    label = np.eye(3)[[0, 1, 2, 0, 1]]
    np.testing.assert_allclose(executor.grad_dict["fc2_bias"].asnumpy(), (out.asnumpy() - label).sum(axis=0), rtol=1e-4,
                               atol=1e-6)
    before = executor.aux_dict["bn_moving_mean"].asnumpy().copy()
    executor.forward(is_train=True)
    assert not np.allclose(before, executor.aux_dict["bn_moving_mean"].asnumpy())


def test_gradients_equal_the_tape(ctx):
    x, w = sym.var("x"), sym.var("w")
    net = sym.tanh(sym.dot(x, w)) * x
    a, b = nd.random.uniform(shape=(3, 3)), nd.random.uniform(shape=(3, 3))
    ga, gb, head = nd.zeros((3, 3)), nd.zeros((3, 3)), nd.random.uniform(shape=(3, 3))
    executor = net.bind(ctx, {"x": a, "w": b}, {"x": ga, "w": gb})
    executor.forward(is_train=True)
    executor.backward(head)
    p, q = a.copy(), b.copy()
    p.attach_grad(), q.attach_grad()
    with autograd.record():
        y = nd.tanh(nd.dot(p, q)) * p
    y.backward(head)
    np.testing.assert_allclose(ga.asnumpy(), p.grad.asnumpy(), rtol=1e-5)
    np.testing.assert_allclose(gb.asnumpy(), q.grad.asnumpy(), rtol=1e-5)
    np.testing.assert_allclose(executor.outputs[0].asnumpy(), y.asnumpy(), rtol=1e-5)


def test_requests(ctx):
    x, y = sym.var("x"), sym.var("y")
    a, b = nd.array([2.0]), nd.array([3.0])
    ga, gb = nd.ones((1,)), nd.ones((1,))
    executor = (x * y).bind(ctx, [a, b], [ga, gb], grad_req={"x": "add", "y": "null"})
    for _ in range(2):
        executor.forward(is_train=True)
        executor.backward()
    assert ga.asscalar() == 7 and gb.asscalar() == 1
    executor = (x * y).bind(ctx, [a, b], [ga, gb], grad_req=["null", "write"])
    executor.forward(is_train=True)
    executor.backward()
    assert gb.asscalar() == 2
    executor = (x * y).simple_bind(ctx, grad_req="null", x=(1,), y=(1,))
    assert executor.grad_arrays == [None, None]


def test_forward_takes_arguments_by_name(ctx):
    executor = (sym.var("x") * 2).simple_bind(ctx, x=(2,))
    assert executor.forward(x=nd.array([1, 2]))[0].asnumpy().tolist() == [2, 4]
    assert executor.forward(x=np.array([3, 4]))[0].asnumpy().tolist() == [6, 8]
    with pytest.raises(ValueError):
        executor.forward(x=nd.ones((3,)))
    with pytest.raises(ValueError):
        executor.forward(z=nd.ones((2,)))


def test_reshape(ctx):
    executor = filled(net_of().simple_bind(ctx, data=(5, 6)))
    smaller = executor.reshape(data=(2, 6), softmax_label=(2,))
    assert smaller.forward()[0].shape == (2, 3)
    smaller.arg_dict["fc1_bias"][:] = 7
    assert executor.arg_dict["fc1_bias"].asnumpy()[0] == 7
    with pytest.raises(AssertionError):
        executor.reshape(data=(9, 6), softmax_label=(9,))
    assert executor.reshape(allow_up_sizing=True, data=(9, 6), softmax_label=(9,)).forward()[0].shape == (9, 3)
    with pytest.raises(AssertionError):
        executor.reshape(data=(2, 3), softmax_label=(2,))
    partial = executor.reshape(partial_shaping=True, data=(2, 3), softmax_label=(2,))
    assert partial.arg_dict["fc1_weight"].shape == (4, 3)


def test_copy_params_from(ctx):
    executor = net_of().simple_bind(ctx, data=(5, 6))
    executor.copy_params_from({"fc2_bias": nd.array([1, 2, 3])}, {"bn_moving_mean": nd.ones((4,))})
    assert executor.arg_dict["fc2_bias"].asnumpy().tolist() == [1, 2, 3]
    assert executor.aux_dict["bn_moving_mean"].asnumpy().tolist() == [1] * 4
    with pytest.raises(ValueError, match="nothing"):
        executor.copy_params_from({"nothing": nd.ones((1,))})
    executor.copy_params_from({"nothing": nd.ones((1,))}, allow_extra_params=True)


def test_monitor(ctx):
    seen = []
    executor = filled(net_of().simple_bind(ctx, data=(5, 6)))
    executor.set_monitor_callback(lambda name, array: seen.append((name, array.shape)))
    executor.forward()
    assert ("fc1_output", (5, 4)) in seen and ("softmax_output", (5, 3)) in seen
    seen.clear()
    executor.set_monitor_callback(lambda name, array: seen.append((name, array.shape)), monitor_all=True)
    executor.forward()
    assert ("fc1_weight", (4, 6)) in seen

    def fails(name, array):
        raise KeyError(name)
    executor.set_monitor_callback(fails)
    with pytest.raises(KeyError):
        executor.forward()


def test_refusals(ctx):
    net = net_of()
    with pytest.raises(ValueError, match="fc1_weight"):
        net.bind(ctx, {"data": nd.ones((1, 2))}, aux_states=[nd.ones((4,)), nd.ones((4,))])
    with pytest.raises(ValueError):
        net.bind(ctx, [nd.ones((1, 2))], aux_states=[nd.ones((4,)), nd.ones((4,))])
    with pytest.raises(TypeError):
        net.bind("cpu", [])
    with pytest.raises(mx.MXNetError):
        net.simple_bind(ctx)
    with pytest.raises(ValueError, match="nothing"):
        net.simple_bind(ctx, nothing=(2,))
    with pytest.raises((ValueError, mx.MXNetError)):
        (sym.var("x") + 1).bind(ctx, [nd.ones((1,))], [nd.ones((1,))], grad_req="text")
    executor = (sym.var("x") + 1).simple_bind(ctx, x=(1,))
    assert executor.outputs == []
    with pytest.raises(mx.MXNetError):
        executor.backward()


def test_eval_and_types(ctx):
    found, = sym.FullyConnected(sym.var("x"), sym.var("w"), num_hidden=2, no_bias=True).eval(
        ctx, x=nd.ones((1, 3), dtype="float64"), w=nd.ones((2, 3), dtype="float64"))
    assert found.dtype == np.float64 and found.asnumpy().tolist() == [[3, 3]]
    executor = sym.relu(sym.var("x")).simple_bind(ctx, type_dict={"x": "float64"}, x=(2,))
    assert executor.arg_arrays[0].dtype == np.float64


def test_resnet_written_with_symbols(ctx):
    """A residual network in the style of the symbol interface learns to distinguish two kinds of images."""
    def unit(data, filters, stride, same, name):
        bn1 = sym.BatchNorm(data=data, fix_gamma=False, eps=2e-5, name=name + "_bn1")
        act1 = sym.Activation(data=bn1, act_type="relu", name=name + "_relu1")
        conv1 = sym.Convolution(data=act1, num_filter=filters, kernel=(3, 3), stride=stride, pad=(1, 1), no_bias=True,
                                name=name + "_conv1")
        bn2 = sym.BatchNorm(data=conv1, fix_gamma=False, eps=2e-5, name=name + "_bn2")
        act2 = sym.Activation(data=bn2, act_type="relu", name=name + "_relu2")
        conv2 = sym.Convolution(data=act2, num_filter=filters, kernel=(3, 3), pad=(1, 1), no_bias=True,
                                name=name + "_conv2")
        shortcut = data if same else sym.Convolution(data=act1, num_filter=filters, kernel=(1, 1), stride=stride,
                                                     no_bias=True, name=name + "_sc")
        return conv2 + shortcut

    body = sym.Convolution(sym.Variable("data"), num_filter=4, kernel=(3, 3), pad=(1, 1), no_bias=True, name="conv0")
    body = unit(body, 4, (1, 1), True, "stage1")
    body = unit(body, 8, (2, 2), False, "stage2")
    body = sym.Activation(sym.BatchNorm(body, fix_gamma=False, name="bn1"), act_type="relu", name="relu1")
    pool = sym.Pooling(body, global_pool=True, kernel=(7, 7), pool_type="avg", name="pool1")
    net = sym.SoftmaxOutput(sym.FullyConnected(sym.Flatten(pool), num_hidden=2, name="fc1"), name="softmax")

    executor = net.simple_bind(ctx, data=(8, 1, 8, 8))
    rng = np.random.RandomState(0)
    for name, array in executor.arg_dict.items():
        if name.endswith("weight"):
            array[:] = nd.array(rng.normal(0, 0.2, array.shape))
        elif name.endswith("gamma"):
            array[:] = 1
    for name, array in executor.aux_dict.items():
        array[:] = 1 if name.endswith("var") else 0
    label = np.arange(8) % 2
    data = rng.rand(8, 1, 8, 8) * 0.3
    data[label == 1, :, :4] += 0.7
    losses = []
    for _ in range(15):
        out, = executor.forward(is_train=True, data=nd.array(data), softmax_label=nd.array(label))
        losses.append(-np.log(out.asnumpy()[np.arange(8), label]).mean())
        executor.backward()
        for name, grad in executor.grad_dict.items():
            if name not in ("data", "softmax_label"):
                executor.arg_dict[name][:] -= 0.05 * grad
    assert losses[-1] < 0.5 * losses[0]
