/* Running the tape backwards.
 *
 *     collect the nodes that the heads reach -> newest first -> each node computes gradients of its inputs
 *     from those of its outputs; they are summed per input -> variables store theirs
 *
 * Sequence numbers order the nodes, so no recursion is needed: tapes may be long.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "exec/backward.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "exec/check.h"
#include "base/vec.h"
#include "exec/plan/plan.h"
#include "exec/ready.h"
#include "exec/sparse/sparse.h"
#include "base/thread.h"

static _Atomic uint64_t next_pass = 1;

/* ---- collecting ------------------------------------------------------------------------------------------ */

static bool visit(mx_pass *pass, mx_node *node, uint64_t oldest, mx_pointers *stack, mx_pointers *nodes)
{
    if (!node || node->visit == pass->number || node->sequence < oldest)
        return true;
    node->visit = pass->number;
    return mx_vec_push(stack, node) && mx_vec_push(nodes, node);
}

static int newest_first(const void *a, const void *b)
{
    const mx_node *x = *(mx_node *const *)a, *y = *(mx_node *const *)b;
    return x->sequence < y->sequence ? 1 : -1;
}

/* Adds slots for the outputs of these nodes after the existing ones. */
static mx_code add_slots(mx_pass *pass, const mx_pointers *nodes)
{
    int64_t count = pass->slot_count;
    for (int64_t i = 0; i < nodes->length; i++) {
        mx_node *node = nodes->items[i];
        node->slot = count;
        count += node->n_out;
    }
    mx_slot *slots = mx_alloc_zero((size_t)count * sizeof *slots);
    if (!slots)
        return mx_error_code();
    if (pass->slot_count)
        memcpy(slots, pass->slots, (size_t)pass->slot_count * sizeof *slots);
    mx_free(pass->slots, (size_t)pass->slot_count * sizeof *slots);
    pass->slots = slots;
    pass->slot_count = count;
    return MX_OK;
}

/* Nodes that the heads reach and the pass has not visited, not older than `oldest`; newest first. */
static mx_code collect(mx_pass *pass, mx_arrays heads, uint64_t oldest, mx_pointers *nodes)
{
    mx_pointers stack = {0};
    bool ok = true;
    for (int64_t i = 0; ok && i < heads.n; i++)
        ok = visit(pass, heads.v[i]->node, oldest, &stack, nodes);
    while (ok && stack.length) {
        mx_node *node = stack.items[--stack.length];
        for (int i = 0; ok && i < node->n_in; i++)
            ok = visit(pass, node->edges[i].node, oldest, &stack, nodes);
    }
    mx_vec_free(&stack);
    if (!ok)
        return mx_error_code();
    if (nodes->length)
        qsort(nodes->items, (size_t)nodes->length, sizeof(void *), newest_first);
    return add_slots(pass, nodes);
}

/* ---- summing --------------------------------------------------------------------------------------------- */

/* slot += g.  The first gradient is only referenced; from the second on the sum is a new array. */
static mx_code add_to(mx_pass *pass, mx_slot *slot, mx_array *g)
{
    if (!slot->sum) {
        slot->sum = mx_retain(g);
        slot->ours = slot->direct; /* a compiled call wrote it to its destination */
        return MX_OK;
    }
    mx_array *out[1] = {slot->ours && !pass->create_graph && slot->sum->storage ? slot->sum : NULL};
    mx_code code = mx_invoke(MX_OP("elemwise_add"), NULL, 2, (mx_array *const[]){slot->sum, g}, 1, out);
    if (code || out[0] == slot->sum)
        return code;
    mx_release(slot->sum);
    slot->sum = mx_retain(out[0]);
    slot->ours = true;
    return MX_OK;
}

static mx_code pass_on(mx_pass *pass, mx_node *node, mx_array **igrad)
{
    for (int i = 0; i < node->n_in; i++) {
        mx_node *to = node->edges[i].node;
        if (!to || !igrad[i])
            continue;
        if (!igrad[i]->storage && !mx_node_is_variable(to) && !(igrad[i] = mx_sparse_dense(igrad[i])))
            return mx_error_code(); /* only variables accept sparse gradients */
        mx_code code = add_to(pass, &pass->slots[to->slot + node->edges[i].output], igrad[i]);
        if (code)
            return code;
    }
    return MX_OK;
}

/* ---- one node -------------------------------------------------------------------------------------------- */

