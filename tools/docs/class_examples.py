"""An example with its output for a described class: the first of some small programs that runs.

Each kind of class has its own programs; {make} in them is the constructor with its required options.

SPDX-License-Identifier: Apache-2.0
"""
import re

REQUIRED = {"units": "4", "channels": "4", "hidden_size": "4", "input_dim": "10", "output_dim": "4", "activation": '"relu"', "alpha": "0.1",
            "hidden_channels": "4", "num_heads": "2", "hidden_units": "8", "projection_size": "2", "factor": "2", "step": "100", "max_update": "1000",
            "size": "16", "mean": "0.5", "rate": "0.5", "brightness": "0.2", "contrast": "0.2", "saturation": "0.2", "hue": "0.1", "max_length": "16",
            "dtype": '"float16"', "p": "0.5", "pad_width": "1", "padding": "1", "classes": "10", "x": "4", "y": "4", "width": "16", "height": "16",
            "angle_limits": "(-30, 30)", "rotation_degrees": "30", "value": "0.5", "kernel_size": "3", "in_channels": "3", "num_layers": "1",
            "units_in": "8", "ffn_size": "16", "attention_cell": '"multi_head"', "top_k": "2"}
# All options of classes that need more than a number for each.
OPTIONS = {"BidirectionalCell": "rnn.LSTMCell(4), rnn.LSTMCell(4)", "ResidualCell": "rnn.GRUCell(3)", "ZoneoutCell": "rnn.RNNCell(4), 0.1",
           "VariationalDropoutCell": "rnn.RNNCell(4), 0.2", "TopKAccuracy": "top_k=2", "MultiFactorScheduler": "[100, 200], base_lr=0.1",
           "CompositeEvalMetric": "[mx.metric.Accuracy(), mx.metric.CrossEntropy()]",
           "PositionwiseFFN": "units=8, hidden_size=16", "TransformerEncoderCell": "units=8, hidden_size=16, num_heads=2",
           "TransformerEncoder": "units=8, hidden_size=16, num_heads=2, num_layers=2",
           "TransformerDecoderCell": "units=8, hidden_size=16, num_heads=2",
           "TransformerDecoder": "units=8, hidden_size=16, num_heads=2, num_layers=2",
           **{f"Conv{axes}D{kind}Cell": f"({', '.join(['3'] + ['8'] * axes)}), 4, 3, 3" for axes in (1, 2, 3) for kind in ("RNN", "LSTM", "GRU")}}
INPUTS = ("nd.ones((2, 3))", "nd.ones((2, 3, 16, 16))", "nd.ones((2, 3, 16))", "nd.ones((2, 3, 8, 8, 8))", "nd.ones((2, 5, 8))", "nd.array([1, 2])",
          "nd.ones((2, 8, 4))", "nd.ones((2, 8, 4, 4))", "nd.ones((2, 8, 4, 4, 4))")
LAYERS = tuple(f"layer = {{make}}\nlayer.initialize()\nlayer({x}).shape" for x in INPUTS) + tuple(
    f"cell = {{make}}\ncell.initialize()\noutput, states = cell({x}, cell.begin_state(batch_size=2))\noutput.shape"
    for x in ("nd.ones((2, 3))", "nd.ones((2, 3, 8))", "nd.ones((2, 3, 8, 8))", "nd.ones((2, 3, 8, 8, 8))")) + (
    "cell = {make}\ncell.initialize()\noutputs, states = cell.unroll(5, nd.ones((2, 5, 3)), merge_outputs=True)\noutputs.shape",
    "layer = {make}\nlayer.initialize()\nlayer(nd.ones((2, 5, 8)), nd.ones((2, 7, 8))).shape")
PAIRS = (("[[2, 1, 0], [0, 1, 3]]", "[0, 2]"), ("[[0.5], [2]]", "[[1], [0]]"), ("[0.5, 2, -1]", "[1, -1, 1]"))
LOSSES = tuple(f"loss = {{make}}\nloss(nd.array({pred}), nd.array({label}))" for pred, label in PAIRS) + (
    "loss = {make}\nloss(nd.array([[1, 0]]), nd.array([[1, 1]]), nd.array([[0, 3]]))",
    "loss = {make}\nloss(nd.array([[1, 0]]), nd.array([[1, 1]]), nd.array([1]))", "loss = {make}\nloss(nd.ones((1, 5, 4)), nd.array([[1, 2]]))")
