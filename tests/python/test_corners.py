"""Corners that no other test reaches, found by breaking the library in small ways (tests/mutation): values against NumPy, refusals."""
import numpy as onp
import pytest

import mxnet as mx
from mxnet import autograd, nd, np, npx, sym

FLOATS = ["float16", "bfloat16", "float32", "float64"]


def refused(call, *words):
    with pytest.raises((ValueError, TypeError, IndexError, OSError)) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("dtype", FLOATS)
def test_all_finite_finds_every_place(dtype):
    x = onp.ones(5001, "float32")
    assert nd.all_finite(nd.array(x).astype(dtype)).asscalar() == 1
    for place in (0, 1, 1023, 1024, 2047, 4999, 5000):
        for wrong in (onp.inf, -onp.inf, onp.nan):
            y = x.copy()
            y[place] = wrong
            assert nd.all_finite(nd.array(y).astype(dtype)).asscalar() == 0, (place, wrong)
            assert nd.multi_all_finite(nd.array(x).astype(dtype), nd.array(y).astype(dtype), num_arrays=2).asscalar() == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dropout_of_a_large_array(dtype):
    """Elements are dropped or scaled where they are, in every thread's part; the gradient is scaled by the same mask."""
    x = nd.array(onp.random.uniform(1, 2, (7, 50001)), dtype=dtype)
    x.attach_grad()
    with autograd.record():
        y = nd.Dropout(x, p=0.25)
    y.backward(nd.full(y.shape, 3, dtype=dtype))
    kept = y.asnumpy() != 0
    assert 0.74 < kept.mean() < 0.76
    onp.testing.assert_allclose(y.asnumpy()[kept], x.asnumpy()[kept] / 0.75, rtol=1e-6)
    onp.testing.assert_allclose(x.grad.asnumpy(), kept * 4.0, rtol=1e-6)


@pytest.mark.parametrize("source", FLOATS + ["int8", "uint8", "int32", "int64"])
def test_casts_write_their_own_elements_only(source):
    values = onp.arange(40) % 100
    for target in FLOATS + ["int8", "uint8", "int32", "int64"]:
        for n in (1, 3, 7, 8, 9, 15, 16, 17, 31, 33):
            x, y = nd.array(values).astype(source), nd.full((44,), 77).astype(target)
            nd.cast(x[2:2 + n], dtype=target, out=y[3:3 + n])
            wanted = onp.full(44, 77)
            wanted[3:3 + n] = values[2:2 + n]
            assert y.astype("float64").asnumpy().tolist() == wanted.tolist(), (source, target, n)


def test_slices_with_steps_back():
    x = onp.arange(5 * 41, dtype="float32").reshape(5, 41)
    for step in (-1, -2, -3, 2, 3):
        for a in (nd.array(x), nd.array(x).astype("float64"), nd.array(x).astype("uint8"), nd.array(x).astype("float16")):
            got = nd.slice(a, begin=(None, None), end=(None, None), step=(1, step)).asnumpy()
            assert onp.array_equal(got, a.asnumpy()[:, ::step]), step
            assert onp.array_equal(a[::-1, ::step].asnumpy(), a.asnumpy()[::-1, ::step])


def test_squeeze_drops_axes_of_size_one_only():
    for shape, wanted in (((1, 2, 1), (2,)), ((2, 1, 2), (2, 2)), ((1, 1), (1,)), ((2, 3), (2, 3))):
        assert nd.squeeze(nd.zeros(shape)).shape == wanted
        assert sym.squeeze(sym.var("x")).infer_shape(x=shape)[1] == [wanted]
    refused(lambda: nd.squeeze(nd.zeros((2, 1)), axis=0), "squeeze", "size 1")
    refused(lambda: nd.squeeze(nd.zeros((2, 1)), axis=(1, -1)), "squeeze", "twice")


def test_multicast_chooses_the_widest_or_the_narrowest():
    for types, narrow, wanted in ((("float32", "float16"), False, "float32"), (("float16", "float32"), False, "float32"),
                                  (("float32", "float16"), True, "float16"), (("float16", "float32"), True, "float16"),
                                  (("float32", "float64", "float16"), False, "float64")):
        results = nd.amp_multicast(*[nd.ones(2, dtype=t) for t in types], num_outputs=len(types), cast_narrow=narrow)
        assert {onp.dtype(r.dtype).name for r in results} == {wanted}


def test_take_along_axis():
    a, at = onp.random.randint(0, 99, (3, 4)), onp.random.randint(0, 4, (3, 2))
    for axis, indices in ((1, at), (-1, at), (0, at[:, :1].repeat(4, 1) % 3), (None, onp.array([0, 11, 5]))):
        got = np.take_along_axis(np.array(a), np.array(indices, dtype="int64"), axis)
        assert onp.array_equal(got.asnumpy(), onp.take_along_axis(a, indices, axis)), axis
    refused(lambda: np.take_along_axis(np.array(a), np.array(at, dtype="int64"), 2), "take_along_axis")
    refused(lambda: np.take_along_axis(np.array(a), np.array(at, dtype="int64"), -3), "take_along_axis")


def test_reshape_codes():
    x = np.arange(24).reshape(2, 3, 4)
    for codes, wanted in (((-2, -2, -2), (2, 3, 4)), ((-5, -2), (6, 4)), ((-2, -5), (2, 12)), ((-4,), (2, 3, 4)), ((-2, -4), (2, 3, 4)),
                          ((-2, -2, -6, 2, -1), (2, 3, 2, 2)), ((-6, 1, 2, -4), (1, 2, 3, 4)), ((-1,), (24,))):
        assert npx.reshape(x, codes).shape == wanted
    assert npx.reshape(np.zeros((1, 3)), (-3, -2)).shape == (3,)
    for wrong in ((-2, -2, -2, -2), (-2, -2, -5), (-7, 24), (-3, -4), (-2, -2, -6, 2), (-6, -1, -1, -4), (5, -1)):
        refused(lambda: npx.reshape(x, wrong), "reshape")


def test_shapes_that_are_refused():
    refused(lambda: nd.unravel_index(nd.array([1]), shape=()), "unravel_index", "()")
    refused(lambda: nd.ravel_multi_index(nd.array([[1], [1]]), shape=()), "ravel_multi_index", "()")
    refused(lambda: nd.ravel_multi_index(nd.zeros((9, 1)), shape=(1,) * 9), "ravel_multi_index")
    affine = nd.array([[1, 0, 0, 0, 1, 0]])
    for target in ((1000000, 1), (1, 1000000), (0, 1), (1, 0)):
        refused(lambda: nd.GridGenerator(affine, transform_type="affine", target_shape=target), "GridGenerator", "target_shape")
        refused(lambda: nd.SpatialTransformer(nd.ones((1, 1, 2, 2)), affine, transform_type="affine", sampler_type="bilinear",
                                              target_shape=target), "SpatialTransformer", "target_shape")
    with mx.util.np_shape(True):
        refused(lambda: nd.linalg.makediag(nd.ones(())), "makediag", "0 axes")
        refused(lambda: nd.linalg.maketrian(nd.ones(())), "maketrian")
    refused(lambda: nd.linalg.makediag(nd.ones((1,) * 8)), "makediag", "8 axes")
    for size in (0, 7):
        refused(lambda: nd.contrib.interleaved_matmul_selfatt_qk(nd.ones((2, 1, size)), heads=2), "queries_keys_values")


