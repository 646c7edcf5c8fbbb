/* Packing weights for lanes of channels, and back (layout in conv_pack.h).
 *
 * Both walk the unpacked weight along its contiguous runs and transpose squares of LANES channels x LANES run elements,
 * so that every load and store is a vector.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/conv/conv_pack.h"

#include "base/threads.h"

#define RUN_AHEAD 64 /* floats between prefetching a part of a run and moving it */

typedef struct pack_run {
    const conv_weight *k;
    const float *from; /* unpacked or packed weight, whichever is read */
    float *to;
    bool back; /* packed to unpacked */
} pack_run;

/* Walks along a run of the unpacked weight and tracks where each element is in the packed block. */
typedef struct run_cursor {
    int64_t tap, row;         /* of the element */
    int64_t channel;          /* where its channel begins in the packed block */
    int64_t at;               /* where the element is */
    int64_t s_channel, s_row; /* floats from a channel, from a kernel row to the next */
} run_cursor;

static inline run_cursor cursor_at(const conv_weight *k, int64_t size, int64_t c, int64_t t)
{
    run_cursor at = {.tap = t % k->taps, .row = t / k->taps, .s_channel = k->taps * size};
    at.s_row = k->from * at.s_channel;
    at.channel = c * at.s_channel;
    at.at = at.channel + at.row * at.s_row + at.tap * size;
    return at;
}

static inline void advance(const conv_weight *k, int64_t size, run_cursor *at)
{
    if (k->s_tap != 1) { /* runs go along the channels */
        at->at += at->s_channel;
        return;
    }
    at->at += size;
    if (++at->tap < k->taps) /* runs go along the taps, then the channels */
        return;
    at->tap = 0;
    at->at += at->s_row - at->s_channel;
    if (++at->row == k->rows) {
        at->row = 0;
        at->at = at->channel += at->s_channel;
    }
}

static void square_in(const float *w, int64_t stride, int64_t channels, int64_t count, float *block,
                      const int64_t at[LANES])
{
    vfloat v[LANES];
    if (channels == LANES && count == LANES) {
        vector_load_turned(v, w, stride);
        _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) vector_store(block + at[i], v[i]);
        return;
    }
    for (int64_t i = 0; i < LANES; i++)
        v[i] = i < channels ? vector_load_part(w + i * stride, count) : (vfloat){0};
    vector_transpose(v);
    for (int64_t i = 0; i < count; i++)
        vector_store(block + at[i], v[i]);
}

static void square_out(const float *block, const int64_t at[LANES], int64_t channels, int64_t count, float *w,
                       int64_t stride)
{
    vfloat v[LANES];
    for (int64_t i = 0; i < LANES; i++)
        v[i] = i < count ? vector_load(block + at[i]) : (vfloat){0};
    vector_transpose(v);
    for (int64_t i = 0; i < channels; i++)
        vector_store_part(w + i * stride, v[i], count);
}

/* One run of `count` elements at unpacked offset `plain`, for all lanes of a block.  Elements `ahead` floats later are
 * prefetched: the processor does not follow so many parallel runs by itself. */
static void move_run(const pack_run *r, int64_t b, int64_t plain, int64_t c, int64_t t, int64_t count, int64_t ahead)
{
    const conv_weight *k = r->k;
    const int64_t size = conv_block_size(k->to, b), block = conv_block_at(k, b);
    run_cursor cursor = cursor_at(k, size, c, t);
    for (int64_t e = 0; e < count; e += LANES) {
        int64_t at[LANES];
        const int64_t columns = count - e < LANES ? count - e : LANES;
        for (int64_t i = 0; i < columns; i++, advance(k, size, &cursor))
            at[i] = block + cursor.at;
        for (int64_t lane = 0; lane < size; lane += LANES) {
            const int64_t channel = b * CONV_BLOCK + lane, left = k->to - channel;
            const int64_t channels = left < LANES ? left : LANES;
            const int64_t w = channel * k->s_to + plain + e;
            const float *next = (r->back ? r->to : r->from) + w + ahead;
            for (int64_t i = 0; i < channels; i++)
                __builtin_prefetch(next + i * k->s_to, 0, 2);
            if (r->back)
                square_out(r->from + lane, at, channels, columns, r->to + w, k->s_to);
            else
                square_in(r->from + w, k->s_to, channels, columns, r->to + lane, at);
        }
    }
}

/* The channels of a block are contiguous in the unpacked weight (the data gradient of channels-last weights). */
static void move_beside(const pack_run *r, int64_t b, int64_t plain, int64_t c, int64_t t)
{
    const int64_t size = conv_block_size(r->k->to, b), at = conv_block_at(r->k, b) + cursor_at(r->k, size, c, t).at;
    for (int64_t lane = 0; lane < size; lane += LANES) {
        const int64_t channel = b * CONV_BLOCK + lane, left = r->k->to - channel;
        if (r->back)
            vector_store_part(r->to + plain + channel, vector_load(r->from + at + lane), left);
        else
            vector_store(r->to + at + lane, vector_load_part(r->from + plain + channel, left));
    }
}

static void move_block(const pack_run *r, int64_t b)
{
    const conv_weight *k = r->k;
    const int64_t all = k->rows * k->taps;
    if (k->s_tap == 1 && k->s_from == all && k->s_to != 1)
        move_run(r, b, 0, 0, 0, k->from * all, RUN_AHEAD);
    else if (k->s_from == 1 && k->s_to != 1)
        for (int64_t t = 0; t < all; t++)
            move_run(r, b, t * k->s_tap, 0, t, k->from, RUN_AHEAD);
    else
        for (int64_t c = 0; c < k->from; c++)
            for (int64_t t = 0; t < all; t++)
                move_beside(r, b, c * k->s_from + t * k->s_tap, c, t);
}

static void move_blocks(void *arg, int64_t begin, int64_t end)
{
    const pack_run *r = arg;
    const conv_weight *k = r->k;
    const int64_t all = k->rows * k->taps;
    if (k->s_tap == 1 && k->s_from != all && k->s_to != 1) { /* data gradient: the blocks of a channel are neighbours */
        for (int64_t c = 0; c < k->from; c++)
            for (int64_t b = begin; b < end; b++)
                move_run(r, b, c * k->s_from, c, 0, all, 2 * CONV_BLOCK * k->s_to);
        return;
    }
    for (int64_t b = begin; b < end; b++)
        move_block(r, b);
}

static void move_all(pack_run *r)
{
    const conv_weight *k = r->k;
    const int64_t block = CONV_BLOCK * k->from * k->rows * k->taps;
    mx_parallel(conv_blocks(k->to), MX_GRAIN / (block < MX_GRAIN ? block : MX_GRAIN), move_blocks, r);
}

void conv_pack_weight(const conv_weight *k, const float *w, float *packed)
{
    move_all(&(pack_run){.k = k, .from = w, .to = packed});
}

void conv_unpack_weight(const conv_weight *k, const float *packed, float *w)
{
    move_all(&(pack_run){.k = k, .from = packed, .to = w, .back = true});
}
