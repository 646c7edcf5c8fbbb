"""The interface for operators in Python before CustomOp: objects that make symbols of themselves.

    class Square(mx.operator.NumpyOp):
        def forward(self, in_data, out_data):
            out_data[0][:] = in_data[0] ** 2

        def backward(self, out_grad, in_data, out_data, in_grad):
            in_grad[0][:] = out_grad[0] * 2 * in_data[0]

    y = Square()(x, name="square")

Each object becomes a registered custom operator, whose graph nodes call it.
"""
from itertools import count

from ._core import Symbol

__all__ = ["PythonOp", "NumpyOp", "NDArrayOp"]

_numbers = count()


class PythonOp:
    """The common part: override forward, backward and, where they differ, the names and shapes."""

    def __init__(self, need_top_grad=True):
        self.need_top_grad_ = need_top_grad
        self._op_type = None  # under which the object is registered, once it was used

    def __call__(self, *args, **kwargs):
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args, **kwargs):
        """A symbol of this operator on the given inputs; name= names its node."""
        raise NotImplementedError(f"{type(self).__name__}: use a subclass of NumpyOp or NDArrayOp")

    def forward(self, in_data, out_data):
        """Writes the outputs into out_data."""
        out_data[0][:] = in_data[0]

    def backward(self, out_grad, in_data, out_data, in_grad):
        """Writes the gradients of the inputs into in_grad."""
        in_grad[0][:] = out_grad[0] if out_grad else 1

    def infer_shape(self, in_shape):
        """(shapes of inputs, of outputs)."""
        return in_shape, [in_shape[0]]

    def list_outputs(self):
        """Names of the outputs."""
        return ["output"]

    def list_arguments(self):
        """Names of the inputs."""
        return ["data"]

    def need_top_grad(self):
        """Whether backward reads the gradients of the outputs; False for losses."""
        return self.need_top_grad_

    def _symbol(self, run, args, kwargs):
        from .operator import custom
        if self._op_type is None:
            self._op_type = f"_python_op{next(_numbers)}_{type(self).__name__}"
            _register(self._op_type, self, run)
        for x in (*args, *kwargs.values()):
            if not isinstance(x, (Symbol, str)):
                raise TypeError(f"{type(self).__name__}: inputs must be symbols, got {type(x).__name__}")
        return custom(*args, op_type=self._op_type, _symbolic=True, **kwargs)


class NumpyOp(PythonOp):
    """An operator on NumPy arrays."""

    def get_symbol(self, *args, **kwargs):
        return self._symbol(_on_numpy, args, kwargs)


class NDArrayOp(PythonOp):
    """An operator on NDArrays."""

    def get_symbol(self, *args, **kwargs):
        return self._symbol(_on_arrays, args, kwargs)

    def declare_backward_dependency(self, out_grad, in_data, out_data):
        """The arrays that backward reads; for programs that override it."""
        return (list(out_grad) if self.need_top_grad() else []) + list(in_data) + list(out_data)


# ---- as custom operators -------------------------------------------------------------------------------------------

def _on_arrays(function, results, assign, **given):
    """Calls function(**given), where the arrays of given[results] are written."""
    function(**given)


def _on_numpy(function, results, assign, **given):
    arrays = {key: [x.asnumpy() for x in value] for key, value in given.items()}
    function(**arrays)
    for target, value in zip(given[results], arrays[results]):
        assign(target, value)


def _register(op_type, op, run):
    from .ndarray import array
    from .operator import CustomOp, CustomOpProp, register

    def assign(target, value):
        target[:] = array(value, ctx=target.context, dtype=target.dtype)

    class Runner(CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            run(op.forward, "out_data", assign, in_data=in_data, out_data=out_data)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            run(op.backward, "in_grad", assign, out_grad=out_grad, in_data=in_data, out_data=out_data, in_grad=in_grad)

    @register(op_type)
    class Prop(CustomOpProp):
        def __init__(self):
            super().__init__(op.need_top_grad())

        def infer_shape(self, in_shape):
            return (*op.infer_shape(in_shape)[:2], [])

        def list_outputs(self):
            return op.list_outputs()

        def list_arguments(self):
            return op.list_arguments()

        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Runner()
