/* Finding and loading exported models.  SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "gluon/block/core.h"

/* The number in "NAME-0012.params" for `base` NAME; -1: another file. */
static long epoch_of(const char *file, const char *base)
{
    const size_t length = strlen(base);
    if (strncmp(file, base, length) || file[length] != '-')
        return -1;
    const char *p = file + length + 1;
    long epoch = 0;
    int digits = 0;
    for (; isdigit((unsigned char)*p) && digits < 9; p++, digits++)
        epoch = epoch * 10 + (*p - '0');
    return digits >= 4 && !strcmp(p, ".params") ? epoch : -1;
}

/* Path of the file with the highest number; "" if there is none. */
static void find_newest(const char *prefix, char params[4096])
{
    const char *slash = strrchr(prefix, '/'), *base = slash ? slash + 1 : prefix;
    char folder[4096] = ".";
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", slash == prefix ? 1 : (int)(slash - prefix), prefix);
    DIR *directory = opendir(folder);
    long best = -1;
    params[0] = 0;
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        const long epoch = epoch_of(entry->d_name, base);
        if (epoch > best) {
            best = epoch;
            snprintf(params, 4096, "%.*s%.255s", (int)(base - prefix), prefix, entry->d_name);
        }
    }
    if (directory)
        closedir(directory);
}

bool cli_model_paths(const char *name, char symbol[4096], char params[4096])
{
    char prefix[4000];
    const char *suffix = cli_ends_with(name, "-symbol.json") ? "-symbol.json"
                         : cli_ends_with(name, ".json")      ? ".json"
                                                             : "";
    if (strlen(name) >= sizeof prefix)
        return mx_error_set(MX_ERR_ARGUMENT, "the name of the model is too long"), false;
    snprintf(prefix, sizeof prefix, "%.*s", (int)(strlen(name) - strlen(suffix)), name);
    snprintf(symbol, 4096, "%s%s", prefix, *suffix ? suffix : "-symbol.json");
    if (access(symbol, R_OK)) {
        mx_error_set(MX_ERR_FILE,
                     "%s cannot be read: MODEL '%s' must be a prefix as passed to export, the path of a "
                     "-symbol.json or .onnx, or the name of a network of the zoo",
                     symbol, name);
        return false;
    }
    find_newest(prefix, params);
    return true;
}

/* ---- inputs ---------------------------------------------------------------------------------------------------- */

static bool has_value(const cli_model *model, const char *name)
{
    static const char *const prefixes[] = {"arg:", "aux:", ""};
    char buffer[512];
    for (int i = 0; model->params && i < 3; i++) {
        snprintf(buffer, sizeof buffer, "%s%s", prefixes[i], name);
        if (mx_array_dict_get(model->params, buffer))
            return true;
    }
    return mx_symbol_constant(model->symbol, name) != NULL;
}

static bool find_inputs(cli_model *model)
{
    const mx_names names = mx_symbol_arguments(model->symbol);
    for (int64_t i = 0; i < names.n; i++) {
        const char *name = names.v[i];
        /* Without parameters only the usual names distinguish data from weights. */
        const bool data = model->params ? !has_value(model, name) : !strncmp(name, "data", 4);
        if (!data)
            continue;
        if (model->n_inputs + model->n_labels == CLI_MOST) {
            mx_error_set(MX_ERR_PARAMETER, "%s: more than %d variables have no value in %s; %s is one of them",
                         model->symbol_path, CLI_MOST, model->params_path, name);
            return false;
        }
        if (cli_ends_with(name, "label"))
            model->labels[model->n_labels++] = name;
        else {
            model->types[model->n_inputs] = MX_FLOAT32;
            model->shapes[model->n_inputs] = MX_NO_DIMS;
            model->inputs[model->n_inputs++] = name;
        }
    }
    if (!model->n_inputs)
        mx_error_set(MX_ERR_PARAMETER, "%s: the model has no input: every variable has a value", model->symbol_path);
    return model->n_inputs > 0;
}

