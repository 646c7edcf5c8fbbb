/* Attention, forward, on tiles: a block computes the results of some queries and walks over the keys once.
 *
 *     for every tile of keys:  s = q k';  m' = max(m, s);  p = exp(s - m');  sum = sum exp(m - m') + p;  out = out exp(m - m') + p v
 *
 * The next tile of keys and values is fetched meanwhile.  Exponents are powers of 2; the numbers m are scaled for that.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <type_traits>

#include "cuda/kernels/gemm/attention_fused.h"
#include "cuda/kernels/gemm/attention_fused_score.h"

namespace attention
{
/* D: size of a head, rounded up; N: keys of a tile; M: 16 rows each per warp; SPLIT: warps that share the columns of a row. */
template <class K, int D, int N, int M, int WARPS, int SPLIT> struct forward {
    typedef typename K::element element;
    typedef tiles<K, D> tile;
    typedef typename std::conditional<K::terms == 16 && D * M <= 128, typename tile::template held<M>,
                                      typename tile::template read<M>>::type rows_of_warp;
    enum { threads = WARPS * 32, rows = 16 * M * WARPS / SPLIT, columns = D / SPLIT,
           bytes = (rows + 4 * N) * tile::stride * (int)sizeof(element) };

    static __device__ void fetch(const job &j, int64_t n, int64_t h, int64_t key, element *keys, element *values)
    {
        const int64_t shared = h / (j.s.heads / j.s.kv_heads), most = j.s.keys - key;
        tile::template fetch<N>(keys, at((const element *)j.key, j.s.key, n, shared, key), j.s.key.time, most,
                                (int)j.s.size);
        tile::template fetch<N>(values, at((const element *)j.value, j.s.value, n, shared, key), j.s.value.time, most,
                                (int)j.s.size);
        __pipeline_commit();
    }

    /* One step of the softmax: sums become weights; what was summed before is scaled down. */
    static __device__ void advance(float c[M][N / 8][4], float most[M][2], float total[M][2],
                                   float sums[M][columns / 8][4])
    {
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float top = most[m][half], added = 0;
#pragma unroll
                for (int n = 0; n < N / 8; n++)
                    top = fmaxf(top, fmaxf(c[m][n][2 * half], c[m][n][2 * half + 1]));
                top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
                top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
                const float shift = top == -INFINITY ? 0 : top, shrink = exp2f(most[m][half] - shift);
                most[m][half] = top;
#pragma unroll
                for (int n = 0; n < N / 8; n++)
#pragma unroll
                    for (int i = 2 * half; i < 2 * half + 2; i++)
                        added += c[m][n][i] = exp2f(c[m][n][i] - shift);
                total[m][half] = total[m][half] * shrink + added;
#pragma unroll
                for (int n = 0; n < columns / 8; n++)
                    sums[m][n][2 * half] *= shrink, sums[m][n][2 * half + 1] *= shrink;
            }
    }
};

