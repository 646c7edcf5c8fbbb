/* Depthwise convolution, 3x3 and 5x5: what its three directions share.
 *
 * Model.  One plane of x and one of y per channel; lanes are neighbouring positions of a line.  Lines are read in
 * place: the lanes of a vector that fall into the padding are masked, once per column of vectors, and lines inside
 * the padding are skipped.
 *
 *     y[h, w] = bias + sum over i, j of  x[h * stride - pad + i, w * stride - pad + j] * k[i, j]
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_CONV_DEPTHWISE_H
#define MX_CPU_CONV_DEPTHWISE_H

#include "cpu/kernels/conv/conv_job.h"
#include "cpu/kernels/conv/conv_vector.h"

#define CONV_DEPTHWISE_MOST 5 /* kernel size */

#if defined(__AVX512F__) /* whether full vectors are worth separate code */
#define MASKS_COST false
#else
#define MASKS_COST true
#endif

/* What a column of result vectors reads from a source line. */
typedef struct conv_reading {
    int64_t at;                            /* source position of lane 0 and tap 0 */
    bool whole;                            /* every lane of every tap is inside */
    vector_part part[CONV_DEPTHWISE_MOST]; /* (taps) lanes inside the source; stride 2 uses only the first */
    vector_part next;                      /* stride 2 takes every second float of two vectors: those of the second */
    vector_part tail[CONV_DEPTHWISE_MOST]; /* ... and, as lane 0, whether the last lane of a tap is inside */
} conv_reading;

/* For the results from position i on, `count` of them, in a source line of `width` floats. */
CONV_INLINE conv_reading conv_reading_of(const int size, const int stride, int64_t i, int64_t count, int64_t pad,
                                         int64_t width)
{
    conv_reading r = {.at = i * stride - pad};
    r.whole = MASKS_COST && count >= LANES && r.at >= 0 && r.at + size + stride * LANES <= width;
    /* Stride 2: the other taps take their lanes from the first ones. */
    const int64_t used = stride == 1 ? count : 2 * (count - 1) + size;
    const int64_t end = r.at + used < width ? r.at + used : width;
    for (int k = 0; k < size; k++) {
        const int64_t at = r.at + k, last = at + stride * (LANES - 1), left = width - at;
        r.part[k] = vector_part_of(-at, left < used ? left : used);
        r.tail[k] = vector_part_of(0, last >= 0 && last < end);
    }
    r.next = vector_part_of(-r.at - LANES, end - r.at - LANES);
    return r;
}

/* The source vectors of all taps of one kernel line; `whole` is r->whole, as a constant if the caller can. */
CONV_INLINE void conv_read_taps(const int size, const int stride, const bool whole, const conv_reading *r,
                                const float *line, vfloat *v)
{
    if (stride == 1) {
        _Pragma("GCC unroll 8") for (int k = 0; k < size; k++)
        {
            v[k] = whole ? vector_load(line + r->at + k) : vector_load_between(line, r->at + k, r->part[k]);
        }
        return;
    }
    const vfloat low = whole ? vector_load(line + r->at) : vector_load_between(line, r->at, r->part[0]);
    const vfloat high = whole ? vector_load(line + r->at + LANES) : vector_load_between(line, r->at + LANES, r->next);
    v[0] = VECTOR_EVEN(low, high);
    v[1] = VECTOR_ODD(low, high);
    _Pragma("GCC unroll 8") for (int k = 2; k < size; k++) /* the same positions, one lane further */
    {
        const int64_t at = r->at + k + 2 * (LANES - 1);
        const vfloat last = whole ? (vfloat){line[at]} : vector_load_between(line, at, r->tail[k]);
        v[k] = VECTOR_FOLLOW(v[k - 2], last);
    }
}

#endif
