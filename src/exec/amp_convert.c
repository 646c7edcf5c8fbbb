/* Graphs in mixed precision (see gluon/amp.h): a copy of a graph with casts before the operators that need them.
 *
 *     data   weight                 data        weight
 *        \   /                        |            |
 *     FullyConnected       -->    amp_cast     amp_cast           data_amp_cast_float16, weight_amp_cast_float16
 *          |                           \        /
 *       softmax                     FullyConnected
 *                                         |
 *                                     amp_cast --> softmax        fc_amp_cast_float32
 *
 * Casts at run time (amp.c) depend on the types of arrays, which a graph need not have.  So every node is marked *low*
 * (its results have 16 bits) or not: variables are not.  amp_cast passes integers unchanged, so labels and indices may
 * be inputs of it.
 *
 * Invariant: every entry of the old graph has one entry in the new one, and at most one cast per type.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/given.h"
#include "base/vec.h"
#include "exec/amp.h"
#include "gluon/op.gen.h"
#include "graph/symbol.h"
#include "ndarray/dtype.h"

typedef struct mx_amp_convert_args options;

typedef struct conversion {
    const options *options;
    mx_graph graph;                /* the old one */
    uint8_t *rules;                /* (n_rules) mx_precision by operator number */
    int n_rules;                   /* operators */
    MX_VEC(mx_amp_row) conditions; /* under which an operator without a rule needs float32 */
    mx_gentry *now;                /* (entries) in the new graph; nodes retained */
    mx_gnode **cast;               /* (2 * entries) its cast to the target, to float32; retained; NULL: none yet */
    bool *low;                     /* (nodes) the results have 16 bits */
    bool *excluded;                /* (nodes) stays in float32 whatever its rule */
    mx_gentry *in;                 /* (most inputs) of the node being created; not retained */
} conversion;

/* ---- rules ----------------------------------------------------------------------------------------------------- */

/* Sets the rule of the named operators; `stays`: operators with this rule are left unchanged. */
static mx_code set_rules(conversion *c, const char *const *names, mx_precision precision, int stays)
{
    for (; names && *names; names++) {
        const mx_op *op = mx_op_find(*names);
        if (!op)
            return mx_error_code();
        if (c->rules[op->id] != stays)
            c->rules[op->id] = (uint8_t)precision;
    }
    return MX_OK;
}

static mx_code add_conditions(conversion *c)
{
    mx_amp_row row;
    for (const mx_amp_row *own = c->options->conditions; own && own->op; own++)
        if (!mx_vec_push(&c->conditions, *own))
            return MX_ERR_MEMORY;
    for (int i = 0; !c->options->conditions && mx_amp_row_at(i, &row); i++)
        if (row.attribute && !mx_vec_push(&c->conditions, row))
            return MX_ERR_MEMORY;
    return MX_OK;
}

/* The caller's lists replace the library's list of that kind; an operator in both computes in 16 bits. */
static mx_code make_rules(conversion *c)
{
    mx_amp_row row;
    while (mx_op_at(c->n_rules))
        c->n_rules++;
    if (!(c->rules = mx_alloc_zero((size_t)c->n_rules)))
        return MX_ERR_MEMORY;
    for (int i = 0; mx_amp_row_at(i, &row); i++) {
        const bool replaced = (row.precision == MX_PRECISION_TARGET && c->options->target_ops) ||
                              (row.precision == MX_PRECISION_FLOAT32 && c->options->float32_ops);
        const mx_op *op = mx_op_find(row.op);
        if (!op)
            return mx_error_code();
        if (!row.attribute && !replaced)
            c->rules[op->id] = (uint8_t)row.precision;
    }
    if (add_conditions(c) || set_rules(c, c->options->float32_ops, MX_PRECISION_FLOAT32, MX_PRECISION_TARGET))
        return mx_error_code();
    return set_rules(c, c->options->target_ops, MX_PRECISION_TARGET, -1);
}

