/* The gradient of LayerNorm over the last axis, rows of some thousand elements, in one pass over memory.
 *
 *     block = teams;  a team takes a range of rows, some at a time;  a thread of it has 16 bytes of each row, always the same columns
 *
 * So a thread adds up the gradients of its columns of gamma and beta in registers; only the two sums of a row pass between the
 * threads of a team.  At the end the sums of teams are joined, then those of blocks.
 *
 * 16-bit arrays are read and written as they are, arithmetic is in float.  Longer rows, other axes and double: layer_norm_rows.cu.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/norm/channels.h"
#include "cuda/kernels/norm/layer_norm.h"

#define MOST_THREADS 512 /* of a block */
#define MOST_TEAMS 15    /* each has a barrier; number 0 is that of the block */
#define AT_ONCE 4        /* rows */
#define LINES 32

namespace
{
/* Arrays of a gradient; parts (blocks, 2, n): sums of the rows of a block. */
template <class S> struct slopes {
    int64_t rows;
    int n;
    const S *g, *x, *gamma, *means, *deviations, *addend; /* addend NULL: none */
    S *dx;
    float *parts;
};

/* Lane l gets the warp's sum of value number l * N / 32. */
template <int N> __device__ float spread_sums(float (&v)[N])
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = N / 2, step = 16; step; half /= 2, step /= 2) {
        const bool upper = lane & step;
#pragma unroll
        for (int i = 0; i < half; i++) {
            const float sent = upper ? v[i] : v[i + half], kept = upper ? v[i + half] : v[i];
            v[i] = kept + __shfl_xor_sync(0xffffffffu, sent, step);
        }
        if (!half)
            v[0] += __shfl_xor_sync(0xffffffffu, v[0], step);
    }
    return v[0];
}

/* Sums over the threads of a team, all of which get them; room: MOST_THREADS / 32 times N numbers, not those of the last call. */
template <int N> __device__ void team_sums(float (&v)[N], float (*room)[N])
{
    const int warps = blockDim.x / 32, first = threadIdx.y * warps, lane = threadIdx.x % 32;
    const float own = spread_sums<N>(v);
    if (lane % (32 / N) == 0)
        room[first + threadIdx.x / 32][lane * N / 32] = own;
    asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "r"(blockDim.x) : "memory");
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = 0;
    for (int w = 0; w < warps; w++)
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] += room[first + w][i];
}

/* Adds the sums of the teams of a block, column by column. */
template <int V> __device__ void join_teams(const float (&sums)[V], int n, float *to)
{
    extern __shared__ float all[]; /* (teams, n) */
    const int column = threadIdx.x * V, threads = blockDim.x * blockDim.y;
    for (int l = 0; l < V; l++)
        if (column < n)
            all[threadIdx.y * n + column + l] = sums[l];
    __syncthreads();
    for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < n; i += threads) {
        float sum = 0;
        for (int team = 0; team < (int)blockDim.y; team++)
            sum += all[team * n + i];
        to[i] = sum;
    }
    __syncthreads();
}

/* What a thread reads of R rows: gradient, data and addend; rows and columns that do not exist are 0. */
template <class S, int V, int R> struct fetched {
    mx_cuda_values<S, V, 3> of[R];
    float inverse[R], shift[R]; /* z = x * inverse + shift */
    __device__ void load(const slopes<S> &t, int64_t row, int64_t end)
    {
        const S *const from[3] = {t.g, t.x, t.addend};
#pragma unroll
        for (int r = 0; r < R; r++) {
            of[r] = {};
            if (row + r < end && (int)threadIdx.x * V < t.n)
                of[r].read(from, (row + r) * t.n + threadIdx.x * V);
        }
#pragma unroll
        for (int r = 0; r < R; r++) {
            const bool is = row + r < end;
            inverse[r] = is ? __frcp_rn((float)t.deviations[row + r]) : 0;
            shift[r] = is ? -(float)t.means[row + r] * inverse[r] : 0;
        }
    }
};

/* With h = g gamma and z = (x - mean) / std:  dx = (h - mean(h) - z mean(h z)) / std + addend;  dgamma = sum of g z, dbeta =
 * sum of g down the columns, here those of a block. */
