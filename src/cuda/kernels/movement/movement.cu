/* Strided copies: the kernel of every operator that only moves elements (op/formula/movement.h).
 *
 * Where neighbours of the source are not those of the result, elements go through shared memory in tiles, so that both sides
 * are read and written in runs; else a thread moves one element, or several neighbours at once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <climits>
#include <cstring>

#include "cuda/cuda.h"
#include "gluon/op.gen.h"
extern "C" {
#include "op/formula/movement.h"
#include "op/walk.h"
}

namespace
{

/* from NULL: `value` everywhere.  N counts elements: 32 bits where they suffice, as division is then much faster. */
template <class T, class N>
static mx_code move_as(const mx_kernel_call *call, const mx_move s, int64_t n, T *to, const T *from, T value)
{
    return mx_cuda_each(call, n, [=] __device__(int64_t i) {
        N rest = (N)i;
        int64_t target = 0, source = 0;
        for (int axis = s.ndim - 1; axis > 0; axis--) {
            const N dim = (N)s.dim[axis], k = rest % dim;
            rest /= dim;
            target += k * s.to[axis], source += k * s.from[axis];
        }
        if (s.ndim)
            target += rest * s.to[0], source += rest * s.from[0];
        to[target] = from ? from[source] : value;
    });
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

#define TILE 1024 /* elements */

/* Division of numbers below 2 TILE by one that is known before the launch. */
struct divisor {
    unsigned by, factor;
    divisor(unsigned n = 1) : by(n), factor(((1u << 22) + n - 1) / n) {}
    __device__ unsigned of(unsigned k) const { return by == 1 ? k : k * factor >> 22; }
};

/* Tiles of `long_to` elements along the axis in which the result is contiguous, `long_from` along that of the source. */
struct tiling {
    mx_move move;             /* without these two axes */
    int64_t to_dim, from_dim; /* elements along them */
    int64_t from_step;        /* of the source along the result's axis */
    int64_t to_step;          /* of the result along the source's axis */
    unsigned long_to, long_from, tiles_to, tiles_from, tiles;
    divisor by_to[2], by_from[2]; /* the tile's sides, and those of the last tile */
};

static unsigned least(int64_t a, int64_t b) { return (unsigned)(a < b ? a : b); }

/* False: neighbours stay neighbours, or tiles do not pay off. */
static bool plan_tiles(const mx_move &move, int64_t n, tiling *t)
{
    int to = -1, from = -1;
    for (int i = 0; i < move.ndim; i++) {
        to = move.to[i] == 1 ? i : to;
        from = move.from[i] == 1 ? i : from;
    }
    if (to < 0 || from < 0 || to == from || n < TILE || n >= (int64_t)1 << 31)
        return false;
    t->to_dim = move.dim[to], t->from_dim = move.dim[from], t->from_step = move.from[to], t->to_step = move.to[from];
    t->long_to = least(t->to_dim, 32), t->long_from = least(t->from_dim, 32);
    if (t->long_from < 32)
        t->long_to = least(t->to_dim, TILE / t->long_from);
    else if (t->long_to < 32)
        t->long_from = least(t->from_dim, TILE / t->long_to);
    t->tiles_to = (unsigned)((t->to_dim + t->long_to - 1) / t->long_to);
    t->tiles_from = (unsigned)((t->from_dim + t->long_from - 1) / t->long_from);
    t->by_to[0] = divisor(t->long_to);
    t->by_to[1] = divisor((unsigned)(t->to_dim - (t->tiles_to - 1) * (int64_t)t->long_to));
    t->by_from[0] = divisor(t->long_from);
    t->by_from[1] = divisor((unsigned)(t->from_dim - (t->tiles_from - 1) * (int64_t)t->long_from));
    t->tiles = t->tiles_to * t->tiles_from;
    t->move.ndim = 0;
    for (int i = 0; i < move.ndim; i++) {
        if (i == to || i == from)
            continue;
        const int k = t->move.ndim++;
        t->move.dim[k] = move.dim[i], t->move.to[k] = move.to[i], t->move.from[k] = move.from[i];
        t->tiles *= (unsigned)move.dim[i];
    }
    return true;
}

template <class T> __global__ void __launch_bounds__(MX_CUDA_BLOCK) move_tiles(const tiling t, T *to, const T *from)
{
    __shared__ T tile[2 * TILE]; /* rows of an odd length, so that columns are in different banks */
    const unsigned row = t.long_from | 1;
    for (unsigned i = blockIdx.x; i < t.tiles; i += gridDim.x) {
        const unsigned at_from = i % t.tiles_from, at_to = i / t.tiles_from % t.tiles_to;
        unsigned rest = i / t.tiles_from / t.tiles_to;
        int64_t target = at_to * (int64_t)t.long_to + at_from * (int64_t)t.long_from * t.to_step;
        int64_t source = at_from * (int64_t)t.long_from + at_to * (int64_t)t.long_to * t.from_step;
        for (int axis = t.move.ndim - 1; axis >= 0; axis--) {
            const unsigned dim = (unsigned)t.move.dim[axis], k = rest % dim;
            rest /= dim;
            target += k * t.move.to[axis], source += k * t.move.from[axis];
        }
        const divisor high = t.by_to[at_to == t.tiles_to - 1], wide = t.by_from[at_from == t.tiles_from - 1];
#pragma unroll 4
        for (unsigned k = threadIdx.x; k < high.by * wide.by; k += MX_CUDA_BLOCK) {
            const unsigned r = wide.of(k), c = k - r * wide.by;
            tile[r * row + c] = from[source + r * t.from_step + c];
        }
        __syncthreads();
#pragma unroll 4
        for (unsigned k = threadIdx.x; k < high.by * wide.by; k += MX_CUDA_BLOCK) {
            const unsigned r = high.of(k), c = k - r * high.by;
            to[target + r * t.to_step + c] = tile[c * row + r];
        }
        __syncthreads();
    }
}

template <class T> static mx_code run_tiles(const mx_kernel_call *call, const tiling &t, void *to, const void *from)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    move_tiles<T><<<mx_cuda_blocks(d, t.tiles), MX_CUDA_BLOCK, 0, d->stream>>>(t, (T *)to, (const T *)from);
    return mx_cuda_launched(call);
}

