/* Tiles in shared memory and their products by tensor cores, for attention.
 *
 * Lane l of a warp holds of a product (16, 8): rows g = l / 4 and g + 8, columns 2t and 2t + 1, t = l % 4.  A product whose terms
 * are sums computed before needs no exchange between lanes: 16-bit ones lie as a left operand wants them; floats
 * are multiplied in another order of the terms (2t for t, 2t + 1 for t + 4), on both sides.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_ATTENTION_FUSED_TILES_H
#define MX_CUDA_ATTENTION_FUSED_TILES_H

#include <cuda_pipeline.h>

#include "cuda/kernels/gemm/tensor_cores.h"

namespace attention
{
static __device__ inline int lane() { return threadIdx.x % 32; }

/* ---- 16-bit floats ------------------------------------------------------------------------------------------------ */

template <class H> struct narrow {
    typedef H element;
    enum { terms = 16, lefts = 4, rights = 2, pad = 8 };

    static __device__ uint32_t address(const H *x) { return (uint32_t)__cvta_generic_to_shared(x); }
    /* rows 0 to 15, terms 0 to 15 of a tile */
    static __device__ void left(uint32_t a[4], const H *tile, int stride)
    {
        const H *x = tile + lane() % 16 * stride + lane() / 16 * 8;
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                     : "r"(address(x)));
    }
    /* columns 0 to 15 of the product are rows of the tile */
    static __device__ void right_rows(uint32_t b[2][2], const H *tile, int stride)
    {
        const H *x = tile + (lane() % 8 + lane() / 16 * 8) * stride + lane() / 8 % 2 * 8;
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(b[0][0]), "=r"(b[0][1]), "=r"(b[1][0]), "=r"(b[1][1])
                     : "r"(address(x)));
    }
    /* columns 0 to 15 of the product are columns of the tile, terms are its rows */
    static __device__ void right_columns(uint32_t b[2][2], const H *tile, int stride)
    {
        const H *x = tile + lane() % 16 * stride + lane() / 16 * 8;
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(b[0][0]), "=r"(b[0][1]), "=r"(b[1][0]), "=r"(b[1][1])
                     : "r"(address(x)));
    }
    static __device__ uint32_t pair(float x, float y);
    static __device__ void from_sums(uint32_t a[4], const float (*c)[4])
    {
        for (int i = 0; i < 4; i++)
            a[i] = pair(c[i / 2][i % 2 * 2], c[i / 2][i % 2 * 2 + 1]);
    }
    static __device__ void multiply(float c[4], const uint32_t a[4], const uint32_t b[2]);
    static __device__ void store(H *to, float x, float y) { *(uint32_t *)to = pair(x, y); }
};

#if MX_CUDA_TF32
#define MX_ATTENTION_MMA(type) \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#else
#define MX_ATTENTION_MMA(type) (void)0
#endif
template <> __device__ inline uint32_t narrow<__half>::pair(float x, float y)
{
    const __half2 both = __floats2half2_rn(x, y);
    return *(const uint32_t *)&both;
}
template <> __device__ inline uint32_t narrow<__nv_bfloat16>::pair(float x, float y)
{
    const __nv_bfloat162 both = __floats2bfloat162_rn(x, y);
    return *(const uint32_t *)&both;
}
template <> __device__ inline void narrow<__half>::multiply(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    MX_ATTENTION_MMA("f16");
}
template <> __device__ inline void narrow<__nv_bfloat16>::multiply(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    MX_ATTENTION_MMA("bf16");
}

/* ---- floats: rounded to TF32, or exact by three products of their upper and lower parts --------------------------- */

template <bool EXACT> struct wide {
    typedef float element;
    enum { terms = 8, lefts = EXACT ? 8 : 4, rights = EXACT ? 4 : 2, pad = 4 };

    /* v[i], and after the n upper parts its lower one */
    static __device__ void put(uint32_t *v, int i, int n, float x)
    {
        v[i] = mx_cuda_tf32(x);
        if (EXACT)
            v[n + i] = mx_cuda_tf32(x - __uint_as_float(v[i]));
    }
    static __device__ void left(uint32_t a[lefts], const float *tile, int stride)
    {
        const float *x = tile + lane() / 4 * stride + lane() % 4;
        for (int i = 0; i < 4; i++)
            put(a, i, 4, x[i % 2 * 8 * stride + i / 2 * 4]);
    }
    static __device__ void right_rows(uint32_t b[2][rights], const float *tile, int stride)
    {
        const float *x = tile + lane() / 4 * stride + lane() % 4;
        for (int half = 0; half < 2; half++)
            for (int i = 0; i < 2; i++)
                put(b[half], i, 2, x[half * 8 * stride + 4 * i]);
    }
    static __device__ void right_columns(uint32_t b[2][rights], const float *tile, int stride)
    {
        const float *x = tile + lane() % 4 * 2 * stride + lane() / 4;
        for (int half = 0; half < 2; half++)
            for (int i = 0; i < 2; i++)
                put(b[half], i, 2, x[i * stride + half * 8]);
    }
    static __device__ void from_sums(uint32_t a[lefts], const float (*c)[4])
    {
        for (int i = 0; i < 4; i++)
            put(a, i, 4, c[0][i % 2 * 2 + i / 2]);
    }
    static __device__ void multiply(float c[4], const uint32_t a[lefts], const uint32_t b[rights])
    {
        if (EXACT) {
            mx_cuda_multiply_add(c, a, b + rights - 2);
            mx_cuda_multiply_add(c, a + lefts - 4, b);
        }
        mx_cuda_multiply_add(c, a, b);
    }
    static __device__ void store(float *to, float x, float y) { *(float2 *)to = make_float2(x, y); }
};

