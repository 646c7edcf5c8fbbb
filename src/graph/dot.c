/* The DOT writer, used by mx_symbol_dot, mx.viz.plot_network and `gluon plot`; graph/svg.c draws the same boxes itself.
 *
 *     node -> a box: its operator's colour (mx_op.look), the attributes that matter (mx_op.shows), its name
 *     input -> an arrow with the value's shape; the arrows of first inputs are drawn straightest
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "graph/dot.h"

#include <string.h>

#include "op/schema.h"

static const char *const colours[MX_LOOKS] = {
    [MX_LOOK_OTHER] = "#ececec",   [MX_LOOK_WEIGHTS] = "#fbc4bd", [MX_LOOK_NORM] = "#dedcec", [MX_LOOK_ACTIVATION] = "#ffffd0",
    [MX_LOOK_POOLING] = "#c5dcec", [MX_LOOK_SHAPE] = "#fde2c4",   [MX_LOOK_SUM] = "#d9efbb",  [MX_LOOK_SOFTMAX] = "#fbe3ef",
};
#define VARIABLE_COLOUR "#d3efea"

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Inside of quotes. */
static void add_escaped(mx_text *text, const char *more)
{
    for (; *more; more++) {
        if (*more == '"' || *more == '\\' || *more == '\n')
            mx_text_add_char(text, '\\');
        mx_text_add_char(text, *more == '\n' ? 'n' : *more);
    }
}

static void add_quoted(mx_text *text, const char *more)
{
    mx_text_add_char(text, '"');
    add_escaped(text, more);
    mx_text_add_char(text, '"');
}

/* An attribute as text; "": the operator has none of this name, or it is not set. */
static const char *attribute(const mx_gnode *node, const char *name, char buffer[MX_VALUE_TEXT])
{
    const mx_field *field = node->op->schema ? mx_schema_find(node->op->schema, name) : NULL;
    if (!field)
        return "";
    mx_field_text(field, node->attrs, buffer);
    return strcmp(buffer, "None") && strcmp(buffer, "()") ? buffer : "";
}

/* "3x3" of "(3, 3)"; other values as they are */
static void add_value(mx_text *text, const char *value)
{
    for (const char *p = value; *p; p++)
        if (*p == ',')
            mx_text_add(text, p[1] && p[1] != ')' ? "x" : "");
        else if (!strchr("() ", *p))
            mx_text_add_char(text, *p);
}

/* ---- labels of boxes --------------------------------------------------------------------------------------------- */

/* "3x3/2x2": a window and, unless it moves by single steps, its stride; one attribute if there is no second name */
static void add_pair(mx_text *text, const mx_gnode *node, const char *first, const char *second)
{
    char value[MX_VALUE_TEXT];
    add_value(text, attribute(node, first, value));
    const char *step = *second ? attribute(node, second, value) : "";
    if (!strpbrk(step, "023456789"))
        return;
    mx_text_add_char(text, '/');
    add_value(text, step);
}

/* The attributes of op->shows: "kernel/stride, num_filter" -> "3x3/2x2, 64". */
static void add_shown(mx_text *text, const mx_gnode *node)
{
    char value[MX_VALUE_TEXT], word[64];
    if (*attribute(node, "global_pool", value) == 'T') {
        mx_text_print(text, "global %s", attribute(node, "pool_type", value));
        return;
    }
    for (const char *p = node->op->shows; *p; p += strspn(p, ", ")) {
        const size_t length = strcspn(p, ",");
        if (length >= sizeof word)
            return;
        memcpy(word, p, length);
        word[length] = 0;
        char *second = strchr(word, '/');
        if (second)
            *second++ = 0;
        mx_text_add(text, p == node->op->shows ? "" : ", ");
        add_pair(text, node, word, second ? second : "");
        p += length;
    }
}

/* The operator without the underscores that hide it: "_plus_scalar" -> "plus_scalar". */
static void add_operator(mx_text *text, const mx_op *op) { mx_text_add(text, op->name + strspn(op->name, "_")); }

/* In an upward drawing: two short lines. */
static void add_short_label(mx_text *text, const mx_gnode *node)
{
    if (node->op->shows) {
        add_operator(text, node->op);
        mx_text_add_char(text, '\n');
        add_shown(text, node);
        return;
    }
    mx_text_add(text, node->op->name);
    if (node->op->look == MX_LOOK_NORM || node->op->look == MX_LOOK_SHAPE)
        return;
    mx_text_print(text, "\n%s", node->name);
}

void mx_graph_label(mx_text *text, const mx_gnode *node, bool brief)
{
    if (node->op && brief) {
        add_short_label(text, node);
        return;
    }
    if (node->op) {
        add_operator(text, node->op);
        if (node->op->shows) {
            mx_text_add_char(text, ' ');
            add_shown(text, node);
        }
        mx_text_add_char(text, '\n');
    }
    mx_text_add(text, node->name);
}

