"""Operators over boxes, regions, offsets and lengths with numbers that make no sense: an error or the documented value."""
import numpy as np
import pytest

import mxnet as mx
from mxnet import nd

BAD = [np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9, -1.0]


def filled(shape, value):
    return nd.array(np.full(shape, value, "float32"))


def run(call):
    """The results as NumPy arrays; None if the operator fails, which a GPU reports when values are read."""
    try:
        result = call()
        return [r.asnumpy() for r in (result if isinstance(result, (list, tuple)) else [result])]
    except mx.MXNetError:
        return None


@pytest.mark.parametrize("value", BAD)
def test_regions(value):
    """A region without an image gives zeros; one without a place gives numbers or an error."""
    data = nd.random.uniform(shape=(2, 8, 6, 7))
    for rois in (filled((3, 5), value), nd.array([[0, value, 1, 3, 4], [1, 1, value, 3, value], [value, 0, 0, 2, 2]])):
        first = rois.asnumpy()[:, 0]
        calls = [lambda: nd.ROIPooling(data, rois, pooled_size=(2, 2), spatial_scale=1.0),
                 lambda: nd.contrib.ROIAlign(data, rois, pooled_size=(2, 2), spatial_scale=1.0, sample_ratio=2),
                 lambda: nd.contrib.PSROIPooling(data, rois, spatial_scale=1.0, output_dim=2, pooled_size=2),
                 lambda: nd.contrib.DeformablePSROIPooling(data, rois, filled((3, 2, 2, 2), value), spatial_scale=1.0, output_dim=2,
                                                           group_size=2, pooled_size=2, trans_std=0.1)]
        for call in calls:
            result = run(call)
            if result is not None:
                missing = ~((first >= 0) & (first < 2))
                assert (result[0][missing] == 0).all()
                assert np.isfinite(result[0]).all()
    rotated = nd.concat(rois, filled((3, 1), value), dim=1)
    assert np.isfinite(run(lambda: nd.contrib.RROIAlign(data, rotated, pooled_size=(2, 2), spatial_scale=1.0,
                                                       sampling_ratio=2))[0]).all()
    run(lambda: nd.contrib.mrcnn_mask_target(filled((1, 2, 4), value), data[:1], filled((1, 2), value), filled((1, 2), value),
                                            num_rois=2, num_classes=2, mask_size=(2, 2), sample_ratio=-1))


@pytest.mark.parametrize("value", BAD)
def test_offsets(value):
    """Points outside of the data read 0."""
    data, weight = nd.random.uniform(shape=(1, 2, 4, 4)), nd.random.uniform(shape=(3, 2, 3, 3))
    offset, mask = filled((1, 18, 2, 2), value if abs(value) > 3 or value != value else -9.0), nd.ones((1, 9, 2, 2))
    for call in (lambda: nd.contrib.DeformableConvolution(data, offset, weight, kernel=(3, 3), num_filter=3, no_bias=True),
                 lambda: nd.contrib.ModulatedDeformableConvolution(data, offset, mask, weight, kernel=(3, 3), num_filter=3,
                                                                   no_bias=True)):
        for x in (data, offset, weight):
            x.attach_grad()
        with mx.autograd.record():
            y = call()
        y.backward()
        assert (y.asnumpy() == 0).all() and (data.grad.asnumpy() == 0).all() and (offset.grad.asnumpy() == 0).all()


