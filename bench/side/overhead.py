"""The overhead of Python: small calls compared with NumPy's, and the training step of LeNet compared with C.

Each line names its limit; the program reports how many lines missed it.  Ratios are taken within a run, in turns, from the
fastest stretches: other load on the machine only adds time.

    overhead.py --path build/python --lenet build/bench/bench_lenet

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import os
import re
import subprocess
import sys
import time

STRETCHES, SECONDS = 30, 0.02


def fastest(*calls):
    """Seconds per call of each: the fastest of many stretches, taken in turns."""
    counts, best = [], [float("inf")] * len(calls)
    for call in calls:
        count = 1
        while stretch(call, count) < SECONDS / 2:
            count *= 2
        counts.append(count)
    for _ in range(STRETCHES):
        for i, call in enumerate(calls):
            best[i] = min(best[i], stretch(call, counts[i]) / counts[i])
    return best


def stretch(call, count):
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start


class Report:
    """Lines with a measured number, its limit, and whether it is met."""

    def __init__(self):
        self.missed = 0

    def line(self, what, seconds, limit, reason):
        fine = seconds <= limit
        self.missed += not fine
        verdict = "at most" if fine else "MISSED:"
        print(f"{what:<44} {1e6 * seconds:8.3f} us   {verdict} {1e6 * limit:.3f} us ({reason})")


def small_operations(report):
    import numpy as np
    from mxnet import autograd, nd
    a, b = nd.ones((16,)), nd.ones((16,))
    host = np.ones(16, "float32")
    variable = nd.ones((16,))
    variable.attach_grad()
    x, y = nd.ones((4, 4)), nd.ones((4, 4))

    plain, ours, empty = fastest(lambda: host + host, lambda: a + b, lambda: None)
    with autograd.record():
        recorded, = fastest(lambda: variable + b)
    print(f"{'NumPy: a + b, 16 elements':<44} {1e6 * plain:8.3f} us   (calling an empty function: {1e6 * empty:.3f})")
    report.line("a + b, 16 elements", ours, plain, "as NumPy")
    report.line("a + b, 16 elements, recorded", recorded, 2 * plain, "twice NumPy")
    reshape, spelled, index, dot = fastest(lambda: x.reshape((2, 8)), lambda: x.reshape(2, 8), lambda: x[0],
                                           lambda: nd.dot(x, y))
    report.line("x.reshape((2, 8))", reshape, 1e-6, "1 us")
    report.line("x.reshape(2, 8)", spelled, 1e-6, "1 us")
    report.line("x[0]", index, 1e-6, "1 us")
    report.line("nd.dot(x, y), 4x4", dot, 1e-6, "1 us")


def numpys_interface(report):
    import numpy
    from mxnet import np
    host, x = numpy.ones(16, "float32"), np.ones(16)
    plain, added, spelled = fastest(lambda: numpy.add(host, host), lambda: np.add(x, x), lambda: x + x)
    report.line("np.add(x, x), 16 elements", added, plain, "as NumPy")
    report.line("x + x of mx.np, 16 elements", spelled, plain, "as NumPy's add")


def layers(report):
    from mxnet import nd
    from mxnet.gluon import nn
    x = nd.ones((4, 16))
    dense = nn.Dense(16)
    chain = nn.Sequential()
    chain.add(nn.Dense(16), nn.Dense(16), nn.Dense(16))
    hybrid = nn.HybridSequential()
    hybrid.add(nn.Dense(16), nn.Dense(16), nn.Dense(16))
    for net in (dense, chain, hybrid):
        net.initialize()
        net(x)
    hybrid.hybridize()
    one, three, compiled = fastest(lambda: dense(x), lambda: chain(x), lambda: hybrid(x))
    report.line("Dense(16)(x), x (4, 16)", one, 3e-6, "3 us")
    report.line("Sequential of 3 Dense(16)", three, 6e-6, "6 us")
    report.line("HybridSequential of 3, hybridized", compiled, 6e-6, "6 us")


def lenet_step():
    """The step of bench/bench_lenet.c, from Python."""
    import mxnet as mx
    from mxnet import autograd, gluon, nd
    from mxnet.gluon import nn
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, 5, padding=2, activation="relu"), nn.MaxPool2D(2), nn.Conv2D(16, 5, activation="relu"),
            nn.MaxPool2D(2), nn.Dense(120, activation="relu"), nn.Dense(84, activation="relu"), nn.Dense(10))
    net.initialize(mx.init.Xavier())
    criterion = gluon.loss.SoftmaxCrossEntropyLoss()
    data, label = nd.random.uniform(shape=(64, 1, 28, 28)), nd.floor(nd.random.uniform(0, 10, shape=(64,)))
    net(data)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.001, "momentum": 0.9})

    def step():
        with autograd.record():
            loss = criterion(net(data), label)
        loss.backward()
        trainer.step(64)
    return step


def lenet_in_c(program, threads):
    """Seconds of a step as the C program measures them, or None."""
    said = subprocess.run([program, "0.1"], capture_output=True, text=True).stdout
    found = re.search(rf"^step, {threads} thread\w*\s+(\d+) us", said, re.MULTILINE)
    return float(found.group(1)) * 1e-6 if found else None


def lenet(report, program):
    from mxnet import _core
    step = lenet_step()
    for threads in sorted({1, _core.num_threads()}):
        _core.set_num_threads(threads)
        ours, c = float("inf"), float("inf")
        for _ in range(6):
            ours = min(ours, fastest(step)[0])
            c = min(c, lenet_in_c(program, threads) or float("inf"))
        report.line(f"LeNet b64 training step, {threads} thread{'s' if threads > 1 else ''}", ours, 1.1 * c,
                    f"1.1 times the step in C, {1e6 * c:.0f} us")


def main():
    parser = argparse.ArgumentParser(description="Measures the overhead of Python.")
    parser.add_argument("--path", required=True, help="the folder that holds mxnet")
    parser.add_argument("--lenet", help="the program bench_lenet")
    options = parser.parse_args()
    sys.path.insert(0, options.path)
    load, cores = os.getloadavg()[0], os.cpu_count()
    if load > cores / 2:
        print(f"load {load:.1f} on {cores} cores: steps with several threads are unreliable")
    report = Report()
    small_operations(report)
    numpys_interface(report)
    layers(report)
    if options.lenet and os.access(options.lenet, os.X_OK):
        lenet(report, options.lenet)
    print("all within their limits" if not report.missed else f"{report.missed} missed")


if __name__ == "__main__":
    main()