def test_upsampling_checks_every_input():
    first = (1, 1, 2, 2)
    for second in ((2, 1, 2, 2), (1, 1, 3, 2), (1, 1, 2, 3), (1, 1, 4), (1, 1, 0, 2), (1, 1, 2, 0)):
        refused(lambda: nd.UpSampling(nd.ones(first), nd.ones(second), scale=2, sample_type="nearest", num_args=2), "UpSampling", "input 1")
    refused(lambda: nd.UpSampling(nd.ones(first), nd.ones((1, 2, 2, 2)), scale=2, sample_type="nearest", num_args=2, multi_input_mode="sum"),
            "channels")
    assert nd.UpSampling(nd.ones(first), nd.ones((1, 2, 1, 2)), scale=2, sample_type="nearest", num_args=2).shape == (1, 3, 4, 4)


def test_slopes_per_channel():
    """gamma of prelu is found from the data: one slope per channel, of axis 1, or of the only axis."""
    for shape, slopes in (((5,), (5,)), ((2, 5), (5,)), ((2, 5, 3), (5,))):
        shapes = sym.LeakyReLU(sym.var("x"), sym.var("gamma"), act_type="prelu").infer_shape(x=shape)[0]
        assert shapes == [shape, slopes]


def test_no_label_counts():
    """normalization='valid' with ignored labels only divides by one, not by zero."""
    x = nd.array(onp.random.randn(3, 4))
    x.attach_grad()
    for labels, valid in (((2, 2, 2), 0), ((2, 1, 2), 1), ((0, 1, 3), 3)):
        with autograd.record():
            y = nd.SoftmaxOutput(x, nd.array(labels), use_ignore=True, ignore_label=2, normalization="valid")
        y.backward()
        wanted = onp.exp(x.asnumpy()) / onp.exp(x.asnumpy()).sum(1, keepdims=True)
        wanted = (wanted - onp.eye(4)[list(labels)]) * (onp.array(labels) != 2)[:, None] / max(valid, 1)
        onp.testing.assert_allclose(x.grad.asnumpy(), wanted, rtol=1e-5, atol=1e-6)


def test_hawkes_checks_the_marks_of_every_sequence():
    def call(marks):
        return nd.contrib.hawkesll(nd.ones((2, 3)), nd.ones(3), nd.ones(3), nd.zeros((2, 3)), nd.ones((2, 4)), nd.array(marks, dtype="int32"),
                                   nd.array([4, 2]), nd.array([9, 9]))
    call([[0, 1, 2, 0], [1, 1, 5, 5]])  # those past the length are not read
    for wrong in ([[3, 1, 2, 0], [1, 1, 0, 0]], [[0, 1, 2, -1], [1, 1, 0, 0]], [[0, 1, 2, 0], [1, 3, 0, 0]]):
        refused(lambda: call(wrong), "marks", "wanted 0..2")


def test_quantized_range_needs_both_bounds():
    x = nd.array([[-3, 2], [1, 5]])
    for given in ({}, {"min_calib_range": -1.0}, {"max_calib_range": 1.0}):
        _, low, high = nd.contrib.quantize_v2(x, out_type="int8", **given)
        assert (low.asscalar(), high.asscalar()) == (-5, 5)
    _, low, high = nd.contrib.quantize_v2(x, out_type="int8", min_calib_range=-2.0, max_calib_range=1.0)
    assert (low.asscalar(), high.asscalar()) == (-2, 2)


def test_samples_need_parameters_of_one_shape():
    refused(lambda: nd.sample_uniform(nd.zeros(3), nd.ones(2)), "sample_uniform")
    refused(lambda: nd.sample_normal(nd.zeros((3, 1)), nd.ones(3)), "sample_normal")
    assert sym.sample_normal(sym.var("mu"), sym.var("sigma"), shape=2).infer_shape(sigma=(3,))[0] == [(3,), (3,)]


# ---- kernels at sizes at which they divide their work ------------------------------------------------------------------


