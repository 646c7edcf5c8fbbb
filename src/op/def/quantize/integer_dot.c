/* The product of matrices of 8-bit integers, from which their zero points are subtracted.
 *
 *     y(i, j) = sum over p of (lhs(i, p) - lhs_zero(i)) (rhs(p, j) - rhs_zero(j))      as int32, which wraps around
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/op.h"

/* One number, or one per row (column) of which there are n. */
static mx_code expect_zeros(mx_infer *infer, int i, int64_t n)
{
    const mx_shape_t *zero = &infer->in[i];
    char text[MX_SHAPE_TEXT];
    if (!mx_shape_known(zero) || mx_shape_size(zero) == 1 || (zero->ndim == 1 && (n < 0 || zero->dim[0] == n)))
        return MX_OK;
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "%s_zero has shape %s, wanted one number or (%lld,)",
                      i == 2 ? "lhs" : "rhs", mx_shape_text(zero, text), (long long)n);
}

static int64_t rows_of(const mx_shape_t *a)
{
    int64_t rows = 1;
    for (int i = 0; i < a->ndim - 1; i++)
        rows = rows < 0 || a->dim[i] < 0 ? -1 : rows * a->dim[i];
    return rows;
}

static mx_code infer_shape(mx_infer *infer)
{
    const mx_shape_t *a = &infer->in[0], *b = &infer->in[1];
    if (a->ndim < 0 || b->ndim < 0)
        return MX_OK;
    char left[MX_SHAPE_TEXT], right[MX_SHAPE_TEXT];
    const bool known = a->ndim > 0 && b->ndim == 2 && a->dim[a->ndim - 1] >= 0 && b->dim[0] >= 0;
    if (a->ndim < 1 || b->ndim != 2 || (known && a->dim[a->ndim - 1] != b->dim[0]))
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "shapes %s and %s do not fit: wanted (..., k) and (k, n)",
                          mx_shape_text(a, left), mx_shape_text(b, right));
    mx_shape_t out = *a;
    out.dim[out.ndim - 1] = b->dim[1];
    if (expect_zeros(infer, 2, rows_of(a)) || expect_zeros(infer, 3, b->dim[1]))
        return mx_error_code();
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_type(mx_infer *infer)
{
    for (int i = 0; i < 2; i++) {
        const int type = infer->in_type[i], zero = infer->in_type[2 + i];
        if (type == MX_DTYPE_NONE || zero == MX_DTYPE_NONE || (type == MX_UINT8) == (zero == MX_UINT8))
            continue;
        return mx_op_fail(infer->op, MX_ERR_DTYPE, "%s has type %s, but its zero point %s", i ? "rhs" : "lhs",
                          mx_dtype_name(type), mx_dtype_name(zero));
    }
    for (int i = 0; i < 2; i++)
        if (infer->in_type[2 + i] == MX_DTYPE_NONE && infer->in_type[i] != MX_DTYPE_NONE &&
            mx_infer_in_type(infer, 2 + i, infer->in_type[i]))
            return mx_error_code();
    return mx_infer_out_type(infer, 0, MX_INT32);
}

static void reference(const mx_reference_call *call)
{
    const int64_t k = call->in_shape[1].dim[0], n = call->in_shape[1].dim[1];
    const bool one_a = mx_shape_size(&call->in_shape[2]) == 1, one_b = mx_shape_size(&call->in_shape[3]) == 1;
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {
        const int64_t row = i / n, column = i % n;
        const double a_zero = call->in[2][one_a ? 0 : row], b_zero = call->in[3][one_b ? 0 : column];
        call->out[0][i] = 0;
        for (int64_t p = 0; p < k; p++)
            call->out[0][i] += (call->in[0][row * k + p] - a_zero) * (call->in[1][p * n + column] - b_zero);
    }
}

#define INTEGERS "int:0 int:1 int:2 int:3 nograd"
mx_op mx_family_integer_dot[] = {
    {.name = "_integer_dot", .c_name = "integer_dot", .inputs = "lhs rhs lhs_zero rhs_zero",
     .doc = "the product of matrices of 8-bit integers as 32-bit integers; arrays that are not uint8 are taken as int8; zero points, one number or one per row of lhs and column of rhs, are subtracted first",
     .flags = MX_OP_ZERO_GRADIENT, .infer_shape = infer_shape, .infer_type = infer_type, .reference = reference,
     .samples = (const mx_sample[]){{"3,5;5,4;1;1", "", 0, 127, INTEGERS}, {"2,3,9;9,17;6;17", "", -120, 120, INTEGERS},
                                    {"13,67;67,35;1;35", "", 0, 127, INTEGERS}, {"21,130;130,19;21;()", "", -128, 127, INTEGERS},
                                    {"7;7,3;1;3", "", 0, 100, INTEGERS}, {0}}},
    {0},
};
