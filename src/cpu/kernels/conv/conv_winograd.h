/* 3x3 convolutions by Winograd's minimal filtering: 16 products for 4 results instead of 36.
 *
 *     V = B' d B   16 numbers per tile of 4x4 pixels and channel     B' = ( 1  0 -1  0 |  0  1  1  0 |
 *     U = G w G'   16 numbers per 3x3 weight                                0 -1  1  0 |  0  1  0 -1 )
 *     M = U V      number by number: 16 matrix products              G  = ( 1  0  0 | 1/2  1/2  1/2 |
 *     y = A' M A   the 2x2 results of a tile                                1/2 -1/2  1/2 |  0  0  1 )
 *                                                                    A' = ( 1  1  1  0 |  0  1 -1 -1 )
 *
 * The data gradient is the same with the weight turned around.  The gradient of the weight is dw = G' dU G, where dU is
 * the sum over all tiles of (A dy A') V.
 *
 * Lanes are tiles.  Tiles are numbered line by line through all images; a strip is some lines of tiles whose numbers
 * stay in the caches.  Strips follow from the shape alone, so results do not depend on the number of threads, which
 * share the channels of the transformations, and the products.  Rounding errors are close to those of direct sums; a
 * value that is not finite makes all results of its tiles NaN.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_CONV_WINOGRAD_H
#define MX_CPU_CONV_WINOGRAD_H

#include "cpu/kernels/conv/conv_job.h"
#include "cpu/kernels/conv/conv_vector.h"

#define conv_winograd_open MX_LEVEL_NAME(conv_winograd_open)
#define conv_winograd_next MX_LEVEL_NAME(conv_winograd_next)
#define conv_winograd_sources MX_LEVEL_NAME(conv_winograd_sources)

#define WINOGRAD_NUMBERS 16 /* of a tile */
#define WINOGRAD_UNROLL _Pragma("GCC unroll 4")

typedef struct conv_winograd {
    const conv_job *job;
    const float *source;
    int64_t down, across;   /* tiles of an image */
    int64_t rows;           /* lines of tiles in a strip ... */
    int64_t begin, end;     /* ... and those of this one, counted through all images */
    int64_t pitch;          /* floats from one channel to the next in V and M; a vector past the last tile has room */
    int64_t v_step, m_step; /* floats from one of the 16 numbers to the next */
    int64_t grain;          /* channels of a strip that are worth a thread */
    int parts;
    float *u, *v, *m; /* U (16, to, from), V (16, from, pitch), M (16, to, pitch); one block of memory */
    float *pixels;    /* (parts) lines of a channel */
    size_t bytes;
} conv_winograd;

/* Chooses the strips and takes the memory: the caller gives back `u`. */
mx_code conv_winograd_open(conv_winograd *p, const conv_job *job, const float *source);

/* The next strip; false after the last one, or if the kernel is to stop. */
bool conv_winograd_next(conv_winograd *p);

/* Computes V of the strip. */
void conv_winograd_sources(conv_winograd *p);

static inline int64_t winograd_least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Where line `r` of tiles is: the first of its two lines of pixels. */
static inline int64_t winograd_image(const conv_winograd *p, int64_t r) { return r / p->down; }
static inline int64_t winograd_line(const conv_winograd *p, int64_t r) { return r % p->down * 2; }

#endif
