/* Candidates by descending score, and which of them are suppressed by better ones.
 *
 * The number of candidates is known on the device only: the host plans for the maximum, and kernels with no candidates
 * left do nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_NMS_H
#define MX_CUDA_NMS_H

#include "cuda/kernels/numbers.h"
extern "C" {
#include "op/formula/boxes.h"
}

/* ---- ranking -------------------------------------------------------------------------------------------------- */

#define MX_CUDA_NO_CANDIDATE UINT64_MAX /* a key after all others */

/* The smaller the key, the larger the score; NaN comes last. */
static __device__ inline uint64_t mx_cuda_score_key(double score)
{
    const uint64_t top = (uint64_t)1 << 63, bits = (uint64_t)__double_as_longlong(score);
    if (score != score)
        return MX_CUDA_NO_CANDIDATE - 1;
    return ~(bits == top ? top : bits & top ? ~bits : bits | top);
}

/* Fill in the keys, then sort.  Equal scores keep their order. */
struct mx_cuda_ranking {
    int64_t batches, n;
    mx_cuda_scratch room;
    uint64_t *keys; /* (batches, n) */
    int64_t *order; /* (batches, n): their numbers in the batch, the best first */
    int64_t *count; /* (batches): number of candidates */
    mx_cuda_ranking(mx_cuda_device *d, int64_t batches, int64_t n); /* keys NULL: out of memory */
    mx_cuda_ranking(const mx_cuda_ranking &) = delete;
    mx_code sort(const mx_kernel_call *call);
};

/* ---- suppression ---------------------------------------------------------------------------------------------- */

struct mx_cuda_box {
    mx_box box;
    double area, tag; /* tag: the class, or another number of the box */
};

static __device__ inline mx_cuda_box mx_cuda_box_of(mx_box b, double tag) { return {b, mx_box_area(b), tag}; }

/* An overlap above the threshold (or equal to it) and, unless all classes meet, the same class. */
struct mx_cuda_overlaps {
    double threshold;
    bool equal, all_classes;
    __device__ bool operator()(const mx_cuda_box &a, const mx_cuda_box &b) const
    {
        if (!all_classes && a.tag != b.tag)
            return false;
        if (threshold > 0 && (a.box.left >= b.box.right || b.box.left >= a.box.right || a.box.top >= b.box.bottom ||
                              b.box.top >= a.box.bottom))
            return false; /* most pairs do not overlap */
        return mx_box_suppressed(mx_box_overlap_of(a.box, a.area, b.box, b.area), threshold, equal);
    }
};

#define MX_CUDA_NMS_TILE 512 /* boxes that are settled at a time, and threads */
#define MX_CUDA_NMS_WORDS (MX_CUDA_NMS_TILE / 32)

/* For boxes [first, first + 32) of a tile of n: which later boxes of the tile they suppress, WORDS of bits for each. */
template <class F> __device__ void mx_cuda_nms_meet(const mx_cuda_box *boxes, int n, int first, uint32_t *hits, F hit)
{
    __shared__ mx_cuda_box better[32];
    const int mine = threadIdx.x;
    __syncthreads();
    if (mine < 32 && first + mine < n)
        better[mine] = boxes[first + mine];
    __syncthreads();
    const mx_cuda_box own = boxes[mine < n ? mine : 0];
    for (int i = 0; i < 32 && first + i < n; i++) {
        const bool met = mine > first + i && mine < n && hit(better[i], own);
        const uint32_t votes = __ballot_sync(0xffffffffu, met);
        if (mine % 32 == 0)
            hits[(first + i) * MX_CUDA_NMS_WORDS + mine / 32] = votes;
    }
}

