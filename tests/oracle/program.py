"""One program that runs on both packages: ours and the archived MXNet 1.9.1, each in its own process.

    python program.py CASES RESULTS [FIRST]

CASES is a pickle of cases; results are appended to RESULTS one by one, so that a case that kills the process is known.
A result is a dict of NumPy arrays, strings and numbers, or {"raises": name of the exception}.
"""
import faulthandler
import pickle
import signal
import sys

import numpy as np

from mxnet import autograd, nd
from portable import plain, whole

PATIENCE = 120  # seconds for one case, after which the process ends as if the case had killed it
PREFIXES = {"_contrib_": "contrib", "_linalg_": "linalg", "_image_": "image", "_random_": "random", "_sparse_": "sparse"}


def find(name):
    """The function of an operator under its name in files; None if this package has none."""
    for place in (nd.op, nd._internal, nd):
        if name in vars(place) and callable(getattr(place, name)):
            return getattr(place, name)
    for prefix, space in PREFIXES.items():
        if name.startswith(prefix) and hasattr(getattr(nd, space, None), name[len(prefix):]):
            return getattr(getattr(nd, space), name[len(prefix):])
    return None


def as_list(x):
    return list(x) if isinstance(x, (list, tuple)) else [x]


def run_operator(case):
    function = find(case["op"])
    if function is None:
        return {"absent": True}
    inputs = [None if x is None else nd.array(x, dtype=x.dtype) for x in case["inputs"]]
    while inputs and inputs[-1] is None:
        inputs.pop()
    for i in case["wanted"]:
        inputs[i].attach_grad()
    with autograd.record(train_mode=case["train"]):
        outputs = as_list(function(*inputs, **case["attrs"]))
    result = {"outputs": [(x.asnumpy(), np.dtype(x.dtype).name) for x in outputs]}
    if not case["wanted"]:
        return result
    heads = [x for x in outputs if np.dtype(x.dtype).kind == "f"]
    rng = np.random.RandomState(1)
    autograd.backward(heads, [nd.array(rng.uniform(0.5, 1.5, x.shape), dtype=x.dtype) for x in heads],
                      train_mode=case["train"])
    result["gradients"] = [inputs[i].grad.asnumpy() for i in case["wanted"]]
    return result


def run_area(case):
    import areas
    return getattr(areas, case["area"])(**case.get("arguments", {}))


def run(case):
    try:
        return run_operator(case) if "op" in case else run_area(case)
    except Exception as error:  # the exception is the result
        kinds = [c.__name__ for c in type(error).__mro__]
        return {"raises": kinds, "message": str(error)[:300]}


def die_at_once():
    """MXNet's signal handler calls exit(), which may deadlock on a lock that was held when the signal arrived."""
    for name in ("SIGSEGV", "SIGABRT", "SIGFPE", "SIGBUS", "SIGILL"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)


def main():
    die_at_once()
    with open(sys.argv[1], "rb") as file:
        cases = whole(pickle.load(file))
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    with open(sys.argv[2], "ab") as out:
        for number in range(first, len(cases)):
            pickle.dump(("start", number), out)
            out.flush()
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            pickle.dump(("done", number, plain(run(cases[number]))), out, protocol=4)
            out.flush()


if __name__ == "__main__":
    main()