static mx_code freed_error(const mx_node *node)
{
    return mx_fail(MX_ERR_AUTOGRAD,
                   "backward: the graph through %s was freed by an earlier backward; pass retain_graph to run it twice",
                   node->op         ? node->op->name
                   : node->compiled ? "a hybridized block"
                                    : "a custom function");
}

/* Saved outputs have no history on the node; for higher orders the gradient needs it. */
static mx_code outputs_with_history(mx_node *node, mx_array **out)
{
    for (int i = 0; i < node->n_out; i++) {
        mx_array *kept = node->out[i];
        out[i] = NULL;
        if (!kept)
            continue;
        mx_shape_t shape = {.ndim = kept->ndim};
        memcpy(shape.dim, kept->shape, sizeof shape.dim);
        out[i] = mx_scope_add(mx_array_view(kept, 0, &shape, (mx_dtype)kept->dtype));
        if (!out[i])
            return mx_error_code();
        mx_array_set_node(out[i], node, (uint32_t)i);
    }
    return MX_OK;
}

/* In checking mode errors name the block whose forward recorded the node. */
static mx_code gradient_at(const mx_node *node, mx_grad *grad)
{
    mx_text place = {0};
    mx_text_print(&place, "%s%sbackward of %s", node->place ? node->place : "", node->place ? ": " : "",
                  node->op->name);
    const char *outer = mx_error_context(mx_text_get(&place));
    const bool scaled = mx_thread.scaled;
    mx_thread.scaled = true;
    const mx_code code = node->op->gradient(grad);
    mx_thread.scaled = scaled;
    mx_error_context(outer);
    mx_text_free(&place);
    return code;
}

static mx_code run_gradient(mx_pass *pass, mx_node *node, mx_array **ograd, mx_array **igrad, bool *wanted)
{
    mx_array *out[MX_MAX_OUTPUTS];
    if (node->op->flags & MX_OP_ZERO_GRADIENT)
        return MX_OK;
    if (!node->op->gradient)
        return mx_fail(MX_ERR_AUTOGRAD, "backward: operator %s has no gradient", node->op->name);
    if (pass->create_graph && outputs_with_history(node, out))
        return mx_error_code();
    mx_grad grad = {node->op, node->attrs, node->n_in, node->n_out, node->in, pass->create_graph ? out : node->out,
                    ograd,    igrad,       wanted,     node->in_shape, node->in_type, node->training, pass->create_graph};
    const bool clean = !mx_has_error();
    mx_thread.precision_settled++;
    mx_code code = mx_checking() ? gradient_at(node, &grad) : node->op->gradient(&grad);
    mx_thread.precision_settled--;
    if (!code && clean && mx_has_error()) /* a failed part looks like "no gradient", which would mean zero */
        return mx_error_code();
    if (code && !mx_has_error())
        return mx_fail(code, "backward: the gradient of %s failed", node->op->name);
    return code;
}

static mx_code check_input_gradient(const mx_node *node, int i, const mx_array *g)
{
    char have[MX_SHAPE_TEXT], want[MX_SHAPE_TEXT];
    if (!mx_array_any_ok(g, node->function->name, "input gradient"))
        return mx_error_code();
    mx_shape_t shape = {.ndim = g->ndim};
    memcpy(shape.dim, g->shape, (size_t)g->ndim * sizeof shape.dim[0]);
    if (mx_shape_equal(&shape, &node->in_shape[i]) && g->dtype == node->in_type[i])
        return MX_OK;
    return mx_fail(MX_ERR_SHAPE, "backward of function %s: the gradient of input %d is %s of %s, wanted %s of %s",
                   node->function->name, i, mx_shape_text(&shape, have), mx_dtype_name((mx_dtype)g->dtype),
                   mx_shape_text(&node->in_shape[i], want), mx_dtype_name((mx_dtype)node->in_type[i]));
}

static mx_code run_function(mx_node *node, mx_array **ograd, mx_array **igrad)
{
    for (int i = 0; i < node->n_out; i++)
        if (!ograd[i] && !node->function->zeros_left_out)
            return mx_fail(MX_ERR_AUTOGRAD, "backward: no gradient reached output %d of function %s", i,
                           node->function->name);
    mx_code code = node->function->backward(node->user, node->n_out, ograd, node->n_in, igrad);
    if (code)
        return mx_fail(MX_ERR_CALLBACK, "backward of function %s failed", node->function->name);
    for (int i = 0; i < node->n_in; i++)
        if (igrad[i] && check_input_gradient(node, i, igrad[i]))
            return mx_error_code();
    return MX_OK;
}

