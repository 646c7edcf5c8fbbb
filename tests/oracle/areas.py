"""Areas beyond single operators, functions that return arrays, strings and numbers; program.py runs them on both packages."""
import os
import tempfile

import numpy as np

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn
from contrib_areas import contrib_cell, contrib_layer, files_of_checkpoints, symbol_cell, trained_module, words  # noqa: F401
from graphs import flow, read_export, symbol, write_export  # noqa: F401
from program_run import gluon_program  # noqa: F401
from rules import rule  # noqa: F401
from sparse_areas import (sparse_arithmetic, sparse_bindings, sparse_broadcasts, sparse_bytes,  # noqa: F401
                          sparse_gradients, sparse_graphs, sparse_iterators, sparse_slices, sparse_making,
                          sparse_parameters, sparse_products, sparse_read, sparse_stores,
                          sparse_training, sparse_update)


def fill(block, seed=0):
    """Sets every parameter to a value that depends on its order and shape only."""
    rng = np.random.RandomState(seed)
    for name, p in block.collect_params().items():
        low, high = (0.5, 1.5) if "running_var" in name else (-0.5, 0.5)
        p.set_data(nd.array(rng.uniform(low, high, p.shape)))


def block_result(block, shape, train=True, seed=0):
    """Names, shapes, text, output and gradients of a block on one input."""
    mx.random.seed(0)
    x = nd.array(np.random.RandomState(seed).uniform(-1, 1, shape))
    block.initialize()
    block(x)
    fill(block)
    x.attach_grad()
    with autograd.record(train_mode=train):
        y = block(x)
    y.backward()
    params = block.collect_params()
    return {"repr": repr(block), "names": list(params.keys()), "shapes": [p.shape for p in params.values()],
            "output": y.asnumpy(), "input_grad": x.grad.asnumpy(),
            "grads": [p.grad().asnumpy() for p in params.values() if p.grad_req != "null"],
            "data": [p.data().asnumpy() for p in params.values()]}


def layer(expression, shape, train=True):
    return block_result(eval(expression, {"nn": nn, "mx": mx, "gluon": gluon}), shape, train)


def loss(expression, shapes, low=-1, high=1, integer_label=0):
    rng = np.random.RandomState(0)
    pred = nd.array(rng.uniform(low, high, shapes[0]))
    label = nd.array(rng.randint(0, integer_label, shapes[1]) if integer_label else rng.uniform(low, high, shapes[1]))
    rest = [nd.array(rng.uniform(0.1, 1, s)) for s in shapes[2:]]
    if "CosineEmbedding" in expression:
        rest = [nd.array([1, -1, 1, -1])]
    block = eval(expression, {"gluon": gluon})
    pred.attach_grad()
    with autograd.record():
        value = block(pred, label, *rest)
    value.backward()
    return {"repr": repr(block), "value": value.asnumpy(), "grad": pred.grad.asnumpy()}


def optimizer(name, options, steps=5, shape=(4, 5)):
    """A weight over several updates with given gradients, through Trainer as programs do it."""
    rng = np.random.RandomState(0)
    mx.random.seed(0)
    p = gluon.Parameter("weight", shape=shape)
    p.initialize(init="zeros")
    p.set_data(nd.array(rng.uniform(-1, 1, shape)))
    if "lr_scheduler" in options:
        options = dict(options, lr_scheduler=eval(options["lr_scheduler"], {"mx": mx}))
    trainer = gluon.Trainer([p], name, options)
    seen = []
    for _ in range(steps):
        g = nd.array(rng.uniform(-1, 1, shape))
        with autograd.record():
            y = (p.data() * g).sum()
        y.backward()
        trainer.step(2)
        seen.append(p.data().asnumpy().copy())
    return {"weights": seen, "lr": trainer.learning_rate}


def schedule(expression, updates=40):
    scheduler = eval(expression, {"mx": mx})
    return {"rates": np.array([scheduler(i) for i in range(1, updates)])}


def initializer(expression, shape=(200, 300), name="weight"):
    mx.random.seed(3)
    x = nd.zeros(shape)
    eval(expression, {"mx": mx})(mx.init.InitDesc(name), x)
    v = x.asnumpy()
    return {"statistics": [float(v.mean()), float(v.std()), float(np.abs(v).mean())]}