def test_products_of_several_threads():
    """Large enough for two threads; every transposition, and rows and columns that fill no tile."""
    for m, k, n in ((151, 257, 203), (1, 300, 1001), (497, 640, 1), (67, 1001, 19)):
        a, b = onp.random.uniform(-1, 1, (m, k)), onp.random.uniform(-1, 1, (k, n))
        for dtype, exact in (("float32", 2e-5), ("float64", 1e-12)):
            for ta, tb in ((False, False), (True, False), (False, True), (True, True)):
                x, y = nd.array(a.T if ta else a, dtype=dtype), nd.array(b.T if tb else b, dtype=dtype)
                got = nd.dot(x, y, transpose_a=ta, transpose_b=tb).asnumpy()
                onp.testing.assert_allclose(got, a @ b, rtol=1e-4, atol=exact * 40)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax_of_every_length(dtype):
    for n in list(range(1, 36)) + [63, 64, 65, 127, 1000]:
        x = onp.random.uniform(-40, 40, (3, n)).astype(dtype)
        wanted = onp.exp(x.astype("float64") - x.max(1, keepdims=True))
        wanted /= wanted.sum(1, keepdims=True)
        onp.testing.assert_allclose(nd.softmax(nd.array(x, dtype=dtype)).asnumpy(), wanted, rtol=1e-5, atol=1e-12)
        onp.testing.assert_allclose(nd.log_softmax(nd.array(x, dtype=dtype)).asnumpy(), onp.log(wanted), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("shape", [(5003, 3, 1, 1), (70000, 2), (3, 5, 90, 91), (2, 300, 3, 3)])
def test_batch_norm_of_many_samples(shape):
    x = onp.random.uniform(-1, 3, shape).astype("float32")
    axes, wide = (0,) + tuple(range(2, len(shape))), (1, -1) + (1,) * (len(shape) - 2)
    gamma, beta = onp.linspace(0.5, 2, shape[1]), onp.linspace(-1, 1, shape[1])
    mean, var = x.mean(axes, dtype="float64"), x.var(axes, dtype="float64")
    data, g, b = nd.array(x), nd.array(gamma), nd.array(beta)
    for a in (data, g, b):
        a.attach_grad()
    weight = onp.random.uniform(-1, 1, shape)
    with autograd.record():
        y = nd.BatchNorm(data, g, b, nd.zeros(shape[1]), nd.ones(shape[1]), fix_gamma=False, eps=1e-5)
    y.backward(nd.array(weight))
    normal = (x - mean.reshape(wide)) / onp.sqrt(var.reshape(wide) + 1e-5)
    onp.testing.assert_allclose(y.asnumpy(), normal * gamma.reshape(wide) + beta.reshape(wide), rtol=1e-4, atol=1e-5)
    scale = onp.sqrt(weight.size)
    onp.testing.assert_allclose(b.grad.asnumpy(), weight.sum(axes), atol=1e-5 * scale)
    onp.testing.assert_allclose(g.grad.asnumpy(), (weight * normal).sum(axes), atol=1e-5 * scale)
    centred = weight - weight.mean(axes, keepdims=True) - normal * (weight * normal).mean(axes, keepdims=True)
    onp.testing.assert_allclose(data.grad.asnumpy(), gamma.reshape(wide) / onp.sqrt(var.reshape(wide) + 1e-5) * centred, atol=2e-5)


def convolve(dtype, x, w, b, g, attributes):
    arrays = [nd.array(a, dtype=dtype) for a in (x, w, b)]
    for a in arrays:
        a.attach_grad()
    with autograd.record():
        y = nd.Convolution(*arrays, **attributes)
    y.backward(nd.array(g(y.shape), dtype=dtype))
    return [y.asnumpy()] + [a.grad.asnumpy() for a in arrays]


@pytest.mark.parametrize("seed", range(12))
def test_convolutions_of_odd_sizes(seed):
    """Values and gradients in float32, whose kernels are chosen by sizes, beside those in float64, which have one kernel."""
    random = onp.random.RandomState(seed)
    for _ in range(6):
        kernel = (random.choice([1, 2, 3, 5]), random.choice([1, 1, 3, 4]))
        stride, dilate = (random.choice([1, 1, 2, 3]), random.choice([1, 1, 2])), (random.choice([1, 1, 2]), random.choice([1, 1, 3]))
        pad, groups = (random.randint(0, 3), random.randint(0, 3)), random.choice([1, 1, 1, 2, 4])
        inside, outside = groups * random.choice([1, 2, 3, 8, 17]), groups * random.choice([1, 2, 5, 16, 33])
        size = [random.randint((k - 1) * d + 1, 34) for k, d in zip(kernel, dilate)]
        last = random.rand() < 0.3 and groups == 1
        x = random.uniform(-1, 1, (random.choice([1, 2, 5]), *size, inside) if last else (random.choice([1, 2, 5]), inside, *size))
        w = random.uniform(-1, 1, (outside, *kernel, inside // groups) if last else (outside, inside // groups, *kernel))
        b, state = random.uniform(-1, 1, outside), random.randint(1 << 30)
        attributes = dict(kernel=kernel, stride=stride, dilate=dilate, pad=pad, num_group=groups, num_filter=outside,
                          layout="NHWC" if last else "NCHW")
        head = lambda shape: onp.random.RandomState(state).uniform(-1, 1, shape)  # noqa: E731
        try:
            wanted = convolve("float64", x, w, b, head, attributes)
        except (ValueError, NotImplementedError):
            assert last, attributes  # NHWC is not supported everywhere
            continue
        for got, want in zip(convolve("float32", x, w, b, head, attributes), wanted):
            onp.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * max(1, abs(want).max()), err_msg=str((x.shape, attributes)))


# ---- around operators --------------------------------------------------------------------------------------------------


def test_symbols_list_their_variables():
    """arg_nodes of a symbol's file are the variables: other readers need them."""
    import json
    net = sym.FullyConnected(sym.relu(sym.var("a")) + sym.var("b"), num_hidden=3, name="fc")
    graph = json.loads(net.tojson())
    assert graph["arg_nodes"] == [i for i, node in enumerate(graph["nodes"]) if node["op"] == "null"]
    assert len(graph["arg_nodes"]) == 4 and graph["node_row_ptr"] == list(range(len(graph["nodes"]) + 1))


def test_a_plan_sees_arrays_that_an_operator_wrote():
    """Packed weights are packed again after an operator that writes its first input."""
    net = mx.gluon.nn.Dense(40, in_units=70)
    net.initialize()
    net.hybridize()
    x = nd.ones((3, 70))
    assert abs(net(x).asnumpy()).max() > 0
    nd.reset_arrays(net.weight.data(), num_arrays=1)
    assert abs(net(x).asnumpy()).max() == 0
    net.weight.data()[:] = 1
    assert (net(x).asnumpy() == 70).all()


def test_moments_of_a_number():
    with mx.util.np_shape(True):
        mean, var = nd.moments(nd.full((), 3))
        assert mean.asscalar() == 3 and var.asscalar() == 0


def test_pulling_rows_records_nothing():
    store = mx.kv.create("local")
    store.init("w", nd.ones((4, 2)).tostype("row_sparse"))
    with autograd.record():
        out = nd.sparse.zeros("row_sparse", (4, 2))
        store.row_sparse_pull("w", out=out, row_ids=nd.array([1, 3]))
        assert autograd.is_recording()
    assert out.indices.asnumpy().tolist() == [1, 3] and out.data.asnumpy().tolist() == [[1, 1], [1, 1]]


def test_blocks_with_many_results():
    class Many(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return [x + i for i in range(50)]

    for hybrid in (False, True):
        net = Many()
        if hybrid:
            net.hybridize()
        for _ in range(3):
            results = net(nd.array([1, 2]))
            assert [r.asnumpy().tolist() for r in results] == [[1 + i, 2 + i] for i in range(50)]


def test_the_test_optimizer_keeps_a_copy():
    rule = mx.optimizer.create("test", rescale_grad=0.5)
    weight = nd.array([1, 2])
    state = rule.create_state(0, weight)
    for wanted in ([2, 3], [3, 4]):
        rule.update(0, weight, nd.array([2, 2]), state)
        assert weight.asnumpy().tolist() == wanted and state.asnumpy().tolist() == wanted


def test_dropped_states_need_a_single_cell():
    rnn, cell = mx.gluon.rnn, mx.gluon.contrib.rnn.VariationalDropoutCell
    both = lambda: rnn.BidirectionalCell(rnn.LSTMCell(3, input_size=2), rnn.LSTMCell(3, input_size=2))  # noqa: E731
    stack = rnn.SequentialRNNCell()
    stack.add(rnn.LSTMCell(3, input_size=2))
    refused(lambda: cell(both(), drop_states=0.3), "VariationalDropoutCell")
    refused(lambda: cell(stack, drop_states=0.3), "VariationalDropoutCell")
    cell(rnn.LSTMCell(3, input_size=2), drop_states=0.3)
    net = cell(both(), drop_inputs=0.3)
    net.initialize()
    assert net.unroll(2, nd.ones((1, 2, 2)), merge_outputs=True)[0].shape == (1, 2, 6)


def test_more_shapes_that_are_refused():
    x = nd.ones((2, 3, 4))
    for codes in ((-4,), (-4, 1), (2, -4, 3), (2, 3, -4, 2)):
        refused(lambda: nd.reshape(x, shape=codes), "-4")
    assert nd.reshape(x, shape=(-4, 1, 2, 0, 0)).shape == (1, 2, 3, 4)
    assert nd.Reshape(x, target_shape=(0, 12)).shape == (2, 12)
    assert nd.Reshape(x, target_shape=(7, 0), keep_highest=True).shape == (2, 12)
    refused(lambda: nd.slice_like(x, nd.ones((2, 3)), axes=(2,)), "slice_like")
    refused(lambda: nd.slice_like(x, nd.ones((2, 3))), "slice_like")
    refused(lambda: nd.slice_like(x, nd.ones((2, 5, 4)), axes=(1,)), "slice_like")
    assert nd.slice_like(x, nd.ones((1, 2)), axes=(0, 1)).shape == (1, 2, 4)
    for call, shape in ((nd.depth_to_space, (1, 4, 2)), (nd.space_to_depth, (1, 4, 2)), (nd.depth_to_space, (1, 6, 2, 2)),
                        (nd.space_to_depth, (1, 1, 3, 2)), (nd.space_to_depth, (1, 1, 2, 3))):
        refused(lambda: call(nd.ones(shape), block_size=2), call.__name__)
    refused(lambda: nd.broadcast_like(nd.ones((1, 2)), nd.ones((3, 2)), lhs_axes=(), rhs_axes=(0,)), "lhs_axes is empty")
    refused(lambda: nd.broadcast_like(nd.ones((1, 2)), nd.ones((3, 2)), lhs_axes=(0,), rhs_axes=()), "rhs_axes is empty")
    refused(lambda: np.moveaxis(np.ones((2, 3, 4)), (0, 1), (2,)), "2 sources but 1 destinations")


def test_gradient_of_drawn_classes():
    """Probabilities of several axes: each row's own draws count."""
    p = nd.array([[[0.0, 1, 0], [1, 0, 0]], [[0, 0, 1], [0, 1, 0]]])
    p.attach_grad()
    with autograd.record():
        drawn, logs = nd.sample_multinomial(p, shape=5, get_prob=True)
    logs.backward(nd.array(onp.arange(20).reshape(2, 2, 5)))
    assert (drawn.asnumpy() == p.asnumpy().argmax(2)[..., None]).all()
    onp.testing.assert_allclose(p.grad.asnumpy(), p.asnumpy() * onp.arange(20).reshape(2, 2, 5).sum(2, keepdims=True))


def test_hooks_are_removed_one_by_one():
    net, called = mx.gluon.nn.HybridLambda(lambda F, x: x + 1), []
    hooks = [net.register_forward_hook(lambda block, data, result, i=i: called.append(i)) for i in range(6)]
    wanted = list(range(6))
    for i in (1, 4, 0, 5, 3, 2):
        hooks[i].detach()
        wanted.remove(i)
        called.clear()
        net(nd.ones(1))
        assert called == wanted


def test_random_rotation_keeps_its_probability():
    image = nd.array(onp.arange(3 * 8 * 8).reshape(3, 8, 8) / 192.0)
    never, always = (mx.gluon.data.vision.transforms.RandomRotation((80, 100), rotate_with_proba=p) for p in (0, 1))
    for _ in range(8):
        assert onp.array_equal(never(image).asnumpy(), image.asnumpy())
        assert not onp.array_equal(always(image).asnumpy(), image.asnumpy())


def test_zoneout_forgets_at_reset():
    """The first step of a sequence has no output before it, whatever ran earlier."""
    cell = mx.gluon.rnn.ZoneoutCell(mx.gluon.rnn.RNNCell(3, input_size=2), zoneout_outputs=0.99)
    cell.initialize()
    x = nd.ones((1, 4, 2))
    with autograd.train_mode():
        mx.random.seed(3)
        first = cell.unroll(4, x, merge_outputs=True)[0].asnumpy()
        mx.random.seed(3)
        cell.unroll(4, x * 5, merge_outputs=True)
        cell.reset()
        mx.random.seed(3)
        assert onp.array_equal(cell.unroll(4, x, merge_outputs=True)[0].asnumpy(), first)


def test_bottlenecks_add_their_input_where_shapes_agree():
    bottleneck = mx.gluon.model_zoo.vision.mobilenet.LinearBottleneck
    x = nd.array(onp.random.randn(2, 4, 6, 6))
    for stride, channels, adds in ((1, 4, True), (1, 6, False), (2, 4, False)):
        net = bottleneck(4, channels, 1, stride)
        net.initialize()
        y, inner = net(x), net.out(x)
        onp.testing.assert_allclose(y.asnumpy(), (inner + x if adds else inner).asnumpy(), rtol=1e-6, atol=1e-6)


def test_shapes_and_types_are_found_against_the_flow():
    """From a sum back through a chain, and from there forward into another one."""
    x, y = sym.var("x"), sym.var("y")
    net = sym.relu(sym.exp(sym.sqrt(x))) + y
    for known, other in (("y", "x"), ("x", "y")):
        shapes, results, _ = net.infer_shape(**{known: (2, 3)})
        assert shapes == [(2, 3), (2, 3)] and results == [(2, 3)]
        types, results, _ = net.infer_type(**{known: "float16"})
        assert {onp.dtype(t).name for t in types + results} == {"float16"}
    a = sym.FullyConnected(sym.relu(x), num_hidden=4, name="fc")
    shapes, results, _ = sym.Group([sym.exp(x) + y, a]).infer_shape(y=(5, 7))
    assert dict(zip(["x", "y", "fc_weight", "fc_bias"], shapes)) == {"x": (5, 7), "y": (5, 7), "fc_weight": (4, 7), "fc_bias": (4,)}
    assert results == [(5, 7), (5, 4)]


def test_descriptions_name_inputs_and_attributes():
    net = sym.FullyConnected(sym.var("x"), num_hidden=3, name="fc")
    assert "\targ[0]=x(0) version=0\n" in net.debug_str() and "Attrs:\n\tnum_hidden=3\n" in net.debug_str()
    refused(lambda: net.infer_shape(x=(2, 3), fc_weight=(3, 5)), "node fc (x (2, 3), fc_weight (3, 5), fc_bias (?))")


def test_taken_rows_of_sparse_arrays():
    """Rows of a csr array are a csr array; everything else is taken from a dense copy."""
    x = onp.array([[1, 0], [0, 2], [3, 4]], "float32")
    csr = nd.array(x).tostype("csr")
    for indices, attributes, stype in (([2, 0, 2], {}, "csr"), ([[0, 1]], {}, "default"), ([0], {"axis": 1}, "default"),
                                       ([4, -1], {"mode": "wrap"}, "default"), ([9], {}, "csr")):
        got = nd.take(csr, nd.array(indices), **attributes)
        wanted = onp.take(x, onp.array(indices), axis=attributes.get("axis", 0), mode=attributes.get("mode", "clip"))
        assert got.stype == stype and onp.array_equal(got.asnumpy(), wanted)


def test_names_with_zero_bytes_are_refused(tmp_path):
    path = str(tmp_path / "a.npz")
    onp.savez(path, abcd=onp.ones(2))
    with open(path, "rb") as file:
        data = file.read()
    assert list(nd.load(path)) == ["abcd"]
    at = data.rindex(b"abcd.npy")
    with open(path, "wb") as file:
        file.write(data[:at] + b"ab\0d.npy" + data[at + 8:])
    refused(lambda: nd.load(path), "zero byte")


def test_states_of_a_trainer_that_made_no_step(tmp_path):
    path, net = str(tmp_path / "states"), mx.gluon.nn.Dense(1, in_units=2)
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "adam")
    trainer.save_states(path)
    trainer.load_states(path)
    with autograd.record():
        loss = net(nd.ones((1, 2))).sum()
    loss.backward()
    before = net.weight.data().asnumpy()
    trainer.step(1)
    onp.testing.assert_allclose(net.weight.data().asnumpy(), before - 0.001, rtol=1e-4)


def test_cells_that_cannot_be_combined():
    rnn = mx.gluon.rnn
    both = rnn.BidirectionalCell(rnn.RNNCell(3, input_size=2), rnn.RNNCell(3, input_size=2))
    refused(lambda: rnn.ZoneoutCell(both, zoneout_outputs=0.1), "ZoneoutCell")
    for place in (0, 1):
        stack = rnn.SequentialRNNCell()
        for i in range(2):
            stack.add(rnn.BidirectionalCell(rnn.RNNCell(3, input_size=2), rnn.RNNCell(3, input_size=2)) if i == place
                      else rnn.RNNCell(3, input_size=2))
        refused(lambda: rnn.ZoneoutCell(stack, zoneout_outputs=0.1), "ZoneoutCell")


# ---- values that kernels and references take from the same place ----------------------------------------------------

def test_functions_with_numbers():
    """Against NumPy's formulas: the library's own reference shares their numbers with the kernels."""
    x = onp.linspace(-3, 3, 143).astype("float32").reshape(11, 13)
    erf = onp.vectorize(__import__("math").erf)
    cases = [
        (nd.contrib.quadratic, dict(a=2, b=3, c=-1), 2 * x * x + 3 * x - 1),
        (nd.contrib.div_sqrt_dim, {}, x / onp.sqrt(13)),
        (nd.contrib.gradientmultiplier, dict(scalar=5), x),
        (nd.hard_sigmoid, dict(alpha=0.3, beta=0.4), onp.clip(0.3 * x + 0.4, 0, 1)),
        (nd.smooth_l1, dict(scalar=2), onp.where(abs(x) > 0.25, abs(x) - 0.125, 2 * x * x)),
        (nd.clip, dict(a_min=-1, a_max=2), onp.clip(x, -1, 2)),
        (nd.LeakyReLU, dict(act_type="leaky", slope=0.3), onp.where(x > 0, x, 0.3 * x)),
        (nd.LeakyReLU, dict(act_type="elu", slope=0.3), onp.where(x > 0, x, 0.3 * onp.expm1(x))),
        (nd.LeakyReLU, dict(act_type="selu"), 1.0507009873554805 * onp.where(x > 0, x, 1.6732632423543772 * onp.expm1(x))),
        (nd.LeakyReLU, dict(act_type="gelu"), x / 2 * (1 + erf(x / onp.sqrt(2))))]
    for function, attributes, wanted in cases:
        onp.testing.assert_allclose(function(nd.array(x), **attributes).asnumpy(), wanted, rtol=2e-6, atol=2e-6, err_msg=str(attributes))
    y = nd.array(x)
    y.attach_grad()
    with autograd.record():
        nd.contrib.gradientmultiplier(y, scalar=5).backward()
    assert (y.grad.asnumpy() == 5).all()


def test_positions_that_float32_cannot_hold():
    x = np.zeros(2 ** 24 + 2)
    x[2 ** 24 + 1] = 1
    assert int(np.argmax(x)) == 2 ** 24 + 1


def test_softmax_output_without_valid_labels():
    """Normalised by the valid labels, of which there are none: divided by 1."""
    x, label = nd.array([[1, 2, 3], [0, 0, 1]]), nd.array([1, 1])
    x.attach_grad()
    with autograd.record():
        y = nd.SoftmaxOutput(x, label, ignore_label=1, normalization="valid")
    y.backward()
    onp.testing.assert_allclose(x.grad.asnumpy(), y.asnumpy() - onp.eye(3)[[1, 1]], rtol=1e-6)


def test_rows_of_sparse_arrays_by_any_index():
    dense = nd.array([[1, 2], [0, 0], [5, 6]])
    for x in (dense.tostype("row_sparse"), dense.tostype("csr")):
        for index in (nd.array([2, 0]), nd.array([[2, 0]]), nd.array([2, 0]).tostype("row_sparse")):
            plain = index.tostype("default") if index.stype != "default" else index
            assert (nd.take(x, index).asnumpy() == nd.take(dense, plain).asnumpy()).all()


# ---- plans ------------------------------------------------------------------------------------------------------------

def test_arrays_reset_after_a_plan_used_them():
    """What a plan derived from a parameter is computed again after any operator has written to it, the first of its inputs, too."""
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(3, 1, in_channels=2, use_bias=False), mx.gluon.nn.BatchNorm(in_channels=3))
    net.initialize()
    net.hybridize()
    x = nd.ones((5, 2, 3, 3))
    assert abs(net(x).asnumpy()).max() > 0 and abs(net(x).asnumpy()).max() > 0
    nd.reset_arrays(net[0].weight.data(), num_arrays=1)
    assert abs(net(x).asnumpy()).max() == 0


def test_a_trace_starts_as_a_first_step():
    """What a cell remembers of imperative steps has no part in its plan."""
    def first(warm):
        cell = mx.gluon.rnn.ZoneoutCell(mx.gluon.rnn.RNNCell(3, input_size=2), zoneout_outputs=0.5)
        cell.initialize(mx.init.One())
        if warm:
            with autograd.record():
                cell(nd.full((4, 2), 5), cell.begin_state(batch_size=4))
        cell.hybridize()
        mx.random.seed(1)
        with autograd.record():
            return cell(nd.ones((4, 2)), cell.begin_state(batch_size=4))[0].asnumpy()

    assert (first(False) == first(True)).all()


# ---- symbols ----------------------------------------------------------------------------------------------------------

def test_symbols_indexed_by_a_number():
    """A 0-d index takes an axis away; new axes are where NumPy puts them."""
    x, i = onp.arange(60).reshape(3, 4, 5), onp.array(2)
    with mx.util.np_shape(True):
        a, index = sym.var("a", shape=(3, 4, 5)), sym.var("i", shape=(), dtype="int32")
        for key in ((0,), (0, None), (slice(None), 0, None), (0, slice(None), None), (Ellipsis, 0, None)):
            ours = a[tuple(index if k == 0 and k is not None else k for k in key)]
            wanted = x[tuple(i if k == 0 and k is not None else k for k in key)]
            got, = ours.eval(a=nd.array(x), i=nd.array(2, dtype="int32").reshape(()))
            assert got.shape == wanted.shape and (got.asnumpy() == wanted).all(), key


def test_states_of_loops_keep_shape_and_type():
    data, state = sym.var("x", shape=(2, 3)), sym.var("s", shape=(4,), dtype="float32")
    refused(lambda: sym.contrib.foreach(lambda d, s: (d, sym.concat(s, s, dim=0)), data, state), "(4,)", "(8,)")
    refused(lambda: sym.contrib.foreach(lambda d, s: (d, sym.cast(s, "float64")), data, state), "float32", "float64")


def test_inputs_that_a_loop_does_not_name():
    import json
    out, _ = sym.contrib.foreach(lambda d, s: (d + s * sym.var("w"), s * 2), sym.var("x"), sym.var("s"))
    file = json.loads(out.tojson())
    file["nodes"][-1]["attrs"]["remain_locs"] = "[]"
    refused(lambda: sym.load_json(json.dumps(file)), "is 2, wanted 3")


def test_short_labels_of_drawings():
    import re
    net = sym.Convolution(sym.var("d"), kernel=(1, 1), num_filter=2, name="c")
    net = sym.exp(sym.Flatten(sym.BatchNorm(net, name="b"), name="f"), name="e")
    labels = re.findall(r'label="([^"]+)"', mx.viz.plot_network(net).source)
    assert labels == ["d", "Convolution\\n1x1, 2", "BatchNorm", "Flatten", "exp\\ne"]


# ---- stores -----------------------------------------------------------------------------------------------------------

def test_variables_of_servers_are_named_as_ignored():
    import os
    import subprocess
    import sys
    code = "import mxnet as mx; mx.kv.create('dist_sync')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "MXNET_KVSTORE_REDUCTION_NTHREADS": "4", "MXNET_KVSTORE": "1"})
    if done.returncode:
        assert "MPI" in done.stderr
        pytest.skip("there is no MPI")
    assert "ignored: MXNET_KVSTORE_REDUCTION_NTHREADS;" in done.stderr


def test_places_of_boxes_in_a_drawing():
    """Boxes are under the middle of what they read, rows are in the order that crosses fewest arrows."""
    import re
    data = sym.var("data")
    a, b, c = (getattr(sym, name)(data, name=name[0]) for name in ("exp", "sin", "cos"))
    left, right = sym.Concat(a, b, name="e2"), sym.elemwise_add(c, b, name="f")
    net = sym.Concat(sym.Concat(left, right, data, name="g"), sym.exp(sym.exp(a, name="a2"), name="a3"), name="h")
    boxes = re.findall(r'<rect x="(-?\d+)" y="(\d+)" width="(\d+)"', net._repr_svg_())
    assert [tuple(map(int, box)) for box in boxes] == [
        (-26, 16, 52), (-96, 108, 45), (-22, 108, 45), (50, 108, 45), (-138, 200, 66), (-44, 200, 108), (92, 200, 45),
        (-70, 292, 45), (4, 292, 66), (-33, 384, 66)]


def test_arrows_pass_beside_boxes():
    import re
    data = sym.var("data")
    drawn = sym.elemwise_add(sym.exp(data, name="a_box_with_a_long_name"), data)._repr_svg_()
    right = max(int(x) + int(width) for x, width in re.findall(r'<rect x="(-?\d+)" y="\d+" width="(\d+)"', drawn))
    down, = re.findall(r'<path d="[^"]* L(-?\d+) ', drawn)  # the arrow from the data to the sum
    assert int(down) > right


# ---- sizes at which kernels take another way ----------------------------------------------------------------------------

def test_flip_names_itself():
    x = np.array([[1, 2], [3, 4]])
    assert (np.flip(x, (-1, 0)).asnumpy() == [[4, 3], [2, 1]]).all()
    for axis in (2, -3, (2, 0), (0, -3)):
        with pytest.raises(mx.MXNetError, match="^flip: axis -?[23] is out of bounds for an array with 2 axes"):
            np.flip(x, axis)


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradient_when_everything_is_dropped(create_graph):
    x = mx.nd.ones((3, 4))
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Dropout(x, p=1)
        dx = mx.autograd.grad([y], [x], create_graph=create_graph, retain_graph=True)[0]
    assert not y.asnumpy().any() and (dx.asnumpy() == 0).all()


@pytest.mark.parametrize("dtype, most", [("uint8", 256), ("int8", 128), ("float16", 2049)])
def test_indices_that_the_type_cannot_hold(dtype, most):
    for size, fits in ((most, True), (most + 1, False)):
        x = mx.nd.arange(size)
        calls = [lambda: mx.nd.argsort(x, dtype=dtype, is_ascend=False), lambda: mx.nd.topk(x, dtype=dtype),
                 lambda: mx.nd.topk(x, dtype=dtype, ret_typ="both")[1]]
        for call in calls:
            if fits:
                assert call().asnumpy()[0] == most - 1
            else:
                with pytest.raises(mx.MXNetError, match=f"dtype {dtype} cannot hold the indices of an axis of size {size}"):
                    call()
        assert mx.nd.topk(x, dtype=dtype, ret_typ="value").asscalar() == size - 1
        assert mx.nd.topk(x, dtype=dtype, ret_typ="mask").asnumpy().sum() == 1


@pytest.mark.parametrize("dtype", ["int64", "float64", "int32", "float32"])
def test_sorting_numbers_that_differ_little(dtype):
    """Large numbers that a narrower type would make equal; keys in which one, two or three bytes vary."""
    draw = onp.random.RandomState(3)
    wide = dtype in ("int64", "float64")
    bases = [1 << 40, -(1 << 40)] if wide else [1 << 20, -(1 << 20)]
    for n in (20, 70, 3000):
        for spread in (200, 60000, 1 << 22):
            for base in bases + [0]:
                x = (base + draw.randint(0, spread, n)).astype(dtype)
                ours = np.array(x, dtype=dtype)
                assert (np.sort(ours).asnumpy() == onp.sort(x)).all(), (n, spread, base)
                order = np.argsort(ours).asnumpy().astype("int64")
                assert (x[order] == onp.sort(x)).all() and len(set(order)) == n
                best = npx.topk(ours, k=5, ret_typ="value").asnumpy()
                assert (best == onp.sort(x)[::-1][:5]).all()


@pytest.mark.parametrize("n", [5, 40, 100, 150])
def test_factors_of_matrices_that_need_pivots(n):
    draw = onp.random.RandomState(n)
    a = (draw.uniform(-1, 1, (n, n)) + 8 * onp.eye(n))[draw.permutation(n)]
    b = draw.uniform(-1, 1, (n, 3))
    x = np.array(a, dtype="float64")
    onp.testing.assert_allclose(np.linalg.inv(x).asnumpy() @ a, onp.eye(n), atol=1e-9)
    onp.testing.assert_allclose(np.linalg.solve(x, np.array(b, dtype="float64")).asnumpy(), onp.linalg.solve(a, b), atol=1e-9)
    sign, log = np.linalg.slogdet(x)
    wanted = onp.linalg.slogdet(a)
    assert float(sign) == wanted[0] and abs(float(log) - wanted[1]) < 1e-8
    half = a.astype("float32")
    onp.testing.assert_allclose(nd.linalg.inverse(nd.array(half)).asnumpy() @ half, onp.eye(n), atol=1e-3)


@pytest.mark.parametrize("axis", [(0, 2), (0,), (2,), (1, 2), (0, 1), (0, 1, 2)])
def test_reductions_with_long_axes(axis):
    for shape in ((3, 2, 140001), (9001, 3, 2), (2, 9001, 3), (40, 3, 300)):
        x = onp.random.RandomState(1).uniform(0.5, 1.5, shape)
        ours = nd.array(x, dtype="float64")
        for name in ("sum", "mean", "max", "min"):
            onp.testing.assert_allclose(getattr(nd, name)(ours, axis=axis).asnumpy(), getattr(x, name)(axis).reshape(-1)
                                        if len(axis) == 3 else getattr(x, name)(axis), rtol=1e-10, err_msg=f"{name} {shape}")
        onp.testing.assert_allclose(nd.norm(ours, axis=axis[:2]).asnumpy(), onp.sqrt((x * x).sum(axis[:2])), rtol=1e-10)


def test_softmax_of_distant_numbers():
    """Down to the smallest normal float32 the exponential is right; below it is zero or nearly so."""
    for low in (-80, -86.2, -86.9, -87.4, -87.9, -88.5, -100, -1e4, -onp.inf):
        for n in (2, 19):
            y = nd.softmax(nd.array([0.0] + [low] * (n - 1))).asnumpy().astype("float64")
            wanted = onp.exp(low) / (1 + (n - 1) * onp.exp(low))
            assert y[0] == 1 and (abs(y[1:] - wanted) <= (1e-5 * wanted if low > -87 else 1.2e-38)).all(), low


def test_softmax_output_of_one_class():
    """With one class a label is a class, not a probability."""
    x = nd.array([[3.0], [-2.0]])
    x.attach_grad()
    with autograd.record():
        y = nd.SoftmaxOutput(x, nd.array([0.0, 0.0]))
    y.backward()
    assert (y.asnumpy() == 1).all() and (x.grad.asnumpy() == 0).all()


@pytest.mark.parametrize("p", [1, 2, 3])
def test_lp_pooling_of_zeros(p):
    x = nd.zeros((1, 2, 4, 4))
    x.attach_grad()
    with autograd.record():
        y = nd.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="lp", p_value=p)
    y.backward()
    assert (y.asnumpy() == 0).all() and (x.grad.asnumpy() == (1 if p == 1 else 0)).all()


