/* Graphs of event files: a symbol as a GraphDef message, which TensorBoard draws.
 *
 *     node of ours       NodeDef: name, operator, inputs "name" or "name:output", attributes as texts, shapes of the outputs
 *     variable           NodeDef of the operator "Variable", or "Constant" if it has a value
 *
 * TensorBoard folds nodes by the slashes in their names.  Ours have underscores, and what a block or layer adds to the names
 * inside it ends with a number, so an underscore after a digit is written as a slash: resnet0/stage1/conv0/weight.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "base/alloc.h"
#include "base/dict.h"
#include "base/error.h"
#include "gluon/summary/events.h"
#include "graph/infer.h"
#include "graph/symbol.h"
#include "op/schema.h"

typedef struct drawing {
    mx_graph graph;
    mx_shape_t *shape; /* (entries) as far as known */
    char **name;       /* (nodes) owned: names in the file, all different */
    mx_dict used;      /* number of nodes that want a name */
} drawing;

/* ---- names ------------------------------------------------------------------------------------------------------- */

static char *path_of(drawing *d, const char *name)
{
    mx_text text = {0};
    for (const char *p = name; *p; p++)
        if (*p == '_' && p > name && p[1] && isdigit((unsigned char)p[-1]))
            mx_text_add_char(&text, '/');
        else /* a colon separates outputs, a circumflex marks dependencies */
            mx_text_add_char(&text, *p == ':' || *p == '^' ? '.' : *p);
    mx_text_add(&text, *name ? "" : "node");
    const int64_t before = text.failed ? -1 : mx_dict_count(&d->used, mx_text_get(&text));
    if (before > 0)
        mx_text_print(&text, "-%lld", (long long)before);
    text.failed |= before < 0;
    char *path = text.failed ? NULL : mx_text_take(&text);
    mx_text_free(&text);
    return path;
}

