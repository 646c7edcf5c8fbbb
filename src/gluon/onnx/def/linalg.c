/* Matrices on the last two axes: products, triangles, diagonals, determinants.  SPDX-License-Identifier: Apache-2.0
 *
 * Operators that only move elements (diag, maketrian ...) become a table of positions.  The operator itself computes it: it
 * runs on 1, 2, 3 ..., so its result says where each element comes from; 0 stands for an element that it fills with zero.
 * Leading axes that it hands on may be open. */
#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

/* ---- moved elements -------------------------------------------------------------------------------------------- */

/* (sizes of the result after `skip` axes) */
static mx_array *positions(mx_onnx_out *o, int skip)
{
    mx_dims shape = {.n = o->in_shape[0].ndim}, rest = {.n = o->out_shape[0].ndim - skip};
    int64_t size = 1;
    for (int i = 0; i < shape.n; i++) {
        shape.d[i] = i < skip ? 1 : o->in_shape[0].dim[i];
        size *= shape.d[i];
        if (shape.d[i] < 0)
            return mx_onnx_refuse(o, "the size of axis %d is not known; give the shapes of the inputs", i), NULL;
    }
    for (int i = 0; i < rest.n; i++)
        rest.d[i] = o->out_shape[0].dim[i + skip];
    mx_array *x = mx_reshape(mx_arange(.start = 1, .stop = (double)size + 1, .dtype = MX_FLOAT64), .shape = shape);
    mx_array *y[1] = {NULL};
    if (!x || mx_invoke(o->node->op, o->attrs, 1, &x, 1, y))
        return NULL;
    return mx_reshape(mx_cast(y[0], .dtype = MX_INT64), .shape = rest);
}

static mx_code write_moved(mx_onnx_out *o, int skip)
{
    int64_t flat[MX_MAX_NDIM + 1] = {0};
    mx_array *from = positions(o, skip);
    if (!from)
        return mx_error_code();
    mx_array *filled = mx_cast(from, .dtype = MX_BOOL), *index = mx_maximum_scalar(mx_minus_scalar(from), .scalar = 0);
    flat[skip] = -1;
    const bool full = from->size == 0 || mx_item(mx_min(from)) > 0;
    const char *x = mx_onnx_put_shaped(o, NULL, o->in[0], skip + 1, flat);
    const char *y = mx_onnx_put_choice(o, full ? o->out[0] : NULL, x, mx_onnx_put_array(o, index), skip);
    if (!full)
        mx_onnx_put(o, o->out[0], "Where", mx_onnx_put_array(o, filled), y, mx_onnx_put_number(o, 0, o->in_type[0]));
    return mx_onnx_done(o);
}

static mx_code write_diag(mx_onnx_out *o) { return mx_onnx_out_rank(o, 0) < 0 ? mx_error_code() : write_moved(o, 0); }

static mx_code write_of_matrices(mx_onnx_out *o)
{
    const int rank = mx_onnx_out_rank(o, 0);
    return rank < 0 ? mx_error_code() : write_moved(o, rank - 2);
}

static mx_code write_of_vectors(mx_onnx_out *o)
{
    const int rank = mx_onnx_out_rank(o, 0);
    return rank < 0 ? mx_error_code() : write_moved(o, rank - 1);
}

/* ---- products -------------------------------------------------------------------------------------------------- */

/* Rows on another axis than the last but one are swapped there, and back. */
static const char *swapped(mx_onnx_out *o, const char *out, const char *x, int rank, int axis)
{
    int64_t order[MX_MAX_NDIM];
    for (int i = 0; i < rank; i++)
        order[i] = i == axis ? rank - 2 : i == rank - 2 ? axis : i;
    return axis == rank - 2 && !out ? x : mx_onnx_put_ordered(o, out, x, rank, order);
}