@pytest.mark.parametrize("stride", [(2, 2), (2, 3), (3, 2), (2, 1)])
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_windows_of_two_by_two(kind, stride):
    x = onp.random.default_rng(1).normal(size=(2, 3, 8, 9)).astype("float32")
    windows = onp.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3))[:, :, ::stride[0], ::stride[1]]
    y = nd.Pooling(nd.array(x), kernel=(2, 2), stride=stride, pool_type=kind)
    onp.testing.assert_allclose(y.asnumpy(), windows.max((4, 5)) if kind == "max" else windows.mean((4, 5)), rtol=1e-5, atol=1e-6)


def test_crops_that_begin_inside():
    x = nd.arange(0, 120).reshape((1, 2, 6, 10))
    assert (nd.Crop(x, offset=(1, 3), h_w=(4, 5)).asnumpy() == x.asnumpy()[:, :, 1:5, 3:8]).all()
    assert (nd.Crop(x, nd.zeros((1, 1, 3, 2)), num_args=2, offset=(2, 7)).asnumpy() == x.asnumpy()[:, :, 2:5, 7:9]).all()
    assert (nd.Crop(x, center_crop=True, h_w=(2, 4)).asnumpy() == x.asnumpy()[:, :, 2:4, 3:7]).all()


def test_negatives_that_are_few():
    """More negatives are wanted than there are candidates: those that are not candidates stay as they are."""
    anchors = nd.array([[[0.1, 0.1, 0.3, 0.3], [0.6, 0.6, 0.9, 0.9], [0.1, 0.1, 0.2, 0.25], [0.0, 0.6, 0.2, 0.9]]])
    label = nd.array([[[0, 0.1, 0.1, 0.3, 0.3]]])
    _, _, classes = nd.contrib.MultiBoxTarget(anchors, label, nd.zeros((1, 2, 4)), negative_mining_ratio=50,
                                              negative_mining_thresh=0.2, ignore_label=-1)
    assert classes.asnumpy().tolist() == [[1, 0, -1, 0]]


