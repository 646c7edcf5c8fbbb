/* allclose: whether two arrays are equal up to small differences.  SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/allclose.h"

#include "op/op.h"

#define ALLCLOSE_ATTRS(X) \
    X(FLOAT, rtol, "1e-05", "", "tolerance relative to |b|") \
    X(FLOAT, atol, "1e-08", "", "absolute tolerance") \
    X(BOOL, equal_nan, "True", "", "treat NaN as equal to NaN")
MX_ATTRS(allclose, ALLCLOSE_ATTRS)

static mx_code infer_allclose(mx_infer *infer)
{
    const mx_shape_t one = {.ndim = 0};
    if (mx_infer_in(infer, 0, &infer->in[1]) || mx_infer_in(infer, 1, &infer->in[0]))
        return mx_error_code();
    return mx_infer_out(infer, 0, &one);
}

static mx_code infer_allclose_type(mx_infer *infer)
{
    if (mx_infer_in_type(infer, 0, infer->in_type[1]) || mx_infer_in_type(infer, 1, infer->in_type[0]))
        return mx_error_code();
    return mx_infer_out_type(infer, 0, MX_UINT8);
}

static void ref_allclose(const mx_reference_call *call)
{
    const mx_allclose_attrs *a = call->attrs;
    call->out[0][0] = 1;
    for (int64_t i = 0; i < mx_shape_size(&call->in_shape[0]); i++)
        if (!mx_close(call->in[0][i], call->in[1][i], a->rtol, a->atol, a->equal_nan))
            call->out[0][0] = 0;
}

mx_op mx_family_allclose[] = {
    {.name = "_contrib_allclose", .c_name = "allclose",
     .doc = "1 if all elements of a are close to those of b, else 0", .inputs = "a b",
     .schema = &allclose_schema, .flags = MX_OP_NO_GRADIENT, .infer_shape = infer_allclose,
     .infer_type = infer_allclose_type, .reference = ref_allclose,
     .samples = (const mx_sample[]){{"2,3;2,3", "", 0, 0, NULL}, {"4;4", "atol=100", 0, 0, NULL}, {0}}},
    {0},
};
