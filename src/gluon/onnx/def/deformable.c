/* Deformable convolution.  SPDX-License-Identifier: Apache-2.0
 *
 * ONNX's is the modulated one: at the border, _contrib_DeformableConvolution reads other values, so it is not written. */
#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

static bool take(mx_onnx_in *n, const char *name, int64_t fallback, mx_dims *dims)
{
    if (!mx_onnx_ints(n, name, dims))
        return false;
    if (dims->n < 0)
        *dims = MX_DIMS(fallback, fallback, fallback, fallback);
    return true;
}

/* x, weight, offset, bias, mask */
static mx_code read_deformable(mx_onnx_in *n)
{
    mx_dims kernel, stride, dilate, pads, shape;
    if (!take(n, "kernel_shape", 0, &kernel) || !take(n, "strides", 1, &stride) || !take(n, "dilations", 1, &dilate) ||
        !take(n, "pads", 0, &pads) || !mx_onnx_shape(n, 1, &shape))
        return mx_error_code();
    if (shape.n != 4 || pads.n != 4 || pads.d[0] != pads.d[2] || pads.d[1] != pads.d[3])
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "only images with equal padding on both sides are supported");
    kernel = MX_DIMS(shape.d[2], shape.d[3]);
    stride.n = dilate.n = 2;
    const mx_dims pad = MX_DIMS(pads.d[0], pads.d[1]);
    const int64_t group = mx_onnx_int(n, "group", 1), offsets = mx_onnx_int(n, "offset_group", 1);
    mx_array *half = mx_slice_axis(n->in[2], .axis = 1, .begin = 0, .end = offsets * kernel.d[0] * kernel.d[1]);
    mx_array *mask = mx_onnx_given(n, 4) ? n->in[4] : mx_ones_like(half);
    n->out[0] = mx_modulated_deformable_convolution(n->in[0], n->in[2], mask, n->in[1], mx_onnx_input(n, 3),
                                                    .kernel = kernel, .stride = stride, .dilate = dilate, .pad = pad,
                                                    .num_filter = shape.d[0], .num_group = group,
                                                    .num_deformable_group = offsets, .no_bias = !mx_onnx_given(n, 3));
    return MX_OK;
}

static void set_pair(mx_onnx_out *o, const char *name, const mx_dims *dims, int64_t fallback)
{
    const int64_t both[2] = {dims->n > 0 ? dims->d[0] : fallback, dims->n > 1 ? dims->d[1] : fallback};
    mx_onnx_set_ints(o, name, 2, both);
}

static mx_code write_deformable(mx_onnx_out *o)
{
    const mx_modulated_deformable_attrs *a = o->attrs;
    const char *bias = a->no_bias || o->n_in < 5 ? NULL : o->in[4];
    mx_onnx_put(o, o->out[0], "DeformConv", o->in[0], o->in[3], o->in[1], bias, o->in[2]);
    mx_onnx_set_ints(o, "kernel_shape", 2, a->kernel.d);
    set_pair(o, "strides", &a->stride, 1);
    set_pair(o, "dilations", &a->dilate, 1);
    const int64_t high = a->pad.n > 0 ? a->pad.d[0] : 0, wide = a->pad.n > 1 ? a->pad.d[1] : 0;
    mx_onnx_set_ints(o, "pads", MX_ONNX_LIST(high, wide, high, wide));
    mx_onnx_set_int(o, "group", a->num_group);
    mx_onnx_set_int(o, "offset_group", a->num_deformable_group);
    return mx_onnx_done(o);
}

const mx_onnx_row mx_onnx_deformable[] = {
    BOTH("DeformConv", "_contrib_ModulatedDeformableConvolution", read_deformable, write_deformable, .since = 19),
    {0}};
