/* Instances of the inner loops (model in conv_micro.h).
 *
 * Each is one always-inlined function with constant tile sizes, so that its loops unroll and its sums become registers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/conv/conv_micro.h"

#define UNROLL _Pragma("GCC unroll 32")

/* One step: adds the products of one channel and tap to the sums of all positions.  skip: (2 * half). */
CONV_INLINE void correlate_step(const int half, const int vectors, const float *xa, const float *xb, const float *w,
                                const bool *skip, vfloat *sum)
{
    const vfloat w0 = vector_load(w), w1 = vectors > 1 ? vector_load(w + LANES) : w0;
    UNROLL for (int p = 0; p < 2 * half; p++) {
        if (skip[p])
            continue;
        const vfloat x = vector_all(p < half ? xa[p] : xb[p - half]);
        sum[p * vectors] += x * w0;
        if (vectors > 1)
            sum[p * vectors + 1] += x * w1;
    }
}

/* `taps` is the number of taps, or 0 if it is not a constant. */
CONV_INLINE void correlate(const int half, const int vectors, const int taps, const conv_micro *m)
{
    vfloat sum[28];
    float *row[2] = {m->sum_a, m->sum_b};
    UNROLL for (int i = 0; i < 2 * half * vectors; i++)
        sum[i] = (vfloat){0};
    if (m->add)
        UNROLL for (int i = 0; i < 2 * half * vectors; i++)
            sum[i] = vector_load(row[i / vectors / half] + i / vectors % half * m->sum_step + i % vectors * LANES);
    const int64_t *source_tap = m->source_tap, *w_tap = m->w_tap;
    const bool first_a = m->first_a, first_b = m->first_b, last_a = m->last_a, last_b = m->last_b;
    for (int64_t l = 0; l < m->line_count; l++) {
        const float *a = m->lines[l].a + m->at_a, *b = m->lines[l].b + m->at_b;
        const float *w = m->w + m->lines[l].kernel_row * m->w_row;
        for (int64_t c = 0; c < m->from; c++) {
            bool skip[24] = {false};
            for (int64_t t = 0; taps == 0 && t < m->taps; t++)
                correlate_step(half, vectors, a + source_tap[t], b + source_tap[t], w + w_tap[t], skip, sum);
            UNROLL for (int t = 0; t < taps; t++) {
                skip[0] = t == 0 && first_a, skip[half] = t == 0 && first_b;
                skip[half - 1] |= t == taps - 1 && last_a, skip[2 * half - 1] |= t == taps - 1 && last_b;
                correlate_step(half, vectors, a + source_tap[t], b + source_tap[t], w + w_tap[t], skip, sum);
            }
            a += m->source_channel;
            b += m->source_channel;
            w += m->w_from;
        }
    }
    UNROLL for (int i = 0; i < 2 * half * vectors; i++)
        vector_store(row[i / vectors / half] + i / vectors % half * m->sum_step + i % vectors * LANES, sum[i]);
}

#define CORRELATE_TAPS(half, vectors, taps) \
    static void correlate_##half##_##vectors##_##taps(const conv_micro *m) { correlate(half, vectors, taps, m); }
#define CORRELATE(half, vectors) \
    CORRELATE_TAPS(half, vectors, 0) CORRELATE_TAPS(half, vectors, 1) \
    CORRELATE_TAPS(half, vectors, 2) CORRELATE_TAPS(half, vectors, 3)

CORRELATE(1, 1) CORRELATE(2, 1) CORRELATE(3, 1) CORRELATE(4, 1) CORRELATE(5, 1) CORRELATE(6, 1)
CORRELATE(1, 2) CORRELATE(2, 2) CORRELATE(3, 2)
#if CONV_HALF_TWO == 7
CORRELATE(7, 1) CORRELATE(8, 1) CORRELATE(9, 1) CORRELATE(10, 1) CORRELATE(11, 1) CORRELATE(12, 1)
CORRELATE(4, 2) CORRELATE(5, 2) CORRELATE(6, 2) CORRELATE(7, 2)
#endif

#define N(half, vectors, taps) correlate_##half##_##vectors##_##taps
#if CONV_HALF_TWO == 7
#define HALVES_1(t) \
    {NULL, N(1, 1, t), N(2, 1, t), N(3, 1, t), N(4, 1, t), N(5, 1, t), N(6, 1, t), N(7, 1, t), N(8, 1, t), N(9, 1, t), \
     N(10, 1, t), N(11, 1, t), N(12, 1, t)}
#define HALVES_2(t) {NULL, N(1, 2, t), N(2, 2, t), N(3, 2, t), N(4, 2, t), N(5, 2, t), N(6, 2, t), N(7, 2, t)}
#else
#define HALVES_1(t) {NULL, N(1, 1, t), N(2, 1, t), N(3, 1, t), N(4, 1, t), N(5, 1, t), N(6, 1, t)}
#define HALVES_2(t) {NULL, N(1, 2, t), N(2, 2, t), N(3, 2, t)}
#endif
const conv_micro_fn conv_micro_table[2][CONV_MICRO_TAPS + 1][CONV_HALF_ONE + 1] = {
    {HALVES_1(0), HALVES_1(1), HALVES_1(2), HALVES_1(3)},
    {HALVES_2(0), HALVES_2(1), HALVES_2(2), HALVES_2(3)},
};
#undef N

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
