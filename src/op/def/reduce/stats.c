/* Statistics of whole arrays: moments, sums of squares of many arrays, checks for infinities, running sums.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/error.h"
#include "op/formula/reduce.h"

#define MOMENTS_ATTRS(X) \
    X(DIMS, axes, "None", "", "axes to fold; None: all of them") \
    X(BOOL, keepdims, "False", "", "the folded axes stay as axes of size 1")
MX_ATTRS(moments, MOMENTS_ATTRS)

#define MULTI_SUM_SQ_ATTRS(X) X(INT, num_arrays, REQUIRED, "1..", "how many arrays")
MX_ATTRS(multi_sum_sq, MULTI_SUM_SQ_ATTRS)

#define ALL_FINITE_ATTRS(X) \
    X(BOOL, init_output, "True", "", "forget what the output holds; else 0 stays 0, and out must be given")
MX_ATTRS(all_finite, ALL_FINITE_ATTRS)

#define MULTI_ALL_FINITE_ATTRS(X) \
    X(INT, num_arrays, "1", "1..", "how many arrays") \
    X(BOOL, init_output, "True", "", "forget what the output holds; else 0 stays 0, and out must be given")
MX_ATTRS(multi_all_finite, MULTI_ALL_FINITE_ATTRS)

#define CUMSUM_ATTRS(X) \
    X(INT, axis, "None", "", "axis along which to add up; None: the whole array, in C order") \
    X(DTYPE, dtype, "None", "", "element type of the result; None: that of a")
MX_ATTRS(cumsum, CUMSUM_ATTRS)

static mx_code give(mx_grad *grad, mx_array *value)
{
    grad->igrad[0] = value;
    return value ? MX_OK : mx_error_code();
}

/* ---- moments --------------------------------------------------------------------------------------------------- */

static mx_code infer_moments(mx_infer *infer)
{
    const mx_moments_attrs *attrs = infer->attrs;
    if (infer->in[0].ndim < 0)
        return MX_OK;
    const int mask = mx_fold_axes(infer->op, &attrs->axes, false, infer->in[0].ndim);
    if (mask < 0)
        return mx_error_code();
    const mx_shape_t out = mx_fold_shape(&infer->in[0], mask, attrs->keepdims);
    return mx_infer_out(infer, 0, &out) ? mx_error_code() : mx_infer_out(infer, 1, &out);
}

/* dx = (gm + 2 gv (x - mean)) / n */
static mx_code grad_moments(mx_grad *grad)
{
    const mx_moments_attrs *attrs = grad->attrs;
    const mx_shape_t *in = &grad->in_shape[0];
    const int mask = mx_fold_axes(grad->op, &attrs->axes, false, in->ndim);
    if (mask < 0)
        return mx_error_code();
    const mx_shape_t ones = mx_fold_shape(in, mask, true);
    double count = 1;
    for (int i = 0; i < in->ndim; i++)
        count *= mask >> i & 1 ? (double)in->dim[i] : 1;
    mx_array *mean_part = NULL, *var_part = NULL;
    if (grad->ograd[0])
        mean_part = mx_g_broadcast_to(mx_g_reshape(mx_g_scale(grad->ograd[0], 1 / count), &ones), in);
    if (grad->ograd[1]) {
        mx_array *centered = mx_g_sub(grad->in[0], mx_g_reshape(grad->out[0], &ones));
        var_part = mx_g_mul(centered, mx_g_reshape(mx_g_scale(grad->ograd[1], 2 / count), &ones));
    }
    if ((grad->ograd[0] && !mean_part) || (grad->ograd[1] && !var_part))
        return mx_error_code();
    return give(grad, mean_part && var_part ? mx_g_add(mean_part, var_part) : mean_part ? mean_part : var_part);
}

static int64_t result_of(const mx_shape_t *in, int mask, int64_t index)
{
    int64_t result = 0, step = 1;
    for (int axis = in->ndim - 1; axis >= 0; index /= in->dim[axis], axis--) {
        if (mask >> axis & 1)
            continue;
        result += index % in->dim[axis] * step;
        step *= in->dim[axis];
    }
    return result;
}

