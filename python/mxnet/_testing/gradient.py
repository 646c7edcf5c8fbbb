"""Checks of values and gradients: against numbers, finite differences and other contexts.

The checks work on a Symbol or any Python function of NDArrays; a runner gives both the same interface.
"""
import numpy as np

from .. import autograd
from .._core import NDArray
from ..ndarray import array
from .making import default_context, default_dtype
from .tolerance import (assert_almost_equal, default_atols, default_numeric_eps, default_rtols, to_numpy)


# ---- runners -------------------------------------------------------------------------------------------------------

class _Function:
    """Runs a Python function of NDArrays."""

    def __init__(self, function, location, aux_states, ctx, dtype):
        self.function, self.ctx, self.dtype = function, ctx, dtype
        self.by_name = isinstance(location, dict)
        items = location.items() if self.by_name else enumerate(location)
        self.inputs = {key: _as_array(value, ctx, dtype) for key, value in items}
        self.names = list(self.inputs)
        self.output_names = None

    def _call(self):
        if self.by_name:
            result = self.function(**self.inputs)
        else:
            result = self.function(*self.inputs.values())
        return [result] if isinstance(result, NDArray) else list(result)

    def set(self, name, value):
        """Copies a NumPy array into an input."""
        self.inputs[name][:] = array(value, ctx=self.ctx, dtype=self.inputs[name].dtype)

    def forward(self, training):
        """The outputs."""
        with autograd.train_mode() if training else autograd.predict_mode():
            return self._call()

    def backward(self, out_grads, names=None, grad_req="write", before=None):
        """(outputs, gradients by name); `before`: the initial values of the gradients, for grad_req 'add'."""
        reqs = _per_name(grad_req, self.names)
        for name in names or self.names:
            self.inputs[name].attach_grad(reqs[name])
            if before and name in before:
                self.inputs[name].grad[:] = array(before[name], ctx=self.ctx, dtype=self.inputs[name].dtype)
        with autograd.record():
            outputs = self._call()
        autograd.backward(outputs, out_grads)
        return outputs, {name: self.inputs[name].grad for name in names or self.names}


class _Symbol:
    """Runs a Symbol through an executor."""

    def __init__(self, symbol, location, aux_states, ctx, dtype):
        self.symbol, self.ctx, self.dtype = symbol, ctx, dtype
        self.names = symbol.list_arguments()
        self.output_names = symbol.list_outputs()
        values = location if isinstance(location, dict) else dict(zip(self.names, location))
        if set(values) != set(self.names) or len(location) != len(self.names):
            raise ValueError(f"the symbol has arguments {self.names}, got values for {list(values)}")
        self.inputs = {name: _as_array(values[name], ctx, dtype) for name in self.names}
        aux = symbol.list_auxiliary_states()
        given = aux_states if isinstance(aux_states, dict) else dict(zip(aux, aux_states or []))
        self.aux = {name: _as_array(given[name], ctx, dtype) for name in aux if name in given}

    def set(self, name, value):
        """Copies a NumPy array into an argument."""
        self.inputs[name][:] = array(value, ctx=self.ctx, dtype=self.inputs[name].dtype)

    def forward(self, training):
        """The outputs."""
        aux = {name: x.copy() for name, x in self.aux.items()}
        executor = self.symbol.bind(self.ctx, self.inputs, aux_states=aux or None)
        return executor.forward(is_train=training)

    def backward(self, out_grads, names=None, grad_req="write", before=None):
        """(outputs, gradients by name)."""
        names = names or self.names
        reqs = _per_name(grad_req, self.names)
        grads = {name: self.inputs[name].zeros_like() for name in names if reqs[name] != "null"}
        for name, value in (before or {}).items():
            grads[name][:] = array(value, ctx=self.ctx)
        aux = {name: x.copy() for name, x in self.aux.items()}
        reqs = {name: reqs[name] if name in grads else "null" for name in self.names}
        executor = self.symbol.bind(self.ctx, self.inputs, args_grad=grads, grad_req=reqs, aux_states=aux or None)
        outputs = executor.forward(is_train=True)
        executor.backward(out_grads)
        return outputs, {name: grads.get(name) for name in names}


