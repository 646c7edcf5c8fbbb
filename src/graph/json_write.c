/* Symbols as JSON that classic MXNet reads.
 *
 *     {"nodes": [{"op": "null", "name": "data", "inputs": []}, ...], "arg_nodes": [...], "node_row_ptr": [...],
 *      "heads": [[id, output, version]], "attrs": {"mxnet_version": ["int", 10901]}}
 *
 * Nodes are in post-order.  The version of an edge counts the writers of its variable so far, including the reader
 * if it writes.  Casts inserted by automatic mixed precision are omitted unless requested.  A node
 * that owns subgraphs has them, written in the same way, under "subgraphs".
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "graph/attrs.h"
#include "graph/subgraph.h"
#include "graph/symbol.h"

#define FORMAT_VERSION 10901 /* 1.9.1: the version of the format below */

typedef struct writing {
    const mx_graph *graph;
    mx_text *out;
    int64_t *number;  /* (n) id in the file; -1: omitted */
    int64_t *written; /* (n) writers of a variable so far */
    int64_t count;    /* nodes in the file */
    int depth;        /* of the subgraph; 0: the symbol itself */
    bool casts;       /* those of mixed precision are written, too */
} writing;

static bool write_graph(const mx_graph *graph, mx_text *out, int depth, bool casts);

/* Starts a line indented by `columns` spaces. */
static void indent(const writing *w, int columns)
{
    mx_text_print(w->out, "\n%*s", columns + 8 * (w->depth < 16 ? w->depth : 16), "");
}

/* ---- nodes of the file ----------------------------------------------------------------------------------------- */

static bool left_out(const writing *w, const mx_gnode *node)
{
    return !w->casts && node->op && (!strcmp(node->op->name, "amp_cast") || !strcmp(node->op->name, "amp_multicast"));
}

/* The entry itself, or the one before the omitted casts. */
static int64_t behind_casts(const writing *w, int64_t entry)
{
    const mx_graph *g = w->graph;
    for (;;) {
        const int64_t i = mx_graph_node_of(g, entry), output = entry - g->row[i];
        if (!left_out(w, g->nodes[i]) || output >= g->nodes[i]->n_in || g->in_entry[g->in_row[i] + output] < 0)
            return entry;
        entry = g->in_entry[g->in_row[i] + output];
    }
}

