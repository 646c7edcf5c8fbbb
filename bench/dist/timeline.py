"""When the gradients of a training step leave, and how long the step waits for them: from the profiler's events.

    mpirun -np 2 python bench/dist/timeline.py MODEL [--steps 20] [--asleep MILLISECONDS] [--quantile 0.25]      rank 0 prints JSON

With --asleep a step sleeps that long instead of computing, as the host of a GPU does: forward a third of it, backward the rest, a little
before each gradient.  So more processes can be measured than there are CPUs.

Steps with an exchange and without one are made in turns.  Keys, in milliseconds, of the step at the quantile (other programs only
make steps slower; 0: the fastest): step, wait, exchange (time in which some bucket was under way); buckets: [bytes, begun after the start
of the step, ended]; hidden: the share of `exchange` in which the step did not wait; forward_backward: of a step without an exchange, by as
many processes; update: the rest of such a step.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import tempfile
import time

import numpy as np

import train
from common import BATCH


def union(spans):
    """The length of the union of [start, end] pairs."""
    total, last = 0.0, -1.0
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, last))
        last = max(last, end)
    return total


def events(run, steps):
    """Per step: its start and end, and the events of the domain "exchange"."""
    import mxnet as mx
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        mx.profiler.set_config(filename=path, profile_api=True, profile_all=False, profile_symbolic=False,
                               profile_imperative=False)
        mx.profiler.set_state("run")
        spans = [run() for _ in range(steps)]
        mx.profiler.set_state("stop")
        mx.profiler.dump()
        with open(path, encoding="utf-8") as file:
            trace = json.load(file)
    found = [e for e in trace["traceEvents"] if e.get("ph") == "X" and ("bucket" in e["name"] or e["name"] == "wait")]
    return spans, found


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


def measure(model, steps, asleep, quantile):
    """The numbers of this process."""
    import mxnet as mx
    import mxnet.distributed as dist
    from mxnet import autograd, gluon
    batch = BATCH // dist.size()
    mx.random.seed(1)

    def make(store):
        """A network of its own, as gradients leave while backward finishes them; a function that makes a step."""
        net, loss_of, data, label = train.make(model, batch)
        net(data)
        forward = sleeper(net, asleep) if asleep else None
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9}, kvstore=store)

        def step(times=None):
            start = time.monotonic()
            with autograd.record():
                loss = forward(data) if asleep else loss_of(net(data), label)
            loss.backward()
            if times is not None:
                mx.nd.waitall()
                times.append((start, time.monotonic()))
            trainer.step(BATCH)
            mx.nd.waitall()
            return start, time.monotonic()
        return step

    alone, exchanging = make(None), make("dist_sync")
    parts, wholes = [], []

    def both():
        dist.barrier()
        wholes.append(alone(parts))
        dist.barrier()
        begun, ended = exchanging()
        return begun * 1e6, ended * 1e6

    for _ in range(4):
        both()
    del parts[:], wholes[:]
    spans, found = events(both, steps)
    compute, whole = (float(np.quantile([b - a for a, b in x], quantile)) for x in (parts, wholes))
    return spans, found, compute * 1e3, max(0.0, whole - compute) * 1e3


def summarize(spans, found, quantile):
    """The step at the quantile."""
    rows = []
    for start, end in spans:
        mine = [(e["name"], e["ts"], e["ts"] + e["dur"]) for e in found if start <= e["ts"] < end]
        buckets = [[int(name.split()[2]), (a - start) / 1e3, (b - start) / 1e3] for name, a, b in mine if name != "wait"]
        waits = sum(b - a for name, a, b in mine if name == "wait") / 1e3
        if buckets:
            rows.append(((end - start) / 1e3, waits, union([b[1:] for b in buckets]), buckets))
    rows.sort(key=lambda row: row[0])
    step, wait, exchange, buckets = rows[int(quantile * (len(rows) - 1))]
    return {"step": step, "wait": wait, "exchange": exchange, "hidden": max(0.0, 1 - wait / exchange) if exchange else 1.0,
            "buckets": buckets}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--asleep", type=float, default=0)
    parser.add_argument("--quantile", type=float, default=0.25)
    args = parser.parse_args()
    import mxnet.distributed as dist
    spans, found, compute, update = measure(args.model, args.steps, args.asleep / 1e3, args.quantile)
    if dist.rank() == 0:
        print(json.dumps({"model": args.model, "processes": dist.size(), "forward_backward": compute, "update": update,
                          **summarize(spans, found, args.quantile)}))


if __name__ == "__main__":
    main()
