"""Generated uses of every layer, loss, optimizer, schedule, metric, initializer and transform, from their descriptions.

    python classes.py [-n CASES] [-s SEED] [CLASS...]      cases per class (default 10)

Half of the options are sensible.  Whatever the library accepts must give the same results in every way that it can run: twice,
hybridized with every combination of flags, recorded (then bit by bit, gradients included), with parameters that were saved and
loaded, exported and read again, trained in a loop and by fused steps; and a result must not change while it is held.  Refusing is fine, with an exception.  Each class
runs in a process of its own, so a signal or a hang is reported with the case.  SPDX-License-Identifier: Apache-2.0
"""
import argparse
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import warnings

import numpy as np

import mxnet as mx
from mxnet import _core, autograd, gluon, nd

warnings.simplefilter("ignore")
SECONDS = 30
SHAPES = [(2, 3), (2, 4, 8), (2, 4, 8, 8), (1, 4, 5, 6, 7), (3,), (), (0, 3), (2, 0, 4), (1, 1), (2, 4, 1, 9), (4, 16), (1, 8, 3, 3)]
WORDS = ["", "relu", "tanh", "NCHW", "NHWC", "NTC", "max", "mean", "bogus", "linear", "valid", "zeros", "ones"]
ODD = [None, 0, 1, 2, 3, 5, 8, -1, 2 ** 40, 0.5, 1e30, float("nan"), True, False, (1, 1), (2, 3), (), (0,), "relu", [1, 2], "x"]
FLAGS = [dict(zip(("static_alloc", "static_shape", "inline_limit", "recompute"), flags))
         for flags in itertools.product((False, True), (False, True), (0, 2), (False, True)) if flags[0] or not flags[1]]


class Finding(Exception):
    """Something that must not happen."""


# ---- options and inputs ---------------------------------------------------------------------------------------------

def sensible(name, default, dice):
    if name in ("kernel_size", "pool_size", "strides", "padding", "dilation", "output_padding"):
        return dice.choice([1, 2, 3, (1, 1), (2, 2), (1, 2, 1), 0 if "padding" in name else 1])
    if isinstance(default, bool):
        return dice.random() < 0.5
    if isinstance(default, int):
        return dice.choice([default, 1, 2, 4])
    if isinstance(default, float):
        return dice.choice([default, 0.5, 0.0, 1.0])
    if isinstance(default, str):
        return dice.choice([default, default, dice.choice(WORDS)])
    return dice.choice([2, 4, 1, "relu", (1,), 0.5])


def options_of(row, dice):
    chosen = {}
    for name, default, required, _ in row[3]:
        if required or dice.random() < 0.25:
            chosen[name] = dice.choice(ODD) if dice.random() < 0.15 else sensible(name, default, dice)
    return chosen


def array(dice, shape=None):
    shape = dice.choice(SHAPES) if shape is None else shape
    x = np.random.RandomState(dice.randrange(1 << 30)).uniform(-2, 2, shape).astype("float32")
    if dice.random() < 0.1 and x.size:
        x.ravel()[0] = dice.choice([np.nan, np.inf, -np.inf, 1e30])
    kind = dice.choice(["float32"] * 8 + ["float16", "float64", "int32", "uint8"])
    return nd.array(np.nan_to_num(x) if kind in ("int32", "uint8") else x, dtype=kind)


# ---- results --------------------------------------------------------------------------------------------------------

def flat(results):
    if isinstance(results, (list, tuple)):
        return [x for part in results for x in flat(part)]
    return [results.asnumpy()] if hasattr(results, "asnumpy") else []


def compare(story, wanted, got, exact):
    if len(wanted) != len(got):
        raise Finding(f"{story}: {len(got)} results, imperatively {len(wanted)}")
    for a, b in zip(wanted, got):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise Finding(f"{story}: {b.dtype} {b.shape}, imperatively {a.dtype} {a.shape}")
        finite = np.isfinite(a.astype("float64"))
        room = 0 if exact or not finite.any() else 1e-5 * np.abs(a[finite].astype("float64")).max() + 1e-6
        room = room * 300 if a.dtype == "float16" else room
        if not np.allclose(a.astype("float64"), b.astype("float64"), rtol=0, atol=room, equal_nan=True):
            raise Finding(f"{story}: the results differ by {np.nanmax(np.abs(a.astype('float64') - b.astype('float64')))}")


def run(net, inputs, start, record):
    """Results, and with `record` the gradients of parameters and inputs; parameters start anew."""
    mx.random.seed(7)
    for name, p in net.collect_params().items():
        if name in start:
            p.set_data(start[name])
    if not record:
        return flat(net(*inputs))
    floats = [x for x in inputs if x.dtype in (np.float32, np.float64)]
    for x in floats:
        x.attach_grad()
    with autograd.record():
        out = net(*inputs)
    heads = [x for x in (out if isinstance(out, (list, tuple)) else [out]) if hasattr(x, "backward")]
    autograd.backward(heads)
    grads = [p.grad() for p in net.collect_params().values() if p.grad_req != "null"]
    return flat(out) + flat(grads) + flat([x.grad for x in floats])


