"""Peak memory and time of training steps that keep the values for backward, and of steps that compute them again.

    python bench/recompute.py [NETWORK:BATCH]...      networks of the model zoo, images of 224 x 224 (default: three)

Every way runs in a process of its own, whose largest resident memory counts.  SPDX-License-Identifier: Apache-2.0
"""
import resource
import subprocess
import sys
import time

STEPS = 3
NETWORKS = ["resnet50_v1:8", "densenet121:4", "mobilenetv2_1.0:8"]


def train(name, batch, recompute):
    """Prints MB and seconds of the fastest step."""
    import mxnet as mx
    from mxnet import autograd, gluon, nd
    net, loss_of = gluon.model_zoo.vision.get_model(name), gluon.loss.SoftmaxCrossEntropyLoss()
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, recompute=recompute)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    x, label = nd.random.uniform(shape=(batch, 3, 224, 224)), nd.zeros((batch,))
    seconds = []
    for _ in range(STEPS):
        start = time.perf_counter()
        with autograd.record():
            loss = loss_of(net(x), label)
        loss.backward()
        trainer.step(batch)
        mx.nd.waitall()
        seconds.append(time.perf_counter() - start)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, min(seconds))


def measured(name, batch, recompute):
    command = [sys.executable, __file__, "--here", name, batch, str(int(recompute))]
    memory, seconds = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return int(memory), float(seconds)


def main(arguments):
    if arguments[:1] == ["--here"]:
        return train(arguments[1], int(arguments[2]), arguments[3] == "1")
    for row in arguments or NETWORKS:
        name, batch = row.split(":")
        (kept, fast), (again, slow) = (measured(name, batch, recompute) for recompute in (False, True))
        print(f"{name}, batch {batch}: {kept} -> {again} MB, {1e3 * fast:.0f} -> {1e3 * slow:.0f} ms")


if __name__ == "__main__":
    main(sys.argv[1:])
