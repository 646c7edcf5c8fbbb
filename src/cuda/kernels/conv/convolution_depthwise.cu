/* Depthwise convolution on (N, H, W, C), its data gradient and its weight gradient: as fast as memory, since a result needs
 * few products.
 *
 * A thread has four channels and walks along one or two rows of results.  The window that it is on stays in registers; a step to
 * the right loads the columns that are new.  Weights are (C, K, K); a block of threads transposes those of its channels into
 * shared memory.  Sums for the weight gradient are made in a fixed order: of a thread, of a block, of the blocks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/conv/convolution_depthwise.h"

#include "cuda/kernels/early.h"

#define V 4          /* channels of a thread */
#define MANY 65536   /* threads that keep a GPU busy */
#define THREADS 256  /* of a block */
#define LANES 32     /* groups of channels of a block, at most */
#define PARTS 512    /* blocks per group of channels that sum the weight gradient, at most */

namespace
{
struct geometry {
    int batch, channels, height, width; /* of what is read */
    int rows, columns;                  /* of what is written */
    int pad_h, pad_w;
    int walk, tall; /* columns and rows of results of a thread */
    int lanes;      /* groups of channels of a block */

    int groups() const { return channels / V; }
    int64_t walkers() const { return (int64_t)batch * ((rows + tall - 1) / tall) * ((columns + walk - 1) / walk); }
    /* Long walks share more loads, short ones keep more threads busy. */
    void choose_walk(int tallest)
    {
        tall = tallest;
        for (walk = 16; walk > 4 && walkers() * groups() < MANY; walk /= 2)
            ;
        if (walkers() * groups() < MANY)
            for (tall = 1; walk > 2 && walkers() * groups() < MANY; walk /= 2)
                ;
        const int chunks = (groups() + LANES - 1) / LANES;
        lanes = (groups() + chunks - 1) / chunks;
    }
    dim3 grid() const
    {
        const int together = THREADS / lanes;
        return dim3((unsigned)((walkers() + together - 1) / together), (unsigned)((groups() + lanes - 1) / lanes));
    }
};

template <class S> struct alignas(sizeof(S) * V) quad {
    S v[V];
};

template <class S> static __device__ void load(float *to, const S *from)
{
    const quad<S> q = *(const quad<S> *)from;
#pragma unroll
    for (int i = 0; i < V; i++)
        to[i] = (float)q.v[i];
}

template <class S> static __device__ void store(S *to, const float *from)
{
    quad<S> q;
#pragma unroll
    for (int i = 0; i < V; i++)
        q.v[i] = (S)from[i];
    *(quad<S> *)to = q;
}

/* A window of K x K pixels of four channels that moves to the right. */
template <class S, int K> struct window {
    float v[K][K][V];
    const S *image; /* of the batch entry, at the channels */
    const geometry &g;
    int top; /* row of its upper edge; may be outside */

    __device__ window(const S *x, const geometry &given, int n, int channel, int row)
        : image(x + (int64_t)n * given.height * given.width * given.channels + channel), g(given), top(row)
    {
    }
    __device__ void load_column(int k, int column)
    {
        const bool in = column >= 0 && column < g.width;
#pragma unroll
        for (int r = 0; r < K; r++) {
            if (in && top + r >= 0 && top + r < g.height)
                load(v[r][k], image + ((int64_t)(top + r) * g.width + column) * g.channels);
            else
                v[r][k][0] = v[r][k][1] = v[r][k][2] = v[r][k][3] = 0;
        }
    }
    /* The columns from `left` on; if `next`, those that it shares with the window STRIDE columns before are there. */
    template <int STRIDE> __device__ void move(int left, bool next)
    {
        if (next) {
#pragma unroll
            for (int r = 0; r < K; r++)
#pragma unroll
                for (int k = 0; k + STRIDE < K; k++)
#pragma unroll
                    for (int i = 0; i < V; i++)
                        v[r][k][i] = v[r][k + STRIDE][i];
        }
#pragma unroll
        for (int k = 0; k < K; k++)
            if (!next || k + STRIDE >= K)
                load_column(k, left + k);
    }
};

/* ---- forward, and the data gradient for stride 1 ------------------------------------------------------------------ */

struct ending {
    float low, high;
    bool steady; /* weight and bias are read before earlier kernels have ended */
};

/* w (K K, channels of the block) from weight (C, K K); FLIP: from the last to the first */
template <class S, int K, bool FLIP>
static __device__ void load_weights(float (*w)[LANES * V], const S *weight, const geometry &g)
{
    const int first = blockIdx.y * g.lanes * V, count = min(g.lanes * V, g.channels - first) * K * K;
    for (int i = threadIdx.x; i < count; i += THREADS)
        w[FLIP ? K * K - 1 - i % (K * K) : i % (K * K)][i / (K * K)] = (float)weight[first * K * K + i];
}

/* The weights of a thread's channels: small windows have them in registers. */
template <int K> struct weights {
    float4 v[K == 3 ? K * K : 1];
    const float (*shared)[LANES * V];

    __device__ inline weights(const float (*all)[LANES * V], int lane)
        : shared((const float (*)[LANES * V])(&all[0][lane * V]))
    {
        if (K == 3)
#pragma unroll
            for (int k = 0; k < K * K; k++)
                v[K == 3 ? k : 0] = *(const float4 *)shared[k];
    }
    __device__ inline float4 at(int k) const { return K == 3 ? v[K == 3 ? k : 0] : *(const float4 *)shared[k]; }
};

/* The sums of one pixel; the window's rows begin at `top`, its columns at `turn`. */
template <int K>
static __device__ inline void add_window(float *sum, const float (*v)[K][V], const weights<K> &w, int top, int turn)
{
#pragma unroll
    for (int a = 0; a < K; a++)
#pragma unroll
        for (int b = 0; b < K; b++) {
            const float4 weight = w.at(a * K + b);
            const float *x = v[top + a][(turn + b) % K];
            sum[0] += weight.x * x[0], sum[1] += weight.y * x[1], sum[2] += weight.z * x[2], sum[3] += weight.w * x[3];
        }
}

/* Block (x: walkers, y: groups of channels).  TALL: rows of results of a thread. */
template <class S, int K, int STRIDE, int TALL, bool FLIP>
__global__ void __launch_bounds__(THREADS, K == 3 ? 2 : 1)
    depthwise(const S *x, const S *weight, const S *bias, S *y, const __grid_constant__ geometry g, int64_t walkers,
              ending e)
{
    constexpr int ROWS = (TALL - 1) * STRIDE + K;
    __shared__ __align__(16) float shared[K * K][LANES * V];
    const int lane = (int)threadIdx.x % g.lanes, group = blockIdx.y * g.lanes + lane, channel = group * V;
    const int together = THREADS / g.lanes, walker = (int)threadIdx.x / g.lanes;
    const int64_t id = (int64_t)blockIdx.x * together + walker;
    if (!e.steady)
        mx_cuda_wait_for_earlier();
    load_weights<S, K, FLIP>(shared, weight, g);
    __syncthreads();
    if (e.steady)
        mx_cuda_wait_for_earlier();
    if (walker >= together || id >= walkers || channel >= g.channels)
        return;
    const int walks = (g.columns + g.walk - 1) / g.walk, bands = (g.rows + TALL - 1) / TALL;
    const int start = (int)(id % walks) * g.walk, row = (int)(id / walks % bands) * TALL, n = (int)(id / walks / bands);
    const weights<K> w(shared, lane);
    float add[V] = {}, v[ROWS][K][V];
    if (bias)
        load(add, bias + channel);
    const S *image = x + (int64_t)n * g.height * g.width * g.channels + channel;
    const int above = row * STRIDE - g.pad_h, end = min(start + g.walk, g.columns);
    const auto load_column = [&](int k, int column) {
        const bool in = column >= 0 && column < g.width;
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (in && above + r >= 0 && above + r < g.height)
                load(v[r][k], image + ((int64_t)(above + r) * g.width + column) * g.channels);
            else
                v[r][k][0] = v[r][k][1] = v[r][k][2] = v[r][k][3] = 0;
    };
#pragma unroll
    for (int k = 0; k + STRIDE < K; k++)
        load_column(k, start * STRIDE - g.pad_w + k);
    for (int from = start; from < end; from += K)
#pragma unroll
        for (int u = 0; u < K; u++) { /* the window's first column is number u STRIDE % K */
            const int column = from + u;
            if (column >= end)
                break;
#pragma unroll
            for (int k = K - STRIDE; k < K; k++)
                load_column((u * STRIDE + k) % K, column * STRIDE - g.pad_w + k);
#pragma unroll
            for (int r = 0; r < TALL; r++) {
                float sum[V] = {add[0], add[1], add[2], add[3]};
                add_window<K>(sum, v, w, r * STRIDE, u * STRIDE);
#pragma unroll
                for (int i = 0; i < V; i++)
                    sum[i] = sum[i] < e.low ? e.low : sum[i] > e.high ? e.high : sum[i]; /* keeps NaN */
                if (row + r < g.rows)
                    store(y + (((int64_t)n * g.rows + row + r) * g.columns + column) * g.channels + channel, sum);
            }
        }
}

/* ---- the data gradient for other strides -------------------------------------------------------------------------- */

/* A thread per pixel of dx and four channels: the results that read the pixel.  g: reads dy, writes dx. */
template <class S, int K, int STRIDE>
__global__ void __launch_bounds__(THREADS)
    depthwise_data(const S *dy, const S *weight, S *dx, const __grid_constant__ geometry g, int64_t count)
{
    const int groups = g.channels / V;
    for (int64_t id = (int64_t)blockIdx.x * THREADS + threadIdx.x; id < count; id += (int64_t)gridDim.x * THREADS) {
        const int channel = (int)(id % groups) * V, column = (int)(id / groups % g.columns);
        const int row = (int)(id / groups / g.columns % g.rows), n = (int)(id / groups / g.columns / g.rows);
        const S *image = dy + (int64_t)n * g.height * g.width * g.channels + channel;
        float sum[V] = {}, part[V];
#pragma unroll
        for (int a = 0; a < K; a++)
#pragma unroll
            for (int b = 0; b < K; b++) {
                const int h = row + g.pad_h - a, w = column + g.pad_w - b;
                if (h < 0 || w < 0 || h % STRIDE || w % STRIDE || h / STRIDE >= g.height || w / STRIDE >= g.width)
                    continue;
                load(part, image + ((int64_t)(h / STRIDE) * g.width + w / STRIDE) * g.channels);
#pragma unroll
                for (int i = 0; i < V; i++)
                    sum[i] += (float)weight[(channel + i) * K * K + a * K + b] * part[i];
            }
        store(dx + id * V, sum);
    }
}

/* ---- the weight gradient ------------------------------------------------------------------------------------------ */

/* Threads (8 groups of channels, 32 walkers); block (x: groups of channels, y: parts of the rows of all images).  A
 * walker takes rows of results that are 32 gridDim.y apart.  sums (parts, C, K, K) */
template <class S, int K, int STRIDE>
__global__ void __launch_bounds__(THREADS)
    depthwise_weight(const S *x, const S *dy, float *sums, const __grid_constant__ geometry g)
{
    __shared__ float parts[THREADS / 8][8 * V + 1];
    const int lane = threadIdx.x % 8, walker = threadIdx.x / 8, channel = (blockIdx.x * 8 + lane) * V;
    float w[K * K][V] = {};
    if (channel < g.channels)
        for (int64_t at = blockIdx.y * 32 + walker; at < (int64_t)g.batch * g.rows; at += 32 * gridDim.y) {
            const int n = (int)(at / g.rows), row = (int)(at % g.rows);
            const S *from = dy + at * g.columns * g.channels + channel;
            window<S, K> in(x, g, n, channel, row * STRIDE - g.pad_h);
            for (int column = 0; column < g.columns; column++) {
                float part[V];
                load(part, from + (int64_t)column * g.channels);
                in.template move<STRIDE>(column * STRIDE - g.pad_w, column > 0);
#pragma unroll
                for (int k = 0; k < K * K; k++)
#pragma unroll
                    for (int i = 0; i < V; i++)
                        w[k][i] += part[i] * in.v[k / K][k % K][i];
            }
        }
#pragma unroll
    for (int k = 0; k < K * K; k++) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < V; i++)
            parts[walker][lane * V + i] = w[k][i];
        __syncthreads();
        const int c = blockIdx.x * 8 * V + threadIdx.x;
        if (threadIdx.x < 8 * V && c < g.channels) {
            float sum = 0;
            for (int i = 0; i < THREADS / 8; i++)
                sum += parts[i][threadIdx.x];
            sums[((int64_t)blockIdx.y * g.channels + c) * K * K + k] = sum;
        }
    }
}