/* a b, perhaps transposed, times alpha; c NULL: not added */
static mx_code write_product(mx_onnx_out *o, bool turn_a, bool turn_b, double alpha, double beta, int64_t rows)
{
    const int rank = mx_onnx_out_rank(o, 0), axis = rank < 0 ? -1 : mx_axis(rows, rank);
    if (axis < 0)
        return rank < 0 ? mx_error_code() : mx_onnx_refuse(o, "axis=%lld cannot be written", (long long)rows);
    const char *x[3] = {NULL};
    for (int i = 0; i < o->n_in && i < 3; i++)
        x[i] = swapped(o, NULL, o->in[i], rank, axis);
    x[0] = turn_a ? mx_onnx_put_transposed(o, x[0], rank) : x[0];
    x[1] = turn_b ? mx_onnx_put_transposed(o, x[1], rank) : x[1];
    const bool moved = axis != rank - 2, sum = o->n_in > 2, scaled = alpha != 1;
    const char *y = mx_onnx_put(o, scaled || moved || sum ? NULL : o->out[0], "MatMul", x[0], x[1]);
    y = scaled ? mx_onnx_put_with(o, moved || sum ? NULL : o->out[0], "Mul", y, alpha) : y;
    if (sum)
        y = mx_onnx_put(o, moved ? NULL : o->out[0], "Add", y, mx_onnx_put_with(o, NULL, "Mul", x[2], beta));
    if (moved)
        swapped(o, o->out[0], y, rank, axis);
    return mx_onnx_done(o);
}

static mx_code write_gemm(mx_onnx_out *o)
{
    const mx_linalg_gemm_attrs *a = o->attrs;
    return write_product(o, a->transpose_a, a->transpose_b, a->alpha, a->beta, a->axis);
}

static mx_code write_gemm2(mx_onnx_out *o)
{
    const mx_linalg_gemm2_attrs *a = o->attrs;
    return write_product(o, a->transpose_a, a->transpose_b, a->alpha, 0, a->axis);
}

/* A A' or A' A */
static mx_code write_syrk(mx_onnx_out *o)
{
    const mx_linalg_syrk_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0);
    if (rank < 0)
        return mx_error_code();
    const char *turned = mx_onnx_put_transposed(o, o->in[0], rank);
    const char *y = mx_onnx_put(o, NULL, "MatMul", a->transpose ? turned : o->in[0], a->transpose ? o->in[0] : turned);
    mx_onnx_put_with(o, o->out[0], "Mul", y, a->alpha);
    return mx_onnx_done(o);
}

/* The other triangle of A is not read. */
static mx_code write_trmm(mx_onnx_out *o)
{
    const mx_linalg_triangular_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0);
    if (rank < 0)
        return mx_error_code();
    const char *x = mx_onnx_put(o, NULL, "Trilu", o->in[0]);
    mx_onnx_set_int(o, "upper", !a->lower);
    x = a->transpose ? mx_onnx_put_transposed(o, x, rank) : x;
    const char *y = mx_onnx_put(o, NULL, "MatMul", a->rightside ? o->in[1] : x, a->rightside ? x : o->in[1]);
    mx_onnx_put_with(o, o->out[0], "Mul", y, a->alpha);
    return mx_onnx_done(o);
}

/* ---- determinants ---------------------------------------------------------------------------------------------- */

/* Ours have one axis where ONNX has none. */
static const char *put_result(mx_onnx_out *o, int i, const char *op, const char *x)
{
    const bool one = o->in_shape[0].ndim == 2;
    const char *y = mx_onnx_put(o, one ? NULL : o->out[i], op, x);
    return one ? mx_onnx_put_shaped(o, o->out[i], y, o->out_shape[i].ndim, (int64_t[]){1}) : y;
}

static mx_code read_det(mx_onnx_in *n)
{
    mx_array *y = mx_linalg_det(n->in[0]);
    n->out[0] = y && n->in[0]->ndim == 2 ? mx_onnx_as_scalar(y) : y;
    return MX_OK;
}

static mx_code write_det(mx_onnx_out *o) { return put_result(o, 0, "Det", o->in[0]), mx_onnx_done(o); }

static mx_code write_slogdet(mx_onnx_out *o)
{
    const char *det = mx_onnx_put(o, NULL, "Det", o->in[0]);
    put_result(o, 0, "Sign", det);
    put_result(o, 1, "Log", mx_onnx_put(o, NULL, "Abs", det));
    return mx_onnx_done(o);
}

