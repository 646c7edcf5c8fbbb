/* The register tile of products of bytes: sums (ROWS, COLUMNS) over `groups` groups of the common dimension.
 *
 * Both operands are packed: for every group, GROUP consecutive numbers of each row of A, and of each column of B.
 *
 *              GROUP  packed as  one instruction multiplies and adds
 *     armv86     8      int8     SMMLA: 8 numbers of 2 rows and 2 columns
 *     armv82     4      int8     SDOT: 4 numbers of a row and 4 columns
 *     neon       1      int16    SMLAL: 1 number of a row and 4 columns
 *     x86-64     2      int16    PMADDWD: 2 numbers of a row and a vector of columns; PADDD adds
 *     others     1      int16    whatever the compiler finds
 *
 * All are exact: no intermediate sum saturates.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_INTEGER_DOT_TILE_H
#define MX_CPU_INTEGER_DOT_TILE_H

#include <stdint.h>
#if defined(MX_NEON)
#include <arm_neon.h>
#elif defined(__SSE2__)
#include <immintrin.h>
#endif

#include "cpu/kernels/level.h"
#include "cpu/kernels/unroll.h"

#if defined(__ARM_FEATURE_MATMUL_INT8)

enum { ROWS = 8, COLUMNS = 8, GROUP = 8 };
typedef int8_t packed;

static void multiply(int64_t groups, const packed *a, const packed *b, uint32_t *sums)
{
    int32x4_t acc[ROWS / 2][COLUMNS / 2]; /* 2 x 2 sums each */
    UNROLL for (int i = 0; i < ROWS / 2; i++)
        UNROLL for (int j = 0; j < COLUMNS / 2; j++)
            acc[i][j] = vdupq_n_s32(0);
    for (; groups > 0; groups--, a += ROWS * GROUP, b += COLUMNS * GROUP) {
        int8x16_t y[COLUMNS / 2];
        UNROLL for (int j = 0; j < COLUMNS / 2; j++)
            y[j] = vld1q_s8(b + 16 * j);
        UNROLL for (int i = 0; i < ROWS / 2; i++) {
            const int8x16_t x = vld1q_s8(a + 16 * i);
            UNROLL for (int j = 0; j < COLUMNS / 2; j++)
                acc[i][j] = vmmlaq_s32(acc[i][j], x, y[j]);
        }
    }
    UNROLL for (int i = 0; i < ROWS / 2; i++)
        UNROLL for (int j = 0; j < COLUMNS / 2; j++) {
            vst1_u32(sums + 2 * i * COLUMNS + 2 * j, vget_low_u32(vreinterpretq_u32_s32(acc[i][j])));
            vst1_u32(sums + (2 * i + 1) * COLUMNS + 2 * j, vget_high_u32(vreinterpretq_u32_s32(acc[i][j])));
        }
}

#elif defined(__ARM_FEATURE_DOTPROD)

enum { ROWS = 8, COLUMNS = 12, GROUP = 4 };
typedef int8_t packed;

#define ROW(i)                                                                     \
    UNROLL for (int j = 0; j < COLUMNS / 4; j++)                                   \
        acc[i][j] = vdotq_laneq_s32(acc[i][j], y[j], i < 4 ? x0 : x1, i % 4);

static void multiply(int64_t groups, const packed *a, const packed *b, uint32_t *sums)
{
    int32x4_t acc[ROWS][COLUMNS / 4];
    UNROLL for (int i = 0; i < ROWS; i++)
        UNROLL for (int j = 0; j < COLUMNS / 4; j++)
            acc[i][j] = vdupq_n_s32(0);
    for (; groups > 0; groups--, a += ROWS * GROUP, b += COLUMNS * GROUP) {
        const int8x16_t x0 = vld1q_s8(a), x1 = vld1q_s8(a + 16);
        int8x16_t y[COLUMNS / 4];
        UNROLL for (int j = 0; j < COLUMNS / 4; j++)
            y[j] = vld1q_s8(b + 16 * j);
        ROW(0) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5) ROW(6) ROW(7)
    }
    UNROLL for (int i = 0; i < ROWS; i++)
        UNROLL for (int j = 0; j < COLUMNS / 4; j++)
            vst1q_u32(sums + i * COLUMNS + 4 * j, vreinterpretq_u32_s32(acc[i][j]));
}
#undef ROW

#elif defined(MX_NEON)

