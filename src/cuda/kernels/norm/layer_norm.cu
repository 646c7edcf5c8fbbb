/* LayerNorm over the last axis, rows of some thousand elements: a row stays in the registers of one warp or of a small block.
 *
 * 16-bit arrays are read and written as they are, arithmetic is in float.  Longer rows, other axes and double: layer_norm_rows.cu.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/norm/channels.h"

#define MOST_PACKS 4 /* of 16 bytes, per thread */
#define BLOCK 128
#define LINES 32

namespace
{

template <int W> __device__ float row_sum(float x)
{
    if constexpr (W > 32)
        return mx_cuda_block_sum(x);
    else {
        for (int step = 16; step; step /= 2)
            x += __shfl_xor_sync(0xffffffffu, x, step);
        return x;
    }
}

/* A row of n elements in the registers of W threads, P packs of V in each. */
template <class S, int V, int W, int P = MOST_PACKS> struct held {
    float v[P][V];
    __device__ void load(const S *x, int64_t at, int n)
    {
        for (int p = 0; p < P; p++) {
            const int i = (p * W + threadIdx.x % W) * V;
            if (i < n) {
                const mx_cuda_pack<S, V> k = mx_cuda_pack<S, V>::load(x, at + i);
                for (int l = 0; l < V; l++)
                    v[p][l] = (float)k.v[l];
            } else
                for (int l = 0; l < V; l++)
                    v[p][l] = 0;
        }
    }
    /* array number i of what was fetched; elements beyond the row are not meant to be used */
    template <int N> __device__ void open(const mx_cuda_values<S, V, N> (&k)[P], int i)
    {
        for (int p = 0; p < P; p++) {
            const mx_cuda_pack<S, V> q = k[p].open(i);
            for (int l = 0; l < V; l++)
                v[p][l] = (float)q.v[l];
        }
    }
    __device__ void store(S *x, int64_t at, int n) const
    {
        for (int p = 0; p < P; p++) {
            const int i = (p * W + threadIdx.x % W) * V;
            mx_cuda_pack<S, V> k;
            for (int l = 0; l < V; l++)
                k.v[l] = (S)v[p][l];
            if (i < n)
                k.store(x, at + i);
        }
    }
    /* f(element, its number) for all elements of the row */
    template <class F> __device__ void each(int n, F f)
    {
        for (int p = 0; p < P; p++) {
            const int i = (p * W + threadIdx.x % W) * V;
            for (int l = 0; l < V; l++)
                if (i < n)
                    f(v[p][l], p, l);
        }
    }
    __device__ void statistics(int n, float eps, float *mean, float *deviation)
    {
        float sum = 0, squares = 0;
        each(n, [&](float x, int, int) { sum += x; });
        const float middle = row_sum<W>(sum) / n;
        each(n, [&](float x, int, int) { squares += (x - middle) * (x - middle); });
        *mean = middle, *deviation = sqrtf(row_sum<W>(squares) / n + eps);
    }
};

template <class S, int V, int W>
__global__ void forward(int64_t rows, int n, float eps, const S *x, const S *gamma, const S *beta, S *y, S *means,
                        S *deviations)
{
    held<S, V, W> scale, base, row;
    scale.load(gamma, 0, n), base.load(beta, 0, n);
    for (int64_t r = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / W; r < rows; r += (int64_t)gridDim.x * (BLOCK / W)) {
        float mean, deviation;
        row.load(x, r * n, n);
        row.statistics(n, eps, &mean, &deviation);
        const float inverse = 1 / deviation;
        row.each(n, [&](float &v, int p, int l) { v = (v - mean) * inverse * scale.v[p][l] + base.v[p][l]; });
        row.store(y, r * n, n);
        if (threadIdx.x % W == 0)
            means[r] = (S)mean, deviations[r] = (S)deviation;
    }
}

/* ---- gradients ------------------------------------------------------------------------------------------------- */

/* Arrays of a gradient; parts (blocks, 2, n): sums of the rows of a block. */
template <class S> struct slopes {
    int64_t rows;
    int n;
    const S *g, *x, *gamma, *means, *deviations, *addend; /* addend NULL: none */
    S *dx;
    float *parts;
};

/* Adds what the teams of a block have summed, column by column, and writes the sums: a team after the other. */
template <class S, int V, int W, int P>
__device__ void join_teams(const slopes<S> &t, held<S, V, W, P> &sums, float *to)
{
    extern __shared__ float room[];
    for (int team = 0; team < BLOCK / W; team++) {
        if ((int)threadIdx.x / W == team)
            sums.each(t.n, [&](float v, int p, int l) {
                const int i = (p * W + threadIdx.x % W) * V + l;
                room[i] = team ? room[i] + v : v;
            });
        __syncthreads();
    }
    for (int i = threadIdx.x; i < t.n; i += BLOCK)
        to[i] = room[i];
    __syncthreads();
}

/* What is read for a row: gradient, data and addend. */
template <class S, int V, int W, int P> struct fetched {
    mx_cuda_values<S, V, 3> of[P];
    S mean, deviation;
    __device__ void load(const slopes<S> &t, int64_t row)
    {
        const S *const from[3] = {t.g, t.x, t.addend};
#pragma unroll
        for (int p = 0; p < P; p++) {
            const int i = (p * W + threadIdx.x % W) * V;
            if (row < t.rows && i < t.n)
                of[p] = mx_cuda_values<S, V, 3>::load(from, row * t.n + i);
        }
        if (row < t.rows)
            mean = t.means[row], deviation = t.deviations[row];
    }
};

/* Blocks on a multiprocessor, by their registers. */
constexpr int resident(int packs) { return packs < 3 ? 3 : 2; }

/* With h = g gamma and z = (x - mean) / std:  dx = (h - mean(h) - z mean(h z)) / std + addend;  dgamma = sum of g z, dbeta =
 * sum of g down the columns, here those of a block.  The next row is fetched while one is computed. */
template <class S, int V, int W, int P>
__global__ void __launch_bounds__(BLOCK, resident(P)) backward(const __grid_constant__ slopes<S> t)
{
    held<S, V, W, P> scale, row, slope, gamma_sums, beta_sums;
    fetched<S, V, W, P> next;
    const int n = t.n;
    const int64_t step = (int64_t)gridDim.x * (BLOCK / W);
    scale.load(t.gamma, 0, n);
    for (int p = 0; p < P; p++)
        for (int l = 0; l < V; l++)
            gamma_sums.v[p][l] = beta_sums.v[p][l] = 0;
    int64_t r = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / W;
    next.load(t, r);
    for (; r < t.rows; r += step) {
        const fetched<S, V, W, P> now = next;
        const float mean = (float)now.mean, inverse = 1 / (float)now.deviation;
        float sum = 0, products = 0;
        next.load(t, r + step);
        slope.open(now.of, 0), row.open(now.of, 1);
        row.each(n, [&](float &v, int p, int l) {
            v = (v - mean) * inverse;
            beta_sums.v[p][l] += slope.v[p][l], gamma_sums.v[p][l] += slope.v[p][l] * v;
            slope.v[p][l] *= scale.v[p][l];
            sum += slope.v[p][l], products += slope.v[p][l] * v;
        });
        sum = row_sum<W>(sum) / n, products = row_sum<W>(products) / n;
        row.each(n, [&](float &v, int p, int l) { v = (slope.v[p][l] - sum - v * products) * inverse; });
        if (t.addend) {
            slope.open(now.of, 2);
            row.each(n, [&](float &v, int p, int l) { v += slope.v[p][l]; });
        }
        row.store(t.dx, r * n, n);
    }
    join_teams<S, V, W, P>(t, gamma_sums, t.parts + (int64_t)blockIdx.x * 2 * n);
    join_teams<S, V, W, P>(t, beta_sums, t.parts + (int64_t)blockIdx.x * 2 * n + n);
}

/* Adds the sums of all blocks, 32 columns per block of threads (32, LINES), which read so many sums at once. */
template <class S> __global__ void join_blocks(const float *parts, int blocks, int n, S *gamma_grad, S *beta_grad)
{
    __shared__ double some[LINES][33];
    const int column = (int)blockIdx.x * 32 + threadIdx.x;
    double sum = 0;
    for (int k = threadIdx.y; column < 2 * n && k < blocks; k += LINES)
        sum += parts[(int64_t)k * 2 * n + column];
    some[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    for (int k = 1; !threadIdx.y && k < LINES; k++)
        sum += some[k][threadIdx.x];
    if (!threadIdx.y && column < 2 * n)
        (column < n ? gamma_grad[column] : beta_grad[column - n]) = (S)(float)sum;
}

/* ---- entries --------------------------------------------------------------------------------------------------- */

/* Rows along the last axis, short enough for registers. */
static bool suits(const mx_kernel_call *call, const mx_array *x, int64_t axis)
{
    const int lanes = x->dtype == MX_FLOAT32 ? 4 : 8;
    if ((x->dtype != MX_FLOAT32 && x->dtype != MX_FLOAT16 && x->dtype != MX_BFLOAT16) || !x->size ||
        mx_axis(axis, x->ndim) != x->ndim - 1)
        return false;
    const int64_t n = x->shape[x->ndim - 1];
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i]->dtype != x->dtype || ((i < 3 || i > 4) && (uintptr_t)mx_data(call->in[i]) % 16))
            return false;
    return n % lanes == 0 && n <= (int64_t)lanes * BLOCK * MOST_PACKS && (uintptr_t)mx_data(call->out[0]) % 16 == 0;
}

