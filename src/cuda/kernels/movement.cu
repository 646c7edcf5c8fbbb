/* Strided copies: the kernel of every operator that only moves elements (op/movement.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cstring>

#include "cuda/cuda.h"
extern "C" {
#include "op/movement.h"
#include "op/walk.h"
}

/* from NULL: `value` everywhere.  N counts elements: 32 bits where they suffice, as their division is much quicker. */
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

/* An in-place operator's input 1 that shares memory with the output is moved away first. */
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
        return MX_OK; /* in place: what is copied first is there already */
    return run_one(call, *move, (size_t)mx_dtype_size((mx_dtype)out->dtype), mx_data(out), from, value);
}

static mx_code run_moves(const mx_kernel_call *call)
{
    const mx_movement *rule = (const mx_movement *)call->op->user;
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

#define KERNEL(name) {name, run_moves, NULL},
MX_CUDA_KERNELS(movement) = {MX_MOVEMENT_ROWS(KERNEL){"broadcast_to", run_broadcast, NULL},
                             {"broadcast_axis", run_broadcast, NULL},
                             {"broadcast_like", run_broadcast, NULL},
                             {"_broadcast_to", run_broadcast, NULL},
                             {NULL, NULL, NULL}};
