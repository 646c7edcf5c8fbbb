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


def events_of(path):
    first, *rest = [fields(record) for record in records(path)]
    assert first[3] == [b"brain.Event:2"]
    return rest


def values(path):
    """[(step, fields of the value)]"""
    rest = events_of(path)
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


def small_net():
    net = mx.gluon.nn.HybridSequential(prefix="net0_")
    with net.name_scope():
        net.add(mx.gluon.nn.Conv2D(4, 3, padding=1), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Dense(2))
    net.initialize()
    return net


def graph_of(path):
    """{name: (operator, inputs, attributes, shapes of outputs)}"""
    event, = events_of(path)
    nodes = {}
    for text in fields(event[4][0])[1]:
        node = fields(text)
        pairs = [fields(pair) for pair in node.get(5, [])]
        attrs = {pair[1][0].decode(): fields(pair[2][0]) for pair in pairs}
        shapes = [[int(np.int64(np.uint64(fields(size)[1][0]))) for size in fields(shape).get(2, [])]
                  for shape in fields(attrs.pop("_output_shapes")[1][0])[7]]
        name, = node[1]
        assert name.decode() not in nodes
        nodes[name.decode()] = (node[2][0].decode(), [one.decode() for one in node.get(3, [])],
                                {key: value[2][0].decode() for key, value in attrs.items()}, shapes)
    return nodes


def test_graph_of_a_block(tmp_path):
    writer = SummaryWriter(tmp_path)
    writer.add_graph(small_net(), nd.zeros((5, 3, 8, 8)))
    nodes = graph_of(writer.path)
    assert nodes["data"] == ("Variable", [], {}, [[5, 3, 8, 8]])
    operator, inputs, attrs, shapes = nodes["net0/conv0/fwd"]
    assert operator == "Convolution" and shapes == [[5, 4, 8, 8]] and attrs["kernel"] == "(3, 3)"
    assert inputs == ["data", "net0/conv0/weight", "net0/conv0/bias"] and nodes["net0/conv0/weight"][3] == [[4, 3, 3, 3]]
    assert nodes["net0/dense0/fwd"][3] == [[5, 2]] and "net0/batchnorm0/running_mean" in nodes
    assert all(source.split(":")[0] in nodes for node in nodes.values() for source in node[1])


def test_graph_of_a_symbol(tmp_path):
    x = mx.sym.var("x")
    parts = mx.sym.split(x, num_outputs=2, name="half")
    y = mx.sym.broadcast_add(parts[0], parts[1], name="same") + mx.sym.var("a:b^c")
    both = mx.sym.Group([y, mx.sym.relu(y, name="same")])
    writer = SummaryWriter(tmp_path)
    writer.add_graph(both)
    nodes = graph_of(writer.path)
    assert nodes["same"][1] == ["half", "half:1"] and nodes["same-1"][0] == "relu"
    assert "a.b.c" in nodes and len(nodes["half"][3]) == 2


def test_graph_of_a_block_that_was_called(tmp_path):
    net = small_net()
    writer = SummaryWriter(tmp_path)
    with pytest.raises(ValueError, match="inputs"):
        writer.add_graph(net)
    with pytest.raises(TypeError, match="HybridBlock"):
        writer.add_graph(mx.gluon.nn.Sequential())
    net.hybridize()
    net(nd.zeros((1, 3, 4, 4)))
    writer.add_graph(net)
    assert graph_of(writer.path)["net0/conv0/fwd"][3] == [[1, 4, 4, 4]]


def test_hparams(tmp_path):
    writer = SummaryWriter(tmp_path)
    writer.add_hparams({"lr": 0.125, "optimizer": "sgd", "nesterov": True}, {"acc": 0.75})
    scalar, *infos = [value for _, value in values(writer.path)]
    assert scalar[1] == [b"acc"]
    contents = [fields(fields(fields(info[9][0])[1][0])[2][0]) for info in infos]
    experiment, start = fields(contents[0][2][0]), fields(contents[1][3][0])
    assert [fields(one)[4][0] for one in experiment[4]] == [3, 1, 2]
    found = {fields(one)[1][0].decode(): fields(fields(one)[2][0]) for one in start[1]}
    assert found == {"lr": {2: [struct.pack("<d", 0.125)]}, "optimizer": {3: [b"sgd"]}, "nesterov": {4: [1]}}
    assert fields(contents[2][4][0])[1] == [1]


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
    writer.add_graph(small_net(), nd.zeros((5, 3, 8, 8)))
    events = loader.EventAccumulator(str(tmp_path))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(3, 0.5)]
    assert events.Tags()["histograms"] == ["w"] and events.Images("i")[0].width == 4
    nodes = {node.name: node for node in events.Graph().node}
    assert nodes["net0/conv0/fwd"].op == "Convolution" and list(nodes["net0/dense0/fwd"].input)[1] == "net0/dense0/weight"
    assert [size.size for size in nodes["net0/conv0/fwd"].attr["_output_shapes"].list.shape[0].dim] == [5, 4, 8, 8]


def test_tensorboard_reads_graphs_and_hparams(tmp_path):
    """As its server does: the plugins ask the data provider."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
    from tensorboard.context import RequestContext
    from tensorboard.plugins.base_plugin import TBContext
    from tensorboard.plugins.graph.graphs_plugin import GraphsPlugin
    from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups
    for name, rate in (("one", 0.5), ("two", 0.25)):
        with SummaryWriter(tmp_path / name) as writer:
            writer.add_graph(small_net(), nd.zeros((1, 3, 4, 4)))
            writer.add_hparams({"lr": rate, "kind": "sgd"}, {"acc": 1 - rate})
    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(tmp_path))
    multiplexer.Reload()
    context = TBContext(logdir=str(tmp_path), multiplexer=multiplexer,
                        data_provider=data_provider.MultiplexerDataProvider(multiplexer, str(tmp_path)))
    text, kind = GraphsPlugin(context).graph_impl(RequestContext(), "one", None, False, experiment="")
    assert kind == "text/x-protobuf" and 'name: "net0/conv0/fwd"' in text
    hparams = backend_context.Context(context)
    ask = api_pb2.ListSessionGroupsRequest(start_index=0, slice_size=9, allowed_statuses=[api_pb2.STATUS_SUCCESS])
    groups = list_session_groups.Handler(
        RequestContext(), hparams, "", ask).run().session_groups
    found = {group.hparams["lr"].number_value: group.metric_values[0].value for group in groups}
    assert found == {0.5: 0.5, 0.25: 0.75}
