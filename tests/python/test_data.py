"""Data sets, samplers, batchify functions and the loader: values, order, types, workers and what can go wrong with
them."""
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import mxnet as mx
from mxnet import gluon, nd
from mxnet.gluon import data as gdata
from mxnet.gluon.data import DataLoader
from mxnet.gluon.data.vision import transforms


class Plain(gdata.Dataset):
    """Examples (array, label) made in Python, so that no shortcut applies."""

    def __init__(self, n=10):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return nd.full((2, 3), i), i


def values(loader):
    return [[x.asnumpy().tolist() for x in batch] for batch in loader]


# ---- data sets -----------------------------------------------------------------------------------------------------

def test_array_dataset():
    x, y = np.arange(12.0).reshape(4, 3), nd.array([1, 2, 3, 4])
    dataset = gdata.ArrayDataset(x, y)
    assert len(dataset) == 4
    item = dataset[2]
    assert isinstance(item, tuple) and item[0].tolist() == [6, 7, 8]
    assert isinstance(item[1], np.float32) and item[1] == 3
    assert gdata.ArrayDataset(nd.array(x))[1].asnumpy().tolist() == [3, 4, 5]
    with pytest.raises(AssertionError, match="argument 1 has 3 examples"):
        gdata.ArrayDataset(x, y[:3])
    with pytest.raises(IndexError):
        dataset[4]


def test_transforms_of_datasets():
    dataset = gdata.SimpleDataset([(i, -i) for i in range(5)])
    assert list(dataset.transform(lambda a, b: a - b)) == [0, 2, 4, 6, 8]
    assert dataset.transform_first(lambda a: a * 10)[3] == (30, -3)
    assert dataset.transform_first(lambda a: a * 10, lazy=False)[3] == (30, -3)
    calls = []
    lazy = dataset.transform_first(lambda a: calls.append(a) or a)
    assert calls == []
    assert lazy[2] == (2, -2) and calls == [2]
    assert gdata.SimpleDataset([[1, 2]]).transform(lambda item: item)[0] == [1, 2]


def test_parts_of_datasets():
    dataset = gdata.SimpleDataset(list(range(10)))
    assert [list(dataset.shard(3, i)) for i in range(3)] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert list(dataset.take(3)) == [0, 1, 2] and len(dataset.take(None)) == 10 and len(dataset.take(99)) == 10
    assert list(dataset.filter(lambda i: i % 3 == 0)) == [0, 3, 6, 9]
    assert list(dataset.sample(gdata.SequentialSampler(2, start=5))) == [5, 6]
    with pytest.raises(TypeError):
        dataset.sample([1, 2])
    with pytest.raises(AssertionError):
        dataset.shard(2, 2)


# ---- samplers ------------------------------------------------------------------------------------------------------

