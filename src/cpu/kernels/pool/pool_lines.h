/* Pooling of planes line by line, in vectors of results: windows that overlap, padding, strides of 1 and 2 along a line.
 *
 *     line of x:  pad | a b c d e f ... | pad   --split-->   a c e ..   element ox * stride + kx of the padded line is
 *                                                            b d f ..   number ox + kx / stride of the phase kx % stride
 *
 * So a vector of results reads vectors.  Padding holds NaN, which is never the largest, or 0.  Forward reduces every line
 * along itself once, and then lines; the gradient of max finds the first largest element of each window again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_POOL_LINES_H
#define MX_CPU_POOL_LINES_H

#include "cpu/kernels/pool/pool.h"

#define pool_lines_fit MX_LEVEL_NAME(pool_lines_fit)
#define pool_lines_run MX_LEVEL_NAME(pool_lines_run)

/* Whether these kernels can: the shape has three axes. */
bool pool_lines_fit(const mx_pool_shape *s);

/* y of x if dy is NULL, else dx. */
mx_code pool_lines_run(const mx_pool_shape *s, const float *x, const float *dy, float *result);

#endif
