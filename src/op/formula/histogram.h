/* Bins of a histogram: shared by the kernels of all devices.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_HISTOGRAM_H
#define MX_OP_HISTOGRAM_H

#include <stdint.h>

#include "base/any_device.h"

typedef struct mx_histogram_range {
    double low, high;
} mx_histogram_range;

/* The range of equal bins: [0, 1] for data without numbers; an empty range is widened to 1. */
MX_ANY_DEVICE static inline mx_histogram_range mx_histogram_range_of(double low, double high)
{
    if (!(low <= high))
        low = 0, high = 1;
    if (low == high)
        low -= 0.5, high += 0.5;
    return (mx_histogram_range){low, high};
}

/* Edge i of equal bins. */
MX_ANY_DEVICE static inline double mx_histogram_edge(mx_histogram_range r, int64_t i, int64_t bins)
{
    return r.low + (r.high - r.low) * (double)i / (double)bins;
}

/* The bin whose edges surround x; the last one includes its upper edge; -1: none. */
MX_ANY_DEVICE static inline int64_t mx_histogram_bin(const double *edge, int64_t bins, double x)
{
    if (!(x >= edge[0] && x <= edge[bins]))
        return -1;
    int64_t low = 0, high = bins;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        *(x < edge[middle] ? &high : &low) = middle;
    }
    return low;
}

#endif
