"""gluoncv2: models of its registry, and one that learns."""
import numpy as np

import mxnet as mx
from gluoncv2 import model_provider as provider
from mxnet import autograd, gluon, nd

from common import compare, falls

# One of each family, in the smallest size that its last pooling allows; options make the larger ones small.
SMALL = [
    "resnet20_cifar10", "preresnet20_cifar10", "seresnet20_cifar10", "diaresnet20_cifar10", "xdensenet40_2_k24_bc_cifar10",
    "octresnet20_ad2_cifar10", "ror3_56_cifar10",
    "densenet40_k12_cifar10", "resnext20_1x64d_cifar10",
]
LARGE = ["mobilenet_wd4", "mobilenetv2_wd4", "shufflenetv2_wd2", "squeezenet_v1_1", "espnetv2_wd2", "dicenet_wd5",
         "igcv3_wd4", "menet108_8x1_g3", "airnet50_1x64d_r16", "hrnet_w18_small_v1", "dpn68", "darknet_tiny"]
SAMPLE = [(name, (2, 3, 32, 32)) for name in SMALL] + [(name, (1, 3, 224, 224)) for name in LARGE]
# librosa is needed to listen (jasper, quartznet); DucBlock lacks arguments in the library itself.
# FractalNet, shaking and dropping of residuals draw random numbers in Python, so a plan has those of its first call; 1-bit
# networks use an autograd.Function, whose backward no plan calls, and iSQRT-COV calls one object of it several times;
# SimplePose reads values in its forward; NvpAttExp has a second input.
ELSEWHERE = ("nvpattexp", "fractalnet", "shakeshake", "shakedrop", "resdrop", "1bit", "isqrtcov", "jasper", "quartznet", "alphapose", "simplepose")


def registry():
    known = dict(SAMPLE)
    for name in sorted(provider._models):
        if not any(word in name for word in ELSEWHERE):
            yield name, known.get(name)


def test_model(model):
    name, shape = model
    net = provider.get_model(name)
    if shape is None:
        channels = getattr(net, "in_channels", 3)
        batch = 2 if name == "inceptionresnetv1" else 1  # it normalises single numbers over the batch
        shape = (batch, channels if isinstance(channels, int) else 3, *net.in_size)
    detector = any(word in name for word in ("centernet", "lffd", "ibppose"))
    compare(net, nd.random.uniform(shape=shape), train=not detector)


def test_learns():
    net = provider.get_model("mobilenetv2_wd4", in_size=(224, 224), classes=2)
    net.initialize(mx.init.MSRAPrelu())
    net.hybridize()
    labels = np.arange(4) % 2
    images = nd.array(np.random.rand(4, 3, 224, 224) + labels[:, None, None, None])
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.001})
    loss, losses = gluon.loss.SoftmaxCrossEntropyLoss(), []
    for _ in range(8):
        with autograd.record():
            value = loss(net(images), nd.array(labels))
        value.backward()
        trainer.step(4)
        losses.append(float(value.mean().asscalar()))
    falls(losses)
