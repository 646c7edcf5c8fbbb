/* The kernel of fused convolutions: tensor cores on tiles that are copied to shared memory chunk by chunk.
 *
 *     shared memory: STAGES x (pixels of the tile + filters of the tile) rows of 128 bytes, pieces of 16 bytes permuted so that
 *     eight rows of one piece are in different banks; at the end the sums (pixels, filters)
 *
 * Rows have the same form for all types, since a fragment of tensor cores is 32 bytes of a row for float32 as for 16 bits.
 * Weights and bias are requested before the kernel waits for earlier ones (kernels/early.h), which hides most of the time that
 * memory takes to answer: with one image that is most of all time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/conv/convolution_fused_tiles.h"

#include <climits>
#include <cooperative_groups.h>

#include "cuda/kernels/conv/convolution_cores.h"
#include "cuda/kernels/early.h"

namespace
{
typedef mx_cuda_fused_tiles job;

enum { ROW = 128 /* bytes of a row in shared memory */, PIECES = 8 /* of a row */ };

template <class T> __host__ __device__ constexpr int piece() { return 16 / (int)sizeof(T); }
template <class T> __host__ __device__ constexpr int chunk() { return ROW / (int)sizeof(T); }

/* ---- copies ------------------------------------------------------------------------------------------------------- */

template <int LEFT> __device__ inline void wait_copies() { NEW_ASM("cp.async.wait_group %0;" ::"n"(LEFT)); }

/* A thread copies the same piece of every STEP-th row. */
__device__ inline unsigned place(int row, int q) { return (unsigned)(row * ROW + ((q ^ row) & 7) * 16); }

/* The rows of pixels that a thread copies, and where in the window its piece is. */
template <class T, int ROWS, int STEP> struct pixel_rows {
    int from[ROWS]; /* element of x where the window begins; outside of the image, perhaps */
    int top[ROWS], left[ROWS];
    int c, i, j; /* channel, row and column in the window */
    const job &g;

    __device__ pixel_rows(const job &given, int first_pixel, int k) : g(given)
    {
        const int area = g.rows * g.columns, pixels = g.batch * area;
        c = k % g.channels, i = k / g.channels / g.kernel[1], j = k / g.channels % g.kernel[1];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int p = first_pixel + (int)threadIdx.x / PIECES + r * STEP, n = p / area, at = p - n * area;
            const int row = at / g.columns, column = at - row * g.columns;
            top[r] = row * g.stride[0] - g.pad[0], left[r] = column * g.stride[1] - g.pad[1];
            from[r] = ((n * g.height + top[r]) * g.width + left[r]) * g.channels;
            if (p >= pixels)
                top[r] = -(1 << 30); /* no row of the image */
        }
    }
    __device__ void copy(unsigned to) const
    {
        const int y = i * g.dilate[0], x = j * g.dilate[1], row = (int)threadIdx.x / PIECES;
        const int offset = (y * g.width + x) * g.channels + c;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const bool there = i < g.kernel[0] && (unsigned)(top[r] + y) < (unsigned)g.height &&
                               (unsigned)(left[r] + x) < (unsigned)g.width;
            copy_piece(to + place(row + r * STEP, (int)threadIdx.x % PIECES),
                       (const T *)g.x + (there ? from[r] + offset : 0), there);
        }
    }
    __device__ void next()
    {
        c += chunk<T>();
        while (c >= g.channels) {
            c -= g.channels;
            if (++j == g.kernel[1])
                j = 0, i++;
        }
    }
};

template <class T, int ROWS, int STEP> struct weight_rows {
    const T *from;
    int first, filters, k, length; /* filter of the first row */

    __device__ weight_rows(const job &g, int first_filter, int at)
        : first(first_filter + (int)threadIdx.x / PIECES), filters(g.filters), k(at),
          length(g.kernel[0] * g.kernel[1] * g.channels)
    {
        from = (const T *)g.w + (int64_t)first * length;
    }
    __device__ void copy(unsigned to)
    {
        const int row = (int)threadIdx.x / PIECES;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const bool there = k < length && first + r * STEP < filters;
            copy_piece(to + place(row + r * STEP, (int)threadIdx.x % PIECES),
                       there ? from + (int64_t)r * STEP * length + k : from - (int64_t)first * length, there);
        }
        k += chunk<T>();
    }
};

/* ---- tensor cores ------------------------------------------------------------------------------------------------- */

