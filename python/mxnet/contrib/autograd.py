"""The automatic differentiation of version 0.11, replaced by mx.autograd."""
from .. import autograd
from .. import ndarray as nd

__all__ = ["TrainingStateScope", "backward", "compute_gradient", "grad", "grad_and_loss", "mark_variables",
           "set_is_training", "test_section", "train_section"]


def set_is_training(is_train):
    """Turns recording and training mode on or off; returns the previous state."""
    before = autograd.set_training(is_train)
    autograd.set_recording(is_train)
    return before


class TrainingStateScope:
    """A `with` block in which recording and training mode are on, or off."""

    def __init__(self, enter_state):
        self._enter_state, self._before = enter_state, None

    def __enter__(self):
        self._before = (autograd.set_recording(self._enter_state), autograd.set_training(self._enter_state))
        return self

    def __exit__(self, ptype, value, trace):
        autograd.set_recording(self._before[0])
        autograd.set_training(self._before[1])


def train_section():
    """with train_section(): what is computed is recorded."""
    return TrainingStateScope(True)


def test_section():
    """with test_section(): what is computed inside a train_section is not recorded."""
    return TrainingStateScope(False)


test_section.__test__ = False  # not a test
mark_variables = autograd.mark_variables


def backward(outputs, out_grads=None, retain_graph=False):
    """Computes the gradients of outputs with respect to the marked variables."""
    autograd.backward(outputs, out_grads, retain_graph)


def compute_gradient(outputs):
    """backward with gradients of ones."""
    backward(outputs)


def grad_and_loss(func, argnum=None):
    """A function that returns (gradients of the arguments, outputs) of func; argnum: which arguments."""
    def wrapped(*args):
        numbers = range(len(args)) if argnum is None else argnum if isinstance(argnum, list) else [argnum]
        variables = [args[i] for i in numbers]
        for x in variables:
            if not isinstance(x, nd.NDArray):
                raise AssertionError(f"grad_and_loss: arguments must be NDArrays, got {type(x).__name__}")
        grads = [nd.zeros_like(x) for x in variables]
        mark_variables(variables, grads)
        with train_section():
            outputs = func(*args)
        compute_gradient([outputs] if isinstance(outputs, nd.NDArray) else outputs)
        return grads, outputs
    return wrapped


def grad(func, argnum=None):
    """A function that returns the gradients of the arguments of func."""
    inner = grad_and_loss(func, argnum)

    def wrapped(*args):
        return inner(*args)[0]
    return wrapped
