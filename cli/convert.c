/* gluon convert: files of named arrays, and models, from one format to another.  SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define FORMATS ".params, .safetensors, .npz or .npy"

/* By its suffix, or by its contents. */
static bool is_arrays(const char *path)
{
    const bool arrays = mx_save_format(path) || mx_load_format(path) || cli_ends_with(path, ".h5");
    mx_error_clear(); /* no such file: the name of a model */
    return arrays;
}

static mx_code save_all(const mx_array_dict *dict, const char *path)
{
    const int64_t count = mx_array_dict_count(dict);
    const bool named = count && mx_array_dict_name(dict, 0) && strcmp(mx_save_format(path), "npy");
    mx_array **arrays = calloc((size_t)count + 1, sizeof *arrays);
    const char **names = calloc((size_t)count + 1, sizeof *names);
    mx_code code = arrays && names ? MX_OK : mx_error_set(MX_ERR_MEMORY, "out of memory: %lld names", (long long)count);
    for (int64_t i = 0; !code && i < count; i++) {
        arrays[i] = mx_array_dict_at(dict, i);
        names[i] = mx_array_dict_name(dict, i);
    }
    code = code ? code : mx_save(path, (mx_arrays){arrays, count}, named ? names : NULL);
    free(arrays);
    free(names);
    return code;
}

static mx_code convert_arrays(const char *from, const char *to)
{
    const mx_array_dict *dict = mx_load(from);
    if (!dict || save_all(dict, to))
        return mx_error_code();
    printf("%s: %lld arrays\n", to, (long long)mx_array_dict_count(dict));
    return MX_OK;
}

/* "net.onnx" has a suffix, "net-v1.5" has none: a version is part of a prefix. */
static const char *suffix_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    return dot && isalpha((unsigned char)dot[1]) ? dot : NULL;
}

/* ---- ONNX ------------------------------------------------------------------------------------------------------ */

static mx_code convert_to_onnx(const cli_args *args, const char *from, const char *to)
{
    cli_model model;
    const char *names[CLI_MOST];
    mx_dims shapes[CLI_MOST];
    if (!cli_model_load(&model, args, from))
        return mx_error_code();
    if (model.network)
        return mx_error_set(MX_ERR_FILE, "%s: a network of the zoo has no parameters; export it first", from);
    const struct mx_known known = cli_model_known(&model, names, shapes);
    if (mx_export_onnx(model.symbol, model.params, to, .inputs = known.count ? &known : NULL))
        return mx_error_code();
    printf("%s: opset 17\n", to);
    return MX_OK;
}

static bool is_state(const mx_symbol *symbol, const char *name)
{
    const mx_names states = mx_symbol_auxiliary(symbol);
    for (int64_t i = 0; i < states.n; i++)
        if (!strcmp(states.v[i], name))
            return true;
    return false;
}

/* The values of a graph's variables as a file. */
static mx_code save_values(const mx_symbol *symbol, const char *path)
{
    const mx_names names = mx_symbol_inputs(symbol);
    mx_array **arrays = calloc((size_t)names.n + 1, sizeof *arrays);
    char(*keys)[512] = calloc((size_t)names.n + 1, sizeof *keys);
    const char **list = calloc((size_t)names.n + 1, sizeof *list);
    int64_t n = 0;
    for (int64_t i = 0; arrays && keys && list && i < names.n; i++) {
        if (!(arrays[n] = mx_symbol_constant(symbol, names.v[i])))
            continue;
        snprintf(keys[n], sizeof *keys, "%s:%.500s", is_state(symbol, names.v[i]) ? "aux" : "arg", names.v[i]);
        list[n] = keys[n];
        n++;
    }
    const mx_code code = arrays && keys && list ? mx_save(path, (mx_arrays){arrays, n}, list)
                                                : mx_error_set(MX_ERR_MEMORY, "out of memory");
    if (!code)
        printf("%s: %lld arrays\n", path, (long long)n);
    free(arrays), free(keys), free(list);
    return code;
}

static mx_code convert_from_onnx(const char *from, const char *to)
{
    char target[4200];
    const mx_onnx_model *model = mx_load_onnx(from, NULL);
    if (!model)
        return mx_error_code();
    if (mx_save_format(to))
        return save_values(model->symbol, to);
    if (cli_ends_with(to, ".json"))
        return mx_symbol_save(model->symbol, to);
    snprintf(target, sizeof target, "%.4000s-0000.params", to);
    if (save_values(model->symbol, target))
        return mx_error_code();
    snprintf(target, sizeof target, "%.4000s-symbol.json", to);
    return mx_symbol_save(model->symbol, target);
}

