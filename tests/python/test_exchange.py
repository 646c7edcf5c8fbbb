"""Memory shared and copied with NumPy and others: buffers, __array__, DLPack."""
import gc

import numpy as np
import pytest

import mxnet as mx
from mxnet import nd

TYPES = ["float32", "float64", "float16", "uint8", "int8", "int32", "int64", "bool"]


@pytest.fixture(autouse=True)
def on_the_cpu():
    """Tests sharing memory with NumPy: host arrays only."""
    with mx.cpu():
        yield


@pytest.mark.parametrize("dtype", TYPES)
def test_buffer_and_interface(dtype):
    x = nd.array([[1, 0, 3], [4, 5, 6]], dtype=dtype)
    view = np.asarray(x)
    assert view.dtype == dtype and view.shape == (2, 3)
    view[0, 1] = 1
    assert x[0, 1].asscalar() == 1
    memory = memoryview(x)
    assert memory.shape == (2, 3) and memory.itemsize == np.dtype(dtype).itemsize and not memory.readonly
    interface = x.__array_interface__
    assert interface["shape"] == (2, 3) and interface["version"] == 3 and np.dtype(interface["typestr"]) == dtype
    copied = x.asnumpy()
    copied[:] = 0
    assert x.asnumpy().any()
    del x, memory
    gc.collect()
    assert view[1, 2] == np.array(6).astype(dtype)  # the view keeps the memory alive


def test_numpy_functions():
    x = nd.array([[1, 2], [3, 4]])
    a = x.asnumpy()
    assert np.array_equal(np.add(x, 1), a + 1)
    assert np.allclose(np.sin(x), np.sin(a)) and isinstance(np.sin(x), np.ndarray)
    assert np.sum(x) == 10 and np.array_equal(np.concatenate([x, x]), np.concatenate([a, a]))
    assert np.array(x, dtype="int64").dtype == np.int64
    b = np.ones((2, 2), "float32")
    for result in (x + b, b + x, x * b, b - x, b ** x):
        assert isinstance(result, nd.NDArray)
    assert np.array_equal((b - x).asnumpy(), b - a)
    assert np.array_equal((b < x).asnumpy(), (b < a).astype("float32"))
    b += x
    assert np.array_equal(np.asarray(b), a + 1)
    assert isinstance(np.float32(2) * x, nd.NDArray) and isinstance(x * np.float64(2), nd.NDArray)
    assert (np.int64(2) ** x).dtype is np.float32
    assert np.array(x).ctypes.data != np.asarray(x).ctypes.data  # array() copies, asarray() shares
    assert x.__array__("float64").dtype == np.float64


def test_from_numpy_shares():
    a = np.arange(6, dtype="float32").reshape(2, 3)
    x = nd.from_numpy(a)
    assert not a.flags.writeable  # it cannot change unnoticed
    x[0, 0] = 50
    assert a[0, 0] == 50
    del a
    gc.collect()
    assert x.sum().asscalar() == 65
    b = np.arange(3.0)
    y = nd.from_numpy(b, zero_copy=False)
    y[:] = 0
    assert b.sum() == 3 and y.dtype is np.float64
    with pytest.raises(ValueError):
        nd.from_numpy(np.ones((4, 4))[:, ::2])
    with pytest.raises(ValueError):
        nd.from_numpy(np.ones(2, "int16"))
    with pytest.raises(AttributeError):
        nd.from_numpy([1, 2])
    frozen = np.frombuffer(np.ones(2).tobytes(), "float64")  # memory that nobody may write
    z = nd.from_numpy(frozen)
    assert not z.writable
    for write in (lambda: z.__setitem__(0, 1), lambda: z.__iadd__(1), lambda: nd.relu(z, out=z),
                  lambda: memoryview(z).__setitem__(0, 1)):
        with pytest.raises((ValueError, TypeError, mx.MXNetError)):
            write()
    assert frozen.tolist() == [1, 1]