/* Four matrices of eight rows of 16 bytes; each lane names a row of one. */
__device__ inline void load_matrices(unsigned *to, unsigned row)
{
    NEW_ASM("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
            : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
            : "r"(row));
}

template <class T> __device__ inline void round_numbers(unsigned *to)
{
    if (sizeof(T) == 4)
#pragma unroll
        for (int i = 0; i < 4; i++)
            to[i] = mx_cuda_tf32(__uint_as_float(to[i]));
}

/* The operands of one instruction step, 32 bytes of the rows. */
template <class T, int MT, int NT> struct operands {
    unsigned a[MT][4], b[NT / 2][4];

    /* The addresses are those of the warp's rows. */
    __device__ inline void load(unsigned pixels, unsigned filters, int k)
    {
        const int lane = threadIdx.x % 32, row_a = lane % 16, row_b = lane / 16 * 8 + lane % 8;
#pragma unroll
        for (int m = 0; m < MT; m++)
            load_matrices(a[m], pixels + place(m * 16 + row_a, 2 * k + lane / 16));
#pragma unroll
        for (int n = 0; n < NT / 2; n++)
            load_matrices(b[n], filters + place(n * 16 + row_b, 2 * k + lane / 8 % 2));
    }
    __device__ inline void multiply_into(float (*c)[NT][4])
    {
#pragma unroll
        for (int m = 0; m < MT; m++)
            round_numbers<T>(a[m]);
#pragma unroll
        for (int n = 0; n < NT / 2; n++)
            round_numbers<T>(b[n]);
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int n = 0; n < NT; n++)
                multiply<T>(c[m][n], a[m], b[n / 2] + n % 2 * 2);
    }
};

/* c (16 MT, 8 NT) += pixels x filters, of one chunk.  Operands are loaded before they are needed: all at once if there is room. */
template <class T, int MT, int NT>
__device__ inline void add_chunk(float (*c)[NT][4], unsigned pixels, unsigned filters)
{
    constexpr int STEPS = PIECES / 2, AHEAD = MT * NT <= 8 ? STEPS : 2;
    operands<T, MT, NT> of[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD - 1; k++)
        of[k].load(pixels, filters, k);
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        if (k + AHEAD - 1 < STEPS)
            of[(k + AHEAD - 1) % AHEAD].load(pixels, filters, k + AHEAD - 1);
        of[k % AHEAD].multiply_into(c);
    }
}

/* ---- the end ------------------------------------------------------------------------------------------------------ */

template <class T> struct alignas(16) pack {
    T v[piece<T>()];
};

/* What other blocks of the cluster have in their shared memory. */
__device__ inline const float *at_rank(const float *mine, int rank)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    return cooperative_groups::this_cluster().map_shared_rank(mine, rank);
#else
    return mine;
#endif
}
__device__ inline void sync_cluster(int ranks)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (ranks > 1)
        cooperative_groups::this_cluster().sync();
    else
#endif
        __syncthreads();
}

/* Adds up the sums of the cluster's blocks for V neighbours, always in the same order. */
template <int V> __device__ inline void add_ranks(float *to, const float *sums, int ranks)
{
#pragma unroll
    for (int i = 0; i < V; i++)
        to[i] = 0;
    for (int r = 0; r < ranks; r++) {
        const float *from = ranks > 1 ? at_rank(sums, r) : sums;
#pragma unroll
        for (int i = 0; i < V; i += 4) {
            const float4 four = *(const float4 *)(from + i);
            to[i] += four.x, to[i + 1] += four.y, to[i + 2] += four.z, to[i + 3] += four.w;
        }
    }
}

/* A piece of y: where it is, and what is added to it. */
template <class T> struct result {
    int64_t at; /* element of y; -1: outside */
    int row, column;
    pack<T> shift, other;

    __device__ inline void find(const job &g, int pixel, int filter)
    {
        const int p = pixel + row, o = filter + column;
        at = p < g.batch * g.rows * g.columns && o < g.filters ? (int64_t)p * g.filters + o : -1;
        if (at >= 0 && g.bias)
            shift = *(const pack<T> *)((const T *)g.bias + o);
        if (at >= 0 && g.addend)
            other = *(const pack<T> *)((const T *)g.addend + at);
    }
    __device__ inline void store(const job &g, const float *sums, int ranks) const
    {
        constexpr int V = piece<T>();
        float v[V];
        pack<T> out;
        if (at < 0)
            return;
        add_ranks<V>(v, sums, ranks);
#pragma unroll
        for (int i = 0; i < V; i++) {
            float x = v[i] + (g.bias ? (float)shift.v[i] : 0) + (g.addend ? (float)other.v[i] : 0);
            x = x < g.low ? g.low : x; /* keeps NaN */
            out.v[i] = (T)(x > g.high ? g.high : x);
        }
        *(pack<T> *)((T *)g.y + at) = out;
    }
};

