"""mx.profiler: traces, tables, own events, old names."""
import json
import subprocess
import sys
import threading

import pytest

import mxnet as mx
from mxnet import autograd, gluon, nd, profiler
from mxnet.gluon import nn


@pytest.fixture
def trace(tmp_path):
    """Starts recording into a file; the function stops and gives its events."""
    path = tmp_path / "trace.json"
    profiler.set_config(filename=str(tmp_path / "earlier.json"))
    profiler.dump()  # what earlier tests left belongs to an earlier trace
    profiler.dumps(reset=True)
    profiler.set_config(filename=str(path))
    profiler.set_state("run")

    def events(name=None):
        profiler.set_state("stop")
        profiler.dump()
        found = json.loads(path.read_text())["traceEvents"]
        return [e for e in found if e["ph"] != "M" and name in (None, e["name"])]
    yield events
    profiler.set_state("stop")
    profiler.resume()
    profiler.set_config(filename=str(path))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Traces without a name of their own do not end in the source tree."""
    monkeypatch.chdir(tmp_path)


def test_trace(trace):
    x = nd.ones((2, 3))
    nd.softmax(x + x).wait_to_read()
    softmax, = trace("softmax")
    assert softmax["ph"] == "X" and softmax["cat"] == "operator" and softmax["dur"] >= 0
    assert softmax["args"]["shapes"] == "(2, 3)"
    assert isinstance(softmax["tid"], int) and isinstance(softmax["pid"], int)


def test_training_step(trace):
    net = nn.Dense(4)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    with autograd.record():
        loss = net(nd.ones((2, 3))).sum()
    loss.backward()
    trainer.step(2)
    names = {event["name"] for event in trace()}
    assert "FullyConnected" in names and "sum" in names and any("sgd" in name for name in names), names


def test_states(trace):
    x = nd.ones((2, 3))
    profiler.pause()
    nd.sin(x)
    profiler.resume()
    nd.cos(x)
    profiler.stop()
    nd.tan(x)
    profiler.start()
    nd.exp(x)
    names = [event["name"] for event in trace()]
    assert names == ["_ones", "cos", "exp"]


def test_plans(trace, tmp_path):
    net = nn.HybridSequential()
    net.add(nn.Dense(4, activation="relu"), nn.Dense(2))
    net.initialize()
    net.hybridize()
    x = nd.ones((3, 5))
    net(x)
    net(x)
    profiler.set_config(profile_symbolic=True, filename=str(tmp_path / "trace.json"))
    profiler.dumps(reset=True)
    net(x)
    nd.sin(x)
    statistics = json.loads(profiler.dumps(format="json"))["Time"]["operator"]
    assert statistics and "sin" not in statistics


def test_memory(trace, tmp_path):
    profiler.set_config(profile_all=True, filename=str(tmp_path / "trace.json"))
    nd.ones((1000,)) + 1
    samples = [event["args"]["Memory: cpu/0"] for event in trace("Memory: cpu/0")]
    assert samples and all(sample > 0 for sample in samples)
    assert "Device Storage" in json.loads(profiler.dumps(format="json"))["Memory"]


def test_dumps(trace):
    x = nd.ones((2, 3))
    for _ in range(3):
        nd.sin(x)
    nd.cos(x)
    table = profiler.dumps(sort_by="count")
    lines = [line.split() for line in table.splitlines() if line.startswith(("sin", "cos"))]
    assert [line[:2] for line in lines] == [["sin", "3"], ["cos", "1"]]
    assert len(lines[0]) == 6
    up = profiler.dumps(sort_by="count", ascending=True)
    assert up.index("cos") < up.index("sin")
    sine = json.loads(profiler.dumps(format="json", reset=True))["Time"]["operator"]["sin"]
    assert sine["Count"] == 3 and sine["Min"] <= sine["Avg"] <= sine["Max"] <= sine["Total"]
    assert "sin" not in profiler.dumps()


def test_own_events(trace):
    domain = profiler.Domain("mine")
    assert str(domain) == "mine"
    with domain.new_task("loading") as task:
        assert str(task) == "loading"
    frame = domain.new_frame("batch")
    frame.start()
    frame.stop()
    frame.stop()  # not started: nothing
    event = profiler.Event("evaluation")
    event.start()
    event.stop()
    counter = domain.new_counter("queue", 3)
    counter += 2
    counter -= 1
    counter.increment()
    counter.decrement(4)
    counter.set_value(10)
    domain.new_marker("epoch").mark("global")
    with profiler.scope("outer"):
        pass
    events = trace()
    assert [e["name"] for e in events if e["ph"] == "X"] == ["loading", "batch", "evaluation", "outer"]
    assert [e["args"]["queue"] for e in events if e["ph"] == "C"] == [3, 5, 4, 5, 1, 10]
    assert [(e["name"], e["s"]) for e in events if e["ph"] == "i"] == [("epoch", "g")]
    assert {e["cat"] for e in events} == {"mine", "event", "scope"}


def test_off_records_nothing(trace):
    profiler.set_state("stop")
    counter = profiler.Counter(profiler.Domain("mine"), "queue", 3)
    counter += 1
    with profiler.Task(profiler.Domain("mine"), "task"):
        nd.ones((2,)) + 1
    assert trace() == []


def test_wrong_arguments():
    with pytest.raises(KeyError):
        profiler.set_state("perhaps")
    with pytest.raises(mx.MXNetError, match="colour"):
        profiler.set_config(colour="red")
    with pytest.raises(AssertionError):
        profiler.dumps(format="xml")
    with pytest.raises(AssertionError):
        profiler.dumps(sort_by="beauty")
    with pytest.raises(mx.MXNetError, match="everywhere"):
        profiler.Marker(profiler.Domain("mine"), "m").mark("everywhere")
    profiler.set_config(filename="/no such folder/trace.json")
    with pytest.raises(OSError):
        profiler.dump()
    profiler.set_config()


def test_old_names(tmp_path):
    with pytest.warns(DeprecationWarning):
        profiler.profiler_set_config(mode="all", filename=str(tmp_path / "old.json"))
        profiler.profiler_set_state("run")
        nd.ones((2,)) + 1
        profiler.profiler_set_state("stop")
        profiler.dump_profile()
    assert json.loads((tmp_path / "old.json").read_text())["traceEvents"]
    profiler.set_kvstore_handle(None)


def test_threads(trace):
    def work():
        x = nd.ones((4,))
        for _ in range(100):
            x = nd.sin(x)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = trace("sin")
    assert len(events) == 300 and len({event["tid"] for event in events}) == 3


def test_written_at_exit(tmp_path):
    path = tmp_path / "exit.json"
    program = f"import mxnet as mx; mx.profiler.set_config(filename={str(path)!r}, continuous_dump=True); " \
              "mx.profiler.set_state('run'); mx.nd.sin(mx.nd.ones((2,)))"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert "sin" in [event["name"] for event in json.loads(path.read_text())["traceEvents"]]


def test_a_new_run_records_after_a_pause():
    profiler.set_state("run")
    profiler.pause()
    profiler.set_state("stop")
    profiler.dumps(reset=True)
    profiler.set_state("run")
    nd.exp(nd.ones((3,))).wait_to_read()
    profiler.set_state("stop")
    assert "exp" in profiler.dumps(reset=True)


class _SineProp(mx.operator.CustomOpProp):
    def create_operator(self, *unused):
        return _Sine()


class _Sine(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], nd.sin(in_data[0]))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], nd.cos(in_data[0]) * out_grad[0])


mx.operator.register("profiled_sine")(_SineProp)


@pytest.mark.parametrize("symbolic", [False, True])
def test_custom_operators_are_a_group_of_their_own(trace, symbolic):
    x = nd.ones((2,))
    x.attach_grad()
    if symbolic:
        executor = mx.sym.Custom(mx.sym.var("x"), op_type="profiled_sine").bind(x.context, {"x": x}, {"x": nd.zeros((2,))})
        executor.forward(is_train=True)
        executor.backward([nd.ones((2,))])
    else:
        with autograd.record():
            y = nd.Custom(x, op_type="profiled_sine")
        y.backward()
    nd.exp(x).wait_to_read()
    profiler.set_state("stop")
    times = json.loads(profiler.dumps(format="json"))["Time"]
    custom = times["Custom Operator"]
    assert {"profiled_sine::pure_python", "profiled_sine::sin", "_backward_profiled_sine::pure_python",
            "_backward_profiled_sine::cos"} <= set(custom)
    assert custom["profiled_sine::sin"]["Count"] == 1
    assert "exp" in times["operator"] and not {"sin", "cos"} & set(times["operator"])


def test_custom_operators_are_left_out_with_all_operators(trace):
    profiler.set_config(profile_imperative=False, profile_symbolic=False)
    nd.Custom(nd.ones((2,)), op_type="profiled_sine").wait_to_read()
    with profiler.Domain("own").new_task("kept"):
        pass
    profiler.set_state("stop")
    assert set(json.loads(profiler.dumps(format="json"))["Time"]) == {"own"}
