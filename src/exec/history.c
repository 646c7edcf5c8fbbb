/* A recorded computation as a symbol: nodes of the tape become nodes of a graph, what they start from becomes variables.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vec.h"
#include "exec/plan/plan.h"
#include "exec/tape.h"
#include "graph/names.h"
#include "graph/symbol.h"

typedef struct history {
    MX_VEC(const mx_node *) nodes; /* all that x needs, later ones after earlier ones once sorted */
    MX_VEC(mx_gentry) made;        /* outputs of the nodes, in their order; nodes retained */
    MX_VEC(int64_t) first;         /* (nodes) where the outputs of each begin */
    mx_dict known;                 /* address of a node -> the node, later its number + 1 */
    int variables;                 /* named so far */
} history;

static const char *key_of(const mx_node *node, char buffer[32])
{
    snprintf(buffer, 32, "%p", (const void *)node);
    return buffer;
}

static bool find(history *h, const mx_node *node)
{
    char key[32];
    if (!node || mx_dict_get(&h->known, key_of(node, key)))
        return true;
    return mx_dict_set(&h->known, key, (void *)node) && mx_vec_push(&h->nodes, node);
}

static int by_sequence(const void *a, const void *b)
{
    const mx_node *x = *(const mx_node *const *)a, *y = *(const mx_node *const *)b;
    return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

/* The list grows while it is walked: every node that some node needs. */
static bool collect(history *h, const mx_node *last)
{
    bool ok = find(h, last);
    for (int64_t i = 0; ok && i < h->nodes.length; i++)
        for (int k = 0; ok && k < h->nodes.items[i]->n_in; k++)
            ok = find(h, h->nodes.items[i]->edges[k].node);
    if (ok)
        qsort((void *)h->nodes.items, (size_t)h->nodes.length, sizeof *h->nodes.items, by_sequence);
    for (int64_t i = 0; ok && i < h->nodes.length; i++) {
        char key[32];
        ok = mx_dict_set(&h->known, key_of(h->nodes.items[i], key), (void *)(intptr_t)(i + 1));
    }
    return ok;
}

static mx_gnode *new_variable(history *h, const mx_shape_t *shape, int dtype)
{
    char name[32];
    snprintf(name, sizeof name, "var%d", h->variables++);
    return mx_gnode_variable(name, shape, dtype);
}

/* Input k of a recorded call; an array without history is a new variable.  *owned: to be released. */
static mx_code input_of(history *h, const mx_node *node, int k, mx_gentry *entry, mx_gnode **owned)
{
    char key[32];
    const mx_edge *edge = &node->edges[k];
    *owned = NULL;
    *entry = (mx_gentry){NULL, 0};
    if (edge->node) {
        const intptr_t number = (intptr_t)mx_dict_get(&h->known, key_of(edge->node, key));
        *entry = h->made.items[h->first.items[number - 1] + edge->output];
        return MX_OK;
    }
    if (node->in[k] == MX_NONE || node->in_type[k] == MX_DTYPE_NONE || node->in_shape[k].ndim < 0)
        return MX_OK; /* an omitted optional input */
    *owned = entry->node = new_variable(h, &node->in_shape[k], node->in_type[k]);
    return *owned ? MX_OK : mx_error_code();
}

static mx_gnode *make_call(history *h, const mx_node *node)
{
    mx_gentry in[256];
    mx_gnode *owned[256], *made = NULL;
    int n = 0;
    mx_code code = MX_OK;
    if (!node->op || node->n_in > 256)
        return mx_fail_null(MX_ERR_UNSUPPORTED,
                            "mx_symbol_recorded: a function with a custom backward cannot be part of a symbol");
    for (; !code && n < node->n_in; n++)
        code = input_of(h, node, n, &in[n], &owned[n]);
    char hint[64];
    char *name = code ? NULL : mx_names_make(NULL, mx_names_hint(node->op->name, hint));
    if (name)
        made = mx_gnode_make(
            &(struct mx_gnode_args){.op = (mx_op *)node->op, .attrs = node->attrs, .name = name, .n_in = n, .in = in});
    mx_strfree(name);
    for (int i = 0; i < n; i++)
        mx_release(owned[i]);
    return made;
}

static mx_gnode *make_variable(history *h, const mx_node *node)
{
    mx_shape_t shape = node->grad ? mx_array_shape(node->grad) : MX_UNKNOWN_SHAPE;
    return new_variable(h, &shape, node->grad ? node->grad->dtype : MX_DTYPE_NONE);
}

/* The call of a hybridized block: its operators.  Inputs without history stay the block's own variables. */
static mx_code add_compiled(history *h, const mx_node *node)
{
    const size_t bytes = (size_t)(node->n_in + node->n_out) * sizeof(mx_gentry);
    mx_gentry *edges = mx_alloc_zero(bytes), *results = edges + node->n_in;
    mx_code code = edges ? MX_OK : MX_ERR_MEMORY;
    char key[32];
    for (int k = 0; !code && k < node->n_in; k++) {
        const mx_edge *edge = &node->edges[k];
        const intptr_t number = edge->node ? (intptr_t)mx_dict_get(&h->known, key_of(edge->node, key)) : 0;
        if (number)
            edges[k] = h->made.items[h->first.items[number - 1] + edge->output];
    }
    code = code ? code : mx_replay_results(node, edges, results);
    for (int k = 0; !code && k < node->n_out; k++)
        if (!mx_vec_push(&h->made, results[k]))
            mx_release(results[k].node), code = MX_ERR_MEMORY;
    mx_free(edges, bytes);
    return code;
}

static mx_code add_node(history *h, const mx_node *node)
{
    if (!mx_vec_push(&h->first, h->made.length))
        return MX_ERR_MEMORY;
    if (node->compiled)
        return add_compiled(h, node);
    mx_gnode *made = mx_node_is_variable(node) ? make_variable(h, node) : make_call(h, node);
    mx_code code = made ? MX_OK : mx_error_code();
    for (int k = 0; !code && k < node->n_out; k++)
        code = mx_vec_push(&h->made, ((mx_gentry){mx_retain(made), (uint32_t)k})) ? MX_OK : MX_ERR_MEMORY;
    mx_release(made);
    return code;
}

mx_symbol *mx_symbol_recorded(mx_array *x)
{
    if (!mx_array_ok(x, "mx_symbol_recorded", "x"))
        return NULL;
    const mx_node *last = mx_tape_node(x);
    if (!last)
        return mx_fail_null(MX_ERR_AUTOGRAD, "mx_symbol_recorded: the array was not computed while recording");
    history h = {0};
    bool ok = collect(&h, last);
    for (int64_t i = 0; ok && i < h.nodes.length; i++)
        ok = !add_node(&h, h.nodes.items[i]);
    mx_symbol *symbol = ok ? mx_symbol_new(1, &h.made.items[h.first.items[h.first.length - 1] + x->node_output]) : NULL;
    for (int64_t i = 0; i < h.made.length; i++)
        mx_release(h.made.items[i].node);
    mx_vec_free(&h.nodes);
    mx_vec_free(&h.made);
    mx_vec_free(&h.first);
    mx_dict_free(&h.known);
    return mx_scope_add(symbol);
}
