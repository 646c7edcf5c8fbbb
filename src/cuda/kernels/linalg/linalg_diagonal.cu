/* Diagonals and triangles of matrices: elements of any type are moved as items of their size.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/items.h"

/* The position of element (i, j) of an n x n matrix among the packed ones; -1: it is not packed. */
struct part {
    int64_t n, count, away; /* count: packed elements of a matrix; away: offset of the diagonal */
    bool lower, triangle;
    __device__ int64_t packed(int64_t i, int64_t j) const
    {
        const int64_t line = (lower ? i : j) - away, within = lower ? j : i;
        if (line < 0 || within > line || (!triangle && within != line))
            return -1;
        return triangle ? line * (line + 1) / 2 + within : line;
    }
};

template <class T> static mx_code move(const mx_kernel_call *call, const part &p, bool make)
{
    const mx_array *matrix = make ? call->out[0] : call->in[0];
    const T *from = (const T *)mx_data(call->in[0]);
    T *to = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, matrix->size, [=] __device__(int64_t e) {
        const int64_t which = e / (p.n * p.n), k = p.packed(e / p.n % p.n, e % p.n);
        if (make)
            to[e] = k < 0 ? 0 : from[which * p.count + k];
        else if (k >= 0)
            to[which * p.count + k] = from[e];
    });
}

static mx_code run_part(const mx_kernel_call *call, int64_t offset, bool lower, bool triangle, bool make)
{
    const mx_array *matrix = make ? call->out[0] : call->in[0], *packed = make ? call->in[0] : call->out[0];
    const part p = {matrix->shape[matrix->ndim - 1], packed->shape[packed->ndim - 1], offset < 0 ? -offset : offset,
                    offset < 0 || (offset == 0 && lower), triangle};
    return mx_cuda_by_item(matrix, [&](auto item) { return move<decltype(item)>(call, p, make); });
}

static mx_code run_extractdiag(const mx_kernel_call *call)
{
    return run_part(call, ((const mx_linalg_diagonal_attrs *)call->attrs)->offset, true, false, false);
}
static mx_code run_makediag(const mx_kernel_call *call)
{
    return run_part(call, ((const mx_linalg_diagonal_attrs *)call->attrs)->offset, true, false, true);
}
static mx_code run_extracttrian(const mx_kernel_call *call)
{
    const mx_linalg_trian_attrs *a = (const mx_linalg_trian_attrs *)call->attrs;
    return run_part(call, a->offset, a->lower, true, false);
}
static mx_code run_maketrian(const mx_kernel_call *call)
{
    const mx_linalg_trian_attrs *a = (const mx_linalg_trian_attrs *)call->attrs;
    return run_part(call, a->offset, a->lower, true, true);
}

/* One triangle, the diagonal times a number. */
template <class T> static mx_code triangle(const mx_kernel_call *call)
{
    const mx_linalg_fold_attrs *a = (const mx_linalg_fold_attrs *)call->attrs;
    const bool lower = a->lower;
    const T diagonal = (T)a->diagonal, *from = (const T *)mx_data(call->in[0]);
    T *to = (T *)mx_data(call->out[0]);
    const int64_t n = call->in[0]->shape[call->in[0]->ndim - 1];
    return mx_cuda_each(call, call->in[0]->size, [=] __device__(int64_t e) {
        const int64_t i = e / n % n, j = e % n;
        to[e] = i == j ? (diagonal == 0 ? 0 : diagonal * from[e]) : (lower ? j < i : j > i) ? from[e] : 0;
    });
}
MX_CUDA_FLOATS(run_triangle, triangle)

MX_CUDA_KERNELS(linalg_diagonal) = {
    {"_linalg_extractdiag", run_extractdiag, NULL},   {"_linalg_makediag", run_makediag, NULL},
    {"_linalg_extracttrian", run_extracttrian, NULL}, {"_linalg_maketrian", run_maketrian, NULL},
    {"_linalg_triangle", run_triangle, NULL},         {NULL, NULL, NULL}};
