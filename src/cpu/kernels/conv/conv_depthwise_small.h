/* Depthwise convolution 3x3, stride 1, padding 1 on square planes whose lines fit a vector (model in conv_depthwise.h).
 *
 * Everything about the shape is a constant: a plane is straight-line code, a line of it one vector, the sums of
 * all lines stay in registers.  These are the sizes of the last layers of networks: 14x14 (in quarters where a vector has only
 * 8 lanes), 7x7.
 *
 *     forward          y[h] = bias + sum over i, k of  x[h + i - 1] shifted by k - 1, times w[i, k]
 *     weight gradient  dw[i, k] = sum over n, h of  dy[h] times x[h + i - 1] shifted by k - 1
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_CONV_DEPTHWISE_SMALL_H
#define MX_CPU_CONV_DEPTHWISE_SMALL_H

#include "cpu/kernels/conv/conv_depthwise.h"

#if defined(__AVX2__)

#define SMALL_UNROLL _Pragma("GCC unroll 16")
#define SMALL_LINES 14 /* most lines of a plane */

typedef float veight __attribute__((vector_size(32)));
typedef float veight_any __attribute__((vector_size(32), aligned(4), may_alias));

/* Lanes [begin, end) of the eight floats at p; the others are zero and not touched. */
CONV_INLINE veight eight_load(const float *p, const int begin, const int end)
{
#if defined(__AVX512F__)
    return (veight)_mm256_maskz_loadu_ps((__mmask8)(((1u << end) - 1) & ~((1u << begin) - 1)), p);
#else
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return (veight)_mm256_maskload_ps(p, _mm256_and_si256(_mm256_cmpgt_epi32(lane, _mm256_set1_epi32(begin - 1)),
                                                          _mm256_cmpgt_epi32(_mm256_set1_epi32(end), lane)));
#endif
}
CONV_INLINE void eight_store(float *p, veight v) { *(veight_any *)p = v; }
CONV_INLINE void eight_store_seven(float *p, veight v) /* in halves that overlap: masked stores may be slow */
{
    const __m128 high = _mm256_extractf128_ps((__m256)v, 1), low = _mm256_castps256_ps128((__m256)v);
    _mm_storeu_ps(p + 3, _mm_shuffle_ps(_mm_shuffle_ps(low, high, 0x0f), high, 0x98)); /* lanes 3, 4, 5, 6 */
    _mm_storeu_ps(p, low);
}
CONV_INLINE veight eight_all(float x) { return x - (veight){0}; }
CONV_INLINE veight eight_max(veight a, veight b) { return (veight)_mm256_max_ps((__m256)a, (__m256)b); }
CONV_INLINE float eight_sum(veight v)
{
    float lanes[8], sum = 0;
    eight_store(lanes, v);
    for (int i = 0; i < 8; i++)
        sum += lanes[i];
    return sum;
}

#if defined(__AVX512F__)
#define sixteen_load(p, begin, end) \
    (vfloat) _mm512_maskz_loadu_ps((__mmask16)(((1u << (end)) - 1) & ~((1u << (begin)) - 1)), p)
CONV_INLINE void sixteen_store_fourteen(float *p, vfloat v) { _mm512_mask_storeu_ps(p, 0x3fff, (__m512)v); }
#endif

/* The three shifts of line l of x. */
#define SMALL_SHIFTS(size, load, line) \
    {load((line) - 1, 1, size), load(line, 0, size), load((line) + 1, 0, (size) - 1)}

/* Every store but the last writes a few floats too many: they belong to the next line, which is written later. */
#define SMALL_PLANE(name, size, vec, load, store, store_last, all, max)                                  \
    static void name(const float *x, const float *w, float bias, float floor, float *y)                  \
    {                                                                                                    \
        vec sum[SMALL_LINES], k[9];                                                                      \
        SMALL_UNROLL for (int i = 0; i < 9; i++) k[i] = all(w[i]);                                       \
        SMALL_UNROLL for (int h = 0; h < size; h++) sum[h] = all(bias);                                  \
        SMALL_UNROLL for (int l = 0; l < size; l++) {                                                    \
            const vec v[3] = SMALL_SHIFTS(size, load, x + l * size);                                     \
            SMALL_UNROLL for (int i = 0; i < 9; i++) {                                                   \
                const int h = l + 1 - i / 3;                                                             \
                if (h >= 0 && h < size)                                                                  \
                    sum[h] += v[i % 3] * k[i];                                                           \
            }                                                                                            \
        }                                                                                                \
        SMALL_UNROLL for (int h = 0; h < size - 1; h++) store(y + h * size, max(all(floor), sum[h]));    \
        store_last(y + (size - 1) * size, max(all(floor), sum[size - 1]));                               \
    }

