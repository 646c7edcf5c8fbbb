"""Several Python threads at once, the GIL released around long kernels, fork, and other interpreters."""
import copy
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn


def run_together(*functions):
    """Runs each in a thread of its own; the first exception is raised here."""
    failures = []

    def guarded(function):
        try:
            with mx.current_context():
                function()
        except BaseException as error:
            failures.append(error)
    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if failures:
        raise failures[0]


def train(seed, steps=60, hybrid=False):
    """Losses of a small training that uses no shared randomness."""
    rng = np.random.RandomState(seed)
    data, target = nd.array(rng.rand(16, 5)), nd.array(rng.rand(16, 1))
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="tanh", in_units=5), nn.Dense(1, in_units=8))
    net.initialize()
    for parameter in net.collect_params().values():
        parameter.set_data(nd.array(rng.uniform(-0.3, 0.3, parameter.shape)))
    if hybrid:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    loss_of, losses = gluon.loss.L2Loss(), []
    for _ in range(steps):
        with autograd.record():
            loss = loss_of(net(data), target)
        loss.backward()
        trainer.step(16)
        losses.append(loss.mean().asscalar())
    return losses


@pytest.mark.parametrize("hybrid", [False, True])
def test_training_in_threads(hybrid):
    """Each thread gets the numbers that it gets alone."""
    alone = [train(seed, hybrid=hybrid) for seed in range(4)]
    together = [None] * 4

    def work(seed):
        together[seed] = train(seed, hybrid=hybrid)
    run_together(*[lambda seed=seed: work(seed) for seed in range(4)])
    for a, b in zip(alone, together):
        np.testing.assert_allclose(a, b, rtol=1e-5)
        assert b[-1] < b[0]


def small_network():
    net = nn.HybridSequential()
    net.add(nn.Dense(32, activation="relu", in_units=10), nn.BatchNorm(in_channels=32), nn.Dense(4, in_units=32))
    net.initialize()
    return net


@pytest.mark.parametrize("flags", [None, {}, {"static_alloc": True}, {"static_alloc": True, "static_shape": True}])
def test_one_network_in_sixteen_threads(flags):
    """Each with batches of its own size, so that plans are made while others run; every second thread records."""
    net = small_network()
    inputs = [nd.random.uniform(shape=(1 + i % 5, 10)) for i in range(16)]
    expected = [net(x).asnumpy() for x in inputs]
    if flags is not None:
        net.hybridize(**flags)

    def work(i):
        for _ in range(30):
            with autograd.record(train_mode=False) if i % 2 else autograd.pause():
                y = net(inputs[i])
            np.testing.assert_allclose(y.asnumpy(), expected[i], rtol=1e-5, atol=1e-6)
    run_together(*[lambda i=i: work(i) for i in range(16)])


@pytest.mark.parametrize("hybrid", [False, True])
def test_one_trains_while_others_predict_copies(hybrid):
    net, data = small_network(), nd.random.uniform(shape=(8, 10))
    copies = [copy.deepcopy(net) for _ in range(15)]
    expected = net(data).asnumpy()
    before = net[0].weight.data().asnumpy()
    if hybrid:
        for block in [net] + copies:
            block.hybridize(static_alloc=True)

    def learn():
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
        for _ in range(40):
            with autograd.record():
                loss = net(data).square().mean()
            loss.backward()
            trainer.step(1)

    def predict(block):
        for _ in range(40):
            np.testing.assert_allclose(block(data).asnumpy(), expected, rtol=1e-5, atol=1e-6)
    run_together(learn, *[lambda block=block: predict(block) for block in copies])
    assert np.abs(net[0].weight.data().asnumpy() - before).max() > 1e-3


def test_modes_belong_to_threads():
    inside, outside = threading.Event(), threading.Event()
    seen = []

    def recording():
        with autograd.record():
            inside.set()
            outside.wait(10)
            seen.append(autograd.is_recording())

    def plain():
        inside.wait(10)
        seen.append(autograd.is_recording())
        outside.set()
    run_together(recording, plain)
    assert sorted(seen) == [False, True]


def test_errors_belong_to_threads():
    def failing():
        for _ in range(300):
            with pytest.raises(mx.MXNetError, match="broadcast|shape|dimension"):
                nd.ones((2, 3)) + nd.ones((4, 5))

    def working():
        for _ in range(300):
            assert (nd.ones((2, 3)) + 1).sum().asscalar() == 12
    run_together(failing, working, failing, working)


def test_one_array_in_many_threads():
    x = nd.arange(1000)
    total = x.sum().asscalar()

    def work():
        for _ in range(300):
            assert x.reshape((10, 100)).sum().asscalar() == total
            x[5:8].asnumpy()
    run_together(*[work] * 4)


def longest_gap(work):
    """How long a thread that only counts had to wait at most while `work` ran, and how long that took."""
    done, gap = threading.Event(), [0.0]

    def watch():
        last = time.perf_counter()
        while not done.is_set():
            time.sleep(0.0005)
            now = time.perf_counter()
            gap[0], last = max(gap[0], now - last), now
    thread = threading.Thread(target=watch)
    thread.start()
    time.sleep(0.01)
    start = time.perf_counter()
    work()
    took = time.perf_counter() - start
    done.set()
    thread.join()
    return gap[0], took


def slow_product():
    """A product that takes about half a second on this machine."""
    size = 512
    while True:
        a = nd.random.uniform(shape=(size, size))
        start = time.perf_counter()
        nd.dot(a, a).wait_to_read()
        if time.perf_counter() - start > 0.3 or size > 8000:
            return lambda: nd.dot(a, a).wait_to_read()
        size = size * 3 // 2