@pytest.mark.parametrize("shape, place, values, axis", [((3, 4), 1, (2, 3), 1), ((3, 4), 2, (4,), 0), ((3, 4), 2, (3,), 1), ((2, 3, 4), 1, (2, 2, 4), 1),
                                                       ((2, 3, 4), 0, (5, 2, 3), 2), ((5,), 2, (3,), 0), ((2, 3), 1, (), 1)])
def test_insertion_of_several(shape, place, values, axis):
    x, v = onp.arange(onp.prod(shape)).reshape(shape), 100 + onp.arange(onp.prod(values)).reshape(values)
    try:
        wanted = onp.insert(x, place, v, axis)
    except ValueError:
        refused(lambda: np.insert(np.array(x), place, np.array(v), axis))
        return
    assert (np.insert(np.array(x), place, np.array(v), axis).asnumpy() == wanted).all()


def test_casts_of_other_counts():
    refused(lambda: nd.amp_multicast(nd.ones(2), nd.ones(2), num_outputs=3), "num_outputs is 3, but got 2")
    for n in (0, 1, 3):
        assert np.tri(n, 2, dtype="float32").shape == (n, 2) and (np.tri(n).asnumpy() == onp.tri(n)).all()
    with mx.util.np_shape(True):
        refused(lambda: nd.dot(nd.ones(()), nd.ones(3)), "dot", "at least one axis")
        refused(lambda: nd.dot(nd.ones(3), nd.ones(())), "dot", "at least one axis")