enum { ROWS = 8, COLUMNS = 8, GROUP = 1 };
typedef int16_t packed;

#define ROW(i)                                                             \
    acc[i][0] = vmlal_laneq_s16(acc[i][0], vget_low_s16(y), x, i);         \
    acc[i][1] = vmlal_high_laneq_s16(acc[i][1], y, x, i);

static void multiply(int64_t groups, const packed *a, const packed *b, uint32_t *sums)
{
    int32x4_t acc[ROWS][2];
    UNROLL for (int i = 0; i < ROWS; i++)
        acc[i][0] = acc[i][1] = vdupq_n_s32(0);
    for (; groups > 0; groups--, a += ROWS, b += COLUMNS) {
        const int16x8_t x = vld1q_s16(a), y = vld1q_s16(b);
        ROW(0) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5) ROW(6) ROW(7)
    }
    UNROLL for (int i = 0; i < ROWS; i++) {
        vst1q_u32(sums + i * COLUMNS, vreinterpretq_u32_s32(acc[i][0]));
        vst1q_u32(sums + i * COLUMNS + 4, vreinterpretq_u32_s32(acc[i][1]));
    }
}
#undef ROW

#elif defined(__SSE2__)

#if defined(__AVX512BW__)
typedef __m512i vector;
#define LOAD(p) _mm512_loadu_si512(p)
#define STORE(p, x) _mm512_storeu_si512(p, x)
#define REPEAT(x) _mm512_set1_epi32(x)
#define MULTIPLY_ADD(sum, x, y) _mm512_add_epi32(sum, _mm512_madd_epi16(x, y))
#elif defined(__AVX2__)
typedef __m256i vector;
#define LOAD(p) _mm256_loadu_si256((const vector *)(const void *)(p))
#define STORE(p, x) _mm256_storeu_si256((vector *)(void *)(p), x)
#define REPEAT(x) _mm256_set1_epi32(x)
#define MULTIPLY_ADD(sum, x, y) _mm256_add_epi32(sum, _mm256_madd_epi16(x, y))
#else
typedef __m128i vector;
#define LOAD(p) _mm_loadu_si128((const vector *)(const void *)(p))
#define STORE(p, x) _mm_storeu_si128((vector *)(void *)(p), x)
#define REPEAT(x) _mm_set1_epi32(x)
#define MULTIPLY_ADD(sum, x, y) _mm_add_epi32(sum, _mm_madd_epi16(x, y))
#endif

enum { ROWS = MX_VECTOR_REGISTERS == 32 ? 12 : 6, COLUMNS = 2 * MX_VECTOR_BYTES / 4, GROUP = 2 };
typedef int16_t packed;

static void multiply(int64_t groups, const packed *a, const packed *b, uint32_t *sums)
{
    vector acc[ROWS][2];
    UNROLL for (int i = 0; i < ROWS; i++)
        acc[i][0] = acc[i][1] = REPEAT(0);
    for (; groups > 0; groups--, a += ROWS * GROUP, b += COLUMNS * GROUP) {
        const vector y0 = LOAD(b), y1 = LOAD(b + COLUMNS);
        UNROLL for (int i = 0; i < ROWS; i++) {
            int32_t pair;
            __builtin_memcpy(&pair, a + i * GROUP, sizeof pair);
            const vector x = REPEAT(pair);
            acc[i][0] = MULTIPLY_ADD(acc[i][0], x, y0);
            acc[i][1] = MULTIPLY_ADD(acc[i][1], x, y1);
        }
    }
    UNROLL for (int i = 0; i < ROWS; i++) {
        STORE(sums + i * COLUMNS, acc[i][0]);
        STORE(sums + i * COLUMNS + COLUMNS / 2, acc[i][1]);
    }
}

#else

enum { ROWS = 4, COLUMNS = 8, GROUP = 1 };
typedef int16_t packed;

static void multiply(int64_t groups, const packed *a, const packed *b, uint32_t *sums)
{
    __builtin_memset(sums, 0, ROWS * COLUMNS * sizeof *sums);
    for (; groups > 0; groups--, a += ROWS, b += COLUMNS)
        UNROLL for (int i = 0; i < ROWS; i++)
            UNROLL for (int j = 0; j < COLUMNS; j++)
                sums[i * COLUMNS + j] += (uint32_t)(a[i] * b[j]);
}

#endif
#endif
