"""Every exchange of arrays, on every element type, against NumPy.  SPDX-License-Identifier: Apache-2.0"""
import numpy as np

import mxnet as mx
import mxnet.distributed as dist
from launch import report

dist.init()
rank, size = dist.rank(), dist.size()


def of(r, shape, dtype):
    """What rank r contributes."""
    return (np.random.RandomState(r).randint(0, 3, shape) + r).astype(dtype)


for dtype in ("float32", "float64", "float16", "uint8", "int8", "int32", "int64"):
    for shape in ((3,), (2, 5), (1000,), (0, 4)):
        parts = [of(r, shape, dtype) for r in range(size)]
        mine = mx.nd.array(parts[rank], dtype=dtype)
        for op, wanted in (("sum", np.sum(parts, 0)), ("min", np.min(parts, 0)), ("max", np.max(parts, 0)),
                           ("product", np.prod(parts, 0))):
            got = dist.allreduce(mine, op=op)
            assert got.dtype == np.dtype(dtype), (got.dtype, dtype)
            assert np.array_equal(got.asnumpy(), wanted.astype(dtype)), (dtype, shape, op, got, wanted)
        assert np.array_equal(mine.asnumpy(), parts[rank])
        root = size - 1
        assert np.array_equal(dist.broadcast(mine, root).asnumpy(), parts[root])
        assert np.array_equal(dist.allgather(mine).asnumpy(), np.concatenate(parts))

parts = [np.random.RandomState(r).randn(7).astype("float32") for r in range(size)]
mean = dist.allreduce(mx.nd.array(parts[rank]))
assert np.allclose(mean.asnumpy(), np.mean(parts, 0), atol=1e-6)

# Sums of all sizes, by doubling or around a ring: the same bits on all processes.
for dtype in ("float32", "float64"):
    for count in (1, 700, 1 << 11, 1 << 15, 100003, 1 << 20):
        parts = [np.random.RandomState(r).randn(count).astype(dtype) for r in range(size)]
        total = dist.allreduce(mx.nd.array(parts[rank], dtype=dtype), op="sum").asnumpy()
        np.testing.assert_allclose(total, np.sum(parts, 0), rtol=1e-4, atol=1e-5)
        assert np.array_equal(dist.broadcast(mx.nd.array(total, dtype=dtype), 0).asnumpy(), total)
works = [dist.allreduce_async(mx.nd.ones((40000,)) * (i + rank), op="sum") for i in range(8)]  # several at once
assert all((dist.synchronize(w).asnumpy() == i * size + size * (size - 1) / 2).all() for i, w in enumerate(works))

# Different first axes are gathered in the order of ranks.
rows = [np.full((r + 1, 2), r, "float32") for r in range(size)]
assert np.array_equal(dist.allgather(mx.nd.array(rows[rank])).asnumpy(), np.concatenate(rows))

parts = [np.arange(size * 6, dtype="float32").reshape(size * 2, 3) + 100 * r for r in range(size)]
mine = mx.nd.array(parts[rank])
assert np.array_equal(dist.reducescatter(mine, op="sum").asnumpy(), np.sum(parts, 0)[2 * rank:2 * rank + 2])
assert np.array_equal(dist.alltoall(mine).asnumpy(), np.concatenate([p[2 * rank:2 * rank + 2] for p in parts]))

# Parts of different sizes: rank r sends r + i rows to rank i; rank 0 gets none from rank 0.
sent = [[r + i for i in range(size)] for r in range(size)]
rows = [np.arange(sum(sent[r]) * 3, dtype="float32").reshape(-1, 3) + 100 * r for r in range(size)]
starts = [np.cumsum([0] + sent[r]) for r in range(size)]
got, counts = dist.alltoall(mx.nd.array(rows[rank]).reshape((-1, 3)), splits=mx.nd.array(sent[rank], dtype="int32"))
assert counts.asnumpy().tolist() == [sent[r][rank] for r in range(size)]
assert np.array_equal(got.asnumpy(), np.concatenate([rows[r][starts[r][rank]:starts[r][rank + 1]] for r in range(size)]))
assert got.shape == (sum(sent[r][rank] for r in range(size)), 3)

# In place, grouped and in the background.
x = mx.nd.ones((4,)) * (rank + 1)
dist.allreduce_(x, op="sum")
assert (x.asnumpy() == size * (size + 1) / 2).all()
several = dist.grouped_allreduce([mx.nd.ones((n,)) * rank for n in (1, 5, 3)], op="sum")
assert [a.shape for a in several] == [(1,), (5,), (3,)]
assert all((a.asnumpy() == size * (size - 1) / 2).all() for a in several)
works = [dist.allreduce_async(mx.nd.ones((50,)) * i, op="sum") for i in range(20)]
assert all((dist.synchronize(w).asnumpy() == i * size).all() for i, w in reversed(list(enumerate(works))))

thing = dist.broadcast_object({"epoch": 3, "names": ["a", "b"]} if rank == 0 else None)
assert thing == {"epoch": 3, "names": ["a", "b"]}
assert dist.allgather_object(rank * "x") == [r * "x" for r in range(size)]

for bad, text in ((lambda: dist.broadcast(x, size), "root"), (lambda: dist.allreduce(x, op="median"), "median"),
                  (lambda: dist.alltoall(mx.nd.ones((size + 1,))) if size > 1 else dist.allreduce(x, op="?"), "")):
    try:
        bad()
    except (ValueError, mx.MXNetError) as error:
        assert text in str(error), error
    else:
        raise AssertionError("no error")
for splits in ([1] * (size + 1), [4 * size] * size, [-1] * size):
    try:
        dist.alltoall(mx.nd.ones((size, 2)), splits=splits)
    except ValueError as error:
        assert "all_to_all" in str(error) or "splits" in str(error), error
    else:
        raise AssertionError("no error")
dist.barrier()
report(rank, {"size": size, "local": dist.local_size()})