/* Settles a tile of n boxes: one after the other, the remaining ones suppress those they overlap. */
static __device__ inline void mx_cuda_nms_settle(const uint32_t *hits, unsigned char *gone, int n)
{
    __shared__ uint32_t rows[MX_CUDA_NMS_TILE][MX_CUDA_NMS_WORDS], out[MX_CUDA_NMS_WORDS];
    const int mine = threadIdx.x, word = mine % MX_CUDA_NMS_WORDS;
    __syncthreads();
    for (int i = mine; i < n * MX_CUDA_NMS_WORDS; i += blockDim.x)
        rows[i / MX_CUDA_NMS_WORDS][i % MX_CUDA_NMS_WORDS] = hits[i];
    const uint32_t votes = __ballot_sync(0xffffffffu, mine >= n || gone[mine]); /* lanes without a box count as gone */
    if (mine % 32 == 0)
        out[mine / 32] = votes;
    __syncthreads();
    if (mine < 32) {
        uint32_t all = out[word]; /* of the lane's word */
        for (int w = 0; w < MX_CUDA_NMS_WORDS; w++) {
            uint32_t now = __shfl_sync(0xffffffffu, all, w), left = ~now;
            while (left) {
                const int bit = __ffs(left) - 1;
                now |= rows[32 * w + bit][w], all |= rows[32 * w + bit][word];
                left = ~now & ~((2u << bit) - 1);
            }
        }
        __syncwarp(); /* all lanes have read */
        if (mine < MX_CUDA_NMS_WORDS)
            out[word] = all;
    }
    __syncthreads();
    if (mine < n)
        gone[mine] = out[mine / 32] >> mine % 32 & 1;
}

/* Marks box `mine` if one of the remaining boxes of a tile suppresses it. */
template <class F>
__device__ void mx_cuda_nms_spread(const mx_cuda_box *boxes, const unsigned char *gone, const mx_cuda_box *mine,
                                   unsigned char *out, F hit)
{
    __shared__ mx_cuda_box tile[MX_CUDA_NMS_TILE];
    __shared__ unsigned char left[MX_CUDA_NMS_TILE];
    __syncthreads();
    tile[threadIdx.x] = boxes[threadIdx.x], left[threadIdx.x] = !gone[threadIdx.x];
    __syncthreads();
    if (!mine || *out)
        return;
    const mx_cuda_box own = *mine;
    bool hits = false;
    for (int i = 0; i < MX_CUDA_NMS_TILE && !hits; i++)
        hits = left[i] && hit(tile[i], own);
    if (hits)
        *out = 1;
}

/* boxes (batches, n): best first; count (batches): how many of them are used */
struct mx_cuda_candidates {
    int64_t batches, n;
    const mx_cuda_box *boxes;
    const int64_t *count;
    unsigned char *gone; /* (batches, n): the result */
};

template <class F>
__global__ void __launch_bounds__(MX_CUDA_NMS_TILE) mx_cuda_nms_meet_kernel(mx_cuda_candidates c, uint32_t *hits, F hit)
{
    const int64_t tiles = (c.n + MX_CUDA_NMS_TILE - 1) / MX_CUDA_NMS_TILE,
                  units = c.batches * tiles * MX_CUDA_NMS_WORDS;
    for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const int64_t b = unit / MX_CUDA_NMS_WORDS / tiles, start = unit / MX_CUDA_NMS_WORDS % tiles * MX_CUDA_NMS_TILE;
        const int64_t left = c.count[b] - start, at = b * c.n + start;
        if (left > 0)
            mx_cuda_nms_meet(c.boxes + at, (int)(left < MX_CUDA_NMS_TILE ? left : MX_CUDA_NMS_TILE),
                             (int)(unit % MX_CUDA_NMS_WORDS) * 32, hits + at * MX_CUDA_NMS_WORDS, hit);
    }
}

static __global__ void __launch_bounds__(MX_CUDA_NMS_TILE)
    mx_cuda_nms_settle_kernel(mx_cuda_candidates c, const uint32_t *hits, int64_t start)
{
    for (int64_t b = blockIdx.x; b < c.batches; b += gridDim.x) {
        const int64_t left = c.count[b] - start, at = b * c.n + start;
        if (left > 1)
            mx_cuda_nms_settle(hits + at * MX_CUDA_NMS_WORDS, c.gone + at,
                               (int)(left < MX_CUDA_NMS_TILE ? left : MX_CUDA_NMS_TILE));
    }
}

