/* Work over the channels of an array (outer, channels, inner): two sums per channel, and maps with numbers per channel.
 *
 * Channels last (inner 1): a thread owns V neighbouring channels and walks down the rows, so that the numbers of its
 * channels stay in registers.  Channels first: a block works on one channel, a thread on V neighbouring elements of it.
 * Some hundred rows are summed in float (double for double), these partial sums in double.  The time is spent on reading: a
 * thread loads the values of several places before it works on the first.
 *
 *     struct F {
 *         typedef ... number;                                          // float or double
 *         struct channel { number ...[V]; };                           // what belongs to the V lanes
 *         typedef mx_cuda_values<...> values;                          // what is read at a place
 *         __device__ channel start(int64_t c, int step) const;         // lane l: channel c + l * step
 *         __device__ values load(int64_t at) const;
 *         __device__ void visit(const channel &k, const values &x, int64_t at, number *a, number *b) const;   // sums
 *         __device__ void visit(const channel &k, const values &x, int64_t at) const;                         // maps
 *     };
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_CHANNELS_H
#define MX_CUDA_CHANNELS_H

#include <initializer_list>
#include <type_traits>

#include "cuda/cuda.h"

template <class S> using mx_cuda_wide = typename std::conditional<sizeof(S) == 8, double, float>::type;

/* V elements of type S, moved at once. */
template <class S, int V> struct alignas(sizeof(S) * V) mx_cuda_pack {
    S v[V];
    static __device__ mx_cuda_pack load(const S *x, int64_t at) { return *(const mx_cuda_pack *)(x + at); }
    __device__ void store(S *x, int64_t at) const { *(mx_cuda_pack *)(x + at) = *this; }
};

/* V elements of each of N arrays as stored in memory, converted late: a single 16-bit element would fill a register. */
template <class S, int V, int N> struct mx_cuda_values {
    typedef typename std::conditional<sizeof(S) * V % 4 == 0, unsigned, S>::type word;
    typedef mx_cuda_pack<word, sizeof(S) * V / sizeof(word)> lump;
    lump of[N];
    /* from the third on, an array may be NULL */
    static __device__ mx_cuda_values load(const S *const (&from)[N], int64_t at)
    {
        mx_cuda_values x;
        x.read(from, at);
        return x;
    }
    /* lumps of arrays that are NULL stay as they are */
    __device__ void read(const S *const (&from)[N], int64_t at)
    {
#pragma unroll
        for (int i = 0; i < N; i++)
            if (i < 2 || from[i])
                of[i] = *(const lump *)(from[i] + at);
    }
    __device__ mx_cuda_pack<S, V> open(int i) const
    {
        mx_cuda_pack<S, V> p;
        memcpy(&p, &of[i], sizeof p);
        return p;
    }
};

/* run(pointer to S, number type whose value is V) for the type S of arrays: V elements are 16 bytes if `packed`, else 1. */
template <int V> struct mx_cuda_lanes_of {
    static constexpr int value = V;
};
template <class F> mx_code mx_cuda_by_storage(int dtype, bool packed, F run)
{
    switch (dtype) {
    case MX_FLOAT32: return packed ? run((float *)0, mx_cuda_lanes_of<4>()) : run((float *)0, mx_cuda_lanes_of<1>());
    case MX_FLOAT16: return packed ? run((__half *)0, mx_cuda_lanes_of<8>()) : run((__half *)0, mx_cuda_lanes_of<1>());
    case MX_BFLOAT16:
        return packed ? run((__nv_bfloat16 *)0, mx_cuda_lanes_of<8>()) : run((__nv_bfloat16 *)0, mx_cuda_lanes_of<1>());
    case MX_FLOAT64: return run((double *)0, mx_cuda_lanes_of<1>());
    default: return MX_DECLINED;
    }
}
#define MX_CUDA_STORAGE(pointer) typename std::remove_pointer<decltype(pointer)>::type

/* All of them (NULL: none) can be read 16 bytes at a time. */
static inline bool mx_cuda_all_aligned(std::initializer_list<const mx_array *> arrays)
{
    for (const mx_array *x : arrays)
        if (x && (uintptr_t)mx_data(x) % 16)
            return false;
    return true;
}

struct mx_cuda_channels {
    int64_t outer, channels, inner;
    mx_cuda_channels(int64_t rows, int64_t columns) : outer(rows), channels(columns), inner(1) {}
    mx_cuda_channels(const mx_array *x, int64_t axis)
    {
        const mx_cuda_split s(x, mx_axis(axis, x->ndim));
        outer = s.outer, channels = s.n, inner = s.inner;
    }
    bool last() const { return inner == 1; }
    int64_t each() const { return outer * inner; }
    /* As many elements of this type as 16 bytes hold are contiguous and are treated alike. */
    bool packs(int dtype) const { return (last() ? channels : inner) % (16 / mx_dtype_size((mx_dtype)dtype)) == 0; }
};