def test_samplers():
    assert list(gdata.SequentialSampler(3)) == [0, 1, 2] and list(gdata.SequentialSampler(2, 4)) == [4, 5]
    shuffled = list(gdata.RandomSampler(50))
    assert sorted(shuffled) == list(range(50)) and shuffled != list(range(50))
    assert list(gdata.IntervalSampler(7, 3)) == [0, 3, 6, 1, 4, 2, 5]
    assert list(gdata.IntervalSampler(7, 3, rollover=False)) == [0, 3, 6]
    assert len(gdata.IntervalSampler(7, 3, rollover=False)) == 3
    sampler = gdata.SequentialSampler(7)
    assert list(gdata.BatchSampler(sampler, 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(gdata.BatchSampler(sampler, 3, "discard")) == [[0, 1, 2], [3, 4, 5]]
    rolling = gdata.BatchSampler(sampler, 3, "rollover")
    assert len(rolling) == 2 and list(rolling) == [[0, 1, 2], [3, 4, 5]]
    assert len(rolling) == 2 and list(rolling) == [[6, 0, 1], [2, 3, 4]]
    assert len(rolling) == 3
    with pytest.raises(ValueError):
        list(gdata.BatchSampler(sampler, 3, "drop"))


def test_shuffling_follows_the_seed():
    def order(seed):
        mx.random.seed(seed)
        loader = DataLoader(gdata.SimpleDataset(np.arange(40)), 40, shuffle=True)
        return [next(iter(loader)).asnumpy().tolist() for _ in range(2)]

    first = order(3)
    assert first == order(3) and first != order(4)
    assert first[0] != first[1], "every epoch has its own order"


# ---- batches -------------------------------------------------------------------------------------------------------

X, Y = np.arange(30.0).reshape(10, 3), np.arange(10)


@pytest.mark.parametrize("dataset,kinds", [
    (gdata.ArrayDataset(X, Y), ["float64", "int64"]),
    (gdata.ArrayDataset(X.astype("float32"), Y.astype("int32")), ["float32", "int32"]),
    (gdata.ArrayDataset(nd.array(X), nd.array(Y)), ["float32", "float32"]),
    (gdata.ArrayDataset(X.tolist(), Y.tolist()), ["float64", "int64"]),
    (gdata.ArrayDataset(nd.array(X).astype("uint8"), Y.astype("uint8")), ["uint8", "uint8"]),
    (gdata.ArrayDataset(X.astype("float16"), Y > 4), ["float16", "bool"]),
    (gdata.ArrayDataset(X, Y.astype("int16")), ["float64", "int32"]),
])
@pytest.mark.parametrize("options", [{}, {"num_workers": 1}, {"num_workers": 1, "thread_pool": True}])
def test_types_of_batches(dataset, kinds, options):
    batch = next(iter(DataLoader(dataset, 4, **options)))
    assert isinstance(batch, list)
    assert [np.dtype(x.dtype).name for x in batch] == kinds
    assert [x.shape for x in batch] == [(4, 3), (4,)]


@pytest.mark.parametrize("item,kind,shape", [(1, "int64", (2,)), (0.5, "float64", (2,)), (True, "bool", (2,)),
                                             (np.float32(2), "float32", (2,)), ([1, 2], "int64", (2, 2)),
                                             (nd.ones((2, 2)), "float32", (2, 2, 2))])
def test_single_values(item, kind, shape):
    batch = next(iter(DataLoader(gdata.SimpleDataset([item] * 4), 2)))
    assert np.dtype(batch.dtype).name == kind and batch.shape == shape


def test_nested_examples_and_dicts():
    nested = next(iter(DataLoader(gdata.SimpleDataset([(1, (2.0, np.zeros(2)))] * 4), 2)))
    assert nested[0].shape == (2,) and nested[1][0].shape == (2,) and nested[1][1].shape == (2, 2)
    for workers in (0, 1):
        batch = next(iter(DataLoader(gdata.SimpleDataset([{"x": nd.ones(3, ctx=mx.cpu()), "y": i} for i in range(4)]), 2,
                                     num_workers=workers)))
        assert batch["x"].shape == (2, 3) and batch["y"].asnumpy().tolist() == [0, 1]
    with pytest.raises(TypeError, match="batchify_fn"):
        next(iter(DataLoader(gdata.SimpleDataset(["text"] * 4), 2)))


def test_last_batch():
    dataset = gdata.SimpleDataset(np.arange(7))
    for last, sizes in (("keep", [3, 3, 1]), ("discard", [3, 3]), (None, [3, 3, 1])):
        loader = DataLoader(dataset, 3, last_batch=last)
        assert [len(x) for x in loader] == sizes and len(loader) == len(sizes)
    rolling = DataLoader(dataset, 3, last_batch="rollover")
    assert [x.asnumpy().tolist() for x in rolling] == [[0, 1, 2], [3, 4, 5]]
    assert [x.asnumpy().tolist() for x in rolling] == [[6, 0, 1], [2, 3, 4]]


def test_arguments():
    dataset = gdata.SimpleDataset([1, 2])
    for options in ({}, {"batch_size": 2, "shuffle": True, "sampler": gdata.SequentialSampler(2)}, {"batch_size": 0},
                    {"batch_size": 2, "batch_sampler": gdata.BatchSampler(gdata.SequentialSampler(2), 2)}):
        with pytest.raises(ValueError, match="DataLoader"):
            DataLoader(dataset, **options)
    with pytest.raises(AssertionError):
        DataLoader(dataset, 2, timeout=0)
    loader = DataLoader(dataset, batch_sampler=[[1], [0, 1]], pin_memory=True, pin_device_id=0, prefetch=3,
                        auto_reload=True)
    assert [x.asnumpy().tolist() for x in loader] == [[2], [1, 2]]


def test_sampler_of_ones_own():
    class Odd(gdata.Sampler):
        def __iter__(self):
            return iter([1, 3, -1])

        def __len__(self):
            return 3

    for dataset in (gdata.SimpleDataset(nd.arange(6)), gdata.SimpleDataset(list(range(6)))):
        assert next(iter(DataLoader(dataset, 3, sampler=Odd()))).asnumpy().tolist() == [1, 3, 5]
    for data in (nd.arange(3), np.arange(3), [1, 2, 3]):
        dataset = gdata.SimpleDataset(data)
        with pytest.raises(IndexError):
            list(DataLoader(dataset, 3, sampler=Odd()))


# ---- gathered batches equal single examples ------------------------------------------------------------------------

def chains():
    images = nd.array(np.random.RandomState(0).randint(0, 255, (20, 6, 5, 3)), dtype="uint8")
    base = gdata.ArrayDataset(images, np.arange(20).astype("int32"))
    compose = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1, 0.2, 0.3), 0.5)])
    return [base, base.transform_first(transforms.ToTensor()), base.transform_first(compose), base.take(7),
            base.transform_first(compose).shard(3, 1),
            base.filter(lambda item: item[1] % 2 == 0).transform_first(compose),
            gdata.SimpleDataset(images).transform(transforms.ToTensor()),
            base.transform_first(transforms.Resize((4, 3))).transform_first(transforms.ToTensor()),
            base.transform_first(transforms.CenterCrop(4)), base.transform_first(transforms.Cast("float16"))]


