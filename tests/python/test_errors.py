"""Bad input never ends the process; errors are exceptions; nothing leaks; threads and fork work."""
import gc
import json
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import mxnet as mx
from garbage import Garbage
from mxnet import _core, autograd, gluon, nd
from mxnet.gluon import nn


# ---- kinds of errors -----------------------------------------------------------------------------------------------

def test_kinds():
    """Each error is an MXNetError and what a Python programmer would catch."""
    for call, kind in ((lambda: nd.ones((2,)) + nd.ones((3,)), ValueError), (lambda: nd.ones((2,))[5], IndexError),
                       (lambda: nd.load("/no/such/file"), OSError), (lambda: nd.zeros((2**40, 16)), MemoryError),
                       (lambda: nd.zeros((2,), ctx=mx.gpu(50)), ValueError),
                       (lambda: nd.ones(1).backward(), RuntimeError),
                       (lambda: nd.ones((2, 2)).as_np_ndarray() + nd.ones((2, 2)), TypeError), (lambda: nd.relu(3), TypeError),
                       (lambda: nd.ones(1) + nd.ones(1, dtype="int32"), TypeError)):
        with pytest.raises(kind) as caught:
            call()
        assert isinstance(caught.value, mx.MXNetError) and isinstance(caught.value, mx.base.MXNetError)
        assert "mx_" not in str(caught.value)
    assert issubclass(mx.MXNetError, RuntimeError)


def test_after_an_error_all_is_well():
    for _ in range(10):
        with pytest.raises(mx.MXNetError):
            nd.dot(nd.ones((2, 3)), nd.ones((2, 3)))
        assert nd.dot(nd.ones((2, 3)), nd.ones((3, 2))).asnumpy().tolist() == [[3, 3], [3, 3]]


@pytest.fixture
def little_memory():
    """Legal but huge requests fail at once instead of filling the machine's memory."""
    _core.set_memory_limit(64 << 20)
    yield
    _core.set_memory_limit(0)


# ---- garbage -------------------------------------------------------------------------------------------------------

@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(3))
def test_every_operator_gets_garbage(seed, little_memory):
    garbage = Garbage(seed)
    operators = {}
    for op in _core.operators(True).values():  # hidden ones too: files may name them
        operators.setdefault(op.operator_name, op)
    refused = 0
    for name, op in sorted(operators.items()):
        described = json.loads(op.description)
        keywords = [i["name"] for i in described["inputs"]] + [a["name"] for a in described["attributes"]]
        for _ in range(12):
            args, named = garbage.arguments(len(described["inputs"]), keywords)
            try:
                op(*args, **named)
            except Exception as error:
                refused += 1
                assert not isinstance(error, SystemError), (name, error)
                assert "without saying why" not in str(error), name
    assert refused > len(operators) * 6


NOT_CALLED = {"waitall", "save", "imdecode"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(2))
def test_every_function_and_method_gets_garbage(seed, tmp_path, monkeypatch, little_memory):
    monkeypatch.chdir(tmp_path)
    garbage = Garbage(100 + seed)
    modules = [nd, nd.random, nd.contrib, nd.sparse, autograd, mx.random]
    functions = [getattr(m,
                         n) for m in modules for n in sorted(dir(m)) if not n.startswith("_") and n not in NOT_CALLED]
    functions = [f for f in functions if callable(f) and not isinstance(f, (type, _core.Op)) and f is not nd.ndarray]
    functions = [f for f in functions if f not in (autograd.set_recording, autograd.set_training)]
    for function in functions:
        for _ in range(10):
            args, named = garbage.arguments(2, ["shape", "dtype", "ctx", "out", "axis"])
            try:
                function(*args, **named)
            except Exception as error:
                assert not isinstance(error, SystemError), (function, error)
    methods = [n for n in sorted(dir(nd.NDArray)) if not n.startswith("__") or n in (
        "__getitem__", "__add__", "__rsub__", "__eq__", "__lt__", "__array__", "__dlpack__", "__iadd__", "__pow__",
        "__setstate__", "__matmul__", "__contains__")]
    for name in methods:
        for x in garbage.arrays:
            args, named = garbage.arguments(1, ["axis", "shape", "dtype"])
            try:
                method = getattr(x, name)
                if callable(method):
                    method(*args, **named)
            except Exception as error:
                assert not isinstance(error, SystemError), (name, error)
    for _ in range(500):
        x = nd.zeros((2, 3))
        for call in (lambda: x[garbage.one()], lambda: x.__setitem__(garbage.one(), garbage.one()),
                     lambda: x[garbage.one(), garbage.one()]):
            try:
                call()
            except Exception as error:
                assert not isinstance(error, SystemError)
    autograd.set_recording(False)
    autograd.set_training(False)
    assert nd.ones(2).sum().asscalar() == 2


