/* Scores of attention in the registers of a warp: scaling, hiding, dropping; launching.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_ATTENTION_FUSED_SCORE_H
#define MX_CUDA_ATTENTION_FUSED_SCORE_H

#include "cuda/kernels/gemm/attention_fused.h"
#include "cuda/kernels/gemm/attention_fused_tiles.h"

#define LOG2E 1.44269504088896341f
#define LN2 0.69314718055994531f

namespace attention
{
/* Rows: 16 M queries from `first` on; columns: N keys.  RARE: there is a mask or dropout. */
template <int N, int M, bool RARE> struct scores {
    const job &j;
    int64_t n, h, first, length;
    float factor; /* of the scores, for powers of 2 */
    __device__ scores(const job &given, int64_t entry, int64_t head, int64_t start, int64_t keys)
        : j(given), n(entry), h(head), first(start), length(keys), factor((float)given.s.scale * LOG2E)
    {
    }
    __device__ int64_t row(int m, int half) const { return first + m * 16 + half * 8 + lane() / 4; }

    __device__ void scale(float c[M][N / 8][4]) const
    {
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int k = 0; k < N / 8; k++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    c[m][k][i] *= factor;
    }

    /* Scores of keys from `key` on that a query does not see become `instead`. */
    __device__ void hide(float c[M][N / 8][4], int64_t key, float instead) const
    {
        if (!(RARE && j.mask.data) && key + N <= mx_attention_seen(&j.s, length, first) &&
            first + 16 * M <= j.s.queries)
            return;
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int64_t i = row(m, half), seen = i < j.s.queries ? mx_attention_seen(&j.s, length, i) : 0;
                const int start = lane() % 4 * 2, most = (int)(seen - key) - start;
#pragma unroll
                for (int k = 0; k < N / 8; k++)
#pragma unroll
                    for (int odd = 0; odd < 2; odd++)
                        if (k * 8 + odd >= most || (RARE && !j.shows(n, h, i, key + start + k * 8 + odd)))
                            c[m][k][2 * half + odd] = instead;
            }
    }

    /* Weights that dropout takes away become 0, others larger.  A counter of Philox serves 4 pairs of keys. */
    __device__ void drop(float c[M][N / 8][4], int64_t key) const
    {
        if (!RARE || !(j.s.dropout > 0))
            return;
        const uint32_t threshold = mx_attention_threshold(j.s.dropout);
        const float kept = j.s.dropout < 1 ? (float)(1 / (1 - j.s.dropout)) : 0;
        const mx_rng rng = j.used();
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const uint64_t start =
                    rng.counter + (uint64_t)j.row(n, h, row(m, half)) * mx_attention_row_counters(j.s.keys);
                uint32_t words[4];
#pragma unroll
                for (int k = 0; k < N / 8; k++) {
                    const int64_t at = key / 8 + k; /* eight keys each */
                    if (k == 0 || at % 4 == 0)
                        mx_philox(rng.seed, start + (uint64_t)(4 * (at / 4) + lane() % 4), words);
                    const uint32_t word = at % 4 == 0   ? words[0]
                                          : at % 4 == 1 ? words[1]
                                          : at % 4 == 2 ? words[2]
                                                        : words[3];
#pragma unroll
                    for (int odd = 0; odd < 2; odd++)
                        c[m][k][2 * half + odd] *=
                            (word >> 16 * odd & 0xffff) >= threshold && threshold < 65536 ? kept : 0;
                }
            }
    }
};
static inline bool rare(const job &j) { return j.mask.data || j.s.dropout > 0; }

/* `blocks` blocks for each of `groups` heads. */
template <class F>
static mx_code launch_blocks(const mx_kernel_call *call, F kernel, const job &j, int64_t blocks, int64_t groups,
                             int threads, int bytes)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (d->code < 80 || blocks * groups > INT32_MAX)
        return MX_DECLINED;
    if (!blocks || !groups)
        return MX_OK;
    const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (status != cudaSuccess)
        return mx_cuda_fail(status, call->op->name);
    kernel<<<(unsigned)(blocks * groups), threads, bytes, d->stream>>>(j, (int)blocks);
    return mx_cuda_launched(call);
}
} // namespace attention

#endif
