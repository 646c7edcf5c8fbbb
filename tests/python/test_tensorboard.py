"""Event files: records, checksums and messages, read by a reader of this test; by TensorBoard itself where it is installed."""
import struct

import numpy as np
import pytest

import mxnet as mx
from mxnet import nd
from mxnet.contrib.tensorboard import LogMetricsCallback, SummaryWriter


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    with open(path, "rb") as file:
        data = file.read()
    while data:
        length, check = struct.unpack("<QI", data[:12])
        assert masked(data[:8]) == check
        body, data = data[12:12 + length], data[12 + length:]
        assert masked(body) == struct.unpack("<I", data[:4])[0]
        data = data[4:]
        yield body


def fields(data):
    """{number: [value or bytes]} of a message."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        else:
            size = 8 if kind == 1 else 4 if kind == 5 else varint()
            value, at = data[at:at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def values(path):
    """[(step, fields of the value)]"""
    first, *rest = [fields(record) for record in records(path)]
    assert first[3] == [b"brain.Event:2"]
    return [(event.get(2, [0])[0], fields(fields(event[5][0])[1][0])) for event in rest]


def test_scalars(tmp_path):
    writer = SummaryWriter(tmp_path / "runs" / "one")
    for step, number in enumerate((0.5, -2, nd.array([3.25]))):
        writer.add_scalar("loss", number, step)
    writer.add_scalar("acc", {"train": 0.5})
    found = [(step, value[1][0].decode(), struct.unpack("<f", value[2][0])[0]) for step, value in values(writer.path)]
    assert found == [(0, "loss", 0.5), (1, "loss", -2), (2, "loss", 3.25), (0, "acc/train", 0.5)]


def test_histograms(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        numbers = np.random.RandomState(1).normal(size=1000).astype("float32")
        numbers[0] = np.nan
        writer.add_histogram("w", nd.array(numbers), 7)
        writer.add_histogram("same", nd.ones((5,)))
        writer.add_histogram("none", nd.zeros((0,)))
    (step, value), (_, same), (_, none) = values(writer.path)
    histogram = fields(value[5][0])
    unpack = lambda key: struct.unpack("<d", histogram[key][0])[0]  # noqa: E731
    rest = numbers[1:].astype("float64")
    assert step == 7 and unpack(3) == 999
    assert np.allclose([unpack(1), unpack(2), unpack(4), unpack(5)], [rest.min(), rest.max(), rest.sum(), (rest**2).sum()])
    limits = np.frombuffer(histogram[6][0])
    counts = np.frombuffer(histogram[7][0])
    wanted, _ = np.histogram(rest, bins=len(counts), range=(rest.min(), rest.max()))
    assert np.abs(counts - wanted).max() <= 1 and counts.sum() == 999 and (np.diff(limits) > 0).all()
    assert np.frombuffer(fields(same[5][0])[7][0]).sum() == 5 and np.frombuffer(fields(none[5][0])[7][0]).sum() == 0


def test_texts_and_images(tmp_path):
    writer = SummaryWriter(tmp_path)
    writer.add_text("note", "größer", 1)
    image = np.zeros((4, 6, 3), "uint8")
    image[1, 2] = (255, 10, 0)
    writer.add_image("hwc", image, 2)
    writer.add_image("chw", nd.array(image.transpose(2, 0, 1).astype("float32") / 255), 2)
    text, *images = values(writer.path)
    assert fields(text[1][8][0])[8] == ["größer".encode()]
    for _, value in images:
        picture = fields(value[4][0])
        assert (picture[1], picture[2], picture[3]) == ([4], [6], [3])
        assert (mx.image.imdecode(picture[4][0]).asnumpy() == image).all()


def test_errors(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(mx.MXNetError):
        SummaryWriter(tmp_path / "file" / "inside")
    writer = SummaryWriter(tmp_path)
    for call in (lambda: writer.add_scalar("", 1), lambda: writer.add_image("x", nd.zeros((2, 2))),
                 lambda: writer.add_image("x", nd.zeros((5, 5, 7))), lambda: writer.add_scalar("x", "y"),
                 lambda: writer.add_text("x", 5)):
        with pytest.raises((mx.MXNetError, TypeError, ValueError)):
            call()
    assert values(writer.path) == []


def test_callback(tmp_path):
    metric = mx.metric.Accuracy()
    metric.update([nd.array([0, 1])], [nd.array([[1, 0], [1, 0]])])
    callback = LogMetricsCallback(str(tmp_path), prefix="train")
    callback(mx.model.BatchEndParam(epoch=0, nbatch=0, eval_metric=metric, locals=None))
    (step, value), = values(callback.summary_writer.path)
    assert step == 1 and value[1] == [b"train-accuracy"] and struct.unpack("<f", value[2][0])[0] == 0.5


def test_tensorboard_reads_it(tmp_path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    writer = SummaryWriter(tmp_path)
    writer.add_scalar("loss", 0.5, 3)
    writer.add_histogram("w", nd.arange(10), 3)
    writer.add_image("i", nd.zeros((3, 4, 4)), 3)
    events = loader.EventAccumulator(str(tmp_path))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(3, 0.5)]
    assert events.Tags()["histograms"] == ["w"] and events.Images("i")[0].width == 4
