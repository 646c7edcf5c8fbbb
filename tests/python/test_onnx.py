"""ONNX files: what is written reads back as the same network; broken and hostile files give errors.

The files of the second half are made here, field by field, so no other package is needed; tests/onnx compares with ONNX
Runtime.  SPDX-License-Identifier: Apache-2.0
"""
import os
import random
import struct
import subprocess
import sys

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn, rnn


def network():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, padding=1, activation="relu"), nn.BatchNorm(), nn.MaxPool2D(2), nn.Conv2D(6, 3, strides=2),
            nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(5, activation="tanh"), nn.LayerNorm(), nn.Dense(3))
    return net


def exported(net, *inputs, path):
    net.initialize(mx.init.Xavier())
    net.hybridize()
    with autograd.record():  # running statistics that are not the initial ones
        net(*inputs)
    y = net(*inputs)
    assert net.export(path) == path
    return y.asnumpy()


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


# ---- round trips ----

def test_a_network_reads_back(tmp_path):
    path, x = str(tmp_path / "net.onnx"), nd.random.uniform(shape=(2, 3, 12, 12))
    net = network()
    y = exported(net, x, path=path)
    back = gluon.SymbolBlock.imports(path)
    close(back(x).asnumpy(), y)
    more = nd.random.uniform(shape=(5, 3, 12, 12))  # the batch is open
    close(back(more).asnumpy(), net(more).asnumpy())
    back.hybridize()
    close(back(more).asnumpy(), net(more).asnumpy())


def test_parameters_keep_their_names_and_values(tmp_path):
    path, x = str(tmp_path / "net.onnx"), nd.random.uniform(shape=(2, 3, 12, 12))
    net = network()
    exported(net, x, path=path)
    symbol, arguments, states = mx.onnx.import_model(path)
    own = net.collect_params()
    assert states and set(states) == {name for name in own if "running" in name}
    for name, parameter in own.items():
        found = arguments.get(name, states.get(name))
        close(found.asnumpy(), parameter.data().asnumpy())


@pytest.mark.parametrize("hybridized", [False, True])
def test_an_imported_network_learns(hybridized, tmp_path):
    path, x = str(tmp_path / "net.onnx"), nd.random.uniform(shape=(8, 3, 12, 12))
    exported(network(), x, path=path)
    net = gluon.SymbolBlock.imports(path)
    if hybridized:
        net.hybridize()
    label, loss = nd.array([0, 1, 2, 0, 1, 2, 0, 1]), gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    losses = []
    for _ in range(12):
        with autograd.record():
            value = loss(net(x), label)
        value.backward()
        trainer.step(8)
        losses.append(value.mean().asscalar())
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("layer", [rnn.LSTM, rnn.GRU, rnn.RNN])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent_layers(layer, bidirectional, tmp_path):
    path, x = str(tmp_path / "rnn.onnx"), nd.random.uniform(-1, 1, shape=(3, 4, 6))
    y = exported(layer(5, 2, layout="NTC", bidirectional=bidirectional), x, path=path)
    close(gluon.SymbolBlock.imports(path)(x).asnumpy(), y)


def test_old_names_and_signatures(tmp_path):
    x = nd.random.uniform(shape=(2, 3, 12, 12))
    net = network()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    y = net(x).asnumpy()
    graph, params = net.export(str(tmp_path / "net"))
    path = str(tmp_path / "net.onnx")
    assert mx.contrib.onnx.export_model(graph, params, [(2, 3, 12, 12)], np.float32, path) == path
    assert mx.contrib.onnx.get_model_metadata(path)["input_tensor_data"] == [("data", (2, 3, 12, 12))]
    close(mx.contrib.onnx.import_to_gluon(path, mx.current_context())(x).asnumpy(), y)
    mx.onnx.export_model(graph, params, [(2, 3, 12, 12)], onnx_file_path=path, dynamic=True)
    assert mx.onnx.get_model_metadata(path)["input_tensor_data"] == [("data", (0, 3, 12, 12))]
    mx.onnx.export_model(mx.sym.load(graph), nd.load(params), [(2, 3, 12, 12)], np.float32, path, opset_version=13)
    close(mx.onnx.import_to_gluon(path)(x).asnumpy(), y)
    for opset in (12, 24):
        with pytest.raises(ValueError, match="opset"):
            mx.onnx.export_model(graph, params, [(2, 3, 12, 12)], onnx_file_path=path, opset_version=opset)
    assert "Convolution" in mx.onnx.get_operator_support()


