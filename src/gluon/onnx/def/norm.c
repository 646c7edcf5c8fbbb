/* Normalizations.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

/* ---- batch ----------------------------------------------------------------------------------------------------- */

static mx_code read_batch_norm(mx_onnx_in *n)
{
    if (n->n_in < 5)
        return mx_onnx_fail(n, MX_ERR_FILE, "it has %d inputs, wanted 5", n->n_in);
    const double eps = mx_onnx_float(n, "epsilon", 1e-5), momentum = mx_onnx_float(n, "momentum", 0.9);
    if (mx_onnx_int(n, "training_mode", 0) || n->n_out > 1) {
        mx_array *x = n->in[0], *mean, *var;
        const mx_dims channel = MX_DIMS(1);
        mean = mx_mean(x, .axis = channel, .exclude = true, .keepdims = true);
        var = mx_mean(mx_square(mx_sub(x, mean)), .axis = channel, .exclude = true, .keepdims = true);
        const mx_dims wide =
            mx_onnx_rank(n, 0) > 2 ? (mx_dims){.n = n->in[0]->ndim - 1, .d = {-1, 1, 1, 1, 1, 1, 1}} : MX_DIMS(-1);
        mx_array *y = mx_mul(mx_sub(x, mean), mx_rsqrt(mx_plus_scalar(var, .scalar = eps)));
        n->out[0] = mx_add(mx_mul(y, mx_reshape(n->in[1], .shape = wide)), mx_reshape(n->in[2], .shape = wide));
        mx_array *batch[2] = {mx_reshape(mean, .shape = MX_DIMS(-1)), mx_reshape(var, .shape = MX_DIMS(-1))};
        for (int i = 1; i < 3 && i < n->n_out; i++)
            n->out[i] = mx_add(mx_mul_scalar(n->in[i + 2], .scalar = momentum),
                               mx_mul_scalar(batch[i - 1], .scalar = 1 - momentum));
        return MX_OK;
    }
    n->out[0] = mx_op_batch_norm(n->in[0], n->in[1], n->in[2], n->in[3], n->in[4], .eps = eps, .momentum = momentum,
                                 .fix_gamma = false, .axis = 1);
    return MX_OK;
}

static mx_code write_batch_norm(mx_onnx_out *o)
{
    const mx_batch_norm_attrs *a = o->attrs; /* SyncBatchNorm: begins with the same fields */
    const int rank = mx_onnx_out_rank(o, 0);
    const bool sync = strcmp(o->node->op->name, "_contrib_SyncBatchNorm") == 0;
    const int64_t axis = sync          ? 1
                         : a->axis < 0 ? a->axis + rank
                                       : a->axis,
                  channels = o->in_shape[1].ndim == 1 ? o->in_shape[1].dim[0] : -1;
    const char *gamma = o->in[1], *x = o->in[0];
    int64_t order[MX_MAX_NDIM];
    if (a->fix_gamma && channels >= 0)
        gamma = mx_onnx_put_array(o, mx_ones(.shape = MX_DIMS(channels),
                                             .dtype = (mx_dtype)(o->in_type[1] < 0 ? MX_FLOAT32 : o->in_type[1])));
    const bool move = rank > 2 && axis != 1;
    for (int i = 0; i < rank; i++) /* swaps the axis and axis 1 */
        order[i] = i == 1 ? axis : i == axis ? 1 : i;
    if (move) {
        x = mx_onnx_put(o, NULL, "Transpose", x);
        mx_onnx_set_ints(o, "perm", rank, order);
    }
    const bool relu = !strcmp(o->node->op->name, "_contrib_BatchNormWithReLU");
    const char *y =
        mx_onnx_put(o, move || relu ? NULL : o->out[0], "BatchNormalization", x, gamma, o->in[2], o->in[3], o->in[4]);
    mx_onnx_set_float(o, "epsilon", a->eps);
    mx_onnx_set_float(o, "momentum", a->momentum);
    if (move) {
        y = mx_onnx_put(o, relu ? NULL : o->out[0], "Transpose", y);
        mx_onnx_set_ints(o, "perm", rank, order);
    }
    if (relu)
        mx_onnx_put(o, o->out[0], "Relu", y);
    return mx_onnx_done(o);
}

