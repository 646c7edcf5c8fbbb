"""Detection, sampling, speech and image operators on the GPU compared with the CPU, on sizes that fill several blocks.

The samples of the operators (test_gpu_samples.py) are small: here tiles, slices and sorts meet their borders.
"""
import numpy as np
import pytest

import mxnet as mx
from mxnet import autograd, nd

pytestmark = pytest.mark.skipif("mx.num_gpus() == 0", reason="there is no GPU")
RANDOM = np.random.RandomState(0)


def numbers(*shape, low=-1.0, high=1.0):
    return RANDOM.uniform(low, high, shape).astype("float32")


def boxes(*shape, size=0.3):
    """Corners in the unit square."""
    centre, half = RANDOM.uniform(0, 1, shape + (2,)), RANDOM.uniform(0.01, size / 2, shape + (2,))
    return np.concatenate([centre - half, centre + half], -1).astype("float32")


def regions(n, batch):
    """(image, left, top, right, bottom), some of images that do not exist."""
    return np.concatenate([RANDOM.randint(-1, batch + 1, (n, 1)), numbers(n, 2, low=0, high=200),
                           numbers(n, 2, low=200, high=420)], 1).astype("float32")


def scored(batch, n, classes):
    """(class, score, box) with scores that differ."""
    scores = RANDOM.permutation(batch * n).reshape(batch, n, 1) / float(batch * n)
    return np.concatenate([RANDOM.randint(0, classes, (batch, n, 1)), scores, boxes(batch, n)], -1).astype("float32")


def run(call, values, wanted, context):
    inputs = [nd.array(v, ctx=context, dtype=v.dtype) for v in values]
    for i in wanted:
        inputs[i].attach_grad()
    mx.random.seed(11)
    with autograd.record() if wanted else autograd.predict_mode():
        results = call(*inputs)
    results = [results] if isinstance(results, nd.NDArray) else list(results)
    if wanted:
        head = np.random.RandomState(3).uniform(-1, 1, results[0].shape)
        results[0].backward(nd.array(head, ctx=context, dtype=results[0].dtype))
    return [r.asnumpy() for r in results] + [inputs[i].grad.asnumpy() for i in wanted]


def check(call, values, wanted=(), tolerance=1e-4):
    """Results, and gradients of the inputs in `wanted`, are the same on both devices."""
    for here, there in zip(*(run(call, values, wanted, context) for context in (mx.cpu(), mx.gpu(0)))):
        np.testing.assert_allclose(there.astype("float64"), here.astype("float64"), rtol=tolerance, atol=tolerance)


MAP = numbers(2, 20, 30, 40)


# ---- speech and attention -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("steps, batch, labels", [(60, 7, 12), (3300, 2, 1600)])
def test_ctc(steps, batch, labels):
    label = RANDOM.randint(1, 30, (batch, labels)).astype("float32")
    label[0, 1] = label[0, 0]
    label[1, labels // 2:] = 0
    check(nd.CTCLoss, [numbers(steps, batch, 30, low=-3, high=3), label], [0], 1e-3)


def test_ctc_with_lengths():
    times, counts = np.array([60, 30, 12, 0, 25], "float32"), np.array([12, 5, 5, 0, 12], "float32")
    check(lambda *a: nd.CTCLoss(*a, use_data_lengths=True, use_label_lengths=True, blank_label="last"),
          [numbers(60, 5, 30), RANDOM.randint(0, 29, (5, 12)).astype("float32"), times, counts], [0])
    with pytest.raises(mx.MXNetError, match="labels is 7, wanted a class below 3"):
        nd.CTCLoss(nd.zeros((4, 1, 3), ctx=mx.gpu(0)), nd.array([[7, 1]], ctx=mx.gpu(0))).asnumpy()


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-4), ("float64", 1e-9), ("float16", 2e-2)])
def test_interleaved_attention(dtype, tolerance):
    rows = numbers(20, 3, 4 * 3 * 16).astype(dtype)
    check(lambda a: nd.contrib.interleaved_matmul_selfatt_qk(a, heads=4), [rows], [0], tolerance)
    check(lambda a, b: nd.contrib.interleaved_matmul_selfatt_valatt(a, b, heads=4), [rows, numbers(12, 20, 20).astype(dtype)], [0, 1],
          tolerance)