/* ---- single moves ------------------------------------------------------------------------------------------------ */

/* Neighbours that stay neighbours move together: elements of twice the size, if everything is a multiple of that. */
static bool pair_up(mx_move *move, size_t item, const void *to, const void *from)
{
    const int last = move->ndim - 1;
    if (last < 0 || item >= 16 || move->to[last] != 1 || move->from[last] != 1 || move->dim[last] % 2 ||
        (uintptr_t)to % (2 * item) || (uintptr_t)from % (2 * item))
        return false;
    for (int i = 0; i < last; i++)
        if (move->to[i] % 2 || move->from[i] % 2)
            return false;
    for (int i = 0; i < last; i++)
        move->to[i] /= 2, move->from[i] /= 2;
    move->dim[last] /= 2;
    return true;
}

template <class T>
static mx_code run_as(const mx_kernel_call *call, const mx_move &move, void *to, const void *from, uint64_t value)
{
    int64_t n = 1;
    for (int i = 0; i < move.ndim; i++)
        n *= move.dim[i];
    tiling tiles;
    if (from && sizeof(T) <= 8 && plan_tiles(move, n, &tiles))
        return run_tiles<T>(call, tiles, to, from);
    T element = {};
    memcpy(&element, &value, sizeof element < sizeof value ? sizeof element : sizeof value);
    return n < (int64_t)1 << 31 ? move_as<T, uint32_t>(call, move, n, (T *)to, (const T *)from, element)
                                : move_as<T, int64_t>(call, move, n, (T *)to, (const T *)from, element);
}

static mx_code run_one(const mx_kernel_call *call, mx_move move, size_t item, void *to, const void *from,
                       uint64_t value)
{
    to = (char *)to + move.to_offset * (int64_t)item;
    from = from ? (const char *)from + move.from_offset * (int64_t)item : nullptr;
    mx_move_simplify(&move);
    while (from && pair_up(&move, item, to, from))
        item *= 2;
    switch (item) {
    case 1: return run_as<uint8_t>(call, move, to, from, value);
    case 2: return run_as<uint16_t>(call, move, to, from, value);
    case 4: return run_as<uint32_t>(call, move, to, from, value);
    case 8: return run_as<uint64_t>(call, move, to, from, value);
    default: return run_as<uint4>(call, move, to, from, value);
    }
}

/* If input 1 of an in-place operator shares memory with the output, it is copied first. */
static mx_code rescue(const mx_kernel_call *call, mx_array **copy)
{
    *copy = nullptr;
    if (!(call->op->flags & MX_OP_INPLACE) || call->n_in < 2 || !mx_array_overlap(call->in[1], call->out[0]))
        return MX_OK;
    const mx_shape_t shape = mx_array_shape(call->in[1]);
    *copy = mx_array_new(&shape, (mx_dtype)call->in[1]->dtype, call->in[1]->context);
    return *copy ? mx_cuda_cast(call, call->in[1], *copy) : mx_error_code();
}

static mx_code run_move(const mx_kernel_call *call, mx_move *move, const mx_array *copy)
{
    const mx_array *out = call->out[move->output];
    const void *from = nullptr;
    uint64_t value = 0;
    if (move->input >= 0)
        from = mx_data(move->input == 1 && copy ? copy : call->in[move->input]);
    else if (move->input == MX_FROM_OUTPUT)
        from = mx_data(out);
    else
        mx_convert(&value, (mx_dtype)out->dtype, &move->value, MX_FLOAT64, 1);
    if (from == mx_data(out) && move->input == 0)
        return MX_OK; /* in place: the first copy is not needed */
    return run_one(call, *move, (size_t)mx_dtype_size((mx_dtype)out->dtype), mx_data(out), from, value);
}

static mx_code run_moves(const mx_kernel_call *call)
{
    const mx_movement *rule = call->op->movement;
    mx_array *copy;
    mx_code code = rescue(call, &copy);
    for (int i = 0; !code; i++) {
        mx_move move = {};
        if (!rule->plan(call, i, &move))
            break;
        code = run_move(call, &move, copy);
    }
    mx_release(copy);
    return code;
}

