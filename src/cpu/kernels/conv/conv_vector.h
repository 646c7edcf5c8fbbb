/* Vectors for the convolution kernels: one type of the level's width, unaligned access, partial access, transposition.
 *
 * GCC/Clang vector extensions carry the arithmetic; only partial loads and stores use masks of the level.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_CONV_VECTOR_H
#define MX_CPU_CONV_VECTOR_H

#include <stdint.h>
#include <string.h>

#include "cpu/kernels/level.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define LANES (MX_VECTOR_BYTES / 4) /* floats in a vector */

typedef float vfloat __attribute__((vector_size(MX_VECTOR_BYTES)));
typedef int32_t vfloat_bits __attribute__((vector_size(MX_VECTOR_BYTES)));
typedef float vfloat_any __attribute__((vector_size(MX_VECTOR_BYTES), aligned(4), may_alias)); /* at any address */

#define CONV_INLINE static inline __attribute__((always_inline, unused))

CONV_INLINE vfloat vector_load(const float *from) { return *(const vfloat_any *)from; }
CONV_INLINE void vector_store(float *to, vfloat value) { *(vfloat_any *)to = value; }
CONV_INLINE vfloat vector_all(float value) { return value - (vfloat){0}; }

/* Half of a vector, for lines that are shorter than one. */
typedef float vhalf __attribute__((vector_size(MX_VECTOR_BYTES / 2)));
typedef float vhalf_any __attribute__((vector_size(MX_VECTOR_BYTES / 2), aligned(4), may_alias));
CONV_INLINE vhalf half_load(const float *from) { return *(const vhalf_any *)from; }
CONV_INLINE void half_store(float *to, vhalf value) { *(vhalf_any *)to = value; }

#if !defined(__AVX2__)
/* The lanes [begin, end), the others zero. */
static MX_AT_EDGES vfloat vector_load_some(const float *from, int64_t begin, int64_t end)
{
    float lanes[LANES] = {0};
    for (int64_t i = begin; i < end; i++)
        lanes[i] = from[i];
    return vector_load(lanes);
}

static MX_AT_EDGES void vector_store_some(float *to, vfloat value, int64_t count)
{
    float lanes[LANES];
    vector_store(lanes, value);
    for (int64_t i = 0; i < count; i++)
        to[i] = lanes[i];
}
#endif

/* The first `count` lanes, the others zero; nothing past them is touched. */
CONV_INLINE vfloat vector_load_part(const float *from, int64_t count)
{
    if (count >= LANES)
        return vector_load(from);
#if defined(__AVX512F__)
    return (vfloat)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), from);
#elif defined(__AVX2__)
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return (vfloat)_mm256_maskload_ps(from, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), lane));
#else
    return vector_load_some(from, 0, count);
#endif
}

CONV_INLINE void vector_store_part(float *to, vfloat value, int64_t count)
{
    if (count >= LANES) {
        vector_store(to, value);
        return;
    }
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1), (__m512)value);
#elif defined(__AVX2__)
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_maskstore_ps(to, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), lane), (__m256)value);
#else
    vector_store_some(to, value, count);
#endif
}

/* The lanes [begin, end) of a vector, as far as there are such; the others are zero and not touched. */
#if defined(__AVX512F__)
typedef __mmask16 vector_part;
#elif defined(__AVX2__)
typedef __m256i vector_part;
#else
typedef struct vector_part {
    int64_t begin, end;
} vector_part;
#endif

CONV_INLINE vector_part vector_part_of(int64_t begin, int64_t end)
{
    begin = begin < 0 ? 0 : begin < LANES ? begin : LANES;
    end = end < 0 ? 0 : end < LANES ? end : LANES;
#if defined(__AVX512F__)
    return (__mmask16)(((1u << end) - 1) & ~((1u << begin) - 1));
#elif defined(__AVX2__)
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_and_si256(_mm256_cmpgt_epi32(lane, _mm256_set1_epi32((int)begin - 1)),
                            _mm256_cmpgt_epi32(_mm256_set1_epi32((int)end), lane));
#else
    return (vector_part){begin, end};
#endif
}

