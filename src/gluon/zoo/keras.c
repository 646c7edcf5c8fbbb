/* Parameters of the zoo's networks from files of Keras: .weights.h5, .h5, .keras (see keras.h).
 *
 * Arrays are found by the name of their layer and by what they are to it: "conv1_conv/kernel" in old files, "conv1_conv/0" in
 * those of Keras 3.  Kernels are transposed.  Two things that Keras' networks have and ours lack move into the normalisation
 * that follows: a bias of the convolution is subtracted from the running mean, and a larger epsilon is added to the running
 * variance; predictions stay the same.  Every parameter is filled exactly once and every array of the file is used, or the
 * error names it; nothing is set before all is checked.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/zoo/keras.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "exec/list.h"
#include "gluon/op.gen.h"
#include "gluon/zoo.h"
#include "gluon/zoo/zoo.h"
#include "ndarray/params.h"

enum { LONGEST = 1024 }; /* name of a layer and its array */

/* A file, by the last two parts of the paths. */
typedef struct source {
    const mx_keras_table *table;
    const char *path;
    mx_dict index; /* "conv1_conv/kernel" -> array */
    mx_dict used;  /* those that were read */
} source;

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* States of optimizers and of random numbers are no weights. */
static bool is_other(const char *name)
{
    return !strncmp(name, "optimizer", 9) || strstr(name, "seed_generator") || strstr(name, "/optimizer/");
}

/* "model_weights/conv1/conv1/kernel:0" as "conv1/kernel". */
static bool shorten(const char *name, char *text)
{
    const char *last = strrchr(name, '/'), *start = last;
    while (start && start > name && start[-1] != '/')
        start--;
    const size_t length = last ? strlen(start) : 0;
    if (!last || length >= LONGEST)
        return false;
    memcpy(text, start, length + 1);
    char *colon = strrchr(text, ':');
    if (colon)
        *colon = 0;
    return true;
}

static mx_code index_file(source *s)
{
    const mx_array_dict *file = mx_load_layers(s->path);
    char text[LONGEST];
    for (int64_t i = 0; file && i < mx_array_dict_count(file); i++) {
        const char *name = mx_array_dict_name(file, i);
        if (is_other(name))
            continue;
        if (!shorten(name, text))
            return mx_fail(MX_ERR_FILE, "%s: '%s' is in no layer, wanted weights of a model of Keras", s->path, name);
        if (!strncmp(text, "vars/", 5))
            return mx_fail(
                MX_ERR_FILE,
                "%s: '%s' has no name of a layer: an older Keras wrote the file; write it again with a newer "
                "one, or as .h5",
                s->path, name);
        if (mx_dict_find(&s->index, text))
            return mx_fail(MX_ERR_FILE, "%s: '%s' occurs twice", s->path, text);
        if (!mx_dict_set(&s->index, text, mx_array_dict_at(file, i)))
            return mx_error_code();
    }
    return file ? MX_OK : mx_error_code();
}

static void free_source(source *s)
{
    mx_dict_free(&s->index);
    mx_dict_free(&s->used);
}

/* What an array is called in a layer: by name, and by number in files of Keras 3. */
static const struct {
    const char *ours, *theirs[3];
} attributes[] = {{"weight", {"kernel", "depthwise_kernel", "0"}},
                  {"bias", {"bias", "1"}},
                  {"gamma", {"gamma", "0"}},
                  {"beta", {"beta", "1"}},
                  {"running_mean", {"moving_mean", "2"}},
                  {"running_var", {"moving_variance", "3"}}};
enum { ATTRIBUTES = sizeof attributes / sizeof *attributes };

/* The array of a layer for a parameter of ours ("bias"), and its name; NULL without an error: there is none. */
static mx_array *find_array(const source *s, const char *layer, const char *ours, char *name)
{
    for (int i = 0; i < ATTRIBUTES; i++)
        for (int k = 0; k < 3 && !strcmp(attributes[i].ours, ours) && attributes[i].theirs[k]; k++) {
            snprintf(name, LONGEST, "%s/%s", layer, attributes[i].theirs[k]);
            mx_array *x = mx_dict_get(&s->index, name);
            if (x)
                return x;
        }
    return NULL;
}

/* ---- one array ----------------------------------------------------------------------------------------------------- */

/* The inputs of a dense layer are (pixels, channels) for Keras, (channels, pixels) for us. */
static mx_array *regroup(mx_array *x, int64_t channels)
{
    const mx_shape_t shape = mx_array_shape(x); /* (in, out) */
    if (channels < 1 || shape.dim[0] % channels)
        return x; /* the shape is reported as wrong */
    x = mx_reshape(x, .shape = MX_DIMS(shape.dim[0] / channels, channels, shape.dim[1]));
    return mx_reshape(mx_transpose(x, .axes = MX_DIMS(1, 0, 2)), .shape = MX_DIMS(shape.dim[0], shape.dim[1]));
}