/* ---- launching ---------------------------------------------------------------------------------------------------- */

static unsigned blocks_of(int64_t count) { return (unsigned)((count + THREADS - 1) / THREADS); }

/* Two rows of results at a time if there are enough threads, and enough registers. */
template <class S, int K, int STRIDE, bool FLIP>
static mx_code walk(const mx_kernel_call *call, mx_cuda_device *d, geometry g, const S *x, const S *weight,
                    const S *bias, S *y, const ending &e)
{
    constexpr int TALL = K == 3 ? 2 : 1;
    g.choose_walk(TALL);
    auto *kernel = g.tall == 1 ? depthwise<S, K, STRIDE, 1, FLIP> : depthwise<S, K, STRIDE, TALL, FLIP>;
    return mx_cuda_fail(mx_cuda_launch_early(d, kernel, g.grid(), THREADS, x, weight, bias, y, g, g.walkers(), e),
                        call->op->name);
}

template <class S, int K, int STRIDE>
static mx_code forward(const mx_kernel_call *call, mx_cuda_device *d, const geometry &g, const mx_cuda_convolved &t,
                       const mx_cuda_ending &e)
{
    return walk<S, K, STRIDE, false>(call, d, g, (const S *)t.x, (const S *)t.w,
                                     (const S *)(e.bias ? mx_data(e.bias) : nullptr), (S *)t.y,
                                     ending{e.low, e.high, e.steady});
}