/* ---- layer, instance, group -------------------------------------------------------------------------------------- */

typedef struct moments {
    mx_array *mean, *inverse; /* inverse: 1 / sqrt(variance + epsilon) */
} moments;

static moments moments_over(mx_array *x, const mx_dims *axes, double eps)
{
    mx_array *mean = mx_mean(x, .axis = *axes, .keepdims = true);
    mx_array *var = mx_mean(mx_square(mx_sub(x, mean)), .axis = *axes, .keepdims = true);
    return (moments){mean, mx_rsqrt(mx_plus_scalar(var, .scalar = eps))};
}

static mx_code read_layer_norm(mx_onnx_in *n)
{
    const int rank = mx_onnx_rank(n, 0);
    const double eps = mx_onnx_float(n, "epsilon", 1e-5);
    const bool rms = n->op[0] == 'R';
    int64_t axis = mx_onnx_int(n, "axis", -1);
    if (rank < 0 || !mx_onnx_axis(n, &axis, rank))
        return mx_error_code();
    if (!rms && axis == rank - 1 && n->n_out == 1 && mx_onnx_given(n, 2) && n->in[1]->ndim == 1 &&
        n->in[2]->ndim == 1) {
        n->out[0] = mx_op_layer_norm(n->in[0], n->in[1], n->in[2], .axis = -1, .eps = eps);
        return MX_OK;
    }
    mx_dims axes = {.n = rank - (int)axis};
    for (int i = 0; i < axes.n; i++)
        axes.d[i] = axis + i;
    const mx_dtype type = (mx_dtype)n->in[0]->dtype;
    const bool widen = type != MX_FLOAT64 && type != MX_FLOAT32;
    mx_array *x = widen ? mx_cast(n->in[0], .dtype = MX_FLOAT32) : n->in[0];
    moments m = {NULL, NULL};
    if (rms)
        m.inverse = mx_rsqrt(mx_plus_scalar(mx_mean(mx_square(x), .axis = axes, .keepdims = true), .scalar = eps));
    else
        m = moments_over(x, &axes, eps);
    mx_array *y = mx_mul(rms ? x : mx_sub(x, m.mean), m.inverse);
    y = mx_mul(mx_onnx_cast(y, type), n->in[1]);
    n->out[0] = mx_onnx_given(n, 2) ? mx_add(y, n->in[2]) : y;
    if (n->n_out > 1)
        n->out[1] = m.mean;
    if (n->n_out > 2)
        n->out[2] = m.inverse;
    return MX_OK;
}

/* Over the last axis, or, composed, over another. */
static mx_code write_layer_norm(mx_onnx_out *o)
{
    const mx_layer_norm_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0);
    const int64_t axis = a->axis < 0 ? a->axis + rank : a->axis;
    if (rank < 0)
        return mx_error_code();
    if (o->opset >= 17 && axis == rank - 1) {
        mx_onnx_put(o, o->out[0], "LayerNormalization", o->in[0], o->in[1], o->in[2]);
        mx_onnx_set_float(o, "epsilon", a->eps);
        mx_onnx_set_int(o, "axis", -1);
        return mx_onnx_done(o);
    }
    const char *x = o->in[0], *mean = mx_onnx_put_mean(o, NULL, x, 1, &axis), *d = mx_onnx_put(o, NULL, "Sub", x, mean);
    const char *var = mx_onnx_put_mean(o, NULL, mx_onnx_put(o, NULL, "Mul", d, d), 1, &axis);
    const char *s =
        mx_onnx_put(o, NULL, "Sqrt", mx_onnx_put(o, NULL, "Add", var, mx_onnx_put_number(o, a->eps, o->in_type[0])));
    const char *gamma = o->in[1], *beta = o->in[2];
    if (axis != rank - 1) {
        int64_t wide[MX_MAX_NDIM] = {-1};
        for (int i = 1; i < rank - axis; i++)
            wide[i] = 1;
        const char *shape = mx_onnx_put_ints(o, rank - (int)axis, wide);
        gamma = mx_onnx_put(o, NULL, "Reshape", gamma, shape);
        beta = mx_onnx_put(o, NULL, "Reshape", beta, shape);
    }
    const char *y = mx_onnx_put(o, NULL, "Mul", mx_onnx_put(o, NULL, "Div", d, s), gamma);
    mx_onnx_put(o, o->out[0], "Add", y, beta);
    return mx_onnx_done(o);
}

