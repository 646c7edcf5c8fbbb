"""Asynchronous behaviour of a GPU: copies during queued kernels, pinned memory, loaders, threads; errors in between."""
import threading
import time

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

pytestmark = pytest.mark.skipif("mx.num_gpus() == 0", reason="there is no GPU")


def busy(rounds=40, size=4096):
    """Queues work that takes the GPU a while; the result, a value of 0."""
    x = nd.ones((size, size), ctx=mx.gpu(0)) * (1 / size)
    y = x
    for _ in range(rounds):
        y = nd.dot(y, x)
    return (y - y).sum()


def measured(call):
    nd.waitall()
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


# ---- copies ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("size", [1, 1000, 70000, 2_000_000, 9_000_001])
def test_host_memory_may_change_after_the_call(size):
    source = np.zeros(size, "float32")
    arrays = []
    for i in range(12):
        if i % 4 == 0:
            busy(4, 2048)
        source[:] = i
        arrays.append(nd.array(source, ctx=mx.gpu(0)))
    source[:] = -1
    for i, x in enumerate(arrays):
        values = x.asnumpy()
        assert values.min() == values.max() == i


@pytest.mark.parametrize("size", [1000, 2_000_000])
def test_memory_is_not_overwritten_while_kernels_read_it(size):
    """Memory blocks are reused between batches: an upload must wait for the kernels that still read the block."""
    sums = []
    for i in range(30):
        x = nd.array(np.full(size, i % 7, "float32"), ctx=mx.gpu(0))
        y = busy(2, 2048)
        sums.append((i % 7, (x + y).mean(), x.max()))
    for wanted, mean, most in sums:
        assert abs(mean.asscalar() - wanted) < 1e-4 and most.asscalar() == wanted


def test_writing_in_place_waits_for_readers():
    x = nd.zeros((1_000_000,), ctx=mx.gpu(0))
    results = []
    for i in range(10):
        x[:] = np.full(1_000_000, i, "float32")
        busy(2, 2048)
        results.append(x * 1)
    for i, result in enumerate(results):
        assert result.asnumpy().min() == result.asnumpy().max() == i


def test_calls_do_not_wait():
    """Uploads, fills and operators return while the GPU still computes."""
    data = np.ones((1024, 1024), "float32")

    def queue():
        zero = busy()
        x = nd.array(data, ctx=mx.gpu(0))
        x[:] = 3
        nd.zeros((5,), ctx=mx.gpu(0))
        return zero, x

    for _ in range(3):  # loading a kernel, allocating and pinning memory wait
        queue()
    whole, _ = measured(lambda: busy().asscalar())
    queued, (zero, x) = measured(queue)
    assert x.asnumpy()[0, 0] == 3 and zero.asscalar() == 0
    assert queued < 0.5 * whole, f"queued in {queued * 1e3:.2f} ms, done after {whole * 1e3:.2f} ms"


def test_pinned_memory():
    source = nd.array(np.arange(3_000_000) % 1000, ctx=mx.cpu_pinned())
    assert source.context == mx.cpu_pinned()
    expected = np.arange(3_000_000) % 1000
    for keep_busy in (False, True):
        for _ in range(4):
            if keep_busy:
                busy(8, 2048)
            x = source.as_in_context(mx.gpu(0))
            source[:] = 0  # the copy does not change
            np.testing.assert_array_equal(x.asnumpy(), expected)
            back = x.as_in_context(mx.cpu_pinned())
            np.testing.assert_array_equal(back.asnumpy(), expected)
            source = back
    small = nd.array([1.0, 2.0], ctx=mx.cpu_pinned())
    there = small.as_in_context(mx.gpu(0))
    small[:] = 0
    assert there.asnumpy().tolist() == [1, 2]
    np.testing.assert_array_equal((source + source).asnumpy(), 2 * expected)  # computes like other host memory


def test_filling():
    for dtype in ("float32", "float64", "float16", "int8", "uint8", "int32", "int64"):
        x = nd.zeros((3, 1001), ctx=mx.gpu(0), dtype=dtype)
        for value in (7, 0, 1):
            x[:] = value
            assert (x.asnumpy() == value).all()
        x[1] = 5
        assert (x.asnumpy()[1] == 5).all() and (x.asnumpy()[0] == 1).all()
    x = nd.zeros((2, 3), ctx=mx.gpu(0))
    x[:] = nd.array([1, 2, 3], ctx=mx.gpu(0), dtype="int32")  # broadcast, of another type
    assert x.asnumpy().tolist() == [[1, 2, 3]] * 2
    x[:] = nd.array([[4, 5, 6]], ctx=mx.cpu())
    assert x.asnumpy().tolist() == [[4, 5, 6]] * 2