/* g: of the forward direction */
template <class S, int K, int STRIDE>
static mx_code data(const mx_kernel_call *call, mx_cuda_device *d, const geometry &g, const mx_cuda_convolved &t)
{
    geometry back = {g.batch, g.channels, g.rows, g.columns, g.height, g.width, g.pad_h, g.pad_w};
    if constexpr (STRIDE == 1) {
        back.pad_h = K - 1 - g.pad_h, back.pad_w = K - 1 - g.pad_w;
        return walk<S, K, 1, true>(call, d, back, (const S *)t.y, (const S *)t.w, nullptr, (S *)t.x,
                                   ending{-INFINITY, INFINITY, false});
    } else {
        const int64_t count = (int64_t)back.batch * back.rows * back.columns * (back.channels / V);
        depthwise_data<S, K, STRIDE><<<mx_cuda_blocks(d, blocks_of(count)), THREADS, 0, d->stream>>>(
            (const S *)t.y, (const S *)t.w, (S *)t.x, back, count);
    }
    return mx_cuda_launched(call);
}

template <class S, int K, int STRIDE>
static mx_code weight(const mx_kernel_call *call, mx_cuda_device *d, const geometry &g, const mx_cuda_convolved &t)
{
    const int64_t size = (int64_t)g.channels * K * K, groups = (g.channels + 8 * V - 1) / (8 * V);
    const int64_t most = ((int64_t)g.batch * g.rows + 31) / 32, wanted = (4 * d->multiprocessors + groups - 1) / groups;
    const int64_t parts = min(min(most, wanted), (int64_t)PARTS);
    mx_cuda_scratch room(d, (size_t)(parts * size) * sizeof(float));
    float *sums = room.as<float>();
    S *to = (S *)t.w;
    if (!sums)
        return mx_error_code();
    depthwise_weight<S, K, STRIDE>
        <<<dim3((unsigned)groups, (unsigned)parts), THREADS, 0, d->stream>>>((const S *)t.x, (const S *)t.y, sums, g);
    const mx_code code = mx_cuda_launched(call);
    return code ? code
                : mx_cuda_each(call, 32 * size,
                               [=] __device__(int64_t i) { /* a warp per weight */
                                                           float sum = 0;
                                                           for (int64_t part = i % 32; part < parts; part += 32)
                                                               sum += sums[part * size + i / 32];
                                                           for (int step = 16; step; step /= 2)
                                                               sum += __shfl_xor_sync(0xffffffffu, sum, step);
                                                           if (i % 32 == 0)
                                                               to[i / 32] = (S)sum;
                               });
}

