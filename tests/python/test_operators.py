"""Every operator of the registry from Python: all ways to write a call give the same result."""
import inspect
import json

import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, nd
from mxnet.test_utils import assert_almost_equal
from samples import all_operators, arrays_of, as_python, attributes

OPERATORS = all_operators()


def listed(result):
    return [result] if isinstance(result, nd.NDArray) else list(result)


HOST_ONLY = {"_contrib_getnnz", "_contrib_edge_id", "_contrib_dgl_adjacency"}


@pytest.mark.parametrize("name", OPERATORS)
def test_call_forms(name):
    """Attributes as values and as text, inputs by position and by keyword, out=: the same numbers."""
    if name in HOST_ONLY and mx.current_context().device_type == "gpu":
        pytest.skip("runs on the host only")
    op = OPERATORS[name]
    described = json.loads(op.description)
    is_list = any(i["list"] for i in described["inputs"])
    for number, sample in enumerate(op.samples):
        training = "train" in (sample["note"] or "")
        text = attributes(sample["attrs"])
        typed = {key: as_python(value) for key, value in text.items()}

        def run(attrs, by_keyword=False, out=False):
            inputs = arrays_of(op, sample, number)
            names = [i["name"] for i in described["inputs"]]
            mx.random.seed(7)
            with autograd.train_mode() if training else autograd.predict_mode():
                if by_keyword and not is_list:
                    return listed(op(**dict(zip(names, inputs)), **attrs))
                result = listed(op(*inputs, **attrs))
                if out and result:
                    mx.random.seed(7)
                    target = [nd.zeros(r.shape, dtype=r.dtype) for r in result]
                    inputs = arrays_of(op, sample, number)
                    given = target[0] if len(target) == 1 else target
                    assert op(*inputs, **attrs, out=given) is given
                    return target
                return result

        expected = run(typed)
        for other in (run(text), run(typed, by_keyword=True), run(typed, out=True)):
            assert [o.shape for o in other] == [e.shape for e in expected]
            for o, e in zip(other, expected):
                assert o.dtype is e.dtype
                assert np.asarray(o.asnumpy()).tobytes() == np.asarray(e.asnumpy()).tobytes(), (name, sample)


@pytest.mark.parametrize("name", OPERATORS)
def test_documentation(name):
    op = OPERATORS[name]
    assert op.__doc__.strip() and "Returns" in op.__doc__
    signature = inspect.signature(op)
    described = json.loads(op.description)
    for item in described["inputs"] + described["attributes"]:
        assert item["name"] in signature.parameters
    assert op.__name__ in repr(op)


def test_namespaces():
    assert nd.op.softmax is nd.softmax and nd.Convolution is nd.op.Convolution
    assert nd.linalg.gemm2 and nd.contrib.boolean_mask and nd.image.to_tensor and nd.sparse.dot
    assert nd._internal._plus_scalar
    for name in ("random_uniform", "random_normal", "sample_multinomial", "uniform", "normal", "SliceChannel",
                 "SwapAxis",
                 "Concat", "BlockGrad", "choose_element_0index", "crop", "max_axis", "sum_axis", "identity"):
        assert callable(getattr(nd, name)), name
    assert {"Convolution", "softmax", "random", "array"} <= set(dir(nd))
    assert "softmax" in dir(nd.NDArray)


def test_pickled_operator():
    import pickle
    assert pickle.loads(pickle.dumps(nd.softmax))(nd.zeros((1, 2))).asnumpy().tolist() == [[0.5, 0.5]]


def test_lists():
    x, y = nd.ones((2, 1)), nd.zeros((2, 1))
    expected = np.array([[1, 0], [1, 0]])
    for result in (nd.concat(x, y, dim=1), nd.concat([x, y], dim=1), nd.concat((x, y)), nd.concat(x, y, 2, 1),
                   nd.concat(data=[x, y], dim=1), nd.concat(*[x, y], dim="1", num_args=2, name="c")):
        assert np.array_equal(result.asnumpy(), expected)
    many = [nd.full((1,), i) for i in range(1000)]
    assert nd.concat(*many, dim=0).sum().asscalar() == 499500
    assert nd.add_n(many).asscalar() == 499500
    for wrong in (lambda: nd.concat(), lambda: nd.concat([]), lambda: nd.concat([x, 3]), lambda: nd.concat(3),
                  lambda: nd.concat([x], data=[x]), lambda: nd.concat([[x]])):
        with pytest.raises((TypeError, ValueError)):
            wrong()


