"""Parts of a data set, and metrics over all of them.  SPDX-License-Identifier: Apache-2.0"""
import numpy as np

import mxnet as mx
import mxnet.distributed as dist
from launch import report
from mxnet import gluon

rank, size = dist.rank(), dist.size()
LENGTH = 26
numbers = gluon.data.ArrayDataset(mx.nd.arange(LENGTH))
loader = gluon.data.DataLoader(numbers, 4, shuffle=True, shard=True)
epochs = [[int(x) for batch in loader for x in batch.asnumpy()] for _ in range(3)]
kept = list(gluon.data.SplitSampler(LENGTH, shuffle=False, rest="keep"))

# Every process counts its part; together that is the metric of all examples.
rng = np.random.RandomState(1)
predictions, labels = rng.rand(LENGTH, 3).astype("float32"), rng.randint(0, 3, LENGTH).astype("float32")


class Twice(mx.metric.EvalMetric):
    """A metric in Python."""

    def update(self, labels, preds):
        self.sum_metric += 2 * float(preds.sum().asscalar())
        self.num_inst += len(preds)


def metrics():
    return [mx.metric.Accuracy(), mx.metric.TopKAccuracy(2), mx.metric.CompositeEvalMetric(["ce", "acc"]), mx.metric.PCC(),
            Twice("twice")]


def count(rows):
    found = metrics()
    for metric in found:
        metric.update(mx.nd.array(labels[rows]) if isinstance(metric, Twice) else [mx.nd.array(labels[rows])],
                      mx.nd.array(predictions[rows]) if isinstance(metric, Twice) else [mx.nd.array(predictions[rows])])
    return found


together = [np.ravel(m.get()[1]).tolist() for m in count(np.arange(LENGTH))]
parts = count(np.array(kept))
for metric in parts:
    dist.reduce_metric(metric)
reduced = [np.ravel(m.get()[1]).tolist() for m in parts]
np.testing.assert_allclose(np.concatenate(reduced), np.concatenate(together), rtol=1e-6)
report(rank, {"epochs": epochs, "kept": kept, "reduced": reduced})
