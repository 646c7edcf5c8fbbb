/* All steps of a recurrent layer in one launch: the weights of the recurrence stay in registers.
 *
 * A block owns U hidden units, with all rows of weights of each, and NT * 8 rows of the batch in one direction.  In
 * every step it multiplies its weights with the state of all units (forward: h; backward: the gradients of the gates)
 * by tensor cores (TF32), its 8 warps having an eighth of the sum each; adds up the warps' parts; does the arithmetic
 * of its own units (rnn_cells.h); and hands the result to the other blocks through memory, that is the L2 cache
 * (rnn_exchange.h).  Rows of the batch are independent, and so are directions, so only blocks with the same rows ("a
 * part") wait for each other.  The launch is cooperative: all its blocks run at the same time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_RNN_FUSED_H
#define MX_CUDA_RNN_FUSED_H

#include "cuda/kernels/rnn/rnn_cells.h"
#include "cuda/kernels/rnn/rnn_exchange.h"

namespace
{

/* Which units and rows are a thread's: one unit, and ITEMS rows. */
template <int U, int NT> struct place {
    static constexpr int ITEMS = (NT * 8 * U + MX_RNN_THREADS - 1) / MX_RNN_THREADS;
    int H, N, first_row, own, unit, column; /* the unit in the block, in the layer; the row in its tile */
    __device__ place(const mx_rnn_layer<float> &w, int group)
        : H((int)w.s.hidden), N((int)w.s.batch), first_row(group * NT * 8), own(threadIdx.x / 8 % U),
          unit(blockIdx.x * U + own), column(threadIdx.x % 8)
    {
    }
    __device__ int tile(int q) const { return threadIdx.x / (8 * U) + q * (MX_RNN_THREADS / (8 * U)); }
    __device__ int local(int q) const { return tile(q) * 8 + column; } /* row in the exchange; NT * 8 or more: none */
    __device__ int row(int q) const { return first_row + local(q); }
    __device__ bool mine(int q) const { return tile(q) < NT && unit < H && row(q) < N; }
};

/* A launch: parts first_part ... of the directions, `groups` of rows in each. */
struct fused_launch {
    mx_rnn_ways<float> layer;
    uint32_t *exchange;
    int groups, first_part;
};

template <class Cell, int U, int KS, int NT>
__global__ void __launch_bounds__(MX_RNN_THREADS, 1) fused_forward(const __grid_constant__ fused_launch s)
{
    constexpr int G = Cell::GATES, MT = (G * U + 15) / 16, ITEMS = place<U, NT>::ITEMS;
    extern __shared__ float shared[];
    const int part = s.first_part + blockIdx.y;
    const mx_rnn_layer<float> &w = s.layer.way[part / s.groups];
    const place<U, NT> p(w, part % s.groups);
    const int H = p.H, steps = (int)w.s.steps, columns = gridDim.x * U;
    const exchange_part exchange = {s.exchange + (int64_t)part * 2 * NT * 8 * columns, NT * 8, columns};
    const joining<MT, NT> join = {shared};
    weights<MT, KS> own;
    own.load([&](int row, int k) {
        const int unit = blockIdx.x * U + row % U;
        return row < G * U && unit < H && k < H ? w.wh[((int64_t)(row / U) * H + unit) * H + k] : 0.f;
    });
    mx_rnn_unit<float> u[ITEMS] = {};
    float bx[G] = {}, bh[G] = {};
    for (int g = 0; g < G && p.unit < H; g++)
        bx[g] = w.bx[g * H + p.unit], bh[g] = w.bh[g * H + p.unit];
#pragma unroll
    for (int q = 0; q < ITEMS; q++) {
        if (p.mine(q)) {
            u[q].h = w.h0[p.row(q) * H + p.unit];
            u[q].c = Cell::CELL ? w.c0[p.row(q) * H + p.unit] : 0;
        }
        if (p.tile(q) < NT)
            exchange.put(-1, p.local(q), p.unit, u[q].h);
    }
    for (int i = 0; i < steps; i++) {
        const int64_t t = w.reverse ? steps - 1 - i : i;
        float x[ITEMS][G], sum[MT][NT][4];
        bool active[ITEMS];
#pragma unroll
        for (int q = 0; q < ITEMS; q++) {
            active[q] = p.mine(q) && w.active(t, p.row(q));
            for (int g = 0; g < G; g++) /* loaded early */
                x[q][g] = active[q] ? w.gates[((t * p.N + p.row(q)) * G + g) * H + p.unit] : 0;
        }
        own.times(exchange, i - 1, sum);
        join.put(i, sum);
#pragma unroll
        for (int q = 0; q < ITEMS; q++) {
            if (p.tile(q) >= NT)
                continue;
            if (active[q]) {
                float y[G];
                for (int g = 0; g < G; g++)
                    x[q][g] += bx[g], y[g] = join.get(i, g * U + p.own, p.tile(q), p.column) + bh[g];
                Cell::forward(w, x[q], y, u[q]);
            }
            exchange.put(i, p.local(q), p.unit, u[q].h);
            if (!p.mine(q))
                continue;
            const int64_t at = t * p.N + p.row(q);
            w.out[at * w.width + p.unit] = active[q] ? u[q].h : 0;
            for (int g = 0; g < G && active[q]; g++)
                w.gates[(at * G + g) * H + p.unit] = u[q].gate[g];
            if (Cell::EXTRA && active[q])
                w.extra[at * H + p.unit] = u[q].extra;
        }
    }
#pragma unroll
    for (int q = 0; q < ITEMS; q++)
        if (p.mine(q)) {
            w.h[p.row(q) * H + p.unit] = u[q].h;
            if (Cell::CELL)
                w.c[p.row(q) * H + p.unit] = u[q].c;
        }
}

