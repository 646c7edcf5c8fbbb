"""Rules of the interface as small programs; program.py runs each on both packages (area "rule").

A rule returns plain values: numbers, texts, lists.  Rules whose name is in intended.BEHAVIOURS must differ, all others must
agree.  What raises counts as the name of MXNet's exception class, which ours derive from.
"""
import ctypes

import numpy as np

import mxnet as mx
from mxnet import autograd, gluon, nd, sym
from mxnet.gluon import nn

RULES = {}


def _rule(name):
    def add(function):
        RULES[name] = function
        return function
    return add


def rule(name):
    """The area: runs a rule by its name."""
    return {"values": repr(RULES[name]())}


def _raised(call, *kinds):
    """Whether the call raises one of these classes; else its result."""
    try:
        return call()
    except kinds:
        return "raises " + kinds[0].__name__


def _bound(symbol, **shapes):
    executor = symbol.simple_bind(mx.cpu(), **shapes)
    for i, array in enumerate(executor.arg_arrays):
        array[:] = i + 1
    return executor


# ---- executors ----------------------------------------------------------------------------------------------------------

@_rule("outputs of an executor are the same arrays for life")
def _():
    executor = _bound(sym.var("x") * 2, x=(2,))
    before = executor.outputs[0]
    executor.forward(x=nd.array([1, 5]))
    return before.asnumpy().tolist(), list(executor.output_dict)


@_rule("backward of a prediction, and before any forward")
def _():
    first, second = _bound(sym.Dropout(sym.var("x")), x=(2,)), _bound(sym.var("x") * 2, x=(2,))
    first.forward(is_train=False)
    for executor in (first, second):
        executor.backward([nd.ones((2,))])
    return [e.grad_arrays[0].asnumpy().tolist() for e in (first, second)]


@_rule("head gradients of other types, surplus ones, those that nobody reads")
def _():
    executor = _bound(sym.var("x") * 2, x=(2,))
    executor.forward(is_train=True)
    executor.backward([nd.ones((2,), dtype="int32"), nd.ones((7,))])
    indices = _bound(sym.argsort(sym.var("x")), x=(2,))
    indices.forward(is_train=True)
    indices.backward([nd.ones((5,), dtype="float16")])
    return [e.grad_arrays[0].asnumpy().tolist() for e in (executor, indices)]


@_rule("exe.backward() without head gradients")
def _():
    executor = _bound(sym.var("x") * 2, x=(2,))
    executor.forward(is_train=True)
    return _raised(executor.backward, mx.MXNetError)


@_rule("sym.bind(args_grad=...) with another type or size")
def _():
    x = sym.var("x") * 2
    return _raised(lambda: bool(x.bind(mx.cpu(), {"x": nd.ones((2,))}, {"x": nd.ones((2,), dtype="float64")})), mx.MXNetError)


@_rule("batch_take with int32 indices and a gradient")
def _():
    taken = sym.batch_take(sym.var("x"), sym.var("i"))
    return _raised(lambda: len(taken.simple_bind(mx.cpu(), x=(2, 3), i=(2,), type_dict={"i": "int32"}).outputs), RuntimeError)


@_rule("infer_shape_partial")
def _():
    x, y = sym.var("x"), sym.var("y")
    return [s.infer_shape_partial(x=(0, 3, 4))[1] for s in (sym.squeeze(x), sym.tile(x, reps=(1, 2, 1)), sym.where(y, x, x))]


@_rule("partial shapes of products, slices, picks and layers")
def _():
    x, y = sym.var("x"), sym.var("y")
    return [sym.dot(x, y).infer_shape_partial(x=(0, 3, 4), y=(4, 5))[1],
            sym.batch_dot(x, y).infer_shape_partial(x=(0, 3, 4), y=(0, 4, 5))[1],
            sym.slice(x, begin=(0, 1), end=(2, 3)).infer_shape_partial(x=(0, 4))[1],
            sym.split(x, num_outputs=2, axis=1).infer_shape_partial(x=(0, 4))[1],
            sym.broadcast_add(x, y).infer_shape_partial(x=(0, 4), y=(3, 4)),
            sym.FullyConnected(x, num_hidden=4, name="f").infer_shape_partial(),
            sym.FullyConnected(x, num_hidden=4, name="f").infer_shape_partial(x=(0, 3)),
            sym.Pooling(x, kernel=(2, 2)).infer_shape_partial(x=(0, 2, 4, 4))[1]]


@_rule("autograd.get_symbol through hybridized blocks")
def _():
    net, x = nn.HybridSequential(), nd.ones((1, 2))
    net.add(nn.Dense(2, activation="tanh"), nn.Dense(2, activation="tanh"))
    net.initialize()
    net.hybridize()
    x.attach_grad()
    with autograd.record():
        y = net(x)
    return "_CachedOp" in autograd.get_symbol(y).tojson()


@_rule("two variables of one name in simple_bind")
def _():
    both = sym.load_json((sym.var("a") + 1).tojson()) + sym.load_json((sym.var("a") * 2).tojson())
    return both.list_arguments(), _raised(lambda: len(both.simple_bind(mx.cpu(), a=(2,)).arg_arrays), RuntimeError)


@_rule("names that a monitor of an executor gets")
def _():
    x = sym.BatchNorm(sym.Activation(sym.var("x"), act_type="relu", name="act"), name="bn")
    x = sym.concat(sym.Dropout(sym.LRN(x, nsize=3, name="lrn"), name="drop"), sym.var("y") * 2, name="cat")
    executor, seen = _bound(x, x=(1, 2, 3, 3), y=(1, 2, 3, 3)), []

    def note(name, handle):
        seen.append((name, nd.NDArray(ctypes.cast(handle, mx.base.NDArrayHandle), writable=False).shape))
    executor.set_monitor_callback(note, True)
    executor.forward(is_train=False)
    return [pair for pair in seen if not pair[0].startswith(b"_mul")]