def metric(expression, shapes, classes=0, rounds=3):
    rng = np.random.RandomState(0)
    m = eval(expression, {"mx": mx})
    for _ in range(rounds):
        pred = rng.uniform(0.05, 1, shapes[0])
        if classes and len(shapes[0]) > 1:
            pred = pred / pred.sum(axis=1, keepdims=True)
        label = rng.randint(0, classes, shapes[1]) if classes else rng.uniform(0.05, 1, shapes[1])
        m.update([nd.array(label)], [nd.array(pred)])
    names, values = m.get()
    return {"name": names, "value": np.array(values, dtype="float64"), "text": str(m).split(":")[0]}


def naming():
    """Prefixes, names and structural keys of nested blocks."""
    class Inner(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super(Inner, self).__init__(**kwargs)
            with self.name_scope():
                self.body = nn.HybridSequential()
                self.body.add(nn.Dense(3, in_units=2), nn.BatchNorm(in_channels=3))
                self.out = nn.Dense(1, in_units=3, prefix="out_")
                self.scale = self.params.get("scale", shape=(1,))

        def hybrid_forward(self, F, x, scale):
            return self.out(self.body(x)) * scale

    class Outer(gluon.Block):
        def __init__(self, **kwargs):
            super(Outer, self).__init__(**kwargs)
            with self.name_scope():
                self.first = Inner()
                self.second = Inner(prefix="second_")
                self.shared = nn.Dense(3, in_units=2, params=self.first.body[0].params)
            self.outside = nn.Conv2D(2, 3, in_channels=1, activation="relu")

    net = Outer()
    loose = [nn.Dense(1), nn.Dense(1), nn.Conv1D(1, 1), nn.MaxPool2D(), nn.Activation("tanh"), gluon.loss.L2Loss()]
    return {"names": list(net.collect_params().keys()), "prefix": net.prefix, "children": list(net._children.keys()),
            "keys": list(net._collect_params_with_prefix().keys()), "loose": [b.name for b in loose],
            "select": list(net.collect_params(".*dense").keys()), "inner": net.first.name, "repr": repr(net)}


def printing():
    """Arrays as text."""
    rng = np.random.RandomState(0)
    arrays = [nd.array([1, 2, 3]), nd.zeros((2, 3)), nd.array([1.5, -2.25, 1e-8]), nd.array([[1e10, 1], [2, 3]]),
              nd.array(rng.rand(3, 4)), nd.arange(2000), nd.ones((2, 2), dtype="int32"), nd.array([float("nan"), 1]),
              nd.array(rng.rand(40, 40)), nd.array([0.1], dtype="float16"), nd.array([True, False], dtype="bool")]
    return {"texts": [repr(x) for x in arrays], "context": [str(mx.cpu()), str(mx.gpu(1))],
            "parameter": str(gluon.Parameter("w", shape=(2, 3), dtype="float32"))}


def indexing():
    """Shapes and values of index expressions."""
    x = nd.arange(2 * 3 * 4).reshape((2, 3, 4))
    index = nd.array([1, 0], dtype="int32")
    results = [x[0], x[-1, 1], x[:, 1:3], x[..., 2], x[None, 0], x[1, 2, 3], x[:, ::-1], x[::2, :, 1::2], x[index],
               x[:, index], x[index, index], x[[0, 1], [1, 2], [3, 0]], x[0, [0, 2]], x[()], x[:, None, :, 0:2]]
    y = x.copy()
    y[0] = 5
    y[:, 1] = nd.array([1, 2, 3, 4])
    y[1, 2, 3] = -1
    y[index, 0] = 7
    return {"values": [r.asnumpy() for r in results], "assigned": y.asnumpy()}


def conversions():
    """Element types of results."""
    import warnings
    warnings.simplefilter("ignore")
    a, i = nd.array([1.5, 2.5]), nd.array([1, 2], dtype="int32")
    made = {"list": nd.array([1, 2]), "numpy": nd.array(np.arange(3)), "zeros": nd.zeros(2), "arange": nd.arange(3),
            "randint": nd.random.randint(0, 5, shape=(3,)), "argmax": a.argmax(axis=0), "topk": nd.topk(a),
            "one_hot": nd.one_hot(i, 3), "compare": a > 2, "int_compare": i == 1, "int_div": i / 2, "int_mul": i * 2.5,
            "mean_int": i.astype("float32").mean(), "cast": a.astype("int64"), "shape_array": nd.shape_array(a),
            "half": a.astype("float16") + a.astype("float16"), "embedding": nd.Embedding(i, nd.ones((4, 2)), 4, 2)}
    return {name: (x.asnumpy() if name != "randint" else x.shape, np.dtype(x.dtype).name) for name, x in made.items()}


def write_params(folder):
    """A network's parameters, and a list and a dict of arrays of every type, for the other side to read."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(2, 3, in_channels=1), nn.BatchNorm(in_channels=2), nn.Dense(3, in_units=32))
    net.initialize()
    fill(net)
    net.save_parameters(os.path.join(folder, "net.params"))
    rng = np.random.RandomState(0)
    arrays = {d: nd.array(rng.randint(0, 2 if d == "bool" else 100, (3, 4)), dtype=d)
              for d in ("float32", "float64", "float16", "uint8", "int8", "int32", "int64", "bool")}
    nd.save(os.path.join(folder, "dict.params"), arrays)
    nd.save(os.path.join(folder, "list.params"), list(arrays.values()))
    with open(os.path.join(folder, "dict.params"), "rb") as file:
        return {"bytes": file.read()}


def read_params(folder):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(2, 3, in_channels=1), nn.BatchNorm(in_channels=2), nn.Dense(3, in_units=32))
    net.load_parameters(os.path.join(folder, "net.params"))
    loaded, listed = (nd.load(os.path.join(folder, name)) for name in ("dict.params", "list.params"))
    return {"net": [p.data().asnumpy() for p in net.collect_params().values()],
            "output": net(nd.ones((1, 1, 6, 6))).asnumpy(),
            "dict": {k: (v.asnumpy(), np.dtype(v.dtype).name) for k, v in sorted(loaded.items())},
            "list": [v.asnumpy() for v in listed]}


def recordio():
    """Records written and read again, with their bytes."""
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "x.rec")
    writer = mx.recordio.MXIndexedRecordIO(os.path.join(folder, "x.idx"), path, "w")
    for i in range(4):
        header = mx.recordio.IRHeader(0, float(i), i, 0) if i % 2 else mx.recordio.IRHeader(2, np.array([i, i + 0.5]), i, 0)
        writer.write_idx(i, mx.recordio.pack(header, bytes(range(10 * i))))
    writer.close()
    reader = mx.recordio.MXIndexedRecordIO(os.path.join(folder, "x.idx"), path, "r")
    unpacked = [mx.recordio.unpack(reader.read_idx(i)) for i in (2, 0, 3, 1)]
    with open(path, "rb") as file:
        data = file.read()
    return {"bytes": data, "labels": [np.array(h.label) for h, _ in unpacked], "payload": [p for _, p in unpacked]}


WRONG_CALLS = [
    "x + 'a'", "nd.array('abc')", "nd.array([[1, 2], [3]])", "x[5]", "x[1.5]", "x['a']", "nd.zeros((2, 3))[1, 2, 3]",
    "nd.zeros((2, 3)) + nd.zeros((4, 5))", "nd.Convolution(x, x, x)", "nd.sum(x, axes=1)", "nd.load('no such file')",
    "x.backward()", "x.asscalar()", "bool(x)", "x.astype('foo')", "nd.zeros((2,), ctx=mx.gpu(99))",
    "gluon.Parameter('a', shape=(2,)).data()", "gluon.Parameter('a', shape=(2,), grad_req='foo')",
    "gluon.Parameter('a', shape=(0,)).initialize()", "nn.Dense(3).weight.data()", "mx.optimizer.create('foo')",
    "gluon.Trainer([x], 'sgd')", "nn.Activation('foo')(x)", "gluon.loss.L2Loss()(x)", "mx.init.Xavier('foo')(mx.init.InitDesc('w'), x)",
    "nn.HybridSequential().add(gluon.Block())", "nn.Dense(2).load_parameters('no such file')", "mx.metric.create('foo')",
    "gluon.data.ArrayDataset(x, nd.zeros((5,)))", "gluon.utils.split_data(x, 2)", "autograd.grad(x, [x])",
    "nd.dot(nd.zeros((2, 3)), nd.zeros((2, 3)))", "nd.concat(x, nd.zeros((2, 2)), dim=0)", "nd.FullyConnected(x, x, x)",
]


def errors():
    """What wrong calls raise: names of the exception's classes, the nearest first; None if nothing."""
    x = nd.array([1, 2, 3])
    space = {"nd": nd, "mx": mx, "gluon": gluon, "nn": nn, "x": x, "autograd": autograd}
    raised = {}
    for call in WRONG_CALLS:
        try:
            eval(call, dict(space))
            raised[call] = None
        except Exception as error:
            raised[call] = [c.__name__ for c in type(error).__mro__]
    return raised