/* from[at + lane] for the lanes of the part; `at` may be negative for the others. */
CONV_INLINE vfloat vector_load_between(const float *from, int64_t at, vector_part part)
{
    const float *first = (const float *)((intptr_t)from + at * (int64_t)sizeof(float));
#if defined(__AVX512F__)
    return (vfloat)_mm512_maskz_loadu_ps(part, first);
#elif defined(__AVX2__)
    return (vfloat)_mm256_maskload_ps(first, part);
#else
    if (part.begin == 0 && part.end == LANES)
        return vector_load(first);
    return vector_load_some(first, part.begin, part.end);
#endif
}

/* LANES floats of a line of `width` from position `at` on, zero outside. */
CONV_INLINE vfloat vector_load_inside(const float *line, int64_t at, int64_t width)
{
    return at >= 0 && at + LANES <= width ? vector_load(line + at)
                                          : vector_load_between(line, at, vector_part_of(-at, width - at));
}

/* The lanes of the part; the others become zero. */
CONV_INLINE vfloat vector_keep(vfloat v, vector_part part)
{
#if defined(__AVX512F__)
    return (vfloat)_mm512_maskz_mov_ps(part, (__m512)v);
#elif defined(__AVX2__)
    return (vfloat)_mm256_and_ps((__m256)v, _mm256_castsi256_ps(part));
#else
    for (int i = 0; i < LANES; i++)
        v[i] = i >= part.begin && i < part.end ? v[i] : 0;
    return v;
#endif
}

/* a where the bits of a lane are set, b where they are not. */
CONV_INLINE vfloat vector_choose(vfloat_bits bits, vfloat a, vfloat b)
{
    return (vfloat)(((vfloat_bits)a & bits) | ((vfloat_bits)b & ~bits));
}

/* a > b ? a : b in every lane; b where one of them is NaN. */
CONV_INLINE vfloat vector_max(vfloat a, vfloat b)
{
#if defined(__AVX512F__)
    return (vfloat)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vfloat)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return vector_choose(a > b, a, b);
#endif
}

/* The sum of all lanes, in a fixed order. */
CONV_INLINE float vector_sum(vfloat v)
{
    float lanes[LANES];
    vector_store(lanes, v);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            lanes[i] += lanes[i + half];
    return lanes[0];
}

/* Transposes a LANES x LANES block held in v: one exchange of half-size blocks per stage.  A stage of distance D takes
 * rows i and i + D and swaps their off-diagonal D x D blocks.  WEAVE interleaves two vectors, EVEN
 * and ODD take every second float of two, FOLLOW takes all but the first of a and the first of b. */
#if LANES == 16
#define VECTOR_LOW_8(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
#define VECTOR_HIGH_8(a, b) __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)
#define VECTOR_LOW_4(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27)
#define VECTOR_HIGH_4(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31)
#define VECTOR_LOW_2(a, b) __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define VECTOR_HIGH_2(a, b) __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#define VECTOR_LOW_1(a, b) __builtin_shufflevector(a, b, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30)
#define VECTOR_HIGH_1(a, b) __builtin_shufflevector(a, b, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31)
#define VECTOR_WEAVE_LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define VECTOR_WEAVE_HIGH(a, b) \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define VECTOR_EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define VECTOR_ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define VECTOR_FOLLOW(a, b) __builtin_shufflevector(a, b, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
#elif LANES == 8
#define VECTOR_LOW_4(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define VECTOR_HIGH_4(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#define VECTOR_LOW_2(a, b) __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define VECTOR_HIGH_2(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define VECTOR_LOW_1(a, b) __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14)
#define VECTOR_HIGH_1(a, b) __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15)
#define VECTOR_WEAVE_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define VECTOR_WEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define VECTOR_FOLLOW(a, b) __builtin_shufflevector(a, b, 1, 2, 3, 4, 5, 6, 7, 8)
#if defined(__AVX2__) /* two steps: within halves, then their quarters in order; compilers use three */
#define VECTOR_HALVES(a, b, pick) \
    (vfloat)_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps((__m256)(a), (__m256)(b), pick)), 0xd8)
