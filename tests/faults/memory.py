"""Every allocation of a program fails once: the library's own, or Python's.

    python memory.py library SCENARIO [EVERY]      mx_alloc number 1, 2, 3 ... fails
    python memory.py python SCENARIO [EVERY]       an allocation of Python's fails; each time in a process of its own

A failure is a MemoryError (or is survived), nothing leaks, and the same work gives the same numbers afterwards; of Python's
allocations any exception will do that is no SystemError.  EVERY: only every so many-th allocation; 0: as many as make MOST.

Networks and data are on the context MXNET_TEST_DEFAULT_CTX; with a GPU the library's allocations are those of both memories.

SPDX-License-Identifier: Apache-2.0
"""
import gc
import os
import pickle
import shutil
import sys
import tempfile
import time

import numpy as np

import mxnet as mx
from mxnet import _core, autograd, gluon, nd
from mxnet.gluon import nn
from mxnet.contrib import onnx as onnx_files

CONTEXT = mx.Context.from_text(os.environ.get("MXNET_TEST_DEFAULT_CTX", "cpu(0)"))
MOST = 400  # allocations that fail if there is no other wish
FOLDER = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
SCENARIOS = {}


def scenario(make):
    """make() prepares and returns the work; the work returns arrays or numbers."""
    SCENARIOS[make.__name__] = make
    return make


def path(name):
    return os.path.join(FOLDER, name)


def small_net():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3, in_channels=1), nn.BatchNorm(in_channels=4), nn.Activation("relu"), nn.Flatten(),
                nn.Dense(3, in_units=4 * 4 * 4))
    net.initialize(mx.init.Constant(0.125), ctx=CONTEXT)
    return net


DATA = nd.arange(72, ctx=CONTEXT).reshape((2, 1, 6, 6)) / 72
LABEL = nd.array([0, 1], ctx=CONTEXT)


def training(hybrid):
    def work():
        net = small_net()
        if hybrid:
            net.hybridize(static_alloc=True)
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
        criterion = gluon.loss.SoftmaxCrossEntropyLoss()
        for _ in range(2):
            with autograd.record():
                loss = criterion(net(DATA), LABEL)
            loss.backward()
            trainer.step(2)
        return [loss] + [p.data() for p in net.collect_params().values()]
    return work


@scenario
def step():
    return training(False)


@scenario
def hybridized():
    return training(True)


