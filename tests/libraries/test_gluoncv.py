"""GluonCV: models of its zoo, a classifier and a detector that learn."""
import numpy as np
import pytest

import gluoncv  # noqa: F401
import mxnet as mx
from gluoncv.model_zoo import get_model
from gluoncv.model_zoo.model_zoo import _models
from mxnet import autograd, gluon, nd

from common import Xavier, compare, falls

# Name, shape of the input: what each family needs at least.
SAMPLE = [
    ("cifar_resnet20_v1", (2, 3, 32, 32)), ("cifar_wideresnet16_10", (1, 3, 32, 32)),
    ("resnet18_v1b", (2, 3, 64, 64)), ("mobilenet0.25", (2, 3, 64, 64)), ("mobilenetv2_0.25", (2, 3, 64, 64)),
    ("mobilenetv3_small", (2, 3, 64, 64)), ("squeezenet1.1", (1, 3, 224, 224)), ("resnest14", (1, 3, 64, 64)),
    ("dla34", (1, 3, 64, 64)), ("hrnet_w18_small_v1_c", (1, 3, 64, 64)), ("resnet18_v1b_0.89", (1, 3, 64, 64)),
    ("se_resnet18_v1", (1, 3, 64, 64)), ("googlenet", (1, 3, 224, 224)), ("simple_pose_resnet18_v1b", (1, 3, 64, 64)),
    ("center_net_resnet18_v1b_voc", (1, 3, 128, 128)), ("yolo3_mobilenet0.25_voc", (1, 3, 96, 96)),
    ("ssd_300_mobilenet0.25_voc", (1, 3, 300, 300)), ("faster_rcnn_fpn_resnet50_v1b_coco", (1, 3, 96, 96)),
    ("fcn_resnet50_voc", (1, 3, 96, 96)), ("p3d_resnet50_kinetics400", (1, 3, 16, 64, 64)),
    ("slowfast_4x16_resnet50_kinetics400", (1, 3, 36, 32, 32)),
]
# Their outputs are boxes: chosen by comparing scores, so they are compared when predicting only.
DETECTORS = ("ssd", "yolo", "rcnn", "center_net")
# Segmenters are built for images of one size.
SEGMENTERS = ("fcn", "deeplab", "psp", "danet", "fastscnn", "icnet")
CROP = 96
OPTIONS = {**{word: {"crop_size": CROP} for word in SEGMENTERS}, "custom": {"classes": ["a", "b"]}}
# What a model needs besides the package: weights to quantize, files to download (action recognition on a 2D network begins
# with one's weights), or a fix in GluonCV itself.
ELSEWHERE = ("_sthsthv2", "v1b_kinetics400", "v1b_hmdb51", "v1b_ucf101", "vgg16_hmdb51", "vgg16_kinetics400", "vgg16_ucf101",
             "int8", "siamrpn", "monodepth2", "resnext101e", "_custom", "custom_", "i3d_resnet50_v1_", "inceptionv1_", "darknet53")


def shape_of(name):
    """The input of a model that is not in the sample."""
    if any(word in name for word in ("i3d", "c3d", "p3d", "r2plus1d", "slowfast")):
        return (1, 3, 40 if "slowfast_8x8" in name else 36, 112, 112)  # the fast and the slow frames
    if name.startswith("cifar"):
        return (1, 3, 32, 32)
    if any(word in name for word in SEGMENTERS):
        return (1, 3, CROP, CROP)
    return (1, 3, 299, 299) if "inception" in name or "xception" in name else (1, 3, 300, 300) if "ssd_300" in name \
        else (1, 3, 512, 512) if "ssd_512" in name else (1, 3, 224, 224)


def registry():
    known = dict(SAMPLE)
    for name in sorted(_models):
        if not any(word in name for word in ELSEWHERE):
            yield name, known.get(name) or shape_of(name)


def build(name):
    options = next((value for word, value in OPTIONS.items() if word in name), {})
    for more in ({"pretrained_base": False}, {}):
        try:
            return get_model(name, pretrained=False, **options, **more)
        except (TypeError, Warning):  # not all take the option
            continue
    raise AssertionError(f"{name} cannot be built")


def test_model(model):
    name, shape = model
    detector = any(word in name for word in DETECTORS)
    compare(build(name), nd.random.uniform(shape=shape), train=not detector,
            initialize=Xavier() if detector else mx.init.Xavier(),
            most=2 if "rcnn" in name else None)  # which of many boxes with one score comes first is left to rounding


def test_classifier_learns():
    net = get_model("cifar_resnet20_v1", classes=2)
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    labels = np.arange(16) % 2
    images = nd.array(np.random.rand(16, 3, 32, 32) + labels[:, None, None, None])
    trainer = gluon.Trainer(net.collect_params(), "nag", {"learning_rate": 0.05, "momentum": 0.9})
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for _ in range(12):
        with autograd.record():
            value = loss(net(images), nd.array(labels))
        value.backward()
        trainer.step(16)
        losses.append(float(value.mean().asscalar()))
    falls(losses)


def test_detector_learns():
    """SSD with the library's own targets, transforms and loss, as its training script does."""
    from gluoncv.data.batchify import Stack, Tuple
    from gluoncv.data.transforms.presets.ssd import SSDDefaultTrainTransform
    from gluoncv.loss import SSDMultiBoxLoss
    net = get_model("ssd_512_mobilenet1.0_voc", pretrained_base=False)
    net.initialize(Xavier())
    with autograd.train_mode():
        _, _, anchors = net(nd.zeros((1, 3, 128, 128)))
    transform = SSDDefaultTrainTransform(128, 128, anchors)
    picture = nd.array(np.random.randint(0, 255, (160, 160, 3)), dtype="uint8")
    boxes = np.array([[20, 20, 120, 120, 3.0, 0]])
    data = gluon.data.SimpleDataset([(picture, boxes)] * 4).transform(lambda image, label: transform(image, label))
    loader = gluon.data.DataLoader(data, 2, batchify_fn=Tuple(Stack(), Stack(), Stack()))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.002, "momentum": 0.9})
    loss, losses = SSDMultiBoxLoss(), []
    for _ in range(6):
        for images, class_targets, box_targets in loader:
            with autograd.record():
                class_predictions, box_predictions, _ = net(images)
                total, _, _ = loss([class_predictions], [box_predictions], [class_targets], [box_targets])
                autograd.backward(total)
            trainer.step(1)
            losses.append(float(total[0].mean().asscalar()))
    falls(losses)


def test_metrics_and_utilities():
    from gluoncv.utils import LRScheduler, LRSequential, bbox_iou
    from gluoncv.utils.metrics import VOCMApMetric
    box = np.array([[0, 0, 10, 10.0]])
    assert bbox_iou(box, box)[0, 0] == pytest.approx(1)
    metric = VOCMApMetric(class_names=["a", "b"])
    metric.update(box[None], np.array([[0]]), np.array([[0.9]]), box[None], np.array([[0]]))
    assert metric.get()[1][0] == pytest.approx(1)
    schedule = LRSequential([LRScheduler("linear", base_lr=0, target_lr=1, nepochs=1, iters_per_epoch=10),
                             LRScheduler("cosine", base_lr=1, target_lr=0, nepochs=1, iters_per_epoch=10)])
    optimizer = mx.optimizer.SGD(learning_rate=1, lr_scheduler=schedule)
    assert 0 <= optimizer.learning_rate <= 1
