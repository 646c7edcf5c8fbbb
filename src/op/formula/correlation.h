/* Sizes of Correlation, shared by inference, reference and kernels.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_CORRELATION_H
#define MX_OP_CORRELATION_H

#include <stdint.h>

typedef struct mx_correlation_sizes {
    int64_t channels, height, width; /* of the data */
    int64_t kernel, reach, pad;      /* patch size; largest displacement; zeros around */
    int64_t stride, step;            /* between patches; between displacements */
    int64_t radius, grid;            /* displacements to either side, and along one axis */
    int64_t rows, columns;           /* patches */
} mx_correlation_sizes;

static inline mx_correlation_sizes mx_correlation_of(int64_t kernel, int64_t reach, int64_t stride, int64_t step,
                                                     int64_t pad, const int64_t *data)
{
    mx_correlation_sizes c = {
        data[1], data[2], data[3], kernel, reach, pad, stride, step, reach / step, 2 * (reach / step) + 1, 0, 0};
    const int64_t border = 2 * (reach + (kernel - 1) / 2);
    c.rows = (data[2] + 2 * pad - border + stride - 1) / stride;
    c.columns = (data[3] + 2 * pad - border + stride - 1) / stride;
    return c;
}

#endif