template <class S, int V, int W>
static mx_code run_forward(const mx_kernel_call *call, mx_cuda_device *d, int64_t rows, int n, float eps)
{
    mx_array *const *in = call->in, *const *out = call->out;
    forward<S, V, W><<<mx_cuda_blocks(d, (rows * W + BLOCK - 1) / BLOCK), BLOCK, 0, d->stream>>>(
        rows, n, eps, (const S *)mx_data(in[0]), (const S *)mx_data(in[1]), (const S *)mx_data(in[2]),
        (S *)mx_data(out[0]), (S *)mx_data(out[1]), (S *)mx_data(out[2]));
    return mx_cuda_launched(call);
}

template <class S, int V, int W, int P>
static mx_code run_backward(const mx_kernel_call *call, mx_cuda_device *d, int64_t rows, int n)
{
    const auto data = [&](int i) { return i < call->n_in ? (const S *)mx_data(call->in[i]) : nullptr; };
    const int64_t most = (int64_t)d->multiprocessors * resident(P), teams = (rows * W + BLOCK - 1) / BLOCK;
    const unsigned blocks = (unsigned)(teams < most ? teams : most);
    const mx_cuda_scratch parts(d, (size_t)blocks * 2 * (size_t)n * sizeof(float));
    if (!parts.memory)
        return mx_error_code();
    const slopes<S> t = {rows, n, data(0), data(1), data(2), data(3), data(4), data(5), (S *)mx_data(call->out[0]),
                         parts.as<float>()};
    backward<S, V, W, P><<<blocks, BLOCK, (size_t)n * sizeof(float), d->stream>>>(t);
    join_blocks<S><<<(unsigned)(2 * n + 31) / 32, dim3(32, LINES), 0, d->stream>>>(
        t.parts, (int)blocks, n, (S *)mx_data(call->out[1]), (S *)mx_data(call->out[2]));
    return mx_cuda_launched(call);
}

