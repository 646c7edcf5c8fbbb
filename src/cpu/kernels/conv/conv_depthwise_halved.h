/* Depthwise convolution 3x3, stride 2, padding 1 on planes of even size (model in conv_depthwise.h).
 *
 * A column is as many results as two vectors of a source line hold with all their taps: 7 of 8 lanes, 14 of 16.  So the
 * taps are three choices from two loads, and nothing is fetched lane by lane.  The sizes in networks for
 * images of 224 are multiples of 7 down to the last plane; other sizes use the general code.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_CONV_DEPTHWISE_HALVED_H
#define MX_CPU_CONV_DEPTHWISE_HALVED_H

#include "cpu/kernels/conv/conv_depthwise_small.h"

#define HALVED_ROWS 7 /* result lines at once */

#if defined(__AVX2__)

/* What a column reads and writes. */
typedef struct halved {
    int64_t i, lanes;      /* its first result, and how many */
    int64_t at;            /* source position of the first tap */
    vector_part low, high; /* of two source vectors, the lanes inside the line */
    vector_part results;
    bool last; /* of its line */
} halved;

/* From result i on, in lines of `width` results. */
CONV_INLINE halved halved_at(int64_t i, int64_t width)
{
    const int64_t lanes = LANES == 16 && width % 14 == 0 ? 14 : 7, at = 2 * i - 1;
    return (halved){.i = i, .lanes = lanes, .at = at, .low = vector_part_of(-at, 2 * width - at),
                    .high = vector_part_of(-at - LANES, 2 * width - at - LANES),
                    .results = vector_part_of(0, lanes), .last = i + lanes == width};
}

/* The taps of the column's results in one line.  Seven results of eight lanes need fifteen floats, two loads that
 * overlap by one: only the padding before the first is masked, because masked loads that miss the cache are slow. */
CONV_INLINE void halved_taps(const halved *c, const float *line, vfloat v[3])
{
#if LANES == 16
    const vfloat low = vector_load_between(line, c->at, c->low);
    const vfloat high = vector_load_between(line, c->at + LANES, c->high);
    v[0] = VECTOR_EVEN(low, high);
    v[1] = VECTOR_ODD(low, high);
    v[2] = __builtin_shufflevector(low, high, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 31);
#else
    const vfloat low = c->i ? vector_load(line + c->at) : vector_load_between(line, c->at, c->low);
    const vfloat high = vector_load(line + c->at + LANES - 1);
    const vfloat even = (vfloat)_mm256_shuffle_ps((__m256)low, (__m256)high, 0xd8); /* 0 2 8 10, 4 6 12 14 */
    const vfloat odd = (vfloat)_mm256_shuffle_ps((__m256)low, (__m256)high, 0x8d);  /* 1 3 7 9, 5 7 11 13 */
    v[0] = __builtin_shufflevector(even, even, 0, 1, 4, 5, 2, 3, 6, 7);
    v[1] = __builtin_shufflevector(odd, odd, 0, 1, 4, 2, 3, 6, 7, 7);
    v[2] = __builtin_shufflevector(even, even, 1, 4, 5, 2, 3, 6, 7, 7);
#endif
}

/* The same with the lanes after the column's results cleared: a gradient of 0 times an infinity there is NaN. */
CONV_INLINE void halved_own_taps(const halved *c, const float *line, vfloat v[3])
{
    halved_taps(c, line, v);
    _Pragma("GCC unroll 4") for (int k = 0; k < 3; k++) v[k] = vector_keep(v[k], c->results);
}

/* Results of one line.  The excess of a full vector store belongs to the next column, which is written later. */
CONV_INLINE void halved_store(const halved *c, float *to, vfloat v)
{
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(to, c->results, (__m512)v);
#else
    if (c->last)
        eight_store_seven(to, v);
    else
        vector_store(to, v);
#endif
}

/* HALVED_ROWS result lines from h on, their taps read by `taps`: the last argument takes each product of tap v[k], kernel line `line` and
 * result line `row` to its sum. */
#define HALVED_LINES(taps, c, x, width, h, ...)                                               \
    _Pragma("GCC unroll 16") for (int l = 0; l <= 2 * HALVED_ROWS; l++)                        \
    {                                                                                        \
        if (l == 0 && (h) == 0) /* the line of padding */                                    \
            continue;                                                                        \
        vfloat v[3];                                                                         \
        taps(c, (x) + (2 * (h) - 1 + l) * (width), v);                                       \
        _Pragma("GCC unroll 16") for (int row = 0; row < HALVED_ROWS; row++)                 \
            _Pragma("GCC unroll 16") for (int k = 0; k < 3; k++)                             \
        {                                                                                    \
            const int line = l - 2 * row;                                                    \
            if (line >= 0 && line < 3) {                                                     \
                __VA_ARGS__;                                                                 \
            }                                                                                \
        }                                                                                    \
    }

/* Whether forward and weight gradient of this shape use this code. */
static inline bool conv_is_halved(const conv_job *job)
{
    const mx_conv_shape *s = &job->shape;
    return !job->gradient && s->kernel[2] == 3 && s->stride[2] == 2 && s->pad[1] == 1 && s->pad[2] == 1 &&
           s->in[1] == 2 * s->out[1] && s->in[2] == 2 * s->out[2] && s->out[1] % HALVED_ROWS == 0 && s->out[2] % 7 == 0;
}

#else
static inline bool conv_is_halved(const conv_job *job)
{
    (void)job;
    return false;
}
#endif
#endif
