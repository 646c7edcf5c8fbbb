/* Running sums.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/error.h"
#include "op/op.h"

#define CUMSUM_ATTRS(X) \
    X(INT, axis, "None", "", "axis to sum along; None: the flattened array") \
    X(DTYPE, dtype, "None", "", "element type of the result; None: that of a")
MX_ATTRS(cumsum, CUMSUM_ATTRS)

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
    mx_array *reversed = mx_g_text(MX_OP("reverse"), axis, 1, &grad->ograd[0]);
    reversed = mx_g_call(MX_OP("_np_cumsum"), &again, 1, &reversed);
    reversed = mx_g_text(MX_OP("reverse"), axis, 1, &reversed);
    return mx_give(grad, 0, reversed ? mx_g_reshape(reversed, &grad->in_shape[0]) : NULL);
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

mx_op mx_family_cumsum[] = {
    {.name = "_np_cumsum", .methods = "cumsum", .precision = MX_PRECISION_FLOAT32, .aliases = "cumsum",
     .c_name = "cumsum", .doc = "cumulative sum; element i is the sum of all up to it along the axis", .inputs = "a",
     .schema = &cumsum_schema,
     .infer_shape = infer_cumsum, .infer_type = infer_cumsum_type, .gradient = grad_cumsum, .reference = ref_cumsum,
     .samples = (const mx_sample[]){{"2,3", "", 0, 0, NULL}, {"2,3,4", "axis=1", 0, 0, NULL},
                                    {"2,5", "axis=-1", 0, 0, NULL},
                                    {"4", "axis=0, dtype=float64", 0, 0, NULL}, {0}}},
    {0},
};