static void ref_moments(const mx_reference_call *call)
{
    const mx_shape_t *in = &call->in_shape[0];
    const int mask = mx_fold_axes(NULL, &((const mx_moments_attrs *)call->attrs)->axes, false, in->ndim);
    const int64_t size = mx_shape_size(in), results = mx_shape_size(&call->out_shape[0]);
    double *mean = call->out[0], *var = call->out[1];
    for (int64_t i = 0; i < results; i++)
        mean[i] = var[i] = 0;
    for (int64_t i = 0; i < size; i++)
        mean[result_of(in, mask, i)] += call->in[0][i] / (double)(size / results);
    for (int64_t i = 0; i < size; i++) {
        const double d = call->in[0][i] - mean[result_of(in, mask, i)];
        var[result_of(in, mask, i)] += d * d / (double)(size / results);
    }
}

/* ---- many arrays ----------------------------------------------------------------------------------------------- */

static mx_code infer_float(mx_infer *infer) { return mx_infer_out_type(infer, 0, MX_FLOAT32); }
static mx_code infer_count(mx_infer *infer)
{
    const int64_t wanted = ((const mx_multi_sum_sq_attrs *)infer->attrs)->num_arrays;
    if (wanted != infer->n_in)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "num_arrays is %lld, but %d arrays came", (long long)wanted,
                          infer->n_in);
    return mx_infer_out(infer, 0, &(mx_shape_t){.ndim = 1, .dim = {infer->n_in}});
}
static mx_code infer_one(mx_infer *infer) { return mx_infer_out(infer, 0, &(mx_shape_t){.ndim = 1, .dim = {1}}); }
static int count_arrays(const void *attrs) { return (int)((const mx_multi_sum_sq_attrs *)attrs)->num_arrays; }

static void ref_multi_sum_sq(const mx_reference_call *call)
{
    for (int k = 0; k < call->n_in; k++) {
        call->out[0][k] = 0;
        for (int64_t i = 0; i < mx_shape_size(&call->in_shape[k]); i++)
            call->out[0][k] += call->in[k][i] * call->in[k][i];
    }
}

static void ref_all_finite(const mx_reference_call *call)
{
    call->out[0][0] = 1;
    for (int k = 0; k < call->n_in; k++)
        for (int64_t i = 0; i < mx_shape_size(&call->in_shape[k]); i++)
            if (!isfinite(call->in[k][i]))
                call->out[0][0] = 0;
}

/* ---- cumsum ---------------------------------------------------------------------------------------------------- */

static mx_code infer_cumsum(mx_infer *infer)
{
    const mx_cumsum_attrs *attrs = infer->attrs;
    const mx_shape_t *in = &infer->in[0];
    if (attrs->axis != MX_NONE_INT) {
        if (in->ndim >= 0 && mx_axis(attrs->axis, in->ndim) < 0)
            return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "axis %lld is not an axis of an input with %d axes",
                              (long long)attrs->axis, in->ndim);
        return mx_infer_same_shape(infer);
    }
    if (!mx_shape_known(in))
        return MX_OK;
    return mx_infer_out(infer, 0, &(mx_shape_t){.ndim = 1, .dim = {mx_shape_size(in)}});
}

static mx_code infer_cumsum_type(mx_infer *infer)
{
    const mx_dtype dtype = ((const mx_cumsum_attrs *)infer->attrs)->dtype;
    return dtype == MX_DTYPE_NONE ? mx_infer_same_type(infer) : mx_infer_out_type(infer, 0, dtype);
}