static mx_code find_names(drawing *d)
{
    for (int64_t i = 0; i < d->graph.n; i++)
        if (!(d->name[i] = path_of(d, d->graph.nodes[i]->name)))
            return mx_error_code();
    return MX_OK;
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

static mx_code find_shapes(drawing *d, const mx_symbol *symbol, const struct mx_known *inputs)
{
    struct mx_known known = inputs ? *inputs : (struct mx_known){0};
    known.partial = true;
    const mx_symbol *all = mx_symbol_internals(symbol);
    const mx_inferred *found = all ? mx_symbol_infer(all, &known) : NULL;
    if (!found)
        return mx_error_code();
    for (int64_t k = 0; k < d->graph.row[d->graph.n]; k++)
        d->shape[k] = MX_UNKNOWN_SHAPE;
    for (int64_t k = 0, i = 0; k < all->n; k++) {
        while (i < d->graph.n && d->graph.nodes[i] != all->outputs[k].node)
            i++; /* internals are in the order of the graph */
        if (i < d->graph.n)
            d->shape[d->graph.row[i] + all->outputs[k].output] = mx_shape_of_dims(&found->outputs[k]);
    }
    return MX_OK;
}

/* TensorShapeProto; an unknown size is -1. */
static void put_shape(mx_text *list, const mx_shape_t *shape)
{
    mx_text text = {0}, size = {0};
    if (shape->ndim < 0)
        mx_proto_put_int(&text, 3, 1);
    for (int i = 0; i < shape->ndim; i++) {
        mx_proto_put_int(&size, 1, shape->dim[i] > 0 ? shape->dim[i] : -1);
        mx_proto_put_message(&text, 2, &size);
    }
    mx_proto_put_message(list, 7, &text);
    mx_text_free(&text);
    mx_text_free(&size);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

/* An entry of the map NodeDef.attr; the AttrValue is emptied. */
static void put_attr(mx_text *node, const char *name, mx_text *value)
{
    mx_text entry = {0};
    mx_proto_put_text(&entry, 1, name);
    mx_proto_put_message(&entry, 2, value);
    mx_proto_put_message(node, 5, &entry);
    mx_text_free(&entry);
}

static void put_shapes(mx_text *node, const drawing *d, int64_t i)
{
    mx_text list = {0}, value = {0};
    for (int k = 0; k < d->graph.nodes[i]->n_visible; k++)
        put_shape(&list, &d->shape[d->graph.row[i] + k]);
    mx_proto_put_message(&value, 1, &list);
    put_attr(node, "_output_shapes", &value);
    mx_text_free(&list);
    mx_text_free(&value);
}

/* The attributes that the caller gave. */
static void put_given(mx_text *node, const mx_gnode *from)
{
    const mx_schema *schema = from->op ? from->op->schema : NULL;
    mx_text value = {0};
    char buffer[MX_VALUE_TEXT];
    for (int i = 0; schema && i < schema->count && i < 64; i++)
        if ((from->given >> i & 1) && schema->fields[i].type != MX_FIELD_PTR) {
            mx_proto_put_text(&value, 2, mx_field_text(&schema->fields[i], from->attrs, buffer));
            put_attr(node, schema->fields[i].name, &value);
        }
    mx_text_free(&value);
}

static void put_inputs(mx_text *node, const drawing *d, int64_t i)
{
    mx_text input = {0};
    for (int64_t k = d->graph.in_row[i]; k < d->graph.in_row[i + 1]; k++) {
        const int64_t entry = d->graph.in_entry[k];
        if (entry < 0)
            continue;
        const int64_t from = mx_graph_node_of(&d->graph, entry), output = entry - d->graph.row[from];
        mx_text_add(&input, d->name[from]);
        if (output)
            mx_text_print(&input, ":%lld", (long long)output);
        mx_proto_put_message(node, 3, &input);
    }
    mx_text_free(&input);
}

static void put_nodes(mx_text *graph, const drawing *d)
{
    mx_text node = {0};
    for (int64_t i = 0; i < d->graph.n; i++) {
        const mx_gnode *from = d->graph.nodes[i];
        mx_proto_put_text(&node, 1, d->name[i]);
        mx_proto_put_text(&node, 2, from->op ? from->op->name : from->value ? "Constant" : "Variable");
        put_inputs(&node, d, i);
        put_given(&node, from);
        put_shapes(&node, d, i);
        mx_proto_put_message(graph, 1, &node);
    }
    mx_proto_put_int(&node, 1, 22); /* VersionDef.producer: a version that knows these fields */
    mx_proto_put_message(graph, 4, &node);
    mx_text_free(&node);
}

static mx_code put_graph(mx_summary_writer *writer, const drawing *d)
{
    mx_text graph = {0}, event = {0};
    put_nodes(&graph, d);
    mx_proto_put_double(&event, 1, mx_event_now());
    mx_proto_put_message(&event, 4, &graph);
    const mx_code code = mx_event_put(writer, &event);
    mx_text_free(&graph);
    mx_text_free(&event);
    return code;
}

static void free_drawing(drawing *d, size_t entries)
{
    for (int64_t i = 0; d->name && i < d->graph.n; i++)
        mx_strfree(d->name[i]);
    mx_free(d->name, (size_t)d->graph.n * sizeof *d->name);
    mx_free(d->shape, entries * sizeof *d->shape);
    mx_dict_free(&d->used);
    mx_graph_free(&d->graph);
}

mx_code mx_summary_graph(mx_summary_writer *writer, const mx_symbol *symbol, const struct mx_known *inputs)
{
    drawing d = {0};
    if (!mx_summary_ok(writer, "graph", "mx_summary_graph") || !mx_symbol_ok(symbol, "mx_summary_graph") ||
        mx_graph_of(&d.graph, symbol->n, symbol->outputs))
        return mx_error_code();
    const size_t entries = (size_t)d.graph.row[d.graph.n];
    mx_scope scope = mx_scope_open();
    d.shape = mx_alloc(entries * sizeof *d.shape);
    d.name = mx_alloc_zero((size_t)d.graph.n * sizeof *d.name);
    mx_code code = d.shape && d.name ? find_names(&d) : MX_ERR_MEMORY;
    if (!code)
        code = find_shapes(&d, symbol, inputs);
    if (!code)
        code = put_graph(writer, &d);
    free_drawing(&d, entries);
    mx_scope_close(&scope);
    return code;
}
