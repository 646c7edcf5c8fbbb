/* Running an optimizer update on arrays, for the single and the multi-tensor operators.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_OPTIMIZER_H
#define MX_CPU_OPTIMIZER_H

#include "cpu/kernel.h"
#include "cpu/kernels/level.h"
#include "op/formula/optimizer.h"

typedef struct update_arrays {
    const void *from, *grad; /* the weight before, the gradient */
    void *to;                /* the weight after; may be `from` */
    void *state[3];
    int64_t size;
} update_arrays;

#define mx_update_run MX_LEVEL_NAME(mx_update_run)
/* All arrays are of type `dtype` (float32 or float64); `k` is prepared. */
void mx_update_run(mx_update_row row, const mx_update_constants *k, const update_arrays *x, mx_dtype dtype);

#endif
