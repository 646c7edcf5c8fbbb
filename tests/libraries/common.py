"""Compares a network run imperatively with the same network hybridized, forward and backward."""
import numpy as np

import mxnet as mx
from mxnet import autograd, nd


def flat(outputs):
    """The arrays of nested lists and tuples."""
    if isinstance(outputs, (list, tuple)):
        return [array for item in outputs for array in flat(item)]
    return [outputs] if isinstance(outputs, nd.NDArray) else []


def loss_of(outputs):
    """A number that depends on every output."""
    return sum((output.astype("float32") ** 2).mean() for output in outputs)


def run(net, inputs, train):
    """(outputs, gradients by name) as NumPy arrays; train=False: gradients are empty."""
    mx.random.seed(3)
    if not train:
        return [a.asnumpy() for a in flat(net(*inputs))], {}
    with autograd.record():
        outputs = flat(net(*inputs))
        loss = loss_of(outputs)
    loss.backward()
    parameters = net.collect_params().values()
    gradients = {p.name: p.grad().asnumpy() for p in parameters if p.grad_req != "null" and p.grad().stype == "default"}
    return [a.asnumpy() for a in outputs], gradients


def close(a, b, what, tolerance):
    """Equal up to rounding, relative to the largest number: plans add in another order."""
    assert a.shape == b.shape, f"{what}: shapes {a.shape} and {b.shape}"
    assert np.isfinite(a).all() and np.isfinite(b).all(), f"{what}: not finite"
    scale = max(float(np.abs(a).max()) if a.size else 0.0, 1e-3)
    worst = float(np.abs(a.astype("float64") - b).max()) if a.size else 0.0
    assert worst <= tolerance * scale, f"{what}: imperative and hybridized differ by {worst} of {scale}"


class Xavier(mx.init.Xavier):
    """For networks with SymbolBlocks, whose vectors get the network's initializer, too: Xavier itself refuses them."""

    def _init_weight(self, name, arr):
        if arr.ndim > 1:
            super()._init_weight(name, arr)
        else:
            arr[:] = str(name).endswith(("gamma", "var"))


def compare(net, *inputs, train=True, initialize=mx.init.Xavier(), tolerance=2e-3, most=None):
    """Runs net as it is and hybridized: outputs (the first `most`) and gradients are equal, and some gradient is not zero."""
    if initialize:
        net.initialize(initialize)
    net(*inputs)  # shapes of the parameters
    outputs, gradients = run(net, inputs, train)
    net.hybridize()
    hybrid_outputs, hybrid_gradients = run(net, inputs, train)
    assert len(outputs) == len(hybrid_outputs) > 0
    for i, (a, b) in enumerate(zip(outputs[:most], hybrid_outputs)):
        close(a, b, f"output {i}", tolerance)
    assert gradients.keys() == hybrid_gradients.keys()
    for name, gradient in gradients.items():
        close(gradient, hybrid_gradients[name], f"gradient of {name}", 5 * tolerance)
    if train:
        assert any(np.abs(g).max() > 0 for g in gradients.values())
    return outputs


def falls(losses):
    """Training works: the mean of the last losses is clearly below that of the first."""
    n = max(1, len(losses) // 4)
    first, last = np.mean(losses[:n]), np.mean(losses[-n:])
    assert np.isfinite(losses).all() and last < 0.9 * first, f"the loss goes from {first} to {last}: {losses}"