static bool holds(const mx_amp_row *row, const mx_gnode *node)
{
    char text[MX_VALUE_TEXT];
    if (mx_op_find(row->op) != node->op)
        return false;
    const mx_field *field = node->op->schema ? mx_schema_find(node->op->schema, row->attribute) : NULL;
    return field && !strcmp(mx_field_text(field, node->attrs ? node->attrs : node->op->defaults, text), row->value);
}

/* Whether the node has an attribute value that needs float32. */
static bool conditional(const conversion *c, const mx_gnode *node)
{
    for (int64_t i = 0; i < c->conditions.length; i++)
        if (holds(&c->conditions.items[i], node))
            return true;
    return false;
}

static mx_precision rule_of(const conversion *c, int64_t i)
{
    const mx_gnode *node = c->graph.nodes[i];
    const mx_precision rule = (mx_precision)c->rules[node->op->id];
    if (c->excluded[i] || rule == MX_PRECISION_FLOAT32)
        return MX_PRECISION_FLOAT32;
    return rule != MX_PRECISION_TARGET && conditional(c, node) ? MX_PRECISION_FLOAT32 : rule;
}

/* ---- casts ----------------------------------------------------------------------------------------------------- */

static mx_gnode *make_cast(const mx_gentry *source, mx_dtype type)
{
    mx_text name = {0};
    const mx_cast_attrs attrs = {.dtype = type};
    mx_text_print(&name, "%s_", source->node->name);
    if (source->output)
        mx_text_print(&name, "%d_", (int)source->output);
    mx_text_print(&name, "amp_cast_%s", mx_dtype_name(type));
    mx_gnode *made = NULL;
    if (mx_text_get(&name))
        made = mx_gnode_make(&(struct mx_gnode_args){
            .op = MX_OP("amp_cast"), .attrs = &attrs, .name = mx_text_get(&name), .n_in = 1, .in = source});
    mx_text_free(&name);
    return made;
}

/* Input k of node i in float32, or else in 16 bits. */
static mx_code cast_input(conversion *c, int64_t i, int k, bool single)
{
    const int64_t entry = c->graph.in_entry[c->graph.in_row[i] + k];
    if (entry < 0 || mx_gnode_mutates(c->graph.nodes[i], k))
        return MX_OK;
    if (c->low[mx_graph_node_of(&c->graph, entry)] != single)
        return MX_OK;
    mx_gnode **cast = &c->cast[2 * entry + single];
    if (!*cast && !(*cast = make_cast(&c->now[entry], single ? MX_FLOAT32 : c->options->target)))
        return mx_error_code();
    c->in[k] = (mx_gentry){*cast, 0};
    return MX_OK;
}

typedef struct inputs {
    bool any, all, first; /* which of them are low */
} inputs;

static inputs look(const conversion *c, int64_t i)
{
    const int64_t *entries = c->graph.in_entry + c->graph.in_row[i], n = c->graph.in_row[i + 1] - c->graph.in_row[i];
    inputs low = {false, true, false};
    bool some = false;
    for (int64_t k = 0; k < n; k++) {
        if (entries[k] < 0)
            continue;
        const bool one = c->low[mx_graph_node_of(&c->graph, entries[k])];
        low.any |= one, low.all &= one, low.first |= one && !k;
        some = true;
    }
    low.all &= some;
    return low;
}

/* Puts the inputs of node i into c->in, with casts; returns whether its results are low. */
static mx_code place_inputs(conversion *c, int64_t i)
{
    mx_gnode *node = c->graph.nodes[i];
    const mx_precision rule = rule_of(c, i);
    const inputs low = look(c, i);
    const bool target = rule == MX_PRECISION_TARGET, data = rule == MX_PRECISION_DATA,
               mixed = !data && low.any && !low.all; /* without a rule: the wider type */
    for (int k = 0; k < node->n_in; k++) {
        const int64_t entry = c->graph.in_entry[c->graph.in_row[i] + k];
        c->in[k] = entry < 0 ? (mx_gentry){NULL, 0} : c->now[entry];
        const bool single = rule == MX_PRECISION_FLOAT32 || mixed || (data && k);
        if (((target && !mx_amp_keeps(node->op, k)) || single) && cast_input(c, i, k, !target))
            return mx_error_code();
    }
    c->low[i] = target || (rule != MX_PRECISION_FLOAT32 && (data ? low.first : low.all));
    return MX_OK;
}

