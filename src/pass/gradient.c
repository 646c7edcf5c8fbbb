/* The gradient pass: every operator's own gradient, called on symbolic arrays, builds the backward graph.
 *
 *     results with gradients -> newest node first -> op->gradient() on symbolic arrays -> summed per entry -> variables
 *
 * It mirrors exec/backward.c, which does the same on the tape: fused backward operators are used, gradients flow only
 * towards the wanted variables, hidden outputs (masks, statistics) are taken from the forward nodes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "pass/gradient.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"

typedef struct pass {
    const struct mx_gradient_request *request;
    mx_graph graph;
    mx_array **sum; /* (entries) gradient so far: symbolic, retained; NULL: zero */
    bool *needed;   /* (nodes) it depends on a wanted variable */
    int64_t *order; /* (nodes) oldest first */
} pass;

static void mark_needed(pass *p)
{
    const mx_graph *g = &p->graph;
    for (int64_t i = 0; i < g->n; i++) {
        bool needed = false;
        for (int64_t k = 0; k < p->request->n_wanted; k++)
            needed |= p->request->wanted[k] == g->nodes[i];
        for (int64_t k = g->in_row[i]; k < g->in_row[i + 1] && !needed; k++)
            needed = g->in_entry[k] >= 0 && p->needed[mx_graph_node_of(g, g->in_entry[k])];
        p->needed[i] = needed;
    }
}

static mx_code add_to(pass *p, int64_t entry, mx_array *g)
{
    mx_array *old = p->sum[entry];
    if (!old) {
        p->sum[entry] = mx_retain(g);
        return MX_OK;
    }
    mx_array *sum = mx_g2("elemwise_add", old, g);
    if (!sum)
        return mx_error_code();
    p->sum[entry] = mx_retain(sum);
    mx_release(old);
    return MX_OK;
}

/* ---- one node ---------------------------------------------------------------------------------------------------- */

static bool keeps(uint32_t mask, int i) { return mask == MX_ALL_ARGS || (i < 32 && (mask >> i & 1)); }

static mx_array *symbolic(const mx_gnode *node, uint32_t output)
{
    return mx_scope_add(mx_array_symbolic((mx_gnode *)(uintptr_t)node, output));
}

/* The inputs and outputs that op->gradient reads, as symbolic arrays of the scope. */
static mx_code gather(pass *p, int64_t i, int n_in, mx_array **in, mx_array **out)
{
    const mx_gnode *node = p->graph.nodes[i];
    for (int k = 0; k < n_in; k++) {
        const mx_gentry e = k < node->n_in ? node->in[k] : (mx_gentry){0};
        in[k] = NULL;
        if (e.node && keeps(node->op->grad_in, k) && !(in[k] = symbolic(e.node, e.output)))
            return mx_error_code();
    }
    for (int k = 0; k < node->n_out; k++) {
        out[k] = NULL;
        if (keeps(node->op->grad_out, k) && !(out[k] = symbolic(node, (uint32_t)k)))
            return mx_error_code();
    }
    return MX_OK;
}

static mx_code call_gradient(const mx_gnode *node, mx_grad *grad)
{
    if (node->op->flags & MX_OP_ZERO_GRADIENT)
        return MX_OK;
    if (!node->op->gradient)
        return mx_fail(MX_ERR_AUTOGRAD, "backward: operator %s has no gradient", node->op->name);
    const bool clean = !mx_has_error();
    mx_thread.precision_settled++;
    mx_code code = node->op->gradient(grad);
    mx_thread.precision_settled--;
    if (!code && clean && mx_has_error())
        return mx_error_code();
    if (code && !mx_has_error())
        return mx_fail(code, "backward: the gradient of %s failed", node->op->name);
    return code;
}

static mx_code pass_on(pass *p, int64_t i, mx_array *const *igrad)
{
    const mx_graph *g = &p->graph;
    for (int k = 0; k < g->nodes[i]->n_in; k++) {
        const int64_t entry = g->in_entry[g->in_row[i] + k];
        if (entry >= 0 && igrad[k] && p->needed[mx_graph_node_of(g, entry)] && add_to(p, entry, igrad[k]))
            return mx_error_code();
    }
    return MX_OK;
}