/* sums (BM, LINE); every block of a cluster finishes some of the tile's rows.  A thread loads for four results at a time. */
template <class T, int BM, int BN, int LINE, int THREADS>
__device__ inline void finish(const job &g, const float *sums, int pixel, int filter, int rank, int ranks)
{
    constexpr int packs = BN / piece<T>(), MOST = BM * packs / THREADS, AT_ONCE = MOST < 4 ? MOST : 4;
    const int height = BM / ranks;
    for (int first = threadIdx.x; first < height * packs; first += AT_ONCE * THREADS) {
        result<T> r[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int item = first + i * THREADS;
            r[i].row = rank * height + item / packs, r[i].column = item % packs * piece<T>();
            r[i].find(g, item < height * packs ? pixel : INT_MAX / 2, filter);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            r[i].store(g, sums + r[i].row * LINE + r[i].column, ranks);
    }
}

/* ---- the kernel --------------------------------------------------------------------------------------------------- */

template <int BM, int BN, int STAGES> constexpr int shared_bytes()
{
    constexpr int stages = STAGES * (BM + BN) * ROW, sums = BM * (BN + 8) * (int)sizeof(float);
    return stages > sums ? stages : sums;
}

template <class T, int BM, int BN, int WM, int WN, int STAGES, int BLOCKS>
__global__ void __launch_bounds__(32 * WM * WN, BLOCKS) fused_kernel(const __grid_constant__ job g, int ranks)
{
    constexpr int THREADS = 32 * WM * WN, STEP = THREADS / PIECES, MT = BM / WM / 16, NT = BN / WN / 8, LINE = BN + 8;
    constexpr int STAGE = (BM + BN) * ROW;
    extern __shared__ __align__(1024) char memory[];
    const unsigned base = shared_address(memory);
    const int tile = (int)blockIdx.x / ranks, rank = (int)blockIdx.x % ranks, across = (g.filters + BN - 1) / BN;
    const int pixel = tile / across * BM, filter = tile % across * BN;
    const int length = g.kernel[0] * g.kernel[1] * g.channels, all = (length + chunk<T>() - 1) / chunk<T>();
    const int begin = all * rank / ranks, count = all * (rank + 1) / ranks - begin;
    const int k = begin * chunk<T>() + (int)threadIdx.x % PIECES * piece<T>();
    pixel_rows<T, BM / STEP, STEP> left(g, pixel, k);
    weight_rows<T, BN / STEP, STEP> right(g, filter, k);
    if (!g.steady)
        mx_cuda_wait_for_earlier();
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++)
        if (s < count)
            right.copy(base + s * STAGE + BM * ROW);
    if (g.steady)
        mx_cuda_wait_for_earlier();
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < count)
            left.copy(base + s * STAGE), left.next();
        end_copies();
    }
    float c[MT][NT][4] = {};
    const int warp = threadIdx.x / 32;
    const unsigned a_rows = warp / WN * (BM / WM) * ROW, b_rows = (BM + warp % WN * (BN / WN)) * ROW;
    for (int s = 0, now = 0, next = STAGES - 1; s < count; s++) {
        wait_copies<STAGES - 2>();
        __syncthreads();
        if (s + STAGES - 1 < count) {
            left.copy(base + next * STAGE), left.next();
            right.copy(base + next * STAGE + BM * ROW);
        }
        end_copies();
        add_chunk<T, MT, NT>(c, base + now * STAGE + a_rows, base + now * STAGE + b_rows);
        now = now == STAGES - 1 ? 0 : now + 1, next = next == STAGES - 1 ? 0 : next + 1;
    }
    wait_copies<0>();
    __syncthreads();
    float *sums = (float *)memory;
    const int lane = threadIdx.x % 32, row = warp / WN * (BM / WM) + lane / 4,
              column = warp % WN * (BN / WN) + lane % 4 * 2;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < NT; n++) {
            float *to = sums + (row + m * 16) * LINE + column + n * 8;
            *(float2 *)to = make_float2(c[m][n][0], c[m][n][1]);
            *(float2 *)(to + 8 * LINE) = make_float2(c[m][n][2], c[m][n][3]);
        }
    sync_cluster(ranks);
    finish<T, BM, BN, LINE, THREADS>(g, sums, pixel, filter, rank, ranks);
    if (ranks > 1)
        sync_cluster(ranks); /* others may still read this block's sums */
}