def test_recursion_and_liars():
    class Circular(nd.NDArray):
        def __array__(self, *unused):
            return nd.array(self)

    for source in (Garbage(0).values):
        try:
            nd.array(source)
        except (TypeError, ValueError, RecursionError, MemoryError, OverflowError, RuntimeError):
            pass


# ---- memory --------------------------------------------------------------------------------------------------------

def steady(resident, step, iterations=10000, slack=1 << 20):
    """Runs step many times: memory does not grow after the first tenth."""
    for _ in range(iterations // 10):
        step()
    gc.collect()
    before = resident()
    for _ in range(iterations):
        step()
    gc.collect()
    assert resident() - before < slack


def small_operators():
    x = nd.ones((8, 8))
    y = nd.softmax(nd.dot(x, x) + 1, axis=1)[1:3].reshape((-1,))
    y[0] = 3
    return (y * 2).sum().asscalar(), y.asnumpy(), nd.concat(x, x, dim=1).shape


def exceptions():
    for call in (lambda: nd.dot(nd.ones((2, 3)), nd.ones((2, 3))), lambda: nd.relu("x"), lambda: nd.ones(2)[9],
                 lambda: nd.sum(nd.ones(2), axes=0), lambda: nd.zeros((2,), dtype="foo"), lambda: nd.array("x")):
        try:
            call()
        except Exception:
            pass


def recorded():
    x = nd.ones((4, 4))
    x.attach_grad()
    with autograd.record():
        y = (nd.tanh(x) * x).sum()
    y.backward()
    with autograd.record():
        nd.exp(x)  # never run backwards


class Double(autograd.Function):
    def forward(self, x):
        y = x * 2
        self.save_for_backward(x, y)
        return y

    def backward(self, dy):
        return dy * 2


def own_functions():
    x = nd.ones((2,))
    x.attach_grad()
    with autograd.record():
        y = Double()(x)
    y.backward()
    with autograd.record():
        Double()(x)


def exchange():
    a = np.ones((64,), "float32")
    x = nd.from_numpy(a)
    y = nd.from_dlpack(x)
    z = np.from_dlpack(y) if hasattr(np, "from_dlpack") else y.asnumpy()
    return memoryview(y)[0], np.asarray(x)[0], z[0], x.__array_interface__, x.__reduce__()


@pytest.mark.parametrize("step", [small_operators, exceptions, recorded, own_functions, exchange])
def test_no_leak(step, resident):
    if step is exchange and mx.current_context() != mx.cpu():
        pytest.skip("host memory")
    steady(resident, step, 2000 if step is exceptions else 10000)


def test_reference_counts():
    """Calls, right or wrong, leave the counts of their arguments as they were."""
    x, key, shape = nd.ones((2, 3)), (0, slice(None)), (3, 2)
    args = [x, key, shape, [x, x], {"a": 1}, "text", 12345.678]
    before = [sys.getrefcount(a) for a in args]
    for _ in range(100):
        x[key], x.reshape(shape), nd.concat(args[3]), nd.concat(data=args[3]), x + args[6], nd.zeros(shape)
        for wrong in (lambda: nd.relu(args[4]), lambda: x[args[5]], lambda: x + args[5],
                      lambda: nd.sum(x, axis=args[5]),
                      lambda: nd.concat(args[3], args[3]), lambda: nd.array(args[4])):
            with pytest.raises((TypeError, ValueError)):
                wrong()
    assert [sys.getrefcount(a) for a in args] == before


# ---- threads and processes -----------------------------------------------------------------------------------------

def test_threads():
    """Several threads compute, record and fail at the same time."""
    failures = []

    def work(seed):
        try:
            random = np.random.RandomState(seed)
            a = random.rand(40, 40).astype("float32")
            for i in range(60):
                x = nd.array(a)
                x.attach_grad()
                with autograd.record():
                    assert autograd.is_recording()
                    y = (nd.dot(x, x) * (seed + 1)).sum()
                y.backward()
                assert not autograd.is_recording()
                expected = (seed + 1) * (np.ones((40, 40)) @ a.T + a.T @ np.ones((40, 40)))
                assert np.allclose(x.grad.asnumpy(), expected, rtol=1e-3)
                with pytest.raises(mx.MXNetError):
                    nd.dot(x, nd.ones((3, 3)))
                with mx.Context("cpu", seed):
                    assert mx.current_context().device_id == seed
        except BaseException as error:  # seen by the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[0]


def test_threads_share_arrays():
    """Arrays may be dropped by one thread while another still uses what it got."""
    shared = [nd.ones((300, 300)) for _ in range(4)]
    stop = threading.Event()

    def change():
        while not stop.is_set():
            shared[:] = [nd.ones((300, 300)) for _ in range(4)]

    changer = threading.Thread(target=change)
    changer.start()
    try:
        for _ in range(30):
            assert nd.add_n(shared)[0, 0].asscalar() == 4
            assert nd.concat(shared, dim=0).shape == (1200, 300)
    finally:
        stop.set()
        changer.join()


def test_long_work_lets_other_threads_run():
    """The GIL is not held during a long product."""
    x = nd.ones((1500, 1500))
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(1)
            done.wait(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    for _ in range(5):
        nd.dot(x, x).wait_to_read()
    done.set()
    thread.join()
    assert len(ticks) > 3


def run_python(code):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("used_before", [False, True])
def test_fork(used_before):
    """A child computes after fork, whether the parent had started its threads or not."""
    result = run_python(f"""
        import os, sys
        import mxnet as mx
        from mxnet import nd
        if {used_before}:
            nd.dot(nd.ones((600, 600)), nd.ones((600, 600))).asnumpy()
        pids = []
        for _ in range(3):
            pid = os.fork()
            if pid == 0:
                x = nd.dot(nd.ones((600, 600)), nd.ones((600, 600)))
                os._exit(0 if x[0, 0].asscalar() == 600 else 3)
            pids.append(pid)
        assert all(os.waitpid(p, 0)[1] == 0 for p in pids)
        assert nd.dot(nd.ones((600, 600)), nd.ones((600, 600)))[5, 5].asscalar() == 600
        print("fine")
        """)
    assert result.stdout.strip() == "fine", result.stderr


def test_import_is_light():
    """Importing starts no thread, does not load NumPy and is quick."""
    result = run_python("""
        import sys, threading, time, os
        start = time.perf_counter()
        import mxnet
        took = time.perf_counter() - start
        assert "numpy" not in sys.modules, "NumPy was loaded"
        threads = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else threading.active_count()
        assert threads == 1, threads
        from mxnet import nd
        assert (nd.zeros((2, 2)) + nd.array([[1, 2], [3, 4]])).sum().item() == 10
        assert "numpy" not in sys.modules, "NumPy was needed for lists"
        print(took)
        """)
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) < 0.5  # 0.02 alone on the machine; it is shared here


def test_exit_with_living_arrays():
    """Arrays in globals, cycles and other threads do not disturb the end of the process."""
    result = run_python("""
        import mxnet as mx, numpy as np
        from mxnet import nd, autograd
        x = nd.from_numpy(np.ones(10, "float32"))
        view = np.asarray(nd.ones(3))
        capsule = nd.ones(3).to_dlpack_for_read()
        class Cycle: pass
        c = Cycle(); c.c = c; c.x = nd.ones(5); c.x.attach_grad()
        with autograd.record():
            y = c.x * 2
        class F(autograd.Function):
            def forward(self, a): return a
            def backward(self, d): return d
        with autograd.record():
            z = F()(c.x)
        print("fine")
        """)
    assert result.stdout.strip() == "fine" and result.returncode == 0, result.stderr


def nested(python):
    """A block whose child has children: with a forward in Python, or a hybrid one."""
    class Nested(nn.Block if python else nn.HybridBlock):
        def __init__(self):
            super().__init__(prefix="net_")
            with self.name_scope():
                self.body = nn.Sequential() if python else nn.HybridSequential()
                self.body.add(nn.Dense(4, in_units=3), nn.Dense(2, in_units=5, activation="relu"))
                self.norm = nn.BatchNorm(in_channels=2)

        def forward(self, x, *args):
            return self.norm(self.body(x)) if python else super().forward(x, *args)

        def hybrid_forward(self, F, x):
            return self.norm(self.body(x))
    return Nested()


@pytest.mark.parametrize("mode", ["python", "imperative", "hybridized"])
def test_path_of_the_block(mode):
    """The path of attribute names, the block's name, then what the data has and the parameter expects."""
    net = nested(mode == "python")
    net.initialize()
    if mode == "hybridized":
        net.hybridize()
    for _ in range(2):
        with pytest.raises(ValueError) as caught:
            net(nd.ones((1, 3)))
        assert str(caught.value) == "net.body.1 (net_dense1): data has 4 features, weight expects 5"
    outer = nn.Sequential(prefix="outer_")
    outer.add(nn.Flatten(), net)
    with pytest.raises(ValueError, match=r"^outer\.1\.body\.1 \(net_dense1\): data has 4 features"):
        outer(nd.ones((1, 3)))
    with pytest.raises(ValueError, match=r"^net\.body\.0 \(net_dense0\): data has 7 features, weight expects 3"):
        net(nd.ones((1, 7)))


@pytest.mark.parametrize("layer, shape, message", [
    (lambda: nn.Dense(2, in_units=3), (1, 5), "data has 5 features, weight expects 3"),
    (lambda: nn.Conv2D(4, 3, in_channels=2), (1, 3, 8, 8), "data has 3 channels, weight expects 2"),
    (lambda: nn.Conv2D(4, 3, in_channels=2, groups=2), (1, 4, 8, 8), "data has 4 channels, weight expects 2"),
    (lambda: nn.Conv2DTranspose(4, 3, in_channels=2), (1, 3, 8, 8), "data has 3 channels, weight expects 2"),
    (lambda: nn.BatchNorm(in_channels=3), (1, 4, 2, 2), "data has 4 channels, gamma expects 3"),
    (lambda: nn.LayerNorm(in_channels=3), (2, 4), "data has 4 features, gamma expects 3"),
    (lambda: nn.InstanceNorm(in_channels=3), (2, 4, 5), "data has 4 channels, gamma expects 3")])
def test_data_comes_first(layer, shape, message):
    block = layer()
    block.initialize()
    with pytest.raises(ValueError) as caught:
        block(nd.ones(shape))
    assert str(caught.value) == f"{block.name}: {message}"


def test_negative_sizes():
    for make in (nd.zeros, nd.ones, nd.empty, lambda shape: nd.full(shape, 1), lambda shape: nd.random.uniform(shape=shape)):
        with pytest.raises(ValueError, match="axis 0 of .* has the negative size -1"):
            make((-1, 3))


@pytest.mark.parametrize("make, word", [
    (lambda: mx.optimizer.create("sgd", lr=0.1), "learning_rate"), (lambda: mx.optimizer.Adam(epsilom=1), "epsilon"),
    (lambda: mx.optimizer.create("sdg"), "sgd"), (lambda: nn.Conv2D(3, 3, stride=2), "strides"),
    (lambda: gluon.model_zoo.vision.get_model("resnet18v1"), "resnet18_v1"), (lambda: mx.Context("gpuu"), "gpu"),
    (lambda: mx.kv.create("locl"), "local"), (lambda: mx.metric.create("acuracy"), "accuracy"),
    (lambda: mx.sym.FullyConnected(mx.sym.var("x"), num_hiden=3), "num_hidden"),
    (lambda: nd.Convolution(nd.ones((1, 1, 3, 3)), num_filters=2, kernel=(1, 1)), "num_filter")])
def test_suggestions(make, word):
    with pytest.raises((mx.MXNetError, ValueError, TypeError, KeyError, AssertionError), match=f"did you mean '{word}'"):
        make()


def test_remedies():
    """Errors say what to do, in the words of Python."""
    net = nn.Dense(2, in_units=3)
    net.initialize()
    with pytest.raises(TypeError, match="unknown keyword 'lr'; did you mean 'learning_rate'"):
        gluon.Trainer(net.collect_params(), "sgd", {"lr": 0.1})
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    with pytest.raises(UserWarning, match=r"ignore_stale_grad=True"):
        trainer.step(1)
    if mx.context.num_gpus():
        with pytest.raises(mx.MXNetError, match=r"use as_in_context\(\) first"):
            nd.ones((2,), ctx=mx.cpu(0)) + nd.ones((2,), ctx=mx.gpu(0))
    data = gluon.data.SimpleDataset([nd.ones((3,)), nd.ones((4,))])
    with pytest.raises(ValueError, match=r"example 0 has shape \(3,\), example 1 has \(4,\); batchify_fn=batchify.Pad"):
        next(iter(gluon.data.DataLoader(data, 2)))


def test_names_of_the_file(tmp_path):
    """A parameter that does not fit is named as in the file, too."""
    small, large = nn.Sequential(), nn.Sequential()
    small.add(nn.Dense(3, in_units=2))
    large.add(nn.Dense(4, in_units=2))
    small.initialize()
    small.save_parameters(str(tmp_path / "a.params"))
    with pytest.raises(AssertionError, match=r"'0.weight' in the file: parameter 'dense\d+_weight' has shape \(4, 2\)"):
        large.load_parameters(str(tmp_path / "a.params"))


@pytest.mark.parametrize("call, start", [
    (lambda: nd.zeros((2,), dtype="foo"), "zeros: dtype="), (lambda: nd.ones((2, -3)), "ones: axis 1"),
    (lambda: nd.random.uniform(0, 1, shape="a"), "random.uniform: "), (lambda: nd.arange(0, 5, 0), "arange: "),
    (lambda: nd.contrib.box_nms(nd.ones((2,))), "contrib.box_nms: "), (lambda: nd.split(nd.ones((3,)), 2), "split: "),
    (lambda: nd.linalg.gemm2(nd.ones((2, 3)), nd.ones((2, 3))), "linalg.gemm2: "),
    (lambda: nd.concat(nd.ones((2, 3)), nd.ones((3, 2)), dim=0), "concat: "),
    (lambda: nd.Concat(nd.ones((2, 3)), nd.ones((3, 2)), dim=0), "Concat: "),
    (lambda: nd.GroupNorm(nd.ones((2, 4, 4)), nd.ones((3,)), nd.ones((3,)), num_groups=2),
     r"GroupNorm: data has shape \(2, 4, 4\) and num_groups is 2, but gamma has shape \(3,\)")],
    ids=["zeros", "ones", "uniform", "arange", "box_nms", "split", "gemm2", "concat", "Concat", "GroupNorm"])
def test_messages_begin_with_the_name_that_was_called(call, start):
    with pytest.raises(mx.MXNetError, match="^" + start):
        call()


def test_path_of_a_block_at_an_old_address():
    """A block may be created where one that failed has been; its errors have paths of their own."""
    for which in range(12):
        nets = [nn.Dense(2, in_units=3, prefix=f"alone{i}_") for i in range(12)]
        nets[which].initialize()
        with pytest.raises(ValueError, match=r"^alone\d+: data has 7 features"):
            nets[which](nd.ones((1, 7)))
        while nets:
            nets.pop()
        net = nested(True)
        net.initialize()
        with pytest.raises(ValueError, match=r"^net\.body\.1 \(net_dense1\): data has 4 features"):
            net(nd.ones((1, 3)))
