/* Attention that a program writes as several operators, as the one operator that stores no scores.
 *
 *     scores = interleaved_matmul_selfatt_qk(x)       scores = interleaved_matmul_encdec_qk(q, kv)     scores = batch_dot(q, k')
 *     weights = [Dropout](softmax([scale] scores))    the same                                         the same
 *     interleaved_matmul_selfatt_valatt(x, weights)   interleaved_matmul_encdec_valatt(kv, weights)    batch_dot(weights, v)
 *         ->  _contrib_attention(x) or (q, kv), layout TNC                                  _contrib_attention(q, k, v), one head
 *
 * Keys may be hidden, by lengths that are equal for all rows of a batch entry or by a mask of zeros and ones:
 *
 *     softmax(scores, length)          softmax(where(mask, scores, -1e18 ones_like(scores))) * mask
 *
 * It runs on the graph, before the gradient is made, so that the gradient is that of the operator.  Results are rounded
 * differently: plans that train use it where the device says so (MX_CAN_FUSE_ATTENTION), others for predictions alone.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "pass/attention.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/op.gen.h"
#include "graph/rewrite.h"
#include "op/formula/attention.h"
#include "pass/attention_match.h"

typedef mx_attention_found found;

typedef struct exchange {
    const mx_gnode *old;
    mx_gnode *made;
} exchange;

static bool replace(const mx_graph *graph, int64_t i, void *user, mx_gentry *other)
{
    const exchange *e = user;
    *other = (mx_gentry){e->made, 0};
    return graph->nodes[i] == e->old;
}

/* A new node with one input; that of the input, owned, is released.  Both may be NULL: an earlier one failed. */
static mx_gnode *next(mx_op *op, const void *attrs, const found *f, const char *what, mx_gnode *owned, mx_gentry in)
{
    char name[256];
    snprintf(name, sizeof name, "%s_%s", f->last->name, what);
    mx_gnode *made = in.node ? mx_gnode_make(&(struct mx_gnode_args){
                                   .op = op, .attrs = attrs, .name = name, .n_in = 1, .in = &in})
                : NULL;
    mx_release(owned);
    return made;
}

/* The first row's length of every batch entry: (N) */
static mx_gnode *lengths_of_entries(const found *f)
{
    const int64_t batch = mx_attention_batch(f), all = mx_shape_size(&f->lengths.node->out_shape[f->lengths.output]);
    const mx_reshape_to_attrs rows = {.shape = MX_DIMS(batch, all / batch)}, flat = {.shape = MX_DIMS(batch)};
    const mx_slice_axis_attrs first = {.axis = 1, .begin = 0, .end = 1};
    mx_gnode *node = next(MX_OP("_reshape_to"), &rows, f, "rows", NULL, f->lengths);
    node = next(MX_OP("slice_axis"), &first, f, "first", node, (mx_gentry){node, 0});
    return next(MX_OP("_reshape_to"), &flat, f, "length", node, (mx_gentry){node, 0});
}

/* (N, heads, queries, keys) */
static mx_gnode *mask_of_entries(const found *f)
{
    const mx_shape_t *all = &f->mask.node->out_shape[f->mask.output];
    const mx_reshape_to_attrs attrs = {
        .shape = MX_DIMS(mx_attention_batch(f), f->attrs.heads, all->dim[all->ndim - 2], all->dim[all->ndim - 1])};
    return next(MX_OP("_reshape_to"), &attrs, f, "mask", NULL, f->mask);
}

static mx_gnode *make(const found *f)
{
    mx_gentry in[MX_ATTENTION_INPUTS] = {f->in[0], f->in[1], f->in[2]};
    mx_gnode *mask = f->attrs.use_mask ? mask_of_entries(f) : NULL;
    mx_gnode *length = f->attrs.use_length ? lengths_of_entries(f) : NULL;
    in[MX_ATTENTION_MASK].node = mask, in[MX_ATTENTION_LENGTH].node = length;
    const bool failed = (f->attrs.use_mask && !mask) || (f->attrs.use_length && !length);
    const struct mx_gnode_args args = {.op = MX_OP("_contrib_attention"), .attrs = &f->attrs, .name = f->last->name,
                                       .n_in = MX_ATTENTION_INPUTS, .in = in};
    mx_gnode *made = failed ? NULL : mx_gnode_make(&args);
    mx_release(mask);
    mx_release(length);
    return made;
}

/* Its random numbers are drawn by the operator now; by name: it may have been rebuilt since it was traced. */
static void forget_dropout(mx_pointers *draws, const mx_gnode *dropout)
{
    for (int64_t k = 0; dropout && k < draws->length; k++)
        if (mx_gnode_is(draws->items[k], "Dropout") && !strcmp(((mx_gnode *)draws->items[k])->name, dropout->name)) {
            mx_release(draws->items[k]);
            draws->items[k] = draws->items[--draws->length];
            return;
        }
}

/* The first of them, in order: what comes later may depend on it, and is rebuilt. */
static mx_code fuse_one(const mx_graph *graph, mx_gentry *results, mx_pointers *draws, bool *any)
{
    found f;
    int64_t i = 0;
    *any = false;
    while (i < graph->n && !mx_attention_match(graph, graph->nodes[i], &f))
        i++;
    if (i == graph->n)
        return MX_OK;
    mx_gnode *made = make(&f);
    if (!made)
        return mx_error_code();
    forget_dropout(draws, f.dropout);
    *any = true;
    const mx_code code = mx_graph_rebuild(graph, replace, &(exchange){f.last, made}, results);
    mx_release(made);
    return code;
}

mx_code mx_attention_fuse(int64_t n, mx_gentry *results, mx_pointers *draws)
{
    const size_t bytes = (size_t)n * sizeof *results;
    mx_gentry *now = mx_alloc_zero(bytes);
    mx_code code = now ? MX_OK : MX_ERR_MEMORY;
    for (bool any = true; any && !code;) {
        mx_graph graph = {0};
        code = mx_graph_of(&graph, n, results);
        code = code ? code : fuse_one(&graph, now, draws, &any);
        mx_graph_free(&graph);
        for (int64_t i = 0; any && !code && i < n; i++) {
            mx_release(results[i].node);
            results[i] = now[i];
        }
    }
    mx_free(now, bytes);
    return code;
}
