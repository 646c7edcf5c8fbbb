/* Attention that a program writes as several operators, as the one operator that stores no scores.
 *
 *     scores = interleaved_matmul_selfatt_qk(x)       scores = interleaved_matmul_encdec_qk(q, kv)     scores = batch_dot(q, k')
 *     weights = [Dropout](softmax([scale] scores))    the same                                         the same
 *     interleaved_matmul_selfatt_valatt(x, weights)   interleaved_matmul_encdec_valatt(kv, weights)    batch_dot(weights, v)
 *         ->  _contrib_attention(x) or (q, kv), layout TNC                                  _contrib_attention(q, k, v), one head
 *
 * It runs on the graph, before the gradient is made, so that the gradient is that of the operator.  Results are rounded
 * differently: plans that train use it where the device says so (MX_CAN_FUSE_ATTENTION), others for predictions alone.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "pass/attention.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/op.gen.h"
#include "graph/rewrite.h"

/* What was found from the last product backwards. */
typedef struct found {
    const mx_gnode *last, *dropout; /* dropout NULL: none */
    mx_gentry in[3];                /* query, key, value of the operator; node NULL: absent */
    mx_attention_attrs attrs;
} found;

static bool is(const mx_gnode *node, const char *op) { return node && node->op && !strcmp(node->op->name, op); }
static bool same(mx_gentry a, mx_gentry b) { return a.node == b.node && a.output == b.output; }

/* ---- matching ------------------------------------------------------------------------------------------------------ */

/* How often output 0 of a node is used, also as a result. */
static int64_t uses(const mx_graph *graph, const mx_gnode *node)
{
    int64_t n = 0;
    for (int64_t i = 0; i < graph->n; i++)
        for (int k = 0; k < graph->nodes[i]->n_in; k++)
            n += graph->nodes[i]->in[k].node == node;
    for (int64_t i = 0; i < graph->n_results; i++)
        n += graph->nodes[mx_graph_node_of(graph, graph->results[i])] == node;
    return n;
}

/* The node of an entry if nothing else uses it; NULL: something does, or it is another output than the first. */
static const mx_gnode *only(const mx_graph *graph, mx_gentry e)
{
    return e.node && e.node->op && !e.output && uses(graph, e.node) == 1 ? e.node : NULL;
}

static bool is_float(const mx_gnode *node) { return mx_dtype_is_float(node->out_type[0]); }

/* Steps over casts between floating types, which mixed precision inserts around softmax. */
static const mx_gnode *without_casts(const mx_graph *graph, mx_gentry e)
{
    const mx_gnode *node = only(graph, e);
    while ((is(node, "amp_cast") || is(node, "Cast")) && is_float(node) && node->in[0].node &&
           mx_dtype_is_float(node->in[0].node->out_type[node->in[0].output]))
        node = only(graph, node->in[0]);
    return node;
}

/* The scores behind weights, whose node is returned; the factor between and dropout go into *f.  NULL: something else */
static const mx_gnode *scores_of(const mx_graph *graph, mx_gentry weights, found *f)
{
    const mx_gnode *node = without_casts(graph, weights);
    f->attrs.scale = 1;
    if (is(node, "Dropout")) {
        const mx_dropout_attrs *a = node->attrs;
        if (a->mode != MX_DROPOUT_TRAINING || a->axes.n > 0)
            return NULL;
        f->dropout = node, f->attrs.dropout = a->p;
        node = without_casts(graph, node->in[0]);
    }
    if (!is(node, "softmax"))
        return NULL;
    const mx_softmax_attrs *soft = node->attrs;
    if (soft->use_length || (soft->axis != -1 && soft->axis != 2) ||
        (soft->dtype != MX_DTYPE_NONE && !mx_dtype_is_float(soft->dtype)))
        return NULL;
    f->attrs.scale /= isnan(soft->temperature) ? 1 : soft->temperature;
    node = without_casts(graph, node->in[0]);
    while (is(node, "_mul_scalar") || is(node, "_div_scalar")) {
        const double number = ((const mx_scalar_attrs *)node->attrs)->scalar;
        f->attrs.scale *= is(node, "_mul_scalar") ? number : 1 / number;
        node = without_casts(graph, node->in[0]);
    }
    return isfinite(f->attrs.scale) ? node : NULL; /* to the operator, NaN is the usual factor */
}