static mx_code convert_node(conversion *c, int64_t i)
{
    mx_gnode *node = c->graph.nodes[i];
    if (node->op && place_inputs(c, i))
        return mx_error_code();
    mx_gnode *made = mx_gnode_with_inputs(node, c->in);
    if (!made)
        return mx_error_code();
    made->owner = NULL; /* the parameter may be destroyed before the copy */
    for (int k = 0; k < node->n_out; k++)
        c->now[c->graph.row[i] + k] = (mx_gentry){mx_retain(made), (uint32_t)k};
    mx_release(made);
    return MX_OK;
}

/* ---- graphs ---------------------------------------------------------------------------------------------------- */

static int most_inputs(const mx_graph *graph)
{
    int most = 1;
    for (int64_t i = 0; i < graph->n; i++)
        most = graph->nodes[i]->n_in > most ? graph->nodes[i]->n_in : most;
    return most;
}

static mx_symbol *convert(conversion *c)
{
    const int64_t entries = c->graph.row[c->graph.n];
    const size_t in_bytes = (size_t)most_inputs(&c->graph) * sizeof *c->in;
    c->now = mx_alloc_zero((size_t)entries * sizeof *c->now);
    c->cast = mx_alloc_zero(2 * (size_t)entries * sizeof *c->cast);
    c->low = mx_alloc_zero((size_t)c->graph.n);
    c->in = mx_alloc(in_bytes);
    mx_gentry *results = mx_alloc((size_t)c->graph.n_results * sizeof *results);
    mx_code code = c->now && c->cast && c->low && c->in && results ? MX_OK : MX_ERR_MEMORY;
    for (int64_t i = 0; !code && i < c->graph.n; i++)
        code = convert_node(c, i);
    for (int64_t i = 0; !code && i < c->graph.n_results; i++)
        results[i] = c->now[c->graph.results[i]];
    mx_symbol *made = code ? NULL : mx_symbol_new(c->graph.n_results, results);
    for (int64_t e = 0; e < entries && c->now && c->cast; e++)
        mx_release(c->now[e].node), mx_release(c->cast[2 * e]), mx_release(c->cast[2 * e + 1]);
    mx_free(results, (size_t)c->graph.n_results * sizeof *results);
    mx_free(c->in, in_bytes);
    mx_free(c->low, (size_t)c->graph.n);
    mx_free(c->cast, 2 * (size_t)entries * sizeof *c->cast);
    mx_free(c->now, (size_t)entries * sizeof *c->now);
    return made;
}

/* ---- checks ---------------------------------------------------------------------------------------------------- */

static mx_code check_conditions(const mx_amp_row *row)
{
    for (; row && row->op; row++) {
        const mx_op *op = mx_op_find(row->op);
        if (!op)
            return mx_error_code();
        if (!row->attribute || !row->value)
            return mx_fail(MX_ERR_ARGUMENT, "mx_amp_convert: the condition on %s lacks its %s", op->name,
                           row->attribute ? "value" : "attribute");
        if (!op->schema || !mx_schema_find(op->schema, row->attribute))
            return mx_fail(MX_ERR_ARGUMENT, "mx_amp_convert: %s has no attribute %s", op->name, row->attribute);
    }
    return MX_OK;
}

/* Whether `name` names the node or one of its outputs. */
static mx_code names_node(const char *name, mx_gnode *node, bool *same)
{
    *same = !strcmp(name, node->name);
    for (int i = 0; !*same && node->op && i < node->n_visible; i++) {
        mx_text text = {0};
        mx_gentry_name(&(mx_gentry){node, (uint32_t)i}, &text);
        const char *output = mx_text_get(&text);
        *same = output && !strcmp(output, name);
        mx_text_free(&text);
        if (!output)
            return MX_ERR_MEMORY;
    }
    return MX_OK;
}