@pytest.mark.parametrize("value", BAD)
def test_boxes(value):
    """Boxes that are none overlap nothing."""
    boxes = nd.array([[0, 0.9, 0, 0, 1, 1], [0, 0.8, value, value, value, value], [0, value, 5, 5, 6, 6]])
    kept = nd.contrib.box_nms(boxes).asnumpy()
    assert kept.shape == (3, 6) and np.float32(0.9) in kept[:, 1]
    run(lambda: nd.contrib.box_iou(boxes[:, 2:], boxes[:, 2:]))
    run(lambda: nd.contrib.bipartite_matching(boxes, threshold=0.1))
    run(lambda: nd.contrib.MultiBoxTarget(boxes[:, 2:].expand_dims(0), boxes[:, 1:].expand_dims(0), filled((1, 2, 3), value)))
    run(lambda: nd.contrib.MultiBoxDetection(filled((1, 2, 3), value), filled((1, 12), value), boxes[:, 2:].expand_dims(0)))
    run(lambda: nd.contrib.box_encode(filled((1, 3), 1), filled((1, 3), value), boxes[:, 2:].expand_dims(0),
                                      boxes[:, 2:].expand_dims(0), filled((4,), 0), filled((4,), 1)))
    for op in (nd.contrib.Proposal, nd.contrib.MultiProposal):
        for scores, moves, info in ((value, 0, 64), (0.5, value, 64), (0.5, 0, value)):
            out = op(filled((1, 2, 3, 3), scores), filled((1, 4, 3, 3), moves), filled((1, 3), info), scales=(1,), ratios=(1,),
                     rpn_post_nms_top_n=7)
            assert out.shape == (7, 5) and (out.asnumpy()[:, 0] == 0).all()


@pytest.mark.parametrize("value", BAD)
def test_lengths_and_marks(value):
    one = nd.ones((2, 3))
    args = [one, nd.ones(3), nd.ones(3), one, nd.ones((2, 4)), nd.zeros((2, 4)), filled((2,), value), nd.ones(2)]
    run(lambda: nd.contrib.hawkesll(*args))
    args[5:7] = filled((2, 4), value), filled((2,), 4)
    assert value in (-1.0,) or run(lambda: nd.contrib.hawkesll(*args)) is None
    with pytest.raises(mx.MXNetError, match="marks"):
        nd.contrib.hawkesll(*args[:5], filled((2, 4), 3), *args[6:])[0].asnumpy()
    run(lambda: nd.contrib.count_sketch(one, filled((1, 3), value), nd.ones((1, 3)), out_dim=4))
    run(lambda: nd.contrib.quantize(one, filled((1,), value), filled((1,), value), out_type="int8"))
    run(lambda: nd.contrib.quantize_v2(filled((2, 3), value)))
    run(lambda: nd.contrib.calibrate_entropy(filled((9,), value), filled((10,), value), num_quantized_bins=3))
    for name in ("uniform", "normal", "gamma", "negative_binomial", "generalized_negative_binomial"):
        run(lambda: getattr(nd, "random_pdf_" + name)(filled((2, 3), value), filled((2,), value), filled((2,), value)))


@pytest.mark.parametrize("call", [
    lambda: nd.contrib.DeformableConvolution(nd.ones((1, 2, 4, 4)), nd.ones((1, 8, 3, 3)), nd.ones((1, 2, 2, 2)), kernel=(2,), num_filter=1,
                                             no_bias=True),
    lambda: nd.contrib.DeformableConvolution(nd.ones((1, 2, 4, 4)), nd.ones((1, 7, 3, 3)), nd.ones((1, 2, 2, 2)), kernel=(2, 2), num_filter=1,
                                             no_bias=True),
    lambda: nd.contrib.DeformableConvolution(nd.ones((1, 3, 4, 4)), nd.ones((1, 16, 3, 3)), nd.ones((1, 2, 2, 2)), kernel=(2, 2), num_filter=1,
                                             num_deformable_group=2, no_bias=True),
    lambda: nd.contrib.DeformableConvolution(nd.ones((1, 2, 4, 4)), nd.ones((1, 8, 3, 3)), nd.ones((1, 2, 2, 2)), kernel=(2, 2), num_filter=1,
                                             no_bias=True, layout="NCW"),
    lambda: nd.Correlation(nd.ones((1, 2, 4, 4)), nd.ones((1, 2, 4, 4)), kernel_size=2),
    lambda: nd.Correlation(nd.ones((1, 2, 4, 4)), nd.ones((1, 2, 4, 4)), max_displacement=9),
    lambda: nd.Correlation(nd.ones((1, 2, 4, 4)), nd.ones((1, 2, 4, 5))),
    lambda: nd.contrib.PSROIPooling(nd.ones((1, 7, 4, 4)), nd.ones((1, 5)), spatial_scale=1.0, output_dim=2, pooled_size=2),
    lambda: nd.contrib.Proposal(nd.ones((2, 2, 3, 3)), nd.ones((2, 4, 3, 3)), nd.ones((2, 3)), scales=(1,), ratios=(1,)),
    lambda: nd.contrib.Proposal(nd.ones((1, 2, 3, 3)), nd.ones((1, 4, 3, 3)), nd.ones((1, 3)), scales=(1,), ratios=(0,)),
    lambda: nd.UpSampling(nd.ones((1, 2, 3, 3)), scale=2, sample_type="bilinear"),
    lambda: nd.UpSampling(nd.ones((1, 2, 3, 3)), nd.ones((2, 1, 3, 3)), scale=2, sample_type="bilinear"),
    lambda: nd.random_pdf_normal(nd.ones((3, 2)), nd.ones(2), nd.ones(2)),
    lambda: nd.contrib.calibrate_entropy(nd.ones(5), nd.ones(6)),
    lambda: nd.contrib.box_iou(nd.ones((2, 4)), nd.zeros((2, 0))),
])
def test_refused(call):
    with pytest.raises(mx.MXNetError):
        call()