template <class S, int V> static mx_code run_rows(const mx_kernel_call *call, const mx_array *x, double eps, bool back)
{
    mx_cuda_device *d = mx_cuda_of(call);
    const int n = (int)x->shape[x->ndim - 1];
    const int64_t rows = x->size / n;
    const bool small = n <= V * 32 * MOST_PACKS;
    if (!d)
        return mx_error_code();
    if (back)
        return n <= V * 32       ? run_backward<S, V, 32, 1>(call, d, rows, n)
               : n <= 2 * V * 32 ? run_backward<S, V, 32, 2>(call, d, rows, n)
               : n <= 3 * V * 32 ? run_backward<S, V, 32, 3>(call, d, rows, n)
               : small           ? run_backward<S, V, 32, 4>(call, d, rows, n)
                                 : run_backward<S, V, BLOCK, 4>(call, d, rows, n);
    return small ? run_forward<S, V, 32>(call, d, rows, n, (float)eps)
                 : run_forward<S, V, BLOCK>(call, d, rows, n, (float)eps);
}

static mx_code run(const mx_kernel_call *call, const mx_array *x, bool back)
{
    const mx_layer_norm_attrs *a = (const mx_layer_norm_attrs *)call->attrs;
    if (!suits(call, x, a->axis))
        return MX_DECLINED;
    return x->dtype == MX_FLOAT32   ? run_rows<float, 4>(call, x, a->eps, back)
           : x->dtype == MX_FLOAT16 ? run_rows<__half, 8>(call, x, a->eps, back)
                                    : run_rows<__nv_bfloat16, 8>(call, x, a->eps, back);
}

static mx_code run_layer_norm(const mx_kernel_call *call) { return run(call, call->in[0], false); }
static mx_code run_layer_norm_backward(const mx_kernel_call *call) { return run(call, call->in[1], true); }

} // namespace

MX_CUDA_KERNELS(layer_norm) = {{"LayerNorm", run_layer_norm, NULL},
                               {"_backward_LayerNorm", run_layer_norm_backward, NULL},
                               {"_backward_layer_norm_add", run_layer_norm_backward, NULL},
                               {NULL, NULL, NULL}};
