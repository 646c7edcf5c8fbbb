"""Graphs on both packages: what symbols say of themselves, and exported networks that the other side runs."""
import json
import os

import numpy as np

import mxnet as mx
from mxnet import gluon, nd, sym
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
    "lambda": ("seq(nn.HybridLambda(lambda F, x: F.broadcast_mul(x, x.mean(axis=1, keepdims=True)) - 0.5),"
               " nn.Dense(2))", (3, 4)),
}


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
            "shapes": made.infer_shape(**shapes), "types": str(made.infer_type(data="float32")),
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
