/* Small matrix products, where latency is everything: layers of a few hundred units and batches of some dozens.
 *
 * The libraries' kernels cut such a product into few tiles, each with the complete sum over k.  Here a block of KW warps
 * computes one small tile; its warps split the sum and add their parts in shared memory:
 *
 *     tile (16 MI, 8 NI) of C:  warp w sums over k = 16 w ... 16 w + 15, then 16 (w + KW) ..., by tensor cores (m16n8k8)
 *
 * A lane has four neighbouring k of each of its rows of A and columns of B, and its rows are neighbours, too: so 16 bytes are
 * read at once, whichever of the two is contiguous.  Numbers are rounded to TF32, so it is used only where that is allowed.
 * gemm.cu measures whether it is the fastest.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/early.h"
#include "cuda/kernels/gemm/gemm.h"
#include "cuda/kernels/gemm/tensor_cores.h"

#define MOST_OUT (512 * 1024) /* elements of C */
#define MOST_SUM 2048         /* terms of a sum */

namespace
{

/* How elements of an operand are read: four k of a line, the lines of one k, or one by one. */
enum reading { LINES, ACROSS, SINGLE };

/* An operand: element (i, k) of A or (j, k) of B. */
struct operand {
    const float *data;
    int64_t step, step_k; /* from one i or j, from one k to the next */
    int count;            /* of i or j */
};

struct small {
    operand a, b;
    float *c;
    const float *bias, *mask;
    float *sums;
    int64_t ldc;
    int terms;
    float alpha, beta;
    bool relu;
};

/* V lines of an operand; a lane reads four k of them at a time. */
template <reading R, int V> struct lane_lines {
    const float *line[R == ACROSS ? 1 : V]; /* NULL: outside */
    int64_t step_k;
    __device__ lane_lines(const operand &x, int first, int term) : step_k(x.step_k)
    {
#pragma unroll
        for (int l = 0; l < (R == ACROSS ? 1 : V); l++)
            line[l] = first + l < x.count ? x.data + (first + l) * x.step + 4 * term * x.step_k : nullptr;
    }
    /* v[k][line]; left: terms of the sum from k on */
    __device__ void read(float (&v)[4][V], int k, int left) const
    {
        if constexpr (R == LINES) {
#pragma unroll
            for (int l = 0; l < V; l++) {
                const float4 four =
                    line[l] && left > 0 ? __ldg((const float4 *)(line[l] + k)) : make_float4(0, 0, 0, 0);
                v[0][l] = four.x, v[1][l] = four.y, v[2][l] = four.z, v[3][l] = four.w;
            }
        } else if constexpr (R == ACROSS && V == 4) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float4 four =
                    line[0] && left > e ? __ldg((const float4 *)(line[0] + (k + e) * step_k)) : make_float4(0, 0, 0, 0);
                v[e][0] = four.x, v[e][1] = four.y, v[e][2] = four.z, v[e][3] = four.w;
            }
        } else if constexpr (R == ACROSS && V == 2) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float2 two =
                    line[0] && left > e ? __ldg((const float2 *)(line[0] + (k + e) * step_k)) : make_float2(0, 0);
                v[e][0] = two.x, v[e][1] = two.y;
            }
        } else {
#pragma unroll
            for (int e = 0; e < 4; e++)
#pragma unroll
                for (int l = 0; l < V; l++)
                    v[e][l] = line[l] && left > e ? __ldg(line[l] + (k + e) * step_k) : 0.f;
        }
    }
};

/* Row 2 MI r + 2 i + h of the tile is row r + 8 h of product i, column NI c + j is column c of product j. */
template <int MI, int NI, int KW, reading RA, reading RB>
__global__ void __launch_bounds__(KW * 32) small_gemm(const __grid_constant__ small g)
{
    constexpr int M = 16 * MI, N = 8 * NI, EACH = (M * N + KW * 32 - 1) / (KW * 32);
    constexpr int AHEAD = 64 / (8 * MI + 4 * NI); /* all these loads are issued before the first product */
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = lane / 4, term = lane % 4;
    const int m0 = blockIdx.y * M, n0 = blockIdx.x * N;
    const bool adds_up = g.sums && !blockIdx.x;
    __shared__ float parts[KW][M][N + 1], sums[KW][M];
    float c[MI][NI][4] = {}, sum[2 * MI] = {}, more[EACH];
    bool stays[EACH];
    mx_cuda_wait_for_earlier();
#pragma unroll
    for (int e = 0; e < EACH; e++) { /* for the epilogue */
        const int at = threadIdx.x + e * KW * 32, m = m0 + at / N, n = n0 + at % N;
        const bool inside = at < M * N && m < g.a.count && n < g.b.count;
        more[e] = inside && g.bias ? __ldg(g.bias + n) : 0;
        stays[e] = !inside || !g.mask || __ldg(g.mask + (int64_t)m * g.b.count + n) > 0;
    }
    const lane_lines<RA, 2 * MI> a_lines(g.a, m0 + row * 2 * MI, term);
    const lane_lines<RB, NI> b_lines(g.b, n0 + row * NI, term);
    for (int first = warp * 16; first < g.terms; first += KW * 16 * AHEAD) {
        float a[AHEAD][4][2 * MI], b[AHEAD][4][NI];
#pragma unroll
        for (int s = 0; s < AHEAD; s++) {
            const int k = first + s * KW * 16, left = g.terms - k - 4 * term;
            b_lines.read(b[s], k, left);
            a_lines.read(a[s], k, left);
        }
#pragma unroll
        for (int s = 0; s < AHEAD; s++)
#pragma unroll
            for (int e = 0; e < 4; e += 2) {
                uint32_t x[4], y[NI][2];
#pragma unroll
                for (int j = 0; j < NI; j++)
                    y[j][0] = mx_cuda_tf32(b[s][e][j]), y[j][1] = mx_cuda_tf32(b[s][e + 1][j]);
#pragma unroll
                for (int i = 0; i < MI; i++) {
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        x[h] = mx_cuda_tf32(a[s][e][2 * i + h]), x[h + 2] = mx_cuda_tf32(a[s][e + 1][2 * i + h]);
                        sum[2 * i + h] += a[s][e][2 * i + h] + a[s][e + 1][2 * i + h];
                    }
#pragma unroll
                    for (int j = 0; j < NI; j++)
                        mx_cuda_multiply_add(c[i][j], x, y[j]);
                }
            }
    }