#define MX_CUDA_TILE 512   /* threads of a block */
#define MX_CUDA_RESIDENT 2 /* blocks that a multiprocessor holds: 64 registers for each thread */
#define MX_CUDA_FLIGHT 64  /* bytes that a thread loads at once */

/* each(values, place) at place(i) for i = begin, begin + step, ... < end.  One thread visits a place and reads before it
 * writes, so results may overwrite values. */
template <class F, class Place, class Each>
__device__ void mx_cuda_walk(const F &f, int64_t begin, int64_t end, int64_t step, Place place, Each each)
{
    constexpr int bytes = sizeof(typename F::values), fit = (MX_CUDA_FLIGHT + bytes - 1) / bytes, U = fit < 8 ? fit : 8;
    for (int64_t i = begin; i < end; i += U * step) {
        typename F::values x[U];
#pragma unroll
        for (int u = 0; u < U; u++) /* past the end: the first again, which is not used */
            x[u] = f.load(place(i + u * step < end ? i + u * step : begin));
#pragma unroll
        for (int u = 0; u < U; u++)
            if (i + u * step < end)
                each(x[u], place(i + u * step));
    }
}

/* ---- sums ------------------------------------------------------------------------------------------------------ */

/* parts (splits, 2, channels) */
template <class F, int V>
__global__ void __launch_bounds__(MX_CUDA_TILE, MX_CUDA_RESIDENT)
    mx_cuda_rows_sums(F f, int64_t rows, int64_t channels, int wide, typename F::number *parts)
{
    typedef typename F::number T;
    __shared__ T shared[2][MX_CUDA_TILE * V]; /* (deep, wide * V) */
    const int lane = threadIdx.x % wide, high = threadIdx.x / wide, deep = MX_CUDA_TILE / wide, columns = wide * V;
    const int64_t c = (int64_t)blockIdx.x * columns + lane * V, first = (int64_t)blockIdx.y * deep + high;
    T a[V] = {}, b[V] = {};
    if (c < channels) {
        const typename F::channel k = f.start(c, 1);
        mx_cuda_walk(
            f, first * channels + c, rows * channels, (int64_t)gridDim.y * deep * channels,
            [](int64_t at) { return at; }, [&](const typename F::values &x, int64_t at) { f.visit(k, x, at, a, b); });
    }
    for (int l = 0; l < V; l++)
        shared[0][threadIdx.x * V + l] = a[l], shared[1][threadIdx.x * V + l] = b[l];
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * columns; i += MX_CUDA_TILE) {
        const int which = i / columns, column = i % columns;
        const int64_t channel = (int64_t)blockIdx.x * columns + column;
        T sum = 0;
#pragma unroll 8
        for (int row = 0; row < deep; row++)
            sum += shared[which][row * columns + column];
        if (channel < channels)
            parts[((int64_t)blockIdx.y * 2 + which) * channels + channel] = sum;
    }
}

template <class F, int V>
__global__ void mx_cuda_planes_sums(F f, int64_t outer, int64_t channels, int64_t inner, typename F::number *parts)
{
    typedef typename F::number T;
    const int64_t c = blockIdx.x, packs = inner / V;
    const typename F::channel k = f.start(c, 0);
    T a[V] = {}, b[V] = {};
    mx_cuda_walk(
        f, (int64_t)blockIdx.y * MX_CUDA_TILE + threadIdx.x, outer * packs, (int64_t)gridDim.y * MX_CUDA_TILE,
        [=](int64_t i) { return (i / packs * channels + c) * inner + i % packs * V; },
        [&](const typename F::values &x, int64_t at) { f.visit(k, x, at, a, b); });
    for (int l = 1; l < V; l++)
        a[0] += a[l], b[0] += b[l];
    const T sum = mx_cuda_block_sum(a[0]), other = mx_cuda_block_sum(b[0]);
    T *to = parts + (int64_t)blockIdx.y * 2 * channels;
    if (!threadIdx.x)
        to[c] = sum, to[channels + c] = other;
}

#define MX_CUDA_JOINED 64 /* parts that are read in parallel */

/* done(c, sum of a, sum of b) for every channel; eight channels to a block. */
template <class T, class Done>
__global__ void mx_cuda_join_sums(const T *parts, int splits, int64_t channels, Done done)
{
    __shared__ double shared[2][MX_CUDA_JOINED][8];
    const int lane = threadIdx.x % 8, row = threadIdx.x / 8;
    const int64_t c = (int64_t)blockIdx.x * 8 + lane;
    double a = 0, b = 0;
    if (c < channels)
#pragma unroll 8
        for (int s = row; s < splits; s += MX_CUDA_JOINED)
            a += parts[(int64_t)s * 2 * channels + c], b += parts[((int64_t)s * 2 + 1) * channels + c];
    shared[0][row][lane] = a, shared[1][row][lane] = b;
    __syncthreads();
    for (int half = MX_CUDA_JOINED / 2; half; half /= 2) {
        if (row < half)
            shared[0][row][lane] += shared[0][row + half][lane], shared[1][row][lane] += shared[1][row + half][lane];
        __syncthreads();
    }
    if (!row && c < channels)
        done(c, shared[0][0][lane], shared[1][0][lane]);
}