/* "--shape 1,3,224,224" or "--shape data=1,3,224,224" */
static bool take_shape(cli_model *model, const char *text, int position)
{
    const char *equals = strchr(text, '=');
    if (!equals && position < model->n_inputs)
        return cli_dims("--shape", text, &model->shapes[position]);
    for (int i = 0; equals && i < model->n_inputs; i++)
        if (!strncmp(model->inputs[i], text, (size_t)(equals - text)) && !model->inputs[i][equals - text])
            return cli_dims("--shape", equals + 1, &model->shapes[i]);
    mx_error_set(MX_ERR_ARGUMENT, "--shape %s: the model has no such input; its first one is '%s'", text,
                 model->inputs[0]);
    return false;
}

/* Shapes that the symbol contains: variables that were traced with a shape. */
static void take_noted_shapes(cli_model *model)
{
    const mx_names names = mx_symbol_arguments(model->symbol);
    const mx_inferred *inferred = mx_symbol_infer(model->symbol, &(struct mx_known){.partial = true});
    for (int64_t k = 0; inferred && k < names.n; k++)
        for (int i = 0; i < model->n_inputs; i++)
            if (!strcmp(names.v[k], model->inputs[i]) && inferred->arguments[k].n >= 0) {
                bool known = true;
                for (int axis = 0; axis < inferred->arguments[k].n; axis++)
                    known &= inferred->arguments[k].d[axis] > 0;
                if (known)
                    model->shapes[i] = inferred->arguments[k];
            }
    if (!inferred)
        mx_error_clear();
}

/* If there is no file of that name, a network of the model zoo: its graph, without parameters. */
static bool take_network(cli_model *model, const char *name)
{
    int i = 0;
    while (mx_model_name(i) && strcmp(mx_model_name(i), name))
        i++;
    if (!mx_model_name(i))
        return false;
    mx_error_clear();
    snprintf(model->symbol_path, sizeof model->symbol_path, "%s", name);
    model->params_path[0] = 0;
    model->network = true;
    model->symbol = mx_trace(mx_model(name, .prefix = ""), mx_variable("data"));
    return model->symbol != NULL;
}

static bool take_shapes(cli_model *model, const cli_args *args)
{
    const char *text;
    for (int i = 0; (text = cli_option_at(args, "--shape", i)); i++)
        if (!take_shape(model, text, i))
            return false;
    return true;
}

/* ---- ONNX files -------------------------------------------------------------------------------------------------- */

static bool take_onnx_inputs(cli_model *model, const mx_onnx_model *file)
{
    if (file->inputs.n > CLI_MOST)
        return mx_error_set(MX_ERR_UNSUPPORTED, "%s: the model has %lld inputs, at most %d are possible",
                            model->symbol_path, (long long)file->inputs.n, CLI_MOST),
               false;
    for (int i = 0; i < (int)file->inputs.n; i++) {
        model->inputs[i] = file->inputs.v[i];
        model->types[i] = file->input_types[i];
        model->shapes[i] = MX_NO_DIMS;
    }
    model->n_inputs = (int)file->inputs.n;
    if (!model->n_inputs)
        mx_error_set(MX_ERR_PARAMETER, "%s: the model has no input", model->symbol_path);
    return model->n_inputs > 0;
}

/* Shapes of the file for inputs that --shape does not set; an open first size, that of the batch, is 1. */
static void take_onnx_shapes(cli_model *model, const mx_onnx_model *file)
{
    for (int i = 0; i < model->n_inputs; i++) {
        mx_dims shape = file->input_shapes[i];
        bool known = model->shapes[i].n < 0 && shape.n >= 0;
        for (int axis = 1; axis < shape.n; axis++)
            known &= shape.d[axis] > 0;
        if (shape.n > 0 && shape.d[0] <= 0)
            shape.d[0] = 1;
        if (known)
            model->shapes[i] = shape;
    }
}

