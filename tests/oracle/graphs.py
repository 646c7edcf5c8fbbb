"""Graphs on both packages: properties of symbols, and exported networks that the other side runs."""
import json
import os

import numpy as np

import mxnet as mx
from mxnet import autograd, gluon, nd, sym
from mxnet.gluon import nn

SYMBOLS = {
    "mlp": ("sym.SoftmaxOutput(sym.FullyConnected(sym.Activation(sym.FullyConnected(d, num_hidden=8, name='a'),"
            " act_type='relu'), num_hidden=3, name='b'), name='softmax')", {"data": (4, 7)}),
    "batchnorm": ("sym.Flatten(sym.LeakyReLU(sym.BatchNorm(sym.Convolution(d, kernel=(3, 3), num_filter=4, pad=(1, 1),"
                  " name='c'), name='bn', fix_gamma=False) + d, act_type='leaky', slope=0.1))", {"data": (2, 4, 8, 8)}),
    "outputs": ("sym.Group([sym.split(d, num_outputs=2, axis=1, name='s')[0] * 2,"
                " sym.split(d, num_outputs=2, axis=1)])", {"data": (2, 6)}),
    "deconvolution": ("sym.Deconvolution(d, kernel=(4, 4), stride=(2, 2), pad=(1, 1), num_filter=5, name='de')",
                      {"data": (1, 3, 5, 5)}),
    "embedding": ("sym.sum(sym.Embedding(d, input_dim=10, output_dim=4, name='e'), axis=1)", {"data": (3, 5)}),
    "layernorm": ("sym.LayerNorm(d, name='ln')", {"data": (3, 5)}),
    "dot": ("sym.dot(d, sym.var('w', shape=(5, 2)))", {"data": (3, 5)}),
    "concat": ("sym.concat(d, sym.var('y'), dim=1)", {"data": (3, 5), "y": (3, 2)}),
    "methods": ("d.reshape((0, -1)).expand_dims(0).transpose((1, 0, 2)).sum(axis=1)", {"data": (3, 5, 2)}),
    "broadcast": ("sym.broadcast_add(d, sym.var('z'))", {"data": (3, 5), "z": (1, 5)}),
    "arithmetic": ("(d + 1) * 2 - 3 / (d ** 2) % 2 + (d > 1) - (-d)", {"data": (3, 5)}),
    "functions": ("sym.maximum(d, 2) + sym.minimum(d, sym.var('o')) + sym.hypot(d, 1)", {"data": (3, 5)}),
    "notes": ("sym.FullyConnected(d, num_hidden=2, name='fc', attr={'__lr_mult__': '2'})", {"data": (3, 5)}),
    "backwards": ("sym.relu(sym.var('a')) + d", {"data": (3, 5)}),
    "foreach": ("sym.contrib.foreach(lambda x, s: (sym.FullyConnected(x, num_hidden=4, name='fc') + s[0],"
                " [s[0] * sym.exp(sym.var('k'))]), d, [sym.var('h')])[0]", {"data": (3, 2, 5), "h": (2, 4)}),
    "foreach of several": ("sym.Group(sum(sym.contrib.foreach(lambda x, s: ([x[0] + s[0], x[1]], [s[1], s[0]]),"
                           " [d, d * 2], [sym.sum(d, axis=0), sym.max(d, axis=0)]), []))",
                           {"data": (3, 5)}),
    # Shapes of these two are not inferred there.
    "while_loop": ("sym.Group(sum(sym.contrib.while_loop(lambda i, s: i < 5, lambda i, s: ([s + d, i],"
                   " [i + 1, s * d]), [sym.sum(d), sym.exp(d)], max_iterations=4), []))", None),
    "cond": ("sym.Group(sym.contrib.cond(sym.sum(d) > 3, lambda: [d * 2, d], lambda: [sym.exp(d) + 1, d * 3]))",
             None),
}
NETWORKS = {
    "dense": ("nn.Dense(3, activation='relu', prefix='n_')", (4, 5)),
    "lenet": ("seq(nn.Conv2D(6, 5, activation='relu'), nn.MaxPool2D(2, 2), nn.Conv2D(8, 3, activation='tanh'),"
              " nn.AvgPool2D(2, 2), nn.Dense(12, activation='sigmoid'), nn.Dropout(0.5),"
              " nn.Dense(10))", (2, 1, 20, 20)),
    "norms": ("seq(nn.Conv2D(4, 3, use_bias=False), nn.BatchNorm(), nn.LeakyReLU(0.1), nn.InstanceNorm(),"
              " nn.GroupNorm(2), nn.LayerNorm(), nn.GlobalAvgPool2D(), nn.Flatten())", (2, 3, 9, 9)),
    "transposed": ("seq(nn.Conv2DTranspose(3, 3, strides=2, output_padding=1), nn.PReLU(), nn.SELU(), nn.GELU(),"
                   " nn.ELU(), nn.MaxPool2D(3, 2, ceil_mode=True))", (2, 4, 5, 5)),
    "foreach": ("seq(nn.Dense(4, flatten=False), nn.HybridLambda(lambda F, x: F.contrib.foreach(lambda r, s:"
                " (F.tanh(r + s), F.relu(r) - s), x, F.zeros((2, 4)))[0]), nn.Dense(3, flatten=False))", (5, 2, 3)),
    "while_loop": ("seq(nn.Dense(4, flatten=False, in_units=3), nn.HybridLambda(lambda F, x: F.contrib.while_loop("
                   "lambda i, s: i < 3, lambda i, s: (s + 1, [i + 1, s * 2]), [F.zeros((1,)), x], max_iterations=3)[1][1]))",
                   (5, 3)),
    "cond": ("seq(nn.Dense(4, flatten=False, in_units=3), nn.HybridLambda(lambda F, x: F.contrib.cond(F.sum(x) < 0,"
             " lambda: x * 2, lambda: x - 1)))", (5, 3)),
    "lambda": ("seq(nn.HybridLambda(lambda F, x: F.broadcast_mul(x, x.mean(axis=1, keepdims=True)) - 0.5),"
               " nn.Dense(2))", (3, 4)),
}


