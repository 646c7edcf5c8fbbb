/* Diagonals and triangles of matrices as vectors, and back.
 *
 * Extracting and making are each other's transposes, so each is the other's gradient.  Triangles are packed by
 * rows when lower, by columns when upper:
 *
 *     a . .        a b d
 *     b c .   and  . c e     are both    a b c d e f
 *     d e f        . . f
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/error.h"
#include "op/formula/linalg.h"

#define DIAGONAL_ATTRS(X) \
    X(INT, offset, "0", "-1000000..1000000", "0: the main diagonal; positive above, negative below")
MX_ATTRS(linalg_diagonal, DIAGONAL_ATTRS)

#define TRIANGLE_ATTRS(X) \
    X(INT, offset, "0", "-1000000..1000000", "diagonal where the triangle begins: positive above the main diagonal, negative below") \
    X(BOOL, lower, "True", "", "the lower triangle; only used if offset is 0")
MX_ATTRS(linalg_trian, TRIANGLE_ATTRS)

#define FOLD_ATTRS(X) \
    X(BOOL, lower, "True", "", "keep the lower triangle, else the upper") \
    X(FLOAT, diagonal, "1.0", "", "factor of the diagonal")
MX_ATTRS(linalg_fold, FOLD_ATTRS)

static int64_t distance(int64_t offset) { return offset < 0 ? -offset : offset; }

/* ---- diagonals: (..., n, n) <-> (..., n - |offset|) ---------------------------------------------------------------- */

static mx_code too_far(const mx_infer *infer, int64_t offset, int64_t n)
{
    return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "offset is %lld, wanted a diagonal inside the matrix of size %lld",
                      (long long)offset, (long long)n);
}

static mx_code infer_extract(mx_infer *infer)
{
    const mx_linalg_diagonal_attrs *attrs = infer->attrs;
    mx_shape_t out = infer->in[0];
    if (!mx_shape_known(&out))
        return MX_OK;
    if (mx_linalg_check(infer, 0, 2, true))
        return mx_error_code();
    const int64_t n = out.dim[--out.ndim], left = n - distance(attrs->offset);
    if (left < 0 || (left == 0 && n))
        return too_far(infer, attrs->offset, n);
    out.dim[out.ndim - 1] = left;
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_make(mx_infer *infer)
{
    const mx_linalg_diagonal_attrs *attrs = infer->attrs;
    mx_shape_t out = infer->in[0];
    if (!mx_shape_known(&out))
        return MX_OK;
    if (out.ndim < 1 || out.ndim >= MX_MAX_NDIM)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "A has %d axes, wanted 1 to %d", out.ndim, MX_MAX_NDIM - 1);
    out.dim[out.ndim - 1] += distance(attrs->offset);
    out.dim[out.ndim] = out.dim[out.ndim - 1];
    out.ndim++;
    return mx_infer_out(infer, 0, &out);
}

static mx_code grad_extract(mx_grad *grad)
{
    return mx_give(grad, 0, mx_g_call(MX_OP("_linalg_makediag"), grad->attrs, 1, &grad->ograd[0]));
}
static mx_code grad_make(mx_grad *grad)
{
    return mx_give(grad, 0, mx_g_call(MX_OP("_linalg_extractdiag"), grad->attrs, 1, &grad->ograd[0]));
}

static void ref_extract(const mx_reference_call *call)
{
    const int64_t offset = ((const mx_linalg_diagonal_attrs *)call->attrs)->offset;
    const mx_matrices m = mx_matrices_of(&call->in_shape[0]);
    const int64_t n = m.rows, count = n - distance(offset);
    for (int64_t e = 0; e < m.batch * count; e++) {
        const int64_t row = e % count - (offset < 0 ? offset : 0), column = e % count + (offset > 0 ? offset : 0);
        call->out[0][e] = call->in[0][e / count * n * n + row * n + column];
    }
}