static mx_code read_instance_norm(mx_onnx_in *n)
{
    n->out[0] = mx_op_instance_norm(n->in[0], n->in[1], n->in[2], .eps = mx_onnx_float(n, "epsilon", 1e-5));
    return MX_OK;
}

static mx_code write_instance_norm(mx_onnx_out *o)
{
    const mx_instance_norm_attrs *a = o->attrs;
    mx_onnx_put(o, o->out[0], "InstanceNormalization", o->in[0], o->in[1], o->in[2]);
    mx_onnx_set_float(o, "epsilon", a->eps);
    return mx_onnx_done(o);
}

/* Since opset 21 scale and bias are per channel, before per group. */
static mx_code read_group_norm(mx_onnx_in *n)
{
    mx_dims shape;
    const int64_t groups = mx_onnx_int(n, "num_groups", 0);
    const double eps = mx_onnx_float(n, "epsilon", 1e-5);
    const int rank = mx_onnx_rank(n, 0);
    if (rank < 2 || groups < 1)
        return mx_onnx_fail(n, MX_ERR_FILE, "num_groups is %lld", (long long)groups);
    mx_array *x = mx_reshape(n->in[0], .shape = MX_DIMS(0, groups, -1));
    moments m = moments_over(x, &MX_DIMS(2), eps);
    mx_array *y = mx_mul(mx_sub(x, m.mean), m.inverse), *scale = n->in[1], *bias = n->in[2];
    if (n->opset < 21) {
        y = mx_add(mx_mul(y, mx_reshape(scale, .shape = MX_DIMS(-1, 1))), mx_reshape(bias, .shape = MX_DIMS(-1, 1)));
        n->out[0] = mx_reshape_like(y, n->in[0]);
        return MX_OK;
    }
    shape = (mx_dims){.n = rank - 1, .d = {-1, 1, 1, 1, 1, 1, 1}};
    y = mx_reshape_like(y, n->in[0]);
    n->out[0] = mx_add(mx_mul(y, mx_reshape(scale, .shape = shape)), mx_reshape(bias, .shape = shape));
    return MX_OK;
}

/* Groups are the channels of instances; gamma and beta are per group. */
static mx_code write_group_norm(mx_onnx_out *o)
{
    const mx_group_norm_attrs *a = o->attrs;
    const int64_t merged[3] = {0, a->num_groups, -1};
    if (o->in_shape[1].ndim == 1 && o->in_shape[1].dim[0] >= 0 && o->in_shape[1].dim[0] != a->num_groups)
        return mx_onnx_refuse(o, "gamma has %lld numbers for %lld groups", (long long)o->in_shape[1].dim[0],
                              (long long)a->num_groups);
    const char *x = mx_onnx_put(o, NULL, "Reshape", o->in[0], mx_onnx_put_ints(o, 3, merged));
    const char *y = mx_onnx_put(o, NULL, "InstanceNormalization", x, o->in[1], o->in[2]);
    mx_onnx_set_float(o, "epsilon", a->eps);
    mx_onnx_put(o, o->out[0], "Reshape", y, mx_onnx_put(o, NULL, "Shape", o->in[0]));
    return mx_onnx_done(o);
}

static mx_code read_mean_variance(mx_onnx_in *n)
{
    mx_dims axes;
    if (!mx_onnx_ints(n, "axes", &axes))
        return mx_error_code();
    axes = axes.n < 0 ? MX_DIMS(0, 2, 3) : axes;
    mx_array *d = mx_sub(n->in[0], mx_mean(n->in[0], .axis = axes, .keepdims = true));
    mx_array *s = mx_sqrt(mx_mean(mx_square(d), .axis = axes, .keepdims = true));
    n->out[0] = mx_div(d, mx_plus_scalar(s, .scalar = 1e-9));
    return MX_OK;
}