template <class S, int V, int R>
__global__ void __launch_bounds__(MOST_THREADS, 1) backward(const __grid_constant__ slopes<S> t)
{
    __shared__ float room[2][MOST_THREADS / 32][2 * R];
    const int n = t.n, column = threadIdx.x * V;
    const int64_t team = (int64_t)blockIdx.x * blockDim.y + threadIdx.y, teams = (int64_t)gridDim.x * blockDim.y;
    const int64_t end = (team + 1) * t.rows / teams;
    const float part = 1.f / (float)n;
    float scale[V], gamma_sums[V], beta_sums[V];
    for (int l = 0; l < V; l++)
        scale[l] = column < n ? (float)t.gamma[column + l] : 0, gamma_sums[l] = beta_sums[l] = 0;
    int turn = 0;
    for (int64_t row = team * t.rows / teams; row < end; row += R, turn ^= 1) {
        fetched<S, V, R> k;
        float sums[2 * R]; /* of h, then of h z */
        k.load(t, row, end);
#pragma unroll
        for (int r = 0; r < R; r++) {
            const mx_cuda_pack<S, V> slope = k.of[r].open(0), x = k.of[r].open(1);
            sums[r] = sums[R + r] = 0;
#pragma unroll
            for (int l = 0; l < V; l++) {
                const float g = (float)slope.v[l], z = (float)x.v[l] * k.inverse[r] + k.shift[r], h = g * scale[l];
                beta_sums[l] += g, gamma_sums[l] += g * z;
                sums[r] += h, sums[R + r] += h * z;
            }
        }
        team_sums<2 * R>(sums, room[turn]);
#pragma unroll
        for (int r = 0; r < R; r++) {
            const float base = -sums[r] * part * k.inverse[r], tilt = -sums[R + r] * part * k.inverse[r];
            const mx_cuda_pack<S, V> slope = k.of[r].open(0), x = k.of[r].open(1), addend = k.of[r].open(2);
            mx_cuda_pack<S, V> y;
#pragma unroll
            for (int l = 0; l < V; l++) {
                const float z = (float)x.v[l] * k.inverse[r] + k.shift[r], h = (float)slope.v[l] * scale[l];
                y.v[l] = (S)(h * k.inverse[r] + (z * tilt + ((float)addend.v[l] + base)));
            }
            if (row + r < end && column < n)
                y.store(t.dx, (row + r) * n + column);
        }
    }
    __syncthreads();
    join_teams<V>(gamma_sums, n, t.parts + (int64_t)blockIdx.x * 2 * n);
    join_teams<V>(beta_sums, n, t.parts + (int64_t)blockIdx.x * 2 * n + n);
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

template <class S, int V> static mx_code run_rows(const mx_kernel_call *call, const mx_array *x)
{
    mx_cuda_device *d = mx_cuda_of(call);
    const auto data = [&](int i) { return i < call->n_in ? (const S *)mx_data(call->in[i]) : nullptr; };
    const int n = (int)x->shape[x->ndim - 1], width = (n / V + 31) / 32 * 32, most = MOST_THREADS / width;
    const int teams = most < MOST_TEAMS ? most : MOST_TEAMS;
    const int64_t rows = x->size / n, wanted = (rows + teams - 1) / teams;
    if (!d)
        return mx_error_code();
    const unsigned blocks = (unsigned)(wanted < d->multiprocessors ? wanted : d->multiprocessors);
    const mx_cuda_scratch parts(d, (size_t)blocks * 2 * (size_t)n * sizeof(float));
    if (!parts.memory)
        return mx_error_code();
    const slopes<S> t = {rows, n, data(0), data(1), data(2), data(3), data(4), data(5), (S *)mx_data(call->out[0]),
                         parts.as<float>()};
    backward<S, V, AT_ONCE>
        <<<blocks, dim3((unsigned)width, (unsigned)teams), (size_t)(teams * n) * sizeof(float), d->stream>>>(t);
    join_blocks<S><<<(unsigned)(2 * n + 31) / 32, dim3(32, LINES), 0, d->stream>>>(
        t.parts, (int)blocks, n, (S *)mx_data(call->out[1]), (S *)mx_data(call->out[2]));
    return mx_cuda_launched(call);
}

static mx_code run_layer_norm_backward(const mx_kernel_call *call)
{
    const mx_array *x = call->in[1];
    const int64_t axis = ((const mx_layer_norm_attrs *)call->attrs)->axis;
    if (!mx_cuda_norm_rows_suit(call, x, axis, MOST_THREADS, 3 << 3)) /* mean and deviation are read one by one */
        return MX_DECLINED;
    return x->dtype == MX_FLOAT32   ? run_rows<float, 4>(call, x)
           : x->dtype == MX_FLOAT16 ? run_rows<__half, 8>(call, x)
                                    : run_rows<__nv_bfloat16, 8>(call, x);
}
} // namespace

MX_CUDA_KERNELS(layer_norm_gradient) = {{"_backward_LayerNorm", run_layer_norm_backward, NULL},
                                        {"_backward_layer_norm_add", run_layer_norm_backward, NULL},
                                        {NULL, NULL, NULL}};