# Functions of F and arrays x, h: loops and conditions with their gradients.  Rows that a while_loop did not reach hold
# whatever was in memory there, and its gradients read them; so all rows are reached here, and only values compared.
FLOWS = {
    "foreach": ("sum(F.contrib.foreach(lambda r, s: ([F.tanh(r + s[0]), r * 2], [F.relu(r) - s[0]]), x, [h]), [])",
                True),
    "foreach of a vector": ("[F.contrib.foreach(lambda r, s: (r * s, s + r), F.reshape(x, shape=(-1,)),"
                            " F.sum(h))[0]]", True),
    "foreach inside foreach": ("[F.contrib.foreach(lambda r, s: (F.contrib.foreach(lambda q, t: (F.broadcast_mul(q, t),"
                               " t * 0.5), r, F.sum(s))[0], s + 1), x, h)[0]]", True),
    "cond": ("[F.contrib.cond(F.sum(h) > 0, lambda: h * h, lambda: F.exp(h))]", True),
    "other cond": ("[F.contrib.cond(F.sum(h) < 0, lambda: h * h, lambda: F.exp(h))]", True),
    "while_loop": ("sum(F.contrib.while_loop(lambda i, s: i < 3, lambda i, s: ([s + 1, i], [i + 1, s * F.exp(h)]),"
                   " [F.zeros((1,)), h], max_iterations=3), [])", False),
}


def flow(name):
    """Outputs and gradients on arrays and on symbols."""
    expression, differentiate = FLOWS[name]
    values = [np.random.RandomState(3).uniform(-1, 1, shape) for shape in ((4, 2, 3), (2, 3))]
    x, h = (nd.array(v) for v in values)
    x.attach_grad(), h.attach_grad()
    with autograd.record():
        outputs = eval(expression, {"F": nd, "x": x, "h": h})
    result = {"outputs": [y.asnumpy() for y in outputs]}
    if differentiate:
        autograd.backward(outputs)
        result["gradients"] = [x.grad.asnumpy(), h.grad.asnumpy()]
    made = sym.Group(eval(expression, {"F": sym, "x": sym.var("x"), "h": sym.var("h")}))
    arguments = {n: nd.array(v) for n, v in zip("xh", values) if n in made.list_arguments()}
    executor = made.bind(mx.cpu(), arguments, {n: nd.zeros(v.shape) for n, v in arguments.items()})
    result["symbol"] = [y.asnumpy() for y in executor.forward(is_train=differentiate)]
    if differentiate:
        executor.backward([nd.ones(y.shape) for y in executor.outputs])
        result["symbol gradients"] = {n: g.asnumpy() for n, g in executor.grad_dict.items()}
    return result


def symbol(name):
    """Lists, shapes, types and files of a symbol."""
    expression, shapes = SYMBOLS[name]
    with mx.name.NameManager():
        made = eval(expression, {"sym": sym, "d": sym.Variable("data")})
    graph = json.loads(made.tojson())
    children = made.get_children()
    return {"arguments": made.list_arguments(), "auxiliary": made.list_auxiliary_states(),
            "outputs": made.list_outputs(), "internals": made.get_internals().list_outputs(),
            "name": made.name, "text": repr(made),
            "children": children.list_outputs() if children is not None else None,
            "shapes": made.infer_shape(**shapes) if shapes else None, "types": str(made.infer_type(data="float32")),
            "nodes": [(n["name"], n["op"], n["inputs"]) for n in graph["nodes"]], "arg_nodes": graph["arg_nodes"],
            "heads": graph["heads"], "again": sym.load_json(made.tojson()).list_arguments()}


def seq(*layers):
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        for layer in layers:
            net.add(layer)
    return net


def write_export(folder, name):
    """Exports a network and stores an input and the output; gives names and operators of the nodes."""
    expression, shape = NETWORKS[name]
    net = eval(expression, {"nn": nn, "seq": seq})
    net.initialize()
    x = nd.array(np.random.RandomState(0).uniform(-1, 1, shape))
    net.hybridize()
    net(x)
    rng = np.random.RandomState(1)
    for p in net.collect_params().values():
        p.set_data(nd.array(rng.uniform(0.2, 0.8, p.shape)))
    path = os.path.join(folder, name)
    net.export(path)
    np.savez(path + ".npz", x=x.asnumpy(), y=net(x).asnumpy())
    with open(path + "-symbol.json") as file:
        return {"nodes": [(n["op"], len(n["inputs"])) for n in json.load(file)["nodes"]]}


def read_export(folder, name):
    """Runs an exported network on the stored input; the difference from the stored output."""
    path = os.path.join(folder, name)
    block = gluon.SymbolBlock.imports(path + "-symbol.json", ["data"], path + "-0000.params")
    with np.load(path + ".npz") as stored:
        return {"y": block(nd.array(stored["x"])).asnumpy(), "wanted": stored["y"]}