/* Broadcasting is a move whose source has steps of 0. */
static mx_code run_broadcast(const mx_kernel_call *call)
{
    const mx_array *in = call->in[0], *out = call->out[0];
    mx_move move = {};
    int64_t to = 1;
    move.ndim = out->ndim;
    mx_broadcast_steps(in, out, move.from);
    for (int axis = out->ndim - 1; axis >= 0; to *= out->shape[axis], axis--)
        move.dim[axis] = out->shape[axis], move.to[axis] = to;
    return run_move(call, &move, nullptr);
}

/* ---- blocks of pixels (op/def/movement/pixel_blocks.c) ---------------------------------------------------------------------- */

template <class T, int V> struct alignas(sizeof(T) * V) pixels {
    T of[V];
};

struct block_plan {
    int channels, height, width, rows, columns, all, pad[2];
    int64_t blocks; /* in all */
};

/* A thread writes the same channels of block after block, so that their source is computed once. */
template <class T, int V>
static __global__ void __launch_bounds__(192) to_blocks(const block_plan p, pixels<T, V> *to, const T *from)
{
    const int packs = p.all / V, side = blockDim.x / packs, pack = threadIdx.x % packs;
    int offset[V], y[V], x[V]; /* of the pixel, from the block's first one; y < 0: there is none */
    for (int v = 0; v < V; v++) {
        const int channel = pack * V + v, phase = channel / p.channels;
        y[v] = phase < 4 ? phase / 2 : INT_MIN / 2, x[v] = phase % 2;
        offset[v] = ((channel - phase * p.channels) * p.height + phase / 2) * p.width + x[v];
    }
    if ((int)threadIdx.x >= side * packs)
        return;
    for (int64_t i = (int64_t)blockIdx.x * side + threadIdx.x / packs; i < p.blocks; i += (int64_t)gridDim.x * side) {
        const unsigned row = (unsigned)i / (unsigned)p.columns, n = row / (unsigned)p.rows;
        const int top = 2 * (int)(row - n * p.rows) - p.pad[0],
                  left = 2 * (int)(i - (int64_t)row * p.columns) - p.pad[1];
        const T *first = from + ((int64_t)n * p.channels * p.height + top) * p.width + left;
        pixels<T, V> made;
#pragma unroll
        for (int v = 0; v < V; v++)
            made.of[v] = (unsigned)(top + y[v]) < (unsigned)p.height && (unsigned)(left + x[v]) < (unsigned)p.width
                             ? first[offset[v]]
                             : T();
        to[i * packs + pack] = made;
    }
}

template <class T, int V> static mx_code launch_blocks(const mx_kernel_call *call, const block_plan &p)
{
    mx_cuda_device *d = mx_cuda_of(call);
    const int64_t side = 192 / (p.all / V);
    if (!d)
        return mx_error_code();
    if (side < 1)
        return MX_DECLINED;
    if (p.blocks)
        to_blocks<T, V><<<mx_cuda_blocks(d, (p.blocks + side - 1) / side), 192, 0, d->stream>>>(
            p, (pixels<T, V> *)mx_data(call->out[0]), (const T *)mx_data(call->in[0]));
    return mx_cuda_launched(call);
}

template <class T> static mx_code blocks_of(const mx_kernel_call *call)
{
    const mx_array *in = call->in[0], *out = call->out[0];
    const mx_dims &pad = ((const mx_pixel_blocks_attrs *)call->attrs)->pad;
    const int64_t most = (int64_t)1 << 30;
    constexpr int V = 16 / sizeof(T);
    if (in->size > most || out->size > most || !in->size || pad.d[0] > most || pad.d[1] > most)
        return MX_DECLINED;
    const block_plan p = {(int)in->shape[1],
                          (int)in->shape[2],
                          (int)in->shape[3],
                          (int)out->shape[1],
                          (int)out->shape[2],
                          (int)out->shape[3],
                          {(int)pad.d[0], (int)pad.d[1]},
                          out->size / out->shape[3]};
    if (p.all % V == 0 && (uintptr_t)mx_data(out) % 16 == 0)
        return launch_blocks<T, V>(call, p);
    return launch_blocks<T, 1>(call, p);
}

static mx_code run_blocks(const mx_kernel_call *call)
{
    switch (mx_dtype_size((mx_dtype)call->out[0]->dtype)) {
    case 2: return blocks_of<uint16_t>(call);
    case 4: return blocks_of<uint32_t>(call);
    default: return MX_DECLINED;
    }
}

} // namespace

// clang-format off
MX_CUDA_KERNELS(movement) = {{"_pixel_blocks", run_blocks, NULL}, /* the other kernels move them phase by phase */
                             {MX_ALL_MOVEMENTS, run_moves, NULL},
                             {"broadcast_to", run_broadcast, NULL},
                             {"broadcast_axis", run_broadcast, NULL},
                             {"broadcast_like", run_broadcast, NULL},
                             {"_broadcast_to", run_broadcast, NULL},
                             {NULL, NULL, NULL}};
// clang-format on