static mx_code run_node(mx_pass *pass, mx_node *node, mx_array **ograd, mx_array **igrad, bool *wanted)
{
    if (node->compiled)
        return mx_frame_gradient(pass, node, ograd, igrad);
    return node->op ? run_gradient(pass, node, ograd, igrad, wanted) : run_function(node, ograd, igrad);
}

static mx_code through_node(mx_pass *pass, mx_node *node)
{
    MX_SCOPE;
    mx_array *ograd[MX_MAX_OUTPUTS];
    bool any = false;
    for (int i = 0; i < node->n_out; i++) {
        ograd[i] = pass->slots[node->slot + i].sum;
        any |= ograd[i] != NULL;
    }
    if (!any)
        return MX_OK;
    if (node->freed)
        return freed_error(node);
    const size_t bytes = (size_t)node->n_in * (sizeof(mx_array *) + sizeof(bool));
    mx_array **igrad = mx_alloc_zero(bytes);
    if (!igrad)
        return mx_error_code();
    bool *wanted = (bool *)(igrad + node->n_in);
    for (int i = 0; i < node->n_in; i++)
        wanted[i] = node->edges[i].node && !(node->op && i < 32 && (node->op->no_grad_inputs >> i & 1));
    mx_code code = run_node(pass, node, ograd, igrad, wanted);
    if (!code)
        code = pass_on(pass, node, igrad);
    mx_free(igrad, bytes);
    return code;
}

/* ---- variables ------------------------------------------------------------------------------------------- */

/* The variable takes over the sum's memory if nothing else refers to either of the two. */
static bool swap_storage(mx_array *grad, mx_array *sum)
{
    if (sum->node || grad->storage->object.count != 1 || sum->storage->object.count != 1 || sum->object.count != 1 ||
        grad->storage->bytes != sum->storage->bytes || grad->storage->release || sum->storage->release ||
        mx_bytes(grad) != grad->storage->bytes || grad->dtype != sum->dtype ||
        atomic_load_explicit(&grad->storage->exposed, memory_order_relaxed))
        return false;
    mx_storage *mine = grad->storage;
    grad->storage = sum->storage;
    sum->storage = mine;
    return true;
}

static mx_code store(mx_node *variable, mx_array *sum)
{
    mx_array *grad = variable->grad;
    if (!grad || variable->req == MX_GRAD_NULL)
        return MX_OK;
    grad->written += grad->written < UINT8_MAX; /* many accumulations must not wrap to "nothing new" */
    if (sum == grad)
        return MX_OK; /* it was computed in place */
    if (!grad->storage || (sum && !sum->storage))
        return mx_sparse_store(grad, sum, variable->req);
    if (variable->req == MX_GRAD_ADD) {
        mx_array *out[1] = {grad};
        return sum ? mx_invoke(MX_OP("elemwise_add"), NULL, 2, (mx_array *const[]){grad, sum}, 1, out) : MX_OK;
    }
    if (!sum)
        return mx_array_fill(grad, 0);
    return swap_storage(grad, sum) ? MX_OK : mx_array_copy_data(grad, sum);
}

static mx_code process(mx_pass *pass, mx_node *node)
{
    if (!mx_node_is_variable(node))
        return through_node(pass, node);
    return pass->keep_results ? MX_OK : store(node, pass->slots[node->slot].sum);
}

/* ---- variables that are stored before the end, for those who listen ----------------------------------------- */

static bool is_pending(const mx_pass *pass, const mx_node *to)
{
    return to && to->visit == pass->number && mx_node_is_variable(to) && pass->uses[to->slot] > 0;
}

static mx_code count_uses(mx_pass *pass)
{
    if (!mx_ready_wanted() || pass->create_graph || pass->keep_results || !pass->slot_count)
        return MX_OK;
    pass->uses = mx_alloc_zero((size_t)pass->slot_count * sizeof *pass->uses);
    for (int64_t n = 0; pass->uses && n < pass->nodes.length; n++) {
        const mx_node *node = pass->nodes.items[n];
        for (int i = 0; i < node->n_in; i++) {
            const mx_node *to = node->edges[i].node;
            if (to && to->visit == pass->number && mx_node_is_variable(to))
                pass->uses[to->slot]++;
        }
    }
    return pass->uses ? MX_OK : mx_error_code();
}

