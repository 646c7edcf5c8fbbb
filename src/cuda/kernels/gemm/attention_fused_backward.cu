/* Gradients of attention on tiles.  Weights are computed again from the scores and the saved logarithm of their sum:
 *
 *     p = exp(s - lse);  dp = dout v';  ds = p (dp - delta), delta = sum of out dout;  dq = ds k;  dk = ds' q;  dv = p' dout
 *
 * Two kernels, so that no sums of several blocks meet and results do not depend on their order: one block for some queries
 * walks over the keys, one block for some keys walks over the queries (rows of its products are keys, columns queries).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <type_traits>

#include "cuda/kernels/gemm/attention_fused.h"
#include "cuda/kernels/gemm/attention_fused_score.h"

namespace attention
{
template <class K, int D, int NN, int WARPS, int S> struct backward {
    typedef K kind;
    typedef typename K::element element;
    typedef tiles<K, D> tile;
    typedef typename std::conditional<K::terms == 16 && D <= 64, typename tile::template held<1>,
                                      typename tile::template read<1>>::type rows_of_warp;
    enum { N = NN, split = S, size = D, threads = WARPS * 32, rows = 16 * WARPS / S, columns = D / S,
           bytes = (2 * rows + 4 * N) * tile::stride * (int)sizeof(element) + 4 * N * (int)sizeof(float) };
};

/* Starts copying rows of two roles from time t on. */
template <class B, int ROWS>
static __device__ void fetch_two(const job &j, typename B::element *to, typename B::element *to_other, const void *from,
                                 const mx_attention_place &p, const void *other, const mx_attention_place &q, int64_t n,
                                 int64_t h, int64_t t, int64_t most)
{
    typedef typename B::element element;
    B::tile::template fetch<ROWS>(to, at((const element *)from, p, n, h, t), p.time, most - t, (int)j.s.size);
    B::tile::template fetch<ROWS>(to_other, at((const element *)other, q, n, h, t), q.time, most - t, (int)j.s.size);
}

/* ---- queries ------------------------------------------------------------------------------------------------------ */

template <class B, bool RARE>
__global__ void __launch_bounds__(B::threads) attention_query_grad(const __grid_constant__ job j, int blocks)
{
    typedef typename B::element element;
    typedef typename B::tile tile;
    enum { N = B::N };
    extern __shared__ __align__(16) char memory[];
    const int64_t group = blockIdx.x / blocks, n = group / j.s.heads, h = group % j.s.heads;
    const int64_t first = (int64_t)(blocks - 1 - blockIdx.x % blocks) * B::rows,
                  shared = h / (j.s.heads / j.s.kv_heads);
    const int64_t length = j.keys_of(n), last = min(first + B::rows, j.s.queries) - 1;
    const int64_t end = mx_attention_seen(&j.s, length, last);
    const int warp = threadIdx.x / 32 / B::split, part = threadIdx.x / 32 % B::split;
    element *queries = (element *)memory, *grads = queries + B::rows * tile::stride,
            *keys = grads + B::rows * tile::stride, *values = keys + 2 * N * tile::stride;
    const scores<N, 1, RARE> score(j, n, h, first + warp * 16, length);
    typename B::rows_of_warp own, own_grads;
    float sums[1][B::columns / 8][4] = {}, lse[2], delta[2];
    for (int half = 0; half < 2; half++) {
        const int64_t i = min(first + warp * 16 + half * 8 + lane() / 4, j.s.queries - 1), row = j.row(n, h, i);
        lse[half] = ((const float *)j.lse)[row] * LOG2E, delta[half] = ((const float *)j.delta)[row];
    }
    const auto fetch = [&](int64_t key, int stage) {
        fetch_two<B, N>(j, keys + stage * N * tile::stride, values + stage * N * tile::stride, j.key, j.s.key, j.value,
                        j.s.value, n, shared, key, j.s.keys);
        __pipeline_commit();
    };
    fetch_two<B, B::rows>(j, queries, grads, j.query, j.s.query, j.out_grad, j.s.out, n, h, first, j.s.queries);
    fetch(0, 0);
    for (int64_t key = 0, stage = 0; key < end; key += N, stage ^= 1) {
        float c[1][N / 8][4], dp[1][N / 8][4];
        if (key + N < end)
            fetch(key + N, (int)stage ^ 1);
        else
            __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        if (!key)
            own.load(queries + warp * 16 * tile::stride), own_grads.load(grads + warp * 16 * tile::stride);
        tile::template compare<1, N>(c, own, keys + stage * N * tile::stride);
        tile::template compare<1, N>(dp, own_grads, values + stage * N * tile::stride);
        score.drop(dp, key);
#pragma unroll
        for (int k = 0; k < N / 8; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                c[0][k][i] = exp2f(c[0][k][i] * score.factor - lse[i / 2]) * (dp[0][k][i] - delta[i / 2]);
        score.hide(c, key, 0);
        tile::template add<1, N, B::columns>(sums, c, keys + stage * N * tile::stride + part * B::columns);
        __syncthreads();
    }
    tile::template write<1, B::columns>(
        sums, part * B::columns, (int)j.s.size, [&](int, int) { return (float)j.s.scale; },
        [&](int row) {
            const int64_t i = first + warp * 16 + row;
            return i < j.s.queries ? at((element *)j.query_grad, j.s.query, n, h, i) : nullptr;
        });
}

/* ---- keys and values ---------------------------------------------------------------------------------------------- */

/* Weights p and gradients ds of keys (rows) and queries (columns) from scores c and products dp, in their place. */
template <int N, bool RARE>
static __device__ void weights_back(const job &j, int64_t n, int64_t h, int64_t key, int64_t query, int64_t length,
                                    const float *lse, const float *delta, float c[N / 8][4], float dp[N / 8][4])
{
    const float factor = (float)j.s.scale * LOG2E;
    const uint32_t threshold = mx_attention_threshold(j.s.dropout);
    const mx_rng rng = RARE ? j.used() : mx_rng{};
    const int start = lane() % 4 * 2, most = (int)min((int64_t)N, j.s.queries - query) - start;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int64_t at = key + half * 8 + lane() / 4; /* queries from `least` on see this key */
        const int64_t before = at - (j.s.keys - j.s.queries) - query;
        const int least = at >= length ? N : !j.s.causal || before <= 0 ? 0 : before < N ? (int)before - start : N;
#pragma unroll
        for (int k = 0; k < N / 8; k++)
#pragma unroll
            for (int odd = 0; odd < 2; odd++) {
                const int column = k * 8 + odd, i = 2 * half + odd;
                bool seen = column >= least && column < most;
                float keep = 1;
                if (RARE && seen && j.mask.data)
                    seen = j.shows(n, h, query + start + column, at);
                if (RARE && seen && j.s.dropout > 0)
                    keep = mx_attention_keeps(rng, j.row(n, h, query + start + column), j.s.keys, at, threshold)
                               ? (float)(1 / (1 - j.s.dropout))
                               : 0;
                const float p = seen ? exp2f(c[k][i] * factor - lse[start + column]) : 0;
                c[k][i] = p * keep;
                dp[k][i] = seen ? p * (dp[k][i] * keep - delta[start + column]) : 0;
            }
    }
}

