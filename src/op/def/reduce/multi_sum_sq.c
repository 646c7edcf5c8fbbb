/* Sums of squares of many arrays.  SPDX-License-Identifier: Apache-2.0 */
#include "op/op.h"

#define MULTI_SUM_SQ_ATTRS(X) X(INT, num_arrays, REQUIRED, "1..", "number of arrays")
MX_ATTRS(multi_sum_sq, MULTI_SUM_SQ_ATTRS)

static mx_code infer_float(mx_infer *infer) { return mx_infer_out_type(infer, 0, MX_FLOAT32); }
static mx_code infer_count(mx_infer *infer)
{
    const int64_t wanted = ((const mx_multi_sum_sq_attrs *)infer->attrs)->num_arrays;
    if (wanted != infer->n_in)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "num_arrays is %lld, but got %d arrays", (long long)wanted,
                          infer->n_in);
    return mx_infer_out(infer, 0, &(mx_shape_t){.ndim = 1, .dim = {infer->n_in}});
}
static int count_arrays(const void *attrs) { return (int)((const mx_multi_sum_sq_attrs *)attrs)->num_arrays; }

static void ref_multi_sum_sq(const mx_reference_call *call)
{
    for (int k = 0; k < call->n_in; k++) {
        call->out[0][k] = 0;
        for (int64_t i = 0; i < mx_shape_size(&call->in_shape[k]); i++)
            call->out[0][k] += call->in[k][i] * call->in[k][i];
    }
}

mx_op mx_family_multi_sum_sq[] = {
    {.name = "multi_sum_sq", .doc = "the sum of squares of each array", .inputs = "*data",
     .schema = &multi_sum_sq_schema,
     .flags = MX_OP_LIST | MX_OP_NO_GRADIENT, .count_in = count_arrays, .infer_shape = infer_count,
     .infer_type = infer_float, .reference = ref_multi_sum_sq,
     .samples = (const mx_sample[]){{"2,3;4", "num_arrays=2", 0, 0, NULL}, {"70", "num_arrays=1", 0, 0, NULL}, {0}}},
    {0},
};
