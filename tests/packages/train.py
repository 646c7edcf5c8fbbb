"""A small training run, as a user of the wheel writes it: the loss falls, the network is exported.

SPDX-License-Identifier: Apache-2.0
"""
import sys

import numpy as np
import mxnet as mx
from mxnet import autograd, gluon
from mxnet.gluon import nn

assert "--folder" in sys.argv
folder = sys.argv[sys.argv.index("--folder") + 1]
mx.random.seed(1)
rng = np.random.RandomState(0)
x = mx.nd.array(rng.uniform(-1, 1, (64, 1, 8, 8)))
label = (x.mean(axis=(1, 2, 3)) > 0).astype("float32")

net = nn.HybridSequential()
net.add(nn.Conv2D(4, 3, activation="relu"), nn.Flatten(), nn.Dense(2))
net.initialize(mx.init.Xavier())
net.hybridize()
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
losses = []
for _ in range(60):
    with autograd.record():
        loss = loss_of(net(x), label).mean()
    loss.backward()
    trainer.step(1)
    losses.append(float(loss.asscalar()))
assert losses[-1] < 0.7 * losses[0], losses
net.export(folder + "/net")
x[:1].asnumpy().astype("<f4").tofile(folder + "/in.raw")
np.savetxt(folder + "/wanted", net(x[:1]).asnumpy().ravel())

# libjpeg and libpng are inside.
for suffix in (".jpg", ".png"):
    packed = mx.recordio.pack_img(mx.recordio.IRHeader(0, 1.0, 2, 0), np.full((5, 7, 3), 90, "uint8"), img_fmt=suffix)
    pixels = mx.recordio.unpack_img(packed)[1]
    assert pixels.shape == (5, 7, 3) and abs(int(np.asarray(pixels).max()) - 90) < 3
print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}, level {mx._core.cpu_level()}")