template <class F, class K, int D, int N, int M, int SPLIT, bool RARE>
__global__ void __launch_bounds__(F::threads) attention_forward(const __grid_constant__ job j, int blocks)
{
    typedef typename K::element element;
    typedef tiles<K, D> tile;
    extern __shared__ __align__(16) char memory[];
    const int64_t group = blockIdx.x / blocks, n = group / j.s.heads, h = group % j.s.heads;
    const int64_t first =
        (int64_t)(blocks - 1 - blockIdx.x % blocks) * F::rows; /* long rows of causal attention first */
    const int64_t length = j.keys_of(n), last = min(first + F::rows, j.s.queries) - 1;
    const int64_t end = mx_attention_seen(&j.s, length, last);
    const int warp = threadIdx.x / 32 / SPLIT, part = threadIdx.x / 32 % SPLIT;
    element *queries = (element *)memory, *keys = queries + F::rows * tile::stride,
            *values = keys + 2 * N * tile::stride;
    const scores<N, M, RARE> score(j, n, h, first + warp * 16 * M, length);
    float sums[M][F::columns / 8][4] = {}, most[M][2], total[M][2] = {};
#pragma unroll
    for (int m = 0; m < M; m++)
        most[m][0] = most[m][1] = -INFINITY;

    tile::template fetch<F::rows>(queries, at((const element *)j.query, j.s.query, n, h, first), j.s.query.time,
                                  j.s.queries - first, (int)j.s.size);
    F::fetch(j, n, h, 0, keys, values);
    typename F::rows_of_warp own;
    for (int64_t key = 0, stage = 0; key < end; key += N, stage ^= 1) {
        float c[M][N / 8][4];
        if (key + N < end)
            F::fetch(j, n, h, key + N, keys + (stage ^ 1) * N * tile::stride, values + (stage ^ 1) * N * tile::stride);
        else
            __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        if (!key)
            own.load(queries + warp * 16 * M * tile::stride);
        tile::template compare<M, N>(c, own, keys + stage * N * tile::stride);
        score.scale(c);
        score.hide(c, key, -INFINITY);
        F::advance(c, most, total, sums);
        score.drop(c, key);
        tile::template add<M, N, F::columns>(sums, c, values + stage * N * tile::stride + part * F::columns);
        __syncthreads();
    }
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            for (int step = 1; step < 4; step *= 2)
                total[m][half] += __shfl_xor_sync(0xffffffffu, total[m][half], step);
    const auto place = [&](int row) {
        const int64_t i = first + warp * 16 * M + row;
        return i < j.s.queries ? at((element *)j.result, j.s.out, n, h, i) : nullptr;
    };
    tile::template write<M, F::columns>(
        sums, part * F::columns, (int)j.s.size,
        [&](int m, int half) { return total[m][half] > 0 ? 1 / total[m][half] : 0; }, place);
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int64_t i = first + (warp * M + m) * 16 + half * 8 + lane() / 4;
            if (!part && lane() % 4 == 0 && i < j.s.queries)
                ((float *)j.lse)[j.row(n, h, i)] =
                    total[m][half] > 0 ? (most[m][half] + log2f(total[m][half])) * LN2 : 0;
        }
}

template <class K, int D, int N, int M, int WARPS, int SPLIT>
static mx_code launch(const mx_kernel_call *call, const job &j)
{
    typedef forward<K, D, N, M, WARPS, SPLIT> F;
    const int64_t blocks = (j.s.queries + F::rows - 1) / F::rows;
    return launch_blocks(
        call, rare(j) ? attention_forward<F, K, D, N, M, SPLIT, true> : attention_forward<F, K, D, N, M, SPLIT, false>,
        j, blocks, j.s.batch * j.s.heads, F::threads, F::bytes);
}

template <class K> static mx_code of_narrow(const mx_kernel_call *call, const job &j)
{
    return j.s.size <= 64    ? launch<K, 64, 64, 2, 4, 1>(call, j)
           : j.s.size <= 128 ? launch<K, 128, 64, 1, 8, 1>(call, j)
                             : launch<K, 256, 32, 1, 8, 2>(call, j);
}
template <class K> static mx_code of_wide(const mx_kernel_call *call, const job &j)
{
    return j.s.size <= 64    ? launch<K, 64, 32, 1, 8, 1>(call, j)
           : j.s.size <= 128 ? launch<K, 128, 32, 1, 8, 1>(call, j)
                             : launch<K, 256, 16, 1, 8, 2>(call, j);
}
} // namespace attention

mx_code mx_cuda_attention_forward(const mx_kernel_call *call, const attention::job &job, int type, bool exact)
{
    using namespace attention;
    return type == MX_BFLOAT16  ? of_narrow<narrow<__nv_bfloat16>>(call, job)
           : type == MX_FLOAT16 ? of_narrow<narrow<__half>>(call, job)
           : type != MX_FLOAT32 ? MX_DECLINED
           : exact              ? of_wide<wide<true>>(call, job)
                                : of_wide<wide<false>>(call, job);
}
