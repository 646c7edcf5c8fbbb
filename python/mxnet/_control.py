"""Loops and conditions of mx.nd.contrib and mx.sym.contrib: nested lists here, everything else in the library.

The user's functions take and return nested lists; the library takes flat lists of arrays or symbols.
"""
from . import _core
from ._core import NDArray, Symbol


# ---- nested lists --------------------------------------------------------------------------------------------------

def _is_one(value):
    return isinstance(value, NDArray) or (isinstance(value, Symbol) and len(value.list_outputs()) == 1)


_FLAT = "flat"  # the form of a flat list, by far the most frequent one


def flatten(value, who, kind):
    """(arrays, form) of a nested list; form: None for one array, _FLAT, or a list of (count, form)."""
    if type(value) is NDArray:
        return [value], None
    if type(value) is list:
        for item in value:
            if type(item) is not NDArray:
                break
        else:
            return value, _FLAT
    if _is_one(value):
        return [value], None
    if isinstance(value, Symbol):  # of several outputs
        value = list(value)
    assert isinstance(value, (list, tuple)), \
        f"{who} must be (nested) list of {kind.__name__}, but got {value} of type {type(value)}"
    arrays, form = [], []
    for item in value:
        inner, shape = flatten(item, who, kind)
        arrays += inner
        form.append((len(inner), shape))
    return arrays, form


def regroup(arrays, form):
    """Rebuilds the nested list that flatten() flattened."""
    if form is _FLAT:
        return arrays
    if form is None:
        return arrays[0]
    result = []
    for count, inner in form:
        result.append(regroup(arrays[:count], inner))
        arrays = arrays[count:]
    return result


# ---- loops ---------------------------------------------------------------------------------------------------------

def foreach(kind, body, data, init_states, name):
    """Runs body(slice, states) -> (output, states) over the first axis of data."""
    arrays, data_form = flatten(data, "foreach input", kind)
    states, state_form = flatten(init_states, "foreach states", kind)
    lengths = {x.shape[0] for x in arrays if isinstance(x, NDArray) and x.shape}
    assert len(lengths) < 2, f"foreach: the first axes of data differ: {sorted(lengths)}"
    out_form, old_form = [], state_form

    def finish(result):
        nonlocal out_form, old_form
        output, new = result
        flat, out_form = flatten(output, "foreach output", kind)
        flat_states, old_form = flatten(new, "foreach loop_vars", kind)
        assert kind is NDArray or old_form == state_form, "The input and output loop_vars have different format"
        return flat, flat_states

    def step(rows, old):
        return finish(body(rows[0] if data_form is None else regroup(rows, data_form), regroup(old, old_form)))

    flat = kind is NDArray and data_form in (None, _FLAT) and state_form in (None, _FLAT)
    outputs, last, forms = _core.foreach(step, arrays, states, name, body if flat else None, finish,
                                         data_form is None, state_form is None)
    if forms and outputs:
        out_form, old_form = (None if one else _FLAT for one in forms)
    return regroup(outputs, out_form) if outputs else [], regroup(last, old_form)


def _steps(max_iterations):
    if max_iterations is None:
        raise ValueError("max_iterations should be specified")
    try:
        return int(max_iterations)
    except (TypeError, ValueError):
        raise ValueError("Cannot convert max_iteration to python int") from None


def while_loop(kind, cond, func, loop_vars, max_iterations, name):
    """While cond(*loop_vars): step_output, loop_vars = func(*loop_vars)."""
    steps = _steps(max_iterations)
    single = _is_one(loop_vars)
    variables, form = flatten([loop_vars] if single else loop_vars, "while loop_vars", kind)
    if not variables:
        raise ValueError("loop_vars should contain at least one element")
    forms = {"output": []}

    def holds(values):
        answer = cond(*regroup(values, form))
        if kind is Symbol and not isinstance(answer, (Symbol, NDArray)):
            raise ValueError("Return of cond must be a Symbol")
        return answer

    def step(values):
        output, new = func(*regroup(values, form))
        flat, forms["output"] = flatten([] if output is None else output, "while output", kind)
        fresh, _ = flatten([new] if _is_one(new) else new, "while loop_vars", kind)
        if len(fresh) != len(values):
            raise ValueError("The length of loop_vars should be consistent during the loop: "
                             f"got {len(fresh)}, expected {len(values)}")
        return flat, fresh

    outputs, last = _core.while_loop(holds, step, variables, steps, name)
    result = regroup(outputs, forms["output"]) if outputs else []
    last = regroup(last, form)
    return result, last[0] if single else last


# ---- conditions ----------------------------------------------------------------------------------------------------

def cond_arrays(pred, then_func, else_func):
    """then_func() if pred (one element) is not 0, else else_func(); returns the result of the branch unchanged."""
    given = []

    def branch(function):
        def run():
            given.append(function())
            return []
        return run

    _core.cond(pred, branch(then_func), branch(else_func), None)
    return given[-1]


def cond_symbols(pred, then_func, else_func, name):
    """One node that runs either branch."""
    assert isinstance(pred, Symbol), \
        f"cond outputs must be (nested) list of Symbol, but got {pred} of type {type(pred)}"
    forms = []

    def branch(function):
        def run():
            flat, form = flatten(function(), "cond outputs", Symbol)
            forms.append((form, len(flat)))
            if len(forms) == 2 and forms[0][1] != forms[1][1]:
                raise ValueError("Number of outputs differs between then-branch and else-branch")
            return flat
        return run

    outputs = _core.cond(pred, branch(then_func), branch(else_func), name)
    return regroup(outputs, forms[0][0])