#define VECTOR_EVEN(a, b) VECTOR_HALVES(a, b, 0x88)
#define VECTOR_ODD(a, b) VECTOR_HALVES(a, b, 0xdd)
#else
#define VECTOR_EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define VECTOR_ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#endif
#else
#define VECTOR_LOW_2(a, b) __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define VECTOR_HIGH_2(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)
#define VECTOR_LOW_1(a, b) __builtin_shufflevector(a, b, 0, 4, 2, 6)
#define VECTOR_HIGH_1(a, b) __builtin_shufflevector(a, b, 1, 5, 3, 7)
#define VECTOR_WEAVE_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define VECTOR_WEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define VECTOR_FOLLOW(a, b) __builtin_shufflevector(a, b, 1, 2, 3, 4)
#define VECTOR_EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define VECTOR_ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#endif

#define VECTOR_STAGE(D)                                                 \
    _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) if (!(i & D)) { \
        const vfloat low = VECTOR_LOW_##D(v[i], v[i + D]);              \
        v[i + D] = VECTOR_HIGH_##D(v[i], v[i + D]);                     \
        v[i] = low;                                                     \
    }

CONV_INLINE void vector_transpose(vfloat v[LANES])
{
#if LANES >= 16
    VECTOR_STAGE(8)
#endif
#if LANES >= 8
    VECTOR_STAGE(4)
#endif
    VECTOR_STAGE(2)
    VECTOR_STAGE(1)
}

/* v[j] = column j of LANES rows at p, `row` floats apart.  The loads put quarters of the vectors in place;
 * it remains to transpose four by four within them. */
#if defined(__AVX512F__)
CONV_INLINE vfloat vector_load_quarters(const float *p, int64_t row)
{
    __m512 x = _mm512_broadcast_f32x4(_mm_loadu_ps(p));
    x = _mm512_mask_broadcast_f32x4(x, 0x00f0, _mm_loadu_ps(p + 4 * row));
    x = _mm512_mask_broadcast_f32x4(x, 0x0f00, _mm_loadu_ps(p + 8 * row));
    return (vfloat)_mm512_mask_broadcast_f32x4(x, 0xf000, _mm_loadu_ps(p + 12 * row));
}
#define VECTOR_UNPACK(type, a, b) (vfloat)_mm512_unpack##type((__m512)(a), (__m512)(b))
#define VECTOR_UNPACK_PAIRS(type, a, b) \
    (vfloat)_mm512_castpd_ps(_mm512_unpack##type(_mm512_castps_pd((__m512)(a)), _mm512_castps_pd((__m512)(b))))
#elif defined(__AVX2__)
CONV_INLINE vfloat vector_load_quarters(const float *p, int64_t row)
{
    return (vfloat)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + 4 * row), 1);
}
#define VECTOR_UNPACK(type, a, b) (vfloat)_mm256_unpack##type((__m256)(a), (__m256)(b))
#define VECTOR_UNPACK_PAIRS(type, a, b) \
    (vfloat)_mm256_castpd_ps(_mm256_unpack##type(_mm256_castps_pd((__m256)(a)), _mm256_castps_pd((__m256)(b))))
#endif

CONV_INLINE void vector_load_turned(vfloat v[LANES], const float *p, int64_t row)
{
#if defined(__AVX2__)
    _Pragma("GCC unroll 4") for (int j = 0; j < LANES; j += 4)
    {
        const vfloat a = vector_load_quarters(p + j, row), b = vector_load_quarters(p + row + j, row);
        const vfloat c = vector_load_quarters(p + 2 * row + j, row), d = vector_load_quarters(p + 3 * row + j, row);
        const vfloat ab = VECTOR_UNPACK(lo_ps, a, b), cd = VECTOR_UNPACK(lo_ps, c, d);
        const vfloat ab2 = VECTOR_UNPACK(hi_ps, a, b), cd2 = VECTOR_UNPACK(hi_ps, c, d);
        v[j] = VECTOR_UNPACK_PAIRS(lo_pd, ab, cd), v[j + 1] = VECTOR_UNPACK_PAIRS(hi_pd, ab, cd);
        v[j + 2] = VECTOR_UNPACK_PAIRS(lo_pd, ab2, cd2), v[j + 3] = VECTOR_UNPACK_PAIRS(hi_pd, ab2, cd2);
    }
#else
    for (int i = 0; i < LANES; i++)
        v[i] = vector_load(p + i * row);
    vector_transpose(v);
#endif
}

#endif