# ---- convolutions that look elsewhere, regions ------------------------------------------------------------------------

@pytest.mark.parametrize("groups, offset_groups", [(1, 1), (2, 4)])
def test_deformable(groups, offset_groups):
    size = dict(kernel=(3, 3), pad=(1, 1), num_filter=8, num_group=groups, num_deformable_group=offset_groups)
    data, offset = numbers(3, 24, 17, 19), numbers(3, offset_groups * 18, 17, 19, low=-3, high=3)
    weight, bias, mask = numbers(8, 24 // groups, 3, 3), numbers(8), numbers(3, offset_groups * 9, 17, 19, low=0)
    check(lambda *a: nd.contrib.DeformableConvolution(*a, **size), [data, offset, weight, bias], [0, 1, 2, 3], 1e-3)
    check(lambda *a: nd.contrib.ModulatedDeformableConvolution(*a, **size), [data, offset, mask, weight, bias],
          [0, 1, 2, 3, 4], 1e-3)


@pytest.mark.parametrize("call", [
    lambda a, r: nd.ROIPooling(a, r, pooled_size=(7, 5), spatial_scale=.1),
    lambda a, r: nd.contrib.ROIAlign(a, r, pooled_size=(7, 5), spatial_scale=.1, aligned=True),
    lambda a, r: nd.contrib.ROIAlign(a, r, pooled_size=(2, 2), spatial_scale=.1, sample_ratio=2, position_sensitive=True),
    lambda a, r: nd.contrib.PSROIPooling(a, r, spatial_scale=.1, output_dim=5, pooled_size=4, group_size=2),
])
def test_regions(call):
    check(call, [MAP, regions(50, 2)], [0])


# ---- boxes ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("n, topk, force", [(3000, -1, False), (3000, 700, True), (700, 100, False), (1, -1, False)])
def test_nms(n, topk, force):
    check(lambda a: nd.contrib.box_nms(a, overlap_thresh=.5, valid_thresh=.1, topk=topk, id_index=0, background_id=0,
                                       force_suppress=force, out_format="center"), [scored(3, n, 5)], tolerance=1e-5)


def test_scores_that_are_equal():
    rows = scored(2, 900, 3)
    rows[:, :, 1] = np.round(rows[:, :, 1], 1)
    check(lambda a: nd.contrib.box_nms(a, id_index=0), [rows], [0], 1e-5)


@pytest.mark.parametrize("ascending, topk", [(False, -1), (True, -1), (False, 5)])
def test_matching(ascending, topk):
    check(lambda a: nd.contrib.bipartite_matching(a, threshold=.3, is_ascend=ascending, topk=topk),
          [numbers(3, 80, 60, low=0)], tolerance=1e-6)


@pytest.mark.parametrize("ratio", [-1, 3])
def test_multibox_target(ratio):
    labels = np.full((4, 9, 5), -1, "float32")
    for image, count in enumerate((9, 3, 0, 5)):
        labels[image, :count, 0], labels[image, :count, 1:] = RANDOM.randint(0, 6, count), boxes(count, size=.6)
    check(lambda *a: nd.contrib.MultiBoxTarget(*a, negative_mining_ratio=ratio, negative_mining_thresh=.4,
                                               overlap_threshold=.3, minimum_negative_samples=4),
          [boxes(1, 2000), labels, numbers(4, 7, 2000, low=-2, high=2)])


@pytest.mark.parametrize("topk", [-1, 100])
def test_multibox_detection(topk):
    shares = np.exp(numbers(4, 7, 2000, low=-2, high=2))
    shares /= shares.sum(1, keepdims=True)
    check(lambda *a: nd.contrib.MultiBoxDetection(*a, threshold=.15, nms_topk=topk, nms_threshold=.45),
          [shares, numbers(4, 8000), boxes(1, 2000)])


def test_proposal():
    scores = RANDOM.permutation(2 * 24 * 500).reshape(2, 24, 20, 25).astype("float32") / 24000
    check(lambda *a: nd.contrib.MultiProposal(*a, rpn_pre_nms_top_n=1500, rpn_post_nms_top_n=50, output_score=True),
          [scores, numbers(2, 48, 20, 25, low=-.3, high=.3), np.array([[320, 400, 1], [300, 380, 1.2]], "float32")])


# ---- sampling -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("call, others", [
    (nd.BilinearSampler, [numbers(2, 2, 9, 11, low=-1.2, high=1.2)]),
    (lambda a, b: nd.SpatialTransformer(a, b, target_shape=(9, 11), transform_type="affine", sampler_type="bilinear"), [numbers(2, 6)]),
    (lambda a: nd.contrib.AdaptiveAvgPooling2D(a, output_size=1), []),
    (lambda a: nd.contrib.AdaptiveAvgPooling2D(a, output_size=(7, 50)), []),
    (lambda a: nd.contrib.BilinearResize2D(a, height=7, width=70), []),
    (lambda a: nd.contrib.BilinearResize2D(a, height=60, width=5, align_corners=False), []),
    (lambda a, b: nd.UpSampling(a, b, scale=2, sample_type="nearest", multi_input_mode="sum", num_args=2), [numbers(2, 20, 60, 80)]),
    (lambda a, b: nd.UpSampling(a, b, scale=2, sample_type="nearest", num_args=2), [numbers(2, 7, 60, 80)]),
    (lambda a, b: nd.UpSampling(a, b, scale=3, sample_type="bilinear", num_filter=20, num_args=2), [numbers(20, 1, 5, 5)]),
    (lambda a, b: nd.Correlation(a, b, kernel_size=3, max_displacement=4, stride1=2, stride2=2, pad_size=4), [numbers(2, 20, 30, 40)]),
    (lambda a, b: nd.Correlation(a, b, max_displacement=3, pad_size=3, is_multiply=False), [numbers(2, 20, 30, 40)]),
    (lambda a: nd.im2col(a, kernel=(3, 2), stride=(2, 1), dilate=(1, 2), pad=(1, 1)), []),
])
def test_sampling(call, others):
    check(call, [MAP] + others, range(1 + len(others)), 1e-3)


