"""The list of MXNet's operators against those of this package: names, namespaces, parameters, defaults.

The list is a table next to the repository; without it there is nothing to compare.  Run as a program this file prints what
differs, tier by tier.
"""
import ast
import csv
import json
import os
import re

import pytest

import mxnet as mx
from mxnet import _core

TABLE = os.path.join(os.path.dirname(__file__), "..", "..", "..", "shared", "api", "ops.tsv")

# Operators that are left out, and why.
ELSEWHERE = {
    "intgemm, TVM and graph samplers": r"_contrib_(intgemm|tvm|dgl)|_contrib_edge_id$",
    "8-bit inference": r"_contrib_(quantized_|quantize_asym)",
    "runs inside of the engine, never called": r"_CachedOp|_CrossDeviceCopy$|_NoGradient$|_NDArray$|_Native$|_imdecode$",
    "control flow is written with Python functions": r"_foreach$|_while_loop$|_cond$",
    "written with Python classes": r"Custom$|_CustomFunction$",
    "storage of sparse arrays": r"_contrib_getnnz$|_contrib_SparseEmbedding$",
}
# Defaults that mean the same in another spelling.
DEFAULTS = {("Pooling", "count_include_pad"), ("_full", "shape")}
# Functions of mx.nd alone: what they give depends on values.
ONLY_ARRAYS = {"_cvimdecode", "_cvimread"}
TIERS = ("T1", "T2", "T3")


def rows(tier=None):
    if not os.path.exists(TABLE):
        return []
    with open(TABLE, newline="") as file:
        found = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row for row in found if tier in (None, row["tier"])]


def left_out(name):
    return any(re.match(pattern, name) for pattern in ELSEWHERE.values())


def parameters(text):
    """[(name, default as text or None if required)] of "axis:int=1; p:float required [>=0]"."""
    found = []
    for part in filter(None, (p.strip() for p in re.split(r";\s*(?=[A-Za-z_]\w*:)", text or ""))):
        name, rest = part.replace("(via **kwargs) ", "").split(":", 1)
        rest = re.sub(r"\s*(\[(>|<|range)[^\]]*\]|\(sigma\))$", "", rest.strip())
        found.append((name, None if rest.endswith(" required") else rest.rsplit("=", 1)[1] if "=" in rest else ""))
    return found


def value(text):
    """Defaults in one spelling: 0 and False, '' and None, 1e-3 and 0.001, [1] and (1,) are the same."""
    if text is None:
        return None
    try:
        text = ast.literal_eval(str(text).strip().replace("L", ""))
    except (ValueError, SyntaxError):
        text = str(text).strip()
    if isinstance(text, (bool, int, float)):
        return float("%.7g" % float(text))
    if isinstance(text, (list, tuple)):
        return tuple(value(t) for t in text)
    return {"None": "", "False": 0.0, "True": 1.0}.get(text, "" if text is None else text)


def missing_names(row):
    """Names and places of the row that this package does not have."""
    ours, gone = _core.operators(), []
    names = [row["name"]] + [a for a in row["aliases"].split(",") if a]
    if "NDArrayFunction" in row["num_inputs"] or row["name"] in ONLY_ARRAYS:
        names = []
    gone += [n for n in names if n not in ours and not re.match(r"_(npi|npx|np|_npi)_", n)]
    for place in filter(None, row["namespaces"].split(",")):
        if not place.startswith("nd.") or ".sparse._" in place:
            continue
        for root, path in ((mx, place), (mx, "sym" + place[2:]))[:2 if names else 1]:
            here = root
            for word in path.split("."):
                here = getattr(here, word, None)
            if here is None:
                gone.append("mx." + path)
    return gone


def differing_parameters(row):
    op = _core.operators().get(row["name"])
    if op is None:
        return []
    ours = [(a["name"], None if a["required"] else a["default"]) for a in json.loads(op.description)["attributes"]]
    wanted = parameters(row["params"])
    have = dict(ours)
    differs = []
    for name, default in wanted:
        if name not in have:
            differs.append(name + " is missing")
        elif default is not None and have[name] is None:
            differs.append("%s=%s, here it is required" % (name, default))
        elif default is not None and (row["name"], name) not in DEFAULTS and value(default) != value(have[name]):
            differs.append("%s=%s, here %s" % (name, default, have[name]))
    order = [n for n, _ in wanted if n in have]
    if not differs and order != [n for n, _ in ours if n in order]:
        differs.append("the order of parameters")
    if op.operator_name == row["name"]:  # an alias may have more
        differs += ["%s is not in the list" % n for n, _ in ours if n not in dict(parameters(row["params"]))]
    return differs


def differences(tier):
    found = {}
    for row in rows(tier):
        if left_out(row["name"]):
            continue
        problems = missing_names(row) + differing_parameters(row)
        if problems:
            found[row["name"]] = problems
    return found


@pytest.mark.parametrize("tier", TIERS)
def test_every_operator_is_here(tier):
    if not rows():
        pytest.skip("the table of operators (%s) is not here" % os.path.normpath(TABLE))
    assert differences(tier) == {}


if __name__ == "__main__":
    for tier in TIERS + ("T4",):
        for name, problems in differences(tier).items():
            print(tier, name, "|", "; ".join(problems))
