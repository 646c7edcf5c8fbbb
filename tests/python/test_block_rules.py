"""Rules of Block, HybridBlock and SymbolBlock that programs rely on: inputs, results, files, names, errors."""
import warnings

import numpy as np
import pytest

import mxnet as mx
from mxnet import gluon, nd
from mxnet.gluon import nn, rnn

pytestmark = pytest.mark.usefixtures("on_host")  # rules of blocks, the same on every device

X = nd.array([[1, 2, 3], [3, 0, 1]])


class By(gluon.HybridBlock):
    """Computes what a function says."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F, x, *args):
        return self.function(F, x, *args)


def same(a, b):
    np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-5)


# ---- inputs and results -----------------------------------------------------------------------------------------------

def test_inputs_are_checked():
    net = By(lambda F, x, y=None: x * 1 if y is None else x + y)
    for hybridized in (False, True):
        for bad in ((None,), (None, None), (3,), ("text",), (np.ones((2, 3)),), (X, mx.sym.var("a"))):
            with pytest.raises(ValueError, match="by"):
                net(*bad)
        if hybridized:
            for bad in (3, np.ones((2, 3)), "text"):
                with pytest.raises(ValueError):
                    net(X, bad)
            with pytest.raises(ValueError, match="one context"):
                net(X.as_in_context(mx.cpu(1)), X.as_in_context(mx.cpu(2)))
        else:
            same(net(X, 3), X + 3)
        net.hybridize()


def test_a_plan_is_for_one_pattern_of_inputs():
    def make():
        net = By(lambda F, x, y=None: (x if not isinstance(x, list) else x[0]) * 1 if y is None else x + y)
        net.hybridize()
        return net

    for first, others in (((X, X), [(X,), (X, None)]), ((X, None), [(X, X), (X,)]), ((X,), [(X, X), ([X],)])):
        net = make()
        wanted = net(*first)
        for other in others:
            with pytest.raises(ValueError, match="hybridize"):
                net(*other)
        same(net(*first), wanted)
        net.hybridize()
        net(*others[0])  # a new start


@pytest.mark.parametrize("function, kinds", [
    (lambda F, x: (x * 1, x * 2), (2,)), (lambda F, x: (x * 1,), (1,)),
    (lambda F, x: (x * 1, (x * 2, [x * 3])), (2, 2, 1))])
def test_results_of_hybridized_blocks_are_lists(function, kinds):
    net = By(function)
    before = net(X)
    assert isinstance(before, tuple)
    net.hybridize()
    for _ in range(2):
        value = net(X)
        for n in kinds:
            assert isinstance(value, list) and len(value) == n
            same(value[0], before[0])
            value, before = value[-1], before[-1]
        before = By(function)(X)


def test_cells_and_their_states():
    cell = rnn.LSTMCell(3)
    cell.initialize()
    states = cell.begin_state(2)
    assert isinstance(cell(X, states), tuple)
    cell.hybridize()
    assert isinstance(cell(X, states), list) and isinstance(cell(X, states)[1], list)
    for bad in (states[0], states[:1], states + states):
        with pytest.raises(ValueError):
            cell(X, bad)
    layer = rnn.LSTM(3)
    layer.initialize()
    x = nd.ones((4, 2, 3))
    assert isinstance(layer(x, layer.begin_state(2)), tuple)
    lengths = nd.array([1, 2])
    same(layer(x, sequence_length=lengths), layer(x))  # made without use_sequence_length: not looked at
    same(layer(x, layer.begin_state(2), sequence_length=lengths)[0], layer(x))
    layer.hybridize()
    assert isinstance(layer(x, layer.begin_state(2)), list)


def test_a_list_is_no_input_of_a_layer():
    for hybridized in (False, True):
        net = nn.Dense(2)
        net.initialize()
        if hybridized:
            net.hybridize()
        for kind in (AssertionError, ValueError):
            with pytest.raises(kind, match="list"):
                net([X])


# ---- construction -----------------------------------------------------------------------------------------------------

def test_layers_of_no_size_can_be_made():
    for make in (lambda: nn.Dense(0), lambda: nn.Dense(-1), lambda: nn.Embedding(0, 3), lambda: nn.Dense(0, in_units=3)):
        net = make()
        assert type(net).__name__ in repr(net)
        with pytest.raises(ValueError, match="wanted at least 1"):
            net.initialize()
            net(X)
    with pytest.raises(mx.MXNetError):
        nn.Conv2D(0, 3)


def test_before_the_constructor():
    class Early(gluon.Block):
        def __init__(self, value):
            self.member = value
            super().__init__()

    assert Early(3).member == 3
    for value in (nn.Dense(2), gluon.Parameter("p")):
        with pytest.raises(AttributeError, match="super"):
            Early(value)

    class Never(gluon.Block):
        def __init__(self):
            pass

    for use in (lambda b: b(X), lambda b: b.collect_params(), lambda b: b.name):
        with pytest.raises(AttributeError, match="super"):
            use(Never())


def test_blocks_hidden_in_containers():
    class Hidden(gluon.Block):
        def __init__(self, value):
            super().__init__()
            self.value = value

    for value in ([nn.Dense(2)], {"a": nn.Dense(2)}, {"a": [3, (nn.Dense(2),)]}, [{"b": nn.Dense(1)}, 3]):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            Hidden(value).collect_params()
        assert len([w for w in caught if w.category is UserWarning]) == 1
    for value in ([1, [2]], {"a": {"b": 3}}, []):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Hidden(value).collect_params()


def test_two_parameters_of_one_name():
    net = nn.Sequential()
    net.add(nn.Dense(2, prefix="a_"), nn.Dense(2, prefix="a_"))
    for kind in (AssertionError, mx.MXNetError):
        with pytest.raises(kind, match="a_weight"):
            net.collect_params()


def test_block_scope():
    from mxnet.gluon.block import _BlockScope

    class Thing:
        prefix, _empty_prefix = "thing_", False

    with _BlockScope(Thing()):
        assert nn.Dense(2).prefix == "thing_dense0_"
        prefix, params = _BlockScope.create(None, None, "dense")
        assert prefix == "thing_dense1_" and isinstance(params, gluon.ParameterDict) and params.prefix == "thing_dense1_"
        assert _BlockScope.create("mine_", None, "dense")[0] == "thing_mine_"
    shared = gluon.ParameterDict("s_")
    assert _BlockScope.create("x_", shared, "dense")[1].prefix == "s_"
    net = nn.Sequential(prefix="net_")
    with _BlockScope(net):
        assert nn.Dense(2).prefix == "net_dense0_"
    Thing._empty_prefix = True
    with _BlockScope(Thing()):
        assert not nn.Dense(2).prefix.startswith("thing_")


# ---- files --------------------------------------------------------------------------------------------------------------

class Named(gluon.HybridBlock):
    def __init__(self, first, second):
        super().__init__()
        setattr(self, first, nn.Dense(2, in_units=3))
        setattr(self, second, nn.HybridSequential())
        getattr(self, second).add(rnn.LSTM(2, input_size=2))
        self.names = first, second

    def hybrid_forward(self, F, x):
        return getattr(self, self.names[1])(F.expand_dims(getattr(self, self.names[0])(x), axis=0))


def test_save_and_load_by_position(tmp_path):
    a, b = Named("one", "two"), Named("eins", "zwei")
    a.initialize(mx.init.Uniform(1))
    a.save(str(tmp_path / "net"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net-model.json", "net-model.params"]
    b.load(str(tmp_path / "net"))
    same(a(X), b(X))
    with pytest.raises(ValueError, match="children"):
        nn.Dense(2).load(str(tmp_path / "net"))


def test_parameter_files(tmp_path):
    shared = nn.Dense(3, in_units=3)
    net = nn.HybridSequential()
    net.add(shared, shared)
    net.initialize()
    path = str(tmp_path / "p")
    net.save_parameters(path, deduplicate=True)
    assert list(nd.load(path)) == ["1.weight", "1.bias"]
    net.load_parameters(path)
    small = nn.HybridSequential()
    small.add(nn.Dense(3, in_units=3))
    net.save_parameters(path)
    with pytest.raises(ValueError, match="1.weight"):
        small.load_parameters(path)
    small.load_parameters(path, ignore_extra=True)
    larger = nn.HybridSequential()
    larger.add(nn.Dense(3, in_units=3), nn.Dense(3, in_units=3), nn.Dense(3, in_units=3))
    with pytest.raises(AssertionError, match="2.weight"):
        larger.load_parameters(path)
    empty = gluon.ParameterDict()
    empty.save(path)
    empty.load(path)
    nn.HybridSequential().save_parameters(path)
    nn.HybridSequential().load_parameters(path)


def test_cast_after_a_call_then_export(tmp_path):
    net = nn.HybridSequential()
    net.add(nn.Dense(4), nn.BatchNorm(), nn.Dense(2))
    net.initialize()
    net.hybridize()
    net(X)
    net.cast("float64")
    wanted = net(X.astype("float64"))
    net.export(str(tmp_path / "n"))
    back = gluon.SymbolBlock.imports(str(tmp_path / "n-symbol.json"), ["data"], str(tmp_path / "n-0000.params"))
    got = back(X.astype("float64"))
    assert got.dtype == np.float64
    same(got, wanted)


def test_summary_lines(capsys):
    shared = nn.Dense(3, in_units=3)
    net = nn.HybridSequential()
    net.add(shared, shared, nn.BatchNorm())
    net.initialize()
    net.summary(X)
    text = capsys.readouterr().out.splitlines()
    assert text[-7:-1] == ["Parameters in forward computation graph, duplicate included", "   Total params: 60",
                           "   Trainable params: 54", "   Non-trainable params: 6",
                           "Shared params in forward computation graph: 36", "Unique parameters in model: 24"]


# ---- SymbolBlock ------------------------------------------------------------------------------------------------------

def traced():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(4), nn.BatchNorm(), nn.Dense(2))
    return net, net(mx.sym.var("data"))


@pytest.mark.parametrize("state", ["fresh", "deferred", "ready"])
def test_symbol_blocks_share_parameters(state):
    net, outputs = traced()
    if state != "fresh":
        net.initialize()
    if state == "ready":
        net(X)
    block = gluon.SymbolBlock(outputs, [mx.sym.var("data")], params=net.collect_params())
    theirs, ours = net.collect_params(), block.collect_params()
    assert all(ours[name] is theirs[name] for name in ours.keys()) and len(ours) == len(theirs)
    if state == "fresh":
        net.initialize()
    same(block(X), net(X))
    net[0].weight.set_data(net[0].weight.data() * 2)
    same(block(X), net(X))
    block.hybridize()
    same(block(X), net(X))
    assert block(mx.sym.var("other")).list_arguments()[0] == "other"


def test_symbol_blocks():
    net, outputs = traced()
    net.initialize()
    net(X)
    names = list(gluon.SymbolBlock(outputs, [mx.sym.var("data")]).collect_params())
    assert names == outputs.list_arguments()[1:] + outputs.list_auxiliary_states()
    with net.name_scope():
        inside = gluon.SymbolBlock(outputs, [mx.sym.var("data")], params=net.collect_params())
    assert list(inside.collect_params()) == names
    seen = []
    inside.register_forward_hook(lambda block, inputs, result: seen.append(result))
    same(inside(X), net(X))
    assert len(seen) == 1
    every = gluon.SymbolBlock(outputs.get_internals(), [mx.sym.var("data")], params=net.collect_params())(X)
    assert isinstance(every, list) and len(every) == len(outputs.get_internals().list_outputs())
    same(every[0], X)

    class Doubled(gluon.SymbolBlock):
        def forward(self, x):
            return super().forward(x) * 2

    double = Doubled(outputs, [mx.sym.var("data")], params=net.collect_params())
    for _ in range(3):
        same(double(X), net(X) * 2)
        double.hybridize()
    a = mx.sym.var("a")
    same(gluon.SymbolBlock(a * 2, [a, mx.sym.var("unused")])(X, X), X * 2)
    with pytest.raises(AssertionError, match="sparse"):
        gluon.SymbolBlock(a * mx.sym.var("w", attr={"__storage_type__": "1"}), [a])


def test_split_data():
    for n, slices, wanted in ((10, 4, [3, 3, 2, 2]), (2, 3, [1, 1, 0]), (5, 2, [3, 2]), (6, 3, [2, 2, 2])):
        data = nd.arange(n * 2).reshape((n, 2))
        parts = gluon.utils.split_data(data, slices, even_split=False)
        assert [p.shape for p in parts] == [(k, 2) for k in wanted]
        np.testing.assert_array_equal(np.concatenate([p.asnumpy() for p in parts]), data.asnumpy())
        across = gluon.utils.split_data(data.T, slices, batch_axis=1, even_split=False)
        assert [p.shape for p in across] == [(2, k) for k in wanted]
    with pytest.raises(ValueError, match="evenly"):
        gluon.utils.split_data(nd.arange(10), 4)
    with pytest.raises(ValueError, match="evenly"):
        gluon.utils.split_data(nd.arange(2), 3)


def test_every_container_of_unregistered_blocks_is_named():
    class Net(gluon.Block):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.fine = {"a": [nn.Dense(2), nn.Dense(2)]}, [nn.Dense(2)], [1, 2]

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        Net().collect_params()
    assert [("'first'" in str(w.message), "'second'" in str(w.message)) for w in found] == [(True, False), (False, True)]
