/* gluon plot: a drawing of a model.
 *
 * DOT text is written by itself; svg, png and pdf through the program dot, into a file beside the target that takes the
 * target's name when it is whole.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "cli.h"
#include "graph.h"

/* Colours by kind of operator, as mx.viz has them; the last row is for all others. */
static const struct {
    const char *part, *colour;
} colours[] = {
    {"Convolution", "#fbc4bd"}, {"Deconvolution", "#fbc4bd"}, {"FullyConnected", "#fbc4bd"},
    {"Embedding", "#fbc4bd"},   {"RNN", "#fbc4bd"},           {"Norm", "#dedcec"},
    {"LRN", "#dedcec"},         {"Activation", "#ffffd0"},    {"LeakyReLU", "#ffffd0"},
    {"relu", "#ffffd0"},        {"Pooling", "#c5dcec"},       {"UpSampling", "#c5dcec"},
    {"Concat", "#fde2c4"},      {"Flatten", "#fde2c4"},       {"Reshape", "#fde2c4"},
    {"transpose", "#fde2c4"},   {"_add", "#d9efbb"},          {"add_n", "#d9efbb"},
    {"_plus", "#d9efbb"},       {"oftmax", "#fbe3ef"},        {"", "#ececec"},
};

static const char *colour_of(const mx_gnode *node)
{
    size_t i = 0;
    if (!node->op)
        return "#d3efea";
    while (!strstr(node->op->name, colours[i].part))
        i++;
    return colours[i].colour;
}

