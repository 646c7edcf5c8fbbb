"""DLPack between gpu(0) and other libraries: shared memory, streams that wait for each other, lifetimes, bad input."""
import gc
import threading

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, nd

pytestmark = pytest.mark.skipif("mx.num_gpus() == 0", reason="there is no GPU")

TYPES = ["float32", "float64", "float16", "uint8", "int8", "int32", "int64", "bool", "bfloat16"]


@pytest.fixture(autouse=True)
def on_the_gpu():
    with mx.gpu(0):
        yield


@pytest.fixture
def torch():
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("PyTorch has no GPU")
    return module


def wide(x):
    return (x.astype("float32") if mx._core.dtype_name(x.dtype) == "bfloat16" else x).asnumpy()


# ---- PyTorch -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", TYPES)
def test_to_torch(torch, dtype):
    x = nd.array([[1, 0, 3], [1, 5, 6]], dtype="float32").astype(dtype)
    assert x.__dlpack_device__() == (2, 0)
    t = torch.from_dlpack(x)
    assert t.is_cuda and t.shape == (2, 3) and str(t.dtype) == "torch." + dtype
    assert t.float().cpu().numpy().tolist() == wide(x).astype("float32").tolist()
    t[0, 1] = 1
    torch.cuda.synchronize()
    assert wide(x)[0, 1] == 1  # the same memory
    x[1, 2] = 0
    x.wait_to_read()
    assert t[1, 2].item() == 0
    part = torch.from_dlpack(x[1:])
    assert part.data_ptr() == t.data_ptr() + 3 * t.element_size()


@pytest.mark.parametrize("dtype", TYPES)
def test_from_torch(torch, dtype):
    t = torch.tensor([[1, 0, 3], [1, 5, 6]], device="cuda").to(getattr(torch, dtype))
    x = nd.from_dlpack(t)
    assert x.context == mx.gpu(0) and x.shape == (2, 3) and mx._core.dtype_name(x.dtype) == dtype
    assert wide(x).astype("float32").tolist() == t.float().cpu().numpy().tolist()
    x[0, 1] = 1
    nd.waitall()
    assert t[0, 1].item() == 1
    for capsule in (torch.utils.dlpack.to_dlpack(t), t.__dlpack__()):
        y = nd.from_dlpack(capsule)
        assert wide(y).astype("float32").tolist() == t.float().cpu().numpy().tolist()
        with pytest.raises(TypeError):
            nd.from_dlpack(capsule)  # it was used


def test_bare_capsules(torch):
    x = nd.arange(6).reshape((2, 3))
    for make in (nd.to_dlpack_for_read, nd.to_dlpack_for_write):
        t = torch.utils.dlpack.from_dlpack(make(x * 2))
        assert t.cpu().tolist() == [[0, 2, 4], [6, 8, 10]]
    x.to_dlpack_for_read()  # dropped unused
    x.__dlpack__(max_version=(1, 0))
    assert nd.from_dlpack(x.__dlpack__(max_version=(1, 0))).asnumpy().tolist() == x.asnumpy().tolist()


def test_what_is_not_contiguous_is_copied(torch):
    t = torch.arange(24, device="cuda").reshape(2, 3, 4)
    for dtype in (torch.uint8, torch.float16, torch.float32, torch.int64):
        for view in (lambda v: v.permute(2, 0, 1), lambda v: v[:, ::2], lambda v: v[:, :, 1:3], lambda v: v[0, 0].expand(5, 4)):
            strided = view(t.to(dtype))
            x = nd.from_dlpack(strided)
            assert x.asnumpy().tolist() == strided.cpu().tolist()
    empty = nd.from_dlpack(torch.zeros((2, 0), device="cuda"))
    assert empty.shape == (2, 0) and empty.context == mx.gpu(0)
    assert nd.from_dlpack(torch.tensor(3.0, device="cuda")).asscalar() == 3
    assert torch.from_dlpack(nd.zeros((0, 4))).shape == (0, 4)


