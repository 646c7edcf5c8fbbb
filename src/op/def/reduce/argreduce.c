/* The index of the largest or smallest element.  The first of equal elements wins; NaN wins over numbers.
 *
 * Indices have the type of the data, as in MXNet.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/emit.h"
#include "op/formula/reduce.h"

#define ARGREDUCE_ATTRS(X) \
    X(INT, axis, "None", "", "axis to search; None: the flattened array") \
    X(BOOL, keepdims, "False", "", "keep the searched axis with size 1")
MX_ATTRS(argreduce, ARGREDUCE_ATTRS)

static mx_code infer_along(mx_infer *infer, int64_t axis, bool keepdims)
{
    if (infer->in[0].ndim < 0)
        return MX_OK;
    const mx_dims dims = axis == MX_NONE_INT ? MX_NO_DIMS : MX_DIMS(axis);
    const int mask = mx_fold_axes(infer->op, &dims, false, infer->in[0].ndim);
    if (mask < 0)
        return mx_error_code();
    const mx_shape_t out = mx_fold_shape(&infer->in[0], mask, keepdims);
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_shape(mx_infer *infer)
{
    const mx_argreduce_attrs *attrs = infer->attrs;
    return infer_along(infer, attrs->axis, attrs->keepdims);
}

static mx_code infer_channel(mx_infer *infer) { return infer_along(infer, 1, false); }

/* ---- references ------------------------------------------------------------------------------------------------ */

static void reference(const mx_reference_call *call, int64_t axis, double sign)
{
    const mx_shape_t *in = &call->in_shape[0];
    int64_t outer = 1, n = mx_shape_size(in), inner = 1;
    if (axis != MX_NONE_INT) {
        const int a = mx_axis(axis, in->ndim);
        n = in->dim[a];
        for (int i = 0; i < in->ndim; i++)
            *(i < a ? &outer : &inner) *= i == a ? 1 : in->dim[i];
    }
    for (int64_t i = 0; i < outer * inner; i++) {
        const double *x = call->in[0] + i / inner * n * inner + i % inner;
        int64_t best = 0;
        for (int64_t k = 1; k < n; k++)
            if (sign * x[k * inner] > sign * x[best * inner])
                best = k;
        call->out[0][i] = (double)best;
    }
}

static void ref_argmax(const mx_reference_call *call)
{
    reference(call, ((const mx_argreduce_attrs *)call->attrs)->axis, 1);
}
static void ref_argmin(const mx_reference_call *call)
{
    reference(call, ((const mx_argreduce_attrs *)call->attrs)->axis, -1);
}
static void ref_channel(const mx_reference_call *call) { reference(call, 1, 1); }

#define SAMPLES \
    (const mx_sample[]){{"2,3", "", 0, 0, "distinct"}, {"2,3", "axis=1", 0, 0, "distinct"}, \
                        {"4,3", "axis=0, keepdims=True", 0, 0, "distinct"}, {"2,5,3", "axis=-2", 0, 0, "distinct"}, \
                        {"3,100", "axis=-1", 0, 0, "distinct"}, {"7", "keepdims=True", 0, 0, "distinct"}, {0}}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_arg(const mx_emit_call *n)
{
    const mx_argreduce_attrs *attrs = n->attrs;
    const mx_split s = attrs->axis == MX_NONE_INT ? (mx_split){1, mx_shape_size(n->x), 1}
                                                  : mx_split_at(n->x, mx_axis(attrs->axis, n->x->ndim));
    mx_emit_open(n, "arg", 1);
    mx_emit_split(n, s);
    mx_emit_print(n, ", %d", *(const int *)n->op->user == MX_FOLD_MIN ? -1 : 1);
    return mx_emit_close(n);
}

mx_op mx_family_argreduce[] = {
    {.name = "argmax", MX_EMIT(emit_arg), .methods = "argmax", .doc = "index of the largest element along an axis",
     .inputs = "data",
     .schema = &argreduce_schema,
     .flags = MX_OP_ZERO_GRADIENT, .infer_shape = infer_shape, .samples = SAMPLES, .reference = ref_argmax,
     .user = &(const int){MX_FOLD_MAX}},
    {.name = "argmin", MX_EMIT(emit_arg), .methods = "argmin", .doc = "index of the smallest element along an axis",
     .inputs = "data",
     .schema = &argreduce_schema,
     .flags = MX_OP_ZERO_GRADIENT, .infer_shape = infer_shape, .samples = SAMPLES, .reference = ref_argmin,
     .user = &(const int){MX_FOLD_MIN}},
    {.name = "argmax_channel", .methods = "argmax_channel", .doc = "index of the largest element along axis 1",
     .inputs = "data",
     .flags = MX_OP_ZERO_GRADIENT,
     .infer_shape = infer_channel, .reference = ref_channel, .user = &(const int){MX_FOLD_MAX},
     .samples = (const mx_sample[]){{"2,3", "", 0, 0, "distinct"}, {"2,3,2", "", 0, 0, "distinct"}, {0}}},
    {0},
};
