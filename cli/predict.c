/* gluon predict: runs a model on images or arrays.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* ---- inputs ---------------------------------------------------------------------------------------------------- */

static bool is_image(const char *path)
{
    static const char *const suffixes[] = {".png", ".jpg", ".jpeg", ".ppm", ".pgm", ".PNG", ".JPG", ".JPEG"};
    bool image = false;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        image |= cli_ends_with(path, suffixes[i]);
    return image;
}

/* Numbers of an option as an array of shape (1, n, 1, 1); MX_NONE if it was not given. */
static mx_array *channel_numbers(const cli_args *args, const char *name)
{
    const char *text = cli_option_of(args, name);
    mx_floats numbers;
    float values[MX_MAX_TUPLE];
    if (!text)
        return MX_NONE;
    if (!cli_floats(name, text, &numbers))
        return NULL;
    for (int i = 0; i < numbers.n; i++)
        values[i] = (float)numbers.d[i];
    return mx_array_from(MX_DIMS(1, numbers.n, 1, 1), MX_FLOAT32, values);
}

/* An image file as (1, C, H, W) in 0..1; the wanted shape, if known, determines channels and size. */
static mx_array *load_image(const cli_args *args, const char *path, const mx_dims *wanted)
{
    if (wanted->n >= 0 && (wanted->n != 4 || wanted->d[0] > 1 || (wanted->d[1] != 1 && wanted->d[1] != 3))) {
        mx_error_set(MX_ERR_SHAPE, "%s: an image becomes (1, 1, H, W) or (1, 3, H, W); the input has another shape",
                     path);
        return NULL;
    }
    mx_array *image = mx_imread(path, .flag = wanted->n == 4 ? wanted->d[1] == 3 : -1);
    if (image && wanted->n == 4 && wanted->d[2] && wanted->d[3] &&
        (mx_dim(image, 0) != wanted->d[2] || mx_dim(image, 1) != wanted->d[3]))
        image = mx_imresize(image, .w = wanted->d[3], .h = wanted->d[2]);
    mx_array *x = mx_transpose(mx_cast(image, .dtype = MX_FLOAT32), .axes = MX_DIMS(2, 0, 1));
    x = mx_div_scalar(mx_expand_dims(x, .axis = 0), 255);
    mx_array *mean = channel_numbers(args, "--mean"), *std = channel_numbers(args, "--std");
    x = mean == MX_NONE ? x : mx_sub(x, mean);
    return std == MX_NONE ? x : mx_div(x, std);
}

static mx_array *load_input(const cli_args *args, const char *path, const mx_dims *wanted, mx_dtype type)
{
    if (is_image(path))
        return load_image(args, path, wanted);
    if (!cli_ends_with(path, ".npy")) {
        mx_error_set(MX_ERR_FILE, "%s: expected an image (.png, .jpg, .ppm, .pgm) or an array (.npy)", path);
        return NULL;
    }
    mx_array *x = mx_load_npy(path);
    return x && mx_dtype_of(x) != type ? mx_cast(x, .dtype = type) : x;
}

/* Reports a wrong shape in terms of the model's input, before anything is computed. */
static bool shape_fits(const cli_model *model, int i, mx_array *x, const char *path)
{
    const mx_dims *wanted = &model->shapes[i], shape = mx_shape(x);
    bool fits = wanted->n < 0 || wanted->n == shape.n;
    for (int k = 1; fits && k < wanted->n; k++) /* the batch may have any size */
        fits = !wanted->d[k] || wanted->d[k] == shape.d[k];
    if (!fits)
        mx_error_set(MX_ERR_SHAPE, "%s: the %d axes of the array do not match the shape of input '%s'", path, shape.n,
                     model->inputs[i]);
    return fits;
}

/* "--input x.npy" or "--input data=x.npy" */
static bool load_inputs(const cli_args *args, const cli_model *model, mx_array **in)
{
    const char *text;
    for (int i = 0; (text = cli_option_at(args, "--input", i)); i++) {
        const char *equals = strchr(text, '=');
        int to = i;
        for (int k = 0; equals && k < model->n_inputs; k++)
            if (!strncmp(model->inputs[k], text, (size_t)(equals - text)) && !model->inputs[k][equals - text])
                text = equals + 1, equals = NULL, to = k;
        if (to >= model->n_inputs) {
            mx_error_set(MX_ERR_ARGUMENT, "--input %s: the model has %d inputs", text, model->n_inputs);
            return false;
        }
        if (!(in[to] = load_input(args, text, &model->shapes[to], model->types[to])) ||
            !shape_fits(model, to, in[to], text))
            return false;
    }
    for (int i = 0; i < model->n_inputs; i++)
        if (!in[i]) {
            mx_error_set(MX_ERR_ARGUMENT, "input '%s' is missing; set it with --input %s=FILE", model->inputs[i],
                         model->inputs[i]);
            return false;
        }
    return true;
}

/* ---- outputs --------------------------------------------------------------------------------------------------- */

