"""Parameters and dictionaries of them: attributes that libraries reach for, rules of names, kinds of errors."""
import gc

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn


def ready(name="p", **words):
    p = gluon.Parameter(name, **{"shape": (2, 3), **words})
    p.initialize(mx.init.One())
    return p


def test_what_a_parameter_is_made_of():
    p = gluon.Parameter("p", shape=(2, 3))
    assert (p._data, p._grad, p._ctx_list, p._ctx_map, p._deferred_init, p._var, p._trainer) == \
        (None, None, None, None, (), None, None)
    assert (p._grad_req, p._dtype, p._allow_deferred_init, p._stype, p._grad_stype) == \
        ("write", np.float32, False, "default", "default")
    p.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    assert [x.context for x in p._data] == p._ctx_list == [mx.cpu(0), mx.cpu(1)]
    assert p._ctx_map == [[], [0, 1]] and len(p._grad) == 2
    assert p._check_and_get(p._data, mx.cpu(1)).context == mx.cpu(1)
    assert len(p._check_and_get(p._data, list)) == 2
    with pytest.raises(RuntimeError, match="not initialized on cpu"):
        p._check_and_get(p._data, mx.cpu(7))
    p.grad_req = "null"
    assert p._grad is None
    assert p.var() is p.var() is p._var and p.var().attr("__storage_type__") == "0"


def test_deferred_initialization_is_a_tuple():
    p = gluon.Parameter("p", shape=(0, 3), allow_deferred_init=True)
    p.initialize(mx.init.Constant(4), ctx=[mx.cpu(0), mx.cpu(2)])
    init, contexts, default, value = p._deferred_init
    assert isinstance(init, mx.init.Constant) and contexts == [mx.cpu(0), mx.cpu(2)] and value is None
    assert p._data is None and p._ctx_list is None
    p.shape = (1, 3)
    p._finish_deferred_init()
    assert p._deferred_init == () and p.data(mx.cpu(2)).asnumpy().tolist() == [[4, 4, 4]]


def test_assigned_data_is_what_layers_and_backward_use():
    for hybrid in (False, True):
        net = nn.Dense(2, in_units=3, use_bias=False)
        net.initialize()
        if hybrid:
            net.hybridize()
        x = nd.ones((1, 3))
        net(x)
        mine = nd.array([[1, 2, 3], [4, 5, 6]])
        net.weight._data = mine
        assert net.weight.data() is not None and net(x).asnumpy().tolist() == [[6, 15]]
        mine[:] = 1
        assert net(x).asnumpy().tolist() == [[3, 3]], "the very array is used"
        with autograd.record():
            y = net(x).sum()
        y.backward()
        assert (net.weight.grad().asnumpy() == 1).all()
        net.weight._data[0] = nd.ones((2, 3)) * 2
        assert net(x).asnumpy().tolist() == [[6, 6]]


def test_gradients_go_on_through_assigned_results():
    for hybrid in (False, True):
        net = nn.Dense(1, in_units=2, use_bias=False)
        net.initialize()
        if hybrid:
            net.hybridize()
        net(nd.ones((1, 2)))
        base = nd.array([[1, 2]])
        base.attach_grad()
        with autograd.record():
            net.weight._data = [base * 3]
            y = net(nd.array([[5, 7]]))
        y.backward()
        assert y.asscalar() == 57 and base.grad.asnumpy().tolist() == [[15, 21]]


def test_assigned_data_is_checked():
    p = ready()
    with pytest.raises(TypeError):
        p._data = [1, 2]
    with pytest.raises(ValueError, match="one context"):
        p._data = [nd.ones((2, 3)), nd.ones((2, 3))]
    with pytest.raises(ValueError, match="shape or type"):
        p._data = [nd.ones((2, 3)), nd.ones((2, 2), ctx=mx.cpu(1))]
    assert (p.data().asnumpy() == 1).all()
    p._data = None
    assert p._data is None
    with pytest.raises(RuntimeError):
        p.data()


def test_types_are_shown_as_they_were_given():
    assert gluon.Parameter("p", dtype="float64").dtype == "float64"
    assert gluon.Parameter("p").dtype is np.float32
    assert repr(gluon.Parameter("p", shape=(2,))) == "Parameter p (shape=(2,), dtype=<class 'numpy.float32'>)"
    assert repr(gluon.Parameter("p", shape=(2,), dtype="float16")) == "Parameter p (shape=(2,), dtype=float16)"
    assert nn.Dense(2).weight.dtype == "float32" and nn.BatchNorm().gamma.dtype is np.float32
    net = nn.Dense(2, in_units=2)
    net.cast(np.float16)
    assert net.weight.dtype is np.float16
    net.cast("float64")
    assert net.weight.dtype == "float64"
    p = ready(dtype="float64")
    p.cast(dtype=np.float16)
    assert p.dtype is np.float16 and p.data().dtype is np.float16
    net.initialize()
    with pytest.raises(AssertionError, match="float64"):
        net.weight._load_init(nd.ones((2, 2)))
    net.weight._load_init(nd.ones((2, 2)), cast_dtype=True)
    assert net.weight.dtype == "float64" and net.weight.data().sum().asscalar() == 4


