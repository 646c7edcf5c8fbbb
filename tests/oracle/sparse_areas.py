"""Areas of sparse storage, for program.py: each function returns arrays, strings and numbers."""
import os
import tempfile

import numpy as np

import mxnet as mx
from mxnet import autograd, gluon, nd

OPTIMIZERS = [("sgd", {"wd": 0.1}), ("sgd", {"wd": 0.1, "momentum": 0.9}), ("adam", {"wd": 0.1}),
              ("sgd", {"wd": 0.1, "momentum": 0.9, "lazy_update": False}), ("sgd", {"wd": 0.1, "lazy_update": False}),
              ("adam", {"wd": 0.1, "lazy_update": False}), ("adagrad", {}), ("rmsprop", {}), ("nag", {"momentum": 0.9}),
              ("groupadagrad", {}), ("adam", {"clip_gradient": 0.3, "rescale_grad": 0.5})]


def matrix(rows, columns, seed=0, density=0.4):
    rng = np.random.RandomState(seed)
    return (rng.uniform(-1, 1, (rows, columns)) * (rng.uniform(size=(rows, columns)) < density)).astype("float32")


def few_rows(seed=0, rows=(1, 3), shape=(5, 3)):
    values = np.random.RandomState(seed).uniform(-1, 1, (len(rows),) + shape[1:]).astype("float32")
    return nd.sparse.row_sparse_array((values, list(rows)), shape=shape)


def told(x):
    """Everything about an array."""
    found = {"stype": x.stype, "shape": x.shape, "dtype": np.dtype(x.dtype).name, "values": x.asnumpy()}
    if x.stype != "default":
        found.update(indices=x.indices.asnumpy(), data=x.data.asnumpy(), repr=repr(x))
    if x.stype == "csr":
        found["indptr"] = x.indptr.asnumpy()
    return found


def sparse_making():
    dense, s = matrix(4, 5), nd.sparse
    made = [s.csr_matrix(nd.array(dense)), s.csr_matrix(dense), s.csr_matrix((3, 4)), s.row_sparse_array(dense),
            s.csr_matrix(([1, 2, 3], [0, 1, 2], [0, 1, 3]), shape=(2, 3)), s.csr_matrix(np.eye(2)),
            s.csr_matrix(([1, 2, 3], [0, 1, 2], [0, 1, 3])), s.row_sparse_array(([[1, 2]], [1])),
            s.row_sparse_array((2, 3)), s.zeros("csr", (2, 2)), s.zeros("row_sparse", (2, 2), dtype="float64"),
            s.empty("row_sparse", (2, 2)), nd.zeros((2, 2), stype="csr"), nd.array(dense).tostype("csr"),
            nd.array(dense).tostype("row_sparse"), nd.cast_storage(nd.array(dense), "csr"), few_rows().copy(),
            few_rows().astype("float64"), s.array(few_rows()), few_rows().tostype("default")]
    return {"made": [told(x) for x in made]}


def sparse_arithmetic():
    a, b = nd.array(matrix(4, 5, 1)).tostype("csr"), nd.array(matrix(4, 5, 2)).tostype("csr")
    x, y, full = few_rows(1), few_rows(2, (0, 3, 4)), nd.array(matrix(5, 3, 3, 1))
    s = nd.sparse
    made = [a + b, a * 2, a / 2, x + y, x - y, x * 3, x + full, x * full, s.add(x, y), s.add_n(x, y, x), s.square(a),
            s.abs(x), s.clip(x, -0.5, 0.5), -a, s.retain(x, nd.array([1, 2])), a[1], a[1:3], a[-1], nd.zeros_like(a),
            nd.slice(a, begin=(0,), end=(2,)), nd.concat(a, b, dim=0), s.relu(x), s.sin(a), x.norm(), a.sum(axis=1),
            a.sum(axis=0), a.mean(axis=1), x[:]]
    return {"made": [{k: v for k, v in told(x).items() if k in ("stype", "shape", "dtype", "values")} for x in made]}