@pytest.mark.parametrize("dataset", chains())
def test_whole_batches_equal_single_examples(dataset):
    from mxnet.gluon.data._whole import whole_batches
    assert whole_batches(dataset) is not None
    one_by_one = gdata.dataloader.default_batchify_fn
    fast = list(DataLoader(dataset, 3))
    slow = list(DataLoader(dataset, 3, batchify_fn=lambda items: one_by_one(items)))
    assert len(fast) == len(slow)
    for a, b in zip(fast, slow):
        for x, y in zip(a if isinstance(a, list) else [a], b if isinstance(b, list) else [b]):
            assert x.dtype == y.dtype and np.array_equal(x.asnumpy(), y.asnumpy())


def test_what_must_not_be_made_as_a_whole():
    from mxnet.gluon.data._whole import whole_batches

    class Changed(transforms.ToTensor):
        def forward(self, x):
            return super().forward(x) + 1

    class Special(gdata.ArrayDataset):
        def __getitem__(self, i):
            return super().__getitem__(i)

    images = nd.ones((4, 2, 2, 3)).astype("uint8")
    base = gdata.ArrayDataset(images, np.arange(4))
    hooked = transforms.ToTensor()
    hooked.register_forward_hook(lambda *args: None)
    for dataset in (base.transform_first(Changed()), base.transform_first(hooked), Special(images),
                    base.transform_first(lambda x: x), base.transform(lambda x, y: (x, y)),
                    base.transform_first(transforms.RandomCrop(2))):
        assert whole_batches(dataset) is None
    assert next(iter(DataLoader(base.transform_first(Changed()), 2)))[0].asnumpy().min() > 1


def test_numpy_data_is_not_frozen():
    x = np.zeros((4, 2), dtype="float32")
    loader = DataLoader(gdata.ArrayDataset(x), 4)
    assert next(iter(loader)).asnumpy().sum() == 0
    x[:] = 1
    assert next(iter(loader)).asnumpy().sum() == 8


# ---- workers -------------------------------------------------------------------------------------------------------

WORKERS = [{"num_workers": 2}, {"num_workers": 2, "thread_pool": True}]


@pytest.mark.parametrize("options", WORKERS)
def test_workers_give_the_same_batches_in_order(options):
    expected = values(DataLoader(Plain(23), 4))
    loader = DataLoader(Plain(23), 4, **options)
    for _ in range(2):
        assert values(loader) == expected