template <class B, bool RARE>
__global__ void __launch_bounds__(B::threads) attention_key_grad(const __grid_constant__ job j, int blocks)
{
    typedef typename B::element element;
    typedef typename B::tile tile;
    enum { N = B::N };
    extern __shared__ __align__(16) char memory[];
    const int64_t group = blockIdx.x / blocks, n = group / j.s.kv_heads, shared = group % j.s.kv_heads;
    const int64_t first = (int64_t)(blockIdx.x % blocks) * B::rows, length = j.keys_of(n),
                  per = j.s.heads / j.s.kv_heads;
    const int warp = threadIdx.x / 32 / B::split, part = threadIdx.x / 32 % B::split;
    element *keys = (element *)memory, *values = keys + B::rows * tile::stride,
            *queries = values + B::rows * tile::stride, *grads = queries + 2 * N * tile::stride;
    float *lse = (float *)(grads + 2 * N * tile::stride), *delta = lse + 2 * N;
    typename B::rows_of_warp own, own_values;
    float key_sums[1][B::columns / 8][4] = {}, value_sums[1][B::columns / 8][4] = {};
    /* the first query that sees a key of this block, as a tile */
    const int64_t start = !j.s.causal ? 0 : max((int64_t)0, first - (j.s.keys - j.s.queries)) / N * N;
    const int64_t steps = first < length && start < j.s.queries ? (j.s.queries - start + N - 1) / N : 0;
    const auto fetch = [&](int64_t step) { /* tiles of one head after another */
                                           const int64_t query = start + step % steps * N,
                                                         h = shared * per + step / steps, stage = step % 2;
                                           fetch_two<B, N>(j, queries + stage * N * tile::stride,
                                                           grads + stage * N * tile::stride, j.query, j.s.query,
                                                           j.out_grad, j.s.out, n, h, query, j.s.queries);
                                           __pipeline_commit();
                                           for (int i = threadIdx.x; i < N; i += B::threads) {
                                               const int64_t row = j.row(n, h, min(query + i, j.s.queries - 1));
                                               lse[stage * N + i] = ((const float *)j.lse)[row] * LOG2E;
                                               delta[stage * N + i] = ((const float *)j.delta)[row];
                                           }
    };
    fetch_two<B, B::rows>(j, keys, values, j.key, j.s.key, j.value, j.s.value, n, shared, first, j.s.keys);
    if (steps)
        fetch(0);
    for (int64_t step = 0; step < steps * per; step++) {
        const int stage = (int)(step % 2);
        float c[1][N / 8][4], dp[1][N / 8][4];
        if (step + 1 < steps * per)
            fetch(step + 1);
        else
            __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        if (!step)
            own.load(keys + warp * 16 * tile::stride), own_values.load(values + warp * 16 * tile::stride);
        tile::template compare<1, N>(c, own, queries + stage * N * tile::stride);
        tile::template compare<1, N>(dp, own_values, grads + stage * N * tile::stride);
        weights_back<N, RARE>(j, n, shared * per + step / steps, first + warp * 16, start + step % steps * N, length,
                              lse + stage * N, delta + stage * N, c[0], dp[0]);
        tile::template add<1, N, B::columns>(value_sums, c, grads + stage * N * tile::stride + part * B::columns);
        tile::template add<1, N, B::columns>(key_sums, dp, queries + stage * N * tile::stride + part * B::columns);
        __syncthreads();
    }
    const auto write = [&](float sums[1][B::columns / 8][4], void *to, const mx_attention_place &place, float factor) {
        if (to)
            tile::template write<1, B::columns>(
                sums, part * B::columns, (int)j.s.size, [&](int, int) { return factor; },
                [&](int row) {
                    const int64_t t = first + warp * 16 + row;
                    return t < j.s.keys ? at((element *)to, place, n, shared, t) : nullptr;
                });
    };
    write(key_sums, j.key_grad, j.s.key, (float)j.s.scale);
    write(value_sums, j.value_grad, j.s.value, 1);
}