def test_rows_by_a_table_of_numbers():
    store, out = mx.kv.create("local"), nd.sparse.zeros("row_sparse", (5, 2))
    store.init("w", nd.arange(0, 10).reshape((5, 2)))
    store.row_sparse_pull("w", out=out, row_ids=nd.array([[4, 1], [1, 3]]))
    assert out.indices.asnumpy().tolist() == [1, 3, 4] and out.data.asnumpy().tolist() == [[2, 3], [6, 7], [8, 9]]


def test_states_of_stacked_cells():
    stack = mx.gluon.rnn.SequentialRNNCell()
    stack.add(mx.gluon.rnn.LSTMCell(3))
    stack.add(mx.gluon.rnn.GRUCell(4))
    assert [info["shape"] for info in stack.state_info(2)] == [(2, 3), (2, 3), (2, 4)]
    assert [state.shape for state in stack.begin_state(batch_size=2)] == [(2, 3), (2, 3), (2, 4)]


@pytest.mark.parametrize("hybrid", [False, True])
def test_loops_over_the_numbers_of_a_vector(hybrid):
    """Rows of a recorded vector have the shape that rows of a plain one have."""
    seen = []

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            def body(row, state):
                seen.append(getattr(row, "shape", None))
                return row * 2 + state, state + row
            return F.contrib.foreach(body, x, F.zeros((1,)))[0]

    net = Net()
    if hybrid:
        net.hybridize()
    x = nd.array([1, 2, 3])
    plain = net(x)
    x.attach_grad()
    with autograd.record():
        y = net(x * 1)
    y.backward()
    assert y.shape == plain.shape and (y.asnumpy() == plain.asnumpy()).all() and x.grad.asnumpy().tolist() == [4, 3, 2]
    assert hybrid or set(seen) == {(1,)}


