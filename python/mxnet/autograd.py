"""Automatic differentiation: computations inside `with autograd.record()` can be differentiated."""
import warnings

from . import _core
from ._core import is_recording, is_training, record, pause, train_mode, predict_mode  # noqa: F401
from ._core import NDArray


def set_recording(is_recording):
    """Sets whether operators are written to the tape; returns the previous state."""
    return _core.set_recording(is_recording)


def set_training(train_mode):
    """Sets whether layers behave as in training; returns the previous state."""
    return _core.set_training(train_mode)


def _as_list(x):
    return list(x) if isinstance(x, (list, tuple)) else [x]


def mark_variables(variables, gradients, grad_reqs="write"):
    """Marks arrays as variables: backward writes their gradients to `gradients`."""
    variables, gradients = _as_list(variables), _as_list(gradients)
    reqs = [grad_reqs] * len(variables) if isinstance(grad_reqs, str) else list(grad_reqs)
    _core.mark_variables(variables, gradients, reqs)


def _head_grads(heads, head_grads):
    if head_grads is None:
        return None
    head_grads = _as_list(head_grads)
    if len(head_grads) != len(heads):
        raise ValueError(f"autograd: {len(heads)} heads but {len(head_grads)} head gradients")
    return head_grads


def backward(heads, head_grads=None, retain_graph=False, train_mode=True):
    """Gradients of heads with respect to all variables, into their .grad."""
    heads = _as_list(heads)
    _core.backward(heads, _head_grads(heads, head_grads), retain_graph, train_mode)


def grad(heads, variables, head_grads=None, retain_graph=None, create_graph=False, train_mode=True):
    """Gradients of heads with respect to variables as a list of new arrays; their .grad does not change."""
    heads = _as_list(heads)
    variables = _as_list(variables)
    if not variables:
        raise AssertionError("autograd.grad: variables is empty")
    retain = create_graph if retain_graph is None else retain_graph
    return _core.grad(heads, variables, _head_grads(heads, head_grads), retain, create_graph, train_mode)


def get_symbol(x):
    """The recorded computation of an array as a Symbol; its inputs are variables var0, var1 ..."""
    return _core.symbol_recorded(x)


class Function:
    """A function with a custom gradient: override forward and backward.

    Both take and return NDArrays; save_for_backward stores what backward needs.  One call per object.
    """

    def __init__(self):
        self._used = False
        self.saved_tensors = ()

    def save_for_backward(self, *arrays):
        """Stores arrays for backward, as self.saved_tensors."""
        self.saved_tensors = arrays

    def __call__(self, *inputs):
        if getattr(self, "_used", False):
            raise AssertionError(f"{type(self).__name__}: each call needs a new object")
        self._used = True
        if any(isinstance(x, _core.Symbol) for x in inputs):
            warnings.warn(f"{type(self).__name__}: a hybridized block or a symbol uses its forward only; gradients are those "
                          "of the operators in it, backward() is not called (mx.operator.CustomOp is)", stacklevel=2)
        with pause(train_mode=is_training()):
            outputs = self.forward(*inputs)
        if not is_recording():
            return outputs
        made = _core.function_call(self, list(inputs), _as_list(outputs))
        if isinstance(outputs, NDArray):
            return made[0]
        return tuple(made) if isinstance(outputs, tuple) else made

    def forward(self, *inputs):
        """Computes the outputs; override it."""
        raise NotImplementedError(f"{type(self).__name__} does not override forward")

    def backward(self, *output_grads):
        """Gradients of the inputs from those of the outputs; override it."""
        raise NotImplementedError(f"{type(self).__name__} does not override backward")
