"""What the programs of this folder share: the batch, how processes are started, comparisons of two programs in turns.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import subprocess
import sys

BATCH = 64  # of all processes together
MODELS = ["lenet", "resnet18", "lstm"]


def start(processes, threads, *words):
    """The last line that rank 0 of these Python processes printed."""
    env = {**os.environ, "MXNET_CPU_WORKER_NTHREADS": str(threads), "OMPI_ALLOW_RUN_AS_ROOT": "1",
           "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    mpirun = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(processes)] if processes > 1 else []
    done = subprocess.run([*mpirun, sys.executable, *words], env=env, check=True, text=True, stdout=subprocess.PIPE, timeout=600)
    return done.stdout.splitlines()[-1]


def parser_of_two():
    """Options of a program that compares two."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--inner")
    return parser


def samples_per_second(steps, seconds, agree):
    """steps(n): seconds of n steps; agree(n): the number of rank 0."""
    steps(4)
    count = agree(max(2, int(seconds / (steps(3) / 3))))
    return BATCH * count / steps(count)


def compare(args, titles, first, second):
    """Both functions of a model's name in turns, so that a busy machine slows both; prints the pair with the median of second / first."""
    print(f"{'':10}{titles[0]:>14}{titles[1]:>14}{'ratio':>8}")
    for name in args.models:
        pairs = [(first(name), second(name)) for _ in range(args.rounds)]
        one, other = sorted(pairs, key=lambda pair: pair[1] / pair[0])[len(pairs) // 2]
        print(f"{name:10}{one:14.1f}{other:14.1f}{other / one:8.2f}", flush=True)
    return 0
