/* Strided copies: the kernel of every operator that only moves elements (op/formula/movement.h).
 *
 *     move -> axes of size 1 dropped, axes that continue each other joined, the axis that the source runs along
 *     put next to the last -> split over threads along one axis -> planes of two axes, or runs of bytes
 *
 * A plane is copied by one of: memcpy of rows, transposing in 8x8 blocks, a strided loop.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/movement/movement.h"

#include <string.h>

#include "base/alloc.h"
#include "base/threads.h"
#include "cpu/kernel.h"
#include "ndarray/convert.h"

typedef struct strided {
    int ndim;                                                                    /* at least 2 */
    int64_t dim[MX_MOVE_AXES + 2], to[MX_MOVE_AXES + 2], from[MX_MOVE_AXES + 2]; /* strides in elements */
    size_t item;
    char *target;
    const char *source;
} strided;

#define PASTE2(a, b) a##_##b
#define PASTE(a, b) PASTE2(a, b)
#define NAME(x) PASTE(x, BITS)
#define BITS 8
#define T uint8_t
#include "cpu/kernels/movement/movement_body.h"
#undef T
#undef BITS
#define BITS 16
#define T uint16_t
#include "cpu/kernels/movement/movement_body.h"
#undef T
#undef BITS
#define BITS 32
#define T uint32_t
#include "cpu/kernels/movement/movement_body.h"
#undef T
#undef BITS
#define BITS 64
#define T uint64_t
#include "cpu/kernels/movement/movement_body.h"
#undef T
#undef BITS

static void swap_axes(strided *s, int a, int b)
{
    int64_t keep[3] = {s->dim[a], s->to[a], s->from[a]};
    s->dim[a] = s->dim[b], s->to[a] = s->to[b], s->from[a] = s->from[b];
    s->dim[b] = keep[0], s->to[b] = keep[1], s->from[b] = keep[2];
}

/* The fewest axes, at least two, in the order that planes need. */
static void simplify(const mx_move *move, strided *s)
{
    mx_move fewest = *move;
    mx_move_simplify(&fewest);
    s->ndim = fewest.ndim;
    for (int i = 0; i < fewest.ndim; i++)
        s->dim[i] = fewest.dim[i], s->to[i] = fewest.to[i], s->from[i] = fewest.from[i];
    /* A plane has two axes: missing ones are of size 1, on the left. */
    while (s->ndim < 2) {
        for (int i = s->ndim; i > 0; i--)
            s->dim[i] = s->dim[i - 1], s->to[i] = s->to[i - 1], s->from[i] = s->from[i - 1];
        s->dim[0] = 1, s->to[0] = s->from[0] = 0;
        s->ndim++;
    }
    /* The destination runs along the last axis; if the source runs along another one, the two form the plane. */
    const int last = s->ndim - 1;
    for (int i = 0; s->from[last] != 1 && i < last - 1; i++)
        if (s->from[i] == 1) {
            swap_axes(s, i, last - 1);
            break;
        }
}

static void run_plane(const strided *s, char *to, const char *from)
{
    const int a = s->ndim - 2, b = s->ndim - 1;
    const size_t bytes = (size_t)s->dim[b] * s->item;
    if (s->to[b] == 1 && s->from[b] == 1 && bytes >= 128) {
        for (int64_t i = 0; i < s->dim[a]; i++)
            memcpy(to + i * s->to[a] * (int64_t)s->item, from + i * s->from[a] * (int64_t)s->item, bytes);
        return;
    }
    switch (s->item) {
    case 1: move_plane_8(s, to, from); break;
    case 2: move_plane_16(s, to, from); break;
    case 4: move_plane_32(s, to, from); break;
    default: move_plane_64(s, to, from); break;
    }
}

/* All planes, by counting through the outer axes. */
static void run_serial(const strided *s)
{
    int64_t at[MX_MOVE_AXES + 2] = {0};
    const int64_t item = (int64_t)s->item;
    char *to = s->target;
    const char *from = s->source;
    for (;;) {
        run_plane(s, to, from);
        int axis = s->ndim - 3;
        for (; axis >= 0; axis--) {
            to += s->to[axis] * item, from += s->from[axis] * item;
            if (++at[axis] < s->dim[axis])
                break;
            to -= s->dim[axis] * s->to[axis] * item, from -= s->dim[axis] * s->from[axis] * item;
            at[axis] = 0;
        }
        if (axis < 0)
            return;
    }
}

