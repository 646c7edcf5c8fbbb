/* NumPy's functions that need singular values, and the QR factorisation.  SPDX-License-Identifier: Apache-2.0 */
#include "op/def/np/svd.h"

#include "base/error.h"

/* The operator wants no more rows than columns: else the transposed matrix is factored. */
mx_code mx_np_svd_of(const mx_expand *call, mx_array *x, mx_np_factors *factors)
{
    if (!x)
        return mx_error_code();
    const int64_t rows = x->shape[x->ndim - 2], columns = x->shape[x->ndim - 1];
    if (rows < 0 || columns < 0)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the sizes of the last two axes must be known");
    const bool high = rows > columns;
    mx_array *out[3] = {NULL}, *flat = high ? turned(x) : x;
    if (!flat || mx_invoke(MX_OP("_npi_svd"), NULL, 1, &flat, 3, out))
        return mx_error_code();
    *factors = high ? (mx_np_factors){turned(out[2]), out[1], turned(out[0])} : (mx_np_factors){out[0], out[1], out[2]};
    return factors->u && factors->v ? MX_OK : mx_error_code();
}

#define SVD_ATTRS(X) \
    X(BOOL, full_matrices, "False", "", "square u and v: only of square matrices") \
    X(BOOL, compute_uv, "True", "", "u and v as well; else only the singular values")
MX_ATTRS(np_svd, SVD_ATTRS)
static int count_svd(const void *attrs) { return ((const mx_np_svd_attrs *)attrs)->compute_uv ? 3 : 1; }

static mx_code svd(const mx_expand *call)
{
    const mx_np_svd_attrs *attrs = call->attrs;
    mx_array *x = matrices(call, 0);
    mx_np_factors f;
    if (mx_np_svd_of(call, x, &f))
        return mx_error_code();
    if (attrs->full_matrices && attrs->compute_uv && x->shape[x->ndim - 2] != x->shape[x->ndim - 1])
        return mx_op_fail(call->op, MX_ERR_UNSUPPORTED, "full_matrices is supported for square matrices only");
    call->out[0] = attrs->compute_uv ? f.u : f.values;
    if (attrs->compute_uv)
        call->out[1] = f.values, call->out[2] = f.v;
    return MX_OK;
}

static double precision_of(mx_dtype type)
{
    return type == MX_FLOAT64 ? 2.220446049250313e-16 : type == MX_FLOAT16 ? 0.0009765625 : 1.1920929e-07;
}

static mx_array *limited(mx_array *values, mx_array *share) /* the largest value times a share per matrix */
{
    mx_array *most = values ? mx_expand1("np.max", values, "axis=-1, keepdims=True") : NULL;
    return most && share ? mx_g2("np.multiply", most, share) : NULL;
}

#define PINV_ATTRS(X) X(BOOL, hermitian, "False", "", "ignored: the result is the same")
MX_ATTRS(np_pinv, PINV_ATTRS)
/* v' diag(1 / values) u', without values that are 0 beside the largest */
static mx_code pinv(const mx_expand *call)
{
    mx_np_factors f;
    mx_array *x = matrices(call, 0), *share = call->in[1] == MX_NONE ? mx_number_float(1e-15) : call->in[1];
    if (x && x->size == 0)
        return mx_expand_give(call, turned(x));
    if (mx_np_svd_of(call, x, &f))
        return mx_error_code();
    if (!mx_is_number(share) && share->ndim > 0)
        share = mx_expand1("np.expand_dims", share, "axis=-1");
    mx_array *large =
        mx_expand_cast(mx_g2("np.greater", f.values, limited(f.values, share)), (mx_dtype)f.values->dtype);
    mx_array *safe = mx_g_add(f.values, mx_g_rsub(1, large)); /* no division by 0, and no gradient of one */
    mx_array *inverse = mx_g_div(large, safe);
    mx_array *columns = inverse ? mx_expand1("np.expand_dims", inverse, "axis=-1") : NULL;
    return mx_expand_give(call, columns ? mx_g2("np.matmul", turned(f.v), mx_g_mul(columns, turned(f.u))) : NULL);
}

#define RANK_ATTRS(X) X(BOOL, hermitian, "False", "", "ignored: the result is the same")
MX_ATTRS(np_matrix_rank, RANK_ATTRS)
static mx_code matrix_rank(const mx_expand *call)
{
    mx_np_factors f;
    mx_array *x = mx_expand_by_rules(call, call->in[0]), *limit = call->in[1];
    if (x && x->ndim >= 0 && x->ndim < 2)
        return mx_expand_give(call, mx_expand_cast(mx_g1("np.any", x), MX_INT64));
    if (mx_np_svd_of(call, matrices(call, 0), &f))
        return mx_error_code();
    const int64_t rows = x->shape[x->ndim - 2], columns = x->shape[x->ndim - 1];
    if (limit == MX_NONE)
        limit = limited(f.values,
                        mx_number_float((double)(rows > columns ? rows : columns) * precision_of((mx_dtype)x->dtype)));
    else if (!mx_is_number(limit) && limit->ndim > 0)
        limit = mx_expand1("np.expand_dims", limit, "axis=-1");
    mx_array *large = limit ? mx_g2("np.greater", f.values, limit) : NULL;
    return mx_expand_give(call, large ? mx_expand1("np.sum", large, "axis=-1") : NULL);
}