def test_methods_take_keywords_and_say_what_is_missing():
    p = gluon.Parameter("p", shape=(2, 3))
    for wrong in (lambda: p.set_data(data=nd.ones((2, 3))), lambda: p.reset_ctx(ctx=mx.cpu(1))):
        for kind in (AssertionError, ValueError, mx.MXNetError):
            with pytest.raises(kind, match="p"):
                wrong()
    p.initialize()
    p.set_data(data=nd.ones((2, 3)))
    p.reset_ctx(ctx=mx.cpu(1))
    p.cast(dtype="float64")
    assert p.list_ctx() == [mx.cpu(1)] and p.data().sum().asscalar() == 6
    with pytest.raises(AssertionError, match="shape"):
        p.set_data(nd.ones((3, 3)))
    with pytest.raises(RuntimeError):
        p.data(mx.cpu(5))
    p._shape = (7,)
    assert p.shape == (7,)


def test_values_are_put_and_averaged():
    p = gluon.Parameter("p", shape=(2,))
    p._init_impl(nd.array([1, 2]), [mx.cpu(0), mx.cpu(1)])
    p.data(mx.cpu(1))[:] = nd.array([3, 4])
    assert p._reduce().asnumpy().tolist() == [2, 3] and p._reduce().context == mx.cpu(0)
    p.grad(mx.cpu(0))[:] = 5
    p._init_grad()
    assert p.grad(mx.cpu(0)).asnumpy().tolist() == [0, 0]


def test_row_sparse_parameters_are_read_by_rows():
    p = ready("s", shape=(4, 2), stype="row_sparse")
    assert p._data[0].stype == "row_sparse" and p.var().attr("__storage_type__") == "1"
    for wrong in (p.data, p.list_data, lambda: p.row_sparse_data(nd.array([0])),
                  lambda: p.list_row_sparse_data(nd.array([0])), lambda: ready().row_sparse_data(nd.array([0]))):
        with pytest.raises(RuntimeError):
            wrong()

    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x, w):
            return x + w

    net = Net()
    net.w = p
    with pytest.raises(RuntimeError, match="row_sparse_data"):
        net(nd.ones((4, 2)))
    trainer = gluon.Trainer([p], "sgd")
    assert p._trainer is trainer and p.row_sparse_data(nd.array([1])).indices.asnumpy().tolist() == [1]
    with pytest.raises(RuntimeError, match="only one"):
        gluon.Trainer([p], "sgd")
    p._set_trainer(None)
    assert p._trainer is None
    q = ready()
    first, second = gluon.Trainer([q], "sgd"), gluon.Trainer([q], "sgd")
    assert q._trainer is second and first is not second


def test_attributes_stay_while_the_network_lives():
    net = nn.Dense(2, in_units=3, weight_initializer=mx.init.Constant(3))
    net.weight.mine = [1]
    for p in net.collect_params().values():
        p.note = p.name
    gc.collect()
    assert net.weight.mine == [1] and net.bias.note == net.bias.name
    assert isinstance(net.weight.init, mx.init.Constant) and net.weight.init.value == 3


# ---- dictionaries ---------------------------------------------------------------------------------------------------

def test_get_compares_only_what_is_given():
    params = gluon.ParameterDict("a_")
    w = params.get("w", shape=(2,), dtype="float64", lr_mult=2)
    assert params.get("w") is w and params.get("w", shape=(0,)) is w and params.get("w", lr_mult=2.0) is w
    for wrong in ({"dtype": "float32"}, {"shape": (3,)}, {"lr_mult": 3}, {"wd_mult": 3}, {"grad_req": "add"}):
        with pytest.raises(AssertionError, match="a_w"):
            params.get("w", **wrong)
    assert params.get("w", init=mx.init.Zero()) is w
    shared = nn.Conv2D(2, 3, in_channels=1)
    shared.cast("float64")
    assert nn.Conv2D(2, 3, in_channels=1, params=shared.params).weight is shared.weight


def test_shared_parameters_belong_once_asked_for():
    params = gluon.ParameterDict("a_")
    w = params.get("w", shape=(2,))
    other = gluon.ParameterDict("a_", shared=params)
    assert "a_w" in params and "a_w" not in other and list(other.keys()) == []
    with pytest.raises(KeyError):
        other["a_w"]
    assert other._get_impl("nothing") is None and other._get_impl("a_w") is w and "a_w" in other
    third = gluon.ParameterDict("a_", shared=params)
    assert third.get("w") is w and third["a_w"] is w
    assert third._prefix == "a_" and third._shared is params