/* Our operators that have another name in classic files. */
static const char *file_name(const mx_op *op)
{
    static const char *const names[][2] = {{"_reshape_to", "Reshape"}, {"_broadcast_to", "broadcast_to"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(op->name, names[i][0]))
            return names[i][1];
    return op->name;
}

/* ---- pieces ---------------------------------------------------------------------------------------------------- */

static bool write_attrs(const writing *w, const mx_gnode *node)
{
    mx_attr_list attrs = {0};
    bool ok = mx_node_attrs(node, &attrs);
    if (ok && attrs.length)
        indent(w, 6), mx_text_add(w->out, "\"attrs\": {");
    for (int64_t i = 0; ok && i < attrs.length; i++) {
        mx_text_add(w->out, i ? ", " : "");
        if (attrs.length > 1)
            indent(w, 8);
        mx_json_write_text(w->out, attrs.items[i].key);
        mx_text_add(w->out, ": ");
        mx_json_write_text(w->out, attrs.items[i].text);
    }
    if (ok && attrs.length > 1)
        indent(w, 6);
    if (ok && attrs.length)
        mx_text_add(w->out, "}, ");
    mx_node_attrs_free(&attrs);
    return ok;
}

static void write_inputs(writing *w, int64_t i)
{
    const mx_graph *g = w->graph;
    const mx_gnode *node = g->nodes[i];
    bool first = true;
    indent(w, 6);
    mx_text_add(w->out, "\"inputs\": [");
    for (int k = 0; k < node->n_in; k++) {
        const int64_t entry = g->in_entry[g->in_row[i] + k];
        if (entry < 0)
            continue;
        const int64_t real = behind_casts(w, entry), from = mx_graph_node_of(g, real);
        if (mx_gnode_mutates(node, k) && !g->nodes[from]->op)
            w->written[from]++;
        mx_text_print(w->out, "%s[%lld, %lld, %lld]", first ? "" : ", ", (long long)w->number[from],
                      (long long)(real - g->row[from]), (long long)w->written[from]);
        first = false;
    }
    mx_text_add(w->out, "]");
}

static bool write_subgraphs(const writing *w, const mx_gnode *node)
{
    const mx_control *control = node->op ? mx_control_of(node->op, node->attrs) : NULL;
    if (!control)
        return true;
    mx_text_add(w->out, ", ");
    indent(w, 6);
    mx_text_add(w->out, "\"subgraphs\": [");
    for (int i = 0; i < control->n_parts; i++) {
        mx_text_add(w->out, i ? ", " : "");
        indent(w, 8);
        if (!write_graph(&control->parts[i].graph, w->out, w->depth + 1, w->casts))
            return false;
    }
    indent(w, 6);
    mx_text_add(w->out, "]");
    return true;
}

static bool write_node(writing *w, int64_t i)
{
    const mx_gnode *node = w->graph->nodes[i];
    mx_text_add(w->out, w->count ? ", " : "");
    indent(w, 4);
    mx_text_add(w->out, "{");
    indent(w, 6);
    mx_text_add(w->out, "\"op\": ");
    mx_json_write_text(w->out, node->op ? file_name(node->op) : "null");
    mx_text_add(w->out, ", ");
    indent(w, 6);
    mx_text_add(w->out, "\"name\": ");
    mx_json_write_text(w->out, node->name);
    mx_text_add(w->out, ", ");
    if (!write_attrs(w, node))
        return false;
    write_inputs(w, i);
    if (!write_subgraphs(w, node))
        return false;
    indent(w, 4);
    mx_text_add(w->out, "}");
    return true;
}

static bool write_nodes(writing *w)
{
    mx_text_add(w->out, "{");
    indent(w, 2);
    mx_text_add(w->out, "\"nodes\": [");
    for (int64_t i = 0; i < w->graph->n; i++) {
        w->number[i] = left_out(w, w->graph->nodes[i]) ? -1 : w->count;
        if (w->number[i] < 0)
            continue;
        if (!write_node(w, i))
            return false;
        w->count++;
    }
    indent(w, 2);
    mx_text_add(w->out, "], ");
    return true;
}

/* How many outputs a node has in classic MXNet: files count hidden ones, too.  The record of a call is an output only
 * here. */
static int outputs_in_file(const mx_gnode *node)
{
    char value[MX_VALUE_TEXT] = "";
    if (!node->op)
        return node->n_out;
    if (mx_op_calls(node->op))
        return node->n_visible;
    if (!strcmp(node->op->name, "RNN")) /* what training saves is not an output there */
        return node->n_out - 1;
    if (!strcmp(node->op->name, "SpatialTransformer"))
        return 3;
    if (!strcmp(node->op->name, "LeakyReLU")) { /* a mask, if slopes are drawn */
        mx_field_text(mx_schema_find(node->op->schema, "act_type"), node->attrs, value);
        return strcmp(value, "rrelu") ? 1 : 2;
    }
    return node->n_out;
}

static void write_lists(writing *w)
{
    const mx_graph *g = w->graph;
    int64_t outputs = 0;
    bool first = true;
    indent(w, 2);
    mx_text_add(w->out, "\"arg_nodes\": [");
    for (int64_t i = 0; i < g->n; i++)
        if (!g->nodes[i]->op) {
            mx_text_print(w->out, "%s%lld", first ? "" : ", ", (long long)w->number[i]);
            first = false;
        }
    mx_text_add(w->out, "], ");
    indent(w, 2);
    mx_text_add(w->out, "\"node_row_ptr\": [0");
    for (int64_t i = 0; i < g->n; i++)
        if (w->number[i] >= 0) {
            outputs += outputs_in_file(g->nodes[i]);
            mx_text_print(w->out, ", %lld", (long long)outputs);
        }
    mx_text_add(w->out, "], ");
    indent(w, 2);
    mx_text_add(w->out, "\"heads\": [");
}

static void write_results(writing *w)
{
    const mx_graph *g = w->graph;
    for (int64_t i = 0; i < g->n_results; i++) {
        const int64_t real = behind_casts(w, g->results[i]), from = mx_graph_node_of(g, real);
        mx_text_print(w->out, "%s[%lld, %lld, %lld]", i ? ", " : "", (long long)w->number[from],
                      (long long)(real - g->row[from]), (long long)w->written[from]);
    }
    mx_text_add(w->out, "]");
    if (!w->depth)
        mx_text_print(w->out, ", \n  \"attrs\": {%s\"mxnet_version\": [\"int\", %d]}",
                      mx_is_np_shape() ? "\"is_np_shape\": [\"int\", 1], " : "", FORMAT_VERSION);
    indent(w, 0);
    mx_text_add(w->out, "}");
}

/* ---- the document ---------------------------------------------------------------------------------------------- */

static bool write_graph(const mx_graph *graph, mx_text *out, int depth, bool casts)
{
    const size_t bytes = 2 * (size_t)graph->n * sizeof(int64_t);
    int64_t *memory = mx_alloc_zero(bytes);
    writing w = {graph, out, memory, memory + graph->n, 0, depth, casts};
    bool ok = memory && write_nodes(&w);
    if (ok) {
        write_lists(&w);
        write_results(&w);
    }
    mx_free(memory, bytes);
    return ok;
}

static bool write_symbol(const mx_symbol *symbol, mx_text *out, bool casts)
{
    mx_graph graph = {0};
    if (mx_graph_of(&graph, symbol->n, symbol->outputs))
        return false;
    bool ok = write_graph(&graph, out, 0, casts);
    mx_graph_free(&graph);
    return ok && !out->failed;
}

static const char *json_of(const mx_symbol *symbol, bool casts)
{
    mx_text text = {0};
    if (mx_symbol_ok(symbol, "mx_symbol_json") && write_symbol(symbol, &text, casts))
        return mx_text_to_scope(&text);
    mx_text_free(&text);
    return NULL;
}
const char *mx_symbol_json(const mx_symbol *symbol) { return json_of(symbol, false); }
const char *mx_symbol_json_with_casts(const mx_symbol *symbol) { return json_of(symbol, true); }

mx_code mx_symbol_save(const mx_symbol *symbol, const char *path)
{
    mx_text text = {0};
    if (!path)
        return mx_fail(MX_ERR_ARGUMENT, "mx_symbol_save: path is NULL");
    bool ok = mx_symbol_ok(symbol, "mx_symbol_save") && write_symbol(symbol, &text, false) &&
              mx_file_write(path, mx_text_get(&text), (int64_t)text.length);
    mx_text_free(&text);
    return ok ? MX_OK : mx_error_code();
}