/* A kernel as ours: (height, width, in, out), depthwise (height, width, channels, 1), dense (in, out). */
static mx_array *from_kernel(mx_array *x, const mx_shape_t *ours)
{
    const mx_shape_t shape = mx_array_shape(x);
    if (shape.ndim == 4 && ours->ndim == 4)
        return shape.dim[3] == 1 && ours->dim[0] != 1 ? mx_transpose(x, .axes = MX_DIMS(2, 3, 0, 1))
                                                      : mx_transpose(x, .axes = MX_DIMS(3, 2, 0, 1));
    if (shape.ndim == 4 && ours->ndim == 2 && shape.dim[0] == 1 && shape.dim[1] == 1)
        return mx_transpose(mx_reshape(x, .shape = MX_DIMS(shape.dim[2], shape.dim[3])));
    if (shape.ndim == 2 && ours->ndim == 4)
        return mx_reshape(mx_transpose(x), .shape = MX_DIMS(shape.dim[1], shape.dim[0], 1, 1));
    return shape.ndim == 2 ? mx_transpose(x) : x;
}

/* The bias of the convolution in front of a normalisation "..._bn", unless ours has it. */
static mx_array *bias_before(const source *s, const char *layer, const mx_dict *layers, char *name)
{
    char conv[LONGEST];
    const size_t length = strlen(layer);
    if (length < 3 || strcmp(layer + length - 3, "_bn"))
        return NULL;
    snprintf(conv, sizeof conv, "%.*s_conv", (int)length - 3, layer);
    return mx_dict_get_number(layers, conv, 0) ? NULL : find_array(s, conv, "bias", name);
}

/* The value for a parameter of a layer of theirs; NULL with an error. */
static mx_array *value_for(source *s, const mx_parameter *p, const char *ours, const char *layer, int64_t channels,
                           const mx_dict *layers)
{
    char name[LONGEST] = "", other[LONGEST], have[MX_SHAPE_TEXT], want[MX_SHAPE_TEXT];
    const char *what = strrchr(ours, '.') + 1;
    mx_array *theirs = find_array(s, layer, what, name);
    if (!theirs)
        return mx_fail_null(MX_ERR_PARAMETER,
                            "%s: the layer '%s' or its %s, the parameter '%s' of the network, is not in the file",
                            s->path, layer, what, ours);
    mx_array *x = theirs;
    if (s->table->flat && !strcmp(layer, s->table->flat) && mx_array_shape(x).ndim == 2)
        x = regroup(x, channels);
    if (!strcmp(what, "weight"))
        x = from_kernel(x, &p->shape);
    mx_array *bias = strcmp(what, "running_mean") ? NULL : bias_before(s, layer, layers, other);
    if (bias && mx_array_shape(bias).ndim == 1 && mx_array_shape(bias).dim[0] == mx_array_shape(x).dim[0]) {
        x = mx_elemwise_sub(mx_cast(x, .dtype = MX_FLOAT32), mx_cast(bias, .dtype = MX_FLOAT32));
        if (!mx_dict_set_number(&s->used, other, 1))
            return NULL;
    }
    if (s->table->epsilon > 0 && !strcmp(what, "running_var"))
        x = mx_plus_scalar(x, .scalar = s->table->epsilon);
    if (!x || !mx_dict_set_number(&s->used, name, 1))
        return NULL;
    mx_shape_t shape = mx_array_shape(x), merged = p->shape;
    const mx_shape_t written = mx_array_shape(theirs);
    if (!mx_shape_merge(&merged, &shape, NULL))
        return mx_fail_null(MX_ERR_SHAPE, "%s: '%s' has shape %s in the file, the parameter '%s' of the network has %s",
                            s->path, name, mx_shape_text(&written, have), ours, mx_shape_text(&p->shape, want));
    return p->dtype == (mx_dtype)x->dtype ? x : mx_cast(x, .dtype = p->dtype);
}

/* ---- a network ----------------------------------------------------------------------------------------------------- */

static mx_code check_used(const source *s)
{
    for (int64_t i = 0; i < s->index.length; i++)
        if (!mx_dict_find(&s->used, s->index.entries[i].key))
            return mx_fail(MX_ERR_PARAMETER, "%s: '%s' is not used by the network", s->path, s->index.entries[i].key);
    return MX_OK;
}