# ---- images -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype, tolerance", [("uint8", 0.51), ("float32", 1e-3)])
@pytest.mark.parametrize("name, strengths", [
    ("random_brightness", dict(min_factor=.5, max_factor=1.5)), ("random_contrast", dict(min_factor=.5, max_factor=1.5)),
    ("random_saturation", dict(min_factor=.5, max_factor=1.5)), ("random_hue", dict(min_factor=.1, max_factor=.4)),
    ("random_color_jitter", dict(brightness=.4, contrast=.4, saturation=.4, hue=.1)),
    ("random_lighting", dict(alpha_std=.3)), ("random_flip_left_right", {}), ("random_flip_top_bottom", {}), ("to_tensor", {})])
def test_images(name, strengths, dtype, tolerance):
    """The same random numbers, too."""
    images = RANDOM.randint(0, 256, (3, 61, 47, 3)).astype(dtype)
    check(lambda a: getattr(nd.image, name)(a, **strengths), [images], tolerance=tolerance)


@pytest.mark.parametrize("interp", range(5))
@pytest.mark.parametrize("size", [(100, 90), (20, 31)])
def test_resized_images(interp, size):
    images = RANDOM.randint(0, 256, (3, 61, 47, 3))
    check(lambda a: nd.image.resize(a, size=size, interp=interp), [images.astype("float32")], tolerance=1e-3)
    check(lambda a: nd.image.resize(a, size=size, interp=interp), [images.astype("uint8")], tolerance=1.01)


# ---- 8-bit integers ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", ["int8", "uint8", "auto"])
def test_quantized(kind):
    check(lambda a: nd.contrib.quantize_v2(a, out_type=kind), [numbers(100, 77)], tolerance=1.01)


def test_entropy():
    counts, edges = np.histogram(RANDOM.normal(0, 1, 100000), 801, (-5, 5))
    check(lambda *a: nd.contrib.calibrate_entropy(*a, num_quantized_bins=255), [counts.astype("float32"), edges.astype("float32")])