def sparse_products():
    a = nd.array(matrix(4, 6, 1)).tostype("csr")
    right, left = nd.array(matrix(6, 3, 2, 1)), nd.array(matrix(4, 3, 3, 1))
    made = [nd.dot(a, right), nd.dot(a, left, transpose_a=True),
            nd.sparse.dot(a, left, transpose_a=True, forward_stype="default"), nd.dot(a, few_rows(0, (0, 4), (6, 2))),
            nd.dot(nd.array(matrix(2, 4, 4, 1)), a)]
    return {"made": [told(x) for x in made]}


def sparse_gradients():
    w = nd.array(matrix(6, 3, 0, 1))
    w.attach_grad(stype="row_sparse")
    with autograd.record():
        y = nd.Embedding(nd.array([[1, 4], [4, 0]]), w, input_dim=6, output_dim=3, sparse_grad=True) * 2 \
            + nd.Embedding(nd.array([[1, 4], [2, 0]]), w, input_dim=6, output_dim=3, sparse_grad=True)
    y.backward()
    found = {"embedding": told(w.grad)}
    a = nd.array(matrix(4, 6, 1)).tostype("csr")
    for stype in ("default", "row_sparse"):
        v = nd.array(matrix(6, 2, 5, 1))
        v = v.tostype(stype)
        v.attach_grad()
        with autograd.record():
            z = nd.sparse.dot(a, v)
        z.backward(nd.array(matrix(4, 2, 6, 1)))
        found[stype] = (v.grad.stype, v.grad.asnumpy())
    return found


def sparse_update(name, options, stype="default"):
    made = mx.optimizer.create(name, learning_rate=0.1, **options)
    weight = nd.array(matrix(5, 3, 7, 1)).tostype(stype)
    state, seen = made.create_state(0, weight), []
    for step in range(3):
        made.update(0, weight, few_rows(step, [(1, 3), (0, 3), (3, 4)][step]), state)
        seen.append(weight.asnumpy())
    return {"weights": seen}


def sparse_training(hybridize=False):
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Embedding(9, 3, sparse_grad=True), gluon.nn.Dense(2, in_units=6))
    net.initialize()
    rng = np.random.RandomState(0)
    for p in net.collect_params().values():
        p.set_data(nd.array(rng.uniform(-0.5, 0.5, p.shape)))
    if hybridize:
        net.hybridize()
    trainer, losses = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1, "wd": 0.01}), []
    for i in range(5):
        with autograd.record():
            loss = (net(nd.array([[i, 2], [2, i + 1]])) ** 2).sum()
        loss.backward()
        trainer.step(2)
        losses.append(loss.asnumpy())
    grad = net[0].weight.grad()
    return {"losses": losses, "grad": told(grad), "stype": net[0].weight._grad_stype,
            "weights": [p.data().asnumpy() for p in net.collect_params().values()]}


def sparse_parameters():
    p = gluon.Parameter("w", shape=(5, 3), stype="row_sparse", grad_stype="row_sparse", init="ones")
    p.initialize()
    trainer, ids = gluon.Trainer([p], "sgd", {"learning_rate": 0.5}), nd.array([3, 1])
    with autograd.record():
        y = nd.Embedding(ids, p.row_sparse_data(ids), input_dim=5, output_dim=3, sparse_grad=True)
    y.backward()
    grad = told(p.grad())
    trainer.step(1)
    return {"grad": grad, "rows": told(p.row_sparse_data(nd.array([1, 3, 4])))}


def sparse_stores():
    store, out = mx.kv.create("local"), nd.sparse.zeros("row_sparse", (5, 3))
    store.init("a", nd.array(matrix(5, 3, 8, 1)).tostype("row_sparse"))
    store.row_sparse_pull("a", out=out, row_ids=nd.array([0, 4, 4]))
    return {"out": told(out)}


def sparse_iterators():
    path = os.path.join(tempfile.mkdtemp(), "x.svm")
    with open(path, "w") as file:
        file.write("1 0:0.5 2:1.5\n0 1:2\n1 0:1 1:2 2:3\n")
    found = []
    for it in (mx.io.LibSVMIter(data_libsvm=path, data_shape=(3,), batch_size=2),
               mx.io.NDArrayIter(nd.array(matrix(5, 3)).tostype("csr"), np.arange(5), 2, last_batch_handle="discard")):
        for batch in it:
            values = batch.data[0]
            found.append((values.asnumpy(), batch.label[0].asnumpy(), batch.pad))
    return {"batches": found}


