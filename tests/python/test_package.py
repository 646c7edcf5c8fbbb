"""The package around arrays: contexts, util, runtime, engine, base, version."""
import os
import pickle
import subprocess
import sys
import sysconfig

import numpy as np
import pytest

import mxnet as mx
from mxnet import nd


def test_version_and_info():
    assert mx.__version__.startswith("1.9.1") and mx.libinfo.__version__ == mx.__version__
    assert mx.libinfo.find_lib_path()[0].endswith(".so") or mx.libinfo.find_lib_path()
    assert mx.base.MXNetError is mx.MXNetError is mx.error.MXNetError


def test_c_interface(tmp_path):
    """MXNet's C interface through ctypes: predictions of an exported network, elements of arrays, DLPack, errors."""
    import ctypes
    from mxnet.base import _LIB, check_call
    net = mx.gluon.nn.Dense(3, in_units=4, prefix="fc_")
    net.initialize(mx.init.Normal(1), ctx=mx.cpu())
    net.hybridize()
    x = nd.random.uniform(shape=(2, 4), ctx=mx.cpu())
    wanted = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    library = ctypes.CDLL(mx.libinfo.find_lib_path()[0])
    params = (tmp_path / "net-0000.params").read_bytes()
    handle, keys = ctypes.c_void_p(), (ctypes.c_char_p * 1)(b"data")
    create = (ctypes.c_char_p((tmp_path / "net-symbol.json").read_bytes()), params, len(params), 1, 0, 1)
    shape = ((ctypes.c_uint * 2)(0, 2), (ctypes.c_uint * 2)(2, 4), ctypes.byref(handle))
    check_call(library.MXPredCreate(*create, keys, *shape))
    data, out = x.asnumpy(), np.zeros((2, 3), "float32")
    check_call(library.MXPredSetInput(handle, b"data", data.ctypes.data_as(ctypes.c_void_p), 8))
    check_call(library.MXPredForward(handle))
    check_call(library.MXPredGetOutput(handle, 0, out.ctypes.data_as(ctypes.c_void_p), 6))
    np.testing.assert_allclose(out, wanted, rtol=1e-5)
    check_call(library.MXPredFree(handle))
    with pytest.raises(mx.MXNetError, match="no input named 'image'"):
        check_call(library.MXPredCreate(*create, (ctypes.c_char_p * 1)(b"image"), *shape))
    nd.ones((1,)).asnumpy()  # the failure is not an error of the next call

    back = np.empty((2, 4), "float32")
    check_call(_LIB.MXNDArraySyncCopyToCPU(x.handle, back.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(8)))
    assert (back == data).all()
    with pytest.raises(mx.MXNetError, match="size is 3 elements"):
        check_call(_LIB.MXNDArraySyncCopyToCPU(x.handle, back.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(3)))
    tensor, made = ctypes.c_void_p(), ctypes.c_void_p()
    check_call(_LIB.MXNDArrayToDLPack(x.handle, ctypes.byref(tensor)))
    check_call(_LIB.MXNDArrayFromDLPack(tensor, ctypes.byref(made)))
    shared = nd.NDArray(handle=made)
    shared[:] = 5
    assert (x.asnumpy() == 5).all()
    with pytest.raises(ValueError):
        nd.NDArray(handle=ctypes.c_void_p())


def test_contexts(ctx):
    assert mx.cpu() == mx.Context("cpu", 0) and mx.cpu(1) != mx.cpu() and repr(mx.gpu(1)) == "gpu(1)"
    assert mx.Context(mx.cpu(2)).device_id == 2 and mx.Context("gpu").device_type == "gpu"
    assert len({mx.cpu(), mx.cpu(0), mx.gpu()}) == 2
    assert pickle.loads(pickle.dumps(mx.gpu(3))) == mx.gpu(3)
    assert mx.current_context() == ctx and mx.Context.default_ctx == ctx
    with mx.cpu(7):
        assert mx.current_context() == mx.cpu(7) and nd.zeros((1,)).context == mx.cpu(7)
        with mx.cpu(8):
            assert mx.current_context() == mx.cpu(8)
        assert mx.current_context() == mx.cpu(7)
    assert mx.current_context() == ctx
    with pytest.raises(ZeroDivisionError):
        with mx.cpu(9):
            1 / 0
    assert mx.current_context() == ctx
    for wrong in ("foo", 99, None, object()):
        with pytest.raises(KeyError):
            mx.Context(wrong)
    with pytest.raises(TypeError):
        mx.cpu("a")
    with pytest.raises(TypeError):
        nd.zeros((1,)).as_in_context(3)
    assert isinstance(mx.num_gpus(), int)
    if mx.num_gpus() == 0:
        with pytest.raises(mx.MXNetError):
            nd.zeros((1,), ctx=mx.gpu())
        with pytest.raises(mx.MXNetError):
            mx.context.gpu_memory_info()
        with pytest.raises(mx.MXNetError):
            mx.context.gpu_memory_used()


