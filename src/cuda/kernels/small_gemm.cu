/* Small matrix products, where latency is everything: layers of a few hundred units and batches of some dozens.
 *
 * The libraries' kernels have few tiles of such a product to work on, each with the whole sum.  Here a block of KW warps
 * makes one small tile; its warps take turns in the sum and add their parts up in shared memory:
 *
 *     tile (16 MI, 8 NI) of C:  warp w sums over k = 8 w ... 8 w + 7, then 8 (w + KW) ..., by tensor cores (m16n8k8)
 *
 * Numbers are rounded to TF32, so it serves where that is wanted.  Whether it is the fastest is measured (gemm.cu).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/gemm.h"

#define MOST_OUT (512 * 1024) /* elements of C */
#define MOST_SUM 2048         /* terms of a sum */
#define AHEAD 4               /* steps of a warp whose numbers are loaded together */

static __device__ inline uint32_t rounded(float x)
{
    uint32_t bits = __float_as_uint(x);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
#endif
    return bits;
}

/* c (16, 8) += a (16, 8) b (8, 8): lane l holds rows l/4 and l/4 + 8, terms l%4 and l%4 + 4, columns 2(l%4) and the next. */
static __device__ inline void multiply_add(float c[4], const uint32_t a[4], const uint32_t b[2])
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* An operand: element (i, k) of A or (j, k) of B. */
struct operand {
    const float *data;
    int64_t step, step_k; /* from one i or j, from one k to the next */
    int count;            /* of i or j */
    __device__ const float *line(int i) const { return i < count ? data + i * step : nullptr; }
};

/* Element k of a line; 0 outside. */
static __device__ inline float element(const float *line, int64_t offset, bool inside)
{
    return line && inside ? __ldg(line + offset) : 0.f;
}

struct small {
    operand a, b;
    float *c;
    const float *bias;
    float *sums;
    int64_t ldc;
    int terms;
    float alpha, beta;
    bool relu;
};

template <int MI, int NI, int KW> __global__ void __launch_bounds__(KW * 32) small_gemm(const __grid_constant__ small g)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = lane / 4, term = lane % 4;
    const int m0 = blockIdx.y * 16 * MI, n0 = blockIdx.x * 8 * NI;
    const bool adds_up = g.sums && !blockIdx.x;
    __shared__ float parts[KW][16 * MI][8 * NI + 1], sums[KW][16 * MI];
    float c[MI][NI][4] = {}, sum[MI][2] = {};
    const float *a_line[MI][2], *b_line[NI];
#pragma unroll
    for (int i = 0; i < MI; i++)
        a_line[i][0] = g.a.line(m0 + i * 16 + row), a_line[i][1] = g.a.line(m0 + i * 16 + row + 8);