static void ref_make(const mx_reference_call *call)
{
    const int64_t offset = ((const mx_linalg_diagonal_attrs *)call->attrs)->offset;
    const mx_matrices m = mx_matrices_of(&call->out_shape[0]);
    const int64_t n = m.rows, count = n - distance(offset);
    for (int64_t e = 0; e < m.batch * n * n; e++)
        call->out[0][e] = 0;
    for (int64_t e = 0; e < m.batch * count; e++) {
        const int64_t row = e % count - (offset < 0 ? offset : 0), column = e % count + (offset > 0 ? offset : 0);
        call->out[0][e / count * n * n + row * n + column] = call->in[0][e];
    }
}

/* ---- triangles: (..., n, n) <-> (..., k (k + 1) / 2), k = n - |offset| ----------------------------------------------- */

static mx_code infer_extract_triangle(mx_infer *infer)
{
    const mx_linalg_trian_attrs *attrs = infer->attrs;
    mx_shape_t out = infer->in[0];
    if (!mx_shape_known(&out))
        return MX_OK;
    if (mx_linalg_check(infer, 0, 2, true))
        return mx_error_code();
    const int64_t n = out.dim[--out.ndim], k = n - distance(attrs->offset);
    if (k < 0 || (k == 0 && n))
        return too_far(infer, attrs->offset, n);
    out.dim[out.ndim - 1] = k * (k + 1) / 2;
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_make_triangle(mx_infer *infer)
{
    const mx_linalg_trian_attrs *attrs = infer->attrs;
    mx_shape_t out = infer->in[0];
    if (!mx_shape_known(&out))
        return MX_OK;
    if (out.ndim < 1 || out.ndim >= MX_MAX_NDIM)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "A has %d axes, wanted 1 to %d", out.ndim, MX_MAX_NDIM - 1);
    const int64_t packed = out.dim[out.ndim - 1];
    int64_t k = (int64_t)(sqrt(2.0 * (double)packed + 0.25) - 0.5 + 0.25);
    if (packed > INT32_MAX || k * (k + 1) / 2 != packed)
        return mx_op_fail(infer->op, MX_ERR_SHAPE,
                          "the last axis of A has %lld elements, wanted k (k + 1) / 2 for some k", (long long)packed);
    k += distance(attrs->offset);
    out.dim[out.ndim - 1] = out.dim[out.ndim] = k;
    out.ndim++;
    return mx_infer_out(infer, 0, &out);
}

static mx_code grad_extract_triangle(mx_grad *grad)
{
    return mx_give(grad, 0, mx_g_call(MX_OP("_linalg_maketrian"), grad->attrs, 1, &grad->ograd[0]));
}
static mx_code grad_make_triangle(mx_grad *grad)
{
    return mx_give(grad, 0, mx_g_call(MX_OP("_linalg_extracttrian"), grad->attrs, 1, &grad->ograd[0]));
}

/* Position of packed element i in the matrix. */
static int64_t place(const mx_linalg_trian_attrs *attrs, int64_t n, int64_t i)
{
    const bool lower = attrs->offset < 0 || (attrs->offset == 0 && attrs->lower);
    int64_t line = 0;
    while ((line + 1) * (line + 2) / 2 <= i)
        line++;
    const int64_t within = i - line * (line + 1) / 2, far = line + distance(attrs->offset);
    return lower ? far * n + within : within * n + far;
}

static void ref_extract_triangle(const mx_reference_call *call)
{
    const mx_matrices m = mx_matrices_of(&call->in_shape[0]);
    const int64_t k = m.rows - distance(((const mx_linalg_trian_attrs *)call->attrs)->offset), packed = k * (k + 1) / 2;
    for (int64_t e = 0; e < m.batch * packed; e++)
        call->out[0][e] = call->in[0][e / packed * m.rows * m.rows + place(call->attrs, m.rows, e % packed)];
}

static void ref_make_triangle(const mx_reference_call *call)
{
    const mx_matrices m = mx_matrices_of(&call->out_shape[0]);
    const int64_t k = m.rows - distance(((const mx_linalg_trian_attrs *)call->attrs)->offset), packed = k * (k + 1) / 2;
    for (int64_t e = 0; e < m.batch * m.rows * m.rows; e++)
        call->out[0][e] = 0;
    for (int64_t e = 0; e < m.batch * packed; e++)
        call->out[0][e / packed * m.rows * m.rows + place(call->attrs, m.rows, e % packed)] = call->in[0][e];
}

