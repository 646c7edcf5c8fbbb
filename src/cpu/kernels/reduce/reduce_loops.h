/* The loops of the folds, by compute type.
 *
 * A fold maps each element, joins the results, and finishes the total.  Totals have a wider type (double,
 * int64): elements are joined in the compute type over short blocks only, so that errors do not grow with length.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_REDUCE_LOOPS_H
#define MX_CPU_REDUCE_LOOPS_H

#include <stdint.h>

#include "cpu/kernels/level.h"
#include "op/formula/reduce.h"

typedef struct mx_fold_loops {
    /* total[0..n) of an empty fold */
    void (*start)(void *total, int64_t n);
    /* total[j] joined with x[r * step + j] over all rows r */
    void (*rows)(const void *x, int64_t step, int64_t rows, int64_t n, void *total);
    /* total[k] joined with the n elements from x[k * n] on */
    void (*runs)(const void *x, int64_t n, int64_t count, void *total);
    /* total[j] joined with part[j], another total */
    void (*merge)(const void *part, int64_t n, void *total);
    /* total[j] becomes the result; count elements went into each */
    void (*finish)(void *total, int64_t n, int64_t count);
} mx_fold_loops;

#define mx_fold_f32 MX_LEVEL_NAME(mx_fold_f32)
#define mx_fold_f64 MX_LEVEL_NAME(mx_fold_f64)
#define mx_fold_i64 MX_LEVEL_NAME(mx_fold_i64)
extern const mx_fold_loops mx_fold_f32[MX_FOLDS], mx_fold_f64[MX_FOLDS], mx_fold_i64[MX_FOLDS];

/* out = the fold of `in` over the axes of the mask; of out's shape only the size is used. */
#define mx_fold_array MX_LEVEL_NAME(mx_fold_array)
mx_code mx_fold_array(const mx_op *op, mx_fold fold, const mx_array *in, int mask, mx_array *out);

#endif
