"""When the gradients of a training step leave, and how long the step waits for them: from the profiler's events.

    mpirun -np 2 python bench/dist/timeline.py MODEL [--steps 20] [--asleep MILLISECONDS]      rank 0 prints JSON

With --asleep a step sleeps that long instead of computing, as the host of a GPU does: forward a third of it, backward the rest, a little
before each gradient.  So more processes can be measured than there are CPUs.

Keys, in milliseconds (of the step at the first quartile: other programs only make steps slower): step, wait, exchange (time in which some bucket was under way); buckets: [bytes, begun after the
start of the step, ended]; hidden: the share of `exchange` in which the step did not wait; forward_backward: a step of as many
processes that exchange nothing, update: the rest of such a step.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import tempfile
import time

import numpy as np

import train


def union(spans):
    """The length of the union of [start, end] pairs."""
    total, last = 0.0, -1.0
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, last))
        last = max(last, end)
    return total


def events(run, steps):
    """Per step: its start, and the events of the domain "exchange"."""
    import mxnet as mx
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        mx.profiler.set_config(filename=path, profile_api=True, profile_all=False, profile_symbolic=False,
                               profile_imperative=False)
        mx.profiler.set_state("run")
        starts = [run() for _ in range(steps)]
        mx.profiler.set_state("stop")
        mx.profiler.dump()
        with open(path, encoding="utf-8") as file:
            trace = json.load(file)
    found = [e for e in trace["traceEvents"] if e.get("ph") == "X" and ("bucket" in e["name"] or e["name"] == "wait")]
    return starts, found


def sleeper(net, seconds):
    """A function that takes as long as forward and gives the parameters of `net` gradients, the last ones first."""
    import mxnet as mx
    from mxnet import autograd
    learning = [p for p in net.collect_params().values() if p.grad_req != "null"]

    class Layer(autograd.Function):
        """Its backward sleeps; the gradient of its parameter is complete then."""
        def forward(self, weight, before):
            self.gradient = mx.nd.zeros_like(weight) + 1e-3
            return before + 0

        def backward(self, gradient):
            time.sleep(2 * seconds / 3 / len(learning))
            return self.gradient, gradient

    def forward(_):
        time.sleep(seconds / 3)
        value = mx.nd.zeros((1,))
        for parameter in learning:
            value = Layer()(parameter.data(), value)
        return value
    return forward


def measure(model, steps, asleep):
    """The numbers of this process."""
    import mxnet as mx
    import mxnet.distributed as dist
    from mxnet import autograd, gluon
    batch = train.BATCH // dist.size()
    mx.random.seed(1)
    net, loss_of, data, label = train.make(model, batch)
    net(data)
    if asleep:
        forward = sleeper(net, asleep)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9}, kvstore="dist_sync")
    alone = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9}, kvstore=None)

    def step(which, times=None):
        start = time.monotonic()
        with autograd.record():
            loss = forward(data) if asleep else loss_of(net(data), label)
        loss.backward()
        if times is not None:
            mx.nd.waitall()
            times.append((start, time.monotonic()))
        which.step(train.BATCH)
        mx.nd.waitall()
        return start * 1e6

    for _ in range(4):
        step(alone)
    dist.barrier()
    parts, wholes = [], []
    for _ in range(steps):
        begun = time.monotonic()
        step(alone, parts)
        wholes.append(time.monotonic() - begun)
    compute, whole = (float(np.quantile(x, 0.25)) for x in ([b - a for a, b in parts], wholes))
    for _ in range(4):
        step(trainer)
    dist.barrier()
    starts, found = events(lambda: step(trainer), steps)
    return starts, found, compute * 1e3, max(0.0, whole - compute) * 1e3


def summarize(starts, found):
    """The step at the first quartile."""
    ends = starts[1:] + [float("inf")]
    rows = []
    for start, end in zip(starts[:-1], ends):
        mine = [(e["name"], e["ts"], e["ts"] + e["dur"]) for e in found if start <= e["ts"] < end]
        buckets = [[int(name.split()[2]), (a - start) / 1e3, (b - start) / 1e3] for name, a, b in mine if name != "wait"]
        waits = sum(b - a for name, a, b in mine if name == "wait") / 1e3
        if buckets:
            rows.append(((end - start) / 1e3, waits, union([b[1:] for b in buckets]), buckets))
    rows.sort(key=lambda row: row[0])
    step, wait, exchange, buckets = rows[len(rows) // 4]
    return {"step": step, "wait": wait, "exchange": exchange, "hidden": max(0.0, 1 - wait / exchange) if exchange else 1.0,
            "buckets": buckets}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--asleep", type=float, default=0)
    args = parser.parse_args()
    import mxnet.distributed as dist
    starts, found, compute, update = measure(args.model, args.steps, args.asleep / 1e3)
    if dist.rank() == 0:
        print(json.dumps({"model": args.model, "processes": dist.size(), "forward_backward": compute, "update": update,
                          **summarize(starts, found)}))


if __name__ == "__main__":
    main()