def test_batches_of_processes_are_ordinary_arrays():
    kept = [batch for batch in DataLoader(Plain(40), 4, num_workers=2)]
    x = kept[3][0]
    x += 1
    assert x.asnumpy()[0, 0, 0] == 13 and (x * 2).asnumpy()[0, 0, 0] == 26
    assert [b[1].asnumpy().tolist() for b in kept[:2]] == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("options", WORKERS)
def test_batchify_of_ones_own(options):
    def together(items):
        return {"sum": sum(i for _, i in items), "first": items[0][0], "empty": nd.zeros((0, 2)), "text": "ok"}

    batches = list(DataLoader(Plain(6), 3, batchify_fn=together, **options))
    assert [b["sum"] for b in batches] == [3, 12]
    assert batches[1]["first"].asnumpy().tolist() == [[3.0] * 3] * 2
    assert batches[0]["empty"].shape == (0, 2) and batches[0]["text"] == "ok"


class Broken(Plain):
    def __getitem__(self, i):
        if i == 5:
            raise self.error()
        return super().__getitem__(i)

    def error(self):
        return ValueError("example 5 is bad")


class Odd(Exception):
    """An exception that cannot be unpickled."""

    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")


class OddBroken(Broken):
    def error(self):
        return Odd(1, 2)


@pytest.mark.parametrize("options", WORKERS)
def test_errors_of_workers(options):
    loader = DataLoader(Broken(12), 2, **options)
    batches = iter(loader)
    assert [next(batches)[1].asnumpy().tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="example 5 is bad") as caught:
        next(batches)
    if not options.get("thread_pool"):
        assert "__getitem__" in str(caught.value.__cause__) and "worker process" in str(caught.value.__cause__)
    with pytest.raises(ValueError):
        list(loader)  # the workers are still there
    with pytest.raises(Exception, match="1 and 2"):
        list(DataLoader(OddBroken(12), 2, **options))


class Deadly(Plain):
    def __getitem__(self, i):
        if i == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(i)


def test_death_of_a_worker():
    with pytest.raises(RuntimeError, match="died.*-9"):
        list(DataLoader(Deadly(8), 2, num_workers=2))


class Slow(Plain):
    def __getitem__(self, i):
        if i >= 2:
            time.sleep(30)
        return super().__getitem__(i)


def test_timeout_and_prompt_end():
    begin = time.monotonic()
    loader = DataLoader(Slow(8), 2, num_workers=2, timeout=0.3)
    with pytest.raises(RuntimeError, match="longer than 0.3 s"):
        list(loader)
    del loader
    assert time.monotonic() - begin < 10


def test_several_loaders_and_nested_loops():
    a, b = DataLoader(Plain(6), 2, num_workers=1), DataLoader(Plain(4), 2, num_workers=2)
    pairs = [(x[1].asnumpy()[0], y[1].asnumpy()[0]) for x in a for y in b]
    assert pairs == [(i, j) for i in (0, 2, 4) for j in (0, 2)]
    same = DataLoader(Plain(6), 2, num_workers=2)
    pairs = [(x[1].asnumpy()[0], y[1].asnumpy()[0]) for x in same for y in same]
    assert pairs == [(i, j) for i in (0, 2, 4) for j in (0, 2, 4)]


def test_leaving_a_loop_early():
    loader = DataLoader(Plain(40), 2, num_workers=2)
    for _ in range(3):
        for x, y in loader:
            assert y.asnumpy().tolist() == [0, 1]
            break
    assert len(list(loader)) == 20


def processes(field, value):
    """Numbers of the running processes with this parent (field 1) or group (field 2)."""
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[field]) == value and fields[0] != "Z":
                found.add(int(name))
    return found


def children():
    return processes(1, os.getpid())


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_nothing_is_left_behind():
    before, files, descriptors = children(), set(os.listdir("/dev/shm")), len(os.listdir("/proc/self/fd"))
    loader = DataLoader(Plain(40), 2, num_workers=2)
    kept = list(loader)
    assert len(children() - before) == 2
    assert {name for name in set(os.listdir("/dev/shm")) - files if "mxnet" in name} == set()
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 8, "batches that are kept hold no descriptors"
    del loader
    assert children() - before == set() and len(os.listdir("/proc/self/fd")) == descriptors
    assert kept[19][1].asnumpy().tolist() == [38, 39], "batches outlive the loader"
    other = DataLoader(Plain(8), 2, num_workers=1)
    list(other)
    other.clean()
    assert children() - before == set()
    assert len(list(other)) == 4, "after clean() the next epoch starts new workers"


