/* Drawings of symbols: which shapes are shown and which variables are left out.  graph/dot.c and graph/svg.c draw.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "graph/dot.h"
#include "graph/infer.h"
#include "graph/symbol.h"

/* Shapes of all visible outputs, as far as they follow from what is known. */
static mx_code find_shapes(const mx_symbol *symbol, const mx_graph *graph, const struct mx_known *known,
                           mx_shape_t *shape)
{
    const mx_symbol *all = mx_symbol_internals(symbol);
    const mx_inferred *found = all ? mx_symbol_infer(all, known) : NULL;
    if (!found)
        return mx_error_code();
    if (!found->complete)
        return mx_fail(MX_ERR_SHAPE, "mx_symbol_draw: the shapes of the graph do not follow from those given");
    for (int64_t k = 0, i = 0; k < all->n; k++) {
        while (i < graph->n && graph->nodes[i] != all->outputs[k].node)
            i++; /* internals are in the order of the graph */
        if (i < graph->n)
            shape[graph->row[i] + all->outputs[k].output] = mx_shape_of_dims(&found->outputs[k]);
    }
    return MX_OK;
}

/* What the nodes inferred at their creation. */
static void take_own_shapes(const mx_graph *graph, mx_shape_t *shape)
{
    for (int64_t i = 0; i < graph->n; i++)
        for (int k = 0; k < graph->nodes[i]->n_out; k++)
            shape[graph->row[i] + k] = graph->nodes[i]->out_shape[k];
}

static void hide(const mx_graph *graph, const struct mx_symbol_drawing *drawing, bool *hidden)
{
    for (int64_t i = 0; i < graph->n; i++)
        for (int k = 0; drawing->hidden && k < drawing->n_hidden; k++)
            hidden[i] |=
                drawing->hidden[k] && !graph->nodes[i]->op && !strcmp(graph->nodes[i]->name, drawing->hidden[k]);
}

/* Inputs that belong to a layer are not worth a box: states, and variables named after the input, "conv0_weight". */
static void hide_parameters(const mx_graph *graph, bool *hidden)
{
    char name[64];
    for (int64_t i = 0; i < graph->n; i++)
        for (int64_t k = graph->in_row[i] + 1; k < graph->in_row[i + 1]; k++) {
            const int input = (int)(k - graph->in_row[i]);
            const int64_t from = graph->in_entry[k] < 0 ? -1 : mx_graph_node_of(graph, graph->in_entry[k]);
            if (from < 0 || graph->nodes[from]->op)
                continue;
            const char *given = graph->nodes[from]->name, *wanted = mx_op_input_name(graph->nodes[i]->op, input, name);
            const size_t length = strlen(given), tail = wanted ? strlen(wanted) : 0;
            hidden[from] |=
                mx_gnode_mutates(graph->nodes[i], input) ||
                (tail && length > tail && given[length - tail - 1] == '_' && !strcmp(given + length - tail, wanted));
        }
}

typedef enum kind { DOT, PLOT, SVG } kind; /* all nodes; those that `drawing` leaves; without parameters */

static mx_code write_drawing(mx_text *text, const mx_graph *graph, const mx_dot *how, kind what)
{
    if (what == SVG)
        return mx_graph_svg(text, graph, how);
    mx_graph_dot(text, graph, how);
    return MX_OK;
}

static const char *draw(const mx_symbol *symbol, const mx_graph *graph, const struct mx_symbol_drawing *drawing,
                        kind what)
{
    const bool clean = !mx_has_error();
    const size_t entries = (size_t)graph->row[graph->n];
    mx_shape_t *shape = mx_alloc(entries * sizeof *shape);
    int *type = mx_alloc(entries * sizeof *type);
    bool *hidden = mx_alloc_zero((size_t)graph->n);
    mx_code code = shape && type && hidden ? MX_OK : MX_ERR_MEMORY;
    mx_text text = {0};
    if (!code) {
        mx_graph_infer_start(graph, shape, type);
        if (what == PLOT)
            hide(graph, drawing, hidden);
        else
            take_own_shapes(graph, shape);
        if (what == SVG)
            hide_parameters(graph, hidden);
    }
    if (!code && drawing && drawing->known)
        code = find_shapes(symbol, graph, drawing->known, shape);
    if (!code)
        code = write_drawing(&text, graph,
                             &(mx_dot){.title = drawing ? drawing->title : NULL,
                                       .boxes = drawing ? drawing->boxes : NULL,
                                       .shape = shape, .hidden = hidden, .upward = what == PLOT},
                             what);
    mx_free(shape, entries * sizeof *shape);
    mx_free(type, entries * sizeof *type);
    mx_free(hidden, (size_t)graph->n);
    if (!code && !text.failed && !(clean && mx_has_error())) /* out of memory for the text of a label */
        return mx_text_to_scope(&text);
    mx_text_free(&text);
    return NULL;
}

static const char *draw_symbol(const mx_symbol *symbol, const struct mx_symbol_drawing *drawing, kind what,
                               const char *function)
{
    mx_graph graph = {0};
    if (!mx_symbol_ok(symbol, function) || mx_graph_of(&graph, symbol->n, symbol->outputs))
        return NULL;
    const char *text = draw(symbol, &graph, drawing, what);
    mx_graph_free(&graph);
    return text;
}

const char *mx_symbol_dot(const mx_symbol *symbol) { return draw_symbol(symbol, NULL, DOT, "mx_symbol_dot"); }
const char *mx_symbol_svg(const mx_symbol *symbol) { return draw_symbol(symbol, NULL, SVG, "mx_symbol_svg"); }

const char *mx_symbol_draw(const mx_symbol *symbol, const struct mx_symbol_drawing *drawing)
{
    static const struct mx_symbol_drawing defaults = {0};
    return draw_symbol(symbol, drawing ? drawing : &defaults, PLOT, "mx_symbol_draw");
}
