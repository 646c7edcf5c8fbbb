/* The kernel of small convolutions: a block of warps, or a cluster of blocks, makes a tile by tensor cores.
 *
 * Chunks of k (convolution_small_tiles.h) stream into shared memory (convolution_small_fetch.h).
 * A warp makes `height / warps_m` x `width` of the tile for every warps_k-th step of eight k.  In the end the warps'
 * sums are added in shared memory, those of a cluster's blocks in the memory of the block that owns n (n % ranks),
 * always in the same order; nothing else is launched.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/conv/convolution_small_fetch.h"

namespace
{

enum { MOST_THREADS = MX_CUDA_TILE_WARPS * 32, STAGES = MX_CUDA_TILE_STAGES };

/* ---- clusters ---------------------------------------------------------------------------------------------------- */

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define CLUSTERS(...) asm volatile(__VA_ARGS__)
#else
#define CLUSTERS(...) /* ranks is 1 */
#endif

__device__ void announce() { CLUSTERS("barrier.cluster.arrive.relaxed.aligned;"); }
__device__ void arrive() { CLUSTERS("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ void await() { CLUSTERS("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

/* *at = x, in the shared memory of another block of the cluster */
__device__ void store_there(float4 *at, int rank, float4 x)
{
    const unsigned here = (unsigned)__cvta_generic_to_shared(at);
    CLUSTERS("{ .reg .u32 there; mapa.shared::cluster.u32 there, %0, %1; "
             "st.shared::cluster.v4.f32 [there], {%2, %3, %4, %5}; }" ::"r"(here),
             "r"(rank), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w)
             : "memory");
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

__device__ float rest_of(float x, uint32_t big) { return x - __uint_as_float(big); }

/* A number as the sum of two TF32 numbers. */
template <bool EXACT> struct split {
    uint32_t big, small;
    __device__ split(float x) : big(mx_cuda_tf32(x)), small(EXACT ? mx_cuda_tf32(rest_of(x, big)) : 0) {}
};

template <int MT, int NT> struct sums {
    float tile[MT][NT][4], other[NT]; /* other: of the other operand over k */
};

/* What a thread needs for a step of eight k: two k, neighbours on both sides, of its rows of m and of its n. */
template <int MT, int NT> struct operands {
    float a[MT][4];
    float2 b[NT];
    __device__ void fill(const unsigned (*rows)[2], unsigned lines, unsigned step_n, uint32_t pair)
    {
        const unsigned first = (pair & 0xffff) * 4, second = (pair >> 16) * 4;
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                a[m][e] = load(rows[m][e % 2] + (e < 2 ? first : second));
#pragma unroll
        for (int n = 0; n < NT; n++)
            b[n] = load_pair(lines + n * step_n);
    }
    /* Tensor cores truncate when they add, so exact sums are accumulated outside of them. */
    template <bool EXACT, bool OTHERS> __device__ void multiply(sums<MT, NT> &s) const
    {
        uint32_t big[MT][4], small[MT][4];
#pragma unroll
        for (int i = 0; i < MT * 4; i++) {
            const split<EXACT> x(a[i / 4][i % 4]);
            big[i / 4][i % 4] = x.big, small[i / 4][i % 4] = x.small;
        }
#pragma unroll
        for (int n = 0; n < NT; n++) {
            const split<EXACT> x(b[n].x), y(b[n].y);
            const uint32_t big_b[2] = {x.big, y.big}, small_b[2] = {x.small, y.small};
            if (OTHERS)
                s.other[n] += b[n].x + b[n].y;
#pragma unroll
            for (int m = 0; m < MT; m++) {
                if (!EXACT) {
                    mx_cuda_multiply_add(s.tile[m][n], big[m], big_b);
                    continue;
                }
                float sum[4] = {};
                mx_cuda_multiply_add(sum, small[m], big_b);
                mx_cuda_multiply_add(sum, big[m], small_b);
                mx_cuda_multiply_add(sum, big[m], big_b);
#pragma unroll
                for (int e = 0; e < 4; e++)
                    s.tile[m][n][e] += sum[e];
            }
        }
    }
};

/* One chunk; the numbers of the next step are loaded before this one's are multiplied. */
template <int MT, int NT, bool EXACT, bool OTHERS>
__device__ void multiply(const job &j, unsigned stage, unsigned table, unsigned rows, int warp_k, sums<MT, NT> &s)
{
    const int lane = threadIdx.x % 32, t = lane % 4, step = j.warps_k * 8;
    const unsigned lines = stage + (j.slab + lane / 4 * j.line + 2 * t) * 4, step_n = 8 * j.line * 4;
    unsigned places[MT][2];
#pragma unroll
    for (int m = 0; m < MT * 2; m++)
        places[m / 2][m % 2] = stage + load_word(rows + (m * 8 + lane / 4) * 4);
    table += 4 * t;
    int k = warp_k * 8;
    if (k >= j.chunk)
        return;
    operands<MT, NT> now, next;
    now.fill(places, lines + k * 4, step_n, load_word(table + k * 2));
#pragma unroll 2
    for (;;) {
        const bool last = k + step >= j.chunk;
        k = last ? k : k + step;
        next.fill(places, lines + k * 4, step_n, load_word(table + k * 2));
        now.template multiply<EXACT, OTHERS>(s);
        if (last)
            return;
        now = next;
    }
}

/* After relu, if the floor is 0. */
__device__ float above(float floor, float x) { return x < floor ? floor : x; }

/* Writes the sums directly to the result: there are no others to add. */
template <int MT, int NT>
__device__ void put_result(const job &j, sums<MT, NT> &s, const int *places, const float *bias, int warp_m, int n0,
                           int step_n)
{
    const int lane = threadIdx.x % 32, row = lane / 4, t = lane % 4;
    const float floor = j.relu ? 0 : -INFINITY;
    int place[MT * 2];
#pragma unroll
    for (int m = 0; m < MT * 2; m++)
        place[m] = places[warp_m * MT * 16 + m * 8 + row];
#pragma unroll
    for (int n = 0; n < NT * 2; n++) {
        const int at = n / 2 * 8 + 2 * t + n % 2, offset = (n0 + at) * step_n;
        const bool wanted = n0 + at < j.results;
        const float plus = bias[at];
#pragma unroll
        for (int m = 0; m < MT * 2; m++) {
            const float x = above(floor, s.tile[m / 2][n / 2][m % 2 * 2 + n % 2] + plus);
            if (place[m] >= 0 && wanted)
                j.out[place[m] + offset] = x;
        }
    }
}

/* The warps' sums, to parts (warps_k, width, height + 4). */
template <int MT, int NT>
__device__ void put_sums(const job &j, sums<MT, NT> &s, float *parts, int warp_m, int warp_k, bool others)
{
    const int lane = threadIdx.x % 32, row = lane / 4, t = lane % 4, line = j.height + 4;
    float *to = parts + warp_k * j.partial + warp_m * MT * 16;
#pragma unroll
    for (int n = 0; n < NT; n++) {
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                to[(n * 8 + 2 * t + e % 2) * line + m * 16 + row + e / 2 * 8] = s.tile[m][n][e];
        if (!others)
            continue;
        float other = s.other[n];
        other += __shfl_xor_sync(0xffffffffu, other, 1);
        other += __shfl_xor_sync(0xffffffffu, other, 2);
        if (!warp_m && !t)
            to[(n * 8 + row) * line + j.height] = other;
    }
}

__device__ float4 add_up(const float *from, int terms, int step)
{
    float4 sum = *(const float4 *)from;
#pragma unroll 4
    for (int i = 1; i < terms; i++) {
        const float4 x = *(const float4 *)(from + i * step);
        sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
    }
    return sum;
}

/* Four rows of the tile, to the result. */
__device__ void put_four(const job &j, float *to, const int *places, float4 sum, float bias)
{
    const float floor = j.relu ? 0 : -INFINITY;
    const int4 at = *(const int4 *)places;
    sum.x = above(floor, sum.x + bias), sum.y = above(floor, sum.y + bias);
    sum.z = above(floor, sum.z + bias), sum.w = above(floor, sum.w + bias);
    if (at.x >= 0 && at.w == at.x + 3 && (size_t)(to + at.x) % 16 == 0) {
        *(float4 *)(to + at.x) = sum;
        return;
    }
    if (at.x >= 0)
        to[at.x] = sum.x;
    if (at.y >= 0)
        to[at.y] = sum.y;
    if (at.z >= 0)
        to[at.z] = sum.z;
    if (at.w >= 0)
        to[at.w] = sum.w;
}

/* Adds up what the warps, then what the blocks of a cluster have; writes the result.  Block n % ranks owns n. */
__device__ void finish(const job &j, const float *parts, float *received, const int *places, const float *bias,
                       int rank, int n0, bool others, int step_n)
{
    const int fours = j.height / 4, line = j.height + 4, count = min(j.width, j.results - n0),
              block = j.received / j.ranks;
    const bool alone = j.ranks == 1;
    if (!alone) {
        await(); /* every block of the cluster has begun */
#pragma unroll 1
        for (int i = threadIdx.x; i < count * (fours + 1); i += blockDim.x) {
            const int n = j.per_four.quotient(i), m = (i - n * (fours + 1)) * 4, row = j.per_rank.quotient(n);
            if (m < j.height || others)
                store_there((float4 *)(received + rank * block + row * line + m), n - row * j.ranks,
                            add_up(parts + n * line + m, j.warps_k, j.partial));
        }
        arrive();
        await();
    }
    const int rows = alone ? count : j.per_rank.quotient(count - rank + j.ranks - 1);
#pragma unroll 1
    for (int i = threadIdx.x; i < rows * (fours + 1); i += blockDim.x) {
        const int row = j.per_four.quotient(i), m = (i - row * (fours + 1)) * 4, n = alone ? row : row * j.ranks + rank;
        if (m == j.height && !others)
            continue;
        const float *from = (alone ? parts : received) + row * line + m;
        const float4 sum = add_up(from, alone ? j.warps_k : j.ranks, alone ? j.partial : block);
        if (m == j.height)
            j.sums[n0 + n] = sum.x;
        else
            put_four(j, j.out + (n0 + n) * step_n, places + m, sum, bias[n]);
    }
}

/* blockIdx: (tiles of m, ranks), groups of n */
template <int DIRECTION, int MT, int NT, bool EXACT>
__global__ void __launch_bounds__(MOST_THREADS) tiles_kernel(const __grid_constant__ job j)
{
    extern __shared__ __align__(16) float room[];
    float *received = room + j.work;
    int *places = (int *)(received + j.received);
    int *rows = places + j.height;
    float *bias = (float *)(rows + j.height);
    uint16_t *table = (uint16_t *)(bias + j.width);
    constexpr bool WEIGHT = DIRECTION == MX_CUDA_WEIGHT;
    const int tile = j.per_rank.quotient(blockIdx.x), rank = blockIdx.x - tile * j.ranks, n0 = blockIdx.y * j.width;
    const int begin = rank * j.chunks, chunks = max(0, min(j.chunks, j.all_chunks - begin));
    const int warp = threadIdx.x / 32, warp_k = j.per_warp_m.quotient(warp), warp_m = warp - warp_k * j.warps_m;
    const int step_n = WEIGHT ? j.depth : j.to_size;
    sums<MT, NT> s = {};
    const unsigned stages = address_of(room), table_at = address_of(table),
                   rows_at = address_of(rows + warp_m * MT * 16);
    if (j.ranks > 1)
        announce();
#pragma unroll 1
    for (int i = 1 - STAGES; i < chunks; i++) {
        const int next = i + STAGES - 1;
        if (i >= 0) {
            wait_for_chunk();
            __syncthreads();
        }
        if (next < chunks)
            fetch<DIRECTION>(j, stages + next % STAGES * j.stage * 4, find<DIRECTION>(j, tile, begin + next), n0);
        end_of_chunk();
        if (i >= 0)
            multiply<MT, NT, EXACT, WEIGHT>(j, stages + i % STAGES * j.stage * 4, table_at, rows_at, warp_k, s);
        if (i == -1) { /* while the first chunks are being copied */
            const spot at = find<DIRECTION>(j, tile, begin);
            const int before = WEIGHT ? tile * j.height - at.channel * j.taps : 0; /* taps of another tile */
#pragma unroll 1
            for (int k = threadIdx.x; k < j.chunk; k += blockDim.x)
                table[k] = (uint16_t)(WEIGHT ? pixel_place(j, k) : tap_place<DIRECTION>(j, k));
#pragma unroll 1
            for (int m = threadIdx.x; m < j.height; m += blockDim.x) {
                places[m] = result_place<DIRECTION>(j, at, tile, m);
                rows[m] = (WEIGHT ? tap_place<DIRECTION>(j, before + m) : pixel_place(j, m)) * 4;
            }
            if (threadIdx.x < j.width)
                bias[threadIdx.x] = j.bias && n0 + threadIdx.x < j.results ? j.bias[n0 + threadIdx.x] : 0;
        }
    }
    const bool others = j.sums && !tile;
    if (j.ranks == 1 && j.warps_k == 1 && !others) {
        put_result(j, s, places, bias, warp_m, n0, step_n);
        return;
    }
    __syncthreads();
    put_sums(j, s, room, warp_m, warp_k, others);
    __syncthreads();
    finish(j, room, received, places, bias, rank, n0, others, step_n);
}

/* ---- launching --------------------------------------------------------------------------------------------------- */

typedef void (*kernel)(job);

template <int DIRECTION> kernel kernel_of(int shape, bool exact)
{
#define SHAPE(m, n) {tiles_kernel<DIRECTION, m, n, false>, tiles_kernel<DIRECTION, m, n, true>},
    static const kernel rows[][2] = {MX_CUDA_TILE_SHAPES(SHAPE)};
#undef SHAPE
    return rows[shape][exact];
}

kernel kernel_of(const job &j)
{
    return j.direction == MX_CUDA_FORWARD ? kernel_of<MX_CUDA_FORWARD>(j.shape, j.exact)
           : j.direction == MX_CUDA_DATA  ? kernel_of<MX_CUDA_DATA>(j.shape, j.exact)
                                          : kernel_of<MX_CUDA_WEIGHT>(j.shape, j.exact);
}

} // namespace

/* `cluster` must live as long as the result. */
static cudaLaunchConfig_t configure(const job &j, cudaLaunchAttribute *cluster, cudaStream_t stream)
{
    cudaLaunchConfig_t config = {};
    cluster->id = cudaLaunchAttributeClusterDimension;
    cluster->val.clusterDim = {(unsigned)j.ranks, 1, 1};
    config.gridDim = dim3((unsigned)(j.m_tiles() * j.ranks), (unsigned)j.n_groups);
    config.blockDim = dim3((unsigned)j.threads());
    config.dynamicSmemBytes = j.shared_bytes(), config.stream = stream;
    config.attrs = cluster, config.numAttrs = j.ranks > 1;
    return config;
}

/* The same for all launches of a kernel: a captured launch is checked against them later. */
static cudaError_t allow(kernel run, const job &j)
{
    const cudaError_t status = cudaFuncSetAttribute(run, cudaFuncAttributeMaxDynamicSharedMemorySize, j.most_shared);
    return status || j.ranks <= 8 ? status
                                  : cudaFuncSetAttribute(run, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
}

int mx_cuda_tile_clusters(int ranks, int most_shared)
{
    const kernel run = kernel_of<MX_CUDA_FORWARD>(0, false);
    cudaLaunchAttribute cluster;
    job j = {};
    j.ranks = ranks, j.most_shared = most_shared, j.work = most_shared / 8 * 7 / (int)sizeof(float);
    j.warps_m = j.warps_k = j.n_groups = j.image_boxes = j.row_boxes = j.column_boxes = 1;
    const cudaLaunchConfig_t config = configure(j, &cluster, 0);
    int count = 0;
    if (allow(run, j) || cudaOccupancyMaxActiveClusters(&count, run, &config))
        cudaGetLastError(), count = 0; /* reported by the return value */
    return count;
}

mx_code mx_cuda_run_tiles(const mx_kernel_call *call, mx_cuda_device *d, const mx_cuda_tiles &tiles)
{
    const kernel run = kernel_of(tiles);
    cudaLaunchAttribute cluster;
    const cudaLaunchConfig_t config = configure(tiles, &cluster, d->stream);
    cudaError_t status = allow(run, tiles);
    if (status == cudaSuccess)
        status = cudaLaunchKernelEx(&config, run, tiles);
    return mx_cuda_fail(status, call->op->name);
}