def train(net, inputs, start, fused):
    """Losses and parameters of three steps; None where the network cannot be trained."""
    run(net, inputs, start, False)
    weights = {name: p for name, p in net.collect_params().items() if p._data is not None}
    trainer = gluon.Trainer(weights, "sgd", {"learning_rate": 0.01, "momentum": 0.9}, kvstore=None)
    criterion, losses = gluon.loss.L2Loss(), []
    step = gluon.TrainStep(net, criterion, trainer) if fused else None
    label = nd.zeros(net(inputs[0]).shape)
    mx.random.seed(8)
    for _ in range(3):
        if step is not None:
            losses.append(step(inputs[0], label))
            continue
        with autograd.record():
            losses.append(criterion(net(inputs[0]), label))
        losses[-1].backward()
        trainer.step(inputs[0].shape[0])
    return flat(losses) + flat([p.data() for p in weights.values()])


# ---- blocks ---------------------------------------------------------------------------------------------------------

def attempt(work):
    try:
        return work()
    except (Finding, MemoryError, KeyboardInterrupt):
        raise
    except Exception:
        return None


def prepare(cls, options, inputs):
    net = cls(**options)
    net.initialize(mx.init.Uniform(0.5))
    mx.random.seed(7)
    held = net(*inputs)
    return net, held, flat(held), {name: p.data().copy() for name, p in net.collect_params().items() if p._data is not None}


def block_case(cls, options, inputs, folder):
    made = attempt(lambda: prepare(cls, options, inputs))
    if made is None:
        return
    net, held, before, start = made
    plain = run(net, inputs, start, False)
    recorded = attempt(lambda: run(net, inputs, start, True))
    if recorded is not None:
        compare("recorded a second time", recorded, run(net, inputs, start, True), True)
    if isinstance(net, gluon.HybridBlock):
        for flags in FLAGS:
            net.hybridize(True, **flags)
            for _ in range(2):
                compare(f"hybridized {flags}", plain, run(net, inputs, start, False), False)
                if recorded is not None:
                    compare(f"recorded and hybridized {flags}", recorded, run(net, inputs, start, True), True)
        trained(net, inputs, start)
        run(net, inputs, start, False)
        attempt(lambda: read_again(net, inputs, plain, folder))
        net.hybridize(False)
    compare("held", before, flat(held), True)
    net.save_parameters(os.path.join(folder, "p.params"))
    net.load_parameters(os.path.join(folder, "p.params"))


def trained(net, inputs, start):
    """A loop against fused steps, both hybridized and not."""
    if len(inputs) != 1 or not start:
        return
    net.hybridize(False)
    wanted = attempt(lambda: train(net, inputs, start, False))
    for hybrid, fused in ((True, False), (False, True), (True, True)):
        net.hybridize(hybrid)
        if wanted is not None:
            compare(f"trained, hybridized: {hybrid}, fused steps: {fused}", wanted, train(net, inputs, start, fused), True)
    net.hybridize(True)


def read_again(net, inputs, plain, folder):
    net.export(os.path.join(folder, "net"))
    names = ["data"] if len(inputs) == 1 else [f"data{i}" for i in range(len(inputs))]
    params = os.path.join(folder, "net-0000.params")
    again = gluon.SymbolBlock.imports(os.path.join(folder, "net-symbol.json"), names, params if os.path.exists(params) else None)
    mx.random.seed(7)
    compare("exported and read again", plain, flat(again(*inputs)), False)


def layer(row, dice, folder):
    cls = getattr(gluon.nn, row[0], None) or getattr(gluon.rnn, row[0], None) or getattr(gluon.contrib.nn, row[0], None)
    if cls is None:
        return
    options, inputs = options_of(row, dice), [array(dice) for _ in range(dice.choice([1, 1, 1, 1, 2]))]
    yield f"{row[0]}({options}) on {[(x.shape, x.dtype.__name__) for x in inputs]}"
    block_case(cls, options, inputs, folder)


def loss(row, dice, folder):
    cls = getattr(gluon.loss, row[0])
    shape = dice.choice(SHAPES)
    options = options_of(row, dice)
    inputs = [array(dice, shape), array(dice, shape if dice.random() < 0.6 else shape[:-1] if dice.random() < 0.7 else None)]
    yield f"{row[0]}({options}) on {[(x.shape, x.dtype.__name__) for x in inputs]}"
    block_case(cls, options, inputs, folder)


