/* Finding attention that a program writes as several operators: from the last product backwards to the first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "pass/attention_match.h"

#include <math.h>

#include "pass/attention_hidden.h"

typedef mx_attention_found found;

static bool same(mx_gentry a, mx_gentry b) { return a.node == b.node && a.output == b.output; }
static const mx_shape_t *shape_of(mx_gentry e) { return &e.node->out_shape[e.output]; }

/* How often output 0 of a node is used, also as a result; not where its shape alone matters. */
static int64_t uses(const mx_graph *graph, const mx_gnode *node)
{
    int64_t n = 0;
    for (int64_t i = 0; i < graph->n; i++)
        for (int k = 0; k < graph->nodes[i]->n_in && !mx_gnode_is(graph->nodes[i], "ones_like"); k++)
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
static bool is_cast(const mx_gnode *node) { return mx_gnode_is(node, "amp_cast") || mx_gnode_is(node, "Cast"); }

/* Steps over casts between floating types, which mixed precision inserts around softmax, and over other shapes. */
static const mx_gnode *plain(const mx_graph *graph, mx_gentry e)
{
    const mx_gnode *node = only(graph, e);
    while ((is_cast(node) || mx_gnode_is(node, "Reshape")) && is_float(node) && node->in[0].node &&
           mx_dtype_is_float(node->in[0].node->out_type[node->in[0].output]))
        node = only(graph, node->in[0]);
    return node;
}

static mx_gentry without_casts(mx_gentry e)
{
    while (is_cast(e.node))
        e = e.node->in[0];
    return e;
}

/* Each step goes from a node towards the scores and keeps in *f what it passes; NULL: that cannot be in the operator. */
static const mx_gnode *behind_dropout(const mx_graph *graph, const mx_gnode *node, found *f)
{
    if (!mx_gnode_is(node, "Dropout"))
        return node;
    const mx_dropout_attrs *a = node->attrs;
    f->dropout = node, f->attrs.dropout = a->p;
    return a->mode == MX_DROPOUT_TRAINING && a->axes.n <= 0 ? plain(graph, node->in[0]) : NULL;
}

static const mx_gnode *behind_factors(const mx_graph *graph, const mx_gnode *node, found *f)
{
    while (mx_gnode_is(node, "_mul_scalar") || mx_gnode_is(node, "_div_scalar")) {
        const double number = ((const mx_scalar_attrs *)node->attrs)->scalar;
        f->attrs.scale *= mx_gnode_is(node, "_mul_scalar") ? number : 1 / number;
        node = plain(graph, node->in[0]);
    }
    return node;
}

/* softmax * mask */
static const mx_gnode *behind_mask(const mx_graph *graph, const mx_gnode *node, found *f)
{
    if (!mx_gnode_is(node, "elemwise_mul") && !mx_gnode_is(node, "broadcast_mul"))
        return node;
    const bool second = !mx_gnode_is(plain(graph, node->in[0]), "softmax");
    f->mask = without_casts(node->in[!second]);
    return mx_shape_equal(shape_of(f->mask), &node->out_shape[0]) && mx_attention_zero_or_one(f->mask)
               ? plain(graph, node->in[second])
               : NULL;
}

/* Scores that no exponential survives. */
static bool is_floor(mx_gentry e, double scale)
{
    const mx_gnode *node = without_casts(e).node;
    return mx_gnode_is(node, "_mul_scalar") && mx_gnode_is(node->in[0].node, "ones_like") &&
           scale * ((const mx_scalar_attrs *)node->attrs)->scalar <= -1e4;
}

/* where(mask, scores, floor), with the mask that the weights are multiplied by: without it, a query that sees no key would
 * see all. */
static const mx_gnode *behind_where(const mx_graph *graph, const mx_gnode *node, found *f)
{
    if (!f->mask.node)
        return node;
    return mx_gnode_is(node, "where") && same(without_casts(node->in[0]), f->mask) &&
                   is_floor(node->in[2], f->attrs.scale)
               ? behind_factors(graph, plain(graph, node->in[1]), f)
               : NULL;
}

static const mx_gnode *behind_softmax(const mx_graph *graph, const mx_gnode *node, found *f)
{
    const mx_softmax_attrs *a = mx_gnode_is(node, "softmax") ? node->attrs : NULL;
    if (!a || (a->axis != -1 && a->axis != node->out_shape[0].ndim - 1) ||
        (a->dtype != MX_DTYPE_NONE && !mx_dtype_is_float(a->dtype)))
        return NULL;
    f->lengths = a->use_length ? without_casts(node->in[1]) : (mx_gentry){NULL, 0};
    f->attrs.scale = isnan(a->temperature) ? 1 : 1 / a->temperature;
    return behind_where(graph, behind_factors(graph, plain(graph, node->in[0]), f), f);
}

static int64_t last_size(const mx_shape_t *s) { return s->ndim > 0 ? s->dim[s->ndim - 1] : -1; }

/* The scores behind weights, whose node is returned; what is between goes into *f.  NULL: something else */
static const mx_gnode *scores_of(const mx_graph *graph, mx_gentry weights, found *f)
{
    const mx_gnode *softmax = behind_mask(graph, behind_dropout(graph, plain(graph, weights), f), f);
    const mx_gnode *node = behind_softmax(graph, softmax, f);
    if (!node || !isfinite(f->attrs.scale)) /* to the operator, NaN is the usual factor */
        return NULL;
    return mx_shape_equal(&node->out_shape[0], shape_of(weights)) && /* other shapes between do not matter */
                   last_size(&softmax->out_shape[0]) == last_size(&node->out_shape[0])
               ? node
               : NULL;
}

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
    if (!mx_gnode_is(scores, product) || !same(scores->in[!self], last->in[0]) || !is_known(scores->in[0]) ||
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
    const mx_dot_attrs *inner = mx_gnode_is(scores, "batch_dot") ? scores->attrs : NULL;
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

int64_t mx_attention_batch(const mx_attention_found *f)
{
    return shape_of(f->in[0])->dim[f->attrs.layout == MX_ATTENTION_TNC];
}

bool mx_attention_match(const mx_graph *graph, const mx_gnode *node, mx_attention_found *f)
{
    *f = (found){.last = node};
    const bool self = mx_gnode_is(node, "_contrib_interleaved_matmul_selfatt_valatt");
    const bool other = mx_gnode_is(node, "_contrib_interleaved_matmul_encdec_valatt");
    if (!(mx_gnode_is(node, "batch_dot") ? match_batches(graph, node, f)
                                         : (self || other) && match_interleaved(graph, node, self, f)))
        return false;
    f->attrs.use_mask = f->mask.node, f->attrs.use_length = f->lengths.node;
    return !f->attrs.use_length || mx_attention_constant_parts(f->lengths, mx_attention_batch(f));
}