def test_several_outputs_and_out():
    values, places = nd.topk(nd.array([[3, 1, 2]]), ret_typ="both", k=2)
    assert values.asnumpy().tolist() == [[3, 2]] and places.asnumpy().tolist() == [[0, 2]]
    a, b = nd.zeros((1, 2)), nd.zeros((1, 2))
    out = [a, b]
    assert nd.topk(nd.array([[3, 1, 2]]), ret_typ="both", k=2, out=out) is out
    assert a.asnumpy().tolist() == [[3, 2]]
    for wrong in (a, [a], [a, 3], "x", (a, b, a)):
        with pytest.raises(TypeError):
            nd.topk(nd.array([[3, 1, 2]]), ret_typ="both", k=2, out=wrong)
    with pytest.raises(ValueError):
        nd.relu(nd.ones((2, 3)), out=nd.ones((3, 2)))
    x = nd.array([-1, 2])
    nd.relu(x, out=x)
    assert x.asnumpy().tolist() == [0, 2]


def test_optional_inputs():
    x, w = nd.ones((1, 2)), nd.ones((3, 2))
    for result in (nd.FullyConnected(x, w, num_hidden=3, no_bias=True),
                   nd.FullyConnected(x, w, None, num_hidden=3, no_bias=True),
                   nd.FullyConnected(x, w, nd.zeros(3), 3), nd.FullyConnected(data=x, weight=w, bias=nd.zeros(3),
                                                                              num_hidden="3"),
                   nd.FullyConnected(x, w, num_hidden=np.int64(3), no_bias="True", name="fc", attr={"a": "b"})):
        assert result.asnumpy().tolist() == [[2, 2, 2]]


@pytest.mark.parametrize("call, kind, words", [
    (lambda x: nd.sum(x, axes=1), ValueError, ["sum", "axes", "did you mean 'axis'"]),
    (lambda x: nd.sum(x, axis="a"), ValueError, ["sum", "axis", "'a'"]),
    (lambda x: nd.sum(x, axis=7), ValueError, ["sum", "7"]),
    (lambda x: nd.dot(x, 3), TypeError, ["dot", "rhs", "int"]),
    (lambda x: nd.dot(x, 3), AssertionError, ["dot"]),
    (lambda x: nd.dot(x, np.ones((2, 2))), TypeError, ["nd.array"]),
    (lambda x: nd.dot(x, lhs=x), TypeError, ["twice"]),
    (lambda x: nd.dot(x, nd.ones((5, 5))), ValueError, ["dot", "(2, 2)", "(5, 5)"]),
    (lambda x: nd.Convolution(x, x), ValueError, ["Convolution", "kernel", "required"]),
    (lambda x: nd.Activation(x, act_type="rleu"), ValueError, ["Activation", "rleu", "relu"]),
    (lambda x: nd.broadcast_add(x, x.astype("float64")), TypeError, ["float32", "float64"]),
    (lambda x: nd.relu(), TypeError, ["relu"]),
    (lambda x: nd.relu(x, x, x), TypeError, ["relu"]),
    (lambda x: nd.relu(x, out=3), TypeError, ["relu", "out", "int"]),
    (lambda x: nd.zeros((2,), ctx=mx.gpu(97)), ValueError, ["gpu(97)"]),
    (lambda x: nd.zeros((2**40, 16)), MemoryError, []),
    (lambda x: nd.zeros((2**40, 2**20)), ValueError, ["2^47"]),
    (lambda x: nd.zeros((2**62, 2**62)), (ValueError, MemoryError), []),
])
def test_messages(call, kind, words):
    with pytest.raises(kind) as caught:
        call(nd.ones((2, 2)))
    assert isinstance(caught.value, (mx.MXNetError, TypeError))
    for word in words:
        assert word in str(caught.value), str(caught.value)


