"""Executors: symbols bound to arrays."""
import ctypes
import re

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
    with pytest.raises(TypeError, match="'z'"):
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

    def note(name, handle):
        array = nd.NDArray(ctypes.c_void_p(handle), writable=False)
        seen.append((name.decode(), array.shape))

    executor = filled(net_of().simple_bind(ctx, data=(5, 6)))
    executor.set_monitor_callback(note)
    executor.forward()
    assert ("fc1_output", (5, 4)) in seen and ("softmax_output", (5, 3)) in seen
    seen.clear()
    executor.set_monitor_callback(note, monitor_all=True)
    executor.forward()
    assert seen[:7] == [("data", (5, 6)), ("fc1_data", (5, 6)), ("fc1_weight", (4, 6)), ("fc1_weight", (4, 6)),
                        ("fc1_bias", (4,)), ("fc1_bias", (4,)), ("fc1_output", (5, 4))]
    seen.clear()
    executor.reshape(data=(2, 6), softmax_label=(2,)).forward()  # the callback stays
    assert ("fc1_output", (2, 4)) in seen

    def fails(name, handle):
        nd.NDArray(ctypes.c_void_p(handle))
        raise KeyError(name)
    executor.set_monitor_callback(fails)
    with pytest.raises(KeyError):
        executor.forward()


def test_monitor_of_lists(ctx):
    seen = []

    def note(name, handle):
        nd.NDArray(ctypes.c_void_p(handle))
        seen.append(name)

    executor = sym.concat(sym.var("x"), sym.var("y") * 2, dim=0, name="c").simple_bind(ctx, x=(1,), y=(1,))
    executor.set_monitor_callback(note, monitor_all=True)
    executor.forward()
    assert [name for name in seen if not name.startswith(b"_mul")] == [b"y", b"x", b"c_arg0", b"c_arg1", b"c_output"]


def test_monitor_names(ctx):
    """Inputs of operators that have only data are input0, and outputs that only gradients use are shown."""
    x = sym.BatchNorm(sym.Activation(sym.var("x"), act_type="relu", name="act"), name="bn")
    x = sym.Dropout(sym.LRN(x, nsize=3, name="lrn").exp(name="exp"), name="drop")
    executor, seen = x.simple_bind(ctx, x=(1, 2, 3, 3)), []
    executor.set_monitor_callback(lambda name, handle: seen.append(name.decode()), monitor_all=True)
    executor.forward()
    assert seen == ["x", "act_input0", "act_output", "bn_data", *[n for n in ("bn_gamma", "bn_beta", "bn_moving_mean",
                    "bn_moving_var") for _ in range(2)], "bn_output", "bn_mean", "bn_var", "lrn_data", "lrn_output",
                    "lrn_tmp_norm", "exp_input0", "exp_output", "drop_data", "drop_output", "drop_mask"]


def test_handles_that_nobody_wraps(ctx):
    """They are released at the next pass; until then they can be wrapped."""
    executor, handles = (sym.var("x") * 2).simple_bind(ctx, x=(3,)), []
    executor.set_monitor_callback(lambda name, handle: handles.append(handle))
    executor.arg_arrays[0][:] = 4
    executor.forward()
    late = nd.NDArray(ctypes.c_void_p(handles[0]))
    executor.arg_arrays[0][:] = 5
    for _ in range(20):
        executor.forward()
    assert late.shape == (3,) and len(handles) == 21
    del executor
    assert late.asnumpy().shape == (3,)


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
    with pytest.raises((ValueError, mx.MXNetError)):
        (sym.var("x") + 1).bind(ctx, [nd.ones((1,))], [nd.ones((1,))], grad_req="text")


def test_outputs_exist_from_the_start_and_stay(ctx):
    x = sym.var("x")
    executor = sym.Group([x * 2, sym.cast(x, dtype="int32"), x]).simple_bind(ctx, x=(2, 3))
    kept = list(executor.outputs)
    assert [(o.shape, o.dtype) for o in kept] == [((2, 3), np.float32), ((2, 3), np.int32), ((2, 3), np.float32)]
    assert list(executor.output_dict.values())[0].shape == (2, 3)
    for value in (1, 4):
        returned = executor.forward(is_train=value == 4, x=nd.full((2, 3), value, ctx=ctx))
        assert all((o.asnumpy() == v).all() for o, v in zip(kept, (2 * value, value, value)))
        assert all((o.asnumpy() == v).all() for o, v in zip(returned, (2 * value, value, value)))
    executor.arg_dict["x"][:] = 9  # an output that is a variable shows it at once
    assert (kept[2].asnumpy() == 9).all() and (kept[0].asnumpy() == 8).all()


def test_outputs_whose_shape_depends_on_values(ctx):
    net = sym.contrib.boolean_mask(sym.var("x"), sym.var("m"))
    executor = net.bind(ctx, {"x": nd.arange(3, ctx=ctx), "m": nd.array([1, 0, 1], ctx=ctx)})
    assert executor.forward()[0].asnumpy().tolist() == [0, 2] == executor.outputs[0].asnumpy().tolist()


