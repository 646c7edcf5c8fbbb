#!/bin/sh
# The C examples on a GPU: gpu_examples.sh FOLDER.  Networks say the same there as on the CPU, and learn as well.
#
# SPDX-License-Identifier: Apache-2.0
set -eu
programs=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "gpu_examples: $1" >&2
    exit 1
}

python3 - <<'PROGRAM'
import mxnet as mx, numpy as np
from mxnet.gluon import nn
net = nn.HybridSequential()
net.add(nn.Conv2D(4, 3, activation="relu"), nn.BatchNorm(), nn.MaxPool2D(), nn.Dense(10))
net.initialize()
net.hybridize()
x = mx.nd.random.normal(shape=(2, 1, 28, 28))
net(x)
net.export("net")
np.save("x.npy", x.asnumpy())
PROGRAM
"$programs/deploy" net-symbol.json net-0000.params x.npy >here || fail "deploy failed"
"$programs/deploy" --gpu net-symbol.json net-0000.params x.npy >there || fail "deploy --gpu failed"
paste here there | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-4) exit 1 } END { exit NR != 20 }' ||
    fail "deploy: $(paste here there | head -3)"
"$programs/deploy" --gpu net-symbol.json net-0000.params x.npy 4 | grep -q "one answer" || fail "threads differ"
echo "deploy --gpu: as on the CPU"

if "$programs/lenet" --epochs 1 --examples 64 >/dev/null 2>&1; then
    "$programs/lenet" --gpu --epochs 2 --examples 6400 | tee out
    accuracy=$(sed -n 's/.*test \([0-9.]*\) %.*/\1/p' out | tail -1)
    awk "BEGIN { exit !($accuracy >= 70) }" || fail "lenet --gpu reaches $accuracy %, wanted 70"
else
    echo "lenet --gpu: Fashion-MNIST is not here"
fi