def test_vectors_that_fused_layers_cannot_fill():
    fused = mx.init.FusedRNN(mx.init.One(), num_hidden=3, num_layers=2, mode="lstm")

    def start(name, array):
        mx.init.Zero()(mx.init.InitDesc(name, attrs={"__init__": fused.dumps()}), array)

    length = 4 * 3 * (5 + 3 + 2 + 3 + 3 + 2)
    x = nd.zeros(length)
    start("lstm_parameters", x)
    assert x.asnumpy()[:60].min() == 1
    for wrong in (length + 1, length - 1, 12, 4 * 3 * 12, 4 * 3 * 13):
        refused(lambda: start("lstm_parameters", nd.zeros(wrong)))


def test_numbers_in_messages_about_indices():
    refused(lambda: nd.sparse.row_sparse_array((nd.ones((1, 2)), nd.array([5])), shape=(4, 2)).asnumpy(), "5", "0 to 3")
    refused(lambda: nd.sparse.csr_matrix((nd.ones(1), nd.array([7]), nd.array([0, 1])), shape=(1, 6)).asnumpy(), "7", "0 to 5")


def test_slopes_of_a_vector():
    x, slope = onp.array([-2.0, 3.0, -4.0]), onp.array([0.5, 0.25, 0.125])
    a, g = nd.array(x), nd.array(slope)
    a.attach_grad()
    g.attach_grad()
    with autograd.record():
        y = nd.LeakyReLU(a, g, act_type="prelu")
        first = autograd.grad(y, [a], create_graph=True)[0]
    assert (y.asnumpy() == onp.where(x > 0, x, slope * x)).all() and (first.asnumpy() == onp.where(x > 0, 1, slope)).all()
    first.backward()
    assert (g.grad.asnumpy() == (x < 0)).all()


