/* gluon compile: a network as one C file.  SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

static int run(const cli_args *args)
{
    cli_model model;
    const char *names[CLI_MOST], *output = cli_option_of(args, "--output"), *name = cli_option_of(args, "--name");
    mx_dims shapes[CLI_MOST];
    if (!output)
        return cli_usage(args, "-o FILE.c is missing");
    if (!cli_model_load(&model, args, args->values[0]))
        return CLI_FAILED;
    struct mx_known known = cli_model_known(&model, names, shapes);
    return mx_compile_to_c(model.symbol, model.params, &known, output, name ? name : "net") ? CLI_FAILED : CLI_OK;
}

static const cli_option options[] = {
    {"--output", "FILE.c", "the file to write (also -o)"},
    {"--name", "NAME", "the function is called NAME_run; default net"},
    CLI_MODEL_OPTIONS,
    {NULL, NULL, NULL},
};

const cli_command cli_compile = {
    "compile",
    "MODEL -o FILE.c [--name net] [--shape 1,3,224,224]",
    "Writes the network as one C99 file without dependencies.\n"
    "It contains the weights, the kernels and  int net_run(const float *in, float *out);  and builds with\n"
    "cc -O2 FILE.c -lm.  Shapes are fixed when it is written.",
    1,
    1,
    options,
    run};