const char *mx_graph_colour(const mx_gnode *node) { return node->op ? colours[node->op->look] : VARIABLE_COLOUR; }

/* ---- boxes and arrows -------------------------------------------------------------------------------------------- */

/* Upward drawings name boxes after the nodes, so that users can refer to them. */
static void add_id(mx_text *text, const mx_dot *how, const mx_graph *graph, int64_t i)
{
    if (how->upward)
        add_quoted(text, graph->nodes[i]->name);
    else
        mx_text_print(text, "n%lld", (long long)i);
}

static void draw_box(mx_text *text, const mx_graph *graph, const mx_dot *how, int64_t i)
{
    const mx_gnode *node = graph->nodes[i];
    mx_text_add_char(text, '\t');
    add_id(text, how, graph, i);
    mx_text_add(text, " [label=\"");
    mx_text label = {0};
    mx_graph_label(&label, node, how->upward);
    add_escaped(text, label.failed ? "" : mx_text_get(&label));
    mx_text_free(&label);
    mx_text_print(text, "\" fillcolor=\"%s\"%s]\n", mx_graph_colour(node),
                  node->op ? "" : " shape=\"oval\" style=\"filled\"");
}

/* "3x8x8" of (1, 3, 8, 8), or all of it */
static void add_shape(mx_text *text, const mx_shape_t *shape, bool without_batch)
{
    char buffer[MX_SHAPE_TEXT];
    if (!mx_shape_known(shape))
        return;
    if (!without_batch)
        mx_text_add(text, mx_shape_text(shape, buffer));
    else if (shape->ndim == 1)
        mx_text_print(text, "%lld", (long long)shape->dim[0]);
    for (int k = 1; without_batch && k < shape->ndim; k++)
        mx_text_print(text, "%s%lld", k > 1 ? "x" : "", (long long)shape->dim[k]);
}

/* An arrow's attributes: the value's shape, and how straight it should be. */
static void end_arrow(mx_text *text, const mx_dot *how, int64_t entry, bool straight)
{
    mx_text_add(text, how->upward ? " [label=\"" : " [label=\" ");
    add_shape(text, &how->shape[entry], how->upward);
    mx_text_print(text, "\"%s weight=\"%d\"]\n", how->upward ? " dir=\"back\" arrowtail=\"open\"" : "",
                  straight ? 8 : 1);
}

static void draw_arrows(mx_text *text, const mx_graph *graph, const mx_dot *how, int64_t i)
{
    for (int64_t k = graph->in_row[i]; k < graph->in_row[i + 1]; k++) {
        const int64_t entry = graph->in_entry[k], from = entry < 0 ? -1 : mx_graph_node_of(graph, entry);
        if (from < 0 || (how->hidden && how->hidden[from]))
            continue;
        mx_text_add_char(text, '\t');
        add_id(text, how, graph, how->upward ? i : from);
        mx_text_add(text, " -> ");
        add_id(text, how, graph, how->upward ? from : i);
        end_arrow(text, how, entry, k == graph->in_row[i]);
    }
}

static void draw_results(mx_text *text, const mx_graph *graph, const mx_dot *how)
{
    for (int64_t h = 0; h < graph->n_results; h++) {
        mx_text_print(text, "\tout%lld [shape=\"plaintext\" style=\"\" width=\"0\" height=\"0\" label=\"output\"]\n",
                      (long long)h);
        mx_text_print(text, "\tn%lld -> out%lld", (long long)mx_graph_node_of(graph, graph->results[h]), (long long)h);
        end_arrow(text, how, graph->results[h], true);
    }
}

void mx_graph_dot(mx_text *text, const mx_graph *graph, const mx_dot *how)
{
    mx_text_add(text, "digraph ");
    if (how->title) {
        add_quoted(text, how->title);
        mx_text_add_char(text, ' ');
    }
    mx_text_print(text,
                  "{\n\tgraph [ranksep=\"0.35\" nodesep=\"0.4\"]\n"
                  "\tnode [shape=\"box\" width=\"1.3\" height=\"0.6\" style=\"rounded,filled\" color=\"#888888\""
                  " fontname=\"Helvetica\" fontsize=\"12\"%s%s]\n"
                  "\tedge [color=\"#555555\" arrowsize=\"0.7\" fontname=\"Helvetica\" fontsize=\"10\""
                  " fontcolor=\"#444444\"]\n",
                  how->boxes && *how->boxes ? " " : "", how->boxes ? how->boxes : "");
    for (int64_t i = 0; i < graph->n; i++)
        if (!how->hidden || !how->hidden[i])
            draw_box(text, graph, how, i);
    for (int64_t i = 0; i < graph->n; i++)
        if (!how->hidden || !how->hidden[i])
            draw_arrows(text, graph, how, i);
    if (!how->upward)
        draw_results(text, graph, how);
    mx_text_add(text, "}\n");
}
