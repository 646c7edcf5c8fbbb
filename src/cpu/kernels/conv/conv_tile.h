/* A tile: some neighbouring result lines of one image, with the packed source lines that they need.
 *
 * Model.  Result lines are numbered depth * height + row.  A tile covers the numbers [begin, end).  Every source line
 * that a tap touches is packed once; lines outside the source (padding) are skipped.  Small NCHW images without
 * padding and strides need no packing: there `lines` point into the source itself.  The plan is the same for every
 * image, so it is recomputed only for another range of lines.  `works` is the plan: one
 * entry per result line, or per pair of lines if lines are short.  A tile of two images pairs every line with that of
 * the other image: no line is left over, and both lines of a pair read the padding at the same places.
 *
 *     works:  | line 0 | line 1 | line 2+3 | ...        lines:  | a b row | a b row | a b row | ...
 *                 \_________________________ first, count ________/
 *
 * Invariant: `lines` of a work have ascending kernel rows; a half that a kernel row does not use points at
 * zeros.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_CONV_TILE_H
#define MX_CPU_CONV_TILE_H

#include "cpu/kernels/conv/conv_job.h"
#include "cpu/kernels/conv/conv_micro.h"

#define conv_tile_open MX_LEVEL_NAME(conv_tile_open)
#define conv_tile_close MX_LEVEL_NAME(conv_tile_close)
#define conv_tile_fill MX_LEVEL_NAME(conv_tile_fill)
#define conv_tile_height MX_LEVEL_NAME(conv_tile_height)

typedef struct conv_work {
    int64_t line_a, line_b; /* result line numbers; line_b < 0: no pair; lines of a second image follow the first's */
    int64_t first, count;   /* its part of `lines` */
} conv_work;

typedef struct conv_tile {
    const conv_job *job;
    int64_t capacity;    /* most result lines */
    int64_t channels;    /* most source channels at once */
    bool in_place;       /* lines are read in place, not packed */
    int64_t channel;     /* floats between the channels of a line */
    int64_t line;        /* floats of a packed source line: channels * phases * length, and spare ones */
    int64_t twin;        /* floats between a source line of the first and of the second image */
    int images;          /* 1 or 2, for which `works` was planned ... */
    int64_t begin, end;  /* ... and result lines */
    const float *source; /* ... and where `lines` point when in_place */
    bool pairs;          /* pair neighbouring lines where possible */
    float *packed;       /* source lines in order of first use, after one line of zeros */
    int64_t *slot;       /* (source lines) where a source line is packed, or -1 */
    int64_t *order;      /* where the source line of each slot begins in the source */
    int64_t used;        /* slots in use, the zeros included */
    conv_lines *lines;
    conv_work *works;
    int64_t work_count;
    float *extra; /* floats that the caller requested */
    void *memory; /* owns all of the above */
    size_t bytes;
} conv_tile;

/* How many result lines a tile should have so that its packed lines of `channels` channels stay in the cache. */
int64_t conv_tile_height(const conv_job *job, int64_t channels);

/* images: most images at once, 1 or 2. */
mx_code conv_tile_open(conv_tile *t, const conv_job *job, int images, int64_t capacity, int64_t channels, bool pairs,
                       int64_t extra);
void conv_tile_close(conv_tile *t);

/* Packs the lines for result lines [begin, end) of an image, or of it and the next; `source` points at channel 0 of the
 * group's part to be summed. */
void conv_tile_fill(conv_tile *t, const float *source, int images, int64_t channels, int64_t begin, int64_t end);

#endif
