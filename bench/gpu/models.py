"""Training steps of models on one GPU, compared with PyTorch (eager, as a CUDA graph, compiled) if it is installed.

    python bench/gpu/models.py [--rows resnet50,gpt2,...] [--seconds 1] [--peers] [--profile]

Each row is a separate process, so that peak memory is that of one model: the peak of arrays (PyTorch:
max_memory_allocated) and the increase of the device's memory in use, libraries and caches included.  Times are medians;
steps are queued in groups before each wait, as in a training loop.  The last column is the time from the start of building
the model to the end of its first step.  --profile adds a run that waits for every launch, and lists time by operator.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

import ours
import peers
from peer_graph import as_graph
from sizes import ROWS


def median_seconds(step, wait, seconds, group):
    """Median time of one step; `group` steps are queued before each wait."""
    for _ in range(2):
        step()
    wait()
    times, until = [], time.perf_counter() + seconds
    while time.perf_counter() < until or len(times) < 3:
        start = time.perf_counter()
        for _ in range(group):
            step()
        wait()
        times.append((time.perf_counter() - start) / group)
    return statistics.median(times)


def device_bytes():
    import mxnet as mx
    unused, everything = mx.context.gpu_memory_info(0)
    return everything - unused


def show(row, who, seconds, arrays, device, start):
    unit, each = ROWS[row]
    value = f"{seconds * 1e3:10.3f} ms   " if unit == "ms" else f"{each / seconds:10.0f} {unit:5}"
    print(f"{row:14} {who:24} {value} {seconds * 1e3:9.3f} ms/step  arrays {arrays / 1e9:6.2f} GB  device {device / 1e9:6.2f} GB"
          f"  first step {start:5.1f} s", flush=True)


def profiled(step, wait, count=3):
    """Time by operator, the longest first; the environment makes every launch wait (see main)."""
    import json
    from mxnet import profiler
    profiler.set_config(profile_symbolic=True, profile_imperative=True)
    profiler.set_state("run")
    for _ in range(count):
        step()
    wait()
    profiler.set_state("stop")
    rows = json.loads(profiler.dumps(format="json"))["Time"]["operator"]
    print(f"  launches that are waited for: {sum(row['Total'] for row in rows.values()) / count:.3f} ms per step")
    for name, row in list(rows.items())[:30]:
        print(f"  {row['Total'] / count:9.3f} ms {row['Count'] // count:5} x  {name}")


def run_peer(row, seconds, group):
    import torch

    def used():
        unused, everything = torch.cuda.mem_get_info()
        return everything - unused
    torch.zeros(1, device="cuda")
    before, start = used(), time.perf_counter()
    step, wait = peers.training_step(row)
    kinds = {"pytorch eager": lambda: step, "pytorch CUDA graph": lambda: as_graph(step)}
    if row in ("gpt2", "bert_lm", "mobilenet"):
        kinds["pytorch compiled"] = lambda: peers.training_step(row, compiled=True)[0]
    for who, prepare in kinds.items():
        ready = prepare()
        ready()
        wait()
        first = time.perf_counter() - start
        median = median_seconds(ready, wait, seconds, group)
        show(row, who, median, torch.cuda.max_memory_allocated(), used() - before, first)
        torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()


def run_row(row, options):
    group = 10 if row == "lstm" else 2
    if options.peer:
        return run_peer(row, options.seconds, group)
    import mxnet as mx
    mx.nd.zeros(1, ctx=mx.gpu(0)).wait_to_read()
    before, start = device_bytes(), time.perf_counter()
    step, wait, how = ours.training_step(row, not options.hybridized)
    step()
    wait()
    first = time.perf_counter() - start
    seconds = median_seconds(step, wait, options.seconds, group)
    show(row, f"gluon {how()}", seconds, mx.context.gpu_memory_used()[1], device_bytes() - before, first)
    if options.profile:
        profiled(step, wait)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--peers", action="store_true", help="run PyTorch as well")
    parser.add_argument("--hybridized", action="store_true", help="record, backward, trainer.step instead of the fused step")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        return run_row(options.row, options)
    rest = [f"--seconds={options.seconds}"] + ["--hybridized"] * options.hybridized
    waiting = dict(os.environ, CUDA_LAUNCH_BLOCKING="1", GLUON_CUDA_GRAPHS="0")
    for row in options.rows.split(","):
        for more, environment in (([], None), (["--peer"], None), (["--profile"], waiting)):
            if not more or (options.peers if more == ["--peer"] else options.profile):
                subprocess.run([sys.executable, __file__, "--row", row, *more, *rest], check=False, env=environment)


if __name__ == "__main__":
    sys.exit(main())
