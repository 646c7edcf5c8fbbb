"""The profiler shows when buckets were under way.  SPDX-License-Identifier: Apache-2.0"""
import json
import os
import tempfile

import mxnet as mx
import mxnet.distributed as dist
from launch import report
from mxnet import autograd, gluon

net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(40, in_units=50), gluon.nn.Dense(40, in_units=40), gluon.nn.Dense(2, in_units=40))
net.initialize()
net.hybridize()
trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore="dist_sync")
with tempfile.TemporaryDirectory() as folder:
    mx.profiler.set_config(filename=os.path.join(folder, "trace.json"), profile_api=True)
    for i in range(6):
        if i == 3:  # buckets are ordered by then
            mx.profiler.set_state("run")
        with autograd.record():
            loss = net(mx.nd.ones((4, 50))).sum()
        loss.backward()
        trainer.step(8)
    mx.profiler.set_state("stop")
    mx.profiler.dump()
    with open(os.path.join(folder, "trace.json"), encoding="utf-8") as file:
        events = [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X"]
report(dist.rank(), [[e["name"], e["ts"], e["dur"]] for e in events if e["name"].startswith("bucket") or e["name"] == "wait"])