# ---- blocks -------------------------------------------------------------------------------------------------------------

def _watched(block, x):
    seen = []

    def note(name, operator, handle):
        seen.append((name, operator, nd.NDArray(ctypes.cast(handle, mx.base.NDArrayHandle)).shape))
    block.initialize()
    block(x)
    block.hybridize()
    block.register_op_hook(note, monitor_all=True)
    block(x)
    return seen


@_rule("what a hook of operators gets")
def _():
    net = nn.HybridSequential(prefix="n_")
    with net.name_scope():
        net.add(nn.Dense(3, activation="relu"), nn.BatchNorm())
    return _watched(net, nd.ones((2, 4)))


@_rule("outputs in hooks of operators without output names")
def _():
    return _watched(nn.HybridLambda(lambda F, x: x * 2, prefix="n_"), nd.ones((2, 4)))


@_rule("hooks of a block are a dictionary")
def _():
    layer, seen = nn.Dense(2, in_units=2), []
    layer.initialize()
    layer.register_forward_hook(lambda *unused: seen.append(1))
    layer(nd.ones((1, 2)))
    layer._forward_hooks.clear()
    layer._forward_pre_hooks[5] = lambda *unused: seen.append(2)
    layer(nd.ones((1, 2)))
    return seen


@_rule("a SymbolBlock with inputs that its outputs do not use")
def _():
    a, b = sym.var("a"), sym.var("b")
    block = gluon.SymbolBlock(a * 2, [a, b])
    return block(nd.ones((2,)), nd.ones((2,))).asnumpy().tolist(), list(gluon.SymbolBlock(a * 2, [b]).collect_params())


@_rule("dropout._rate = 'abc'")
def _():
    layer = nn.Dropout(0.5)
    return _raised(lambda: setattr(layer, "_rate", "abc"), ValueError)


@_rule("a replaced _init_impl")
def _():
    seen, layer = [], nn.Dense(2)
    layer.initialize(mx.init.One())
    inherited = layer.weight._init_impl
    layer.weight._init_impl = lambda data, contexts: (seen.append((data.shape, contexts)), inherited(data, contexts))
    layer(nd.ones((1, 3)))
    return repr(seen)


# ---- symbols and scopes ---------------------------------------------------------------------------------------------------

@_rule("scopes, counters and defaults by their old names")
def _():
    scope, manager = mx.AttrScope(x="1"), mx.name.NameManager()
    with scope, manager:
        inside = scope._old_scope is not None, manager._old_manager is not None, sym.exp(sym.var("x")).name, manager._counter
    mx.name.NameManager.current._counter["exp"] = 10
    return inside, sym.exp(sym.var("x")).name, str(mx.context.Context._default_ctx.value)


@_rule("sym.UpSampling(sample_type='bilinear') creates its weight")
def _():
    up = sym.UpSampling(sym.var("x"), scale=2, sample_type="bilinear", num_filter=2, name="up")
    return up.list_arguments(), up.infer_shape(x=(1, 2, 4, 4)), up.attr_dict()["up_weight"]["__init__"]


# ---- arrays -----------------------------------------------------------------------------------------------------------------

@_rule("gradient of % on integer arrays")
def _():
    x, y = nd.array([5, 7], dtype="int32"), nd.array([3, 2], dtype="int32")
    x.attach_grad()
    with autograd.record():
        z = x % y
    z.backward()
    return x.grad.asnumpy().tolist()


@_rule("ctx='cpu'")
def _():
    return _raised(lambda: nd.zeros((1,), ctx="cpu").asnumpy().tolist(), mx.MXNetError)


@_rule("arrays of size 0 and without axes, np_shape off")
def _():
    return _raised(lambda: nd.zeros((0, 2)).shape, mx.MXNetError)


@_rule("copies and views of arrays")
def _():
    x = nd.ones((2, 1, 3))
    found = []
    for make in (x.flatten, x.squeeze, lambda: nd.reshape(x, (3, 2)), lambda: x.reshape((3, 2)), lambda: x.squeeze(inplace=True)):
        x[:] = 1
        made = make()
        made[:] = 5
        found.append((made.shape, float(x.asnumpy().max())))
    return found


@_rule("numbers of elements and codes of shapes")
def _():
    return (nd.arange(1.3, 10.6, 1.3, dtype="int32").asnumpy().tolist(), nd.ones((64,)).reshape((16, -1, -4), reverse=True).shape,
            nd.diag(nd.ones((2, 3)), 3).shape, _raised(lambda: nd.diag(nd.ones((2, 3)), 5), mx.MXNetError),
            nd.contrib.allclose(nd.ones((2,)), nd.ones((2,))).shape, np.dtype(nd.contrib.allclose(nd.ones((2,)), nd.ones((2,))).dtype).name)


@_rule("operators of mx.nd on arrays of mx.np")
def _():
    from mxnet import np
    x = np.ones(2)
    return [_raised(lambda f=f: type(f(x)).__name__, TypeError) for f in (nd.relu, nd.softmax, nd.square)]


@_rule("arrays of mx.nd and mx.np in one call")
def _():
    from mxnet import np, npx
    x, y = np.ones(2), nd.ones(2)
    calls = (lambda: x + y, lambda: y + x, lambda: np.add(x, y), lambda: nd.broadcast_add(x, y), lambda: np.concatenate([x, y]), lambda: npx.relu(y))
    return [_raised(lambda f=f: type(f()).__name__, TypeError) for f in calls]