def sparse_bytes():
    """The bytes of a file; the most frequent of several, since MXNet writes a stale byte once in some thousand files."""
    path = os.path.join(tempfile.mkdtemp(), "x.params")
    files = []
    for _ in range(5):
        nd.save(path, {"csr": nd.array(matrix(3, 4)).tostype("csr"), "rows": few_rows(), "dense": nd.ones((2,)),
                       "zero": nd.sparse.zeros("row_sparse", (4, 2)), "double": nd.sparse.csr_matrix(np.eye(3))})
        with open(path, "rb") as file:
            files.append(file.read())
    return {"bytes": np.frombuffer(max(files, key=files.count), dtype="uint8")}


def sparse_read(data):
    path = os.path.join(tempfile.mkdtemp(), "x.params")
    with open(path, "wb") as file:
        file.write(data)
    return {name: told(x) for name, x in nd.load(path).items()}


def sparse_broadcasts():
    a = nd.array(matrix(4, 5, 1)).tostype("csr")
    row, column = nd.array(matrix(1, 5, 2, 1)), nd.array(matrix(4, 1, 3, 1))
    made = [nd.broadcast_mul(a, row), nd.broadcast_mul(a, column), nd.broadcast_mul(a, row[0]), a * column, a / row,
            nd.broadcast_mul(a, nd.array([2])), nd.broadcast_div(a, nd.array([[2]])), nd.broadcast_mul(row, a)]
    return {"made": [told(x) for x in made]}


def sparse_slices():
    a = nd.array(matrix(4, 6, 1)).tostype("csr")
    ranges = [((0, 1), (4, 4)), ((1, 0), (3, 2)), ((None, 2), (None, None)), ((-2, -3), (None, None)), ((1,), (3,)), ((0, 3), (4, 4))]
    made = [nd.slice(a, begin=begin, end=end) for begin, end in ranges]
    return {"made": [told(x) for x in made + [nd.slice(a, begin=(0, 0), end=(4, 6), step=(1, 2))]]}


def sparse_graphs():
    ids = nd.sparse.csr_matrix((np.array([0, 1, 2, 3], "int64"), [1, 0, 2, 0], [0, 1, 3, 4]), shape=(3, 3), dtype="int64")
    u, v = nd.array([0, 0, 1, 2, 2]), nd.array([0, 1, 2, 0, 1])
    contrib = nd.contrib
    return {"made": [told(x) for x in (contrib.getnnz(ids), contrib.getnnz(ids, axis=1), contrib.edge_id(ids, u, v),
                                       contrib.dgl_adjacency(ids))]}


def sparse_bindings():
    """Storage of the arrays that simple_bind makes, and the gradients after a step."""
    x, w, c = mx.sym.var("x"), mx.sym.var("w"), mx.sym.var("c", stype="csr")
    label = mx.sym.var("label")
    embedding, data = {"input_dim": 6, "output_dim": 2}, {"x": nd.array([1, 4, 1])}
    sparse = {"c": nd.array(matrix(4, 6, 1)).tostype("csr"), "label": nd.array(matrix(4, 3, 2, 1))}
    graphs = [(mx.sym.Embedding(x, w, **embedding), data), (mx.sym.Embedding(x, w, sparse_grad=True, **embedding), data),
              (mx.sym.contrib.SparseEmbedding(x, w, **embedding), data),
              (mx.sym.LinearRegressionOutput(mx.sym.dot(c, w), label), sparse),
              (mx.sym.Group([mx.sym.Embedding(x, w, sparse_grad=True, **embedding), mx.sym.square(w)]), data)]
    found = []
    for graph, inputs in graphs:
        shapes = {name: value.shape for name, value in inputs.items()}
        exe = graph.simple_bind(mx.cpu(), grad_req={"w": "write"}, **shapes, **({"w": (6, 3)} if "c" in inputs else {}))
        exe.arg_dict["w"][:] = nd.array(matrix(*exe.arg_dict["w"].shape, 5, 1))
        for name, value in inputs.items():
            exe.arg_dict[name][:] = value
        exe.forward(is_train=True)
        exe.backward([nd.ones(o.shape) for o in exe.outputs])
        found.append(({n: a.stype for n, a in exe.arg_dict.items()}, told(exe.grad_dict["w"])))
    return {"found": found}