# ---- others: nothing dies -------------------------------------------------------------------------------------------

def optimizer(row, dice, folder):
    options = options_of(row, dice)
    options.pop("lr_scheduler", None)
    weight, grad = array(dice), array(dice)
    grad = grad if dice.random() < 0.3 else nd.array(np.ones(weight.shape), dtype=weight.dtype)
    yield f"{row[0]}({options}) on {weight.shape} {weight.dtype.__name__}, gradient {grad.shape}"

    def work():
        updater = mx.optimizer.get_updater(getattr(mx.optimizer, row[0])(**options))
        for i in range(3):
            updater(0, grad, weight)
        other = mx.optimizer.get_updater(getattr(mx.optimizer, row[0])(**options))
        other.set_states(updater.get_states(dump_optimizer=True))
        return weight.asnumpy()
    attempt(work)


def metric(row, dice, folder):
    options, labels, preds = options_of(row, dice), [array(dice) for _ in range(2)], [array(dice) for _ in range(2)]
    if dice.random() < 0.5:
        shape = dice.choice([(4, 3), (6, 2), (0, 3), (5,)])
        labels, preds = [nd.array(np.zeros(shape[0]))], [array(dice, shape)]
    yield f"{row[0]}({options}) on {[x.shape for x in labels]} {[x.shape for x in preds]}"

    def work():
        made = getattr(mx.metric, row[0])(**options)
        made.get()
        made.update(labels, preds)
        return made.get()
    attempt(work)


def initializer(row, dice, folder):
    options, shape = options_of(row, dice), dice.choice(SHAPES)
    yield f"{row[0]}({options}) on {shape}"

    def work():
        x = nd.zeros(shape)
        getattr(mx.init, row[0])(**options)(mx.init.InitDesc("x_weight"), x)
        return x.asnumpy()
    attempt(work)


def schedule(row, dice, folder):
    options = options_of(row, dice)
    yield f"{row[0]}({options})"
    attempt(lambda: [getattr(mx.lr_scheduler, row[0])(**options)(n) for n in (0, 1, 5, 10 ** 9, -1)])


def transform(row, dice, folder):
    shape = dice.choice([(8, 9, 3), (8, 9, 1), (2, 8, 9, 3), (0, 4, 3), (3, 3), (1, 1, 3), (8, 8, 4)])
    image = nd.array(np.random.RandomState(dice.randrange(1000)).randint(0, 256, shape), dtype=dice.choice(["uint8", "float32"]))
    options = [dice.choice(ODD + [4, 6, (4, 5), 0.3]) for _ in range(dice.choice([0, 1, 1, 2, 3]))]
    yield f"{row[0]}({options}) on {shape}"
    attempt(lambda: flat(getattr(gluon.data.vision.transforms, row[0])(*options)(image)))


KINDS = [(_core.LAYER, layer), (_core.LOSS, loss), (_core.OPTIMIZER, optimizer), (_core.METRIC, metric),
         (_core.INITIALIZER, initializer), (_core.LR_SCHEDULER, schedule)]


# ---- running --------------------------------------------------------------------------------------------------------

def child(row, make, cases, seed, folder, story):
    """Exit status: the number of findings."""
    mx.util.set_limits(memory=1 << 30)
    found = 0
    for case in range(cases):
        signal.alarm(SECONDS)
        try:
            steps = make(row, random.Random(f"{seed} {row[0]} {case}"), folder)
            text = next(steps, None)
            with open(story, "w") as file:
                file.write(str(text))
            next(steps, None)
        except Finding as finding:
            found += 1
            print(f"{text}\n    {finding}", flush=True)
        except MemoryError:
            pass
        except Exception as error:
            found += 1
            print(f"{text}\n    {type(error).__name__}: {error}", flush=True)
    return min(found, 100)


def apart(row, make, cases, seed):
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    story = os.path.join(folder, "story")
    pid = os.fork()
    if pid == 0:
        os._exit(child(row, make, cases, seed, folder, story))
    status = os.waitpid(pid, 0)[1]
    found = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1
    if os.WIFSIGNALED(status):
        with open(story) as file:
            print(f"{file.read()}\n    {signal.Signals(os.WTERMSIG(status)).name}")
    shutil.rmtree(folder, ignore_errors=True)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=10)
    parser.add_argument("-s", type=int, default=1)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    rows = [(row, make) for kind, make in KINDS for row in _core.class_rows(kind)]
    rows += [((name, "", "", (), 0), transform) for name in gluon.data.vision.transforms.__all__]
    rows = [(row, make) for row, make in rows if not args.names or row[0] in args.names]
    found = sum(apart(row, make, args.n, args.s) for row, make in rows)
    print(f"garbage: {len(rows)} classes, {len(rows) * args.n} cases, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