def test_an_operator_without_a_counterpart_is_named(tmp_path):
    data = mx.sym.var("data", shape=(2, 3))
    graph = mx.sym.gammaln(data, name="inner")
    with pytest.raises(mx.error.UnsupportedError, match=r"node 'inner' \(gammaln\)"):
        mx.onnx.export_model(graph, {}, [(2, 3)], onnx_file_path=str(tmp_path / "x.onnx"))
    assert not os.listdir(tmp_path)


# ---- files made here ----

def varint(value):
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, *parts):
    body = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def node(op, inputs, outputs, *attributes, name="", field=1):
    return message(field, *[message(1, i) for i in inputs], *[message(2, o) for o in outputs], message(3, name), message(4, op),
                   *attributes)


def integer(name, value):
    return message(5, message(1, name), number(3, value), number(20, 2))


def integers(name, *values):
    return message(5, message(1, name), *[number(8, value) for value in values], number(20, 7))


def value_info(field, name, shape, dtype=1):
    dims = [message(1, number(1, size)) for size in shape]
    return message(field, message(1, name), message(2, message(1, number(1, dtype), message(2, *dims))))


def tensor(field, name, shape, values, dtype=1, raw=None):
    data = raw if raw is not None else struct.pack(f"<{len(values)}f", *values)
    return message(field, *[number(1, size) for size in shape], number(2, dtype), message(8, name), message(9, data))


def model(*graph, opset=17, extra=b""):
    return number(1, 8) + message(8, message(1, ""), number(2, opset)) + message(7, *graph) + extra


def usual(*nodes, shape=(2, 3)):
    return model(*nodes, value_info(11, "x", shape), value_info(12, "y", shape))


def load(data, tmp_path):
    path = tmp_path / "made.onnx"
    path.write_bytes(data)
    return gluon.SymbolBlock.imports(str(path))


def test_a_file_made_by_hand(tmp_path):
    data = model(node("Add", ["x", "w"], ["y"]), tensor(5, "w", (3,), [1, 2, 3]), value_info(11, "x", (2, 3)),
                 value_info(12, "y", (2, 3)))
    close(load(data, tmp_path)(nd.ones((2, 3))).asnumpy(), [[2, 3, 4]] * 2)


def external(location, offset="0", length="12"):
    pairs = [message(13, message(1, key), message(2, value))
             for key, value in (("location", location), ("offset", offset), ("length", length))]
    return message(5, number(1, 3), number(2, 1), message(8, "w"), *pairs, number(14, 1))


def with_external(*args):
    return model(node("Add", ["x", "w"], ["y"]), external(*args), value_info(11, "x", (2, 3)), value_info(12, "y", (2, 3)))


