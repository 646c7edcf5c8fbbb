/* gluon plot: a drawing of a model.
 *
 * DOT and SVG are written directly; png and pdf by the program dot, into a temporary file that is renamed to the target
 * when it is complete.
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
#include "graph/dot.h"

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
    return status == 127 ? mx_error_set(MX_ERR_UNSUPPORTED,
                                        "%s: %s needs the program dot (Debian package graphviz); without it write "
                                        "an .svg or .dot file",
                                        path, format)
                         : mx_error_set(MX_ERR_FILE, "%s: dot could not write the file", path);
}

static int run(const cli_args *args)
{
    cli_model model;
    cli_graph g;
    const char *path = cli_option_of(args, "--output"), *dot = path ? strrchr(path, '.') : NULL;
    if (!path)
        return cli_usage(args, "-o FILE.svg, FILE.png or FILE.dot is missing");
    if (!dot || (strcmp(dot, ".dot") && strcmp(dot, ".svg") && strcmp(dot, ".png") && strcmp(dot, ".pdf")))
        return cli_usage(args, "%s: expected a name that ends in .dot, .svg, .png or .pdf", path);
    if (!cli_model_load(&model, args, args->values[0]) || !cli_graph_make(&g, &model))
        return CLI_FAILED;
    mx_text text = {0};
    for (int64_t i = 0; i < g.graph.n; i++)
        g.data[i] = !g.data[i]; /* names from here on are hidden */
    const mx_dot how = {.shape = g.shape, .hidden = cli_option_of(args, "--weights") ? NULL : g.data};
    const bool svg = !strcmp(dot, ".svg");
    mx_code code = svg ? mx_graph_svg(&text, &g.graph, &how) : MX_OK;
    if (!svg)
        mx_graph_dot(&text, &g.graph, &how);
    if (!code && text.failed)
        code = MX_ERR_MEMORY;
    if (!code)
        code = !svg && strcmp(dot, ".dot")                            ? render(&text, path, dot + 1)
               : mx_file_write(path, text.data, (int64_t)text.length) ? MX_OK
                                                                      : mx_error_code();
    mx_text_free(&text);
    cli_graph_free(&g);
    return code ? CLI_FAILED : CLI_OK;
}

static const cli_option options[] = {
    {"--output", "FILE", "the file to write (also -o): .dot, or .svg, .png, .pdf if dot is installed"},
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