def _as_array(value, ctx, dtype):
    value = to_numpy(value)
    keep = value.dtype.kind in "iub" or dtype is None
    return array(value, ctx=ctx, dtype=value.dtype if keep else dtype)


def _per_name(value, names):
    if isinstance(value, dict):
        return {name: value.get(name, "null") for name in names}
    return dict(zip(names, value)) if isinstance(value, (list, tuple)) else {name: value for name in names}


def runner_of(what, location, aux_states=None, ctx=None, dtype=None):
    """A runner for a Symbol or a function."""
    kind = _Symbol if hasattr(what, "list_arguments") else _Function
    return kind(what, location, aux_states, ctx or default_context(), dtype or default_dtype())


def _pairs(expected, names):
    return expected.items() if isinstance(expected, dict) else zip(names, expected)


# ---- values --------------------------------------------------------------------------------------------------------

def check_symbolic_forward(sym, location, expected, rtol=None, atol=None, aux_states=None, ctx=None, equal_nan=False,
                           dtype=None):
    """AssertionError unless the outputs are as expected; returns them."""
    runner = runner_of(sym, location, aux_states, ctx, dtype)
    outputs = runner.forward(False)
    names = runner.output_names or list(range(len(outputs)))
    if len(expected) != len(outputs):
        raise AssertionError(f"check_symbolic_forward: {len(outputs)} outputs, {len(expected)} expected values")
    have = dict(zip(names, outputs))
    for name, value in _pairs(expected, names):
        assert_almost_equal(to_numpy(value), have[name], rtol, atol, (f"EXPECTED_{name}", f"FORWARD_{name}"), equal_nan)
    return outputs


def check_symbolic_backward(sym, location, out_grads, expected, rtol=None, atol=None, aux_states=None, grad_req="write",
                            ctx=None, grad_stypes=None, equal_nan=False, dtype=None):
    """AssertionError unless the gradients are as expected; returns them by name.

    For grad_req 'add' the gradients start from random values, so that the addition is tested.
    """
    runner = runner_of(sym, location, aux_states, ctx, dtype)
    names = list(expected) if isinstance(expected, dict) else runner.names[:len(expected)]
    reqs = _per_name(grad_req, runner.names)
    before = {name: np.random.normal(size=runner.inputs[name].shape) for name in names if reqs[name] == "add"}
    outs = None if out_grads is None else [_as_array(g, runner.ctx, runner.dtype) for g in
                                           (out_grads.values() if isinstance(out_grads, dict) else _listed(out_grads))]
    _, grads = runner.backward(outs, names, grad_req, before)
    for name, value in _pairs(expected, names):
        if reqs[name] == "null":
            if grads[name] is not None and np.any(to_numpy(grads[name])):
                raise AssertionError(f"check_symbolic_backward: {name} has grad_req 'null' but got a gradient")
            continue
        wanted = to_numpy(value) + before.get(name, 0)
        assert_almost_equal(wanted, grads[name], rtol, atol, (f"EXPECTED_{name}", f"BACKWARD_{name}"), equal_nan)
    return grads


def _listed(x):
    return list(x) if isinstance(x, (list, tuple)) else [x]


# ---- finite differences --------------------------------------------------------------------------------------------

def _projected(runner, weights, training):
    """The sum of all outputs, each element weighted: one number whose gradient is checked."""
    outputs = runner.forward(training)
    if not weights:
        weights += [np.random.uniform(0.5, 1.5, size=o.shape) for o in outputs]
    return sum(float((to_numpy(o).astype("float64") * w).sum()) for o, w in zip(outputs, weights))


def numeric_gradient(runner, name, weights, eps, training):
    """Central differences of the projection with respect to one input."""
    value = to_numpy(runner.inputs[name])
    result = np.zeros(value.shape, "float64")
    for place in np.ndindex(*value.shape):
        keep = value[place]
        ends = []
        for step in (eps, -eps):
            value[place] = keep + step
            runner.set(name, value)
            ends.append((float(value[place]), _projected(runner, weights, training)))
        value[place] = keep
        result[place] = (ends[0][1] - ends[1][1]) / (ends[0][0] - ends[1][0])
    runner.set(name, value)
    return result


