/* How a small convolution is cut into tiles; its kernel.
 *
 * All three directions are one product of matrices, (m, k) x (k, n) summed over k:
 *
 *                m                    k                    n           the other operand
 *     forward    pixels of y          (C, kh, kw) of x     O           w
 *     data       pixels of dx         (O, kh, kw) of dy    C           w, taps backwards      stride 1
 *     weight     (C, kh, kw) of x     pixels of dy         O           dy                     + sums of dy over pixels
 *
 * The source (x or dy) is stored in shared memory as it is, with zeros around it: element (m, k) is at offset of the
 * pixel + offset of the tap in it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_CONVOLUTION_SMALL_TILES_H
#define MX_CUDA_CONVOLUTION_SMALL_TILES_H

#include "cuda/kernels/conv/convolution_dnn.h"

#define MX_CUDA_TILE_STAGES 3 /* most chunks in shared memory: two being copied, one in use */

/* Division by a number that is known on the host: n / by for n * by < 2^32. */
struct mx_cuda_divisor {
    uint32_t by, magic; /* magic 0: by is 1 */
    mx_cuda_divisor(int number = 1)
        : by((uint32_t)number), magic(number == 1 ? 0 : (uint32_t)((1ull << 32) / (uint32_t)number) + 1)
    {
    }
    __device__ int quotient(int n) const { return magic ? (int)__umulhi((uint32_t)n, magic) : n; }
};

/* How threads of a block share a loop over (outer, inner): all at inner, or in groups, each at another outer. */
struct mx_cuda_sharing {
    mx_cuda_divisor inner;
    int groups;
    mx_cuda_sharing(int count = 1, int threads = 1) : inner(count), groups(count < threads ? threads / count : 1) {}
};

struct mx_cuda_tiles {
    const float *source, *other; /* (N, channels, from), and the other operand */
    const float *bias;           /* forward; NULL: none */
    float *out, *sums;           /* sums (n): weight; NULL: not wanted */
    int direction;
    bool relu, exact;             /* exact: nearly the precision of float32, by three products */
    int batch, channels, results; /* channels of the source, count of n */
    int from[2], to[2];           /* source and pixels: height, width */
    int kernel[2], stride[2], dilate[2];
    int offset[2]; /* where pixel (0, 0) begins to read the source: -pad */
    int depth;     /* channels of the source with all taps */

    /* A tile: height of m, width of n.  A block has warps_m * warps_k warps; the latter share the work on k. */
    int shape; /* which kernel, an entry of mx_cuda_tile_shapes */
    int warps_m, warps_k, height, width, n_groups;
    int ranks;       /* blocks of a cluster, which share the work on k as well */
    int most_shared; /* bytes that a block can have on the device */
    /* k is split into chunks: some channels, or (weight) some pixels. */
    int images, rows, columns;                  /* pixels of a tile, or of a chunk: a box */
    int image_boxes, row_boxes, column_boxes;   /* how many boxes there are */
    int slab_channels, slab_rows, slab_columns; /* what a chunk needs of the source */
    int chunk, line;                            /* count of k, padded to 8; distance of two n */
    int chunks, all_chunks;                     /* of a block, of all */
    int vector;                                 /* floats of the other operand that are copied at once */
    /* What follows from these, see seal(). */
    int taps, to_size, plane, slab, stage, partial, work, received;
    mx_cuda_divisor per_tap, per_kernel_column, per_box, per_column, per_row_box, per_column_box, per_slab_column,
        per_rank, per_warp_m, per_four;
    mx_cuda_sharing at_source, at_other;

    int threads() const { return warps_m * warps_k * 32; }
    int m_tiles() const
    {
        return direction == MX_CUDA_WEIGHT ? (depth + height - 1) / height : image_boxes * row_boxes * column_boxes;
    }
    size_t shared_bytes() const
    {
        return ((size_t)work + received + 2 * height + width) * sizeof(float) + (size_t)chunk * sizeof(uint16_t);
    }
    /* Sizes in floats, once all of the above is known. */
    void seal()
    {
        taps = kernel[0] * kernel[1], to_size = to[0] * to[1], plane = slab_rows * slab_columns;
        slab = (slab_channels * images * plane + 3) / 4 * 4, stage = slab + width * line;
        /* Sums of the warps (warps_k, width, height + 4), in the place of the stages; [height]: sums of dy */
        partial = width * (height + 4);
        const int stages = (chunks < MX_CUDA_TILE_STAGES ? chunks : MX_CUDA_TILE_STAGES) * stage;
        work = stages > warps_k * partial ? stages : warps_k * partial;
        /* Sums of the blocks of a cluster (ranks, n / ranks, height + 4) */
        received = ranks > 1 ? (width + ranks - 1) / ranks * ranks * (height + 4) : 0;
        per_tap = taps, per_kernel_column = kernel[1], per_box = rows * columns, per_column = columns;
        per_row_box = row_boxes, per_column_box = column_boxes, per_slab_column = slab_columns;
        per_rank = ranks, per_warp_m = warps_m, per_four = height / 4 + 1;
        at_source = mx_cuda_sharing(plane, threads());
        at_other = mx_cuda_sharing(direction == MX_CUDA_DATA ? width * taps : chunk / vector, threads());
    }
};

/* Kernels by the blocks of 16 x 8 that a warp makes: m, n. */
#define MX_CUDA_TILE_SHAPES(X) X(1, 1) X(1, 2) X(1, 3) X(3, 3) X(2, 4) X(2, 7)
#define MX_CUDA_TILE_WARPS 16

struct mx_cuda_tile_shape {
    int m, n;
};
#define MX_CUDA_TILE_SHAPE(m, n) {m, n},
static const mx_cuda_tile_shape mx_cuda_tile_shapes[] = {MX_CUDA_TILE_SHAPES(MX_CUDA_TILE_SHAPE)};

/* How many clusters of so many blocks run at the same time, a block on each multiprocessor. */
int mx_cuda_tile_clusters(int ranks, int most_shared);
mx_code mx_cuda_run_tiles(const mx_kernel_call *call, mx_cuda_device *d, const mx_cuda_tiles &tiles);

#endif