static mx_code store_and_tell(mx_pass *pass, mx_node *variable, mx_array *sum)
{
    pass->uses[variable->slot] = -1;
    const mx_code code = store(variable, sum);
    if (!code && variable->grad && variable->req != MX_GRAD_NULL)
        mx_ready_tell(variable->grad);
    return code;
}

bool mx_pass_store_early(mx_pass *pass, const mx_node *node, int i)
{
    mx_node *to = node->edges[i].node;
    if (!pass->uses || !is_pending(pass, to) || pass->uses[to->slot] != 1)
        return false;
    return !store_and_tell(pass, to, to->grad);
}

/* After a node has run: variables that no other node adds to. */
static mx_code store_complete(mx_pass *pass, const mx_node *node)
{
    mx_code code = MX_OK;
    for (int i = 0; !code && pass->uses && i < node->n_in; i++) {
        mx_node *to = node->edges[i].node;
        if (is_pending(pass, to) && --pass->uses[to->slot] == 0)
            code = store_and_tell(pass, to, pass->slots[to->slot].sum);
    }
    return code;
}

/* ---- the pass -------------------------------------------------------------------------------------------- */

static void empty_slots(mx_pass *pass, const mx_node *node)
{
    for (int i = 0; i < node->n_out; i++) {
        mx_release(pass->slots[node->slot + i].sum);
        pass->slots[node->slot + i].sum = NULL;
    }
}

static void forget(mx_pass *pass, mx_node *node)
{
    if (!pass->retain && !mx_node_is_variable(node)) {
        mx_node_free_kept(node);
        node->freed = true;
    }
    if (!pass->keep_results)
        empty_slots(pass, node);
}

mx_code mx_pass_detour(mx_pass *pass, uint64_t oldest, mx_arrays heads, mx_array *const *ograd)
{
    mx_pointers nodes = {0};
    mx_code code = collect(pass, heads, oldest, &nodes);
    for (int64_t i = 0; !code && i < heads.n; i++) {
        const mx_node *node = heads.v[i]->node;
        if (node && ograd[i])
            code = add_to(pass, &pass->slots[node->slot + heads.v[i]->node_output], ograd[i]);
    }
    for (int64_t i = 0; !code && i < nodes.length; i++) {
        code = through_node(pass, nodes.items[i]);
        if (!code)
            empty_slots(pass, nodes.items[i]);
    }
    mx_vec_free(&nodes);
    return code;
}

/* Gradients of outputs are dense. */
static mx_array *ones_like(const mx_array *head)
{
    const mx_shape_t shape = mx_array_shape(head);
    mx_array *ones = mx_scope_add(mx_array_new(&shape, (mx_dtype)head->dtype, head->context));
    return ones && !mx_array_fill(ones, 1) ? ones : NULL;
}

mx_code mx_pass_run(mx_pass *pass, mx_arrays heads, mx_arrays head_grads)
{
    pass->number = atomic_fetch_add(&next_pass, 1);
    mx_mode mode = mx_mode_enter(pass->create_graph, !pass->predict);
    mx_code code = collect(pass, heads, 0, &pass->nodes);
    for (int64_t i = 0; !code && i < heads.n; i++) {
        MX_SCOPE;
        mx_array *given = head_grads.n ? head_grads.v[i] : MX_NONE;
        mx_array *g = given == MX_NONE ? ones_like(heads.v[i]) : mx_sparse_dense(given);
        code = g ? add_to(pass, &pass->slots[heads.v[i]->node->slot + heads.v[i]->node_output], g) : mx_error_code();
    }
    if (!code)
        code = count_uses(pass);
    for (int64_t i = 0; !code && i < pass->nodes.length; i++) {
        mx_node *node = pass->nodes.items[i];
        if (!pass->uses || !mx_node_is_variable(node) || pass->uses[node->slot] >= 0)
            code = process(pass, node);
        if (!code)
            code = store_complete(pass, node);
        if (!code)
            forget(pass, node);
    }
    mx_mode_leave(&mode);
    return code;
}

void mx_pass_free(mx_pass *pass)
{
    for (int64_t i = 0; pass->slots && i < pass->slot_count; i++)
        mx_release(pass->slots[i].sum);
    mx_free(pass->uses, pass->uses ? (size_t)pass->slot_count * sizeof *pass->uses : 0);
    mx_free(pass->slots, (size_t)pass->slot_count * sizeof *pass->slots);
    mx_vec_free(&pass->nodes);
}