def check_numeric_gradient(sym, location, aux_states=None, numeric_eps=None, rtol=None, atol=None, grad_nodes=None,
                           use_forward_train=True, ctx=None, grad_stype_dict=None, dtype=None):
    """AssertionError unless gradients agree with finite differences of a random projection of the outputs."""
    dtype = np.dtype(dtype or default_dtype())
    eps = numeric_eps or default_numeric_eps()[dtype]
    rtol = 10 * default_rtols()[dtype] if rtol is None else rtol
    atol = max(default_atols()[dtype], 1e-6) if atol is None else atol
    runner = runner_of(sym, location, aux_states, ctx, dtype)
    float_names = [n for n in runner.names if np.dtype(runner.inputs[n].dtype).kind == "f"]
    names = float_names if grad_nodes is None else list(grad_nodes)
    weights = []
    _projected(runner, weights, use_forward_train)
    out_grads = [array(w, ctx=runner.ctx, dtype=dtype) for w in weights]
    _, grads = runner.backward(out_grads, names, "write" if isinstance(grad_nodes, (list, type(None))) else grad_nodes)
    grads = {name: to_numpy(g) for name, g in grads.items()}
    for name in names:
        numeric = numeric_gradient(runner, name, weights, eps, use_forward_train)
        assert_almost_equal(numeric, grads[name].astype("float64"), rtol, atol,
                            (f"NUMERICAL_{name}", f"BACKWARD_{name}"))


def numeric_grad(executor, location, aux_states=None, eps=1e-4, use_forward_train=True, dtype=None):
    """Finite differences of the sum of a function's or symbol's outputs: a dict (or list) of NumPy arrays."""
    runner = runner_of(executor, location, aux_states, None, dtype)
    weights = [np.ones(o.shape) for o in runner.forward(use_forward_train)]
    return {name: numeric_gradient(runner, name, weights, eps, use_forward_train) for name in runner.names}


# ---- other contexts ------------------------------------------------------------------------------------------------

def simple_forward(sym, ctx=None, is_train=False, **inputs):
    """Outputs as NumPy arrays; one array if there is one."""
    outputs = [to_numpy(o) for o in runner_of(sym, inputs, ctx=ctx).forward(is_train)]
    return outputs[0] if len(outputs) == 1 else outputs


def check_consistency(sym, ctx_list, scale=1.0, grad_req="write", arg_params=None, aux_params=None, rtol=None,
                      atol=None, raise_on_err=True, ground_truth=None, equal_nan=False, use_uniform=False,
                      rand_type=np.float64):
    """AssertionError unless contexts and element types agree on outputs and gradients.

    ctx_list: [{"ctx": mx.cpu(0), "data": (2, 3), "type_dict": {"data": "float32"}}, ...]; the most precise one is the
    reference for the others.  Returns the reference: a dict of outputs and gradients.
    """
    symbols = sym if isinstance(sym, (list, tuple)) else [sym] * len(ctx_list)
    shapes = [{k: v for k, v in entry.items() if k not in ("ctx", "type_dict")} for entry in ctx_list]
    draw = (lambda s: np.random.uniform(-0.5, 0.5, s)) if use_uniform else (lambda s: np.random.normal(size=s))
    values = {name: (draw(shape) * scale).astype(rand_type) for name, shape in shapes[0].items()}
    values.update({name: to_numpy(v) for name, v in (arg_params or {}).items()})
    results, types, weights = [], [], None
    for one, entry in zip(symbols, ctx_list):
        kind = np.dtype(next(iter(entry.get("type_dict", {}).values()), default_dtype()))
        runner = runner_of(one, values, aux_params, entry["ctx"], kind)
        outputs = [to_numpy(o) for o in runner.forward(True)]
        found = {f"output{i}": o for i, o in enumerate(outputs)}
        if grad_req != "null":
            weights = weights or [np.random.normal(size=o.shape) for o in outputs]
            grads = runner.backward([array(w, ctx=entry["ctx"], dtype=kind) for w in weights], None, grad_req)[1]
            found.update({f"gradient of {name}": to_numpy(g) for name, g in grads.items() if g is not None})
        results.append(found)
        types.append(kind)
    best = max(range(len(types)), key=lambda i: types[i].itemsize)
    truth = ground_truth or results[best]
    for found, kind in zip(results, types):
        _compare_results(found, truth, kind, rtol, atol, equal_nan, raise_on_err)
    return truth