def test_external_data_stays_in_the_folder(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w.bin").write_bytes(struct.pack("<4f", 0, 1, 2, 3))
    (tmp_path / "secret.bin").write_bytes(struct.pack("<4f", 0, 1, 2, 3))
    os.symlink(tmp_path / "secret.bin", folder / "link.bin")
    close(load(with_external("w.bin", "4"), folder)(nd.ones((2, 3))).asnumpy(), [[2, 3, 4]] * 2)
    for location in ("../secret.bin", str(tmp_path / "secret.bin"), "link.bin", "", ".", "missing.bin", "w.bin/../../secret.bin"):
        with pytest.raises(mx.error.FileError, match="external data"):
            load(with_external(location), folder)
    for offset, length in (("8", "12"), ("-4", "12"), ("99999999999999999999", "12"), ("0", "8"), ("x", "12")):
        with pytest.raises(mx.MXNetError):
            load(with_external("w.bin", offset, length), folder)


BAD = {
    "cycle": (usual(node("Add", ["x", "b"], ["a"], name="first"), node("Add", ["a", "x"], ["b"]), node("Relu", ["b"], ["y"])),
              r"node 'first' \(Add\).*'b'"),
    "itself": (usual(node("Relu", ["y"], ["y"], name="own")), r"node 'own' \(Relu\)"),
    "operator": (usual(node("Frobnicate", ["x"], ["y"], name="odd")), r"node 'odd' \(Frobnicate\).*not supported"),
    "domain": (usual(node("Relu", ["x"], ["y"], message(7, "com.other"))), r"com\.other"),
    "twice": (usual(node("Relu", ["x"], ["y"]), node("Relu", ["x"], ["y"])), "defined twice"),
    "no inputs": (usual(node("Add", [], ["y"])), r"\(Add\)"),
    "one input": (usual(node("Conv", ["x"], ["y"])), r"\(Conv\)"),
    "no output": (model(node("Relu", ["x"], ["z"]), value_info(11, "x", (2,)), value_info(12, "y", (2,))), "output 'y'"),
    "old opset": (model(node("Relu", ["x"], ["y"]), opset=99), "opset 99"),
    "no opset": (message(7, node("Relu", ["x"], ["y"])), "opset"),
    "no graph": (number(1, 8) + message(8, message(1, ""), number(2, 17)), "no graph"),
    "negative": (usual(node("Relu", ["x"], ["y"]), shape=(2, -5)), "negative"),
    "huge tensor": (model(node("Add", ["x", "w"], ["y"]), tensor(5, "w", (2**40, 2**40), [1]), value_info(11, "x", (2,)),
                          value_info(12, "y", (2,))), "too large|bytes"),
    "large tensor": (model(node("Add", ["x", "w"], ["y"]), tensor(5, "w", (2**40,), [1]), value_info(11, "x", (2,)),
                           value_info(12, "y", (2,))), "'w'.*4 bytes"),
    "negative tensor": (model(node("Add", ["x", "w"], ["y"]), tensor(5, "w", (-3,), [1]), value_info(11, "x", (2,)),
                              value_info(12, "y", (2,))), "negative"),
    "many axes": (usual(node("Relu", ["x"], ["y"]), shape=(1,) * 40), "axes"),
    "type": (model(node("Relu", ["x"], ["y"]), value_info(11, "x", (2,), 8), value_info(12, "y", (2,))), "string"),
    "huge reshape": (usual(node("Reshape", ["x", "s"], ["y"], name="r"),
                           tensor(5, "s", (2,), [], 7, struct.pack("<2q", 2**40, 2**40))), r"'r' \(Reshape\)"),
    "huge fill": (usual(node("ConstantOfShape", ["s"], ["y"], name="f"),
                        tensor(5, "s", (2,), [], 7, struct.pack("<2q", 2**40, 2**40))), r"'f' \(ConstantOfShape\)"),
    "axis": (usual(node("Softmax", ["x"], ["y"], integer("axis", 7), name="s")), r"'s' \(Softmax\).*axis 7"),
    "axis of a number": (usual(node("Hardmax", ["x"], ["y"], integer("axis", 7), name="h"), shape=()), r"'h' \(Hardmax\).*axis 7"),
    "large input": (usual(node("Relu", ["x"], ["y"]), shape=(2**62, 2**62)), r"input 'x'.*too large"),
    "overflow": (usual(node("Reshape", ["x", "s"], ["y"], name="r"),
                       tensor(5, "s", (3,), [], 7, struct.pack("<3q", 2**62, 2**62, -1))), r"'r' \(Reshape\)"),
    "short shape": (usual(node("ConvTranspose", ["x", "w"], ["y"], integers("output_shape", 9), name="up"),
                          tensor(5, "w", (1, 1, 2, 2), [1] * 4), shape=(1, 1, 4, 4)), r"'up' \(ConvTranspose\).*1 sizes, wanted at least 2"),
    "sizes that are no integers": (usual(node("Expand", ["x", "s"], ["y"], name="e"), tensor(5, "s", (2,), [float("nan"), 1e30])),
                                   r"'e' \(Expand\).*nan"),
    "text": (b"this is not a model", "not an ONNX file|broken"),
    "empty": (b"", "no graph"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(name, tmp_path):
    data, pattern = BAD[name]
    with pytest.raises(mx.MXNetError, match=pattern):
        load(data, tmp_path)


def test_recursive_functions_end(tmp_path):
    body = message(25, message(1, "F"), message(4, "a"), message(5, "b"), node("F", ["a"], ["b"], message(7, "my"), field=7),
                   message(10, "my"))
    data = model(node("F", ["x"], ["y"], message(7, "my")), value_info(11, "x", (2,)), value_info(12, "y", (2,)), extra=body)
    with pytest.raises(mx.error.FileError, match="without an end"):
        load(data, tmp_path)


def test_functions_of_the_file(tmp_path):
    body = message(25, message(1, "Twice"), message(4, "a"), message(5, "b"), node("Add", ["a", "a"], ["b"], field=7),
                   message(10, "my"))
    data = model(node("Twice", ["x"], ["y"], message(7, "my")), value_info(11, "x", (2,)), value_info(12, "y", (2,)), extra=body)
    close(load(data, tmp_path)(nd.array([1, 2])).asnumpy(), [2, 4])


def test_many_nodes(tmp_path):
    count = 20000
    nodes = [node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
    data = model(*nodes, value_info(11, "v0", (2,)), value_info(12, f"v{count}", (2,)))
    close(load(data, tmp_path)(nd.array([-1, 2])).asnumpy(), [0, 2])
    empty = model(b"\x0a\x00" * 10**6, value_info(11, "x", (2,)), value_info(12, "y", (2,)))
    with pytest.raises(mx.MXNetError):
        load(empty, tmp_path)


READER = """
import sys
from mxnet import _core
def most():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024
before = most()
_core.onnx_read(sys.argv[1], True, [], [])
print(most() - before)
"""


def memory_to_read(data, tmp_path):
    path = tmp_path / "made.onnx"
    path.write_bytes(data)
    said = subprocess.run([sys.executable, "-c", READER, str(path)], capture_output=True, text=True, timeout=600,
                          env=dict(os.environ, PYTHONPATH=os.path.dirname(os.path.dirname(mx.__file__))))
    assert said.returncode == 0, said.stderr
    return int(said.stdout)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the peak of memory is not known here")
def test_memory_of_many_nodes(tmp_path):
    """What a value takes while the file is read is free after its last use; the graph remains (docs/onnx.md names the number)."""
    count, constant = 100000, 20 << 20
    inputs = value_info(11, "v0", (2,)), value_info(12, f"v{count}", (2,))
    chain = model(*[node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(count)], *inputs)
    assert memory_to_read(chain, tmp_path) < len(chain) + 800 * count + constant
    loose = model(*[node("Relu", ["v0"], [f"v{i + 1}"]) for i in range(count)], *inputs)
    assert memory_to_read(loose, tmp_path) < len(loose) + 250 * count + constant


def test_values_are_used_to_their_last_use(tmp_path):
    """Twice by one node, by a condition's graph, as an output in the middle, under a name with a zero in it."""
    branch = message(6, node("Mul", ["a", "w"], ["inner"], field=1), value_info(12, "inner", (2,)))
    other = message(6, node("Neg", ["a"], ["inner"], field=1), value_info(12, "inner", (2,)))
    data = model(node("Relu", ["x"], ["a"]), node("Add", ["a", "a"], ["b"]), node("Add", ["b", "w"], ["c\0d"]),
                 node("ReduceMax", ["c\0d"], ["m"], integer("keepdims", 0)), node("Greater", ["m", "limit"], ["large"]),
                 node("If", ["large"], ["y"], message(5, message(1, "then_branch"), branch, number(20, 5)),
                      message(5, message(1, "else_branch"), other, number(20, 5))),
                 node("Sub", ["y", "c\0d"], ["z"]), tensor(5, "w", (2,), [3, 4]), tensor(5, "limit", (), [10]),
                 value_info(11, "x", (2,)), value_info(12, "z", (2,)), value_info(12, "b", (2,)))
    block = load(data, tmp_path)
    for x in ([1, 2], [3, 4]):
        x = np.array(x, np.float32)
        c = 2 * x + [3, 4]
        z, b = block(nd.array(x))
        close(z.asnumpy(), (x * [3, 4] if c.max() > 10 else -x) - c)
        close(b.asnumpy(), 2 * x)


def test_a_name_is_defined_once_even_after_its_last_use(tmp_path):
    with pytest.raises(mx.MXNetError, match="'a' is defined twice"):
        load(usual(node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["y"]), node("Neg", ["x"], ["a"])), tmp_path)


def test_cut_and_mutated_files(tmp_path):
    """Every result is a network or an error of this package."""
    x = nd.random.uniform(shape=(1, 3, 8, 8))
    path = str(tmp_path / "net.onnx")
    net = nn.HybridSequential()
    net.add(nn.Conv2D(2, 3), nn.BatchNorm(), nn.MaxPool2D(2), nn.Dense(3))
    exported(net, x, path=path)
    with open(path, "rb") as file:
        data = file.read()
    random.seed(1)
    survived = 0
    for trial in range(400):
        broken = bytearray(data)
        if trial % 4 == 0:
            broken = broken[:random.randrange(len(broken))]
        for _ in range(random.choice((1, 2, 8))):
            if broken:
                broken[random.randrange(len(broken))] = random.choice((0, 1, 127, 128, 255, random.randrange(256)))
        try:
            load(bytes(broken), tmp_path)
            survived += 1
        except mx.MXNetError as error:
            assert str(error)
    assert 0 < survived < 400