/* ---- launching ---------------------------------------------------------------------------------------------------- */

template <class T, int BM, int BN, int WM, int WN, int STAGES, int BLOCKS>
static cudaError_t launch(cudaStream_t stream, const job &g, int ranks, bool early)
{
    constexpr int bytes = shared_bytes<BM, BN, STAGES>();
    auto *kernel = fused_kernel<T, BM, BN, WM, WN, STAGES, BLOCKS>;
    static const cudaError_t allowed =
        cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (allowed)
        return allowed;
    cudaLaunchAttribute attrs[2];
    cudaLaunchConfig_t config = {};
    const int64_t tiles = (int64_t)((g.pixels() + BM - 1) / BM) * ((g.filters + BN - 1) / BN);
    config.gridDim = dim3((unsigned)(tiles * ranks)), config.blockDim = dim3(32 * WM * WN);
    config.dynamicSmemBytes = bytes, config.stream = stream, config.attrs = attrs;
    if (ranks > 1) {
        attrs[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
        attrs[config.numAttrs++].val.clusterDim = {(unsigned)ranks, 1, 1};
    }
    if (early) {
        attrs[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attrs[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    return cudaLaunchKernelEx(&config, kernel, g, ranks);
}

typedef cudaError_t (*launch_fn)(cudaStream_t, const job &, int, bool);
#define LAUNCH(bm, bn, wm, wn, stages, blocks) launch<T, bm, bn, wm, wn, stages, blocks>,
template <class T> static launch_fn launcher(int tiling)
{
    static const launch_fn all[] = {MX_CUDA_FUSED_TILINGS(LAUNCH)};
    return all[tiling];
}

struct size {
    int pixels, filters, stages;
};
#define SIZE(bm, bn, wm, wn, stages, blocks) {bm, bn, stages},
static const size sizes[] = {MX_CUDA_FUSED_TILINGS(SIZE)};
static_assert(sizeof sizes / sizeof *sizes == MX_CUDA_FUSED_COUNT, "a tiling is not counted");

} // namespace

bool mx_cuda_fused_tiles_suit(int dtype, const job &g)
{
    const int whole = dtype == MX_FLOAT32 ? 4 : 8;
    const uintptr_t all = (uintptr_t)g.x | (uintptr_t)g.w | (uintptr_t)g.bias | (uintptr_t)g.addend | (uintptr_t)g.y;
    const int64_t pixels = (int64_t)g.batch * g.rows * g.columns;
    const int64_t elements = (int64_t)g.batch * g.height * g.width * g.channels;
    return elements < INT32_MAX / 2 && g.channels % whole == 0 && g.filters % whole == 0 && all % 16 == 0 &&
           pixels < INT32_MAX / 2 && (int64_t)g.channels * g.kernel[0] * g.kernel[1] < INT32_MAX / 2;
}

bool mx_cuda_fused_tiling_suits(int dtype, const job &g, int tiling, int ranks, int multiprocessors)
{
    const size s = sizes[tiling];
    const int64_t tiles = ((int64_t)g.pixels() + s.pixels - 1) / s.pixels * ((g.filters + s.filters - 1) / s.filters);
    const int per_chunk = dtype == MX_FLOAT32 ? 32 : 64, length = g.kernel[0] * g.kernel[1] * g.channels;
    const int chunks = (length + per_chunk - 1) / per_chunk;
    if (ranks > 1 && (tiles * ranks > 3 * multiprocessors || chunks < 2 * ranks))
        return false;
    if (s.stages == 2 && (chunks > 2 || ranks > 1)) /* nothing would be copied while it computes */
        return false;
    return (s.filters == 32 || g.filters > s.filters / 2) && (s.pixels <= 64 || g.pixels() > s.pixels / 2);
}

cudaError_t mx_cuda_run_fused_tiles(cudaStream_t stream, int dtype, const job &g, int tiling, int ranks, bool early)
{
    const launch_fn run = dtype == MX_BFLOAT16  ? launcher<__nv_bfloat16>(tiling)
                          : dtype == MX_FLOAT16 ? launcher<__half>(tiling)
                                                : launcher<float>(tiling);
    return run(stream, g, ranks, early);
}
