/* How convolution_small_tiles.cu copies chunks to shared memory, and their layout there.
 *
 *     stage:   source (channels, images, rows, columns) with zeros outside | other operand (n, k), padded to `line`
 *
 * Included by convolution_small_tiles.cu alone.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_CONVOLUTION_SMALL_FETCH_H
#define MX_CUDA_CONVOLUTION_SMALL_FETCH_H

#include "cuda/kernels/conv/convolution_small_tiles.h"
#include "cuda/kernels/gemm/tensor_cores.h"

namespace
{

typedef mx_cuda_tiles job;

/* ---- shared memory ----------------------------------------------------------------------------------------------- */

/* Shared memory is addressed by 32-bit byte offsets here: the compiler generates slower code for pointers. */
__device__ unsigned address_of(const void *place)
{
    unsigned at = (unsigned)__cvta_generic_to_shared(place);
    asm volatile("" : "+r"(at));
    return at;
}

__device__ float load(unsigned at)
{
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(at));
    return x;
}

__device__ float2 load_pair(unsigned at)
{
    float2 x;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(at));
    return x;
}

__device__ uint32_t load_word(unsigned at)
{
    uint32_t x;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(at));
    return x;
}

/* V floats; zeros if there are none, then `from` may be anything. */
template <int V> __device__ void copy(unsigned to, const float *from, bool there)
{
#if MX_CUDA_TF32
    const int bytes = there ? V * 4 : 0;
    if (V == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes));
#endif
}

__device__ void end_of_chunk()
{
#if MX_CUDA_TF32
    asm volatile("cp.async.commit_group;");
#endif
}

/* All chunks but the last one requested have arrived. */
__device__ void wait_for_chunk()
{
#if MX_CUDA_TF32
    asm volatile("cp.async.wait_group %0;" ::"n"(MX_CUDA_TILE_STAGES - 2) : "memory");
#endif
}

/* ---- copying a chunk --------------------------------------------------------------------------------------------- */

struct spot {
    int image, row, column, channel; /* where a box of pixels and a group of channels begin */
};

template <int DIRECTION> __device__ spot find(const job &j, int tile, int chunk)
{
    if (DIRECTION == MX_CUDA_WEIGHT) {
        const int box = j.per_row_box.quotient(chunk);
        return {box * j.images, (chunk - box * j.row_boxes) * j.rows, 0, j.per_tap.quotient(tile * j.height)};
    }
    const int rest = j.per_column_box.quotient(tile), box = j.per_row_box.quotient(rest);
    return {box * j.images, (rest - box * j.row_boxes) * j.rows, (tile - rest * j.column_boxes) * j.columns,
            chunk * j.slab_channels};
}

/* f(inner, first, step): f runs the outer loop itself, from first on. */
template <class F> __device__ void share(const mx_cuda_sharing &s, F f)
{
    const int t = threadIdx.x, group = s.groups > 1 ? s.inner.quotient(t) : 0;
    if (group < s.groups)
#pragma unroll 1
        for (int i = t - group * (int)s.inner.by; i < (int)s.inner.by; i += blockDim.x)
            f(i, group, s.groups);
}

__device__ void fetch_source(const job &j, unsigned slab, const spot &at)
{
    const int size = j.from[0] * j.from[1], channels = min(j.slab_channels, j.channels - at.channel);
    share(j.at_source, [&](int p, int first, int step) {
        const int row = j.per_slab_column.quotient(p), y = at.row * j.stride[0] + j.offset[0] + row,
                  x = at.column * j.stride[1] + j.offset[1] + p - row * j.slab_columns;
        const bool inside = (unsigned)y < (unsigned)j.from[0] && (unsigned)x < (unsigned)j.from[1];
        const float *from = j.source + ((at.image * j.channels + at.channel + first) * size + y * j.from[1] + x);
        unsigned to = slab + (first * j.images * j.plane + p) * 4;
#pragma unroll 1
        for (int i = 0; i < j.images; i++, from += j.channels * size, to += j.plane * 4) {
            const int there = inside && at.image + i < j.batch ? channels : 0, step_to = step * j.images * j.plane * 4;
            const float *one = from;
            unsigned place = to;
#pragma unroll 2
            for (int c = first; c < j.slab_channels; c += step, one += step * size, place += step_to)
                copy<1>(place, one, c < there);
        }
    });
}

