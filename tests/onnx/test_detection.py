"""Heads of detectors as ONNX files: suppression, anchors, detections, with batches of any size.

The samples of these operators (test_operators.py) are read back, too, with fixed sizes.

SPDX-License-Identifier: Apache-2.0
"""
import numpy as np
import pytest

from mxnet import gluon, nd
from mxnet.gluon import nn
from test_networks import check


class Detector(gluon.HybridBlock):
    """A single-shot detector: anchors, classes and offsets from one map."""

    def __init__(self, classes=3, **options):
        super().__init__()
        self.options, self.classes = options, classes
        with self.name_scope():
            self.features = nn.Conv2D(8, 3, strides=4, activation="relu")
            self.scores, self.offsets = nn.Conv2D(3 * (classes + 1), 1), nn.Conv2D(12, 1)

    def hybrid_forward(self, F, x):
        y = self.features(x)
        anchors = F.contrib.MultiBoxPrior(y, sizes=(0.4, 0.2), ratios=(1, 2))
        scores = F.reshape(F.transpose(self.scores(y), axes=(0, 2, 3, 1)), shape=(0, -1, self.classes + 1))
        probabilities = F.softmax(F.transpose(scores * 3, axes=(0, 2, 1)), axis=1)
        offsets = F.flatten(F.transpose(self.offsets(y), axes=(0, 2, 3, 1)))
        return F.contrib.MultiBoxDetection(probabilities, offsets, anchors, **self.options)


@pytest.mark.parametrize("options", [{}, {"threshold": 0.4, "nms_topk": 9}, {"force_suppress": True, "nms_threshold": 0.2}],
                         ids=["usual", "best", "forced"])
def test_detector(options, tmp_path):
    check(Detector(**options), nd.random.uniform(shape=(2, 3, 24, 24)), path=str(tmp_path / "net.onnx"), tolerance=1e-4,
          back=False)


def boxes(batch, n, classes):
    """Rows (class, score, left, top, right, bottom), no two scores equal."""
    rng = np.random.RandomState(3)
    low, size = rng.uniform(0, 50, (batch, n, 2)), rng.uniform(1, 30, (batch, n, 2))
    scores = rng.permutation(batch * n).reshape(batch, n, 1) / (batch * n)
    return nd.array(np.concatenate([rng.randint(-1, classes, (batch, n, 1)), scores, low, low + size], axis=2))


@pytest.mark.parametrize("options", [{}, {"id_index": 0}, {"id_index": 0, "topk": 20, "valid_thresh": 0.3},
                                     {"id_index": 0, "force_suppress": True, "background_id": 1, "out_format": "center"}])
def test_suppression(options, tmp_path):
    net = nn.HybridLambda(lambda F, x: F.contrib.box_nms(x, overlap_thresh=0.3, coord_start=2, score_index=1, **options))
    check(net, boxes(3, 60, 4), path=str(tmp_path / "net.onnx"), back=False)


@pytest.mark.parametrize("ratio", [-1, 2])
def test_regions(ratio, tmp_path):
    """Regions of both images, inside and at the border."""
    net = nn.HybridLambda(lambda F, x, rois: F.contrib.ROIAlign(x, rois, pooled_size=(3, 2), spatial_scale=0.5,
                                                                sample_ratio=ratio))
    rois = nd.array([[0, 0, 0, 10, 10], [1, 3, 2, 15, 9], [1, 4.5, 1.5, 30, 30], [0, 2, 2, 2.5, 2.5]])
    check(net, nd.random.normal(shape=(2, 3, 9, 8)), rois, path=str(tmp_path / "net.onnx"), batches=False)
