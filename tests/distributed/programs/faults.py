"""Rank 1 does something wrong: the first argument says what.  SPDX-License-Identifier: Apache-2.0"""
import os
import signal
import sys
import time

import mxnet as mx
from launch import report
from mxnet import gluon

how = sys.argv[1]
kv = mx.kv.create("dist_sync")
x = mx.nd.ones((4,))
kv.init(0, x)
for i in range(3):
    kv.push(0, x)
if kv.rank == 1:
    if how == "raise":
        raise ValueError("the batch is empty")
    if how == "exit":
        sys.exit(3)
    if how == "early":
        sys.exit(0)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "late":
        time.sleep(2)
    if how == "shape":
        x = mx.nd.ones((7,))
    if how == "type":
        x = x.astype("float64")
    if how == "fewer":
        kv.barrier()
if how == "model":
    net = gluon.nn.Dense(3 + kv.rank, in_units=2)
    net.initialize()
    gluon.Trainer(net.collect_params(), "sgd", kvstore=kv)._start()
if how == "fork":
    child = os.fork()
    if not child:
        try:
            kv.push(0, x)
        except mx.MXNetError as error:
            os._exit(0 if "forked" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
for i in range(3):
    kv.push(0, x)
report(kv.rank, None)
