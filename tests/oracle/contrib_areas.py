"""Areas of gluon.contrib, modules and symbol cells, for program.py: each function returns arrays, strings and numbers."""
import os
import tempfile

import numpy as np

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon import contrib, rnn

LAYERS = [
    ("contrib.nn.PixelShuffle1D(2)", (2, 4, 3)), ("contrib.nn.PixelShuffle2D((2, 3))", (1, 12, 2, 3)),
    ("contrib.nn.PixelShuffle3D(2)", (1, 8, 2, 1, 3)), ("contrib.nn.SyncBatchNorm(in_channels=3, num_devices=1)", (4, 3,
                                                                                                                   5,
                                                                                                                   5)),
    ("contrib.cnn.DeformableConvolution(4, (3, 3), padding=(1, 1), in_channels=3)", (2, 3, 5, 6)),
]
CELLS = [
    ("contrib.rnn.LSTMPCell(4, 3, input_size=5, prefix='c_')", (2, 3, 5)
     ), ("contrib.rnn.Conv1DRNNCell((3, 7), 2, 3, 3, prefix='c_')", (2, 3, 3, 7)),
    ("contrib.rnn.Conv1DLSTMCell((3, 7), 2, 3, 5, i2h_pad=1, prefix='c_')", (2, 3, 3, 7)),
    ("contrib.rnn.Conv1DGRUCell((3, 7), 2, 3, 3, h2h_dilate=2, prefix='c_')", (2, 3, 3, 7)),
    ("contrib.rnn.Conv2DRNNCell((3, 6, 5), 2, (3, 1), 3, activation='relu', prefix='c_')", (2, 2, 3, 6, 5)),
    ("contrib.rnn.Conv2DLSTMCell((3, 6, 5), 2, 3, 3, i2h_pad=1, prefix='c_')", (2, 2, 3, 6, 5)),
    ("contrib.rnn.Conv2DGRUCell((3, 6, 5), 2, 3, 3, prefix='c_')", (2, 2, 3, 6, 5)),
    ("contrib.rnn.Conv3DLSTMCell((2, 4, 3, 4), 2, 3, 3, i2h_pad=1, prefix='c_')", (1, 2, 2, 4, 3, 4)),
    ("contrib.rnn.VariationalDropoutCell(rnn.LSTMCell(4, input_size=5, prefix='c_'), 0.2, 0.3, 0.4)", (2, 3, 5)),
    ("rnn.RNNCell(4, input_size=5, prefix='c_')", (2, 3, 5)), ("rnn.LSTMCell(4, input_size=5, prefix='c_')", (2, 3, 5)),
    ("rnn.GRUCell(4, input_size=5, prefix='c_')", (2, 3, 5)),
    ("rnn.ZoneoutCell(rnn.LSTMCell(4, input_size=5, prefix='c_'), 0.2, 0.3)", (2, 3, 5)),
    ("rnn.ResidualCell(rnn.GRUCell(5, input_size=5, prefix='c_'))", (2, 3, 5)),
    ("rnn.BidirectionalCell(rnn.LSTMCell(4, input_size=5, prefix='l_'), rnn.GRUCell(4, input_size=5, prefix='r_'))",
     (2, 3, 5)),
]
SYMBOL_CELLS = [
    "mx.rnn.RNNCell(4, prefix='c_')", "mx.rnn.LSTMCell(4, prefix='c_')", "mx.rnn.GRUCell(4, prefix='c_')",
    "mx.rnn.FusedRNNCell(4, num_layers=2, mode='gru', prefix='c_')",
    "mx.rnn.FusedRNNCell(4, mode='lstm', bidirectional=True, prefix='c_')",
    "mx.rnn.FusedRNNCell(4, num_layers=2, mode='rnn_relu', prefix='c_').unfuse()",
    "mx.rnn.BidirectionalCell(mx.rnn.LSTMCell(4, prefix='a_'), mx.rnn.GRUCell(3, prefix='b_'))",
    "mx.rnn.ResidualCell(mx.rnn.GRUCell(5, prefix='c_'))", "mx.rnn.ZoneoutCell(mx.rnn.LSTMCell(4, prefix='c_'), 0.3, "
                                                           "0.3)",
]


def values_for(names, shapes, seed=0):
    rng = np.random.RandomState(seed)
    return {name: nd.array(rng.uniform(-0.5, 0.5, shape)) for name, shape in zip(names, shapes)}


def contrib_layer(expression, shape):
    """Names, text, outputs and gradients of a layer."""
    from areas import block_result
    found = block_result(eval(expression, {"contrib": contrib}), shape)
    if "Deformable" in expression:
        found.pop("repr")  # MXNet shows None for known channels
    if "running_mean" in "".join(found["names"]):
        found["repr"] = found["repr"].replace(found["names"][0].rsplit("_", 1)[0], "")
    found["names"] = [name.split("_", 2)[-1] for name in found["names"]]
    return found