/* ---- tiles -------------------------------------------------------------------------------------------------------- */

/* Rows of D elements in shared memory, apart by some more so that a warp's reads hit different banks. */
template <class K, int D> struct tiles {
    typedef typename K::element element;
    enum { stride = D + K::pad };

    /* Starts copying `rows` rows of `size` elements, `step` apart; those from `most` on, and columns from `size` on, are 0. */
    template <int rows>
    static __device__ void fetch(element *to, const element *from, int64_t step, int64_t most, int size)
    {
        constexpr int each = 16 / sizeof(element), parts = D / each;
        for (int i = threadIdx.x; i < rows * parts; i += blockDim.x) {
            const int row = i / parts, column = i % parts * each;
            const bool in = row < most && column < size;
            __pipeline_memcpy_async(to + row * stride + column, in ? from + row * step + column : from, 16,
                                    in ? 0 : 16);
        }
    }

    /* Left operands from 16 M rows of a tile: read when they are used, or held in registers. */
    template <int M> struct read {
        const element *rows;
        __device__ void load(const element *given) { rows = given; }
        __device__ void left(uint32_t a[K::lefts], int m, int k) const
        {
            K::left(a, rows + m * 16 * stride + k, stride);
        }
    };
    template <int M> struct held {
        uint32_t v[M][D / K::terms][K::lefts];
        __device__ void load(const element *rows)
        {
#pragma unroll
            for (int m = 0; m < M; m++)
#pragma unroll
                for (int k = 0; k < D / K::terms; k++)
                    K::left(v[m][k], rows + m * 16 * stride + k * K::terms, stride);
        }
        __device__ void left(uint32_t a[K::lefts], int m, int k) const
        {
#pragma unroll
            for (int i = 0; i < K::lefts; i++)
                a[i] = v[m][k / K::terms][i];
        }
    };

    /* c = rows other': 16 M rows, `other`: N rows of a tile */
    template <int M, int N, class L>
    static __device__ void compare(float c[M][N / 8][4], const L &rows, const element *other)
    {
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int n = 0; n < N / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    c[m][n][i] = 0;
#pragma unroll
        for (int k = 0; k < D; k += K::terms) {
            uint32_t a[M][K::lefts], b[2][K::rights];
#pragma unroll
            for (int m = 0; m < M; m++)
                rows.left(a[m], m, k);
#pragma unroll
            for (int n = 0; n < N / 8; n += 2) {
                K::right_rows(b, other + n * 8 * stride + k, stride);
#pragma unroll
                for (int m = 0; m < M; m++)
                    K::multiply(c[m][n], a[m], b[0]), K::multiply(c[m][n + 1], a[m], b[1]);
            }
        }
    }

    /* sums (16 M, C) += weights (16 M, N) other (N, C columns of a tile) */
    template <int M, int N, int C>
    static __device__ void add(float sums[M][C / 8][4], const float weights[M][N / 8][4], const element *other)
    {
#pragma unroll
        for (int k = 0; k < N; k += K::terms) {
            uint32_t a[M][K::lefts], b[2][K::rights];
#pragma unroll
            for (int m = 0; m < M; m++)
                K::from_sums(a[m], weights[m] + k / 8);
#pragma unroll
            for (int n = 0; n < C / 8; n += 2) {
                K::right_columns(b, other + k * stride + n * 8, stride);
#pragma unroll
                for (int m = 0; m < M; m++)
                    K::multiply(sums[m][n], a[m], b[0]), K::multiply(sums[m][n + 1], a[m], b[1]);
            }
        }
    }

    /* Writes sums times `factor` of the row as rows of a result; at(row) gives its place, or NULL. */
    template <int M, int C, class F, class P>
    static __device__ void write(const float sums[M][C / 8][4], int first, int size, F factor, P at)
    {
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                element *to = at(m * 16 + half * 8 + lane() / 4);
                const float f = factor(m, half);
#pragma unroll
                for (int n = 0; n < C / 8; n++) {
                    const int column = first + n * 8 + lane() % 4 * 2;
                    if (to && column < size)
                        K::store(to + column, f * sums[m][n][2 * half], f * sums[m][n][2 * half + 1]);
                }
            }
    }
};
} // namespace attention

#endif
