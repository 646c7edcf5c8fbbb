"""A model of the time of a training step, compared with measurements, and what it expects of large clusters.

    python bench/dist/scale.py [--models lenet resnet18 lstm] [--steps 15] [--rounds 3]

A step computes forward and backward; its buckets leave when their gradients are complete and are summed one after the other:

    begin(i) = max(ready(i), end(i - 1)),  end(i) = begin(i) + T(bytes(i)),  step = max(end of backward, end of the last) + update
    T(bytes) = 2 (n - 1) latency + 2 (n - 1) / n * bytes / bandwidth                                  a ring of n processes

Where processes compute on the CPUs that exchange as well, nothing is free: T(bytes) is added to the time of backward (`busy` = 1).
GPUs exchange beside their computation (`busy` = 0); so that this can be measured with more processes than CPUs, they sleep instead of
computing (timeline.py --asleep), half as long as two processes that compute take, but 20 ms at least: sleep is not exact.

Measured: ready(i) and bytes(i) (timeline.py), forward and backward of as many processes without an exchange, T by an all-reduce
of two sizes.  Steps with and without an exchange are made in turns, --rounds times; the fastest count, as other programs only make
them slower.  SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import sys

from common import MODELS, start

HERE = os.path.dirname(os.path.abspath(__file__))
FABRICS = [  # name, bytes/s of one GPU, seconds of one message
    ("100 Gbit/s Ethernet, 8 GPUs share it", 12.5e9 / 8, 10e-6),
    ("InfiniBand HDR 200 Gbit/s, 2 GPUs share it", 25e9 / 2, 2e-6),
    ("InfiniBand NDR 400 Gbit/s per GPU", 50e9, 2e-6),
]
GPUS = [8, 64, 512, 4096]


def ring(count, size, latency, bandwidth):
    """Seconds of an all-reduce of `size` bytes."""
    return 2 * (count - 1) * latency + 2 * (count - 1) / count * size / bandwidth if count > 1 else 0.0


def step_time(buckets, compute, update, exchange, busy):
    """Seconds.  buckets: (bytes, seconds from the start of the step to its gradients, without exchange); exchange(bytes): T."""
    end, stolen = 0.0, 0.0
    for size, ready in buckets:
        begin = max(ready + stolen, end)
        end = begin + exchange(size)
        stolen += busy * exchange(size)
    return max(compute + (stolen if busy else 0.0), end) + update


def probe():
    """In a process: seconds of an all-reduce of 4 kB and of 4 MB, the fastest of several."""
    import time

    import mxnet as mx
    import mxnet.distributed as dist
    result = []
    for size in (4096, 4 << 20):
        x, times = mx.nd.zeros((size // 4,)), []
        for _ in range(30):
            dist.barrier()
            begin = time.monotonic()
            dist.allreduce_(x, op="sum")
            times.append(time.monotonic() - begin)
        result.append(min(times))
    if dist.rank() == 0:
        print(json.dumps(result))


def fabric_here(processes):
    """Latency and bandwidth that explain both measurements."""
    small, large = json.loads(start(processes, 1, os.path.abspath(__file__), "--probe"))
    slope = max(1e-12, (large - small) / ((4 << 20) - 4096))
    bandwidth = 2 * (processes - 1) / processes / slope
    return max(0.0, small - slope * 4096) / (2 * (processes - 1)), bandwidth


def timeline_of(measured):
    """Buckets and times in seconds.  With the exchange going on, gradients come late: their order and proportions are those of backward."""
    compute, update = measured["forward_backward"] / 1e3, measured["update"] / 1e3
    first, last = (f(b[1] for b in measured["buckets"]) / 1e3 for f in (min, max))
    shrink = (compute - min(first, compute)) / (last - first) if last > first else 0.0
    return [(b[0], min(first, compute) + (b[1] / 1e3 - first) * shrink) for b in measured["buckets"]], compute, update


def compare(model, steps, processes, asleep, rounds):
    """Prints a measured and an expected step; returns the timeline, and whether the error is small."""
    words = [os.path.join(HERE, "timeline.py"), model, "--steps", str(steps), "--asleep", str(asleep), "--quantile", "0"]
    found = [(json.loads(start(processes, 1, *words)), fabric_here(processes)) for _ in range(rounds)]
    measured = min((m for m, _ in found), key=lambda m: m["step"])
    latency, bandwidth = min((f for _, f in found), key=lambda f: ring(processes, 4 << 20, *f))
    timeline = timeline_of(measured)
    expected = 1e3 * step_time(*timeline, lambda size: ring(processes, size, latency, bandwidth), 0 if asleep else 1)
    error = expected / measured["step"] - 1
    print(f"{model:10}{processes:10}{'asleep' if asleep else 'computing':>11}{measured['step']:10.1f}{expected:11.1f}{100 * error:+9.0f} %"
          f"{1e6 * latency:12.1f}{bandwidth / 1e9:10.2f}", flush=True)
    return timeline, abs(error) <= 0.1


def compare_all(model, steps, rounds):
    """Two processes that compute; two and four that sleep."""
    timeline, good = compare(model, steps, 2, 0, rounds)
    asleep = max(20.0, 500 * timeline[1])
    return timeline, [good] + [compare(model, steps, n, asleep, rounds)[1] for n in (2, 4)]


def expect(model, timeline, speedup):
    """Efficiency on fabrics: one process alone takes compute + update."""
    buckets, compute, update = timeline
    buckets = [(size, ready / speedup) for size, ready in buckets]
    compute, update = compute / speedup, update / speedup
    for name, bandwidth, latency in FABRICS:
        shares = [(compute + update) / step_time(buckets, compute, update, lambda size, n=n: ring(n, size, latency, bandwidth), 0)
                  for n in GPUS]
        print(f"{model:10}{name:46}" + "".join(f"{100 * share:9.0f} %" for share in shares))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--speedup", type=float, default=100, help="of a GPU over one thread of this machine")
    parser.add_argument("--probe", action="store_true")
    args = parser.parse_args()
    if args.probe:
        return probe()
    print("Processes that compute need a CPU each: more of them than CPUs are not modelled, so four sleep instead of computing.")
    print(f"{'':10}{'processes':>10}{'':11}{'step, ms':>10}{'model, ms':>11}{'error':>11}{'latency, us':>12}{'GB/s':>10}")
    results = {model: compare_all(model, args.steps, args.rounds) for model in args.models}
    good = [each for _, errors in results.values() for each in errors]
    print(f"{sum(good)} of {len(good)} within 10 %")
    print(f"\nEfficiency expected with the buckets above, a GPU {args.speedup:g} times as fast as one thread here, a ring over all "
          "GPUs, exchange beside\ncomputation, {} examples per GPU:".format(32))
    print(f"{'':56}" + "".join(f"{n:11}" for n in GPUS))
    for model, (timeline, _) in results.items():
        expect(model, timeline, args.speedup)
    return 0


if __name__ == "__main__":
    sys.exit(main())
