/* A model's graph with its shapes.  SPDX-License-Identifier: Apache-2.0 */
#include "graph.h"

#include <string.h>

#include "base/alloc.h"
#include "graph/infer.h"
#include "graph/symbol.h"

static bool is_listed(const char *name, int count, const char *const *names)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

/* Sizes that are 0 are not known. */
static mx_shape_t shape_of(const mx_dims *dims)
{
    mx_shape_t shape = mx_shape_of_dims(dims);
    for (int i = 0; i < shape.ndim; i++)
        shape.dim[i] = shape.dim[i] ? shape.dim[i] : -1;
    return shape;
}

/* Variables get the shapes of the parameters and of --shape. */
static void start_shapes(cli_graph *g, const cli_model *model)
{
    for (int64_t i = 0; i < g->graph.n; i++) {
        const mx_gnode *node = g->graph.nodes[i];
        char name[512];
        g->data[i] = node->op || is_listed(node->name, model->n_inputs, model->inputs) ||
                     is_listed(node->name, model->n_labels, model->labels);
        for (int k = 0; !node->op && k < model->n_inputs; k++)
            if (model->shapes[k].n >= 0 && !strcmp(node->name, model->inputs[k]))
                g->shape[g->graph.row[i]] = shape_of(&model->shapes[k]);
        for (int k = 0; !g->data[i] && model->params && k < 2; k++) {
            snprintf(name, sizeof name, "%s:%s", k ? "aux" : "arg", node->name);
            mx_array *value = mx_array_dict_get(model->params, name);
            if (value)
                g->shape[g->graph.row[i]] = mx_array_shape(value);
        }
    }
}

bool cli_graph_make(cli_graph *g, const cli_model *model)
{
    *g = (cli_graph){0};
    if (mx_graph_of(&g->graph, model->symbol->n, model->symbol->outputs))
        return false;
    const size_t entries = (size_t)g->graph.row[g->graph.n];
    g->shape = mx_alloc(entries * sizeof *g->shape);
    g->type = mx_alloc(entries * sizeof *g->type);
    g->data = mx_alloc_zero((size_t)g->graph.n);
    if (!g->shape || !g->type || !g->data)
        return cli_graph_free(g), false;
    mx_graph_infer_start(&g->graph, g->shape, g->type);
    start_shapes(g, model);
    if (mx_graph_infer(&g->graph, g->shape, g->type))
        return cli_graph_free(g), false;
    return true;
}

void cli_graph_free(cli_graph *g)
{
    const size_t entries = g->graph.row ? (size_t)g->graph.row[g->graph.n] : 0;
    mx_free(g->shape, entries * sizeof *g->shape);
    mx_free(g->type, entries * sizeof *g->type);
    mx_free(g->data, (size_t)g->graph.n);
    mx_graph_free(&g->graph);
}