template <class S, int K, int STRIDE>
static mx_code run(const mx_kernel_call *call, mx_cuda_device *d, const mx_cuda_convolution &s, const geometry &g,
                   const mx_cuda_convolved &t, const mx_cuda_ending &e)
{
    return s.direction == MX_CUDA_FORWARD ? forward<S, K, STRIDE>(call, d, g, t, e)
           : s.direction == MX_CUDA_DATA  ? data<S, K, STRIDE>(call, d, g, t)
                                          : weight<S, K, STRIDE>(call, d, g, t);
}

template <class S>
static mx_code of_type(const mx_kernel_call *call, mx_cuda_device *d, const mx_cuda_convolution &s, const geometry &g,
                       const mx_cuda_convolved &t, const mx_cuda_ending &e)
{
    return s.kernel[0] == 3   ? s.stride[0] == 1 ? run<S, 3, 1>(call, d, s, g, t, e) : run<S, 3, 2>(call, d, s, g, t, e)
             : s.stride[0] == 1 ? run<S, 5, 1>(call, d, s, g, t, e)
                              : run<S, 5, 2>(call, d, s, g, t, e);
}

static bool suits(const mx_cuda_convolution &s, const mx_cuda_convolved &t)
{
    const int64_t largest = (int64_t)s.batch * s.in_channels * s.in[0] * s.in[1] + s.out[0];
    return s.last && s.axes == 2 && s.groups == s.in_channels && s.groups == s.out_channels && s.groups % V == 0 &&
           s.kernel[0] == s.kernel[1] && (s.kernel[0] == 3 || s.kernel[0] == 5) && s.stride[0] == s.stride[1] &&
           (s.stride[0] == 1 || s.stride[0] == 2) && s.dilate[0] == 1 && s.dilate[1] == 1 && s.pad[0] < s.kernel[0] &&
           s.pad[1] < s.kernel[1] && s.dtype != MX_FLOAT64 && largest < INT32_MAX &&
           ((uintptr_t)t.x | (uintptr_t)t.w | (uintptr_t)t.y) % 16 == 0;
}
} // namespace

mx_code mx_cuda_convolve_depthwise(const mx_kernel_call *call, const mx_cuda_convolution &s, const mx_cuda_convolved &t,
                                   const mx_cuda_ending &e)
{
    const geometry g = {s.batch, s.in_channels, s.in[0], s.in[1], s.out[0], s.out[1], s.pad[0], s.pad[1]};
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    const bool ends = e.addend || (s.direction != MX_CUDA_FORWARD && !e.empty()); /* in a way that is not here */
    if (!suits(s, t) || ends || (e.bias && (uintptr_t)mx_data(e.bias) % 16))
        return MX_DECLINED;
    return s.dtype == MX_BFLOAT16  ? of_type<__nv_bfloat16>(call, d, s, g, t, e)
           : s.dtype == MX_FLOAT16 ? of_type<__half>(call, d, s, g, t, e)
                                   : of_type<float>(call, d, s, g, t, e);
}