def slow(torch, size=4096, rounds=30):
    """Queues work on the current stream; a tensor of zeros at its end."""
    a = torch.full((size, size), 1 / size, device="cuda")
    b = a
    for _ in range(rounds):
        b = b @ a
    return b - b


@pytest.mark.parametrize("own_stream", [False, True])
def test_streams_wait_for_each_other(torch, own_stream):
    """Neither side looks at elements that the other one still computes, whatever stream it computes on."""
    stream = torch.cuda.Stream() if own_stream else torch.cuda.default_stream()
    for i in range(10):
        with torch.cuda.stream(stream):
            t = slow(torch)[0] + i
            x = nd.from_dlpack(t)
            y = x * 1
            for _ in range(20):
                y = nd.dot(nd.ones((2000, 2000)) / 2000, nd.ones((2000, 2000))) * 0 + y[0]
            back = torch.from_dlpack(y)
            assert (back + 1).sum().item() == (i + 1) * 2000 * 2000


def test_memory_is_reused_only_when_nobody_uses_it(torch):
    """Arrays and tensors die while work on them is queued; their memory must not be overwritten before it is done."""
    for own_stream in (False, True):
        stream = torch.cuda.Stream() if own_stream else torch.cuda.default_stream()
        results = []
        with torch.cuda.stream(stream):
            for i in range(20):
                t = torch.full((1_000_000,), float(i), device="cuda")
                x = nd.from_dlpack(t)
                del t
                busy = nd.dot(nd.ones((2048, 2048)), nd.ones((2048, 2048)))
                results.append((i, (x + 0 * busy[0, 0]).mean()))
                del x  # queued work still reads it
                torch.full((1_000_000,), -1.0, device="cuda")
        for wanted, value in results:
            assert abs(value.asscalar() - wanted) < 1e-3
        results = []
        with torch.cuda.stream(stream):
            for i in range(20):
                x = nd.full((1_000_000,), i)
                t = torch.from_dlpack(x)
                del x
                results.append((i, (t + slow(torch, 2048, 4)[0, 0]).mean()))
                del t
                nd.full((1_000_000,), -1)
        torch.cuda.synchronize()
        for wanted, value in results:
            assert abs(value.item() - wanted) < 1e-3


def test_lifetimes(torch):
    class Watched:
        """A tensor that records when its capsule was released."""

        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

        def __dlpack__(self, stream=None):
            assert stream not in (None, 0)
            return self.tensor.__dlpack__(stream=stream)

    gc.collect()
    nd.waitall()
    before = torch.cuda.memory_allocated()
    x = nd.from_dlpack(Watched(torch.ones(1 << 20, device="cuda")))
    view = x[5:10]
    del x
    gc.collect()
    assert torch.cuda.memory_allocated() - before >= 4 << 20  # a view keeps it
    assert view.asnumpy().tolist() == [1] * 5
    del view
    nd.waitall()
    assert torch.cuda.memory_allocated() == before
    t = torch.from_dlpack(nd.full((1 << 20,), 3))
    gc.collect()
    nd.full((1 << 20,), 4).wait_to_read()
    assert t.sum().item() == 3 << 20
    holder = [t]
    del t
    thread = threading.Thread(target=holder.clear)  # the deleter runs there
    thread.start()
    thread.join()
    assert nd.full((1 << 20,), 5).sum().asscalar() == 5 << 20


def test_gradients_through_shared_memory(torch):
    t = torch.arange(6.0, device="cuda").reshape(2, 3)
    x = nd.from_dlpack(t)
    x.attach_grad()
    with autograd.record():
        y = (x * x)[1:]
    y.backward()
    gradient = torch.from_dlpack(x.grad)
    assert gradient.cpu().tolist() == [[0, 0, 0], [6, 8, 10]]
    t += 1  # on PyTorch's stream
    torch.cuda.synchronize()
    with autograd.record():
        y = (x * x)[1:]
    y.backward()
    torch.cuda.synchronize()
    nd.waitall()
    assert gradient.cpu().tolist() == [[0, 0, 0], [8, 10, 12]]
    weight = torch.ones(3, device="cuda", requires_grad=True)
    with pytest.raises((BufferError, RuntimeError)):
        nd.from_dlpack(weight)  # PyTorch needs it detached
    assert nd.from_dlpack(weight.detach()).sum().asscalar() == 3


