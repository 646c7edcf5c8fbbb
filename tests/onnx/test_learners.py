"""Classic learners (domain ai.onnx.ml), as tools of scikit-learn write them: the same results as those of ONNX Runtime.

SPDX-License-Identifier: Apache-2.0
"""
import numpy as np
import onnx
import pytest
from onnx import TensorProto as T, helper as h

import mxnet as mx
from mxnet import gluon, nd
from test_networks import session_of

FEATURES = 4


def tree(random, depth, leaves, tree_id, **kinds):
    """Attributes of a random full tree; leaves(random) gives [(target, weight)]."""
    inner = 2 ** depth - 1
    nodes, weights = [], []
    for i in range(2 * inner + 1):
        leaf = i >= inner
        mode = "LEAF" if leaf else random.choice(kinds.get("modes", ["BRANCH_LEQ"]))
        nodes.append((tree_id, i, 0 if leaf else random.randint(FEATURES), 0.0 if leaf else float(np.float32(random.randn())), mode,
                      0 if leaf else 2 * i + 1, 0 if leaf else 2 * i + 2, int(random.randint(2)) if kinds.get("missing") else 0))
        weights += [(tree_id, i, target, weight) for target, weight in (leaves(random) if leaf else [])]
    return nodes, weights


def forest(kind, leaves, trees=3, depth=3, **kinds):
    random = np.random.RandomState(3)
    nodes, weights = [], []
    for t in range(trees):
        more = tree(random, depth, leaves, t, **kinds)
        nodes, weights = nodes + more[0], weights + more[1]
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true")
    attrs = {f"nodes_{name}": list(column) for name, column in zip(names, zip(*nodes))}
    attrs.update({f"{kind}_{name}": list(column) for name, column in zip(("treeids", "nodeids", "ids", "weights"), zip(*weights))})
    return attrs


def some(*targets, low=-1.0, high=1.0):
    return lambda random: [(t, float(np.float32(random.uniform(low, high)))) for t in targets]


RANDOM = np.random.RandomState(0)
COEFFICIENTS = RANDOM.randn(3 * FEATURES).astype("float32").tolist()
# operator: attributes, number of results
LEARNERS = {
    "regression": ("LinearRegressor", {"coefficients": COEFFICIENTS[:8], "intercepts": [0.5, -1.0], "targets": 2}),
    "classes": ("LinearClassifier", {"coefficients": COEFFICIENTS, "intercepts": [0.1, 0.2, 0.3], "classlabels_ints": [7, 5, 9],
                                     "post_transform": "SOFTMAX", "multi_class": 1}),
    "two classes": ("LinearClassifier", {"coefficients": COEFFICIENTS[:8], "intercepts": [0.1, -0.1], "classlabels_ints": [0, 1],
                                         "post_transform": "LOGISTIC"}),
    "scaler": ("Scaler", {"offset": [1.0, 2.0, 3.0, 4.0], "scale": [0.5, 2.0, 1.0, 3.0]}),
    "one scale": ("Scaler", {"offset": [1.0], "scale": [0.5]}),
    "norm L1": ("Normalizer", {"norm": "L1"}),
    "norm L2": ("Normalizer", {"norm": "L2"}),
    "norm MAX": ("Normalizer", {"norm": "MAX"}),
    "binarizer": ("Binarizer", {"threshold": 0.25}),
    "imputer": ("Imputer", {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0], "replaced_value_float": float("nan")}),
    "labels": ("LabelEncoder", {"keys_floats": [0.0, 1.0], "values_floats": [3.0, 4.0], "default_float": -2.0}),
    "forest": ("TreeEnsembleRegressor", {**forest("target", some(0)), "n_targets": 1}),
    "targets": ("TreeEnsembleRegressor", {**forest("target", some(0, 1)), "n_targets": 2, "base_values": [0.5, -0.5],
                                          "aggregate_function": "AVERAGE"}),
    "largest": ("TreeEnsembleRegressor", {**forest("target", some(0)), "n_targets": 1, "aggregate_function": "MAX"}),
    "modes": ("TreeEnsembleRegressor", {**forest("target", some(0), modes=["BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_LEQ"]),
                                        "n_targets": 1}),
    "missing": ("TreeEnsembleRegressor", {**forest("target", some(0), missing=True), "n_targets": 1}),
    "tree classes": ("TreeEnsembleClassifier", {**forest("class", some(0, 1, 2, low=0)), "classlabels_int64s": [3, 1, 2]}),
    "tree softmax": ("TreeEnsembleClassifier", {**forest("class", some(0, 1, 2)), "classlabels_int64s": [3, 1, 2],
                                                "post_transform": "SOFTMAX"}),
    "boosted": ("TreeEnsembleClassifier", {**forest("class", some(0)), "classlabels_int64s": [0, 1], "post_transform": "LOGISTIC",
                                           "base_values": [0.3]}),
    "probability": ("TreeEnsembleClassifier", {**forest("class", some(0, low=0, high=0.3)), "classlabels_int64s": [0, 1]}),
}


