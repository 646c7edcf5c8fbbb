"""SyncBatchNorm of several processes is BatchNorm of one on the whole batch.  SPDX-License-Identifier: Apache-2.0"""
import threading

import numpy as np

import mxnet as mx
import mxnet.distributed as dist
from launch import report
from mxnet import autograd, gluon
from mxnet.gluon.contrib.nn import SyncBatchNorm

rank, size = dist.rank(), dist.size()
rng = np.random.RandomState(2)
x = (rng.randn(12, 3, 4, 2) * 2 + 5).astype("float32")
weight = rng.randn(12, 3, 4, 2).astype("float32")
rows = np.array_split(np.arange(12), [1, 5, 9][:size - 1]) if size > 1 else [np.arange(12)]  # of different sizes


def results(layer, part, hybrid, dtype="float32"):
    layer.initialize()
    if hybrid:
        layer.hybridize()
    data = mx.nd.array(x[part]).astype(dtype)
    data.attach_grad()
    for _ in range(2):
        with autograd.record():
            y = layer(data)
            (y * mx.nd.array(weight[part]).astype(dtype)).sum().backward()
    grads = [layer.gamma.grad(), layer.beta.grad()] if layer.gamma.grad_req != "null" else [layer.beta.grad()]
    return [a.asnumpy() for a in (y, data.grad, layer.running_mean.data(), layer.running_var.data(), *grads)]


for hybrid in (False, True):
    for keywords in ({}, {"scale": False, "momentum": 0.5, "epsilon": 1e-3}):
        whole = results(gluon.nn.BatchNorm(**keywords), np.arange(12), hybrid)
        mine = results(SyncBatchNorm(num_devices=size, **keywords), rows[rank], hybrid)
        for i, (a, b) in enumerate(zip(mine, whole)):
            if i >= 4:  # gradients of parameters: the trainer sums them
                a = dist.allreduce(mx.nd.array(a), op="sum").asnumpy()
            np.testing.assert_allclose(a, b[rows[rank]] if i < 2 else b, rtol=2e-4, atol=2e-4, err_msg=f"{hybrid} {i}")
half = results(SyncBatchNorm(), rows[rank], False, "float16")
np.testing.assert_allclose(half[0], results(gluon.nn.BatchNorm(), np.arange(12), False)[0][rows[rank]], atol=2e-2)

# Two contexts in each process, with a thread each: the rows of this process in two parts.
contexts, shared = [mx.cpu(0), mx.cpu(1)], SyncBatchNorm(num_devices=2 * size)
shared.initialize(ctx=contexts)
twelve = np.arange(12 // (2 * size) * 2 * size).reshape(size, 2, -1)[rank]
outputs = [None, None]


def on_context(i):
    with autograd.record():
        outputs[i] = shared(mx.nd.array(x[twelve[i]], ctx=contexts[i]))
    outputs[i].backward(mx.nd.array(weight[twelve[i]], ctx=contexts[i]))


if 12 % (2 * size) == 0:
    threads = [threading.Thread(target=on_context, args=(i,)) for i in range(2)]
    [t.start() for t in threads], [t.join() for t in threads]
    once = gluon.nn.BatchNorm()
    once.initialize()
    with autograd.record():
        wanted = once(mx.nd.array(x))
    wanted.backward(mx.nd.array(weight))
    for i in range(2):
        np.testing.assert_allclose(outputs[i].asnumpy(), wanted.asnumpy()[twelve[i]], rtol=2e-4, atol=2e-4)
        np.testing.assert_allclose(shared.running_var.data(contexts[i]).asnumpy(), once.running_var.data().asnumpy(), rtol=1e-4)
    grad = dist.allreduce(shared.gamma.grad(contexts[0]) + shared.gamma.grad(contexts[1]).as_in_context(contexts[0]), op="sum")
    np.testing.assert_allclose(grad.asnumpy(), once.gamma.grad().asnumpy(), rtol=1e-3, atol=1e-3)
report(rank, None)
