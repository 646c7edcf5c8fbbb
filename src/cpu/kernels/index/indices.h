/* Indices of any type as integers, and copying or adding rows by them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_INDICES_H
#define MX_CPU_INDICES_H

#include "base/alloc.h"
#include "base/scratch.h"
#include "cpu/kernels/level.h"
#include "ndarray/convert.h"
#include "op/op.h"

enum { MX_INDEX_RAISE, MX_INDEX_WRAP, MX_INDEX_CLIP };

/* The elements of x as int64, (x->size), to be freed with mx_free_indices; NULL with an error. */
static inline int64_t *mx_load_indices(const mx_array *x)
{
    int64_t *index = mx_scratch_take((size_t)x->size * sizeof *index);
    if (index)
        mx_convert(index, MX_INT64, mx_data(x), (mx_dtype)x->dtype, x->size);
    return index;
}
static inline void mx_free_indices(int64_t *index, const mx_array *x)
{
    mx_scratch_give(index, (size_t)x->size * sizeof *index);
}

/* Maps n indices to [0, size); size > 0 unless n is 0.  Only MX_INDEX_RAISE can fail. */
static inline mx_code mx_settle_indices(const mx_op *op, int64_t *index, int64_t n, int64_t size, int mode)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = index[i];
        if ((uint64_t)k < (uint64_t)size)
            continue;
        if (mode == MX_INDEX_CLIP)
            index[i] = k < 0 ? 0 : size - 1;
        else if (mode == MX_INDEX_WRAP)
            index[i] = (k % size + size) % size;
        else if (k < 0 && k >= -size)
            index[i] = k + size;
        else
            return mx_op_fail(op, MX_ERR_INDEX, "index %lld is outside an axis of size %lld", (long long)k,
                              (long long)size);
    }
    return MX_OK;
}

/* An indexed copy: for b < before, i < n:
 *     out[(b * n + i) * bytes ...] = data[(b * size + index[i]) * bytes ...] */
typedef struct mx_rows {
    int64_t before, n, size; /* blocks, indices, rows of a block */
    int64_t after;           /* elements of a row */
    const int64_t *index;
    mx_dtype type;
} mx_rows;

#define mx_cpu_take_rows MX_LEVEL_NAME(mx_cpu_take_rows)
#define mx_cpu_add_rows MX_LEVEL_NAME(mx_cpu_add_rows)
#define mx_cpu_put_rows MX_LEVEL_NAME(mx_cpu_put_rows)
void mx_cpu_take_rows(const mx_rows *rows, void *out, const void *data);
/* The adjoint: out is zeroed, then out[(b * size + index[i])] += data[(b * n + i)], in the order of i. */
mx_code mx_cpu_add_rows(const mx_rows *rows, void *out, const void *data);
/* The same without zeroing and adding: the last one wins.  Runs on the caller's thread. */
void mx_cpu_put_rows(const mx_rows *rows, void *out, const void *data);

#endif
