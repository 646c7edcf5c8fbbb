"""Names of MXNet's insides that published libraries import: they exist and mean the same."""
import ctypes
import importlib

import numpy as np
import pytest

import mxnet as mx
from mxnet import base, gluon, nd
from mxnet.gluon import nn

MODULES = ["gluon.nn.basic_layers", "gluon.nn.conv_layers", "gluon.nn.activations", "contrib.ndarray", "contrib.symbol",
           "ndarray.register", "symbol.register", "_ctypes.ndarray", "_ctypes.symbol", "misc", "notebook", "space",
           "gluon.contrib.estimator.utils"]


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_found_by_old_paths(name):
    importlib.import_module("mxnet." + name)


def test_old_paths_have_the_same_objects():
    from mxnet._ctypes.ndarray import NDArrayBase
    from mxnet.contrib.ndarray import MultiBoxPrior
    from mxnet.gluon.nn import activations, basic_layers, conv_layers
    assert MultiBoxPrior is mx.nd.contrib.MultiBoxPrior and NDArrayBase is nd.NDArray
    assert importlib.import_module("mxnet.contrib.symbol").MultiBoxPrior is mx.sym.contrib.MultiBoxPrior
    assert conv_layers.GlobalAvgPool2D is nn.GlobalAvgPool2D and basic_layers.Dropout is nn.Dropout
    assert activations.Activation is nn.Activation and mx.metric.ndarray.sum is nd.sum
    assert mx.nd.register._make_ndarray_function(None, "relu", "relu") is nd.relu


def test_ctypes_names_of_base():
    for name in ("NDArrayHandle", "SymbolHandle", "ExecutorHandle", "CachedOpHandle", "KVStoreHandle"):
        assert getattr(base, name) is ctypes.c_void_p
    assert base.mx_uint is ctypes.c_uint and base.mx_float is ctypes.c_float
    assert base._as_list(3) == [3] and base._as_list((1, 2)) == (1, 2)
    text = ctypes.create_string_buffer(b"abc")
    assert base.ctypes2buffer(ctypes.cast(text, ctypes.POINTER(ctypes.c_char)), 3) == bytearray(b"abc")
    floats = (ctypes.c_float * 4)(1, 2, 3, 4)
    view = base.ctypes2numpy_shared(ctypes.cast(floats, ctypes.POINTER(ctypes.c_float)), (2, 2))
    view[1, 1] = 9
    assert floats[3] == 9
    with pytest.raises(RuntimeError):
        base.ctypes2numpy_shared(text, (1,))
    assert len(base.c_handle_array([nd.ones(2), nd.ones(3)])) == 2
    assert base.MXCallbackList().num_callbacks == 0
    with pytest.raises(AttributeError):
        base.no_such_name


def test_private_names_of_arrays():
    inside = mx.nd.ndarray
    assert inside._STORAGE_TYPE_STR_TO_ID["csr"] == 2 and inside._STORAGE_TYPE_ID_TO_STR[1] == "row_sparse"
    assert inside._DTYPE_NP_TO_MX[np.float64] == 1 and inside._DTYPE_MX_TO_NP[4] is np.int32
    assert inside._GRAD_REQ_MAP == {"null": 0, "write": 1, "add": 3} and inside.py_slice is slice
    assert inside._get_index_range(None, None, 10, -1) == (9, -1, -1) and inside._get_index_range(-3, None, 10) == (7, 10, 1)
    assert inside._get_broadcast_shape((2, 1, 3), (4, 1)) == (2, 4, 3)
    assert nd.NDArray(inside._new_alloc_handle((2, 3), mx.cpu(), False)).shape == (2, 3)
    assert inside._is_advanced_index([1]) and not inside._is_advanced_index(1)
    x = nd.arange(4)
    x._slice(1, 3)[:] = 7
    assert x.asnumpy().tolist() == [0, 7, 7, 3]
    sparse = nd.array([[0, 2], [0, 0]]).tostype("csr")
    assert sparse._data.asnumpy().tolist() == [2]


def test_flatten_and_regroup():
    x = nd.ones(1)
    flat, form = gluon.block._flatten([x, [None, x]], "input")
    assert flat == [x, None, x] and form == [0, [-1, 0]]
    assert gluon.block._regroup(flat, form) == ([x, [None, x]], [])
    with pytest.raises(ValueError, match="input"):
        gluon.block._flatten([3], "input")