#pragma unroll
    for (int j = 0; j < NI; j++)
        b_line[j] = g.b.line(n0 + j * 8 + row);
    for (int first = warp * 8 + term; first - term < g.terms; first += KW * 8 * AHEAD) {
        float a[AHEAD][MI][4], b[AHEAD][NI][2]; /* all loads are under way before the first product */
#pragma unroll
        for (int s = 0; s < AHEAD; s++) {
            const int k = first + s * KW * 8;
            const int64_t a0 = k * g.a.step_k, a1 = a0 + 4 * g.a.step_k, b0 = k * g.b.step_k, b1 = b0 + 4 * g.b.step_k;
            const bool in0 = k < g.terms, in1 = k + 4 < g.terms;
#pragma unroll
            for (int j = 0; j < NI; j++)
                b[s][j][0] = element(b_line[j], b0, in0), b[s][j][1] = element(b_line[j], b1, in1);
#pragma unroll
            for (int i = 0; i < MI; i++) {
                a[s][i][0] = element(a_line[i][0], a0, in0), a[s][i][1] = element(a_line[i][1], a0, in0);
                a[s][i][2] = element(a_line[i][0], a1, in1), a[s][i][3] = element(a_line[i][1], a1, in1);
            }
        }
#pragma unroll
        for (int s = 0; s < AHEAD; s++) {
            uint32_t x[4], y[NI][2];
#pragma unroll
            for (int j = 0; j < NI; j++)
                y[j][0] = rounded(b[s][j][0]), y[j][1] = rounded(b[s][j][1]);
#pragma unroll
            for (int i = 0; i < MI; i++) {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    x[e] = rounded(a[s][i][e]);
                sum[i][0] += a[s][i][0] + a[s][i][2], sum[i][1] += a[s][i][1] + a[s][i][3];
#pragma unroll
                for (int j = 0; j < NI; j++)
                    multiply_add(c[i][j], x, y[j]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < MI; i++) {
#pragma unroll
        for (int j = 0; j < NI; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                parts[warp][i * 16 + row + e / 2 * 8][j * 8 + 2 * term + e % 2] = c[i][j][e];
        for (int half = 0; adds_up && half < 2; half++) {
            float all = sum[i][half];
            all += __shfl_xor_sync(0xffffffffu, all, 1);
            all += __shfl_xor_sync(0xffffffffu, all, 2);
            if (!term)
                sums[warp][i * 16 + half * 8 + row] = all;
        }
    }
    __syncthreads();
    for (int e = threadIdx.x; e < 16 * MI * 8 * NI; e += KW * 32) {
        const int i = e / (8 * NI), j = e % (8 * NI);
        float x = 0;
#pragma unroll
        for (int w = 0; w < KW; w++)
            x += parts[w][i][j];
        if (m0 + i >= g.a.count || n0 + j >= g.b.count)
            continue;
        float *out = g.c + (m0 + i) * g.ldc + n0 + j;
        x = g.alpha * x + (g.beta != 0 ? g.beta * *out : 0) + (g.bias ? g.bias[n0 + j] : 0);
        *out = g.relu && x < 0 ? 0 : x;
    }
    for (int i = threadIdx.x; adds_up && i < 16 * MI; i += KW * 32) {
        float x = 0;
        for (int w = 0; w < KW; w++)
            x += sums[w][i];
        if (m0 + i < g.a.count)
            g.sums[m0 + i] = x;
    }
}

bool mx_cuda_small_gemm_suits(const mx_cuda_device *d, int dtype, const mx_cuda_gemm &g, bool tf32)
{
    int major = 0;
    return dtype == MX_FLOAT32 && tf32 && g.batch == 1 && g.m * g.n <= MOST_OUT && g.k <= MOST_SUM &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, d->id) == cudaSuccess && major >= 8;
}

template <int MI, int NI, int KW> static cudaError_t launch(mx_cuda_device *d, const mx_cuda_gemm &g)
{
    const small s = {{(const float *)g.a, g.trans_a ? 1 : g.lda, g.trans_a ? g.lda : 1, (int)g.m},
                     {(const float *)g.b, g.trans_b ? g.ldb : 1, g.trans_b ? 1 : g.ldb, (int)g.n},
                     (float *)g.c, (const float *)g.bias, (float *)g.sums, g.ldc, (int)g.k, (float)g.alpha, (float)g.beta, g.relu};
    const dim3 grid((unsigned)((g.n + 8 * NI - 1) / (8 * NI)), (unsigned)((g.m + 16 * MI - 1) / (16 * MI)));
    small_gemm<MI, NI, KW><<<grid, KW * 32, 0, d->stream>>>(s);
    return cudaGetLastError();
}

cudaError_t mx_cuda_small_gemm(mx_cuda_device *d, const mx_cuda_gemm &g, int tiling)
{
    switch (tiling) {
    case 0: return launch<1, 2, 8>(d, g);  /* 16 x 16, long sums */
    case 1: return launch<1, 2, 16>(d, g); /* longer ones */
    case 2: return launch<1, 4, 4>(d, g);  /* 16 x 32 */
    default: return launch<2, 4, 4>(d, g); /* 32 x 32, short sums */
    }
}
