"""Everything that writes files: write(folder, version) writes contents that show the version, read(folder) finds it out.

A file that read() cannot load is a finding, so is a mixture within one file.  Writers of several files report the set of
versions.  SPDX-License-Identifier: Apache-2.0
"""
import glob
import os
import struct

import numpy as np

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.contrib import onnx as onnx_files
from mxnet.contrib.tensorboard import SummaryWriter

SIZE = 3000  # elements: several writes of the buffer
WRITERS = {}


def writer(read):
    def add(write):
        WRITERS[write.__name__] = write, read
        return write
    return add


def versions(arrays):
    """The one number that all elements of all arrays have."""
    found = np.unique(np.concatenate([np.ravel(a.asnumpy()) for a in arrays]))
    assert len(found) == 1, f"a mixture of {found[:5]}"
    return {int(found[0])}


def net_of(version):
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Dense(30, in_units=100), gluon.nn.Dense(2, in_units=30))
    net.initialize(mx.init.Constant(version))
    for p in net.collect_params().values():
        p.set_data(nd.full(p.shape, version))
    return net


def path(folder, name):
    return os.path.join(folder, name)


# ---- arrays ---------------------------------------------------------------------------------------------------------

def array_writer(name, named):
    def write(folder, version):
        x = nd.full((SIZE,), version)
        mx.nd.save(path(folder, name), {"a": x, "b": x} if named else x)

    def read(folder):
        found = mx.nd.load(path(folder, name))
        return versions(found.values() if named else found)
    write.__name__ = "arrays_" + name.split(".")[1]
    writer(read)(write)


for _name, _named in (("a.params", True), ("a.npz", True), ("a.safetensors", True), ("a.npy", False)):
    array_writer(_name, _named)


@writer(lambda folder: versions(mx.nd.load(path(folder, "net.params")).values()))
def parameters(folder, version):
    net_of(version).save_parameters(path(folder, "net.params"))


# ---- states ---------------------------------------------------------------------------------------------------------

class Slow(mx.optimizer.Optimizer):
    """An optimizer in Python: its states are pickled."""

    def create_state(self, index, weight):
        return nd.zeros(weight.shape)

    def update(self, index, weight, grad, state):
        state[:] = grad


def trained(version, optimizer):
    net = net_of(1)
    trainer = gluon.Trainer(net.collect_params(), optimizer, {} if isinstance(optimizer, mx.optimizer.Optimizer) else
                            {"momentum": 0.5, "learning_rate": 1})
    with autograd.record():
        loss = sum((p.data() * version).sum() for p in net.collect_params().values())
    loss.backward()
    trainer.step(1)
    return trainer


def read_states(folder, optimizer):
    trainer = trained(7, optimizer)
    trainer.load_states(path(folder, "net.states"))
    states = [trainer._state(i, 0) for i in range(4)]
    return {abs(next(iter(versions(states))))}


@writer(lambda folder: read_states(folder, "sgd"))
def states(folder, version):
    trained(version, "sgd").save_states(path(folder, "net.states"))


@writer(lambda folder: read_states(folder, Slow()))
def states_of_python(folder, version):
    trained(version, Slow()).save_states(path(folder, "net.states"))


# ---- networks -------------------------------------------------------------------------------------------------------

def read_export(folder):
    net = gluon.SymbolBlock.imports(path(folder, "net-symbol.json"), ["data"], path(folder, "net-0000.params"))
    return versions(p.data() for p in net.collect_params().values())


@writer(read_export)
def export(folder, version):
    net = net_of(version)
    net.hybridize()
    net(nd.ones((1, 100)))
    net.export(path(folder, "net"))


def read_checkpoint(folder):
    symbol, arguments, _ = mx.model.load_checkpoint(path(folder, "net"), 1)
    assert symbol.list_arguments()
    return versions(arguments.values())


@writer(read_checkpoint)
def checkpoint(folder, version):
    net = net_of(version)
    mx.model.save_checkpoint(path(folder, "net"), 1, net(mx.sym.var("data")),
                             {name: p.data() for name, p in net.collect_params().items()}, {})


@writer(lambda folder: {int(mx.sym.load(path(folder, "s.json")).attr("__version__"))})
def symbol(folder, version):
    x = mx.sym.var("x")
    for i in range(400):
        x = x + i
    with mx.AttrScope(__version__=str(version)):
        (x + 1).save(path(folder, "s.json"))


def read_structure(folder):
    net = net_of(7)
    net.load(path(folder, "net"))
    return versions(p.data() for p in net.collect_params().values())


@writer(read_structure)
def structure(folder, version):
    net_of(version).save(path(folder, "net"))


def read_onnx(folder):
    _, arguments, auxiliary = onnx_files.import_model(path(folder, "net.onnx"))
    return versions({**arguments, **auxiliary}.values())


@writer(read_onnx)
def onnx(folder, version):
    net = net_of(version)
    onnx_files.export_model(net(mx.sym.var("data")), {name: p.data() for name, p in net.collect_params().items()},
                            [(1, 100)], "float32", path(folder, "net.onnx"))


# ---- records and events ---------------------------------------------------------------------------------------------

def read_records(folder):
    """Sequentially always; by index if there is one, which is then that of these records."""
    record, found = mx.recordio.MXRecordIO(path(folder, "a.rec"), "r"), []
    while (data := record.read()) is not None:
        found.append(data)
    kinds = {int(chr(data[0])) for data in found}
    assert len(found) == 40 and len(kinds) == 1
    if os.path.exists(path(folder, "a.idx")):
        indexed = mx.recordio.MXIndexedRecordIO(path(folder, "a.idx"), path(folder, "a.rec"), "r")
        assert [indexed.read_idx(i) for i in range(40)] == found
    return kinds


@writer(read_records)
def records(folder, version):
    with mx.recordio.MXIndexedRecordIO(path(folder, "a.idx"), path(folder, "a.rec"), "w") as record:
        for i in range(40):
            record.write_idx(i, str(version).encode() * (700 * version + i))


def read_events(folder):
    """Complete events, then perhaps a part of one: as TensorBoard reads files that are still being written."""
    for name in glob.glob(path(folder, "events.*")):
        with open(name, "rb") as file:
            data = file.read()
        at = 0
        while at + 12 <= len(data):
            size, = struct.unpack_from("<Q", data, at)
            assert size < 20000, "damaged in the middle"
            at += 16 + size
    return {2}


@writer(read_events)
def events(folder, version):
    log = SummaryWriter(folder)
    for i in range(20):
        log.add_scalar("loss", version, i)
    log.add_text("long", "a" * 9000)
    log.add_graph(net_of(version)(mx.sym.var("data")))
    log.close()