def test_backward_of_a_prediction_and_without_a_forward(ctx):
    net = sym.Dropout(sym.var("x") * 3, p=0.5)
    executor = net.simple_bind(ctx, x=(50,))
    executor.backward(nd.ones((50,), ctx=ctx))
    assert (executor.grad_arrays[0].asnumpy() == 3).all()
    executor.grad_arrays[0][:] = 0
    executor.forward(is_train=False)
    executor.backward(nd.ones((50,), ctx=ctx))
    assert (executor.grad_arrays[0].asnumpy() == 3).all()
    executor.forward(is_train=True)
    executor.backward(nd.ones((50,), ctx=ctx))
    assert set(executor.grad_arrays[0].asnumpy().tolist()) == {0, 6}
    with pytest.raises(TypeError):
        executor.backward(3)


@pytest.mark.parametrize("dtype, head", [("float16", "float32"), ("float64", "float32"), ("float32", "int32"),
                                         ("float32", "float64")])
def test_head_gradients_are_converted(dtype, head, ctx):
    executor = (sym.var("x") * 2).simple_bind(ctx, x=(2,), type_dict={"x": dtype})
    executor.forward(is_train=True)
    executor.backward(nd.array([1, 3], dtype=head, ctx=ctx))
    assert executor.grad_arrays[0].asnumpy().tolist() == [2, 6]
    with pytest.raises(mx.MXNetError, match=r"\(3,\)"):
        executor.backward(nd.ones((3,), ctx=ctx))


def test_number_of_head_gradients(ctx):
    x = sym.var("x")
    executor = sym.Group([x * 2, x * 3]).simple_bind(ctx, x=(2,))
    executor.forward(is_train=True)
    heads = [nd.ones((2,), ctx=ctx), nd.ones((2,), ctx=ctx), nd.ones((9,), ctx=ctx)]
    executor.backward(heads)
    assert executor.grad_arrays[0].asnumpy().tolist() == [5, 5]
    with pytest.raises(mx.MXNetError):
        executor.backward(heads[:1])


@pytest.mark.parametrize("make, expected", [
    (lambda x: sym.shape_array(x), 0), (lambda x: sym.size_array(x), 0), (lambda x: sym.contrib.index_array(x), 0),
    (lambda x: sym.argsort(x), 0), (lambda x: sym.argmax(x, axis=1), 0), (lambda x: sym.topk(x, k=2), 0),
    (lambda x: sym.topk(x, k=2, ret_typ="mask"), 0), (lambda x: sym.BlockGrad(x * 2), 0),
    (lambda x: sym.zeros_like(x), 0), (lambda x: sym.ones((2, 2)), 0), (lambda x: sym.MakeLoss(x * 2), 2),
    (lambda x: sym.make_loss(x), 1), (lambda x: sym.Group([sym.argmax(x, axis=1), sym.MakeLoss(x)]), 1),
])
def test_head_gradients_that_nobody_reads(make, expected, ctx):
    """Outputs through which no gradient flows take any head gradient; gradients that nothing reaches become zero."""
    x = sym.var("x")
    executor = sym.Group([make(x), sym.BlockGrad(x)]).simple_bind(ctx, x=(2, 3))
    executor.grad_arrays[0][:] = 5
    executor.forward(is_train=True, x=nd.array([[3, 1, 2], [4, 6, 5]], ctx=ctx))
    executor.backward([nd.ones((9, 1), dtype="int32", ctx=ctx) for _ in executor.outputs])
    assert (executor.grad_arrays[0].asnumpy() == expected).all()


def test_softmax_output_reads_its_head_gradient_when_asked(ctx):
    x, head = nd.array([[1, 2, 4]], ctx=ctx), nd.array([[1, 2, 3]], ctx=ctx)
    grads = []
    for option in (False, True):
        executor = sym.SoftmaxOutput(sym.var("x"), sym.var("l"), out_grad=option).simple_bind(ctx, x=(1, 3))
        executor.forward(is_train=True, x=x)
        executor.backward(head)
        grads.append(executor.grad_dict["x"].asnumpy())
        if option:
            with pytest.raises(mx.MXNetError):
                executor.backward(nd.ones((7,), ctx=ctx))
        else:
            executor.backward(nd.ones((7,), ctx=ctx))
    np.testing.assert_allclose(grads[0] * head.asnumpy(), grads[1], rtol=1e-5)


def test_topk_with_indices(ctx):
    executor = sym.topk(sym.var("x"), k=2, ret_typ="both").simple_bind(ctx, x=(3,))
    executor.forward(is_train=True, x=nd.array([3, 1, 2], ctx=ctx))
    executor.backward([nd.ones((2,), ctx=ctx), nd.ones((7,), ctx=ctx)])
    assert executor.grad_arrays[0].asnumpy().tolist() == [1, 0, 1]
    with pytest.raises(mx.MXNetError):
        executor.backward([nd.ones((7,), ctx=ctx), nd.ones((2,), ctx=ctx)])