/* The reader gets the shapes of --shape alone: with those it computes what the file computes from sizes. */
static bool take_onnx(cli_model *model, const cli_args *args, const char *path)
{
    const char *names[CLI_MOST];
    mx_dims shapes[CLI_MOST];
    snprintf(model->symbol_path, sizeof model->symbol_path, "%s", path);
    model->onnx = true;
    if (cli_option_of(args, "--params"))
        return mx_error_set(MX_ERR_ARGUMENT, "--params: %s contains its parameters", path), false;
    const mx_onnx_model *file = mx_describe_onnx(path);
    if (!file || !take_onnx_inputs(model, file) || !take_shapes(model, args))
        return false;
    const struct mx_known known = cli_model_known(model, names, shapes);
    if (!(file = mx_load_onnx(path, known.count ? &known : NULL)))
        return false;
    model->symbol = file->symbol;
    take_onnx_shapes(model, file);
    return true;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

bool cli_model_load(cli_model *model, const cli_args *args, const char *name)
{
    *model = (cli_model){0};
    if (cli_ends_with(name, ".onnx"))
        return take_onnx(model, args, name);
    const char *params = cli_option_of(args, "--params");
    const bool found = cli_model_paths(name, model->symbol_path, model->params_path);
    if (!found && !take_network(model, name))
        return false;
    if (params)
        snprintf(model->params_path, sizeof model->params_path, "%s", params);
    if (found && !(model->symbol = mx_symbol_load(model->symbol_path)))
        return false;
    if (model->params_path[0] && !(model->params = mx_load(model->params_path)))
        return false;
    if (!find_inputs(model))
        return false;
    take_noted_shapes(model);
    if (!found) /* the image shape that the zoo's networks are trained on */
        model->shapes[0] = !strcmp(name, "inceptionv3") ? MX_DIMS(1, 3, 299, 299) : MX_DIMS(1, 3, 224, 224);
    return take_shapes(model, args);
}

struct mx_known cli_model_known(const cli_model *model, const char **names, mx_dims *shapes)
{
    struct mx_known known = {.names = names, .shapes = shapes, .partial = true};
    for (int i = 0; i < model->n_inputs; i++)
        if (model->shapes[i].n >= 0) {
            names[known.count] = model->inputs[i];
            shapes[known.count++] = model->shapes[i];
        }
    return known;
}

/* ---- running --------------------------------------------------------------------------------------------------- */

mx_block *cli_model_block(const cli_model *model)
{
    char inputs[4096] = "";
    size_t used = 0;
    if (!model->params_path[0] && !model->onnx) {
        mx_error_set(MX_ERR_FILE, "there is no parameter file next to %s; set one with --params", model->symbol_path);
        return NULL;
    }
    for (int i = 0; i < model->n_inputs + model->n_labels && used < sizeof inputs; i++)
        used += (size_t)snprintf(inputs + used, sizeof inputs - used, "%s ",
                                 i < model->n_inputs ? model->inputs[i] : model->labels[i - model->n_inputs]);
    return model->onnx ? mx_symbol_block_with(model->symbol, inputs, NULL, true)
                       : mx_import(model->symbol_path, inputs, model->params_path);
}

mx_arrays cli_model_inputs(const cli_model *model, mx_array **in)
{
    const mx_names names = mx_symbol_arguments(model->symbol);
    mx_dims shapes[CLI_MOST];
    for (int i = 0; i < model->n_inputs; i++)
        shapes[i] = mx_shape(in[i]);
    const mx_inferred *inferred =
        model->n_labels
            ? mx_symbol_infer(model->symbol, &(struct mx_known){model->n_inputs, model->inputs, shapes, NULL, true})
            : NULL;
    for (int i = 0; i < model->n_labels; i++) {
        mx_dims shape = MX_DIMS(1);
        for (int64_t k = 0; inferred && k < names.n; k++)
            if (!strcmp(names.v[k], model->labels[i]) && inferred->arguments[k].n >= 0)
                shape = inferred->arguments[k];
        in[model->n_inputs + i] = mx_zeros(.shape = shape);
    }
    return (mx_arrays){in, model->n_inputs + model->n_labels};
}