static const mx_shape_t *shape_of(mx_gentry e) { return &e.node->out_shape[e.output]; }
static bool is_known(mx_gentry e)
{
    return e.node && shape_of(e)->ndim == 3 && mx_shape_known(shape_of(e)) &&
           mx_dtype_is_float(e.node->out_type[e.output]);
}

/* Interleaved projections: `last` multiplies the values in `rows`. */
static bool match_interleaved(const mx_graph *graph, const mx_gnode *last, bool self, found *f)
{
    const mx_gnode *scores = scores_of(graph, last->in[1], f);
    const char *product = self ? "_contrib_interleaved_matmul_selfatt_qk" : "_contrib_interleaved_matmul_encdec_qk";
    const int64_t heads = ((const mx_attention_heads_attrs *)last->attrs)->heads;
    if (!is(scores, product) || !same(scores->in[!self], last->in[0]) || !is_known(scores->in[0]) ||
        ((const mx_attention_heads_attrs *)scores->attrs)->heads != heads)
        return false;
    const double columns = (double)shape_of(scores->in[0])->dim[2];
    f->in[0] = scores->in[0], f->in[1] = self ? (mx_gentry){NULL, 0} : last->in[0];
    f->attrs.scale /= sqrt(columns / (double)((self ? 3 : 1) * heads));
    f->attrs.heads = heads, f->attrs.layout = MX_ATTENTION_TNC;
    f->attrs.roles = self ? MX_ATTENTION_INTERLEAVED : MX_ATTENTION_KV_INTERLEAVED;
    return true;
}

/* Products of batches: every matrix is a batch entry of one head. */
static bool match_batches(const mx_graph *graph, const mx_gnode *last, found *f)
{
    const mx_dot_attrs *outer = last->attrs;
    const mx_gnode *scores = outer->transpose_a || outer->transpose_b ? NULL : scores_of(graph, last->in[0], f);
    const mx_dot_attrs *inner = is(scores, "batch_dot") ? scores->attrs : NULL;
    if (!inner || inner->transpose_a || !inner->transpose_b || !is_known(scores->in[0]) || !is_known(scores->in[1]) ||
        !is_known(last->in[1]))
        return false;
    const mx_shape_t *q = shape_of(scores->in[0]), *k = shape_of(scores->in[1]), *v = shape_of(last->in[1]);
    if (!mx_shape_equal(k, v) || q->dim[2] != k->dim[2] || q->dim[0] != k->dim[0] ||
        last->in[1].node->out_type[last->in[1].output] != scores->in[0].node->out_type[scores->in[0].output])
        return false;
    f->in[0] = scores->in[0], f->in[1] = scores->in[1], f->in[2] = last->in[1];
    f->attrs.heads = 1, f->attrs.layout = MX_ATTENTION_NTC, f->attrs.roles = MX_ATTENTION_APART;
    return true;
}

static bool match(const mx_graph *graph, const mx_gnode *node, found *f)
{
    *f = (found){.last = node};
    if (is(node, "batch_dot"))
        return match_batches(graph, node, f);
    const bool self = is(node, "_contrib_interleaved_matmul_selfatt_valatt");
    return (self || is(node, "_contrib_interleaved_matmul_encdec_valatt")) && match_interleaved(graph, node, self, f);
}

/* ---- replacing ------------------------------------------------------------------------------------------------------- */

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

/* The first of them, in order: what comes later may depend on it, and is rebuilt. */
static mx_code fuse_one(const mx_graph *graph, mx_gentry *results, mx_pointers *draws, bool *any)
{
    found f;
    int64_t i = 0;
    *any = false;
    while (i < graph->n && !match(graph, graph->nodes[i], &f))
        i++;
    if (i == graph->n)
        return MX_OK;
    const struct mx_gnode_args args = {.op = MX_OP("_contrib_attention"), .attrs = &f.attrs, .name = f.last->name,
                                       .n_in = f.in[2].node ? 3 : f.in[1].node ? 2 : 1, .in = f.in};
    mx_gnode *made = mx_gnode_make(&args);
    if (!made)
        return mx_error_code();
    for (int64_t k = 0; k < draws->length; k++) /* also if it was rebuilt since it was traced */
        if (f.dropout && is(draws->items[k], "Dropout") &&
            !strcmp(((mx_gnode *)draws->items[k])->name, f.dropout->name)) {
            mx_release(draws->items[k]);
            draws->items[k] = draws->items[--draws->length];
            break;
        }
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