/* Applies the tile that starts there to the `chunks` tiles after it. */
template <class F>
__global__ void __launch_bounds__(MX_CUDA_NMS_TILE)
    mx_cuda_nms_spread_kernel(mx_cuda_candidates c, int64_t start, int64_t chunks, F hit)
{
    for (int64_t unit = blockIdx.x; unit < c.batches * chunks; unit += gridDim.x) {
        const int64_t b = unit / chunks, at = b * c.n + start, first = (unit % chunks + 1) * MX_CUDA_NMS_TILE,
                      k = first + threadIdx.x;
        if (start + first < c.count[b])
            mx_cuda_nms_spread(c.boxes + at, c.gone + at, start + k < c.count[b] ? c.boxes + at + k : nullptr,
                               c.gone + at + k, hit);
    }
}

/* gone[k] becomes 1 where a remaining better box suppresses box k.  All overlaps inside of tiles are found at once;
 * then one tile after the other is settled, and applied to all boxes after it. */
template <class F> mx_code mx_cuda_suppress(const mx_kernel_call *call, const mx_cuda_candidates &c, F hit)
{
    const int64_t tile = MX_CUDA_NMS_TILE, words = MX_CUDA_NMS_WORDS, tiles = (c.n + tile - 1) / tile;
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || !c.batches || !c.n)
        return d ? MX_OK : mx_error_code();
    mx_cuda_scratch room(d, (size_t)(c.batches * c.n * words) * sizeof(uint32_t));
    uint32_t *hits = room.as<uint32_t>();
    if (!hits || mx_cuda_fail(cudaMemsetAsync(c.gone, 0, (size_t)(c.batches * c.n), d->stream), call->op->name))
        return mx_error_code();
    mx_cuda_nms_meet_kernel<<<mx_cuda_blocks(d, c.batches * tiles * words), (int)tile, 0, d->stream>>>(c, hits, hit);
    for (int64_t start = 0; start < c.n; start += tile) {
        const int64_t chunks = (c.n - start - 1) / tile;
        mx_cuda_nms_settle_kernel<<<mx_cuda_blocks(d, c.batches), (int)tile, 0, d->stream>>>(c, hits, start);
        if (chunks)
            mx_cuda_nms_spread_kernel<<<mx_cuda_blocks(d, c.batches * chunks), (int)tile, 0, d->stream>>>(c, start,
                                                                                                          chunks, hit);
    }
    return mx_cuda_launched(call);
}

/* ---- packing -------------------------------------------------------------------------------------------------- */

/* The number of threads of the block before this one whose flag is set; *all: of all threads of the block. */
static __device__ inline int mx_cuda_block_rank(bool flag, int *all)
{
    __shared__ int counts[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    const unsigned votes = __ballot_sync(0xffffffffu, flag);
    int before = 0, sum = 0;
    __syncthreads();
    if (!lane)
        counts[warp] = __popc(votes);
    __syncthreads();
    for (int w = 0; w < warps; w++)
        before += w < warp ? counts[w] : 0, sum += counts[w];
    *all = sum;
    return before + __popc(votes & ((1u << lane) - 1));
}

/* put(i, k) for the k-th i of [0, n) with test(i), by all threads of a block; returns their number. */
template <class F, class G> __device__ int64_t mx_cuda_block_pack(int64_t n, F test, G put)
{
    int64_t done = 0;
    for (int64_t first = 0; first < n; first += blockDim.x) {
        const int64_t i = first + threadIdx.x;
        const bool flag = i < n && test(i);
        int all;
        const int rank = mx_cuda_block_rank(flag, &all);
        if (flag)
            put(i, done + rank);
        done += all;
    }
    return done;
}

#endif