# ---- families with functions of their own --------------------------------------------------------------------------

def test_linalg():
    a = np.array([[4, 1], [1, 3]], "float32")
    x = nd.array(a)
    assert_almost_equal(nd.linalg.gemm2(x, x), a @ a)
    assert_almost_equal(nd.linalg.potrf(x), np.linalg.cholesky(a))
    assert_almost_equal(nd.linalg.inverse(x), np.linalg.inv(a))
    assert_almost_equal(nd.linalg.det(x), [np.linalg.det(a)])
    assert_almost_equal(nd.linalg_gemm2(x, x), a @ a)
    with pytest.raises(mx.MXNetError, match=r"shape \(\), wanted square matrices"):
        nd.linalg.det(nd.array(np.array(3.0)))


def test_tests_of_numbers():
    x = nd.array([1, np.nan, np.inf, -np.inf])
    assert nd.contrib.isnan(x).asnumpy().tolist() == [0, 1, 0, 0]
    assert nd.contrib.isinf(x).asnumpy().tolist() == [0, 0, 1, 1]
    assert nd.contrib.isfinite(x).asnumpy().tolist() == [1, 0, 0, 0]
    assert nd.contrib.boolean_mask(nd.array([[1, 2], [3, 4]]), nd.array([0, 1])).asnumpy().tolist() == [[3, 4]]


def test_foreach():
    data, start = nd.array([[1, 2], [3, 4], [5, 6]]), nd.zeros((2,))
    out, state = nd.contrib.foreach(lambda d, s: (d * 2, s + d), data, start)
    assert out.asnumpy().tolist() == [[2, 4], [6, 8], [10, 12]] and state.asnumpy().tolist() == [9, 12]
    outs, states = nd.contrib.foreach(lambda d, s: ([d[0] + d[1], d[0]], [s[0] + 1]), [data, data], [start])
    assert len(outs) == 2 and outs[0].shape == (3, 2) and states[0].asnumpy().tolist() == [3, 3]
    data.attach_grad()
    with autograd.record():
        out, state = nd.contrib.foreach(lambda d, s: (d * d, s + d), data, start)
        loss = out.sum() + state.sum()
    loss.backward()
    assert_almost_equal(data.grad, 2 * data.asnumpy() + 1)
    for wrong in ((1, 2, 3), (lambda d, s: (d, s), [data, nd.ones((2, 2))], start)):
        with pytest.raises(AssertionError):
            nd.contrib.foreach(*wrong)


def test_while_loop_and_cond():
    outs, (i, s) = nd.contrib.while_loop(lambda i, s: i <= 5, lambda i, s: ([i + s], [i + 1, s + i]),
                                         (nd.array([0]), nd.array([1])), max_iterations=10)
    assert outs[0].shape == (10, 1) and outs[0].asnumpy()[:6, 0].tolist() == [1, 2, 4, 7, 11, 16]
    assert (i.asscalar(), s.asscalar()) == (6, 16)
    with pytest.raises(ValueError):
        nd.contrib.while_loop(lambda i: i < 1, lambda i: (i, i), nd.array([0]))
    x = nd.array([3])
    assert nd.contrib.cond(nd.array([1]), lambda: x, lambda: x + 1) is x
    assert nd.contrib.cond(nd.array([0]), lambda: x, lambda: x + 1).asscalar() == 4
    with pytest.raises(ValueError):
        nd.contrib.cond(nd.ones(2), lambda: x, lambda: x)


def test_sparse_names_on_dense_arrays():
    assert nd.exp(nd.cast_storage(nd.ones((2, 1)), "row_sparse")).stype == "default"
    assert nd.sparse.zeros("default", (2,)).shape == (2,)
    assert not isinstance(nd.ones(2), nd.sparse.BaseSparseNDArray)
    assert nd.sparse.dot(nd.eye(2), nd.eye(2)).asnumpy().tolist() == [[1, 0], [0, 1]]