def test_text_of_dictionaries():
    params = gluon.ParameterDict("a_")
    assert repr(params) == "a_ (\n\n)" and repr(gluon.ParameterDict()) == "(\n\n)"
    params.get("w", shape=(2,), dtype="float64")
    assert repr(params) == "a_ (\n  Parameter a_w (shape=(2,), dtype=float64)\n)"


def test_empty_dictionaries_are_saved(tmp_path):
    name = str(tmp_path / "none.params")
    gluon.ParameterDict().save(name)
    gluon.ParameterDict().load(name)
    params = gluon.ParameterDict("a_")
    params.get("w", shape=(2,))
    with pytest.raises(AssertionError, match="a_w"):
        params.load(name)


def test_replaced_init_impl_gets_the_first_value(on_host):
    """By a subclass, or by an attribute of the object as Horovod does it; also where the shape comes late."""
    seen = []

    class Own(gluon.Parameter):
        def _init_impl(self, data, ctx_list):
            seen.append((self.name, data.shape, list(ctx_list)))
            super()._init_impl(data * 3, ctx_list)

    class Net(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.weight = Own("late", shape=(2, 0), init=mx.init.One(), allow_deferred_init=True)

        def hybrid_forward(self, F, x, weight):
            return F.FullyConnected(x, weight, no_bias=True, num_hidden=2)

    now = Own("now", shape=(2,), init=mx.init.One())
    now.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    assert seen == [("now", (2,), [mx.cpu(0), mx.cpu(1)])] and now.data(mx.cpu(1)).asnumpy().tolist() == [3, 3]
    net = Net()
    net.initialize()
    assert len(seen) == 1
    net.hybridize()
    assert net(nd.ones((1, 4))).asnumpy().tolist() == [[12, 12]] and seen[1] == ("late", (2, 4), [mx.cpu(0)])
    net(nd.ones((1, 4)))
    assert len(seen) == 2

    dense = gluon.nn.Dense(2, weight_initializer="ones")
    dense.initialize()
    inherited = dense.weight._init_impl

    def replaced(data, ctx_list):
        inherited(data, ctx_list)
        dense.weight.data()[:] = 5
    dense.weight._init_impl = replaced
    assert dense(nd.ones((1, 3))).asnumpy().tolist() == [[15, 15]]


def test_init_impl_that_fails():
    class Fails(gluon.Parameter):
        def _init_impl(self, data, ctx_list):
            raise KeyError("nothing there")

    with pytest.raises(KeyError, match="nothing there"):
        Fails("p", shape=(2,)).initialize()


def test_deferred_initialization_can_be_assigned():
    class Early(gluon.Parameter):
        def __init__(self, other):
            self._deferred_init = other._deferred_init  # before the library's part exists
            super().__init__(other.name, shape=other.shape, allow_deferred_init=True)

    first = gluon.Parameter("p", shape=(0, 3), allow_deferred_init=True)
    first.initialize(mx.init.Constant(4), ctx=mx.cpu(2))
    second = Early(first)
    assert second._deferred_init == ()
    second._deferred_init = first._deferred_init
    second.shape = (1, 3)
    second._finish_deferred_init()
    assert second.data(mx.cpu(2)).asnumpy().tolist() == [[4, 4, 4]]
    first._deferred_init = ()
    with pytest.raises(RuntimeError, match="initiali"):
        first.data()


def test_a_parameter_made_of_the_parts_of_another(on_host):
    """As GluonNLP's WeightDropParameter: everything below the methods is assigned."""
    class Doubled(gluon.Parameter):
        def __init__(self, p):
            self._deferred_init = p._deferred_init
            super().__init__(p.name, p.grad_req, p._shape, p.dtype, p.lr_mult, p.wd_mult, p.init,
                             p._allow_deferred_init, p._differentiable)
            self._var, self._data, self._grad = p._var, p._data, p._grad
            self._ctx_list, self._ctx_map, self._trainer = p._ctx_list, p._ctx_map, p._trainer

        def data(self, ctx=None):
            return self._check_and_get(self._data, ctx) * 2

    dense = gluon.nn.Dense(2, in_units=3, use_bias=False)
    first = dense.weight
    dense.initialize(mx.init.One())
    doubled = Doubled(first)
    assert doubled._grad[0].shape == (2, 3) and doubled._ctx_list == [mx.cpu(0)] and doubled._trainer is None
    dense.params._params[first.name] = doubled
    dense._reg_params["weight"] = doubled
    with mx.autograd.record():
        y = dense(nd.ones((1, 3)))
    y.backward()
    assert y.asnumpy().tolist() == [[6, 6]] and first.grad().asnumpy().tolist() == [[2] * 3] * 2
    doubled._grad = [nd.ones((2, 3))]
    assert doubled.grad().asnumpy().tolist() == [[1] * 3] * 2
