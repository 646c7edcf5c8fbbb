"""Operators written in Python: mx.operator and nd.Custom."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, nd


class Scale(mx.operator.CustomOp):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor
        self.trained = None

    def forward(self, is_train, req, in_data, out_data, aux):
        self.trained = is_train
        self.assign(out_data[0], req[0], in_data[0] * self.factor)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * self.factor)


@mx.operator.register("test_scale")
class ScaleProp(mx.operator.CustomOpProp):
    def __init__(self, factor="2"):
        super().__init__(need_top_grad=True)
        self.factor = float(factor)

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Scale(self.factor)


@mx.operator.register("test_dense")
class DenseProp(mx.operator.CustomOpProp):
    def list_arguments(self):
        return ["data", "weight"]

    def list_outputs(self):
        return ["product", "total"]

    def infer_shape(self, in_shape):
        data, weight = in_shape
        return [data, [weight[0], data[1]]], [[data[0], weight[0]], [1]], []

    def create_operator(self, ctx, in_shapes, in_dtypes):
        class Dense(mx.operator.CustomOp):
            def forward(self, is_train, req, in_data, out_data, aux):
                product = nd.dot(in_data[0], in_data[1], transpose_b=True)
                self.assign(out_data[0], req[0], product)
                self.assign(out_data[1], req[1], product.sum())

            def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
                g = out_grad[0] + out_grad[1].reshape((1, 1))
                self.assign(in_grad[0], req[0], nd.dot(g, in_data[1]))
                self.assign(in_grad[1], req[1], nd.dot(g, in_data[0], transpose_a=True))
        return Dense()


def test_custom():
    x = nd.array([1, 2, 3])
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type="test_scale", factor=3)
    y.backward()
    assert y.asnumpy().tolist() == [3, 6, 9] and x.grad.asnumpy().tolist() == [3, 3, 3]
    assert nd.Custom(data=x, op_type="test_scale", name="n").asnumpy().tolist() == [2, 4, 6]
    out = nd.zeros(3)
    assert nd.Custom(x, op_type="test_scale", out=out) is out and out.asnumpy().tolist() == [2, 4, 6]


def test_two_inputs_and_outputs():
    a, w = nd.array(np.random.rand(2, 3)), nd.array(np.random.rand(4, 3))
    mx.test_utils.check_numeric_gradient(lambda data, weight: nd.Custom(data, weight, op_type="test_dense"),
                                         {"data": a, "weight": w})
    product, total = nd.Custom(a, weight=w, op_type="test_dense")
    assert product.shape == (2, 4) and abs(total.asscalar() - product.sum().asscalar()) < 1e-4


@pytest.mark.parametrize("call, kind", [
    (lambda x: nd.Custom(x, op_type="no_such_operator"), ValueError), (lambda x: nd.Custom(x), ValueError),
    (lambda x: nd.Custom(op_type="test_scale"), TypeError), (lambda x: nd.Custom(x, x, op_type="test_scale"),
                                                             TypeError),
    (lambda x: nd.Custom(3, op_type="test_scale"), TypeError), (lambda x: nd.Custom(x, op_type="test_scale", foo=1),
                                                                TypeError),
    (lambda x: nd.Custom(nd.ones((2, 3)), nd.ones((4, 5)), op_type="test_dense"), ValueError),
    (lambda x: mx.operator.CustomOp().assign(x, "often", x), ValueError),
    (lambda x: mx.operator.PythonOp()(x), NotImplementedError)])
def test_wrong_calls(call, kind):
    with pytest.raises(kind):
        call(nd.ones(2))


def test_registry():
    assert "test_scale" in mx.operator.get_all_registered()
    assert "Convolution" in mx.operator.get_all_registered_operators()
    arguments = mx.operator.get_operator_arguments("Activation")
    assert arguments.names == ["data", "act_type"] and arguments.narg == 2
    with pytest.raises(mx.MXNetError):
        mx.operator.get_operator_arguments("no_such_operator")


@pytest.mark.parametrize("where", ["list_arguments", "infer_shape", "create_operator", "forward", "backward"])
@pytest.mark.parametrize("kind", [ValueError, KeyError, OSError, UnicodeError, type("Own", (Exception,), {})])
def test_exceptions_are_mxnet_errors(where, kind):
    """An exception of the user's methods can be caught as what it is, and as an MXNetError."""
    def fail(place):
        if place == where:
            raise kind("told so")

    class Op(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            fail("forward")
            self.assign(out_data[0], req[0], in_data[0])

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            fail("backward")
            self.assign(in_grad[0], req[0], out_grad[0])

    name = f"raises_{where}_{kind.__name__}"

    @mx.operator.register(name)
    class Prop(mx.operator.CustomOpProp):
        def list_arguments(self):
            fail("list_arguments")
            return ["data"]

        def infer_shape(self, in_shape):
            fail("infer_shape")
            return in_shape, [in_shape[0]], []

        def create_operator(self, ctx, shapes, dtypes):
            fail("create_operator")
            return Op()

    x = mx.nd.ones(2)
    x.attach_grad()
    with pytest.raises(mx.MXNetError) as caught:
        with mx.autograd.record():
            y = mx.nd.Custom(x, op_type=name)
        y.backward()
    assert isinstance(caught.value, kind) and "told so" in str(caught.value)
    assert type(caught.value.__cause__) is kind


def test_unknown_sizes_are_zeros():
    """The first input is known; of the others the operator fills in what it knows."""
    seen = []

    @mx.operator.register("fills_in_sizes")
    class Prop(mx.operator.CustomOpProp):
        def list_arguments(self):
            return ["data", "weight"]

        def infer_shape(self, in_shape):
            seen.append([tuple(shape) for shape in in_shape])
            return [in_shape[0], [in_shape[0][1], 3]], [in_shape[0]], []

    y = mx.sym.Custom(mx.sym.var("x"), mx.sym.var("w", shape=(0, 3)), op_type="fills_in_sizes")
    assert y.infer_shape(x=(2, 5)) == ([(2, 5), (5, 3)], [(2, 5)], [])
    assert seen[0] == [(2, 5), (0, 3)]


# ---- the interface before CustomOp ---------------------------------------------------------------------------------

class OldSquare(mx.operator.NumpyOp):
    def forward(self, in_data, out_data):
        assert isinstance(in_data[0], np.ndarray)
        out_data[0][:] = in_data[0] ** 2

    def backward(self, out_grad, in_data, out_data, in_grad):
        in_grad[0][:] = out_grad[0] * 2 * in_data[0]


class OldSum(mx.operator.NDArrayOp):
    def __init__(self):
        super().__init__(need_top_grad=False)

    def list_arguments(self):
        return ["a", "b"]

    def list_outputs(self):
        return ["total"]

    def forward(self, in_data, out_data):
        out_data[0][:] = in_data[0] + in_data[1]

    def backward(self, out_grad, in_data, out_data, in_grad):
        in_grad[0][:] = 3
        in_grad[1][:] = 4


@pytest.mark.parametrize("make, forward, gradients", [
    (lambda x, y: OldSquare()(x, name="op"), [9, 16], {"x": [6, 8]}),
    (lambda x, y: OldSum().get_symbol(a=x, b=y, name="op"), [4, 6], {"x": [3, 3], "y": [4, 4]}),
    (lambda x, y: mx.operator.NumpyOp()(x, name="op"), [3, 4], {"x": [1, 1]}),
    (lambda x, y: mx.operator.NDArrayOp()(x, name="op"), [3, 4], {"x": [1, 1]}),
])
def test_operators_as_objects(make, forward, gradients):
    net = make(mx.sym.var("x"), mx.sym.var("y"))
    assert net.name == "op"
    executor = net.simple_bind(mx.cpu(), **{name: (2,) for name in net.list_arguments()})
    executor.arg_dict["x"][:] = mx.nd.array([3, 4])
    if "y" in executor.arg_dict:
        executor.arg_dict["y"][:] = mx.nd.array([1, 2])
    assert executor.forward(is_train=True)[0].asnumpy().tolist() == forward
    executor.backward(mx.nd.ones((2,)))
    assert {name: g.asnumpy().tolist() for name, g in executor.grad_dict.items()} == gradients


def test_operators_as_objects_refuse():
    with pytest.raises(NotImplementedError):
        mx.operator.PythonOp()(mx.sym.var("x"))
    with pytest.raises(TypeError):
        OldSquare()(mx.nd.ones((1,)))


def test_custom_operators_are_called_by_keyword():
    class Scale(mx.operator.CustomOp):
        def forward(self, aux, out_data, in_data, req, is_train):  # in another order
            self.assign(out_data[0], req[0], in_data[0] * 3)

        def backward(self, aux, in_grad, out_data, in_data, out_grad, req):
            self.assign(in_grad[0], req[0], out_grad[0] * 3)

    @mx.operator.register("scale_by_keyword")
    class ScaleProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Scale()

    x = mx.nd.ones((2,))
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Custom(x, op_type="scale_by_keyword")
    y.backward()
    assert y.asnumpy().tolist() == [3, 3] == x.grad.asnumpy().tolist()


def test_types_of_arguments_are_texts():
    found = mx.operator.get_operator_arguments("Activation")
    assert found.narg == 2 and found.names == ["data", "act_type"] and found.types[0] == "NDArray-or-Symbol"
    assert found.types[1].endswith("}, required") and "'relu', 'sigmoid'" in found.types[1]
    types = dict(zip(*mx.operator.get_operator_arguments("Convolution")[1:]))
    assert types["kernel"] == "Shape(tuple), required" and types["no_bias"] == "boolean, optional, default=0"
    assert mx.operator.get_operator_arguments("concat").types[0] == "NDArray-or-Symbol[]"


def test_storage_types(on_host):
    """An operator that says what becomes of sparse inputs gets them as they are, on arrays and in executors."""
    seen = []

    class Square(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            seen.append([x.stype for x in in_data + out_data])
            self.assign(out_data[0], req[0], mx.nd.sparse.square(in_data[0]))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            seen.append([x.stype for x in out_grad + in_data + out_data + in_grad])
            self.assign(in_grad[0], req[0], 2 * mx.nd.sparse.elemwise_mul(in_data[0], out_grad[0]))

    class Base(mx.operator.CustomOpProp):
        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Square()

    @mx.operator.register("square_as_it_is")
    class Same(Base):  # noqa: F841
        def infer_storage_type(self, in_stype):
            return in_stype, [in_stype[0]], []

        def infer_storage_type_backward(self, ograd_stype, in_stype, out_stype, igrad_stype, aux_stype):
            return [in_stype[0]], in_stype, out_stype, [in_stype[0]], aux_stype

    @mx.operator.register("square_wrongly")
    class Wrong(Base):  # noqa: F841
        def infer_storage_type(self, in_stype):
            return in_stype, [], []

    values = np.array([[0, 1, 0], [0, 0, 0], [2, 0, 3]], "float32")
    for stype in ("default", "csr", "row_sparse"):
        del seen[:]
        x = mx.nd.array(values).tostype(stype)
        x.attach_grad()
        with mx.autograd.record():
            y = mx.nd.Custom(x, op_type="square_as_it_is")
        y.backward()
        assert y.stype == x.grad.stype == stype and seen == [[stype] * 2, [stype] * 4]
        np.testing.assert_array_equal(y.asnumpy(), values ** 2)
        np.testing.assert_array_equal(x.grad.asnumpy(), 2 * values)
    exe = mx.sym.Custom(mx.sym.var("x", stype="row_sparse"), op_type="square_as_it_is").simple_bind(mx.cpu(), x=(3, 3))
    exe.arg_dict["x"][:] = x
    exe.forward(is_train=True)
    exe.backward(mx.nd.ones((3, 3)))
    assert exe.outputs[0].stype == "row_sparse"
    np.testing.assert_array_equal(exe.grad_dict["x"].asnumpy(), 2 * values)
    with pytest.raises(ValueError, match="0 storage types of outputs, expected 1"):
        mx.nd.Custom(x, op_type="square_wrongly")