static mx_code through_node(pass *p, int64_t i)
{
    MX_SCOPE;
    const mx_graph *g = &p->graph;
    const mx_gnode *node = g->nodes[i];
    bool any = false;
    for (int64_t e = g->row[i]; e < g->row[i + 1]; e++)
        any |= p->sum[e] != NULL;
    if (!any || !p->needed[i] || !node->op)
        return MX_OK;
    const bool list = node->op->flags & MX_OP_LIST;
    const int n_in = list || node->n_in > node->op->declared_inputs ? node->n_in : node->op->declared_inputs;
    const size_t bytes = (size_t)n_in * (2 * sizeof(mx_array *) + sizeof(mx_shape_t) + sizeof(int) + sizeof(bool)) +
                         (size_t)node->n_out * sizeof(mx_array *);
    mx_array **in = mx_alloc_zero(bytes);
    if (!in)
        return MX_ERR_MEMORY;
    mx_array **igrad = in + n_in, **out = igrad + n_in;
    mx_shape_t *shape = (mx_shape_t *)(out + node->n_out);
    int *type = (int *)(shape + n_in);
    bool *wanted = (bool *)(type + n_in);
    for (int k = 0; k < n_in; k++) {
        const mx_gentry e = k < node->n_in ? node->in[k] : (mx_gentry){0};
        shape[k] = e.node ? e.node->out_shape[e.output] : MX_UNKNOWN_SHAPE;
        type[k] = e.node ? e.node->out_type[e.output] : MX_DTYPE_NONE;
        const int64_t entry = k < node->n_in ? g->in_entry[g->in_row[i] + k] : -1;
        wanted[k] =
            entry >= 0 && p->needed[mx_graph_node_of(g, entry)] && !(k < 32 && (node->op->no_grad_inputs >> k & 1));
    }
    mx_code code = gather(p, i, n_in, in, out);
    mx_grad grad = {node->op, node->attrs, n_in, node->n_out,          in,   out, &p->sum[g->row[i]], igrad,
                    wanted,   shape,       type, p->request->training, false};
    if (!code)
        code = call_gradient(node, &grad);
    if (!code)
        code = pass_on(p, i, igrad);
    mx_free(in, bytes);
    return code;
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

static mx_code open(pass *p)
{
    mx_code code = mx_graph_of(&p->graph, p->request->n_results, p->request->results);
    if (code)
        return code;
    const size_t n = (size_t)p->graph.n;
    p->sum = mx_alloc_zero((size_t)p->graph.row[n] * sizeof *p->sum);
    p->needed = mx_alloc_zero(n);
    p->order = mx_alloc(n * sizeof *p->order);
    if (!p->sum || !p->needed || !p->order)
        return MX_ERR_MEMORY;
    mx_graph_by_creation(&p->graph, p->order);
    mark_needed(p);
    return MX_OK;
}

static void collect(pass *p, mx_gentry *gradients)
{
    for (int64_t k = 0; k < p->request->n_wanted; k++)
        for (int64_t i = 0; i < p->graph.n; i++) {
            if (p->graph.nodes[i] != p->request->wanted[k] || !p->sum[p->graph.row[i]])
                continue;
            gradients[k] = mx_entry_of(p->sum[p->graph.row[i]]);
            mx_retain(gradients[k].node);
        }
}

static void close(pass *p)
{
    const size_t n = (size_t)p->graph.n, entries = p->graph.row ? (size_t)p->graph.row[n] : 0;
    for (size_t i = 0; p->sum && i < entries; i++)
        mx_release(p->sum[i]);
    mx_free(p->sum, entries * sizeof *p->sum);
    mx_free(p->needed, n);
    mx_free(p->order, n * sizeof *p->order);
    mx_graph_free(&p->graph);
}

mx_code mx_gradient_graph(const struct mx_gradient_request *request, mx_gentry *gradients)
{
    pass p = {.request = request};
    for (int64_t i = 0; i < request->n_wanted; i++)
        gradients[i] = (mx_gentry){0};
    mx_code code = open(&p);
    for (int64_t i = 0; !code && i < request->n_results; i++)
        if (request->head_gradients[i])
            code = add_to(&p, p.graph.results[i], request->head_gradients[i]);
    for (int64_t i = p.graph.n; !code && i-- > 0;)
        code = through_node(&p, p.order[i]);
    if (!code)
        collect(&p, gradients);
    close(&p);
    return code;
}