/* Lines of the other operand, k after k. */
template <int DIRECTION, int V> __device__ void fetch_lines(const job &j, unsigned to, const spot &at, int n0)
{
    share(j.at_other, [&](int i, int first, int step) {
        const int k = i * V;
        int place, step_n;
        bool inside;
        if (DIRECTION == MX_CUDA_WEIGHT) {
            const int image = j.per_box.quotient(k), pixel = at.row * j.to[1] + k - image * (int)j.per_box.by;
            inside = image < j.images && at.image + image < j.batch && pixel < j.to_size;
            place = (at.image + image) * j.results * j.to_size + pixel, step_n = j.to_size;
        } else {
            place = at.channel * j.taps + k, step_n = j.depth;
            inside = k < j.slab_channels * j.taps && place < j.depth;
        }
        const int there = inside ? j.results - n0 : 0;
        const float *from = j.other + (place + (n0 + first) * step_n);
        unsigned line = to + (first * j.line + k) * 4;
#pragma unroll 2
        for (int n = first; n < j.width; n += step, from += step * step_n, line += step * j.line * 4)
            copy<V>(line, from, n < there);
    });
}

/* The same of w in direction data, where k is (o, tap) and w (o, n, tap). */
__device__ void fetch_turned(const job &j, unsigned to, const spot &at, int n0)
{
    const int filled = j.slab_channels * j.taps, tail = j.chunk - filled, step_o = j.results * j.taps;
    share(j.at_other, [&](int i, int first, int step) {
        const int n = j.per_tap.quotient(i), there = n0 + n < j.results ? j.channels - at.channel : 0;
        const float *from = j.other + ((at.channel + first) * step_o + n0 * j.taps + i);
        unsigned line = to + (n * (j.line - j.taps) + i + first * j.taps) * 4;
#pragma unroll 2
        for (int c = first; c < j.slab_channels; c += step, from += step * step_o, line += step * j.taps * 4)
            copy<1>(line, from, c < there);
    });
    if (tail && threadIdx.x < j.width)
#pragma unroll 1
        for (int i = 0; i < tail; i++)
            copy<1>(to + (threadIdx.x * j.line + filled + i) * 4, j.other, false);
}

template <int DIRECTION> __device__ void fetch(const job &j, unsigned stage, const spot &at, int n0)
{
    const unsigned other = stage + j.slab * 4;
    fetch_source(j, stage, at);
    if (DIRECTION == MX_CUDA_DATA)
        fetch_turned(j, other, at, n0);
    else if (j.vector == 4)
        fetch_lines<DIRECTION, 4>(j, other, at, n0);
    else
        fetch_lines<DIRECTION, 1>(j, other, at, n0);
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* Of a pixel in the source of a chunk; 0 past the last, where the other operand is 0 or the result is not used. */
__device__ int pixel_place(const job &j, int i)
{
    const int image = j.per_box.quotient(i), at = i - image * (int)j.per_box.by, row = j.per_column.quotient(at);
    const int place = image * j.plane + row * j.stride[0] * j.slab_columns + (at - row * j.columns) * j.stride[1];
    return image < j.images ? place : 0;
}

/* Of tap i % taps of channel i / taps. */
template <int DIRECTION> __device__ int tap_place(const job &j, int i)
{
    const int channel = j.per_tap.quotient(i), tap = i - channel * j.taps,
              at = DIRECTION == MX_CUDA_DATA ? j.taps - 1 - tap : tap;
    const int row = j.per_kernel_column.quotient(at), column = at - row * j.kernel[1];
    const int place = (channel * j.images * j.slab_rows + row * j.dilate[0]) * j.slab_columns + column * j.dilate[1];
    return channel < j.slab_channels ? place : 0;
}

/* Of row m of the tile in the result, where n is 0; -1: there is none. */
template <int DIRECTION> __device__ int result_place(const job &j, const spot &tile_at, int tile, int m)
{
    if (DIRECTION == MX_CUDA_WEIGHT)
        return tile * j.height + m < j.depth ? tile * j.height + m : -1;
    const int i = j.per_box.quotient(m), at = m - i * (int)j.per_box.by, y = j.per_column.quotient(at);
    const int image = tile_at.image + i, row = tile_at.row + y, column = tile_at.column + at - y * j.columns;
    const bool there = i < j.images && image < j.batch && row < j.to[0] && column < j.to[1];
    return there ? (image * j.results * j.to[0] + row) * j.to[1] + column : -1;
}

} // namespace

#endif