def test_runtime():
    features = mx.runtime.Features()
    assert features is mx.runtime.Features() and "CUDA" in features
    assert features.is_enabled("cuda") == bool(features["CUDA"].enabled)
    assert features.is_enabled("INT64_TENSOR_SIZE")
    with pytest.raises(RuntimeError):
        features.is_enabled("NO_SUCH_FEATURE")
    assert [f.name for f in mx.runtime.feature_list()] == list(features)
    assert "CUDA" in repr(features)


def test_util(tmp_path):
    assert not mx.util.is_np_array() and not mx.is_np_shape()
    mx.util.makedirs(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()
    mx.util.setenv("GLUON_TEST_ENV", 5)
    assert mx.util.getenv("GLUON_TEST_ENV") == "5"
    mx.util.setenv("GLUON_TEST_ENV", None)
    assert mx.util.getenv("GLUON_TEST_ENV") is None
    assert mx.util.get_gpu_count() == mx.num_gpus()
    with pytest.raises(ValueError):
        mx.util.set_np(shape=False, array=True)
    mx.util.reset_np()
    with mx.np_shape(False):
        pass

    @mx.use_np
    class Net:
        pass

    assert Net().__class__ is Net


def test_engine():
    before = mx.engine.set_bulk_size(7)
    with mx.engine.bulk(3):
        assert (nd.ones(2) + 1).sum().asscalar() == 4
    assert mx.engine.set_bulk_size(before) == 7


def test_base():
    assert mx.base.numeric_types[-1] is np.generic and mx.base.mx_real_t is np.float32
    assert not mx.base._Null and nd.sum(nd.ones((2, 2)), axis=mx.base._Null).shape == (1,)
    assert "relu" in str(mx.base.NotImplementedForSymbol(nd.relu, "x")) and mx.base.data_dir()
    with pytest.raises(AttributeError):
        mx.base.no_such_name
    with pytest.raises(AttributeError):
        mx.no_such_name


def run(source, **environment):
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=300,
                          env=dict(os.environ, PYTHONPATH=os.path.dirname(os.path.dirname(mx.__file__)), **environment))


free_threaded = pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="not a free-threaded Python")


@free_threaded
def test_free_threaded_switched_off():
    """Without the lock the package refuses: it says what to change, and the interpreter goes on."""
    said = run("try:\n    import mxnet\nexcept ImportError as error:\n    print(error)\nprint(1 + 1)", PYTHON_GIL="0")
    assert said.returncode == 0, said.stderr
    message, after = said.stdout.splitlines()
    assert "PYTHON_GIL=0" in message and "start Python without" in message and after == "2"


THREADS = """
import sys, threading
assert not sys._is_gil_enabled()
import mxnet as mx
from mxnet import autograd, gluon, nd
assert sys._is_gil_enabled()
net = gluon.nn.Dense(4)
net.initialize()
net(nd.ones((2, 3)))
net.hybridize()
shared, wrong = [], []
def work(number):
    try:
        for i in range(200):
            x = nd.full((2, 3), number + i)
            x.attach_grad()
            with autograd.record():
                y = (x * x).sum() + 0 * net(x).sum()
            y.backward()
            assert (x.grad.asnumpy() == 2 * (number + i)).all()
            shared.append(x)
            del shared[:-10]
    except BaseException as error:
        wrong.append(error)
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
for t in threads: t.start()
for t in threads: t.join()
assert not wrong, wrong
print("all")
"""


@free_threaded
def test_free_threaded():
    """The import switches the interpreter's lock on, so threads that use the package do not crash."""
    said = run(THREADS)
    assert said.returncode == 0 and said.stdout == "all\n", said.stderr


def test_stubs():
    """The stubs that the build wrote name every operator and are Python."""
    import ast
    folder = os.path.dirname(mx.__file__)
    path = os.path.join(folder, "ndarray", "op.pyi")
    if not os.path.exists(path):
        pytest.skip("the package was not staged by the build")
    with open(path) as file:
        nodes = list(ast.walk(ast.parse(file.read())))
    names = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    names |= {alias.asname for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert {n for n in dir(nd.op) if isinstance(getattr(nd.op, n), mx._core.Op)} <= names
    assert os.path.exists(os.path.join(folder, "py.typed"))