SCRIPT = """
import os, sys, time
import mxnet as mx
from mxnet.gluon.data import DataLoader, Dataset
class D(Dataset):
    def __len__(self): return 1000
    def __getitem__(self, i):
        time.sleep(0.05)
        return i
loader = DataLoader(D(), 4, num_workers=2)
for n, batch in enumerate(loader):
    print(os.getpid(), flush=True)
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_end_of_the_loaders_process(number):
    program = subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True)
    program.stdout.readline()
    if number == signal.SIGINT:
        os.killpg(program.pid, number)  # what Ctrl-C does: workers get it, too
    else:
        os.kill(program.pid, number)
    _, text = program.communicate(timeout=20)
    if number == signal.SIGINT:
        assert text.count("Traceback") == 1 and "KeyboardInterrupt" in text
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and processes(2, program.pid):
        time.sleep(0.02)
    assert not processes(2, program.pid), "workers end with the loader's process"


class Drawn(gdata.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return nd.random.uniform(shape=(1,)), random.random(), np.random.rand()


def test_random_numbers_of_workers():
    def draw(seed):
        mx.random.seed(seed)
        return [np.concatenate([b[0].asnumpy()[:, 0], b[1].asnumpy(), b[2].asnumpy()])
                for b in DataLoader(Drawn(), 4, num_workers=2)]

    first = draw(1)
    assert not np.allclose(first[0], first[1]), "every worker draws its own"
    assert np.array_equal(first, draw(1)) and not np.array_equal(first, draw(2))


def test_workers_do_not_disturb_a_forked_process():
    loader = DataLoader(Plain(8), 2, num_workers=1)
    batches = iter(loader)
    next(batches)
    pid = os.fork()
    if pid == 0:
        try:
            loader._finalizer()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert len(list(batches)) == 3


# ---- batchify ------------------------------------------------------------------------------------------------------

def test_batchify():
    from mxnet.gluon.data import batchify
    assert batchify.Stack()([np.zeros(2), np.ones(2)]).shape == (2, 2)
    padded = batchify.Pad(val=-1)([[1, 2, 3], [4]])
    assert padded.asnumpy().tolist() == [[1, 2, 3], [4, -1, -1]]
    padded, lengths = batchify.Pad(axis=0, val=0, ret_length=True)([np.ones((2, 2)), np.ones((3, 2))])
    assert padded.shape == (2, 3, 2) and lengths.asnumpy().tolist() == [2, 3] and padded.asnumpy().sum() == 10
    assert batchify.Pad(axis=0, round_to=4)([np.ones(3), np.ones(5)]).shape == (2, 8)
    parts = batchify.Group(batchify.Stack(), batchify.Pad())([(1, [1, 2]), (2, [3])])
    assert parts[0].asnumpy().tolist() == [1, 2] and parts[1].shape == (2, 2)
    assert [x.shape for x in batchify.Append()([np.zeros(2), np.zeros(3)])] == [(1, 2), (1, 3)]
    assert batchify.AsList()([1, "a"]) == [1, "a"]
    with pytest.raises(AssertionError):
        batchify.Group(batchify.Stack())([(1, 2)])


def test_training_with_workers(ctx):
    """A short run through everything: the loss goes down."""
    x = np.random.randn(256, 4).astype("float32")
    y = x @ np.array([1, -2, 3, 0.5], dtype="float32")
    net = gluon.nn.Dense(1)
    net.initialize(ctx=ctx)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    loss = gluon.loss.L2Loss()
    totals = []
    for _ in range(4):
        total = 0
        for data, label in DataLoader(gdata.ArrayDataset(x, y), 32, shuffle=True, num_workers=1):
            data, label = data.as_in_context(ctx), label.as_in_context(ctx)
            with mx.autograd.record():
                value = loss(net(data), label)
            value.backward()
            trainer.step(data.shape[0])
            total += value.sum().asscalar()
        totals.append(total)
    assert totals[-1] < totals[0] / 50


# ---- the loader's parts, as libraries use them ---------------------------------------------------------------------

def test_attributes_of_a_loader():
    dataset = gluon.data.ArrayDataset(np.arange(10, dtype="float32"))
    loader = DataLoader(dataset, 3, num_workers=2, pin_memory=True, pin_device_id=1, timeout=9)
    assert loader._dataset is dataset and loader._num_workers == 2 and loader._prefetch == 4 and loader._timeout == 9
    assert loader._pin_memory is True and loader._pin_device_id == 1 and loader._thread_pool is False
    assert len(loader._batch_sampler) == 4 and loader._batchify_fn([1, 2]).shape == (2,) and loader._iter is None
    assert DataLoader(dataset, 3)._worker_pool is None
    loader._batchify_fn = lambda samples: len(samples)  # what is assigned counts
    assert list(loader) == [3, 3, 3, 1]


@pytest.mark.parametrize("options", [{}, {"num_workers": 1}, {"num_workers": 1, "thread_pool": True}])
def test_pinned_batches(options):
    dataset = gluon.data.ArrayDataset(np.ones((4, 2), "float32"), np.arange(4, dtype="float32"))
    data, label = next(iter(DataLoader(dataset, 2, pin_memory=True, pin_device_id=1, **options)))
    assert data.context == label.context == mx.cpu_pinned(1) and label.asnumpy().tolist() == [0, 1]
    assert next(iter(DataLoader(dataset, 2, **options)))[0].context.device_type != "cpu_pinned"


def _scaled(samples, batchify_fn, dataset=None):
    from mxnet.gluon.data import _pool_workers, dataloader
    import pickle
    dataset = dataset or _pool_workers._worker_dataset
    return pickle.dumps(dataloader.default_batchify_fn([dataset[i] * 10 for i in samples]))


@pytest.mark.parametrize("threads", [False, True])
def test_an_iterator_of_a_library(threads):
    from mxnet.gluon.data.dataloader import (_MultiWorkerIter, _as_in_context, _thread_worker_fn, _worker_fn,
                                             default_mp_batchify_fn)
    dataset = gluon.data.SimpleDataset(list(range(10)))
    loader = DataLoader(dataset, 4, num_workers=2, thread_pool=threads)
    pushed = []

    class Iterator(_MultiWorkerIter):
        def _push_next(self):
            pushed.append(1)
            super()._push_next()

    made = Iterator(loader._worker_pool, default_mp_batchify_fn, loader._batch_sampler, pin_memory=True, pin_device_id=0,
                    worker_fn=_thread_worker_fn if threads else _worker_fn, prefetch=2,
                    dataset=dataset if threads else None, data_loader=loader, timeout=60)
    assert len(pushed) == 2 and len(made) == 3
    batches = list(made)
    assert [b.asnumpy().tolist() for b in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches[0].context == mx.cpu_pinned(0)
    if not threads:
        own = _MultiWorkerIter(loader._worker_pool, default_mp_batchify_fn, loader._batch_sampler, worker_fn=_scaled)
        assert [b.asnumpy().tolist() for b in own][2] == [80, 90]
    moved = _as_in_context((nd.ones(1), [nd.ones(2), 3]), mx.cpu(1))
    assert type(moved) is list and moved[1][0].context == mx.cpu(1) and moved[1][1] == 3


def test_a_loader_that_is_never_used_may_be_wrong():
    loader = DataLoader(gluon.data.SimpleDataset([1, 2, 3]), 2, last_batch="bad")
    for use in (len, lambda x: next(iter(x))):
        with pytest.raises(ValueError, match="'keep', 'discard' or 'rollover', got 'bad'"):
            use(loader)


@pytest.mark.parametrize("options", [{}, {"num_workers": 2}])
def test_loaders_are_pickled_without_their_workers(options):
    import copy
    import pickle
    loader = DataLoader(gluon.data.SimpleDataset([1.0, 2.0, 3.0]), 2, **options)
    wanted = [b.asnumpy().tolist() for b in loader]
    for other in (pickle.loads(pickle.dumps(loader)), copy.deepcopy(loader), copy.copy(loader)):
        assert [b.asnumpy().tolist() for b in other] == wanted
    assert [b.asnumpy().tolist() for b in loader] == wanted
