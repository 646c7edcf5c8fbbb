/* Instances of the inner loops (model in conv_micro.h).
 *
 * Each is one always-inlined function with constant tile sizes, so that its loops unroll and its sums become registers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/conv_micro.h"

#define UNROLL _Pragma("GCC unroll 32")

CONV_INLINE void correlate(const int half, const int vectors, const conv_micro *m, float *tile)
{
    vfloat sum[28];
    UNROLL for (int i = 0; i < 2 * half * vectors; i++)
        sum[i] = (vfloat){0};
    for (int64_t l = 0; l < m->line_count; l++) {
        const float *a = m->lines[l].a + m->at_a, *b = m->lines[l].b + m->at_b;
        const float *w_line = m->w + m->lines[l].kernel_row * m->w_row;
        for (int64_t c = 0; c < m->from; c++) {
            for (int64_t t = 0; t < m->taps; t++) {
                const float *xa = a + m->source_tap[t], *xb = b + m->source_tap[t];
                const float *wt = w_line + m->w_tap[t];
                const vfloat w0 = vector_load(wt), w1 = vectors > 1 ? vector_load(wt + LANES) : w0;
                UNROLL for (int p = 0; p < 2 * half; p++) {
                    const vfloat x = vector_all(p < half ? xa[p] : xb[p - half]);
                    sum[p * vectors] += x * w0;
                    if (vectors > 1)
                        sum[p * vectors + 1] += x * w1;
                }
            }
            a += m->source_channel;
            b += m->source_channel;
            w_line += m->w_from;
        }
    }
    UNROLL for (int i = 0; i < 2 * half * vectors; i++)
        vector_store(tile + i * LANES, sum[i]);
}

#define CORRELATE(half, vectors) \
    static void correlate_##half##_##vectors(const conv_micro *m, float *tile) { correlate(half, vectors, m, tile); }

CORRELATE(1, 1) CORRELATE(2, 1) CORRELATE(3, 1) CORRELATE(4, 1) CORRELATE(5, 1) CORRELATE(6, 1)
CORRELATE(1, 2) CORRELATE(2, 2) CORRELATE(3, 2)
#if CONV_HALF_TWO == 7
CORRELATE(7, 1) CORRELATE(8, 1) CORRELATE(9, 1) CORRELATE(10, 1) CORRELATE(11, 1) CORRELATE(12, 1)
CORRELATE(4, 2) CORRELATE(5, 2) CORRELATE(6, 2) CORRELATE(7, 2)
#endif

const conv_micro_fn conv_micro_one[CONV_HALF_ONE + 1] = {
    NULL, correlate_1_1, correlate_2_1, correlate_3_1, correlate_4_1, correlate_5_1, correlate_6_1,
#if CONV_HALF_TWO == 7
    correlate_7_1, correlate_8_1, correlate_9_1, correlate_10_1, correlate_11_1, correlate_12_1,
#endif
};
const conv_micro_fn conv_micro_two[CONV_HALF_TWO + 1] = {
    NULL, correlate_1_2, correlate_2_2, correlate_3_2,
#if CONV_HALF_TWO == 7
    correlate_4_2, correlate_5_2, correlate_6_2, correlate_7_2,
#endif
};

CONV_INLINE void gradient(const int vectors, const int taps, const int channels, const conv_grad *g)
{
    vfloat sum[24];
    const int64_t s = g->source_channel;
    UNROLL for (int c = 0; c < channels; c++)
        UNROLL for (int t = 0; t < taps * vectors; t++)
            sum[c * taps * vectors + t] = vector_load(g->sum + c * g->sum_channel + t * LANES);
    for (int64_t l = 0; l < g->line_count; l++) {
        const float *dy = g->lines[l].dy;
        const float *source = g->lines[l].source + g->source_at;
        const float *x0 = source + g->tap[0], *x1 = taps > 1 ? source + g->tap[1] : x0;
        const float *x2 = taps > 2 ? source + g->tap[2] : x0;
        for (int64_t p = 0; p < g->positions; p++) {
            const vfloat d0 = vector_load(dy), d1 = vectors > 1 ? vector_load(dy + LANES) : d0;
            UNROLL for (int c = 0; c < channels; c++) {
                UNROLL for (int t = 0; t < taps; t++) {
                    const vfloat x = vector_all((t == 0 ? x0 : t == 1 ? x1 : x2)[c * s]);
                    sum[(c * taps + t) * vectors] += x * d0;
                    if (vectors > 1)
                        sum[(c * taps + t) * vectors + 1] += x * d1;
                }
            }
            dy += vectors * LANES;
            x0++, x1++, x2++;
        }
    }
    UNROLL for (int c = 0; c < channels; c++)
        UNROLL for (int t = 0; t < taps * vectors; t++)
            vector_store(g->sum + c * g->sum_channel + t * LANES, sum[c * taps * vectors + t]);
}

#define GRADIENT(vectors, taps, channels)                                                \
    static void gradient_##vectors##_##taps##_##channels(const conv_grad *g) { gradient(vectors, taps, channels, g); }
#define GRADIENT_BOTH(taps, channels) GRADIENT(1, taps, channels) GRADIENT(2, taps, channels)
GRADIENT_BOTH(1, 1) GRADIENT_BOTH(1, 2) GRADIENT_BOTH(1, 3) GRADIENT_BOTH(1, 4) GRADIENT_BOTH(1, 5) GRADIENT_BOTH(1, 6)
GRADIENT_BOTH(2, 1) GRADIENT_BOTH(2, 2) GRADIENT_BOTH(2, 3) GRADIENT_BOTH(3, 1) GRADIENT_BOTH(3, 2)
#if CONV_HALF_TWO == 7
GRADIENT_BOTH(1, 7) GRADIENT_BOTH(1, 8) GRADIENT_BOTH(2, 4) GRADIENT_BOTH(2, 5) GRADIENT_BOTH(2, 6) GRADIENT_BOTH(3, 3)
GRADIENT_BOTH(3, 4)
#endif

#define N(vectors, taps, channels) gradient_##vectors##_##taps##_##channels
#if CONV_HALF_TWO == 7
#define ROWS(v)                                                                                              \
    {{N(v, 1, 1), N(v, 1, 2), N(v, 1, 3), N(v, 1, 4), N(v, 1, 5), N(v, 1, 6), N(v, 1, 7), N(v, 1, 8)},         \
     {N(v, 2, 1), N(v, 2, 2), N(v, 2, 3), N(v, 2, 4), N(v, 2, 5), N(v, 2, 6)},                                 \
     {N(v, 3, 1), N(v, 3, 2), N(v, 3, 3), N(v, 3, 4)}}
#else
#define ROWS(v)                                                                                              \
    {{N(v, 1, 1), N(v, 1, 2), N(v, 1, 3), N(v, 1, 4), N(v, 1, 5), N(v, 1, 6)},                                 \
     {N(v, 2, 1), N(v, 2, 2), N(v, 2, 3)},                                                                     \
     {N(v, 3, 1), N(v, 3, 2)}}
#endif
const conv_grad_fn conv_grad_table[2][CONV_GRAD_TAPS][8] = {ROWS(1), ROWS(2)};