static mx_code mark_excluded(conversion *c)
{
    if (!(c->excluded = mx_alloc_zero((size_t)c->graph.n)))
        return MX_ERR_MEMORY;
    for (const char *const *name = c->options->excluded; name && *name; name++) {
        bool found = false, same;
        for (int64_t i = 0; i < c->graph.n; i++) {
            if (names_node(*name, c->graph.nodes[i], &same))
                return mx_error_code();
            c->excluded[i] |= same;
            found |= same;
        }
        if (!found)
            return mx_fail(MX_ERR_ARGUMENT, "mx_amp_convert: excluded has '%s', which is not a node of the symbol",
                           *name);
    }
    return MX_OK;
}

mx_symbol *mx_amp_convert_make(const struct mx_amp_convert_args *args)
{
    conversion c = {.options = args};
    if (!mx_given(args, "mx_amp_convert", "args") || !mx_symbol_ok(args->symbol, "mx_amp_convert"))
        return NULL;
    if (args->target != MX_FLOAT16 && args->target != MX_BFLOAT16)
        return mx_fail_null(MX_ERR_DTYPE, "mx_amp_convert: target is %s, wanted float16 or bfloat16",
                            mx_dtype_name(args->target));
    if (mx_graph_of(&c.graph, args->symbol->n, args->symbol->outputs))
        return NULL;
    mx_code code = check_conditions(args->conditions);
    code = code ? code : mark_excluded(&c);
    code = code ? code : make_rules(&c);
    mx_symbol *made = code ? NULL : convert(&c);
    mx_free(c.rules, (size_t)c.n_rules);
    mx_vec_free(&c.conditions);
    mx_free(c.excluded, (size_t)c.graph.n);
    mx_graph_free(&c.graph);
    return mx_scope_add(made);
}

/* ---- variables ------------------------------------------------------------------------------------------------- */

static bool casts_to(const mx_gnode *node, mx_dtype type)
{
    const mx_cast_attrs *attrs = node->attrs;
    return node->op == MX_OP("amp_cast") && attrs && (mx_dtype)attrs->dtype == type;
}

/* Per node of the graph: 0 unused, 1 read only by casts to `target`, 2 read by others as well. */
static void find_readers(const mx_graph *graph, mx_dtype target, uint8_t *readers)
{
    for (int64_t i = 0; i < graph->n; i++)
        for (int64_t k = graph->in_row[i]; k < graph->in_row[i + 1]; k++)
            if (graph->in_entry[k] >= 0)
                readers[mx_graph_node_of(graph, graph->in_entry[k])] |= casts_to(graph->nodes[i], target) ? 1 : 2;
    for (int64_t i = 0; i < graph->n_results; i++)
        readers[mx_graph_node_of(graph, graph->results[i])] |= 2;
}

mx_names mx_amp_cast_variables(const mx_symbol *symbol, mx_dtype target)
{
    mx_graph graph = {0};
    if (!mx_symbol_ok(symbol, "mx_amp_cast_variables") || mx_graph_of(&graph, symbol->n, symbol->outputs))
        return mx_names_failed();
    uint8_t *readers = mx_alloc_zero((size_t)graph.n);
    const char **texts = mx_alloc((size_t)graph.n * sizeof *texts);
    int64_t n = 0;
    if (readers && texts)
        find_readers(&graph, target, readers);
    for (int64_t i = 0; readers && texts && i < graph.n; i++)
        if (!graph.nodes[i]->op && readers[i] == 1)
            texts[n++] = graph.nodes[i]->name;
    const mx_names names = readers && texts ? mx_names_of(n, texts) : mx_names_failed();
    mx_free(readers, (size_t)graph.n);
    mx_free(texts, (size_t)graph.n * sizeof *texts);
    mx_graph_free(&graph);
    return names;
}
