/* Writing finished sums into the result, one line of positions at a time.
 *
 * The inner loop leaves tiles (positions, channels of a block).  They are first collected in a line buffer that stays
 * in the first-level cache; then the whole line goes out with bias and relu, so every cache line of the result is
 * written once.  The buffer holds, per class of positions, (channels, positions) for the plain layout - squares are
 * transposed on the way - and (positions, channels) for channels last.
 *
 * Invariant: a buffer row has LANES spare floats, so whole vectors may be stored at any position.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_CONV_FINISH_H
#define MX_CPU_CONV_FINISH_H

#include "cpu/kernels/conv_vector.h"

typedef struct conv_write {
    const float *bias; /* of the block's first channel, or NULL */
    bool add;          /* add to what the result holds: an earlier part of the sum */
    bool relu;
    int64_t size;                  /* channels of the block, with padding */
    int64_t channels;              /* valid channels of the block */
    int64_t classes;               /* position c + classes * j lies at j of the buffer's class c */
    int64_t row;                   /* floats of a buffer row (plain layout) */
    int64_t buffer;                /* floats of a class in the buffer */
    int64_t s_channel, s_position; /* strides of the result */
} conv_write;

/* Floats between buffer rows for lines of `count` positions; odd in vectors, so that rows spread over the cache. */
static inline int64_t conv_buffer_row(int64_t count)
{
    return ((count + LANES - 1) / LANES + 1) / 2 * 2 * LANES + LANES;
}
/* Floats of the buffer of one class. */
static inline int64_t conv_buffer_size(int64_t count, int64_t size) { return size * conv_buffer_row(count); }

/* Asks for the cache lines of a result line (plain layout) long before they are written. */
static inline void conv_prefetch_line(const conv_write *f, int64_t count, const float *line)
{
    if (f->s_channel == 1)
        return;
    for (int64_t c = 0; c < f->channels; c++) {
        const float *to = line + c * f->s_channel;
        for (int64_t p = 0; p < count; p += 16)
            __builtin_prefetch(to + p, 1, 2);
        __builtin_prefetch(to + count - 1, 1, 2);
    }
}

/* Puts `count` positions of a tile into the buffer at position `at`. */
static inline void conv_collect(const conv_write *f, const float *tile, int64_t count, int64_t at, float *buffer)
{
    if (f->s_channel == 1) {
        memcpy(buffer + at * f->size, tile, (size_t)(count * f->size) * sizeof(float));
        return;
    }
    for (int64_t p = 0; p < count; p += LANES)
        for (int64_t c = 0; c < f->channels; c += LANES) {
            vfloat v[LANES];
            for (int64_t i = 0; i < LANES; i++) /* past the tile's end lies other scratch: those lanes are spare */
                v[i] = vector_load(tile + (p + i) * f->size + c);
            vector_transpose(v);
            for (int64_t i = 0; i < LANES; i++)
                vector_store(buffer + (c + i) * f->row + at + p, v[i]);
        }
}

static inline vfloat finish_vector(const conv_write *f, vfloat v, vfloat bias, const float *to, int64_t left)
{
    v += bias;
    if (f->add)
        v += vector_load_part(to, left);
    return f->relu ? vector_max((vfloat){0}, v) : v;
}

static inline void finish_channels(const conv_write *f, const float *buffer, int64_t count, float *line)
{
    for (int64_t p = 0; p < count; p++) {
        const float *from = buffer + p % f->classes * f->buffer + p / f->classes * f->size;
        for (int64_t c = 0; c < f->channels; c += LANES) {
            const int64_t left = f->channels - c;
            float *to = line + p * f->s_position + c;
            const vfloat bias = f->bias ? vector_load_part(f->bias + c, left) : (vfloat){0};
            vector_store_part(to, finish_vector(f, vector_load(from + c), bias, to, left), left);
        }
    }
}

static inline void finish_plain(const conv_write *f, const float *from, float bias, int64_t count, float *to)
{
    for (int64_t p = 0; p < count; p += LANES) {
        const vfloat v = finish_vector(f, vector_load(from + p), vector_all(bias), to + p, count - p);
        vector_store_part(to + p, v, count - p);
    }
}

/* Two classes: positions 0, 2, 4 ... and 1, 3, 5 ... are woven together. */
static inline void finish_woven(const conv_write *f, const float *from, float bias, int64_t count, float *to)
{
    for (int64_t p = 0; p < count; p += 2 * LANES) {
        const vfloat even = vector_load(from + p / 2), odd = vector_load(from + f->buffer + p / 2);
        const vfloat low = VECTOR_WEAVE_LOW(even, odd), high = VECTOR_WEAVE_HIGH(even, odd);
        vector_store_part(to + p, finish_vector(f, low, vector_all(bias), to + p, count - p), count - p);
        if (count - p > LANES) {
            const int64_t at = p + LANES;
            vector_store_part(to + at, finish_vector(f, high, vector_all(bias), to + at, count - at), count - at);
        }
    }
}

static inline void finish_classes(const conv_write *f, const float *from, float bias, int64_t count, float *to)
{
    for (int64_t p = 0; p < count; p++) {
        const float sum = from[p % f->classes * f->buffer + p / f->classes] + bias + (f->add ? to[p] : 0);
        to[p] = f->relu && sum < 0 ? 0 : sum;
    }
}

/* Writes a tile of LANES neighbouring positions of a plain result, without a buffer. */
static inline void conv_finish_square(const conv_write *f, const float *tile, float *to)
{
    vfloat v[LANES];
    for (int64_t i = 0; i < LANES; i++)
        v[i] = vector_load(tile + i * f->size);
    vector_transpose(v);
    for (int64_t i = 0; i < f->channels; i++, to += f->s_channel)
        vector_store(to, finish_vector(f, v[i], vector_all(f->bias ? f->bias[i] : 0), to, LANES));
}

/* Writes a line of `count` positions (all classes) from the buffer. */
static inline void conv_finish_line(const conv_write *f, const float *buffer, int64_t count, float *line)
{
    if (f->s_channel == 1) {
        finish_channels(f, buffer, count, line);
        return;
    }
    for (int64_t c = 0; c < f->channels; c++)
        (f->classes == 1 ? finish_plain
         : f->classes == 2
             ? finish_woven
             : finish_classes)(f, buffer + c * f->row, f->bias ? f->bias[c] : 0, count, line + c * f->s_channel);
}

#endif