/* ---- one triangle of a matrix, in place: masks the gradients of triangular operators ------------------------------ */

mx_array *mx_linalg_triangle(mx_array *a, bool lower, double diagonal)
{
    mx_linalg_fold_attrs attrs = {lower, diagonal};
    return mx_g_call(MX_OP("_linalg_triangle"), &attrs, 1, &a);
}

static mx_code grad_triangle(mx_grad *grad) /* linear and its own transpose */
{
    return mx_give(grad, 0, mx_g_call(MX_OP("_linalg_triangle"), grad->attrs, 1, &grad->ograd[0]));
}

static void ref_triangle(const mx_reference_call *call)
{
    const mx_linalg_fold_attrs *attrs = call->attrs;
    const mx_matrices m = mx_matrices_of(&call->in_shape[0]);
    for (int64_t e = 0; e < m.batch * m.rows * m.columns; e++) {
        const int64_t row = e / m.columns % m.rows, column = e % m.columns;
        const bool kept = attrs->lower ? row > column : row < column;
        call->out[0][e] = row == column ? attrs->diagonal * call->in[0][e] : kept ? call->in[0][e] : 0;
    }
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
mx_op mx_family_linalg_diagonal[] = {
    {.name = "_linalg_extractdiag", .aliases = "linalg_extractdiag", .c_name = "linalg_extractdiag", .inputs = "A", .schema = &linalg_diagonal_schema,
     .doc = "a diagonal of each matrix", .infer_shape = infer_extract, .gradient = grad_extract, .reference = ref_extract,
     .samples = SAMPLES({"3,3", "", 0, 0, NULL}, {"2,3,3", "offset=1", 0, 0, NULL}, {"4,4", "offset=-2", 0, 0, NULL})},
    {.name = "_linalg_makediag", .aliases = "linalg_makediag", .c_name = "linalg_makediag", .inputs = "A", .schema = &linalg_diagonal_schema,
     .doc = "matrices that are zero except for one diagonal", .infer_shape = infer_make, .gradient = grad_make, .reference = ref_make,
     .samples = SAMPLES({"3", "", 0, 0, NULL}, {"2,3", "offset=1", 0, 0, NULL}, {"2,1,2", "offset=-2", 0, 0, NULL})},
    {.name = "_linalg_extracttrian", .aliases = "linalg_extracttrian", .c_name = "linalg_extracttrian", .inputs = "A", .schema = &linalg_trian_schema,
     .doc = "a triangle of each matrix, packed into a vector", .infer_shape = infer_extract_triangle, .gradient = grad_extract_triangle, .reference = ref_extract_triangle,
     .samples = SAMPLES({"3,3", "", 0, 0, NULL}, {"2,3,3", "lower=False", 0, 0, NULL}, {"4,4", "offset=-1", 0, 0, NULL}, {"4,4", "offset=2", 0, 0, NULL})},
    {.name = "_linalg_maketrian", .aliases = "linalg_maketrian", .c_name = "linalg_maketrian", .inputs = "A", .schema = &linalg_trian_schema,
     .doc = "matrices that are zero except for a packed triangle", .infer_shape = infer_make_triangle, .gradient = grad_make_triangle, .reference = ref_make_triangle,
     .samples = SAMPLES({"6", "", 0, 0, NULL}, {"2,6", "lower=False", 0, 0, NULL}, {"3", "offset=-1", 0, 0, NULL}, {"2,1", "offset=2", 0, 0, NULL})},
    {.name = "_linalg_triangle", .inputs = "A", .schema = &linalg_fold_schema, .flags = MX_OP_HIDDEN, .doc = "one triangle of each matrix, zeros in the other",
     .infer_shape = mx_linalg_infer_square, .gradient = grad_triangle, .reference = ref_triangle,
     .samples = SAMPLES({"3,3", "", 0, 0, "floatonly"}, {"2,3,3", "lower=False, diagonal=0.5", 0, 0, "floatonly"})},
    {0},
};
