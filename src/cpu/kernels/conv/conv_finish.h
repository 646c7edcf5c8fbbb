/* Writing finished sums into the result.
 *
 * The inner loop leaves the sums of a tile of lines as (positions, channels of a block), lines one after the other as
 * in the result.  So a tile is stored as one long run of positions, with bias and relu: squares are transposed for the
 * NCHW layout, and only the last vector is a partial one.
 *
 * Invariant: LANES spare rows follow the sums, so full squares may be loaded at any position.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_CONV_FINISH_H
#define MX_CPU_CONV_FINISH_H

#include <math.h>

#include "cpu/kernels/conv/conv_vector.h"

typedef struct conv_write {
    const float *bias; /* of the block's first channel, or NULL */
    bool add;          /* add to what the result holds: an earlier part of the sum */
    bool relu;
    int64_t size;                  /* channels of the block, with padding */
    int64_t channels;              /* valid channels of the block */
    int64_t s_channel, s_position; /* strides of the result */
} conv_write;

/* Prefetches the cache lines of `count` positions of the result (NCHW layout) long before they are written. */
static inline void conv_prefetch_result(const conv_write *f, int64_t count, const float *result)
{
    if (f->s_channel == 1)
        return;
    for (int64_t c = 0; c < f->channels; c++) {
        const float *to = result + c * f->s_channel;
        for (int64_t p = 0; p < count; p += 16)
            __builtin_prefetch(to + p, 1, 2);
        __builtin_prefetch(to + count - 1, 1, 2);
    }
}

static inline vfloat finish_vector(const conv_write *f, vfloat v, vfloat bias, const float *to, int64_t left)
{
    v += bias;
    if (f->add)
        v += vector_load_part(to, left);
    return f->relu ? vector_max((vfloat){0}, v) : v;
}

static inline void finish_channels(const conv_write *f, const float *sums, int64_t count, float *result)
{
    for (int64_t p = 0; p < count; p++)
        for (int64_t c = 0; c < f->channels; c += LANES) {
            const int64_t left = f->channels - c;
            float *to = result + p * f->s_position + c;
            const vfloat bias = f->bias ? vector_load_part(f->bias + c, left) : (vfloat){0};
            vector_store_part(to, finish_vector(f, vector_load(sums + p * f->size + c), bias, to, left), left);
        }
}

/* A full square: LANES channels and positions. */
CONV_INLINE void finish_square(const bool add, const float *sums, int64_t size, const float *bias, vfloat floor,
                               float *to, int64_t s_channel)
{
    vfloat v[LANES];
    vector_load_turned(v, sums, size);
    _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++, to += s_channel)
    {
        v[i] += vector_all(bias[i]);
        if (add)
            v[i] += vector_load(to);
        vector_store(to, vector_max(floor, v[i]));
    }
}

static inline void finish_square_add(const float *sums, int64_t size, const float *bias, vfloat floor, float *to,
                                     int64_t s_channel)
{
    finish_square(true, sums, size, bias, floor, to, s_channel);
}
static inline void finish_square_new(const float *sums, int64_t size, const float *bias, vfloat floor, float *to,
                                     int64_t s_channel)
{
    finish_square(false, sums, size, bias, floor, to, s_channel);
}

/* The rest of a row of squares from position p on, or a square of fewer channels. */
static inline void finish_edge(const conv_write *f, const float *sums, int64_t c, int64_t p, int64_t count,
                               float *result)
{
    const int64_t channels = f->channels - c < LANES ? f->channels - c : LANES;
    vfloat v[LANES];
    for (int64_t i = 0; i < LANES; i++)
        v[i] = vector_load(sums + (p + i) * f->size + c);
    vector_transpose(v);
    float *to = result + c * f->s_channel + p;
    for (int64_t i = 0; i < channels; i++, to += f->s_channel) {
        const vfloat bias = vector_all(f->bias ? f->bias[c + i] : 0);
        vector_store_part(to, finish_vector(f, v[i], bias, to, count - p), count - p);
    }
}

/* LANES channels from c on. */
static inline void finish_plain(const conv_write *f, const float *sums, int64_t c, int64_t count, float *result)
{
    static const float none[LANES] = {0};
    const vfloat floor = vector_all(f->relu ? 0 : -INFINITY);
    const float *bias = f->bias ? f->bias + c : none;
    float *to = result + c * f->s_channel;
    int64_t p = 0;
    for (; f->channels - c >= LANES && p + LANES <= count; p += LANES)
        (f->add ? finish_square_add : finish_square_new)(sums + p * f->size + c, f->size, bias, floor, to + p,
                                                         f->s_channel);
    for (; p < count; p += LANES)
        finish_edge(f, sums, c, p, count, result);
}

/* Writes `count` neighbouring positions of the result from their sums. */
static inline void conv_finish(const conv_write *f, const float *sums, int64_t count, float *result)
{
    if (f->s_channel == 1) {
        finish_channels(f, sums, count, result);
        return;
    }
    for (int64_t c = 0; c < f->channels; c += LANES)
        finish_plain(f, sums, c, count, result);
}

#endif