def assert_goes_on(work):
    """The GIL is released: another thread runs meanwhile."""
    for _ in range(5):  # the machine itself may stop us once in a while
        gap, took = longest_gap(work)
        if gap < 0.5 * took:
            return
    raise AssertionError(f"another thread waited {gap:.3f} s of {took:.3f} s")


def test_others_run_during_long_kernels():
    assert_goes_on(slow_product())


def test_the_watch_itself():
    import ctypes
    held = ctypes.PyDLL(None)  # its functions hold the GIL
    with pytest.raises(AssertionError, match="waited"):
        assert_goes_on(lambda: held.usleep(50000))


def test_others_run_during_training(on_host):
    net = nn.HybridSequential()
    net.add(nn.Dense(1024, activation="relu"), nn.Dense(1024, activation="relu"), nn.Dense(10))
    net.initialize()
    data, label = nd.random.uniform(shape=(1024, 1024)), nd.zeros((1024,))
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})

    def forward():
        with autograd.record():
            return criterion(net(data), label)
    net(data)
    assert_goes_on(lambda: [net(data) for _ in range(3)])
    loss = forward()
    assert_goes_on(lambda: loss.backward(retain_graph=True))
    trainer.step(1024)
    net.hybridize()
    net(data)
    assert_goes_on(lambda: [net(data) for _ in range(3)])


# ---- processes ------------------------------------------------------------------------------------------------------

def run(program):
    """Runs a program in a fresh interpreter; it must end well within a minute."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
    assert done.returncode == 0, done.stderr
    return done.stdout


CHILD = """
    import os, sys
    import mxnet as mx
    from mxnet import nd, autograd
    %s
    def compute():
        x = nd.random.uniform(shape=(300, 300))     # large enough for the thread pool
        x.attach_grad()
        with autograd.record():
            y = nd.dot(x, x).sum()
        y.backward()
        return x.grad.shape == (300, 300)
    children = []
    for _ in range(3):
        child = os.fork()
        if not child:
            os._exit(0 if compute() else 1)
        children.append(child)
    assert compute()
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("before", ["", "a = nd.random.uniform(shape=(400, 400)); nd.dot(a, a).asnumpy()"],
                         ids=["after import", "after use"])
def test_fork(before):
    run(CHILD % before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_while_a_thread_works():
    run("""
        import os, threading
        import mxnet as mx
        from mxnet import nd
        stop = threading.Event()
        def busy():
            x = nd.ones((200, 200))
            while not stop.is_set():
                nd.dot(x, x).wait_to_read()
        thread = threading.Thread(target=busy)
        thread.start()
        for _ in range(10):
            child = os.fork()
            if not child:
                x = nd.ones((200, 200))
                os._exit(0 if nd.dot(x, x).asnumpy()[0, 0] == 200 else 1)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        thread.join()
    """)


def square(x):
    return (nd.array([x]) ** 2).asscalar()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_process_pool(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"there is no {method} here")
    run(f"""
        import multiprocessing, sys
        sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
        from test_threads import square
        if __name__ == "__main__":
            with multiprocessing.get_context({method!r}).Pool(2) as pool:
                assert pool.map(square, range(6)) == [0, 1, 4, 9, 16, 25]
    """)


def test_loader_processes():
    from mxnet.gluon.data import ArrayDataset, DataLoader
    numbers = np.arange(40, dtype="float32").reshape(20, 2)
    loader = DataLoader(ArrayDataset(numbers, np.arange(20)), batch_size=4, num_workers=2)
    batches = [(data.asnumpy(), label.asnumpy()) for data, label in loader]
    np.testing.assert_array_equal(np.concatenate([data for data, _ in batches]), numbers)
    np.testing.assert_array_equal(np.concatenate([label for _, label in batches]), np.arange(20))


def test_import_starts_no_thread():
    run("""
        import os, mxnet
        assert len(os.listdir("/proc/self/task")) == 1 if os.path.exists("/proc/self/task") else True
    """)


def test_exit_while_threads_work():
    """The interpreter ends without a crash although a daemon thread still computes."""
    run("""
        import threading
        from mxnet import nd
        def busy():
            x = nd.ones((300, 300))
            while True:
                nd.dot(x, x).wait_to_read()
        threading.Thread(target=busy, daemon=True).start()
        nd.dot(nd.ones((300, 300)), nd.ones((300, 300))).wait_to_read()
    """)


def test_other_interpreters():
    """Importing in a second interpreter of the process works or raises; nothing crashes, and ours goes on."""
    run("""
        try:
            import _interpreters as interpreters
        except ImportError:
            try:
                import _xxsubinterpreters as interpreters
            except ImportError:
                raise SystemExit(0)
        import mxnet
        from mxnet import nd
        x = nd.ones((2, 2))
        other = interpreters.create()
        program = "from mxnet import nd; assert (nd.ones((2,)) + 1).asnumpy()[0] == 2"
        run = getattr(interpreters, "run_string", None) or interpreters.exec
        try:
            run(other, program)
        except Exception as error:      # an exception there is fine; a signal is not
            print("the other interpreter:", error)
        interpreters.destroy(other)
        assert (x + x).sum().asscalar() == 8
        try:
            x + nd.ones((3,))
        except mxnet.MXNetError:        # ours is still the type that is raised here
            raise SystemExit(0)
        raise SystemExit("no error")
    """)
