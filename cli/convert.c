/* gluon convert: files of named arrays, and models, from one format to another.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const struct format {
    const char *suffix;
    mx_array_dict *(*load)(const char *path);
    mx_code (*save)(const char *path, mx_arrays arrays, const char *const *names);
} formats[] = {
    {".params", mx_load, mx_save},
    {".safetensors", mx_load_safetensors, mx_save_safetensors},
    {".npz", mx_load_npz, mx_save_npz},
};

static const struct format *format_of(const char *path)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (cli_ends_with(path, formats[i].suffix))
            return &formats[i];
    return NULL;
}

static mx_code save_all(const mx_array_dict *dict, const struct format *format, const char *path)
{
    const int64_t count = mx_array_dict_count(dict);
    mx_array **arrays = calloc((size_t)count + 1, sizeof *arrays);
    const char **names = calloc((size_t)count + 1, sizeof *names);
    char(*numbers)[32] = calloc((size_t)count + 1, sizeof *numbers);
    mx_code code =
        arrays && names && numbers ? MX_OK : mx_error_set(MX_ERR_MEMORY, "out of memory: %lld names", (long long)count);
    for (int64_t i = 0; !code && i < count; i++) {
        snprintf(numbers[i], sizeof *numbers, "arr_%lld", (long long)i); /* a list has no names */
        arrays[i] = mx_array_dict_at(dict, i);
        names[i] = mx_array_dict_name(dict, i) ? mx_array_dict_name(dict, i) : numbers[i];
    }
    code = code ? code : format->save(path, (mx_arrays){arrays, count}, names);
    free(arrays);
    free(names);
    free(numbers);
    return code;
}

static mx_code convert_arrays(const char *from, const char *to)
{
    const mx_array_dict *dict = format_of(from)->load(from);
    if (!dict || save_all(dict, format_of(to), to))
        return mx_error_code();
    printf("%s: %lld arrays\n", to, (long long)mx_array_dict_count(dict));
    return MX_OK;
}

/* Copies a model to another name: the graph is upgraded, the parameters get the format of the suffix. */
static mx_code convert_model(const char *from, const char *to)
{
    char symbol[4096], params[4096], target[4200];
    if (!cli_model_paths(from, symbol, params))
        return mx_error_code();
    if (format_of(to))
        return *params ? convert_arrays(params, to)
                       : mx_error_set(MX_ERR_FILE, "there is no parameter file next to %s", symbol);
    const mx_symbol *graph = mx_symbol_load(symbol);
    if (!graph)
        return mx_error_code();
    if (cli_ends_with(to, ".json"))
        return mx_symbol_save(graph, to);
    snprintf(target, sizeof target, "%.4000s-0000.params", to);
    if (*params && convert_arrays(params, target))
        return mx_error_code();
    snprintf(target, sizeof target, "%.4000s-symbol.json", to);
    return mx_symbol_save(graph, target);
}

static int run(const cli_args *args)
{
    const char *from = args->values[0], *to = args->values[1];
    if (format_of(from) && !format_of(to))
        return cli_usage(args, "%s: expected a name that ends in .params, .safetensors or .npz", to);
    return (format_of(from) ? convert_arrays(from, to) : convert_model(from, to)) ? CLI_FAILED : CLI_OK;
}

static const cli_option options[] = {{NULL, NULL, NULL}};

const cli_command cli_convert = {
    "convert",
    "IN OUT",
    "Converts between .params, .safetensors and .npz files, by their suffixes.\n"
    "IN may be a model: then OUT gets its newest parameters, or, as .json or a prefix, its upgraded graph\n"
    "(and its parameters).",
    2,
    2,
    options,
    run};