def test_simple_bind_ignores_what_it_does_not_need(ctx):
    executor = (sym.var("x") * 2).simple_bind(ctx, x=(2,), other=(3,), number=3, text="a", flag=True,
                                              type_dict={"x": "float64", "y": "float16"})
    assert executor.arg_dict["x"].dtype == np.float64 and list(executor.arg_dict) == ["x"]
    with pytest.raises(mx.MXNetError):
        (sym.var("x") * 2).infer_shape(other=(3,))
    with pytest.raises(mx.MXNetError):
        (sym.var("x") * 2).infer_type(other="float32")


def test_reshape_shares_memory(ctx):
    net = sym.FullyConnected(sym.var("x"), num_hidden=2, name="fc")
    executor = net.simple_bind(ctx, x=(4, 3))
    executor.forward(x=nd.ones((4, 3), ctx=ctx), fc_weight=nd.ones((2, 3), ctx=ctx))
    smaller = executor.reshape(x=(2, 3))
    assert (smaller.arg_dict["x"].asnumpy() == 1).all()  # values stay
    smaller.forward(x=nd.full((2, 3), 5, ctx=ctx))
    assert executor.arg_dict["x"].asnumpy()[:, 0].tolist() == [5, 5, 1, 1]
    assert executor.outputs[0].asnumpy()[:, 0].tolist() == [15, 15, 3, 3]
    smaller.backward(nd.ones((2, 2), ctx=ctx))
    assert executor.grad_dict["x"].asnumpy()[:, 0].tolist() == [2, 2, 0, 0]
    with pytest.raises(mx.MXNetError, match="allow_up_sizing"):
        executor.reshape(x=(5, 3))
    larger = executor.reshape(allow_up_sizing=True, x=(5, 3))
    larger.arg_dict["fc_weight"][:] = 7
    assert (executor.arg_dict["fc_weight"].asnumpy() == 7).all()
    larger.arg_dict["x"][:] = 0
    assert executor.arg_dict["x"].asnumpy()[0, 0] == 5
    with pytest.raises(mx.MXNetError, match="fc_weight.*partial_shaping"):
        executor.reshape(x=(4, 2))
    for wrong in ({}, {"z": (4, 3)}):
        with pytest.raises(mx.MXNetError):
            executor.reshape(**wrong)


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


def test_debug_str_has_the_gradient_and_the_memory(ctx):
    def text(net, **kwargs):
        return net.simple_bind(ctx, x=(512, 1024), **kwargs).debug_str()

    def megabytes(found):
        return int(re.search(r"Total (\d+) MB allocated", found).group(1))

    net = sym.FullyConnected(sym.exp(sym.var("x"), name="e"), num_hidden=1024, name="fc")
    found = text(net)
    assert found.startswith(net.debug_str()) and "Name=fc_backward" in found and "Name=e_backward" in found
    assert "TempSpace" in found.splitlines()[-1]
    without, cut = text(net, grad_req="null"), text(sym.stop_gradient(net))
    assert megabytes(without) == 4 and megabytes(found) > megabytes(without)  # two results of 2 MB
    assert "backward" not in without and "backward" not in cut and megabytes(cut) < megabytes(found)


def test_equal_expressions_are_merged(ctx, monkeypatch):
    a, b = sym.var("a"), sym.var("b")

    def names(net):
        return net.simple_bind(ctx, a=(2,), b=(2,)).get_optimized_symbol().get_internals().list_outputs()

    assert len(names((a + b) + (a + b))) == 4 and len(names((a + b) + (a * b))) == 5
    assert len(names(sym.Dropout(a + b) + sym.Dropout(a + b))) == 6  # one sum, two masks
    assert len(names(a * 2 + a * 3 + b)) == 6  # other attributes
    group = sym.Group([a + b, a + b]).simple_bind(ctx, a=(2,), b=(2,)).get_optimized_symbol()
    assert len(group.list_outputs()) == 2 and group.list_outputs()[1].endswith("_0_copy_output")
    found = group.eval(ctx, a=nd.ones((2,), ctx=ctx), b=nd.ones((2,), ctx=ctx))
    assert [x.asnumpy().tolist() for x in found] == [[2, 2], [2, 2]]
    monkeypatch.setenv("MXNET_ELIMINATE_COMMON_EXPR", "0")
    assert len(names((a + b) + (a + b))) == 5


def test_fixed_gamma_becomes_one():
    """As MXNet's executors do, so that saved parameters mean the same to whoever reads them."""
    x = sym.var("x")
    net = sym.BatchNorm(x, name="fixed") + sym.BatchNorm(x, name="free", fix_gamma=False)
    exe = net.simple_bind(mx.cpu(), x=(2, 3, 4))
    for name in ("fixed_gamma", "free_gamma"):
        exe.arg_dict[name][:] = nd.array([2, 3, 4])
    exe.forward(is_train=False)
    assert exe.arg_dict["fixed_gamma"].asnumpy().tolist() == [1, 1, 1]
    assert exe.arg_dict["free_gamma"].asnumpy().tolist() == [2, 3, 4]