static inline int mx_cuda_wide_rows(int64_t packs) /* threads side by side */
{
    int wide = 1;
    while (wide < packs && wide < 32)
        wide *= 2;
    return wide;
}

static inline int64_t mx_cuda_least(int64_t a, int64_t b) { return a < b ? a : b; }

template <int V, class F, class Done>
mx_code mx_cuda_channel_sums(const mx_kernel_call *call, mx_cuda_device *d, const mx_cuda_channels &s, F f, Done done)
{
    typedef typename F::number T;
    const int64_t packs = (s.channels + V - 1) / V, goal = (int64_t)d->multiprocessors * MX_CUDA_RESIDENT;
    const int wide = mx_cuda_wide_rows(packs);
    const int64_t columns = s.last() ? (packs + wide - 1) / wide : s.channels;
    const int64_t work = (s.last() ? s.outer * wide : s.each() / V) / MX_CUDA_TILE / 4;
    int64_t splits = mx_cuda_least(goal / columns, work);
    splits = splits < 1 ? 1 : splits;
    mx_cuda_scratch parts(d, (size_t)(splits * 2 * s.channels) * sizeof(T));
    if (!parts.memory)
        return mx_error_code();
    const dim3 grid((unsigned)columns, (unsigned)splits);
    if (s.last())
        mx_cuda_rows_sums<F, V><<<grid, MX_CUDA_TILE, 0, d->stream>>>(f, s.outer, s.channels, wide, parts.as<T>());
    else
        mx_cuda_planes_sums<F, V><<<grid, MX_CUDA_TILE, 0, d->stream>>>(f, s.outer, s.channels, s.inner, parts.as<T>());
    mx_cuda_join_sums<<<(unsigned)((s.channels + 7) / 8), 8 * MX_CUDA_JOINED, 0, d->stream>>>(
        parts.as<T>(), (int)splits, s.channels, done);
    return mx_cuda_launched(call);
}

/* ---- maps ------------------------------------------------------------------------------------------------------ */

template <class F, int V>
__global__ void __launch_bounds__(MX_CUDA_TILE, MX_CUDA_RESIDENT)
    mx_cuda_rows_map(F f, int64_t rows, int64_t channels, int wide)
{
    const int lane = threadIdx.x % wide, high = threadIdx.x / wide, deep = MX_CUDA_TILE / wide;
    const int64_t c = ((int64_t)blockIdx.x * wide + lane) * V, first = (int64_t)blockIdx.y * deep + high;
    if (c >= channels)
        return;
    const typename F::channel k = f.start(c, 1);
    mx_cuda_walk(
        f, first * channels + c, rows * channels, (int64_t)gridDim.y * deep * channels, [](int64_t at) { return at; },
        [&](const typename F::values &x, int64_t at) { f.visit(k, x, at); });
}

template <class F, int V> __global__ void mx_cuda_planes_map(F f, int64_t planes, int64_t channels, int64_t inner)
{
    for (int64_t p = blockIdx.x; p < planes; p += gridDim.x) {
        const typename F::channel k = f.start(p % channels, 0);
        mx_cuda_walk(
            f, (int64_t)threadIdx.x * V, inner, (int64_t)blockDim.x * V, [=](int64_t i) { return p * inner + i; },
            [&](const typename F::values &x, int64_t at) { f.visit(k, x, at); });
    }
}

template <int V, class F>
mx_code mx_cuda_channel_map(const mx_kernel_call *call, mx_cuda_device *d, const mx_cuda_channels &s, F f)
{
    if (!s.each())
        return MX_OK;
    if (s.last()) {
        const int64_t packs = (s.channels + V - 1) / V;
        const int wide = mx_cuda_wide_rows(packs);
        const int64_t columns = (packs + wide - 1) / wide, deep = MX_CUDA_TILE / wide;
        const int64_t goal = (int64_t)d->multiprocessors * MX_CUDA_RESIDENT / columns;
        const dim3 grid((unsigned)columns, (unsigned)mx_cuda_least(goal < 1 ? 1 : goal, (s.outer + deep - 1) / deep));
        mx_cuda_rows_map<F, V><<<grid, MX_CUDA_TILE, 0, d->stream>>>(f, s.outer, s.channels, wide);
    } else {
        const int threads = s.inner / V <= 64 ? 64 : 256;
        mx_cuda_planes_map<F, V><<<mx_cuda_blocks(d, s.outer * s.channels), threads, 0, d->stream>>>(
            f, s.outer * s.channels, s.channels, s.inner);
    }
    return mx_cuda_launched(call);
}

#endif