def test_blocks_with_long_names():
    for length in (10, 126, 127, 128, 254, 255, 256, 1000):
        net = type("N" * length, (mx.gluon.Block,), {})()
        assert net.name.startswith("n" * min(length, 60)) and set(net.name.rstrip("0123456789")) == {"n"}


def test_integers_are_drawn_too():
    for start in (mx.init.Uniform(50), mx.init.Normal(50)):
        for dtype in ("int32", "float64", "float32"):
            x = nd.zeros((40, 50), dtype=dtype)
            start(mx.init.InitDesc("a_weight"), x)
            assert 10 < abs(x.asnumpy()).mean() < 60 and x.asnumpy().min() < -20 and x.asnumpy().max() > 20


def test_a_function_replaces_the_optimizer_of_a_store():
    store, calls = mx.kv.create("local"), []
    store.init(3, nd.ones(2))
    store.set_optimizer(mx.optimizer.SGD(learning_rate=1))
    store._set_updater(lambda key, grad, weight: calls.append(key))
    store.push(3, nd.ones(2))
    out = nd.zeros(2)
    store.pull(3, out=out)
    assert calls == [3] and out.asnumpy().tolist() == [1, 1]


def test_crops_outside_of_images():
    image = nd.ones((8, 8, 3), dtype="uint8")
    crop = mx.gluon.data.vision.transforms.CropResize
    assert crop(0, 0, 2, 3)(image).shape == (3, 2, 3)
    for wrong in ((-1, 0, 2, 2), (0, -1, 2, 2), (0, 0, 0, 2), (0, 0, 2, 0)):
        refused(lambda: crop(*wrong)(image), "CropResize", "x=%d, y=%d, width=%d, height=%d" % wrong)
    for wrong in ((7, 0, 2, 2), (0, 7, 2, 2)):
        with pytest.raises((ValueError, mx.MXNetError)):
            crop(*wrong)(image).asnumpy()


def test_texts_of_cells_with_dropout():
    cell = mx.gluon.contrib.rnn.VariationalDropoutCell(mx.gluon.rnn.LSTMCell(3), drop_inputs=0.1, drop_states=0.2, drop_outputs=0.3)
    assert "p_out = 0.3, p_state = 0.2" in repr(cell)


@pytest.mark.parametrize("layers, p, possible", [(2, 0.5, False), (1, 0.5, True), (2, 0, True)])
def test_second_order_of_fused_layers_with_dropout(layers, p, possible):
    """Masks between layers are not kept for it."""
    x, state = nd.ones((3, 2, 4)), nd.zeros((layers, 2, 5))
    weights = nd.random.uniform(-1, 1, (5 * (4 + 5 + 2) + (layers - 1) * 5 * (5 + 5 + 2),))
    x.attach_grad()
    with autograd.record():
        y = nd.RNN(x, weights, state, state_size=5, num_layers=layers, mode="rnn_tanh", p=p)
        if not possible:
            with pytest.raises(mx.MXNetError, match="second-order"):
                autograd.grad(y, [x], create_graph=True)[0].sum().backward()
            return
        first = autograd.grad(y, [x], create_graph=True)[0]
    first.backward()
    assert abs(x.grad.asnumpy()).max() > 0


def test_positions_on_empty_axes():
    for axis in (-2, 0, None):
        refused(lambda: np.argmax(np.zeros((0, 3)), axis=axis), "no elements")
    assert np.argmax(np.zeros((0, 3)), axis=1).shape == (0,) and np.argmin(np.zeros((0, 3)), axis=-1).shape == (0,)


@pytest.mark.parametrize("operator, attributes, wanted", [("_npi_exp", {}, onp.exp([1, 2])), ("_npi_add_scalar", {"scalar": "2"}, [3, 4]),
                                                          ("_npx_relu", {}, [1, 2]), ("_np_sum", {}, 3), ("_np_copy", {}, [1, 2])])
def test_numpy_operators_in_files_of_mxnet(operator, attributes, wanted):
    import json
    nodes = [{"op": "null", "name": "x", "inputs": []}, {"op": operator, "name": "y", "attrs": attributes, "inputs": [[0, 0, 0]]}]
    file = {"nodes": nodes, "arg_nodes": [0], "node_row_ptr": [0, 1, 2], "heads": [[1, 0, 0]],
            "attrs": {"mxnet_version": ["int", 10901], "is_np_shape": ["int", 1]}}
    y, = sym.load_json(json.dumps(file)).eval(x=nd.array([1, 2]))
    onp.testing.assert_allclose(y.asnumpy(), wanted, rtol=1e-6)
    nodes[1]["op"] = "_npi_nothing"
    refused(lambda: sym.load_json(json.dumps(file)), "_npi_nothing")