def test_writing_over_shared_memory(torch):
    t = torch.arange(5.0, device="cuda")
    x, same = nd.from_dlpack(t), nd.from_dlpack(t)
    nd.broadcast_add(x, nd.ones((5,)), out=same)
    assert x.asnumpy().tolist() == [1, 2, 3, 4, 5]
    x += 1
    assert same.asnumpy().tolist() == t.cpu().tolist() == [2, 3, 4, 5, 6]


def test_hybridized_on_shared_memory(torch):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(8, activation="relu"), mx.gluon.nn.Dense(2))
    net.initialize(ctx=mx.gpu(0))
    net.hybridize(static_alloc=True, static_shape=True)
    for i in range(6):
        t = torch.rand(4, 3, device="cuda") + i
        got = torch.from_dlpack(net(nd.from_dlpack(t))).cpu().numpy()
        want = net(nd.array(t.cpu().numpy())).asnumpy()
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


# ---- others ----------------------------------------------------------------------------------------------------------

def test_with_jax():
    jax = pytest.importorskip("jax")
    try:
        device = jax.devices("gpu")[0]
    except RuntimeError:
        pytest.skip("JAX has no GPU")
    jnp = jax.numpy
    x = nd.arange(12).reshape((3, 4))
    j = jnp.from_dlpack(x)
    assert j.shape == (3, 4) and np.array_equal(np.asarray(j), x.asnumpy())
    total = []
    for i in range(5):
        y = nd.dot(nd.full((1024, 1024), 1 / 1024), nd.full((1024, 1024), i))
        total.append((i, (jnp.from_dlpack(y) * 2).mean()))
        del y
    for i, value in total:
        assert abs(float(value) - 2 * i) < 1e-3
    k = jax.device_put(jnp.arange(6.0).reshape(2, 3), device) * 2
    y = nd.from_dlpack(k)
    assert y.context == mx.gpu(0) and y.asnumpy().tolist() == [[0, 2, 4], [6, 8, 10]]
    half = nd.from_dlpack(k.astype(jnp.bfloat16))
    assert mx._core.dtype_name(half.dtype) == "bfloat16" and wide(half).tolist() == y.asnumpy().tolist()


def test_to_the_host():
    x = nd.arange(6).reshape((2, 3))
    y = nd.from_dlpack(x.__dlpack__(dl_device=(1, 0)))
    assert y.context == mx.cpu() and y.asnumpy().tolist() == x.asnumpy().tolist()
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    copied = nd.from_dlpack(x.__dlpack__(copy=True))
    copied[:] = 0
    assert x.sum().asscalar() == 15 and copied.context == mx.gpu(0)


def test_bad_input():
    x = nd.ones((2,))
    for stream in (0, -2):
        with pytest.raises(ValueError):
            x.__dlpack__(stream=stream)
    with pytest.raises(TypeError):
        x.__dlpack__(stream="1")
    for stream in (None, -1, 1, 2):
        assert nd.from_dlpack(x.__dlpack__(stream=stream)).asnumpy().tolist() == [1, 1]
    for device in ((2, 1), (2, 99), (10, 0)):
        with pytest.raises(BufferError):
            x.__dlpack__(dl_device=device)

    class Elsewhere:
        def __dlpack_device__(self):
            return (2, 99)

        def __dlpack__(self, stream=None):
            return x.__dlpack__(stream=stream)

    with pytest.raises(BufferError, match="99"):
        nd.from_dlpack(Elsewhere())
    with pytest.raises(BufferError):
        np.asarray(memoryview(x))
    assert x.asnumpy().tolist() == [1, 1]
