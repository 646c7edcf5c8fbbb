/* Whether arrays hold infinities or NaN.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "op/op.h"

#define ALL_FINITE_ATTRS(X) \
    X(BOOL, init_output, "True", "", "ignore the old value of the output; else 0 stays 0, and out must be given")
MX_ATTRS(all_finite, ALL_FINITE_ATTRS)

#define MULTI_ALL_FINITE_ATTRS(X) \
    X(INT, num_arrays, "1", "1..", "number of arrays") \
    X(BOOL, init_output, "True", "", "ignore the old value of the output; else 0 stays 0, and out must be given")
MX_ATTRS(multi_all_finite, MULTI_ALL_FINITE_ATTRS)

static mx_code infer_float(mx_infer *infer) { return mx_infer_out_type(infer, 0, MX_FLOAT32); }
static mx_code infer_one(mx_infer *infer) { return mx_infer_out(infer, 0, &(mx_shape_t){.ndim = 1, .dim = {1}}); }
static int count_arrays(const void *attrs) { return (int)((const mx_multi_all_finite_attrs *)attrs)->num_arrays; }

static void ref_all_finite(const mx_reference_call *call)
{
    call->out[0][0] = 1;
    for (int k = 0; k < call->n_in; k++)
        for (int64_t i = 0; i < mx_shape_size(&call->in_shape[k]); i++)
            if (!isfinite(call->in[k][i]))
                call->out[0][0] = 0;
}

mx_op mx_family_all_finite[] = {
    {.name = "all_finite", .input_named = true, .doc = "1 if all elements are finite, else 0", .inputs = "data",
     .schema = &all_finite_schema, .flags = MX_OP_NO_GRADIENT,
     .infer_shape = infer_one, .infer_type = infer_float, .reference = ref_all_finite,
     .samples = (const mx_sample[]){{"2,3", "", 0, 0, NULL}, {0}}},
    {.name = "multi_all_finite", .doc = "1 if all elements of all arrays are finite, else 0", .inputs = "*data",
     .schema = &multi_all_finite_schema,
     .flags = MX_OP_LIST | MX_OP_NO_GRADIENT, .count_in = count_arrays, .infer_shape = infer_one,
     .infer_type = infer_float,
     .reference = ref_all_finite, .samples = (const mx_sample[]){{"2,3;4", "num_arrays=2", 0, 0, NULL}, {0}}},
    {0},
};