def test_casts_to_integers():
    """What does not fit is what x86 gives, as with NumPy and MXNet there."""
    values = np.array([300.0, -1.0, 255.7, -0.5, 256.0, 1e10, -1e10, np.inf, np.nan, 127.6, 128, -129], "float32")
    for dtype in ("float16", "float32", "float64"):
        x = nd.array(values, dtype=dtype)
        assert x.astype("uint8").asnumpy().tolist() == [44, 255, 255, 0, 0, 0, 0, 0, 0, 127, 128, 127]
        assert x.astype("int8").asnumpy().tolist() == [44, -1, -1, 0, 0, 0, 0, 0, 0, 127, -128, 127]
        low = -2 ** 31
        assert x.astype("int32").asnumpy().tolist() == [300, -1, 255, 0, 256, low, low, low, low, 127, 128, -129]
    whole = nd.array([-5, 7], dtype="int32")  # comparisons with numbers beyond all integers still hold
    assert (whole < 1e30).asnumpy().all() and (whole > -1e30).asnumpy().all()


def test_averages_without_a_choice():
    x = nd.ones((1, 1, 4, 4))
    wanted = nd.Pooling(x, kernel=(3, 3), pad=(1, 1), pool_type="avg").asnumpy()
    assert (nd.Pooling(x, kernel=(3, 3), pad=(1, 1), pool_type="avg", count_include_pad=None).asnumpy() == wanted).all()


def test_dropout_of_nothing():
    """An empty array with shared mask elements: the mask has elements, the data has none."""
    for shape, axes in (((3, 0), (1,)), ((0, 3), (0,)), ((2, 0, 3), (0, 1))):
        x = nd.array(np.zeros(shape, "float32"))
        x.attach_grad()
        with mx.autograd.record():
            y = nd.Dropout(x, p=0.5, axes=axes)
        y.backward()
        assert y.shape == x.grad.shape == shape


@pytest.mark.parametrize("kind", ["uint8", "int8", "int32", "int64"])
def test_integers_for_kernels_of_floats(kind):
    """A kernel never reads integers as floats: refused, or computed in a type that can hold the result."""
    matrix = nd.array(np.eye(4) * 2).astype(kind)
    for call in (lambda: nd.LeakyReLU(matrix, nd.ones((1,))), lambda: nd.LeakyReLU(matrix, act_type="elu"),
                 lambda: nd.LeakyReLU(matrix, nd.ones((4,)), act_type="prelu"),
                 lambda: nd.linalg.slogdet(matrix), lambda: nd.linalg.det(matrix), lambda: nd.linalg.inverse(matrix),
                 lambda: nd.linalg.potrf(matrix), lambda: nd.LayerNorm(matrix, nd.ones((4,)), nd.ones((4,))),
                 lambda: nd.L2Normalization(matrix), lambda: nd.Dropout(matrix, p=0.5, mode="always")):
        result = run(call)
        assert result is None or np.isfinite(result[0]).all()
    assert (matrix.asnumpy() == np.eye(4) * 2).all()
