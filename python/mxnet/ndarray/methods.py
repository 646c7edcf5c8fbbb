"""Operators that are methods of NDArray too."""
from .. import _core, autograd
from . import _register

_NAMES = """
abs arccos arccosh arcsin arcsinh arctan arctanh argmax argmax_channel argmin argsort broadcast_axes broadcast_like
cbrt ceil clip cos cosh degrees depth_to_space diag exp expm1 fix flip floor log log10 log1p log2 log_softmax
max mean min nanprod nansum norm one_hot ones_like pad pick prod radians rcbrt reciprocal relu repeat reshape_like rint
round rsqrt shape_array sigmoid sign sin sinh size_array slice slice_axis slice_like softmax softmin sort
space_to_depth split split_v2 sqrt square sum swapaxes take tan tanh tile topk transpose trunc zeros_like
""".split()

for _name in _NAMES:
    if _name in _register.OPERATORS:
        _core.add_method(_name, _register.OPERATORS[_name])


def attach_grad(self, grad_req="write", stype=None):
    """Makes the array a variable: backward() computes its gradient into .grad."""
    _core.attach_grad(self, grad_req)


def backward(self, out_grad=None, retain_graph=False, train_mode=True):
    """Gradients of this array with respect to all variables that it was computed from."""
    _core.backward([self], None if out_grad is None else [out_grad], retain_graph, train_mode)


for _method in (attach_grad, backward):
    _core.add_method(_method.__name__, _method)
