"""help() of operators: shapes, and an example that runs."""
import doctest
import re

import pytest

import mxnet as mx
from mxnet import nd
from mxnet._core import Op

PARTS = ("", "contrib", "linalg", "image", "random")


def public():
    """{name below nd: operator}"""
    found = {}
    for part in PARTS:
        module = getattr(nd, part) if part else nd
        for name, op in vars(module).items():
            if isinstance(op, Op) and not name.startswith("_"):
                found[f"{part}.{name}" if part else name] = op
    return found


PUBLIC = public()


def examples(op):
    """The doctest of an operator's documentation; None if it has none."""
    found = doctest.DocTestParser().get_doctest(op.__doc__, {"nd": nd, "mx": mx}, op.__name__, None, 0)
    return found if found.examples else None


@pytest.mark.parametrize("name", PUBLIC)
def test_example_runs(name):
    test = examples(PUBLIC[name])
    if test is None:
        pytest.skip("no sample of it is an example")
    output = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(test, out=output.append)
    if mx.current_context().device_type == "gpu" and "there is no kernel" in "".join(output):
        pytest.skip("runs on the host only")
    assert runner.failures == 0, "".join(output)


def test_most_have_examples():
    """All but a few whose results have shapes that depend on values, or that return nothing."""
    having = [name for name, op in PUBLIC.items() if examples(op)]
    assert len(having) > 0.95 * len(PUBLIC), f"{len(having)} of {len(PUBLIC)}"


def test_convolution():
    text = nd.Convolution.__doc__
    assert re.search(r"Shapes: data \(\d.*\), weight \(\d.*\) -> \(\d", text)
    assert ">>> nd.Convolution(data, weight" in text
    assert "w[f, c, k]" in text.replace("'", "")  # the formula
    assert ">>>" not in mx.sym.Convolution.__doc__  # symbols have no numbers to show
    assert ">>> nd.contrib." in nd.contrib.quadratic.__doc__