#pragma unroll
    for (int i = 0; i < MI; i++)
#pragma unroll
        for (int j = 0; j < NI; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                parts[warp][row * 2 * MI + 2 * i + e / 2][(2 * term + e % 2) * NI + j] = c[i][j][e];
#pragma unroll
    for (int i = 0; i < 2 * MI; i++) {
        float all = sum[i];
        all += __shfl_xor_sync(0xffffffffu, all, 1);
        all += __shfl_xor_sync(0xffffffffu, all, 2);
        if (adds_up && !term)
            sums[warp][row * 2 * MI + i] = all;
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int at = threadIdx.x + e * KW * 32, i = at / N, j = at % N;
        if (at >= M * N || m0 + i >= g.a.count || n0 + j >= g.b.count)
            continue;
        float x = 0;
#pragma unroll
        for (int w = 0; w < KW; w++)
            x += parts[w][i][j];
        float *out = g.c + (m0 + i) * g.ldc + n0 + j;
        x = g.alpha * x + (g.beta != 0 ? g.beta * *out : 0) + more[e];
        *out = (g.relu && x < 0) || !stays[e] ? 0 : x;
    }
    for (int i = threadIdx.x; adds_up && i < M; i += KW * 32) {
        float x = 0;
        for (int w = 0; w < KW; w++)
            x += sums[w][i];
        if (m0 + i < g.a.count)
            g.sums[m0 + i] = x;
    }
}

/* V lines are read across if all or none of them exist. */
static reading reading_of(const operand &x, int terms, int lines)
{
    const bool aligned = (uintptr_t)x.data % 16 == 0;
    if (x.step_k == 1)
        return aligned && x.step % 4 == 0 && terms % 4 == 0 ? LINES : SINGLE;
    return aligned && x.step_k % 4 == 0 && x.count % lines == 0 && lines > 1 ? ACROSS : SINGLE;
}

template <int MI, int NI, int KW> static cudaError_t launch(mx_cuda_device *d, const mx_cuda_gemm &g)
{
    const small s = {{(const float *)g.a, g.trans_a ? 1 : g.lda, g.trans_a ? g.lda : 1, (int)g.m},
                     {(const float *)g.b, g.trans_b ? g.ldb : 1, g.trans_b ? 1 : g.ldb, (int)g.n},
                     (float *)g.c, (const float *)g.bias, (const float *)g.mask, (float *)g.sums, g.ldc, (int)g.k,
                     (float)g.alpha, (float)g.beta, g.relu};
    const reading a = reading_of(s.a, s.terms, 2 * MI), b = reading_of(s.b, s.terms, NI);
    const auto kernel = a == LINES && b == LINES     ? small_gemm<MI, NI, KW, LINES, LINES>
                        : a == LINES && b == ACROSS  ? small_gemm<MI, NI, KW, LINES, ACROSS>
                        : a == ACROSS && b == ACROSS ? small_gemm<MI, NI, KW, ACROSS, ACROSS>
                        : b == ACROSS                ? small_gemm<MI, NI, KW, SINGLE, ACROSS>
                                                     : small_gemm<MI, NI, KW, SINGLE, SINGLE>;
    const dim3 grid((unsigned)((g.n + 8 * NI - 1) / (8 * NI)), (unsigned)((g.m + 16 * MI - 1) / (16 * MI)));
    return mx_cuda_launch_early(d, kernel, grid, KW * 32, s);
}

} // namespace

bool mx_cuda_small_gemm_suits(const mx_cuda_device *d, int dtype, const mx_cuda_gemm &g, bool tf32)
{
    return dtype == MX_FLOAT32 && tf32 && g.batch == 1 && !g.addend && g.m * g.n <= MOST_OUT && g.k <= MOST_SUM &&
           mx_cuda_has_tf32(d);
}

cudaError_t mx_cuda_small_gemm(mx_cuda_device *d, const mx_cuda_gemm &g, int tiling)
{
    switch (tiling) {
    case 0: return launch<1, 2, 8>(d, g);  /* 16 x 16, long sums */
    case 1: return launch<1, 2, 16>(d, g); /* longer ones */
    case 2: return launch<1, 1, 16>(d, g); /* 16 x 8: few columns */
    case 3: return launch<1, 4, 8>(d, g);  /* 16 x 32, long sums */
    default: return launch<1, 4, 4>(d, g); /* shorter ones */
    }
}
