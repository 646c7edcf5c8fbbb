/* Resampling of one axis: every result is a weighted sum of a few neighbouring inputs.
 *
 * Both axes of an image are resampled one after the other, so results and gradients follow from this alone.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_RESIZE_H
#define MX_OP_RESIZE_H

#include <math.h>
#include <stdint.h>

#include "base/rng.h"

enum mx_resize_kind { MX_RESIZE_CORNERS, MX_RESIZE_CENTERS, MX_RESIZE_MEAN };

typedef struct mx_resize_taps {
    int64_t first, count; /* inputs first ... first + count - 1 */
    double weight, next;  /* of the first one and of all others */
} mx_resize_taps;

/* The inputs and weights of result i of `to`, from `from` inputs; both positive. */
MX_ANY_DEVICE static inline mx_resize_taps mx_resize_at(int kind, int64_t from, int64_t to, int64_t i)
{
    if (kind == MX_RESIZE_MEAN) {
        const int64_t first = i * from / to, end = ((i + 1) * from + to - 1) / to;
        return (mx_resize_taps){first, end - first, 1 / (double)(end - first), 1 / (double)(end - first)};
    }
    const double at = kind == MX_RESIZE_CORNERS ? (to > 1 ? (double)i * (double)(from - 1) / (double)(to - 1) : 0)
                                                : fmax(((double)i + 0.5) * (double)from / (double)to - 0.5, 0.0);
    const int64_t first = (int64_t)at < from - 1 ? (int64_t)at : from - 1;
    const double part = first < from - 1 ? at - (double)first : 0;
    return (mx_resize_taps){first, part > 0 ? 2 : 1, 1 - part, part};
}

#endif