/* The names of layers alone; with a mark for those that have a bias in our network. */
static mx_code cut_names(mx_torch_place *places, int64_t count, mx_dict *with_bias)
{
    for (int64_t i = 0; i < count; i++) {
        char *dot = strrchr(places[i].name, '.');
        const bool bias = !strcmp(dot, ".bias");
        *dot = 0;
        if (bias && !mx_dict_set_number(with_bias, places[i].name, 1))
            return mx_error_code();
    }
    return MX_OK;
}

static mx_code fill(source *s, const mx_listing *l, const mx_torch_place *places, const mx_dict *with_bias)
{
    mx_array **values = mx_list_new(l->names.length);
    mx_code code = values ? MX_OK : mx_error_code();
    int64_t channels = 0; /* of the last convolution */
    for (int64_t i = 0; !code && i < l->names.length; i++) {
        const mx_parameter *p = l->params.items[i];
        channels = p->shape.ndim == 4 ? p->shape.dim[0] : channels;
        values[i] = value_for(s, p, l->names.items[i], places[i].name, channels, with_bias);
        code = values[i] ? MX_OK : mx_error_code();
    }
    code = code ? code : check_used(s);
    for (int64_t i = 0; !code && i < l->names.length; i++)
        code = mx_parameter_load(l->params.items[i], values[i]);
    return code;
}

static bool has_parameter(const mx_listing *l, const char *name)
{
    for (int64_t i = 0; name && i < l->names.length; i++)
        if (!strcmp(l->names.items[i], name))
            return true;
    return !name;
}

/* The one of the class's tables that fits the network; NULL with an error. */
static const mx_keras_table *fitting(const mx_keras_table *table, const mx_listing *l)
{
    for (const mx_keras_table *t = table; t->names.class && !strcmp(t->names.class, table->names.class); t++)
        if (has_parameter(l, t->needs))
            return t;
    return mx_fail_null(MX_ERR_ARGUMENT, "%s: %s", table->names.class, table->reason);
}

static mx_code load_from(mx_block *net, source *s)
{
    mx_listing l = {0};
    mx_dict with_bias = {0};
    s->table = mx_listing_fill(&l, net) ? NULL : fitting(s->table, &l);
    mx_torch_place *places = s->table ? mx_torch_places(&s->table->names, &l) : NULL;
    mx_code code = places ? cut_names(places, l.names.length, &with_bias) : mx_error_code();
    code = code ? code : fill(s, &l, places, &with_bias);
    mx_torch_places_free(places, l.names.length);
    mx_dict_free(&with_bias);
    mx_listing_free(&l);
    return code;
}

static const mx_keras_table *table_of(const char *class_name)
{
    mx_text names = {0};
    for (const mx_keras_table *t = mx_keras_tables; t->names.class; t++) {
        const bool known = t->names.rows != NULL;
        if (class_name && !strcmp(t->names.class, class_name)) {
            mx_text_free(&names);
            return known ? t : mx_fail_null(MX_ERR_ARGUMENT, "%s: %s", class_name, t->reason);
        }
        if (known)
            mx_text_print(&names, "%s%s", names.data ? ", " : "", t->names.class);
    }
    mx_fail(MX_ERR_ARGUMENT, "Keras' names are known for networks of the classes %s, not for %s",
            names.data ? names.data : "", class_name ? class_name : "a block of your own");
    mx_text_free(&names);
    return NULL;
}

mx_code mx_load_keras(mx_block *net, const char *path)
{
    MX_SCOPE;
    if (!mx_is_kind(net, &mx_block_kind, "mx_load_keras", "net"))
        return mx_error_code();
    source s = {.table = table_of(net->cls ? net->cls->name : NULL), .path = path};
    const mx_code code = s.table && !index_file(&s) ? load_from(net, &s) : mx_error_code();
    free_source(&s);
    return code;
}

/* "form=keras, classes=10": what the table and the file say. */
static void find_options(const source *s, mx_text *options)
{
    char name[LONGEST];
    const mx_torch_size *size = s->table->names.sizes;
    mx_text_add(options, s->table->names.options);
    const mx_array *x = find_array(s, size->tensor, "bias", name);
    if (x && mx_array_shape(x).ndim == 1)
        mx_text_print(options, "%s%s=%lld", options->length ? ", " : "", size->option,
                      (long long)mx_array_shape(x).dim[0]);
}

mx_block *mx_model_from_keras(const char *name, const char *path)
{
    const mx_model_row *row = mx_model_find(name);
    source s = {.table = row ? table_of(row->class) : NULL, .path = path};
    mx_text options = {0};
    mx_block *net = NULL;
    if (s.table && !index_file(&s)) {
        find_options(&s, &options);
        net = options.failed ? NULL : mx_model(name, .options = options.data ? options.data : "");
        net = net && !load_from(net, &s) ? net : NULL;
    }
    mx_text_free(&options);
    free_source(&s);
    return net;
}
