"""Initializers: values and statistics, names and JSON, users' own, use by parameters."""
import copy
import json
import pickle

import numpy as np
import pytest

import mxnet as mx
from mxnet import gluon, init, nd


def filled(initializer, shape, name="x_weight"):
    array = nd.zeros(shape)
    initializer(init.InitDesc(name), array)
    return array.asnumpy()


def test_init_is_initializer():
    import mxnet.init
    assert mx.init is mx.initializer
    assert mxnet.init.Xavier is init.Xavier


@pytest.mark.parametrize("maker, value", [(init.Zero, 0), (init.One, 1), (lambda: init.Constant(2.5), 2.5)])
def test_constants(maker, value):
    np.testing.assert_array_equal(filled(maker(), (2, 3)), np.full((2, 3), value, "float32"))


def test_constant_of_an_array():
    value = np.arange(6).reshape(2, 3)
    for given in (nd.array(value), value, value.tolist()):
        np.testing.assert_array_equal(filled(init.Constant(given), (2, 3)), value)
    assert json.loads(init.Constant(nd.array(value)).dumps()) == ["constant", {"value": value.tolist()}]


@pytest.mark.parametrize("maker, deviation", [
    (lambda: init.Uniform(0.3), 0.3 / 3 ** 0.5), (lambda: init.Normal(0.3), 0.3),
    (lambda: init.Xavier(), (3 / 150) ** 0.5 / 3 ** 0.5), (lambda: init.Xavier("gaussian", "in", 2), (2 / 100) ** 0.5),
    (lambda: init.MSRAPrelu("out", 0.5), (2 / 1.25 / 200) ** 0.5)])
def test_statistics(maker, deviation):
    values = filled(maker(), (200, 100))
    assert abs(values.mean()) < 4 * deviation / 20000 ** 0.5
    assert values.std() == pytest.approx(deviation, rel=0.03)


def test_orthogonal():
    rows = filled(init.Orthogonal(), (4, 10))
    np.testing.assert_allclose(rows @ rows.T, 1.414 ** 2 * np.eye(4), atol=1e-5)


def test_lstm_bias():
    array = nd.ones(8)
    init.LSTMBias(2.0)._init_weight("b", array)
    np.testing.assert_array_equal(array.asnumpy(), [0, 0, 2, 2, 0, 0, 0, 0])


def test_endings_of_names():
    one = init.Constant(3)
    wanted = {"a_weight": 3, "a_bias": 0, "a_gamma": 1, "a_beta": 0, "a_min": 0, "a_max": 1}
    for name, value in wanted.items():
        assert (filled(one, (2,), name) == value).all(), name
    with pytest.raises(ValueError, match="a_running"):
        filled(one, (2,), "a_running")
    old = nd.zeros(2)
    one("bn_moving_var", old)  # a bare str follows the old rules
    assert (old.asnumpy() == 1).all()


def test_create_and_dumps():
    assert init.Xavier().dumps() == '["xavier", {"rnd_type": "uniform", "factor_type": "avg", "magnitude": 3}]'
    assert init.create("xavier", magnitude=2) == init.Xavier(magnitude=2)
    assert init.create('["normal", {"sigma": 0.5}]') == init.Normal(0.5) != init.Normal(0.4)
    assert isinstance(init.create("zeros"), init.Zero) and isinstance(init.create("ones"), init.One)
    same = init.Zero()
    assert init.create(same) is same
    with pytest.raises(AssertionError, match="did you mean 'xavier'"):
        init.create("xavie")
    with pytest.raises(AssertionError):
        init.create(3)


def test_options_are_attributes():
    xavier = init.Xavier(magnitude=2)
    assert (xavier.rnd_type, xavier.factor_type, xavier.magnitude) == ("uniform", "avg", 2)
    xavier.magnitude = 0
    assert (filled(xavier, (3, 3)) == 0).all()
    for twin in (copy.deepcopy(xavier), pickle.loads(pickle.dumps(xavier))):
        assert twin.magnitude == 0 and twin == xavier
    assert issubclass(init.MSRAPrelu, init.Xavier)


