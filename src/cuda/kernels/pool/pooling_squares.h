/* Max pooling by adjacent windows of two by two, forward and backward, with or without relu.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_POOLING_SQUARES_H
#define MX_CUDA_POOLING_SQUARES_H

#include "cuda/kernels/early.h"
#include "cuda/kernels/pool/pooling.h"

namespace
{

/* Max pooling of an array that such windows cover: two rows of x become one.  A thread has V channels of a window, or,
 * channels first, V / 2 adjacent windows. */
template <class S, int V, bool LAST> struct squares {
    static const int R = LAST ? V : V / 2; /* results of a thread */
    typedef mx_cuda_pack<S, V> wide;
    typedef mx_cuda_pack<S, R> narrow;
    unsigned groups, columns; /* threads for a window's channels, or for a row; windows of a row */
    int64_t row, beside;      /* from one row of x, from one place to the next */
    __device__ void place(unsigned i, int64_t *in, int64_t *out) const
    {
        const unsigned line = LAST ? i / groups / columns : i / groups, at = LAST ? i / groups % columns : i % groups;
        *in = 2 * line * row + (LAST ? 2 * at * beside + i % groups * V : (int64_t)at * V);
        *out = (int64_t)i * R;
    }
    /* x[e][r]: element e, by rows, of the window of result r */
    __device__ void read(const S *x, int64_t at, S (&e)[4][R]) const
    {
        if constexpr (LAST) {
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const wide four = wide::load(x, at + k / 2 * row + k % 2 * beside);
                for (int l = 0; l < V; l++)
                    e[k][l] = four.v[l];
            }
        } else {
#pragma unroll
            for (int k = 0; k < 2; k++) {
                const wide four = wide::load(x, at + k * row);
                for (int l = 0; l < V; l++)
                    e[2 * k + l % 2][l / 2] = four.v[l];
            }
        }
    }
    __device__ void write(S *x, int64_t at, const S (&e)[4][R]) const
    {
        wide four;
        if constexpr (LAST) {
#pragma unroll
            for (int k = 0; k < 4; k++) {
                for (int l = 0; l < V; l++)
                    four.v[l] = e[k][l];
                four.store(x, at + k / 2 * row + k % 2 * beside);
            }
        } else {
#pragma unroll
            for (int k = 0; k < 2; k++) {
                for (int l = 0; l < V; l++)
                    four.v[l] = e[2 * k + l % 2][l / 2];
                four.store(x, at + k * row);
            }
        }
    }
};

/* dy NULL: y becomes the maxima of x; else dx their gradient. */
template <class S, int V, bool LAST>
__global__ void __launch_bounds__(MX_CUDA_BLOCK)
    squares_kernel(squares<S, V, LAST> s, unsigned n, const S *x, const S *dy, S *result, bool relu)
{
    typedef mx_cuda_wide<S> T;
    typedef typename squares<S, V, LAST>::narrow narrow;
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    int64_t in, out;
    S e[4][squares<S, V, LAST>::R];
    narrow made;
    mx_cuda_wait_for_earlier();
    if (i >= n)
        return;
    s.place(i, &in, &out);
    if (dy)
        made = narrow::load(dy, out);
    s.read(x, in, e);
#pragma unroll
    for (int r = 0; r < squares<S, V, LAST>::R; r++) {
        T most = (T)-INFINITY;
        int winner = -1;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const T v = (T)e[k][r];
            if (v > most || (winner < 0 && v == most))
                most = v, winner = k;
        }
        if (!dy)
            made.v[r] = (S)most;
        const bool flows = !relu || most > 0;
#pragma unroll
        for (int k = 0; dy && k < 4; k++)
            e[k][r] = k == winner && flows ? made.v[r] : (S)0.0f;
    }
    if (dy)
        s.write(result, in, e);
    else
        made.store(result, out);
}

static bool are_squares(const pool &s)
{
    return s.type == MX_POOLING_MAX && s.in[0] == 1 && s.kernel[1] == 2 && s.kernel[2] == 2 && s.stride[1] == 2 &&
           s.stride[2] == 2 && !s.pad[1] && !s.pad[2] && s.in[1] == 2 * s.out[1] && s.in[2] == 2 * s.out[2];
}

template <class S, int V, bool LAST>
static mx_code run_squares(const mx_kernel_call *call, const pool &s, const S *x, const S *dy, S *result, bool relu)
{
    mx_cuda_device *d = mx_cuda_of(call);
    squares<S, V, LAST> q;
    q.groups = (unsigned)(LAST ? s.channels / V : s.in[2] / V), q.columns = (unsigned)s.out[2];
    q.beside = LAST ? s.channels : 1, q.row = q.beside * s.in[2];
    const int64_t n = s.images * s.out_all * s.channels / squares<S, V, LAST>::R;
    if (!d)
        return mx_error_code();
    const dim3 grid((unsigned)((n + MX_CUDA_BLOCK - 1) / MX_CUDA_BLOCK));
    return mx_cuda_fail(
        mx_cuda_launch_early(d, squares_kernel<S, V, LAST>, grid, MX_CUDA_BLOCK, q, (unsigned)n, x, dy, result, relu),
        call->op->name);
}

/* MX_DECLINED: other windows. */
template <class S, int V>
static mx_code try_squares(const mx_kernel_call *call, const pool &s, const S *x, const S *dy, S *result, bool relu)
{
    constexpr int most = 16 / sizeof(S);
    const uintptr_t all = (uintptr_t)x | (uintptr_t)dy | (uintptr_t)result;
    const int64_t n = s.images * s.out_all * s.channels;
    if (!are_squares(s) || !n || n > INT32_MAX)
        return MX_DECLINED;
    if (s.last)
        return V > 1 ? run_squares<S, V, true>(call, s, x, dy, result, relu) : MX_DECLINED;
    if (most > 2 && s.in[2] % most == 0 && all % 16 == 0)
        return run_squares<S, most, false>(call, s, x, dy, result, relu);
    return all % (2 * sizeof(S)) ? MX_DECLINED : run_squares<S, 2, false>(call, s, x, dy, result, relu);
}

} // namespace

#endif