def _compare_results(found, truth, kind, rtol, atol, equal_nan, raise_on_err):
    pick = lambda tol, table: tol[kind] if isinstance(tol, dict) else table[kind] if tol is None else tol  # noqa: E731
    for name, value in found.items():
        try:
            assert_almost_equal(value.astype("float64"), truth[name].astype("float64"), pick(rtol, default_rtols()),
                                pick(atol, default_atols()), (f"{name} ({kind})", f"{name} (truth)"), equal_nan)
        except AssertionError:
            if raise_on_err:
                raise
            import traceback
            traceback.print_exc()


def check_gluon_hybridize_consistency(net_builder, data_l, numpy_func=None, test_grad=True, rtol=1e-4, atol=1e-4):
    """AssertionError unless a block computes the same values and gradients before and after hybridize()."""
    saved = None
    for hybridize in (False, True):
        net = net_builder()
        net.initialize()
        if saved is not None:
            for key, parameter in zip(saved["parameters"], net.collect_params().values()):
                parameter.set_data(saved["values"][key])
        if hybridize:
            net.hybridize()
        inputs = [x.copy() for x in data_l]
        for x in inputs:
            x.attach_grad()
        with autograd.record(train_mode=test_grad):
            out = net(*inputs)
        if test_grad:
            out.backward()
        found = {"out": to_numpy(out), "grads": [to_numpy(x.grad) for x in inputs] if test_grad else []}
        if numpy_func is not None:
            assert_almost_equal(found["out"], numpy_func(*[to_numpy(x) for x in data_l]), rtol, atol)
        if saved is None:
            parameters = net.collect_params()
            saved = dict(found, parameters=list(range(len(list(parameters.values())))),
                         values=[p.data().copy() for p in parameters.values()])
        else:
            assert_almost_equal(found["out"], saved["out"], rtol, atol)
            for a, b in zip(found["grads"], saved["grads"]):
                assert_almost_equal(a, b, rtol, atol)


def compare_optimizer(opt1, opt2, shape, dtype, w_stype="default", g_stype="default", rtol=1e-4, atol=1e-5,
                      compare_states=True, ntensors=1):
    """AssertionError unless two optimizers make the same step."""
    from .making import rand_ndarray
    weights = [rand_ndarray(shape, w_stype, dtype=dtype) for _ in range(ntensors)]
    grads = [rand_ndarray(shape, g_stype, dtype=dtype) for _ in range(ntensors)]
    results = []
    for optimizer in (opt1, opt2):
        mine, states = [w.copy() for w in weights], []
        for i, (w, g) in enumerate(zip(mine, grads)):
            states.append(optimizer.create_state_multi_precision(i, w))
            optimizer.update_multi_precision(i, w, g.copy(), states[-1])
        results.append((mine, states))
    from .tolerance import compare_ndarray_tuple
    compare_ndarray_tuple(results[0][0], results[1][0], rtol, atol)
    if compare_states:
        compare_ndarray_tuple(results[0][1], results[1][1], rtol, atol)


def same_symbol_structure(sym1, sym2):
    """Whether two symbols compute the same, regardless of node names."""
    import json
    graphs = [json.loads(s.tojson()) for s in (sym1, sym2)]
    shape = [[(n["op"], n["inputs"],
               n.get("attrs", n.get("attr", n.get("param")))) for n in g["nodes"]] for g in graphs]
    return shape[0] == shape[1] and graphs[0]["heads"] == graphs[1]["heads"]
