"""Module.fit with a store of several processes.  SPDX-License-Identifier: Apache-2.0"""
import numpy as np

import mxnet as mx
from launch import report

kv = mx.kv.create("dist_sync")
rng = np.random.RandomState(1)
x, y = rng.randn(48, 6).astype("float32"), rng.randint(0, 3, 48).astype("float32")
mx.random.seed(4)
net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="a")
net = mx.sym.FullyConnected(mx.sym.Activation(net, act_type="tanh"), num_hidden=3, name="b")
net = mx.sym.SoftmaxOutput(net, name="softmax")
data = mx.io.NDArrayIter(x[kv.rank::kv.num_workers], y[kv.rank::kv.num_workers], 12 // kv.num_workers)
module = mx.mod.Module(net)
module.fit(data, num_epoch=3, kvstore=kv, optimizer="sgd", optimizer_params={"learning_rate": 0.1, "momentum": 0.9},
           initializer=mx.init.Xavier())
arguments, _ = module.get_params()
report(kv.rank, [arguments[name].asnumpy().ravel().tolist() for name in sorted(arguments)])