#define SMALL_WEIGHT(name, size, vec, load, total_of)                                                    \
    static void name(const conv_job *job, const float *x, const float *dy, float *dw)                    \
    {                                                                                                    \
        vec sum[9];                                                                                      \
        SMALL_UNROLL for (int i = 0; i < 9; i++) sum[i] = (vec){0};                                      \
        for (int64_t n = 0; n < job->batch; n++, x += job->source_image, dy += job->result_image) {      \
            vec d[SMALL_LINES];                                                                          \
            SMALL_UNROLL for (int h = 0; h < size; h++) d[h] = load(dy + h * size, 0, size);             \
            SMALL_UNROLL for (int l = 0; l < size; l++) {                                                \
                const vec v[3] = SMALL_SHIFTS(size, load, x + l * size);                                 \
                SMALL_UNROLL for (int i = 0; i < 9; i++) {                                               \
                    const int h = l + 1 - i / 3;                                                         \
                    if (h >= 0 && h < size)                                                              \
                        sum[i] += v[i % 3] * d[h];                                                       \
                }                                                                                        \
            }                                                                                            \
        }                                                                                                \
        for (int i = 0; i < 9; i++)                                                                      \
            dw[i] = total_of(sum[i]);                                                                    \
    }

#define SMALL_SEVEN(MAKE, name, ...) MAKE(name, 7, veight, eight_load, __VA_ARGS__)
#define SMALL_FOURTEEN(MAKE, name, ...) MAKE(name, 14, vfloat, sixteen_load, __VA_ARGS__)

#if LANES == 8 /* a plane of 14x14 in quarters of 7 lines and 8 columns, of which the right ones repeat two */
/* The shifts of a line of a quarter. */
#define QUARTER_SHIFTS(left, line) \
    {(left) ? vector_load((line) - 1) : eight_load((line) - 1, 1, 8), vector_load(line), \
     (left) ? eight_load((line) + 1, 0, 7) : vector_load((line) + 1)}

CONV_INLINE void quarter_plane(const int top, const int left, const float *x, const float *w, float bias, float floor,
                               float *y)
{
    veight sum[7];
    SMALL_UNROLL for (int h = 0; h < 7; h++)
        sum[h] = eight_all(bias);
    SMALL_UNROLL for (int l = 0; l < 9; l++) {
        if (top + l == 0 || top + l == 15) /* padding */
            continue;
        const veight v[3] = QUARTER_SHIFTS(left, x + (top + l - 1) * 14 + left);
        SMALL_UNROLL for (int i = 0; i < 9; i++)
            if (l >= i / 3 && l - i / 3 < 7)
                sum[l - i / 3] += v[i % 3] * w[i];
    }
    SMALL_UNROLL for (int h = 0; h < 7; h++)
        eight_store(y + (top + h) * 14 + left, eight_max(eight_all(floor), sum[h]));
}

CONV_INLINE void quarter_weight(const int top, const int left, const float *x, const float *dy, veight sum[9])
{
    veight d[7];
    SMALL_UNROLL for (int h = 0; h < 7; h++)
        d[h] = eight_load(dy + (top + h) * 14 + left, left ? 2 : 0, 8);
    SMALL_UNROLL for (int l = 0; l < 9; l++) {
        if (top + l == 0 || top + l == 15)
            continue;
        veight v[3] = QUARTER_SHIFTS(left, x + (top + l - 1) * 14 + left);
        SMALL_UNROLL for (int k = 0; left && k < 3; k++) /* the repeated values may be infinite */
            v[k] = __builtin_shufflevector(v[k], (veight){0}, 8, 9, 2, 3, 4, 5, 6, 7);
        SMALL_UNROLL for (int i = 0; i < 9; i++)
            if (l >= i / 3 && l - i / 3 < 7)
                sum[i] += v[i % 3] * d[l - i / 3];
    }
}
#endif

/* Whether a plane is one of these; the data gradient of stride 1 is a forward pass with the rotated kernel. */
static inline bool conv_is_small_plane(const conv_job *job)
{
    const mx_conv_shape *s = &job->shape;
    const int64_t size = s->in[1];
    return (size == 7 || size == 14) && s->in[2] == size && s->kernel[2] == 3 && s->stride[2] == 1 && s->pad[1] == 1 &&
           s->pad[2] == 1;
}

#else
static inline bool conv_is_small_plane(const conv_job *job)
{
    (void)job;
    return false;
}
#endif
#endif