/* ---- launching ---------------------------------------------------------------------------------------------------- */

/* delta: a warp per query */
template <class T> static mx_code make_delta(const mx_kernel_call *call, const job &given)
{
    const job j = given;
    return mx_cuda_each(call, j.s.batch * j.s.heads * j.s.queries * 32, [=] __device__(int64_t i) {
        const int64_t row = i / 32, query = row % j.s.queries, h = row / j.s.queries % j.s.heads,
                      n = row / j.s.queries / j.s.heads;
        const T *x = at((const T *)j.out, j.s.out, n, h, query), *g = at((const T *)j.out_grad, j.s.out, n, h, query);
        float sum = 0;
        for (int64_t d = i % 32; d < j.s.size; d += 32)
            sum += (float)x[d] * (float)g[d];
        for (int step = 16; step; step /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (i % 32 == 0)
            ((float *)j.delta)[row] = sum;
    });
}

template <class B> static mx_code launch(const mx_kernel_call *call, const job &j)
{
    mx_code code = make_delta<typename B::element>(call, j);
    if (!code && j.query_grad)
        code = launch_blocks(call, rare(j) ? attention_query_grad<B, true> : attention_query_grad<B, false>, j,
                             (j.s.queries + B::rows - 1) / B::rows, j.s.batch * j.s.heads, B::threads, B::bytes);
    if (!code && (j.key_grad || j.value_grad))
        code = launch_blocks(call, rare(j) ? attention_key_grad<B, true> : attention_key_grad<B, false>, j,
                             (j.s.keys + B::rows - 1) / B::rows, j.s.batch * j.s.kv_heads, B::threads, B::bytes);
    return code;
}

template <class K> static mx_code of_narrow(const mx_kernel_call *call, const job &j)
{
    return j.s.size <= 64    ? launch<backward<K, 64, 64, 4, 1>>(call, j)
           : j.s.size <= 128 ? launch<backward<K, 128, 32, 4, 1>>(call, j)
                             : launch<backward<K, 256, 32, 8, 2>>(call, j);
}
template <class K> static mx_code of_wide(const mx_kernel_call *call, const job &j)
{
    return j.s.size <= 64    ? launch<backward<K, 64, 32, 8, 1>>(call, j)
           : j.s.size <= 128 ? launch<backward<K, 128, 16, 8, 1>>(call, j)
                             : launch<backward<K, 256, 16, 8, 2>>(call, j);
}
} // namespace attention

mx_code mx_cuda_attention_backward(const mx_kernel_call *call, const attention::job &job, int type, bool exact)
{
    using namespace attention;
    return type == MX_BFLOAT16  ? of_narrow<narrow<__nv_bfloat16>>(call, job)
           : type == MX_FLOAT16 ? of_narrow<narrow<__half>>(call, job)
           : type != MX_FLOAT32 ? MX_DECLINED
           : exact              ? of_wide<wide<true>>(call, job)
                                : of_wide<wide<false>>(call, job);
}