def test_block_scopes():
    class Named:
        prefix, _empty_prefix = "mine_", False

    with gluon.block._BlockScope(Named()) as scope:
        assert nn.Dense(2).name == "mine_dense0"
        assert gluon.block._BlockScope.create(None, None, "conv")[0] == "mine_conv0_"
        assert scope._current.value is scope
    prefix, params = gluon.block._BlockScope.create("a_", None, "x")
    assert prefix == "a_" and params.prefix == "a_"
    net = nn.HybridSequential()
    assert net._scope is net._scope and net._scope._block is net
    with net.name_scope():
        nn.Dense(1)
    assert net._scope._counter == {"dense": 1}


def test_attributes_of_blocks():
    net = nn.HybridSequential()
    net.add(nn.Dense(3))
    assert (net._name, net._prefix, net._empty_prefix, net._backend) == (net.name, net.prefix, False, None)
    assert nn.HybridSequential(prefix="")._empty_prefix and net._params is net.params and net._cached_graph == ()
    assert len(net._forward_hooks) == 0
    net.register_forward_hook(print)
    assert list(net._forward_hooks.values()) == [print] and not net._forward_pre_hooks
    net._forward_hooks.clear()
    other = nn.Dense(2)
    other.initialize()
    other.hybridize(static_alloc=True)
    other(nd.ones((1, 3)))
    inputs, graph = other._cached_graph
    assert [x.name for x in inputs] == ["data"] and graph.list_outputs() == [other.name + "_fwd_output"]
    assert dict(other._flags)["static_alloc"]
    other._clear_cached_op()
    assert other(nd.ones((1, 3))).shape == (1, 2)
    layer = gluon.rnn.LSTM(3)
    assert layer._register_param("extra", (2,), "zeros", "float32") is layer.extra


def test_small_helpers(on_host):
    choose = mx.image.image._get_interp_method
    sizes = ((2, ()), (9, (10, 10, 20, 20)), (9, (20, 20, 10, 10)), (9, (10, 10, 10, 10)), (9, ()))
    assert [choose(interp, size) for interp, size in sizes] == [2, 2, 3, 1, 2]
    with pytest.raises(ValueError):
        choose(7)
    known = gluon.utils.shape_is_known
    assert known((1, 2)) and not known((0, 2)) and not known(())
    conv = gluon.model_zoo.vision.resnet._conv3x3(4, 2, 3)
    assert conv.weight.shape == (4, 3, 3, 3) and conv.bias is None
    assert nn.Dense(2, use_bias=False).bias is None
    assert mx.contrib.amp.amp._amp_initialized is False
    assert mx.misc.FactorScheduler(10, 0.5)(25) == 0.0025
    f1 = mx.metric.F1(average="micro")
    f1.update([nd.array([0, 1, 1])], [nd.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]])])
    assert (f1.metrics.true_positives, f1.metrics.false_negatives, f1.metrics.total_examples) == (1, 1, 3)
    assert f1.metrics.fscore == pytest.approx(f1.get()[1])
    schedule = mx.lr_scheduler.FactorScheduler(2)
    schedule(5)
    assert schedule.count == 4
    batches = mx.io.NDArrayIter(nd.arange(6).reshape((6, 1)), batch_size=2)
    assert batches._getdata(batches.data, 1, 3)[0].asnumpy().tolist() == [[1], [2]]
    assert mx.test_utils.locationError(np.ones(2), np.zeros(2), (1,), ("a", "b")).startswith("Location of error: (1,)")
    with mx.util._NumpyArrayScope(False) as scope:
        assert mx.util._NumpyArrayScope._current.value is scope and not scope._is_np_array
    store = mx.kv.create("local")
    assert store.handle is store
    with mx.cpu(1) as ctx:
        assert ctx._old_ctx == mx.cpu(0)


def test_metrics_of_estimators():
    from mxnet.gluon.contrib.estimator import utils
    accuracy = mx.metric.Accuracy()
    both = mx.metric.CompositeEvalMetric([accuracy, mx.metric.MSE()])
    assert utils._check_metrics(accuracy) == [accuracy] and len(utils._check_metrics(both)) == 2
    with pytest.raises(ValueError):
        utils._check_metrics([3])
    assert isinstance(utils._suggest_metric_for_loss(gluon.loss.SoftmaxCrossEntropyLoss()), mx.metric.Accuracy)
    assert utils._suggest_metric_for_loss(gluon.loss.L2Loss()) is None