@pytest.mark.parametrize("call, kind, part", [
    (lambda: init.Xavier(magnitud=2), TypeError, "did you mean 'magnitude'"),
    (lambda: init.Xavier(rnd_type="cauchy"), ValueError, "cauchy"),
    (lambda: init.Constant(), TypeError, "value"),
    (lambda: filled(init.Xavier(), (3,)), ValueError, "two axes"),
    (lambda: filled(init.Initializer(), (3,)), NotImplementedError, "_init_weight"),
    (lambda: init.Xavier()(3, nd.ones((2, 2))), TypeError, "name"),
    (lambda: init.register(int), AssertionError, "Initializer"),
    (lambda: init.Mixed(["a"], []), AssertionError, "1 patterns"),
    (lambda: init.Mixed(["b"], ["zeros"])("a", nd.ones(1)), ValueError, "no pattern"),
    (lambda: init.Load({"a": nd.ones(2)})("b", nd.ones(2)), AssertionError, "no b"),
    (lambda: init.Load({"a": nd.ones(2)})("a", nd.ones(3)), AssertionError, r"\(3,\)")])
def test_errors(call, kind, part):
    with pytest.raises(kind, match=part):
        call()


class Counting(init.Initializer):
    def __init__(self, start=1):
        super().__init__(start=start)
        self.start, self.names = start, []

    def _init_weight(self, name, arr):
        self.names.append(name)
        arr[:] = nd.arange(arr.size).reshape(arr.shape) + self.start


def test_own_initializer_in_a_network():
    own = Counting(5)
    net = gluon.nn.Dense(2, in_units=3, prefix="own_")
    net.initialize(own)
    np.testing.assert_array_equal(net.weight.data().asnumpy(), np.arange(6).reshape(2, 3) + 5)
    assert own.names == ["own_weight"] and isinstance(own.names[0], init.InitDesc)
    assert own.dumps() == '["counting", {"start": 5}]'


def test_registered_initializer_by_name():
    init.register(Counting)
    net = gluon.nn.Dense(2, in_units=1, weight_initializer="counting")
    net.initialize()
    np.testing.assert_array_equal(net.weight.data().asnumpy(), [[1], [2]])


def test_subclass_of_a_row():
    class Half(init.Xavier):
        def _init_weight(self, name, arr):
            super()._init_weight(name, arr)
            arr[:] = arr * 0 + self.magnitude

    net = gluon.nn.Dense(2, weight_initializer=Half(magnitude=7))
    net.initialize()
    net(nd.ones((1, 3)))  # deferred
    assert (net.weight.data().asnumpy() == 7).all()


def test_any_callable():
    class Fill(init.Initializer):
        def __call__(self, desc, arr):
            arr[:] = 4

    for own in (Fill(), lambda desc, arr: arr.__setitem__(slice(None), 4)):
        net = gluon.nn.Dense(2, in_units=3, use_bias=False)
        net.initialize(own)
        assert (net.weight.data().asnumpy() == 4).all()


def test_exceptions_of_own_initializers_arrive():
    class Broken(init.Initializer):
        def _init_weight(self, name, arr):
            raise LookupError(name)

    with pytest.raises(LookupError, match="weight"):
        gluon.nn.Dense(2, in_units=3).initialize(Broken())
    net = gluon.nn.Dense(2, weight_initializer=Broken())
    net.initialize()
    with pytest.raises(LookupError):
        net(nd.ones((1, 3)))


def test_mixed_and_load(tmp_path):
    params = gluon.ParameterDict("m_")
    weight, bias = params.get("weight", shape=(2, 3)), params.get("bias", shape=(2,))
    params.initialize(init.Mixed([".*weight", ".*"], [init.One(), init.Constant(3)]))
    assert (weight.data().asnumpy() == 1).all() and (bias.data().asnumpy() == 3).all()
    nd.save(str(tmp_path / "x.params"), {"arg:m_weight": nd.ones((2, 3)) * 9})
    params.initialize(init.Load(str(tmp_path / "x.params"), default_init="zeros"), force_reinit=True)
    assert (weight.data().asnumpy() == 9).all() and (bias.data().asnumpy() == 0).all()


def test_verbosity(caplog):
    with caplog.at_level("INFO"):
        net = gluon.nn.Dense(2, in_units=3, prefix="loud_")
        net.initialize(init.Xavier().set_verbosity(True))
    assert "loud_weight" in caplog.text