@pytest.mark.parametrize("dtype", TYPES)
def test_dlpack_with_numpy(dtype):
    if dtype == "bool" and np.lib.NumpyVersion(np.__version__) < "1.25.0":
        pytest.skip("this NumPy does not exchange bool")
    x = nd.array([[1, 0], [1, 1]], dtype=dtype)
    assert x.__dlpack_device__() == (1, 0)
    shared = (np.from_dlpack if hasattr(np, "from_dlpack") else np._from_dlpack)(x)
    assert shared.dtype == dtype and np.array_equal(shared, x.asnumpy())
    x[0, 1] = 1
    assert shared[0, 1] == 1
    del x
    gc.collect()
    assert shared[1, 1] == 1
    a = np.array([[1, 2, 3], [0, 1, 0]]).astype(dtype)
    y = nd.from_dlpack(a)
    assert np.array_equal(y.asnumpy(), a)
    y[0, 0] = 0
    assert a[0, 0] == 0
    transposed = nd.from_dlpack(a.T)  # not contiguous: a copy
    assert np.array_equal(transposed.asnumpy(), a.T)
    del a
    gc.collect()
    assert y.shape == (2, 3)


def test_dlpack_capsules():
    x = nd.array([1, 2, 3])
    for capsule in (x.to_dlpack_for_read(), x.to_dlpack_for_write(), nd.to_dlpack_for_read(x),
                    nd.to_dlpack_for_write(x),
                    x.__dlpack__(), x.__dlpack__(max_version=(1, 0))):
        y = nd.from_dlpack(capsule)
        assert np.asarray(y).ctypes.data == np.asarray(x).ctypes.data
        with pytest.raises(TypeError):
            nd.from_dlpack(capsule)  # it was used
    x.to_dlpack_for_read()  # dropped unused
    copied = nd.from_dlpack(x.__dlpack__(copy=True))
    copied[:] = 0
    assert x.sum().asscalar() == 6
    for wrong in (3, None, "x", object()):
        with pytest.raises(TypeError):
            nd.from_dlpack(wrong)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError):
        nd.from_dlpack(np.ones(2, "complex64"))
    assert nd.from_dlpack(nd.zeros((2, 0))).shape == (2, 0)
    assert mx.dlpack.from_dlpack(x).shape == (3,)


def test_dlpack_with_torch():
    torch = pytest.importorskip("torch")
    x = nd.array([[1, 2], [3, 4]])
    t = torch.from_dlpack(x)
    t += 1
    assert x.asnumpy().tolist() == [[2, 3], [4, 5]]
    y = nd.from_dlpack(torch.arange(4))
    assert y.dtype is np.int64 and y.asnumpy().tolist() == [0, 1, 2, 3]


def test_gradients_that_others_see():
    """A gradient keeps its memory once its address was exported."""
    for share in (np.asarray, lambda x: np.from_dlpack(x) if hasattr(np, "from_dlpack") else np.asarray(x)):
        x = nd.array(np.arange(1000.0))
        x.attach_grad()
        view = share(x.grad)
        for i in range(1, 4):
            with mx.autograd.record():
                y = x * x * i
            y.backward()
            assert np.array_equal(view, 2 * i * np.arange(1000.0))


def test_foreign_arrays_as_values():
    from array import array
    assert nd.array(array("d", [1, 2, 3])).asnumpy().tolist() == [1, 2, 3]
    assert nd.array(memoryview(np.arange(3))).asnumpy().tolist() == [0, 1, 2]

    class Like:
        def __array__(self, dtype=None, copy=None):
            return np.array([7.0, 8.0])

    assert nd.array(Like()).asnumpy().tolist() == [7, 8]
    x = nd.zeros(2)
    x[:] = Like()
    assert x.asnumpy().tolist() == [7, 8]

    class Broken:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("broken")

    with pytest.raises((RuntimeError, TypeError)):
        nd.array(Broken())


def test_subclass():
    class Mine(nd.NDArray):
        def double(self):
            return self * 2

    x = Mine(nd.array([1, 2]))
    x.note = "kept"
    assert x.double().asnumpy().tolist() == [2, 4] and isinstance(x, nd.NDArray) and x.note == "kept"
    x[:] = 5
    assert x.asnumpy().tolist() == [5, 5]
    with pytest.raises(TypeError):
        nd.NDArray(3)