/* Copies a model to another name: the graph is upgraded, the parameters get the format of the suffix. */
static mx_code convert_model(const char *from, const char *to)
{
    char symbol[4096], params[4096], target[4200];
    if (!cli_model_paths(from, symbol, params))
        return mx_error_code();
    if (mx_save_format(to))
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

/* ---- PyTorch and Keras ----------------------------------------------------------------------------------------- */

static bool is_keras(const char *path)
{
    const char *format = mx_load_format(path);
    const bool keras = (format && !strcmp(format, "hdf5")) || cli_ends_with(path, ".keras");
    mx_error_clear(); /* no such file: reading it says so */
    return keras;
}

/* A state_dict, or weights of Keras, as the parameters of a network of the zoo. */
static int convert_to_network(const cli_args *args, const char *network)
{
    const char *from = args->values[0], *given = cli_option_of(args, "--output");
    const char *to = given ? given : args->count > 1 ? args->values[1] : NULL;
    if (!to || (given && args->count > 1))
        return cli_usage(args, "--to %s: expected one name for the result, as OUT or with -o", network);
    if (!mx_save_format(to))
        return cli_usage(args, "%s: expected a name that ends in " FORMATS, to);
    mx_block *net = is_keras(from) ? mx_model_from_keras(network, from) : mx_model_from_torch(network, from);
    if (!net || mx_save_parameters(net, to))
        return CLI_FAILED;
    printf("%s: %lld parameters of %s\n", to, (long long)mx_params_count(mx_collect_params(net)), network);
    return CLI_OK;
}

static int run(const cli_args *args)
{
    const char *network = cli_option_of(args, "--to");
    if (network)
        return convert_to_network(args, network);
    if (args->count < 2)
        return cli_usage(args, "usage: gluon convert %s", args->command->usage);
    const char *from = args->values[0], *to = args->values[1], *suffix = suffix_of(to);
    const bool onnx = cli_ends_with(from, ".onnx"), arrays = !onnx && is_arrays(from);
    if (arrays && !mx_save_format(to))
        return cli_usage(args, "%s: expected a name that ends in " FORMATS, to);
    if (suffix && !strcmp(suffix, ".onnx") && !onnx)
        return convert_to_onnx(args, from, to) ? CLI_FAILED : CLI_OK;
    if (suffix && !mx_save_format(to) && strcmp(suffix, ".json"))
        return cli_usage(args,
                         "%s: %s files cannot be written; expected a name that ends in " FORMATS
                         " (the parameters), .json (the graph) or .onnx (both), or a prefix without a suffix (both)",
                         to, suffix);
    return (onnx     ? convert_from_onnx(from, to)
            : arrays ? convert_arrays(from, to)
                     : convert_model(from, to))
               ? CLI_FAILED
               : CLI_OK;
}

static const cli_option options[] = {{"--to", "NETWORK", "IN is a PyTorch state_dict or a file of Keras: its arrays become the parameters of this network of the zoo"},
                                     {"--output", "FILE", "OUT, after --to"},
                                     CLI_MODEL_OPTIONS,
                                     {NULL, NULL, NULL}};

const cli_command cli_convert = {
    "convert",
    "IN OUT",
    "Converts between .params, .safetensors, .npz and .npy files: IN is recognised by its contents, OUT gets the\n"
    "format of its suffix.  IN may be an HDF5 or .keras file, too.\n"
    "IN may be a model: then OUT gets its newest parameters, or, as .json or a prefix, its upgraded graph\n"
    "(and its parameters), or, as .onnx, both for other runtimes; --shape sets open shapes of inputs.\n"
    "IN may be an ONNX file: its graph and its parameters.\n"
    "With --to, IN is a PyTorch state_dict (.safetensors): gluon convert resnet50.safetensors --to resnet50_v1b -o net.params\n"
    "writes the parameters of that network; ResNet (v1b), VGG, DenseNet, MobileNet 2 and 3, GPT-2 and BERT are known.\n"
    "Or IN has weights of keras.applications (.weights.h5, .h5, .keras): ResNet (v1), VGG, DenseNet, MobileNet 1 to 3.",
    1,
    2,
    options,
    run};