typedef struct labels {
    char *text;   /* owned; the lines, each ended by a zero byte */
    char **lines; /* owned */
    int64_t count;
} labels;

static bool read_labels(labels *l, const char *path)
{
    FILE *file = path ? fopen(path, "rb") : NULL;
    enum { MOST = 1 << 24 };
    if (!path)
        return true;
    l->text = file ? malloc(MOST + 1) : NULL;
    const size_t size = l->text ? fread(l->text, 1, MOST, file) : 0;
    if (file)
        fclose(file);
    if (!l->text)
        return mx_error_set(MX_ERR_FILE, "%s: cannot read the labels", path), false;
    l->text[size] = 0;
    for (size_t i = 0; i < size; i++)
        l->count += l->text[i] == '\n';
    l->lines = calloc((size_t)l->count + 2, sizeof *l->lines);
    l->count = 0;
    for (char *p = l->text; l->lines && *p;) {
        l->lines[l->count++] = p;
        p += strcspn(p, "\n");
        if (*p)
            *p++ = 0;
    }
    return l->lines != NULL;
}

static void print_top(const float *row, int64_t classes, int64_t top, const labels *names)
{
    for (int64_t k = 0; k < top && k < classes; k++) {
        int64_t best = -1; /* the next one in descending order */
        for (int64_t c = 0; c < classes; c++) {
            int64_t before = 0;
            for (int64_t o = 0; o < classes; o++)
                before += row[o] > row[c] || (row[o] == row[c] && o < c);
            if (before == k)
                best = c;
        }
        if (best >= 0)
            printf("%6lld  %-12.6g %s\n", (long long)best, row[best], best < names->count ? names->lines[best] : "");
    }
}

/* The largest values of every row of an output, viewed as (rows, classes). */
static bool print_output(const cli_args *args, mx_array *y, int64_t top, const labels *names)
{
    if (cli_option_of(args, "--softmax"))
        y = mx_softmax(y);
    const float *values = y ? mx_array_data(mx_cast(y, .dtype = MX_FLOAT32)) : NULL;
    const int64_t classes = mx_ndim(y) > 0 ? mx_dim(y, -1) : 1, size = mx_size(y);
    if (!values)
        return false;
    if (cli_option_of(args, "--all"))
        for (int64_t i = 0; i < size; i++)
            printf("%.9g\n", values[i]);
    else
        for (int64_t r = 0; r < (classes ? size / classes : 0); r++) {
            if (size != classes)
                printf("row %lld\n", (long long)r);
            print_top(values + r * classes, classes, top, names);
        }
    return true;
}

static bool show(const cli_args *args, const cli_model *model, mx_arrays y, int64_t top)
{
    labels names = {0};
    const mx_names outputs = mx_symbol_outputs(model->symbol);
    const char *path = cli_option_of(args, "--output");
    bool fine = read_labels(&names, cli_option_of(args, "--labels"));
    for (int64_t i = 0; fine && i < y.n && !path; i++) {
        if (y.n > 1 && i < outputs.n)
            printf("%s\n", outputs.v[i]);
        fine = print_output(args, y.v[i], top, &names);
    }
    if (fine && path)
        fine = !mx_save_npy(path, y.v[0]);
    free(names.lines);
    free(names.text);
    return fine;
}

static int run(const cli_args *args)
{
    cli_model model;
    mx_array *in[CLI_MOST] = {NULL};
    int64_t top;
    if (!cli_option_of(args, "--input"))
        return cli_usage(args, "--input FILE is missing");
    if (!cli_number(args, "--top", 5, 1, &top))
        return CLI_USAGE;
    if (!cli_model_load(&model, args, args->values[0]) || !load_inputs(args, &model, in))
        return CLI_FAILED;
    mx_block *net = cli_model_block(&model);
    mx_arrays y = net ? mx_block_call_many(net, cli_model_inputs(&model, in)) : (mx_arrays){0};
    if (!net || mx_error_code())
        return CLI_FAILED;
    return show(args, &model, y, top) ? CLI_OK : CLI_FAILED;
}

static const cli_option options[] = {
    {"--input", "[NAME=]FILE", "an image (.png .jpg .ppm .pgm) or an array (.npy); once per input"},
    {"--top", "N", "print the N largest values of each row; default 5"},
    {"--labels", "FILE", "names of the classes, one per line"},
    {"--softmax", NULL, "convert the output to probabilities first"},
    {"--all", NULL, "print every value of the output, one per line"},
    {"--output", "FILE.npy", "write the first output to a file instead (also -o)"},
    {"--mean", "N,N,N", "subtract these from the channels of an image, whose values are 0..1"},
    {"--std", "N,N,N", "divide the channels by these"},
    CLI_MODEL_OPTIONS,
    {NULL, NULL, NULL},
};

const cli_command cli_predict = {"predict",
                                 "MODEL --input FILE [--top 5] [--labels FILE]",
                                 "Runs a model on images or arrays and prints the best classes.",
                                 1,
                                 1,
                                 options,
                                 run};
