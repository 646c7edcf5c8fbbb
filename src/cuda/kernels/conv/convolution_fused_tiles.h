/* Convolution with channels last and what follows it, as one product of matrices that is cut into tiles.
 *
 *     y (pixels, O) = limits(runs (pixels, K) x w (O, K)' + bias + addend)      K = window rows * window columns * C
 *
 * A block of threads makes one tile of y; a cluster of blocks shares the sum over K if there are too few tiles to keep the
 * device busy.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_CONVOLUTION_FUSED_TILES_H
#define MX_CUDA_CONVOLUTION_FUSED_TILES_H

#include "cuda/cuda.h"

struct mx_cuda_fused_tiles {
    const void *x, *w, *bias, *addend; /* (N, H, W, C), (O, kernel, C), (O), like y; the last two may be NULL */
    void *y;                           /* (N, rows, columns, O) */
    int batch, height, width, channels, filters, rows, columns;
    int kernel[2], stride[2], pad[2], dilate[2];
    float low, high; /* limits; infinite: none */
    int steady;      /* no kernel of the same graph writes w or bias: they are read before earlier kernels have ended */

    int pixels() const { return batch * rows * columns; }
};

/* Tiles: pixels, filters, warps along both, chunks of K in shared memory, blocks of a multiprocessor. */
#define MX_CUDA_FUSED_TILINGS(X) \
    X(128, 128, 2, 4, 3, 2) X(128, 64, 2, 2, 3, 3) X(128, 64, 2, 2, 2, 3) X(128, 32, 4, 1, 5, 2) X(64, 64, 2, 2, 7, 2) \
    X(64, 64, 2, 2, 4, 3) X(64, 64, 2, 2, 2, 4) X(64, 32, 2, 2, 4, 4) X(64, 32, 2, 2, 2, 5) X(32, 32, 2, 1, 6, 4)
#define MX_CUDA_FUSED_RANKS 4 /* clusters of 1, 2, 4 and 8 blocks */
#define MX_CUDA_FUSED_COUNT 10 /* tilings */

/* Channels, filters and memory are multiples of 16 bytes, sizes below 2^31. */
bool mx_cuda_fused_tiles_suit(int dtype, const mx_cuda_fused_tiles &job);
/* False: not worth a try, as the tile is much larger than what there is, or the chunks are too few for the cluster. */
bool mx_cuda_fused_tiling_suits(int dtype, const mx_cuda_fused_tiles &job, int tiling, int ranks, int multiprocessors);
/* early: with the launch attribute of kernels/early.h */
cudaError_t mx_cuda_run_fused_tiles(cudaStream_t stream, int dtype, const mx_cuda_fused_tiles &job, int tiling,
                                    int ranks, bool early);

#endif