@scenario
def fused():
    """Forward, backward and update as one plan."""
    def work():
        net = small_net()
        net.hybridize(static_alloc=True)
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
        step = gluon.TrainStep(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
        losses = [step(DATA, LABEL).copy() for _ in range(3)]
        return losses + [p.data() for p in net.collect_params().values()]
    return work


def trained():
    """A hybridized network after a step, its trainer, and files of both."""
    net = small_net()
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    with autograd.record():
        net(DATA).sum().backward()
    trainer.step(1)
    net.save_parameters(path("net.params"))
    trainer.save_states(path("net.states"))
    net.export(path("net"))
    return net, trainer


@scenario
def saving():
    """Parameters and states; what is read back is right even if another try failed before."""
    net, trainer = trained()

    def work():
        net.save_parameters(path("net.params"))
        trainer.save_states(path("net.states"))
        return [values for _, values in sorted(nd.load(path("net.params")).items())]
    return work


@scenario
def loading():
    net, trainer = trained()

    def work():
        net.load_parameters(path("net.params"), ctx=CONTEXT)
        trainer.load_states(path("net.states"))
        return [net(DATA)]
    return work


@scenario
def exporting():
    net, _ = trained()

    def work():
        net.export(path("net"))
        return [values for _, values in sorted(nd.load(path("net-0000.params")).items())]
    return work


@scenario
def predicting():
    """Imports the network and predicts: operator by operator, then with a plan that is made, and run again."""
    trained()

    def work():
        read = gluon.SymbolBlock.imports(path("net-symbol.json"), ["data"], path("net-0000.params"), ctx=CONTEXT)
        found = [read(DATA)]
        read.hybridize(static_alloc=True, static_shape=True)
        return found + [read(DATA).copy() for _ in range(3)]
    return work


@scenario
def formats():
    """Arrays in files of every format."""
    def work():
        found = []
        for ending in (".npz", ".safetensors", ".params"):
            mx.nd.save(path("a" + ending), {"x": DATA})
            found.append(mx.nd.load(path("a" + ending))["x"])
        return found
    return work


@scenario
def onnx():
    net = small_net()
    net(DATA)
    values = {name: p.data() for name, p in net.collect_params().items()}

    def work():
        onnx_files.export_model(net(mx.sym.var("data")), values, [(2, 1, 6, 6)], "float32", path("net.onnx"))
        return [onnx_files.import_to_gluon(path("net.onnx"))(DATA)]
    return work


@scenario
def data():
    """Records, images, the loader with and without threads."""
    with mx.recordio.MXIndexedRecordIO(path("a.idx"), path("a.rec"), "w") as record:
        for i in range(6):
            record.write_idx(i, mx.recordio.pack_img((0, i, i, 0), np.full((8, 8, 3), 20 * i, "uint8"), img_fmt=".png"))

    def work():
        images = gluon.data.vision.ImageRecordDataset(path("a.rec"))
        images = images.transform_first(gluon.data.vision.transforms.ToTensor())
        found = [batch for pair in gluon.data.DataLoader(images, 3) for batch in pair]
        plain = gluon.data.ArrayDataset(DATA, LABEL)
        found += [batch for pair in gluon.data.DataLoader(plain, 1, num_workers=1, thread_pool=True) for batch in pair]
        return found
    return work


@scenario
def workers():
    """A loader with a process: it is forked with the same number armed, so allocations fail on both sides."""
    plain = gluon.data.ArrayDataset(DATA, LABEL)

    def work():
        return [batch for pair in gluon.data.DataLoader(plain, 1, num_workers=1) for batch in pair]
    return work


@scenario
def objects():
    """Wrappers of every kind, copies and pickles of them."""
    def work():
        net = small_net()
        x = nd.array([[1, 2], [3, 4]])
        y = mx.sym.var("y") * 2
        found = [x[0], x[:, 1], x.T, pickle.loads(pickle.dumps(x)), x.astype("float16").astype("float32")]
        found += [pickle.loads(pickle.dumps(net))(DATA), net.summary and net(DATA), y.eval(y=x)[0]]
        metric = mx.metric.Accuracy()
        metric.update([LABEL], [nd.array([[0.9, 0.1], [0.2, 0.8]])])
        optimizer = pickle.loads(pickle.dumps(mx.optimizer.Adam(lr_scheduler=mx.lr_scheduler.FactorScheduler(2))))
        found += [x.tostype("row_sparse").tostype("default"), metric.get()[1], optimizer.learning_rate]
        cell = gluon.rnn.LSTM(3, input_size=2)
        cell.initialize(mx.init.One())
        return found + [cell(nd.ones((2, 1, 2)))]
    return work


# ---- running --------------------------------------------------------------------------------------------------------

def numbers(results):
    return [np.array(r.asnumpy() if hasattr(r, "asnumpy") else r) for r in results]


def same(one, two):
    """To the bit, but for GPUs: which algorithm a convolution gets there depends on the memory that there was."""
    close = np.array_equal if CONTEXT.device_type == "cpu" else lambda a, b: np.allclose(a, b, rtol=1e-3, atol=1e-4)
    return len(one) == len(two) and all(a.shape == b.shape and close(a, b) for a, b in zip(one, two))


def live():
    gc.collect()
    return _core.memory_in_use()["live_blocks"]


def left_over(before):
    """Blocks that stay; threads of a loader may still be ending."""
    for _ in range(20):
        left = live() - before
        if left <= 0:
            return 0
        time.sleep(0.02)
    return left


def attempt(work, arm, disarm):
    """(finding or None, whether it failed)"""
    arm()
    try:
        try:
            numbers(work())
        finally:
            disarm()
    except (MemoryError, pickle.PicklingError):  # the pickle module reports imports that failed, for any reason
        return None, True
    except SystemError as error:
        own = "error return without exception set" != str(error)  # that one is CPython 3.11 itself, in `except KeyError`
        return f"SystemError: {error}" if own else None, True
    except Exception as error:
        return f"{type(error).__name__}: {error}", True
    return None, False


def allocations(work):
    """How many a run makes, about: those of a device are not counted."""
    before = _core.memory_in_use()["calls"]
    numbers(work())
    return _core.memory_in_use()["calls"] - before


def on_device():
    """Bytes that arrays take there."""
    gc.collect()
    return mx.context.gpu_memory_used(CONTEXT.device_id)[0] if CONTEXT.device_type == "gpu" else 0


def library(work, wanted, every):
    findings, number, passed, device = [], 1, 0, on_device()
    every = every or max(1, allocations(work) // MOST)
    while passed < 3:
        before = live()
        finding, failed = attempt(work, lambda: _core.fail_allocation(number), lambda: _core.fail_allocation(0))
        passed = 0 if failed else passed + 1
        if left_over(before):
            finding = finding or f"{left_over(before)} blocks are left"
        if not same(numbers(work()), wanted):
            finding = finding or "the next run gives other numbers"
        if finding:
            findings.append(f"allocation {number}: {finding}")
        number += every
    if on_device() > device:
        findings.append(f"{on_device() - device} bytes of the GPU are left")
    return number, findings


def python(work, wanted, every):
    import _testcapi
    findings, number, passed = [], 1, 0
    while passed < 60:  # many are survived: Python tries again, or does without
        child = os.fork()
        if child == 0:
            os._exit(in_child(work, wanted, _testcapi, number))
        status = os.waitpid(child, 0)[1]
        passed = passed + 1 if status == 0 else 0
        if status not in (0, 7 << 8):
            findings.append(f"allocation {number}: " + (f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "see above"))
        number += every
    return number, findings


def in_child(work, wanted, _testcapi, number):
    finding, failed = attempt(work, lambda: _testcapi.set_nomemory(number, number + 1), _testcapi.remove_mem_hooks)
    if finding and not finding.startswith("SystemError"):
        finding = None  # code that asks hasattr() sees no attribute where there was no memory: another exception is clean, too
    if not finding and not same(numbers(work()), wanted):
        finding = "the next run gives other numbers"
    if finding:
        print(f"allocation {number}: {finding}", flush=True)
    return 1 if finding else 7 if failed else 0


def main(kind, name, every=1):
    gc.disable()
    work = SCENARIOS[name]()
    for _ in range(2):
        wanted = numbers(work())
    number, findings = {"library": library, "python": python}[kind](work, wanted, int(every))
    print(*findings[:20], f"{name}: {number} allocations of {kind} failed one by one, {len(findings)} findings", sep="\n")
    shutil.rmtree(FOLDER, ignore_errors=True)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