static void add_quoted(mx_text *text, const char *more)
{
    for (; *more; more++) {
        if (*more == '"' || *more == '\\')
            mx_text_add_char(text, '\\');
        mx_text_add_char(text, *more == '\n' ? ' ' : *more);
    }
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

/* "3x3" of "(3, 3)" */
static void add_numbers(mx_text *text, const char *numbers)
{
    for (const char *p = numbers; *p; p++)
        if (*p == ',')
            mx_text_add_char(text, p[1] ? 'x' : ' ');
        else if (!strchr("() ", *p))
            mx_text_add_char(text, *p);
}

/* "3x3/2x2": the window and, unless it moves by single steps, its stride */
static void add_window(mx_text *text, const mx_gnode *node)
{
    char kernel[MX_VALUE_TEXT], stride[MX_VALUE_TEXT];
    const char *step = attribute(node, "stride", stride);
    add_numbers(text, attribute(node, "kernel", kernel));
    if (strpbrk(step, "23456789")) {
        mx_text_add_char(text, '/');
        add_numbers(text, step);
    }
}

/* What matters most about a node: "Convolution 3x3/2x2, 64", "max pooling 2x2", "relu", "Dropout 0.5" ... */
static void add_title(mx_text *text, const mx_gnode *node)
{
    const char *op = node->op ? node->op->name : "input";
    char value[MX_VALUE_TEXT];
    if (!node->op || strcmp(op, "Activation"))
        add_quoted(text, op[0] == '_' ? op + 1 : op);
    if (!node->op)
        return;
    if (!strcmp(op, "Convolution") || !strcmp(op, "Deconvolution")) {
        mx_text_add_char(text, ' ');
        add_window(text, node);
        mx_text_print(text, ", %s", attribute(node, "num_filter", value));
    } else if (!strcmp(op, "Pooling")) {
        const bool global = *attribute(node, "global_pool", value) == 'T';
        mx_text_print(text, " %s ", attribute(node, "pool_type", value));
        if (global)
            mx_text_add(text, "of all");
        else
            add_window(text, node);
    } else if (!strcmp(op, "FullyConnected"))
        mx_text_print(text, " %s", attribute(node, "num_hidden", value));
    else if (!strcmp(op, "Activation"))
        mx_text_add(text, attribute(node, "act_type", value));
    else if (!strcmp(op, "LeakyReLU"))
        mx_text_print(text, " %s", attribute(node, "act_type", value));
    else if (!strcmp(op, "Dropout"))
        mx_text_print(text, " %s", attribute(node, "p", value));
    else if (!strcmp(op, "RNN"))
        mx_text_print(text, " %s", attribute(node, "mode", value));
}

static void draw_node(mx_text *text, const mx_graph *graph, int64_t i)
{
    const mx_gnode *node = graph->nodes[i];
    mx_text_print(text, "    n%lld [fillcolor=\"%s\"%s, label=\"", (long long)i, colour_of(node),
                  node->op ? "" : ", shape=oval");
    if (node->op) {
        add_title(text, node);
        mx_text_add(text, "\\n");
    }
    add_quoted(text, node->name);
    mx_text_add(text, "\"];\n");
}

static void add_shape(mx_text *text, const cli_graph *g, int64_t entry)
{
    char shape[MX_SHAPE_TEXT];
    mx_text_print(text, " [label=\" %s\"",
                  mx_shape_known(&g->shape[entry]) ? mx_shape_text(&g->shape[entry], shape) : "");
}

/* The first inputs of nodes make the straight lines of the drawing. */
static void draw(mx_text *text, const cli_graph *g, bool weights)
{
    const mx_graph *graph = &g->graph;
    mx_text_add(text, "digraph {\n    ranksep=0.35;\n    nodesep=0.4;\n"
                      "    node [shape=box, style=\"rounded,filled\", color=\"#888888\", fontname=\"Helvetica\", "
                      "fontsize=12, width=1.9, height=0.45, margin=\"0.12,0.05\"];\n"
                      "    edge [color=\"#555555\", arrowsize=0.6, fontname=\"Helvetica\", fontsize=10, "
                      "fontcolor=\"#444444\"];\n");
    for (int64_t i = 0; i < graph->n; i++) {
        if (!g->data[i] && !weights)
            continue;
        draw_node(text, graph, i);
        for (int64_t k = graph->in_row[i]; k < graph->in_row[i + 1]; k++) {
            const int64_t entry = graph->in_entry[k], from = entry < 0 ? -1 : mx_graph_node_of(graph, entry);
            if (from < 0 || (!g->data[from] && !weights))
                continue;
            mx_text_print(text, "    n%lld -> n%lld", (long long)from, (long long)i);
            add_shape(text, g, entry);
            mx_text_print(text, ", weight=%d];\n", k == graph->in_row[i] ? 8 : 1);
        }
    }
    for (int64_t h = 0; h < graph->n_heads; h++) {
        mx_text_print(
            text,
            "    out%lld [shape=plaintext, style=\"\", width=0, height=0, label=\"output\"];\n    n%lld -> out%lld",
            (long long)h, (long long)mx_graph_node_of(graph, graph->heads[h]), (long long)h);
        add_shape(text, g, graph->heads[h]);
        mx_text_add(text, ", weight=8];\n");
    }
    mx_text_add(text, "}\n");
}

/* Runs  dot -Tformat -o output input ; its exit status, -1: it could not be started. */
static int run_dot(const char *format, const char *input, const char *output)
{
    char flag[16];
    snprintf(flag, sizeof flag, "-T%s", format);
    const pid_t child = fork();
    if (child == 0) {
        execlp("dot", "dot", flag, "-o", output, input, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

static mx_code render(const mx_text *text, const char *path, const char *format)
{
    char source[4200], target[4200];
    snprintf(source, sizeof source, "%s.%ld.dot", path, (long)getpid());
    snprintf(target, sizeof target, "%s.%ld.tmp", path, (long)getpid());
    if (!mx_file_write(source, text->data, (int64_t)text->length))
        return mx_error_code();
    const int status = run_dot(format, source, target);
    unlink(source);
    if (status == 0 && rename(target, path) == 0)
        return MX_OK;
    unlink(target);
    return status == 127
               ? mx_error_set(MX_ERR_UNSUPPORTED,
                              "%s: drawing %s needs the program dot (Debian package graphviz); without it write "
                              "a .dot file",
                              path, format)
               : mx_error_set(MX_ERR_FILE, "%s: dot could not write it", path);
}

static int run(const cli_args *args)
{
    cli_model model;
    cli_graph g;
    const char *path = cli_option_of(args, "--output"), *dot = path ? strrchr(path, '.') : NULL;
    if (!path)
        return cli_usage(args, "-o FILE.svg, FILE.png or FILE.dot is missing");
    if (!dot || (strcmp(dot, ".dot") && strcmp(dot, ".svg") && strcmp(dot, ".png") && strcmp(dot, ".pdf")))
        return cli_usage(args, "%s: wanted a name that ends in .dot, .svg, .png or .pdf", path);
    if (!cli_model_load(&model, args, args->values[0]) || !cli_graph_make(&g, &model))
        return CLI_FAILED;
    mx_text text = {0};
    draw(&text, &g, cli_option_of(args, "--weights") != NULL);
    mx_code code = text.failed ? MX_ERR_MEMORY : MX_OK;
    if (!code)
        code = strcmp(dot, ".dot")                                    ? render(&text, path, dot + 1)
               : mx_file_write(path, text.data, (int64_t)text.length) ? MX_OK
                                                                      : mx_error_code();
    mx_text_free(&text);
    cli_graph_free(&g);
    return code ? CLI_FAILED : CLI_OK;
}

static const cli_option options[] = {
    {"--output", "FILE", "the file to write (also -o): .dot, or .svg, .png, .pdf where dot is installed"},
    {"--weights", NULL, "draw the weights, too"},
    CLI_MODEL_OPTIONS,
    {NULL, NULL, NULL},
};

const cli_command cli_plot = {"plot",
                              "MODEL -o net.svg [--shape 1,3,224,224]",
                              "Draws the network: operators as boxes, shapes on the edges.",
                              1,
                              1,
                              options,
                              run};
