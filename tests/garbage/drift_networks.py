"""Small versions of the networks of our examples, of the book and of the zoo, for drift.py: NETWORKS[name](mode) is a training
step, a function that returns the loss.  Modes: imperative, hybridized, fused (TrainStep).

Examples whose network is another's have no entry of their own: deploy and distributed train lenet.
SPDX-License-Identifier: Apache-2.0
"""
import os
import random
import sys

import numpy as np

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.contrib import ndarray as contrib
from mxnet.gluon import nn
from mxnet.gluon.model_zoo import text, vision

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "python"))
import char_rnn  # noqa: E402
import custom_dataset  # noqa: E402
import custom_function  # noqa: E402
import gan  # noqa: E402
import language_model  # noqa: E402
import lenet as lenet_example  # noqa: E402
import transformer  # noqa: E402
import tree_lstm  # noqa: E402
import vae  # noqa: E402

IMPERATIVE, HYBRIDIZED, FUSED = "imperative", "hybridized", "fused"
NETWORKS, MODES = {}, {}


def network(*modes):
    def add(build):
        NETWORKS[build.__name__], MODES[build.__name__] = build, modes
        return build
    return add


every_mode = network(IMPERATIVE, HYBRIDIZED, FUSED)


def integers(high, shape):
    return nd.array(np.random.randint(0, high, shape))


def prepared(net, mode):
    net.initialize(mx.init.Xavier())
    if mode != IMPERATIVE:
        net.hybridize(static_alloc=True)
    return net


def step_of(net, draw, mode, loss=None, optimizer="adam", **options):
    """draw(): the inputs and the label of a step."""
    net, loss = prepared(net, mode), loss or gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), optimizer, options)
    if mode == FUSED:
        fused = gluon.TrainStep(net, loss, trainer)
        return lambda: fused(*draw())

    def step():
        *inputs, label = draw()
        with autograd.record():
            result = loss(net(*inputs), label)
        result.backward()
        trainer.step(len(label))
        return result
    return step


# ---- images ---------------------------------------------------------------------------------------------------------

@every_mode
def lenet(mode):
    return step_of(lenet_example.lenet(), lambda: (nd.random.uniform(shape=(4, 1, 16, 16)), integers(10, 4)), mode, momentum=0.9,
                   optimizer="sgd")


@every_mode
def resnet(mode):
    """The example on several processes trains one."""
    net = vision.ResNetV1(vision.BasicBlockV1, [1, 1], [4, 4, 8], classes=10, thumbnail=True)
    return step_of(net, lambda: (nd.random.uniform(shape=(2, 3, 8, 8)), integers(10, 2)), mode, optimizer="nag")


@every_mode
def mobilenet(mode):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, padding=1, in_channels=3), nn.BatchNorm(), nn.Activation("relu"),
            nn.Conv2D(8, 3, padding=1, groups=8, in_channels=8), nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Dense(10))
    return step_of(net, lambda: (nd.random.uniform(shape=(2, 3, 8, 8)), integers(10, 2)), mode)


