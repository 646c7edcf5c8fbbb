/* Compiled calls on the tape: one node per call of a hybridized block.
 *
 *     node --- edges: inputs of the call, then parameters      frame: what the forward part saved
 *
 * Externals of the program: inputs of the call come first, the gradients of its results after them.  Result i of the second part
 * belongs to edge i.  If a variable's gradient is to be overwritten, the plan writes directly into that array.
 * Gradients that will be differentiated again come from a replay of the call (replay.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/error.h"
#include "exec/plan/plan.h"

mx_code mx_tape_append_frame(mx_frame *frame, int n_in, mx_array *const *in, int n_out, mx_array *const *out)
{
    mx_node *node = mx_node_new(n_in, n_out, 0);
    if (!node)
        return mx_error_code();
    node->compiled = true;
    node->frame = mx_retain(frame);
    node->training = mx_thread.modes.training;
    node->context = frame->plan->program.context;
    for (int i = 0; i < n_in; i++) {
        mx_array *x = in[i];
        node->in_shape[i] = x == MX_NONE ? MX_UNKNOWN_SHAPE : mx_array_shape(x);
        node->in_type[i] = x->dtype;
        if (x == MX_NONE)
            continue;
        node->edges[i] = (mx_edge){mx_retain(mx_live_node(x)), x->node_output};
        if (!node->edges[i].node)
            mx_node_keep_input(node, i, x); /* the frame reads it */
    }
    for (int i = 0; i < n_out; i++)
        mx_array_set_node(out[i], node, (uint32_t)i);
    mx_release(node);
    return MX_OK;
}

/* The array that the gradient of edge i may be written into directly; NULL: the pass adds it up. */
static mx_array *direct_target(mx_pass *pass, mx_node *node, int i)
{
    mx_node *to = node->edges[i].node;
    if (!to || pass->keep_results || !mx_node_is_variable(to) || to->req != MX_GRAD_WRITE || !to->grad)
        return NULL;
    mx_slot *slot = &pass->slots[to->slot];
    if (slot->sum || slot->direct || to->grad->readonly || !to->grad->storage)
        return NULL;
    return to->grad;
}

static bool fits(const mx_program *program, int32_t value, const mx_array *x)
{
    mx_shape_t shape = mx_array_shape(x);
    return mx_shape_equal(&shape, &program->values.items[value].shape) &&
           x->dtype == program->values.items[value].dtype && mx_context_equal(x->context, program->context);
}

/* Missing gradients of results are zero. */
static mx_code bind_head_gradients(mx_frame *frame, mx_array **ograd)
{
    const mx_program *program = &frame->plan->program;
    for (int64_t e = 0; e < program->externals.length; e++) {
        const mx_external *x = &program->externals.items[e];
        const int64_t result = x->kind == MX_EXTERNAL_INPUT ? x->index - program->n_inputs : -1;
        if (result < 0)
            continue;
        mx_array *g = ograd[result];
        if (!g) {
            const mx_value *value = &program->values.items[x->value];
            g = mx_scope_add(mx_array_new(&value->shape, (mx_dtype)value->dtype, program->context));
            if (!g || mx_array_fill(g, 0))
                return mx_error_code();
        }
        if (mx_frame_bind(frame, e, g))
            return mx_error_code();
    }
    return MX_OK;
}

/* A call whose gradients are stored while it runs. */
typedef struct early {
    mx_pass *pass;
    const mx_node *node;
    mx_array *const *igrad;
} early;

static void gradient_ready(void *user, int64_t i)
{
    const early *e = user;
    const mx_node *to = i < e->node->n_in ? e->node->edges[i].node : NULL;
    if (to && e->igrad[i] && e->igrad[i] == to->grad)
        mx_pass_store_early(e->pass, e->node, (int)i);
}

/* A captured backward is one launch: nothing of it is complete before its end. */
static mx_code run_backward(mx_pass *pass, mx_node *node, mx_array **igrad)
{
    mx_frame *frame = node->frame;
    early e = {pass, node, igrad};
    if (pass->uses && !frame->plan->capturable)
        frame->ready = gradient_ready, frame->ready_user = &e;
    const mx_code code = mx_frame_backward(frame, igrad, pass->retain);
    frame->ready = NULL;
    return code;
}

mx_code mx_frame_gradient(mx_pass *pass, mx_node *node, mx_array **ograd, mx_array **igrad)
{
    mx_frame *frame = node->frame;
    const mx_program *program = &frame->plan->program;
    if (pass->create_graph)
        return mx_replay_gradient(pass, node, ograd);
    if (bind_head_gradients(frame, ograd))
        return mx_error_code();
    for (int i = 0; i < node->n_in; i++) {
        const int32_t value = program->results.items[program->forward_results + i];
        mx_array *target = value < 0 ? NULL : direct_target(pass, node, i);
        if (!target || !fits(program, value, target))
            continue;
        igrad[i] = target;
        pass->slots[node->edges[i].node->slot].direct = true;
    }
    return run_backward(pass, node, igrad);
}