/* Logarithms of the diagonal: zeros elsewhere become ones. */
static mx_code write_sumlogdiag(mx_onnx_out *o)
{
    const int rank = mx_onnx_out_rank(o, 0);
    const int64_t size = rank < 2 ? -1 : o->in_shape[0].dim[rank - 1];
    if (size < 1)
        return mx_onnx_refuse(o, "the size of its matrices is not known; give the shapes of the inputs");
    const char *inside = mx_onnx_put_array(o, mx_cast(mx_eye(.N = size), .dtype = MX_BOOL));
    const char *x = mx_onnx_put(o, NULL, "Where", inside, o->in[0], mx_onnx_put_number(o, 1, o->in_type[0]));
    const char *sum =
        mx_onnx_put_reduce(o, NULL, "ReduceSum", mx_onnx_put(o, NULL, "Log", x), MX_ONNX_LIST(-2, -1), false);
    put_result(o, 0, "Identity", sum);
    return mx_onnx_done(o);
}

/* Columns of the products of all rows: (a, n), (b, n) -> (a b, n). */
static mx_code write_khatri_rao(mx_onnx_out *o)
{
    const char *y = o->in[0];
    for (int i = 1; i < o->n_in; i++) {
        const int64_t columns = o->in_shape[i].ndim == 2 ? o->in_shape[i].dim[1] : -1;
        if (columns < 1)
            return mx_onnx_refuse(o, "the number of columns is not known; give the shapes of the inputs");
        const char *wide = mx_onnx_put(o, NULL, "Unsqueeze", y, mx_onnx_put_ints(o, MX_ONNX_LIST(1)));
        y = mx_onnx_put(o, NULL, "Mul", wide, o->in[i]);
        y = mx_onnx_put_shaped(o, NULL, y, MX_ONNX_LIST(-1, columns));
    }
    mx_onnx_put(o, o->out[0], "Identity", y);
    return mx_onnx_done(o);
}

/* Column h[i] collects s[i] times column i: a product with a matrix. */
static mx_code write_count_sketch(mx_onnx_out *o)
{
    const mx_count_sketch_attrs *a = o->attrs;
    const double values[2] = {0, 1};
    const char *h = mx_onnx_put_shaped(o, NULL, mx_onnx_put_cast(o, NULL, o->in[1], MX_INT64), MX_ONNX_LIST(-1));
    const char *where = mx_onnx_put(o, NULL, "OneHot", h, mx_onnx_put_number(o, (double)a->out_dim, MX_INT64),
                                    mx_onnx_put_floats(o, 2, values, MX_FLOAT32));
    const char *s = mx_onnx_put_shaped(o, NULL, o->in[2], MX_ONNX_LIST(-1, 1));
    const char *matrix = mx_onnx_put(o, NULL, "Mul", mx_onnx_put_cast(o, NULL, where, o->in_type[0]), s);
    mx_onnx_put(o, o->out[0], "MatMul", o->in[0], matrix);
    return mx_onnx_done(o);
}

const mx_onnx_row mx_onnx_linalg[] = {
    WRITE(NULL, "diag", write_diag),
    WRITE(NULL, "_linalg_extractdiag", write_of_matrices),
    WRITE(NULL, "_linalg_extracttrian", write_of_matrices),
    WRITE(NULL, "_linalg_makediag", write_of_vectors),
    WRITE(NULL, "_linalg_maketrian", write_of_vectors),
    WRITE(NULL, "_linalg_gemm", write_gemm),
    WRITE(NULL, "_linalg_gemm2", write_gemm2),
    WRITE(NULL, "_linalg_syrk", write_syrk),
    WRITE(NULL, "_linalg_trmm", write_trmm, .since = 14),
    BOTH("Det", "_linalg_det", read_det, write_det),
    WRITE(NULL, "_linalg_slogdet", write_slogdet),
    WRITE(NULL, "_linalg_sumlogdiag", write_sumlogdiag),
    WRITE(NULL, "khatri_rao", write_khatri_rao),
    WRITE(NULL, "_contrib_count_sketch", write_count_sketch),
    {0}};