def save(op, attrs, path):
    classifies = "Classifier" in op
    outputs = [h.make_tensor_value_info("label", T.INT64, ["N"])] if classifies else []
    outputs.append(h.make_tensor_value_info("y", T.FLOAT, None))
    node = h.make_node(op, ["x"], [o.name for o in outputs], domain="ai.onnx.ml", **attrs)
    graph = h.make_graph([node], "learner", [h.make_tensor_value_info("x", T.FLOAT, ["N", FEATURES])], outputs)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("ai.onnx.ml", 3), h.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.parametrize("name", LEARNERS)
def test_learners(name, tmp_path):
    op, attrs = LEARNERS[name]
    path = str(tmp_path / "learner.onnx")
    save(op, attrs, path)
    session, net = session_of(path), gluon.SymbolBlock.imports(path)
    net.hybridize()
    for rows in (1, 50):  # batches of any size
        x = np.random.RandomState(rows).randn(rows, FEATURES).astype("float32")
        if name in ("missing", "imputer"):
            x[::3, 1] = np.nan
        if name == "labels":
            x = np.round(x)
        wanted, found = session.run(None, {"x": x}), net(nd.array(x))
        for a, b in zip(found if isinstance(found, list) else [found], wanted, strict=True):
            np.testing.assert_allclose(a.asnumpy(), b, rtol=1e-5, atol=1e-5)


def test_pipeline(tmp_path):
    """Scaling, a linear model, and probabilities in a list of maps, which is an array here."""
    path = str(tmp_path / "pipeline.onnx")
    nodes = [h.make_node("Scaler", ["x"], ["scaled"], domain="ai.onnx.ml", offset=[0.1] * 4, scale=[2.0] * 4),
             h.make_node("LinearClassifier", ["scaled"], ["label", "scores"], domain="ai.onnx.ml", **LEARNERS["classes"][1]),
             h.make_node("Normalizer", ["scores"], ["p"], domain="ai.onnx.ml", norm="L1"),
             h.make_node("ZipMap", ["p"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[7, 5, 9])]
    maps = h.make_value_info("maps", h.make_sequence_type_proto(h.make_map_type_proto(T.INT64, h.make_tensor_type_proto(T.FLOAT, []))))
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, ["N", 4])],
                         [h.make_tensor_value_info("label", T.INT64, ["N"]), maps])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("ai.onnx.ml", 3), h.make_opsetid("", 17)], ir_version=8), path)
    x = np.random.RandomState(1).randn(5, 4).astype("float32")
    label, dictionaries = session_of(path).run(None, {"x": x})
    found = gluon.SymbolBlock.imports(path)(nd.array(x))
    assert (found[0].asnumpy() == label).all()
    np.testing.assert_allclose(found[1].asnumpy(), [[d[key] for key in (7, 5, 9)] for d in dictionaries], rtol=1e-5)


HOSTILE = {
    "cycle": {"nodes_truenodeids": lambda list: [0 for _ in list]},
    "no such node": {"nodes_falsenodeids": lambda list: [99 if v else 0 for v in list]},
    "feature": {"nodes_featureids": lambda list: [10 ** 9 for _ in list]},
    "target": {"target_ids": lambda list: [-1 for _ in list]},
    "short": {"nodes_values": lambda list: list[:3]},
    "many": {"n_targets": lambda _: 2 ** 40},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_broken_trees(name, tmp_path):
    op, attrs = LEARNERS["forest"]
    path = str(tmp_path / "learner.onnx")
    save(op, {key: HOSTILE[name].get(key, lambda same: same)(value) for key, value in attrs.items()}, path)
    with pytest.raises(mx.MXNetError, match="node 'y'.*TreeEnsembleRegressor"):
        gluon.SymbolBlock.imports(path)