typedef struct share {
    strided whole;
    int axis; /* the axis that is split */
} share;

static void run_share(void *arg, int64_t begin, int64_t end)
{
    const share *job = arg;
    strided part = job->whole;
    part.dim[job->axis] = end - begin;
    part.target += begin * part.to[job->axis] * (int64_t)part.item;
    part.source += begin * part.from[job->axis] * (int64_t)part.item;
    run_serial(&part);
}

void mx_cpu_move(const mx_move *move, void *to, const void *from, size_t item)
{
    share job = {.axis = 0};
    strided *s = &job.whole;
    int64_t size = 1;
    for (int i = 0; i < move->ndim; i++)
        size *= move->dim[i];
    if (size == 0)
        return;
    simplify(move, s);
    s->item = item;
    s->target = (char *)to + move->to_offset * (int64_t)item;
    s->source = (const char *)from + move->from_offset * (int64_t)item;
    if (size * (int64_t)item < 4 * MX_GRAIN) {
        run_serial(s);
        return;
    }
    for (int i = 1; i < s->ndim && s->dim[job.axis] < 64; i++) /* the outermost axis that is large enough to split */
        if (s->dim[i] > s->dim[job.axis])
            job.axis = i;
    const int64_t grain = 2 * MX_GRAIN / (size / s->dim[job.axis] * (int64_t)item) + 1;
    mx_parallel(s->dim[job.axis], grain, run_share, &job);
}

/* ---- the kernel --------------------------------------------------------------------------------------------- */

/* In-place operators have one or two inputs.  An input 1 that shares memory with the output is copied first. */
static mx_code rescue_inputs(const mx_kernel_call *call, mx_array **in, mx_array **copy)
{
    *copy = NULL;
    for (int i = 1; i < call->n_in; i++) {
        in[i] = call->in[i];
        if (!(call->op->flags & MX_OP_INPLACE) || !mx_array_overlap(call->in[i], call->out[0]))
            continue;
        mx_shape_t shape = {.ndim = in[i]->ndim};
        memcpy(shape.dim, in[i]->shape, sizeof shape.dim);
        *copy = mx_array_new(&shape, (mx_dtype)in[i]->dtype, in[i]->context);
        if (!*copy)
            return MX_ERR_MEMORY;
        memcpy(mx_data(*copy), mx_data(in[i]), mx_bytes(in[i]));
        in[i] = *copy;
    }
    return MX_OK;
}

static mx_code run_moves(const mx_kernel_call *call)
{
    const mx_movement *rule = call->op->movement;
    const bool inplace = call->op->flags & MX_OP_INPLACE;
    mx_array *in[2] = {call->in[0], NULL}, *copy = NULL;
    if (inplace && rescue_inputs(call, in, &copy))
        return MX_ERR_MEMORY;
    for (int i = 0;; i++) {
        mx_move move = {0};
        if (!rule->plan(call, i, &move))
            break;
        const mx_array *out = call->out[move.output];
        const mx_dtype type = (mx_dtype)out->dtype;
        uint64_t value = 0;
        const void *from = &value;
        if (move.input >= 0)
            from = mx_data(inplace ? in[move.input] : call->in[move.input]);
        else if (move.input == MX_FROM_OUTPUT)
            from = mx_data(out);
        else {
            mx_convert(&value, type, &move.value, MX_FLOAT64, 1);
            memset(move.from, 0, sizeof move.from);
            move.from_offset = 0;
        }
        if (from == mx_data(out) && move.input == 0)
            continue; /* in place: the first copy is not needed */
        mx_cpu_move(&move, mx_data(out), from, (size_t)mx_dtype_size(type));
    }
    mx_release(copy);
    return MX_OK;
}

MX_CPU_KERNELS(movement) = {{MX_ALL_MOVEMENTS, run_moves, NULL}, {NULL, NULL, NULL}};
