"""Trains example networks for many steps and watches what must not grow: memory, open files, threads.

    python drift.py [-n STEPS] [-j JOBS] [NETWORK[:MODE]...]      steps per network and mode (default 2000), so many processes

After a tenth of the steps the resident memory may grow by 0.1 % and one page per descriptor; files and threads stay the same.
Every network and mode has a process of its own.  SPDX-License-Identifier: Apache-2.0
"""
import argparse
import concurrent.futures
import gc
import os
import subprocess
import sys
import time

CHECKS = 20  # points at which memory is read; the least of the last quarter counts, as the allocator breathes


def state():
    """(bytes of resident memory, open files, threads)."""
    gc.collect()
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["VmRSS"].split()[0]) * 1024, len(os.listdir("/proc/self/fd")), int(fields["Threads"])


def train(step, steps):
    """The states at CHECKS points."""
    import numpy as np
    states = []
    for i in range(steps):
        loss = step()
        if i % 50 == 0 and not np.isfinite(loss.mean().asscalar()):
            raise AssertionError(f"the loss is not finite at step {i}")
        if (i + 1) % max(1, steps // CHECKS) == 0:
            states.append(state())
    return states


def finding(states):
    """What grew, as text; None if nothing did."""
    early, late = states[len(states) // 10:len(states) // 2], states[-len(states) // 4:]
    before, after = max(s[0] for s in early), min(s[0] for s in late)
    if after > before * 1.001 + 4096:
        return f"memory grew from {before} to {after} bytes"
    for i, what in ((1, "open files"), (2, "threads")):
        if late[-1][i] != early[0][i]:
            return f"{early[0][i]} {what} became {late[-1][i]}"
    return None


def run(name, steps):
    """In this process: NETWORK:MODE."""
    import mxnet as mx
    from drift_networks import NETWORKS
    network, mode = name.split(":")
    mx.random.seed(1)
    start = time.process_time()
    states = train(NETWORKS[network](mode), steps)
    found = finding(states)
    print(f"{name}: {steps} steps, {time.process_time() - start:.1f} s, {states[-1][0] / 2 ** 20:.2f} MiB, "
          f"{(states[-1][0] / states[len(states) // 10][0] - 1) * 100:+.3f} %, {states[-1][1]} files, {states[-1][2]} threads"
          f"{': ' + found if found else ''}", flush=True)
    return found is not None


def start(name, steps):
    """In another one: whether it failed, and what it printed."""
    done = subprocess.run([sys.executable, os.path.abspath(__file__), "-n", str(steps), "--here", name], capture_output=True, text=True)
    return done.returncode != 0, done.stdout + (done.stderr if done.returncode and not done.stdout else "")


def chosen(names):
    from drift_networks import MODES
    every = [f"{network}:{mode}" for network, modes in MODES.items() for mode in modes]
    return [name for name in every if not names or name in names or name.split(":")[0] in names]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=2000)
    parser.add_argument("-j", type=int, default=1)
    parser.add_argument("--here", help=argparse.SUPPRESS)
    parser.add_argument("networks", nargs="*")
    given = parser.parse_args()
    if given.here:
        return run(given.here, given.n)
    names = chosen(given.networks)
    if given.networks and not names:
        parser.error(f"there is no network {given.networks[0]}")
    failed = []
    with concurrent.futures.ThreadPoolExecutor(given.j) as pool:
        for name, (bad, text) in zip(names, pool.map(lambda name: start(name, given.n), names)):
            print(text, end="" if text.endswith("\n") else "\n", flush=True)
            failed += [name] * bad
    print(f"{len(names)} trainings, {len(failed)} grew or failed{': ' + ' '.join(failed) if failed else ''}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