METRICS = tuple(f"metric = {{make}}\nmetric.update([nd.array({label})], [nd.array({pred})])\nmetric.get()" for pred, label in (
    ("[[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]", "[0, 1]"), ("[[0.2, 0.8], [0.6, 0.4], [0.3, 0.7]]", "[1, 0, 0]"), ("[[1.0], [2.0], [4.0]]", "[[1], [2], [3]]"),
    ("[0.5, 0.7]", "[1, 0]")))
OPTIMIZERS = ("optimizer = {make}\nweight, gradient = nd.array([1.0, -2.0]), nd.array([0.5, 0.1])\n"
              "state = optimizer.create_state(0, weight)\nfor _ in range(10):\n    optimizer.update(0, weight, gradient, state)\nweight",
              "optimizer = {make}\nweight, gradient = nd.array([[1.0], [-2.0]]), nd.array([[0.5], [0.1]])\n"
              "state = optimizer.create_state(0, weight)\nfor _ in range(10):\n    optimizer.update(0, weight, gradient, state)\nweight")
INITIALIZERS = ('mx.random.seed(1)\nweight = nd.zeros((2, 4))\n{make}(mx.init.InitDesc("weight"), weight)\nweight',
                'weight = nd.zeros((1, 1, 4, 4))\n{make}(mx.init.InitDesc("weight"), weight)\nweight',
                'bias = nd.zeros((8,))\n{make}(mx.init.InitDesc("lstm_bias"), bias)\nbias')
SCHEDULES = ("schedule = {make}\n[round(schedule(n), 4) for n in (1, 50, 150, 500, 1000)]",)
TRANSFORMS = ('image = nd.random.randint(0, 255, shape=(32, 32, 3)).astype("uint8")\n{make}(image).shape',
              "image = nd.random.uniform(shape=(3, 32, 32))\n{make}(image).shape")
MODELS = ("net = {make}\nnet.initialize()\nnet(nd.ones((1, 3, 224, 224))).shape",)
PROGRAMS = {"layers": LAYERS, "losses": LOSSES, "metrics": METRICS, "optimizers": OPTIMIZERS, "initializers": INITIALIZERS, "schedules": SCHEDULES,
            "transforms": TRANSFORMS}


def _make(path, options):
    """mx.optimizer.SGD(...) with something for each required option; None where we know nothing."""
    name = path.rpartition(".")[2]
    if name in OPTIONS:
        return f"{path}({OPTIONS[name]})"
    given = []
    for name, _, required, _ in (option[:4] for option in options):
        if required and name not in REQUIRED:
            return None
        if required:
            given.append(REQUIRED[name])
        elif name == "base_lr":
            given.append("base_lr=0.1")
    return f"{path}({', '.join(given)})"


def _run(program):
    import mxnet as mx
    from mxnet import gluon, nd
    from mxnet.gluon import nn
    head, _, last = program.rpartition("\n")
    namespace = {"mx": mx, "nd": nd, "nn": nn, "gluon": gluon, "rnn": gluon.rnn, "transforms": gluon.data.vision.transforms}
    exec(head, namespace)
    result = eval(last, namespace)
    return None if result is None else repr(result).strip()


def example(page, path, options):
    """(lines, output lines) or None"""
    make = _make(path, options)
    for program in PROGRAMS.get(page, ()) if make else ():
        text = program.replace("{make}", make)
        try:
            output = _run(text)
        except Exception:  # whatever a class says to the wrong kind of input: the next program may suit it
            continue
        if output and "nan" not in output:
            return text.splitlines(), [re.sub(r"np\.float(?:32|64)\(([^)]*)\)", r"\1", line.rstrip()) for line in output.splitlines()]
    return None
