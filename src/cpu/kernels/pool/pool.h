/* Pooling kernels: max, average, sum and lp over 1-3 spatial axes, forward and backward, float32 and float64.
 *
 * The output sizes are given: the caller handles conventions (valid, full, same).  A window that extends past
 * the input is clipped; one entirely outside gives 0 (max: the lowest finite number) and passes no gradient.
 *
 *     max   the largest element; of equal ones the first takes the gradient; NaN is never the largest
 *     avg   sum / window size, the window clipped to the padded input (count_include_pad) or to the input itself
 *     lp    (sum of x^p)^(1/p), p = 1, 2, 3, of signed powers
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_POOL_H
#define MX_CPU_POOL_H

#include "cpu/kernels/level.h"
#include "gluon/base.h"

#ifndef MX_POOL_SHAPE
#define MX_POOL_SHAPE
typedef enum mx_pool_type { MX_POOL_MAX, MX_POOL_AVG, MX_POOL_SUM, MX_POOL_LP } mx_pool_type;

typedef struct mx_pool_shape {
    int64_t batch, channels;
    int ndim;              /* spatial axes in use, 1..3: the first ndim entries below count */
    int64_t in[3], out[3]; /* spatial sizes of x and y */
    int64_t kernel[3], stride[3], pad[3];
    mx_pool_type type;
    bool count_include_pad; /* average: padding counts as elements */
    int p;                  /* lp: 1, 2 or 3 */
    bool channels_last;     /* x (N, *in, C) instead of (N, C, *in); y alike */
} mx_pool_shape;
#endif

mx_code MX_LEVEL_NAME(pool_forward)(const mx_pool_shape *s, const float *x, float *y);
mx_code MX_LEVEL_NAME(pool_backward)(const mx_pool_shape *s, const float *x, const float *dy, float *dx);
mx_code MX_LEVEL_NAME(pool_forward_f64)(const mx_pool_shape *s, const double *x, double *y);
mx_code MX_LEVEL_NAME(pool_backward_f64)(const mx_pool_shape *s, const double *x, const double *dy, double *dx);
/* y: of every window, the value at the position where x is largest */
mx_code MX_LEVEL_NAME(pool_pick)(const mx_pool_shape *s, const float *x, const float *values, float *y);
mx_code MX_LEVEL_NAME(pool_pick_f64)(const mx_pool_shape *s, const double *x, const double *values, double *y);

#endif