def contrib_cell(expression, shape):
    """A cell unrolled over a sequence (N, T, ...), with gradients."""
    mx.random.seed(0)
    cell = eval(expression, {"contrib": contrib, "rnn": rnn})
    x = nd.array(np.random.RandomState(0).uniform(-1, 1, shape))
    cell.initialize()
    params = cell.collect_params()
    for p, value in zip(params.values(), values_for(params.keys(), [p.shape for p in params.values()]).values()):
        p.set_data(value)
    x.attach_grad()
    with autograd.record(train_mode=False):
        y, states = cell.unroll(shape[1], x, merge_outputs=True)
    y.backward(train_mode=False)
    with mx.name.NameManager():
        nodes = mx.sym.Group(sum(([y] if isinstance(y, mx.sym.Symbol) else y for y in
                                  cell.unroll(shape[1], mx.sym.var("data"))), [])).get_internals().list_outputs()
    return {"repr": repr(cell), "nodes": nodes, "names": list(params.keys()), "shapes": [p.shape for p in params.values()],
            "info": [info["shape"] for info in cell.state_info(shape[0])], "output": y.asnumpy(),
            "states": [s.asnumpy() for s in states], "input_grad": x.grad.asnumpy(),
            "grads": [p.grad().asnumpy() for p in params.values()]}


def symbol_cell(expression):
    """A cell of symbols over (2, 3, 5): names, shapes, outputs, weights by gate."""
    cell = eval(expression, {"mx": mx})
    output, _ = cell.unroll(3, mx.sym.var("data"), merge_outputs=True)
    shapes, out_shapes, _ = output.infer_shape(data=(2, 3, 5))
    arguments = values_for(output.list_arguments(), shapes)
    results = output.bind(mx.cpu(), arguments).forward()
    weights = {name: value for name, value in arguments.items() if name != "data"}
    parts = cell.unpack_weights(dict(weights))
    packed = cell.pack_weights(dict(parts))
    return {"arguments": output.list_arguments(), "shapes": shapes, "out_shapes": out_shapes,
            "outputs": [x.asnumpy() for x in results], "parts": {k: v.asnumpy() for k, v in sorted(parts.items())},
            "same": all(np.array_equal(packed[name].asnumpy(), weights[name].asnumpy()) for name in weights)}


def trained_module(optimizer="sgd", options=None, contexts=1):
    """Weights after two epochs of Module.fit, scores, predictions, and the contents of a checkpoint."""
    rng = np.random.RandomState(0)
    data, label = rng.uniform(-1, 1, (20, 6)).astype("float32"), rng.randint(0, 3, 20).astype("float32")
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=5, name="fc1")
    net = mx.sym.BatchNorm(mx.sym.Activation(net, act_type="tanh"), fix_gamma=False, name="bn")
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=3, name="fc2"), name="softmax")
    source = mx.io.NDArrayIter(data, label, 8)
    module = mx.mod.Module(net, context=[mx.cpu(i) for i in range(contexts)])
    shapes, _, aux_shapes = net.infer_shape(data=(8, 6))
    start = values_for(net.list_arguments(), shapes)
    start = {k: v for k, v in start.items() if k not in ("data", "softmax_label")}
    aux = {"bn_moving_mean": nd.zeros((5,)), "bn_moving_var": nd.ones((5,))}
    module.fit(source, num_epoch=2, arg_params=start, aux_params=aux, optimizer=optimizer,
               optimizer_params=options or {"learning_rate": 0.1, "momentum": 0.9})
    arguments, auxiliary = module.get_params()
    with tempfile.TemporaryDirectory() as folder:
        module.save_checkpoint(os.path.join(folder, "m"), 2)
        files = sorted(os.listdir(folder))
        loaded = mx.mod.Module.load(os.path.join(folder, "m"), 2)
        loaded.bind(source.provide_data, source.provide_label, for_training=False)
    return {"arguments": {k: v.asnumpy() for k, v in sorted(arguments.items())}, "files": files,
            "auxiliary": {k: v.asnumpy() for k, v in sorted(auxiliary.items())},
            "score": [float(v) for _, v in module.score(source, ["acc", "ce"])],
            "predictions": module.predict(source).asnumpy(), "loaded": loaded.predict(source).asnumpy(),
            "names": (module.data_names, module.label_names, module.output_names),
            "shapes": [tuple(shape[1]) for shape in module.output_shapes]}


def words():
    """Vocabularies and encodings."""
    import collections
    from mxnet.contrib import text
    counter = text.utils.count_tokens_from_str("a b b c c c \n d d Hello hello", to_lower=True)
    vocabulary = text.vocab.Vocabulary(counter, most_freq_count=3, reserved_tokens=["<pad>"])
    sentences, known = mx.rnn.encode_sentences([["x", "y"], ["y", "z", "x"]], start_label=1, invalid_label=0)
    return {"counter": dict(sorted(counter.items())), "tokens": vocabulary.idx_to_token,
            "indices": vocabulary.to_indices(["c", "nothing"]), "sentences": sentences,
            "known": dict(sorted(known.items())),
            "all": text.vocab.Vocabulary(collections.Counter("abracadabra"), min_freq=2).idx_to_token}


def files_of_checkpoints():
    """Names that CheckpointHandler gives its files."""
    from mxnet.gluon.contrib.estimator import CheckpointHandler, Estimator
    import logging
    rng = np.random.RandomState(0)
    x = rng.normal(0, 1, (32, 4)).astype("float32")
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(x, (x[:, 0] > 0).astype("float32")), 8)
    net = gluon.nn.Dense(2)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    estimator = Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer)
    estimator.logger.setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        estimator.fit(loader, val_data=loader, epochs=3, event_handlers=[
            CheckpointHandler(folder, "m", monitor=estimator.val_metrics[0], save_best=True, max_checkpoints=2,
                              mode="max")])
        names = sorted(os.listdir(folder))
    return {"files": names, "train": [m.name for m in estimator.train_metrics],
            "validation": [m.name for m in estimator.val_metrics]}
