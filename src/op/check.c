/* Checks, before each kernel runs, what it may rely on (see mx_kernel_call in op.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/op.h"

#if MX_CHECKED
#define MOST 16 /* inputs or outputs of calls whose inference is checked */

/* Inputs have elements.  Outputs have memory, and overlap an input exactly or not at all. */
static void check_arrays(const mx_kernel_call *call)
{
    for (int i = 0; i < call->n_in; i++) {
        if (mx_is_none(call->in[i]))
            continue;
        mx_array_check(call->in[i], call->op->name);
        MX_ASSERT(call->in[i]->storage, "%s: input %d has no elements", call->op->name, i);
    }
    for (int i = 0; i < call->n_out; i++) {
        if (mx_is_none(call->out[i]))
            continue;
        mx_array_check(call->out[i], call->op->name);
        MX_ASSERT(call->out[i]->storage, "%s: output %d has no memory", call->op->name, i);
    }
}

static bool is_exact(const mx_array *a, const mx_array *b)
{
    return mx_data(a) == mx_data(b) && a->size == b->size && a->dtype == b->dtype;
}

static bool may_overlap(const mx_kernel_call *call, int out, int in)
{
    return call->op->flags & MX_OP_INPLACE || (call->op->flags & MX_OP_SECOND_INPLACE && out == 1 && in == 0);
}

static void check_overlap(const mx_kernel_call *call)
{
    for (int i = 0; i < call->n_out; i++)
        for (int k = 0; k < call->n_in; k++) {
            const mx_array *out = call->out[i], *in = call->in[k];
            if (mx_is_none(out) || mx_is_none(in) || !mx_array_overlap(out, in))
                continue;
            MX_ASSERT(may_overlap(call, i, k) && is_exact(out, in), "%s: output %d overlaps input %d", call->op->name,
                      i, k);
        }
}

/* Shapes and types that follow from the inputs are those of the outputs. */
static void check_inference(const mx_kernel_call *call)
{
    mx_shape_t shapes[2 * MOST];
    int types[2 * MOST];
    if (call->n_in > MOST || call->n_out > MOST || call->op->flags & MX_OP_CALLS)
        return;
    mx_infer infer = {call->op, call->attrs, call->n_in, call->n_out, shapes, shapes + MOST, types, types + MOST, NULL};
    for (int i = 0; i < call->n_in; i++) {
        const bool none = mx_is_none(call->in[i]);
        infer.in[i] = none ? MX_UNKNOWN_SHAPE : mx_array_shape(call->in[i]);
        infer.in_type[i] = none ? MX_DTYPE_NONE : call->in[i]->dtype;
    }
    for (int i = 0; i < call->n_out; i++) {
        const bool none = mx_is_none(call->out[i]);
        infer.out[i] = none ? MX_UNKNOWN_SHAPE : mx_array_shape(call->out[i]);
        infer.out_type[i] = none ? MX_DTYPE_NONE : call->out[i]->dtype;
    }
    MX_ASSERT(!mx_op_infer(&infer), "%s: %s", call->op->name, mx_error_message());
}

void mx_kernel_check(const mx_kernel_call *call)
{
    check_arrays(call);
    check_overlap(call);
    check_inference(call);
}
#endif
