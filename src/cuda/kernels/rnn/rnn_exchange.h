/* How the blocks of rnn_fused.h hand numbers to each other, and multiply them with their weights.
 *
 *     exchange (parts, 2, rows, columns)   step i writes to half i % 2
 *
 * There is no barrier.  The two lowest bits of a number in the exchange are its step modulo 3; TF32 does not use them.
 * A reader that finds another step's bits reads again.  A block overwrites a half only after it has read all of the
 * step in between, which no block writes before it has read all of that half.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_RNN_EXCHANGE_H
#define MX_CUDA_RNN_EXCHANGE_H

#include "cuda/kernels/gemm/tensor_cores.h"

#define MX_RNN_WARPS 8 /* of a block */
#define MX_RNN_THREADS (MX_RNN_WARPS * 32)

namespace
{

/* Four numbers that other blocks write; where there are none, `to` stays.  Without a branch: many loads are issued at
 * once. */
__device__ void read(const uint32_t *x, bool there, uint32_t (&to)[4])
{
    asm volatile("{ .reg .pred there; setp.ne.u32 there, %5, 0;\n"
                 "@there ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "+r"(to[0]), "+r"(to[1]), "+r"(to[2]), "+r"(to[3])
                 : "l"(x), "r"((uint32_t)there)
                 : "memory");
}

/* A block's part of the exchange, and the bits of a step. */
struct exchange_part {
    uint32_t *memory;
    int rows, columns;
    static __device__ uint32_t tag(int step) { return (uint32_t)(step + 3) % 3 + 1; } /* 0: nothing was written yet */
    __device__ uint32_t *half(int step) const { return memory + (step & 1) * rows * columns; }
    __device__ void put(int step, int row, int column, float x) const
    {
        uint32_t *to = half(step) + row * columns + column;
        asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"((mx_cuda_tf32(x) & ~3u) | tag(step))
                     : "memory");
    }
};

/* The part of a block's weights that a warp holds: MT * 16 rows; of every 128 columns 16, and KS * 8 in all.  The sum
 * runs over columns in an order that lets a thread read four neighbouring elements of the other operand: of 16 columns
 * thread t of a group has 4 t ... 4 t + 3. */
template <int MT, int KS> struct weights {
    uint32_t a[KS][MT][4];
    static __device__ int column() { return threadIdx.x / 32 * 16 + threadIdx.x % 4 * 4; } /* the first */
    /* at(row, column) gives a weight */
    template <class F> __device__ void load(F at)
    {
        const int row = threadIdx.x % 32 / 4;
#pragma unroll
        for (int k = 0; k < KS; k++)
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    a[k][m][i] = mx_cuda_tf32(
                        at(m * 16 + row + i % 2 * 8, column() + k / 2 * (16 * MX_RNN_WARPS) + k % 2 * 2 + i / 2));
    }
    /* The thread's numbers of columns 128 k ..., all rows; bits of `other` are set if some are of another step. */
    template <int NT>
    static __device__ void fetch(const exchange_part &e, const uint32_t *from, int k, int left, uint32_t tag,
                                 uint32_t (&b)[NT][4], uint32_t &other)
    {
#pragma unroll
        for (int n = 0; n < NT; n++) {
            b[n][0] = b[n][1] = b[n][2] = b[n][3] = tag; /* almost zero, where there are no columns */
            read(from + n * 8 * e.columns + k * 16 * MX_RNN_WARPS, k * 16 * MX_RNN_WARPS < left, b[n]);
            for (int i = 0; i < 4; i++)
                other |= b[n][i] ^ tag;
        }
    }
    /* sum[m][n] = weights x' for what step `step` wrote: x (NT * 8, columns) */
    template <int NT> __device__ void times(const exchange_part &e, int step, float (&sum)[MT][NT][4]) const
    {
        constexpr int CHAINS = MT * NT >= 4 ? 1 : MT * NT >= 2 ? 2 : 4; /* sums that do not wait for each other */
        const uint32_t *from = e.half(step) + threadIdx.x % 32 / 4 * e.columns + column(), tag = e.tag(step);
        const int left = e.columns - column();
        uint32_t other;
        do {
            float chain[CHAINS][MT][NT][4] = {};
            uint32_t b[NT][4];
            do
                other = 0, fetch<NT>(e, from, 0, left, tag, b, other);
            while (__any_sync(~0u, other & 3));
#pragma unroll
            for (int k = 0; k < KS / 2; k++) {
                if (k) /* these arrive at about the same time as the first, and seldom later */
                    fetch<NT>(e, from, k, left, tag, b, other);
#pragma unroll
                for (int n = 0; n < NT; n++)
#pragma unroll
                    for (int m = 0; m < MT; m++) {
                        mx_cuda_multiply_add(chain[2 * k % CHAINS][m][n], a[2 * k][m], b[n]);
                        mx_cuda_multiply_add(chain[(2 * k + 1) % CHAINS][m][n], a[2 * k + 1][m], b[n] + 2);
                    }
            }
#pragma unroll
            for (int i = 0; i < MT * NT * 4; i++) {
                float *to = &sum[0][0][0] + i;
                *to = (&chain[0][0][0][0])[i];
                for (int c = 1; c < CHAINS; c++)
                    *to += (&chain[c][0][0][0])[i];
            }
        } while (__any_sync(~0u, other & 3));
    }
};

/* parts (2, warps, MT, NT, 16, 8): the warps' sums of this step and the one before. */
template <int MT, int NT> struct joining {
    static constexpr int SIZE = MX_RNN_WARPS * MT * NT * 128;
    float *parts;
    __device__ void put(int step, const float (&sum)[MT][NT][4]) const
    {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
        for (int i = 0; i < MT * NT; i++) {
            const float *from = &sum[0][0][0] + i * 4;
            float2 *to = (float2 *)(parts + step % 2 * SIZE + (warp * MT * NT + i) * 128) + lane;
            to[0] = make_float2(from[0], from[1]), to[32] = make_float2(from[2], from[3]);
        }
        __syncthreads();
    }
    __device__ float get(int step, int row, int n, int column) const /* column of tile n */
    {
        const float *from = parts + step % 2 * SIZE + ((row / 16 * NT + n) * 16 + row % 16) * 8 + column;
        float sum = 0;
#pragma unroll
        for (int w = 0; w < MX_RNN_WARPS; w++)
            sum += from[w * MT * NT * 128];
        return sum;
    }
};

} // namespace

#endif