/* y_i = sum of x_k, k <= i:  dx_k = sum of g_i, i >= k: the running sum from the other end */
static mx_code grad_cumsum(mx_grad *grad)
{
    const mx_cumsum_attrs *attrs = grad->attrs;
    mx_cumsum_attrs again = {attrs->axis == MX_NONE_INT ? 0 : attrs->axis, (mx_dtype)grad->in_type[0]};
    char axis[32];
    snprintf(axis, sizeof axis, "axis=%lld", (long long)again.axis);
    mx_array *turned = mx_g_text(MX_OP("reverse"), axis, 1, &grad->ograd[0]);
    turned = mx_g_call(MX_OP("_np_cumsum"), &again, 1, &turned);
    turned = mx_g_text(MX_OP("reverse"), axis, 1, &turned);
    return give(grad, turned ? mx_g_reshape(turned, &grad->in_shape[0]) : NULL);
}

static void ref_cumsum(const mx_reference_call *call)
{
    const mx_cumsum_attrs *attrs = call->attrs;
    const mx_shape_t *in = &call->in_shape[0];
    int64_t inner = 1, n = mx_shape_size(in);
    if (attrs->axis != MX_NONE_INT) {
        const int axis = mx_axis(attrs->axis, in->ndim);
        n = in->dim[axis];
        for (int i = axis + 1; i < in->ndim; i++)
            inner *= in->dim[i];
    }
    for (int64_t i = 0; i < mx_shape_size(in); i++)
        call->out[0][i] = call->in[0][i] + (i / inner % n ? call->out[0][i - inner] : 0);
}

/* ---- the rows -------------------------------------------------------------------------------------------------- */

mx_op mx_family_stats[] = {
    {.name = "moments", .doc = "mean and variance over axes", .inputs = "data", .outputs = "mean var",
     .schema = &moments_schema, .n_out = 2,
     .infer_shape = infer_moments, .gradient = grad_moments, .grad_in = 1, .grad_out = 1, .reference = ref_moments,
     .samples = (const mx_sample[]){{"2,3", "", 0, 0, "floatonly"}, {"2,3,4", "axes=(0, 2)", 0, 0, "floatonly"},
                                    {"3,50", "axes=-1, keepdims=True", 0, 0, "floatonly"}, {0}}},
    {.name = "multi_sum_sq", .doc = "the sum of squares of each array", .inputs = "*data",
     .schema = &multi_sum_sq_schema,
     .flags = MX_OP_LIST | MX_OP_NO_GRADIENT, .count_in = count_arrays, .infer_shape = infer_count,
     .infer_type = infer_float, .reference = ref_multi_sum_sq,
     .samples = (const mx_sample[]){{"2,3;4", "num_arrays=2", 0, 0, NULL}, {"70", "num_arrays=1", 0, 0, NULL}, {0}}},
    {.name = "all_finite", .doc = "1 if all elements are finite, else 0", .inputs = "data",
     .schema = &all_finite_schema, .flags = MX_OP_NO_GRADIENT,
     .infer_shape = infer_one, .infer_type = infer_float, .reference = ref_all_finite,
     .samples = (const mx_sample[]){{"2,3", "", 0, 0, NULL}, {0}}},
    {.name = "multi_all_finite", .doc = "1 if all elements of all arrays are finite, else 0", .inputs = "*data",
     .schema = &multi_all_finite_schema,
     .flags = MX_OP_LIST | MX_OP_NO_GRADIENT, .count_in = count_arrays, .infer_shape = infer_one,
     .infer_type = infer_float,
     .reference = ref_all_finite, .samples = (const mx_sample[]){{"2,3;4", "num_arrays=2", 0, 0, NULL}, {0}}},
    {.name = "_np_cumsum", .aliases = "cumsum", .c_name = "cumsum", .doc = "running sum", .inputs = "a",
     .schema = &cumsum_schema,
     .infer_shape = infer_cumsum, .infer_type = infer_cumsum_type, .gradient = grad_cumsum, .reference = ref_cumsum,
     .samples = (const mx_sample[]){{"2,3", "", 0, 0, NULL}, {"2,3,4", "axis=1", 0, 0, NULL},
                                    {"2,5", "axis=-1", 0, 0, NULL},
                                    {"4", "axis=0, dtype=float64", 0, 0, NULL}, {0}}},
    {0},
};