/* ---- others ---------------------------------------------------------------------------------------------------- */

static mx_code read_lrn(mx_onnx_in *n)
{
    const int64_t size = mx_onnx_int(n, "size", 0);
    if (size < 1 || size % 2 == 0)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "size is %lld, wanted an odd number", (long long)size);
    n->out[0] = mx_lrn(n->in[0], .alpha = mx_onnx_float(n, "alpha", 1e-4), .beta = mx_onnx_float(n, "beta", 0.75),
                       .knorm = mx_onnx_float(n, "bias", 1), .nsize = size);
    return MX_OK;
}

static mx_code write_lrn(mx_onnx_out *o)
{
    const mx_lrn_attrs *a = o->attrs;
    mx_onnx_put(o, o->out[0], "LRN", o->in[0]);
    mx_onnx_set_float(o, "alpha", a->alpha);
    mx_onnx_set_float(o, "beta", a->beta);
    mx_onnx_set_float(o, "bias", a->knorm);
    mx_onnx_set_int(o, "size", a->nsize);
    return mx_onnx_done(o);
}

static mx_code read_lp_norm(mx_onnx_in *n)
{
    const int64_t axis = mx_onnx_int(n, "axis", -1), p = mx_onnx_int(n, "p", 2);
    mx_array *x = n->in[0], *s = p == 1 ? mx_sum(mx_abs(x), .axis = MX_DIMS(axis), .keepdims = true)
                                        : mx_sqrt(mx_sum(mx_square(x), .axis = MX_DIMS(axis), .keepdims = true));
    mx_array *zero = mx_equal_scalar(s, .scalar = 0);
    n->out[0] = mx_div(x, mx_add(s, zero));
    return MX_OK;
}

/* x / sqrt(sum of squares + eps) */
static mx_code write_l2(mx_onnx_out *o)
{
    const mx_l2_normalization_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0);
    int64_t axes[MX_MAX_NDIM];
    int n = 0;
    if (rank < 0)
        return mx_error_code();
    for (int i = 1; i < rank; i++)
        if (a->mode == MX_L2_NORMALIZATION_INSTANCE || (a->mode == MX_L2_NORMALIZATION_CHANNEL ? i == 1 : i > 1))
            axes[n++] = i;
    const char *x = o->in[0], *squares = mx_onnx_put(o, NULL, "Mul", x, x);
    const char *sum = mx_onnx_put(o, NULL, "ReduceSum", squares, mx_onnx_put_ints(o, n, axes));
    mx_onnx_set_int(o, "keepdims", 1);
    sum = mx_onnx_put(o, NULL, "Add", sum, mx_onnx_put_number(o, a->eps, o->in_type[0]));
    mx_onnx_put(o, o->out[0], "Div", x, mx_onnx_put(o, NULL, "Sqrt", sum));
    return mx_onnx_done(o);
}

const mx_onnx_row mx_onnx_norm[] = {
    BOTH("BatchNormalization", "BatchNorm", read_batch_norm, write_batch_norm),
    WRITE(NULL, "_contrib_SyncBatchNorm", write_batch_norm),
    WRITE(NULL, "_contrib_BatchNormWithReLU", write_batch_norm),
    BOTH("LayerNormalization", "LayerNorm", read_layer_norm, write_layer_norm),
    READ("RMSNormalization", read_layer_norm),
    BOTH("InstanceNormalization", "InstanceNorm", read_instance_norm, write_instance_norm),
    BOTH("GroupNormalization", "GroupNorm", read_group_norm, write_group_norm),
    READ("MeanVarianceNormalization", read_mean_variance),
    BOTH("LRN", "LRN", read_lrn, write_lrn),
    READ("LpNormalization", read_lp_norm),
    WRITE(NULL, "L2Normalization", write_l2),
    {0}};