# ---- loaders ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("workers, threads", [(0, False), (2, False), (2, True)])
@pytest.mark.parametrize("pinned", [False, True])
def test_loaders(workers, threads, pinned):
    with mx.cpu():  # data sets live on the host
        images = np.arange(64 * 3 * 40 * 40, dtype="float32").reshape(64, 3, 40, 40)
        dataset = gluon.data.SimpleDataset([(images[i], i) for i in range(64)])
        loader = gluon.data.DataLoader(dataset, 16, num_workers=workers, thread_pool=threads, pin_memory=pinned)
        busy(4, 2048)
        for epoch in range(2):
            total = []
            for data, label in loader:
                assert data.context == (mx.cpu_pinned() if pinned else mx.cpu())
                x, y = data.as_in_context(mx.gpu(0)), label.as_in_context(mx.gpu(0))
                total.append(((x * 1).max(axis=(1, 2, 3)), y.astype("float32")))
            assert len(total) == 4
            for i, (most, label) in enumerate(total):
                np.testing.assert_array_equal(most.asnumpy(), images[16 * i:16 * i + 16].max(axis=(1, 2, 3)))
                np.testing.assert_array_equal(label.asnumpy(), np.arange(16 * i, 16 * i + 16))


# ---- threads and failures --------------------------------------------------------------------------------------------

def test_threads_share_a_gpu():
    wrong = []

    def work(number):
        try:
            for i in range(20):
                value = number * 100 + i
                x = nd.array(np.full(300_000, value, "float32"), ctx=mx.gpu(0))
                x.attach_grad()
                with autograd.record():
                    y = (x * x).mean()
                y.backward()
                if abs(y.asscalar() - value * value) > 1e-3 * value * value + 1e-3 or x[5].asscalar() != value:
                    wrong.append((number, i, y.asscalar()))
        except Exception as error:  # noqa: B902 - reported by the test
            wrong.append((number, repr(error)))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("hybrid", [False, True])
def test_threads_run_networks(hybrid):
    net = nn.HybridSequential()
    net.add(nn.Dense(64, activation="relu", in_units=32), nn.Dense(8, in_units=64))
    net.initialize(mx.init.Xavier(), ctx=mx.gpu(0))
    if hybrid:
        net.hybridize()
    inputs = [np.random.RandomState(n).normal(size=(16, 32)).astype("float32") for n in range(4)]
    expected = [net(nd.array(x, ctx=mx.gpu(0))).asnumpy() for x in inputs]
    wrong = []

    def work(number):
        try:
            for _ in range(25):
                got = net(nd.array(inputs[number], ctx=mx.gpu(0))).asnumpy()
                if not np.allclose(got, expected[number], rtol=1e-5, atol=1e-5):
                    wrong.append(number)
        except Exception as error:  # noqa: B902 - reported by the test
            wrong.append((number, repr(error)))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_shortage_of_memory_leaves_others_intact():
    keep = [nd.array(np.full(500_000, i, "float32"), ctx=mx.gpu(0)) for i in range(8)]
    free, total = mx.context.gpu_memory_info(0)
    for _ in range(3):
        with pytest.raises(mx.MXNetError, match=r"gpu\(0\)"):
            nd.zeros((total // 4, 2), ctx=mx.gpu(0))
        with pytest.raises(mx.MXNetError, match=r"gpu\(0\)"):
            nd.dot(nd.ones((400_000, 1), ctx=mx.gpu(0)), nd.ones((1, 400_000), ctx=mx.gpu(0)))
        for i, x in enumerate(keep):
            assert (x + 0).asnumpy().min() == x.asnumpy().max() == i
        y = nd.array(np.full(500_000, 9, "float32"), ctx=mx.gpu(0))
        assert y.mean().asscalar() == 9
    net = nn.Dense(4, in_units=3)
    net.initialize(ctx=mx.gpu(0))
    assert np.isfinite(net(nd.ones((2, 3), ctx=mx.gpu(0))).asnumpy()).all()


def test_memory_goes_back():
    mx.gpu(0).empty_cache()
    before, _ = mx.context.gpu_memory_info(0)
    x = nd.zeros((256, 1024, 1024), ctx=mx.gpu(0))
    nd.waitall()
    during, _ = mx.context.gpu_memory_info(0)
    assert before - during >= 2**30
    del x
    mx.gpu(0).empty_cache()
    after, _ = mx.context.gpu_memory_info(0)
    assert before - after < 2**28


def test_mixed_devices_name_both():
    here, there = nd.ones((2, 2), ctx=mx.cpu()), nd.ones((2, 2), ctx=mx.gpu(0))
    net = nn.Dense(2, in_units=2)
    net.initialize(ctx=mx.gpu(0))
    for call in (lambda: here + there, lambda: nd.dot(there, here), lambda: nd.concat(here, there),
                 lambda: net(here), lambda: nd.FullyConnected(there, here, here.sum(axis=0), num_hidden=2)):
        with pytest.raises((mx.MXNetError, RuntimeError), match=r"cpu\(0\)"):
            call()
    assert (there + there).sum().asscalar() == 8 and net(there).shape == (2, 2)


def test_waiting_tells_what_kernels_found():
    """A matrix that cannot be factored is detected only when the kernel runs: the next wait raises the error, once."""
    x = nd.ones((2,), ctx=mx.gpu(0))
    wrong = nd.array([[-1.0]], ctx=mx.gpu(0))
    for wait in (x.wait_to_read, nd.waitall, x.asnumpy, lambda: x.sum().asscalar(), lambda: x.copyto(mx.cpu())):
        nd.waitall()
        nd.linalg.potrf(wrong)
        with pytest.raises(mx.MXNetError, match="linalg_potrf.*positive definite"):
            wait()
        wait()  # told once
    assert x.asnumpy().tolist() == [1, 1]
