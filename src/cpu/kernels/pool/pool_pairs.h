/* Windows of two by two with stride two on contiguous rows, in vectors: one output row from two input rows.
 *
 * The four elements of a window are the even and odd floats of two rows; EVEN, ODD and WEAVE separate and interleave
 * them.  Columns that do not fill a vector are loaded and stored in part.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_POOL_PAIRS_H
#define MX_CPU_POOL_PAIRS_H

#include <math.h>

#include "cpu/kernels/conv/conv_vector.h"

typedef int32_t vint __attribute__((vector_size(MX_VECTOR_BYTES)));

typedef struct pair_rows {
    vfloat e0, o0, e1, o1; /* even and odd columns of the upper and the lower row */
} pair_rows;

/* The windows of the first `count` columns of a vector: 2 * count floats of either row, nothing past them. */
CONV_INLINE pair_rows pairs_load(const float *x, int64_t width, int64_t count)
{
    const int64_t low = 2 * count < LANES ? 2 * count : LANES, high = 2 * count - low;
    const vfloat a = vector_load_part(x, low), b = vector_load_part(x + LANES, high);
    const vfloat c = vector_load_part(x + width, low), d = vector_load_part(x + width + LANES, high);
    return (pair_rows){VECTOR_EVEN(a, b), VECTOR_ODD(a, b), VECTOR_EVEN(c, d), VECTOR_ODD(c, d)};
}

CONV_INLINE void pairs_store(float *x, int64_t width, pair_rows p, int64_t count)
{
    const int64_t low = 2 * count < LANES ? 2 * count : LANES, high = 2 * count - low;
    vector_store_part(x, VECTOR_WEAVE_LOW(p.e0, p.o0), low);
    vector_store_part(x + LANES, VECTOR_WEAVE_HIGH(p.e0, p.o0), high);
    vector_store_part(x + width, VECTOR_WEAVE_LOW(p.e1, p.o1), low);
    vector_store_part(x + width + LANES, VECTOR_WEAVE_HIGH(p.e1, p.o1), high);
}

#define PAIRS_FOR(i, n, count) \
    for (int64_t i = 0, n; n = (count) - i < LANES ? (count) - i : LANES, i < (count); i += LANES)

/* vector_max(a, b) is b where a is NaN: starting from -infinity, NaN is never the largest. */
CONV_INLINE vfloat pairs_max(pair_rows p)
{
    const vfloat upper = vector_max(p.o0, vector_max(p.e0, vector_all(-INFINITY)));
    return vector_max(p.o1, vector_max(p.e1, upper));
}

/* The larger of either row at x, at the lanes of the part. */
CONV_INLINE vfloat pairs_rows_max(const float *x, int64_t width, const bool whole, vector_part part)
{
    const vfloat upper = whole ? vector_load(x) : vector_load_between(x, 0, part);
    const vfloat lower = whole ? vector_load(x + width) : vector_load_between(x + width, 0, part);
    return vector_max(lower, vector_max(upper, vector_all(-INFINITY)));
}

/* One column of result vectors of a plane (rows, count), from column i on; `whole`: it has LANES columns. */
CONV_INLINE void pairs_max_column(const bool whole, const float *x, int64_t width, float *y, int64_t rows,
                                  int64_t count, int64_t i)
{
    const vector_part low = vector_part_of(0, 2 * (count - i)), high = vector_part_of(0, 2 * (count - i) - LANES);
    const float *end = y + rows * count;
    x += 2 * i;
    for (y += i; y < end; y += count, x += 2 * width) {
        const vfloat a = pairs_rows_max(x, width, whole, low), b = pairs_rows_max(x + LANES, width, whole, high);
        const vfloat most = vector_max(VECTOR_ODD(a, b), VECTOR_EVEN(a, b));
        if (whole || y + LANES <= end) /* the excess belongs to the next row, which is written later */
            vector_store(y, most);
        else
            vector_store_part(y, most, count - i);
    }
}

/* A plane: two by two of x, whose rows have `width` floats, to (rows, count). */
static inline void pairs_max_plane(const float *x, int64_t width, float *y, int64_t rows, int64_t count)
{
    if (count < LANES) {
        pairs_max_column(false, x, width, y, rows, count, 0);
        return;
    }
    for (int64_t i = 0; i < count; i += LANES) /* the last vector overlaps the one before */
        pairs_max_column(true, x, width, y, rows, count, i + LANES <= count ? i : count - LANES);
}

static inline void pairs_sum_forward(const float *x, int64_t width, float scale, float *y, int64_t count)
{
    PAIRS_FOR(i, n, count)
    {
        const pair_rows p = pairs_load(x + 2 * i, width, n);
        vector_store_part(y + i, (((p.e0 + p.o0) + p.e1) + p.o1) * scale, n);
    }
}

/* dx of the first largest element is dy, of the others 0. */
static inline void pairs_max_backward(const float *x, const float *dy, int64_t width, float *dx, int64_t count)
{
    PAIRS_FOR(i, n, count)
    {
        const pair_rows p = pairs_load(x + 2 * i, width, n);
        const vfloat most = pairs_max(p);
        const vint d = (vint)vector_load_part(dy + i, n);
        const vint a = p.e0 == most, b = (p.o0 == most) & ~a, c = (p.e1 == most) & ~(a | b);
        const vint e = (p.o1 == most) & ~(a | b | c);
        pairs_store(dx + 2 * i, width, (pair_rows){(vfloat)(d & a), (vfloat)(d & b), (vfloat)(d & c), (vfloat)(d & e)},
                    n);
    }
}

static inline void pairs_sum_backward(const float *dy, int64_t width, float scale, float *dx, int64_t count)
{
    PAIRS_FOR(i, n, count)
    {
        const vfloat d = vector_load_part(dy + i, n) * scale;
        pairs_store(dx + 2 * i, width, (pair_rows){d, d, d, d}, n);
    }
}

#undef PAIRS_FOR
#endif