class SSD(nn.HybridBlock):
    """The detector of the book, with one map."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.stem = nn.HybridSequential()
            self.stem.add(nn.Conv2D(8, 3, strides=2, padding=1), nn.BatchNorm(), nn.Activation("relu"))
            self.what, self.where = nn.Conv2D(2 * 3, 3, padding=1), nn.Conv2D(2 * 4, 3, padding=1)

    def hybrid_forward(self, F, x):
        x = self.stem(x)
        anchors = F.contrib.MultiBoxPrior(x, sizes=(0.3, 0.5), ratios=(1,))
        scores = F.reshape(F.transpose(self.what(x), (0, 2, 3, 1)), (0, -1, 3))
        return anchors, scores, F.flatten(F.transpose(self.where(x), (0, 2, 3, 1)))


@network(IMPERATIVE, HYBRIDIZED)
def ssd(mode):
    net = prepared(SSD(), mode)
    trainer = gluon.Trainer(net.collect_params(), "adam")

    def step():
        x, corner = nd.random.uniform(shape=(2, 3, 8, 8)), np.random.uniform(0, 0.5, (2, 1, 2))
        labels = nd.array(np.concatenate([np.random.randint(0, 2, (2, 1, 1)), corner, corner + 0.4], axis=2))
        with autograd.record():
            anchors, scores, offsets = net(x)
            with autograd.pause():
                wanted, mask, classes = contrib.MultiBoxTarget(anchors, labels, scores.transpose((0, 2, 1)), negative_mining_ratio=3)
            loss = -(nd.pick(nd.log_softmax(scores), classes) * (classes >= 0)).sum() + nd.smooth_l1((offsets - wanted) * mask).sum()
        loss.backward()
        trainer.step(2)
        found = contrib.MultiBoxDetection(nd.softmax(scores).transpose((0, 2, 1)), offsets, anchors, nms_threshold=0.4)
        return loss + 0 * found.sum()
    return step


class Autoencoder(vae.VAE):
    """One that draws its noise itself."""

    def hybrid_forward(self, F, x):
        return super().hybrid_forward(F, x, F.random.normal(shape=(4, 2)))


class Given(gluon.HybridBlock):
    """The loss of a network whose result is one."""

    def hybrid_forward(self, F, y, label):
        return y + label


@every_mode
def autoencoder(mode):
    return step_of(Autoencoder(hidden=16, pixels=20), lambda: (nd.random.uniform(shape=(4, 20)), nd.zeros(4)), mode, loss=Given())


@network(IMPERATIVE, HYBRIDIZED)
def adversaries(mode):
    first, second = prepared(nn.Dense(2), mode), prepared(gan.discriminator(), mode)
    trainers = [gluon.Trainer(net.collect_params(), "adam") for net in (first, second)]
    loss_of = gluon.loss.SigmoidBinaryCrossEntropyLoss()
    ones, zeros = nd.ones((8, 1)), nd.zeros((8, 1))

    def step():
        real, noise = gan.real_points(8), nd.random.normal(shape=(8, 2))
        with autograd.record():
            loss = loss_of(second(real), ones) + loss_of(second(first(noise).detach()), zeros)
        loss.backward()
        trainers[1].step(8)
        with autograd.record():
            loss_of(second(first(noise)), ones).backward()
        trainers[0].step(8)
        return loss
    return step


# ---- sequences ------------------------------------------------------------------------------------------------------

@every_mode
def characters(mode):
    return step_of(char_rnn.CharacterModel(20, 8), lambda: (integers(20, (2, 8)), integers(20, (2, 8))), mode)


@network(IMPERATIVE, HYBRIDIZED)
def words(mode):
    """The state of a batch is the beginning of the next."""
    net = prepared(language_model.LanguageModel(20, 8, 2, 0.2), mode)
    trainer, loss_of = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}), gluon.loss.SoftmaxCrossEntropyLoss()
    states = [nd.zeros((2, 2, 8)), nd.zeros((2, 2, 8))]

    def step():
        with autograd.record():
            scores, *after = net(integers(20, (6, 2)), *states)
            loss = loss_of(scores, integers(20, (6, 2)))
        loss.backward()
        gluon.utils.clip_global_norm([p.grad() for p in net.collect_params().values()], 0.25)
        trainer.step(12)
        states[:] = [state.detach() for state in after]
        return loss
    return step


@every_mode
def gpt2(mode):
    net = text.GPT2(num_layers=2, units=16, num_heads=2, vocab_size=30, max_length=8)
    return step_of(net, lambda: (integers(30, (2, 8)), integers(30, (2, 8))), mode, optimizer="adamw")


@network(IMPERATIVE, HYBRIDIZED)
def bert(mode):
    net = text.BERT(num_layers=1, units=16, hidden_size=32, num_heads=2, vocab_size=30, max_length=8)
    return step_of(net, lambda: (integers(30, (2, 8)), nd.zeros((2, 8)), nd.array([3, 8]), integers(16, 2)), mode,
                   loss=lambda y, label: gluon.loss.SoftmaxCrossEntropyLoss()(y[1], label))


@network(IMPERATIVE, HYBRIDIZED)
def reverser(mode):
    rng = np.random.default_rng(1)

    def draw():
        source, shifted, reverse, lengths = transformer.batch(rng, 2, 6)
        return source, shifted, lengths, reverse
    return step_of(transformer.Reverser(8, 2, 1), draw, mode)


@network(IMPERATIVE)
def trees(mode):
    """A network of another shape in every step."""
    rng, net = random.Random(1), prepared(tree_lstm.ChildSumLSTM(4), mode)
    trainer, loss_of = gluon.Trainer(net.collect_params(), "adam"), gluon.loss.SoftmaxCrossEntropyLoss()

    def step():
        tree = tree_lstm.random_tree(2, rng)
        with autograd.record():
            loss = loss_of(net(tree), nd.array([int(tree.evaluate() > 0)]))
        loss.backward()
        trainer.step(1, ignore_stale_grad=True)
        return loss
    return step


# ---- the rest -------------------------------------------------------------------------------------------------------

@every_mode
def regression(mode):
    return step_of(nn.Dense(1), lambda: (nd.random.normal(shape=(10, 2)), nd.random.normal(shape=(10, 1))), mode,
                   loss=gluon.loss.L2Loss(), optimizer="sgd")


@network(IMPERATIVE)
def function(mode):
    """A gradient of the user's."""
    x = nd.random.uniform(shape=(4, 5))
    x.attach_grad()

    def step():
        with autograd.record():
            loss = custom_function.Sigmoid()(x)
        loss.backward()
        x[:] = x - 0.01 * x.grad
        return loss
    return step


@network(HYBRIDIZED)
def files(mode):
    """A loader with threads; parameters and states are saved and loaded all the time."""
    net = prepared(nn.Dense(2, in_units=2), mode)
    trainer, loss_of = gluon.Trainer(net.collect_params(), "adam"), gluon.loss.SoftmaxCrossEntropyLoss()
    loader = gluon.data.DataLoader(custom_dataset.Circles(80), 8, num_workers=1, thread_pool=True)
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"
    path = os.path.join(folder, f"drift-{os.getpid()}")

    def batches():
        while True:
            yield from loader
            net.save_parameters(path)
            net.load_parameters(path)
            trainer.save_states(path)
            trainer.load_states(path)
            os.remove(path)
    source = batches()

    def step():
        x, label = next(source)
        with autograd.record():
            loss = loss_of(net(x), label)
        loss.backward()
        trainer.step(8)
        return loss
    return step