/* Column gate * padded + unit of the exchange holds the gradient of a gate. */
template <class Cell, int U, int KS, int NT>
__global__ void __launch_bounds__(MX_RNN_THREADS, 1) fused_backward(const __grid_constant__ fused_launch s)
{
    constexpr int G = Cell::GATES, MT = (U + 15) / 16, ITEMS = place<U, NT>::ITEMS;
    extern __shared__ float shared[];
    const int part = s.first_part + blockIdx.y;
    const mx_rnn_layer<float> &w = s.layer.way[part / s.groups];
    const place<U, NT> p(w, part % s.groups);
    const int H = p.H, steps = (int)w.s.steps, padded = gridDim.x * U, columns = G * padded;
    const exchange_part exchange = {s.exchange + (int64_t)part * 2 * NT * 8 * columns, NT * 8, columns};
    const joining<MT, NT> join = {shared};
    weights<MT, KS> own;
    own.load([&](int row, int k) {
        const int unit = blockIdx.x * U + row, gate = k / padded, other = k % padded;
        return row < U && unit < H && gate < G && other < H ? w.wh[((int64_t)gate * H + other) * H + unit] : 0.f;
    });
    mx_rnn_unit<float> u[ITEMS] = {};
    float dh[ITEMS] = {};
#pragma unroll
    for (int q = 0; q < ITEMS; q++)
        if (p.mine(q)) {
            dh[q] = w.dh1 ? w.dh1[p.row(q) * H + p.unit] : 0;
            u[q].c = Cell::CELL && w.dc1 ? w.dc1[p.row(q) * H + p.unit] : 0;
        }
    for (int i = 0; i <= steps; i++) { /* the last iteration only computes the gradient of the initial state */
        const int64_t t = w.reverse ? i : steps - 1 - i;
        float before[ITEMS], up[ITEMS];
        bool active[ITEMS];
#pragma unroll
        for (int q = 0; q < ITEMS; q++) { /* loaded early */
            const int64_t at = t * p.N + p.row(q);
            active[q] = i < steps && p.mine(q) && w.active(t, p.row(q));
            if (!active[q])
                continue;
            for (int g = 0; g < G; g++)
                u[q].gate[g] = w.gates[(at * G + g) * H + p.unit];
            u[q].extra = Cell::EXTRA ? w.extra[at * H + p.unit] : 0;
            before[q] = Cell::before(w, t, p.row(q), p.unit);
            up[q] = w.dout ? w.dout[at * w.width + p.unit] : 0;
        }
        if (i) {
            float sum[MT][NT][4];
            own.times(exchange, i - 1, sum);
            join.put(i, sum);
        }
#pragma unroll
        for (int q = 0; q < ITEMS; q++) {
            if (p.tile(q) >= NT)
                continue;
            float dx[G] = {}, dy[G] = {};
            dh[q] += i ? join.get(i, p.own, p.tile(q), p.column) : 0;
            if (active[q])
                dh[q] = Cell::backward(w, u[q], before[q], dh[q] + up[q], dx, dy);
            if (i == steps)
                continue;
            for (int g = 0; g < G; g++)
                exchange.put(i, p.local(q), g * padded + p.unit, dy[g]);
            for (int g = 0; g < G && p.mine(q); g++) {
                const int64_t at = ((t * p.N + p.row(q)) * G + g) * H + p.unit;
                w.dgates[at] = dx[g];
                if (Cell::APART)
                    w.dgh[at] = dy[g];
            }
        }
    }
#pragma unroll
    for (int q = 0; q < ITEMS; q++)
        if (p.mine(q)) {
            w.dh[p.row(q) * H + p.unit] = dh[q];
            if (Cell::CELL)
                w.dc[p.row(q) * H + p.unit] = u[q].c;
        }
}

} // namespace

#endif
