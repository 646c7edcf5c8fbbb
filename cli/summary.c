/* gluon summary: a table of the nodes of a model.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli.h"
#include "graph.h"

/* Number of elements of the weights that this node is the first to read; `counted` (nodes) marks those already counted. */
static int64_t parameters_of(const cli_graph *g, int64_t i, bool *counted)
{
    int64_t sum = 0;
    for (int64_t k = g->graph.in_row[i]; k < g->graph.in_row[i + 1]; k++) {
        const int64_t entry = g->graph.in_entry[k], from = entry < 0 ? -1 : mx_graph_node_of(&g->graph, entry);
        if (from < 0 || g->data[from] || counted[from] || !mx_shape_known(&g->shape[entry]))
            continue;
        counted[from] = true;
        sum += mx_shape_size(&g->shape[entry]);
    }
    return sum;
}

static void print_row(const cli_graph *g, int64_t i, bool *counted, int64_t *total)
{
    const mx_gnode *node = g->graph.nodes[i];
    char shape[MX_SHAPE_TEXT], label[160], inputs[128] = "";
    const int64_t parameters = parameters_of(g, i, counted);
    *total += parameters;
    for (int64_t k = g->graph.in_row[i]; k < g->graph.in_row[i + 1]; k++) {
        const int64_t entry = g->graph.in_entry[k], from = entry < 0 ? -1 : mx_graph_node_of(&g->graph, entry);
        if (from >= 0 && g->data[from])
            snprintf(inputs + strlen(inputs), sizeof inputs - strlen(inputs), "%s%s", *inputs ? ", " : "",
                     g->graph.nodes[from]->name);
    }
    snprintf(label, sizeof label, "%s (%s)", node->name, node->op ? node->op->name : "input");
    printf("%-40s %-22s %12lld  %s\n", label, mx_shape_text(&g->shape[g->graph.row[i]], shape), (long long)parameters,
           inputs);
}

static int run(const cli_args *args)
{
    cli_model model;
    cli_graph g;
    enum { MOST = 1 << 20 };
    static bool counted[MOST];
    int64_t total = 0;
    if (!cli_model_load(&model, args, args->values[0]) || !cli_graph_make(&g, &model))
        return CLI_FAILED;
    if (g.graph.n > MOST)
        return cli_graph_free(&g), mx_error_set(MX_ERR_UNSUPPORTED, "the model has more than %d nodes", MOST),
               CLI_FAILED;
    printf("%-40s %-22s %12s  %s\n", "layer (operator)", "output shape", "parameters", "inputs");
    for (int64_t i = 0; i < g.graph.n; i++)
        if (g.data[i])
            print_row(&g, i, counted, &total);
    printf("total parameters: %lld\n", (long long)total);
    cli_graph_free(&g);
    return CLI_OK;
}

static const cli_option options[] = {CLI_MODEL_OPTIONS, {NULL, NULL, NULL}};

const cli_command cli_summary = {"summary",
                                 "MODEL [--shape 1,3,224,224]",
                                 "Prints a table of the nodes with their shapes and numbers of parameters.",
                                 1,
                                 1,
                                 options,
                                 run};
