"""NumPy's meaning of shapes: () is a scalar, 0 an empty axis, -1 and None are unknown."""
import json
import threading

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd


@pytest.fixture(autouse=True)
def off_afterwards():
    yield
    mx.util.set_np_shape(False)


def test_switches():
    assert mx.is_np_shape() is False
    assert mx.util.set_np_shape(True) is False
    assert mx.util.set_np_shape(False) is True
    with mx.np_shape(True):
        assert mx.is_np_shape()
        with mx.np_shape(False):
            assert not mx.is_np_shape()
        assert mx.is_np_shape()
        seen = []
        thread = threading.Thread(target=lambda: seen.append(mx.is_np_shape()))
        thread.start()
        thread.join()
        assert seen == [False]
    assert not mx.is_np_shape()
    with pytest.raises(ZeroDivisionError):
        with mx.np_shape():
            1 / 0
    assert not mx.is_np_shape()


def test_decorator():
    @mx.use_np_shape
    def function(x, *, y=2):
        """Its docstring."""
        return mx.is_np_shape(), x, y

    assert function(1, y=3) == (True, 1, 3) and not mx.is_np_shape()
    assert function.__name__ == "function" and function.__doc__ == "Its docstring."

    @mx.use_np_shape
    class Thing:
        """A class."""

        def __init__(self):
            self.made = mx.is_np_shape()

        def method(self):
            return mx.is_np_shape()

        @staticmethod
        def static():
            return mx.is_np_shape()

        @property
        def value(self):
            return mx.is_np_shape()

    thing = Thing()
    assert thing.made and thing.method() and Thing.static() and thing.value
    assert Thing.__name__ == "Thing" and Thing.__doc__ == "A class." and not mx.is_np_shape()
    with pytest.raises(TypeError):
        mx.use_np_shape(3)


def test_scalars_and_empty_arrays():
    x = nd.array([1.0, 2, 3])
    assert x[0].shape == (1,)
    with mx.np_shape():
        assert x[0].shape == () and x[1].asscalar() == 2
        assert nd.ones((2, 3))[1, 2].shape == ()
        assert nd.zeros(()).shape == () and (nd.zeros(()) + 1).asscalar() == 1
        assert nd.ones((0, 2)).shape == (0, 2) and (nd.ones((0, 2)) * 3 + 1).shape == (0, 2)
        assert x[1:1].exp().shape == (0,)
        assert nd.tile(nd.ones(2), reps=(0, 2)).shape == (0, 4)
        assert nd.one_hot(nd.array([]), depth=3).shape == (0, 3)
        assert nd.concat(nd.ones((0, 2)), nd.ones((1, 2)), dim=0).shape == (1, 2)
        assert nd.contrib.index_array(nd.ones((0, 2))).shape == (0, 2, 2)
        assert nd.sum(nd.ones((2, 3))).shape == (1,)  # reductions keep an axis all the same
        data = nd.ones((3, 2))
        data.attach_grad()
        with autograd.record():
            chosen = nd.contrib.boolean_mask(data, nd.zeros(3))
        chosen.backward()
        assert chosen.shape == (0, 2) and not data.grad.asnumpy().any()
        dense = gluon.nn.Dense(4)
        dense.initialize()
        assert dense.weight.shape == (4, -1)
        assert dense(nd.ones((2, 5))).shape == (2, 4) and dense.weight.shape == (4, 5)
    assert gluon.nn.Dense(4).weight.shape == (4, 0)


def test_inference():
    a, b = mx.sym.var("a"), mx.sym.var("b")
    with mx.np_shape():
        assert (a + b).infer_shape(a=(0, 3), b=(0, 3)) == ([(0, 3), (0, 3)], [(0, 3)], [])
        arguments, outputs, _ = mx.sym.dot(a, b).infer_shape_partial(a=(-1, 3), b=(3, 5))
        assert arguments == [(-1, 3), (3, 5)] and outputs[0] in ((-1, 5), None)
        assert (a + b).infer_shape_partial()[0] == [None, None]
    with pytest.warns(UserWarning):
        assert (a + b).infer_shape(a=(0, 3), b=(0, 3)) == (None, None, None)
    assert (a + b).infer_shape_partial()[0] == [(), ()]


def test_files(tmp_path):
    """Files written with the switch on are in the form of MXNet's that knows scalars; all files load either way."""
    path = str(tmp_path / "x.params")
    arrays = {"a": nd.ones((2, 3)), "b": nd.ones((0, 3))}
    versions = {}
    for on in (False, True):
        with mx.np_shape(on):
            nd.save(path, arrays)
        versions[on] = open(path, "rb").read()[24:28]
        for reading in (False, True):
            with mx.np_shape(reading):
                loaded = nd.load(path)
            assert {k: v.shape for k, v in loaded.items()} == {"a": (2, 3), "b": (0, 3)}
    assert versions == {False: b"\xc9\xfa\x93\xf9", True: b"\xca\xfa\x93\xf9"}
    symbol = mx.sym.var("a") + 1
    assert "is_np_shape" not in json.loads(symbol.tojson())["attrs"]
    with mx.np_shape():
        text = symbol.tojson()
    assert json.loads(text)["attrs"]["is_np_shape"] == ["int", 1]
    assert mx.sym.load_json(text).list_arguments() == ["a"]
    np.testing.assert_array_equal(nd.ones(2).asnumpy(), 1)