/* ---- qr ---------------------------------------------------------------------------------------------------------- */

#define QR_ATTRS(X) X(ENUM, mode, "reduced", "reduced|complete|r", "reduced: as many columns of q as the smaller size; complete: a square q; r: only r")
MX_ATTRS(np_qr, QR_ATTRS)
enum { REDUCED, COMPLETE, ONLY_R };
static int count_qr(const void *attrs) { return ((const mx_np_qr_attrs *)attrs)->mode == ONLY_R ? 1 : 2; }

static mx_array *columns_of(mx_array *x, int64_t begin, int64_t end)
{
    struct { int64_t axis, begin, end; } range = {x ? x->ndim - 1 : 0, begin, end};
    return mx_g_call(MX_OP("slice_axis"), &range, 1, &x);
}
static mx_array *beside(mx_array *left, mx_array *right)
{
    struct { int64_t num_args, dim; } attrs = {2, left ? left->ndim - 1 : 0};
    return mx_g_call(MX_OP("Concat"), &attrs, 2, (mx_array *const[]){left, right});
}
/* A matrix with at least as many rows as columns, by the factorisation of its transpose. */
static mx_code factor_high(mx_array *x, mx_array **q, mx_array **r)
{
    mx_array *flat = turned(x), *out[2] = {NULL};
    if (!flat || mx_invoke(MX_OP("_linalg_gelqf"), NULL, 1, &flat, 2, out))
        return mx_error_code();
    *q = turned(out[0]), *r = turned(out[1]);
    return *q && *r ? MX_OK : mx_error_code();
}
static mx_code qr(const mx_expand *call)
{
    const int mode = ((const mx_np_qr_attrs *)call->attrs)->mode;
    mx_array *x = matrices(call, 0), *q = NULL, *r = NULL, *square = x;
    if (!x)
        return mx_error_code();
    const int64_t rows = x->shape[x->ndim - 2], columns = x->shape[x->ndim - 1];
    if (rows < 0 || columns < 0)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the sizes of the last two axes must be known");
    if (rows < columns) /* the first columns decide */
        square = columns_of(x, 0, rows);
    else if (mode == COMPLETE && rows > columns) { /* columns of zeros leave the rest of q as it is */
        mx_shape_t shape = mx_array_shape(x);
        shape.dim[shape.ndim - 1] = rows - columns;
        mx_array *first = columns_of(x, 0, 1), *none = mx_g1("zeros_like", first);
        square = none ? beside(x, mx_g_broadcast_to(none, &shape)) : NULL;
    }
    if (factor_high(square, &q, &r))
        return mx_error_code();
    if (rows < columns)
        r = beside(r, mx_g2("np.matmul", turned(q), columns_of(x, rows, columns)));
    else if (square != x)
        r = columns_of(r, 0, columns);
    call->out[0] = mode == ONLY_R ? r : q;
    if (mode != ONLY_R)
        call->out[1] = r;
    return r ? MX_OK : mx_error_code();
}

// clang-format off
#define FACTORS(id, function, inputs_, n, schema_, ...) \
    {.name = "np.linalg." #id, .c_name = "np_linalg_" #id, .inputs = inputs_, .flags = MX_OP_EXPANDS, .n_out = n, .schema = schema_, \
     .user = &(mx_expansion){function, {NULL, NULL, NULL}, MX_TO_FLOAT, {NULL, NULL, NULL}}, __VA_ARGS__},
mx_op mx_family_np_svd[] = {
    FACTORS(svd, svd, "a", 3, &np_svd_schema, .count_out = count_svd, .doc = "a = u diag(l) v: orthonormal columns of u, singular values l, descending, and orthonormal rows of v")
    FACTORS(pinv, pinv, "a rcond?", 1, &np_pinv_schema, .doc = "the pseudo-inverse; singular values up to rcond (1e-15) times the largest count as 0")
    FACTORS(matrix_rank, matrix_rank, "A tol?", 1, &np_matrix_rank_schema, .doc = "the number of singular values above tol; None: rounding errors of the largest")
    FACTORS(qr, qr, "a", 2, &np_qr_schema, .count_out = count_qr, .doc = "a = q r with orthonormal columns of q and an upper triangular r")
    {0},
};
