/* Parameters of the zoo's networks in files with PyTorch's names (see torch.h).
 *
 * Every parameter of the network is filled exactly once and every array of the file is used, or the error names it; nothing
 * is set before all is checked.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/zoo/torch.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "exec/list.h"
#include "gluon/op.gen.h"
#include "gluon/zoo.h"
#include "gluon/zoo/zoo.h"

/* ---- files ------------------------------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *suffix)
{
    const size_t n = strlen(text), m = strlen(suffix);
    return n >= m && !strcasecmp(text + n - m, suffix);
}

static mx_array_dict *read_file(const char *path)
{
    static const char *const pickles[] = {".pt", ".pth", ".bin"};
    for (int i = 0; path && i < 3; i++)
        if (ends_with(path, pickles[i]))
            return mx_fail_null(MX_ERR_FILE,
                                "%s: %s files are Python pickles, which are not read; write the state_dict with "
                                "safetensors.torch.save_file",
                                path, pickles[i]);
    return path ? mx_load(path) : mx_fail_null(MX_ERR_ARGUMENT, "path is NULL, wanted a text");
}

/* The arrays by their names without prefixes. */
static mx_code index_file(const mx_torch_table *table, const mx_array_dict *file, const char *path, mx_dict *index)
{
    for (int64_t i = 0; i < mx_array_dict_count(file); i++) {
        const char *name = mx_array_dict_name(file, i);
        if (!name)
            return mx_fail(MX_ERR_FILE, "%s: the file holds arrays without names, wanted a state_dict", path);
        const char *plain = mx_torch_strip(table, name);
        if (mx_dict_find(index, plain))
            return mx_fail(MX_ERR_FILE, "%s: '%s' occurs twice, with and without a prefix", path, plain);
        if (!mx_dict_set(index, plain, mx_array_dict_at(file, i)))
            return mx_error_code();
    }
    return MX_OK;
}

/* ---- one array ----------------------------------------------------------------------------------------------------- */

static int third(mx_torch_layout layout) { return layout >= MX_TORCH_QUERY ? (int)layout - MX_TORCH_QUERY : -1; }

/* Their array as ours. */
static mx_array *from_theirs(mx_array *x, mx_torch_layout layout, int rank)
{
    const mx_shape_t shape = mx_array_shape(x);
    const int last = shape.ndim - 1;
    if (layout == MX_TORCH_FLAT && shape.ndim == 2 && rank == 4)
        return mx_reshape(x, .shape = MX_DIMS(0, 0, 1, 1));
    if (third(layout) >= 0) {
        if (last < 0 || shape.dim[last] % 3)
            return x; /* the shape is reported as wrong */
        const int64_t part = shape.dim[last] / 3;
        x = mx_slice_axis(x, .axis = last, .begin = third(layout) * part, .end = (third(layout) + 1) * part);
    }
    return layout >= MX_TORCH_TRANSPOSED && shape.ndim == 2 ? mx_transpose(x) : x;
}

/* And back; a third alone. */
static mx_array *to_theirs(mx_array *x, mx_torch_layout layout)
{
    const int rank = mx_array_shape(x).ndim;
    if (layout == MX_TORCH_FLAT && rank == 4)
        return mx_reshape(x, .shape = MX_DIMS(0, 0));
    return layout >= MX_TORCH_TRANSPOSED && rank == 2 ? mx_transpose(x) : x;
}

/* The value for a parameter; NULL with an error. */
static mx_array *value_for(const mx_parameter *p, const char *ours, const mx_torch_place *place, const mx_dict *index,
                           const char *path)
{
    char have[MX_SHAPE_TEXT], want[MX_SHAPE_TEXT];
    mx_array *theirs = mx_dict_get(index, place->name);
    if (!theirs)
        return mx_fail_null(MX_ERR_PARAMETER, "%s: '%s', the parameter '%s' of the network, is not in the file", path,
                            place->name, ours);
    mx_array *x = from_theirs(theirs, place->layout, p->shape.ndim);
    if (!x)
        return NULL;
    mx_shape_t shape = mx_array_shape(x), merged = p->shape;
    const mx_shape_t written = mx_array_shape(theirs);
    if (!mx_shape_merge(&merged, &shape, NULL))
        return mx_fail_null(MX_ERR_SHAPE, "%s: '%s' has shape %s in the file, the parameter '%s' of the network has %s",
                            path, place->name, mx_shape_text(&written, have), ours, mx_shape_text(&p->shape, want));
    return p->dtype == (mx_dtype)x->dtype ? x : mx_cast(x, .dtype = p->dtype);
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

/* Arrays of the file that no parameter has used. */
static mx_code check_used(const mx_torch_table *table, const mx_dict *index, const mx_dict *used, const char *path)
{
    const char *first = NULL;
    int64_t count = 0;
    for (int64_t i = 0; i < index->length; i++) {
        const char *name = index->entries[i].key;
        if (mx_dict_find(used, name) || mx_torch_is_unused(table, name))
            continue;
        first = first ? first : name;
        count++;
    }
    if (count > 1)
        return mx_fail(MX_ERR_PARAMETER, "%s: '%s' and %lld other arrays are not used by the network", path, first,
                       (long long)count - 1);
    return count ? mx_fail(MX_ERR_PARAMETER, "%s: '%s' is not used by the network", path, first) : MX_OK;
}

static mx_code fill(const mx_torch_table *table, const mx_listing *l, const mx_torch_place *places,
                    const mx_array_dict *file, const char *path)
{
    mx_dict index = {0}, used = {0};
    mx_array **values = mx_list_new(l->names.length);
    mx_code code = values ? index_file(table, file, path, &index) : mx_error_code();
    for (int64_t i = 0; !code && i < l->names.length; i++) {
        values[i] = value_for(l->params.items[i], l->names.items[i], &places[i], &index, path);
        code = values[i] && mx_dict_set_number(&used, places[i].name, 1) ? MX_OK : mx_error_code();
    }
    code = code ? code : check_used(table, &index, &used, path);
    for (int64_t i = 0; !code && i < l->names.length; i++)
        code = mx_parameter_load(l->params.items[i], values[i]);
    mx_dict_free(&index);
    mx_dict_free(&used);
    return code;
}

static const mx_torch_table *table_of(const mx_block *net, const char *function)
{
    if (!mx_is_kind(net, &mx_block_kind, function, "net"))
        return NULL;
    return mx_torch_table_of(net->cls ? net->cls->name : NULL);
}

static mx_code load_from(mx_block *net, const mx_torch_table *table, const mx_array_dict *file, const char *path)
{
    mx_listing l = {0};
    mx_torch_place *places = mx_listing_fill(&l, net) ? NULL : mx_torch_places(table, &l);
    const mx_code code = places ? fill(table, &l, places, file, path) : mx_error_code();
    mx_torch_places_free(places, l.names.length);
    mx_listing_free(&l);
    return code;
}

mx_code mx_load_torch(mx_block *net, const char *path)
{
    MX_SCOPE;
    const mx_torch_table *table = table_of(net, "mx_load_torch");
    const mx_array_dict *file = table ? read_file(path) : NULL;
    return file ? load_from(net, table, file, path) : mx_error_code();
}

/* ---- a network for a file ------------------------------------------------------------------------------------------ */

/* "form=torch, classes=10": what the table and the file say. */
static mx_code find_options(const mx_torch_table *table, const mx_array_dict *file, const char *path, mx_text *options)
{
    mx_dict index = {0};
    mx_code code = index_file(table, file, path, &index);
    mx_text_add(options, table->options);
    for (const mx_torch_size *s = table->sizes; !code && s->option; s++) {
        const mx_array *x = mx_dict_get(&index, s->tensor);
        if (x && mx_array_shape(x).ndim > s->axis)
            mx_text_print(options, "%s%s=%lld", options->length ? ", " : "", s->option,
                          (long long)mx_array_shape(x).dim[s->axis]);
    }
    mx_dict_free(&index);
    return code;
}

mx_block *mx_model_from_torch(const char *name, const char *path)
{
    const mx_model_row *row = mx_model_find(name);
    const mx_torch_table *table = row ? mx_torch_table_of(row->class) : NULL;
    const mx_array_dict *file = table ? read_file(path) : NULL;
    mx_text options = {0};
    mx_block *net = file && !find_options(table, file, path, &options)
                        ? mx_model(name, .options = options.data ? options.data : "")
                        : NULL;
    mx_text_free(&options);
    return net && !load_from(net, table, file, path) ? net : NULL;
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */

/* The values under their names; thirds are joined at the last one. */
static mx_code write(const mx_listing *l, const mx_torch_place *places, const char *path)
{
    int64_t n = 0;
    mx_array **values = mx_list_new(l->names.length);
    const char **names = mx_alloc((size_t)(l->names.length + 1) * sizeof *names);
    mx_dict begun = {0}; /* name of theirs -> the thirds so far */
    mx_code code = values && names ? MX_OK : mx_error_code();
    for (int64_t i = 0; !code && i < l->names.length; i++) {
        mx_array *x = mx_listing_value(l->params.items[i]), *before = mx_dict_get(&begun, places[i].name);
        x = x ? to_theirs(x, places[i].layout) : NULL;
        if (x && before)
            x = mx_concat(MX_ARRAYS(before, x), .dim = -1);
        const int part = third(places[i].layout);
        if (!x || ((part == 0 || part == 1) && !mx_dict_set(&begun, places[i].name, x)))
            code = mx_error_code();
        else if (part < 0 || part == 2)
            values[n] = x, names[n++] = places[i].name;
    }
    code = code ? code : mx_save(path, (mx_arrays){values, n}, names);
    mx_dict_free(&begun);
    mx_free(names, (size_t)(l->names.length + 1) * sizeof *names);
    return code;
}

mx_code mx_save_torch(mx_block *net, const char *path)
{
    MX_SCOPE;
    const mx_torch_table *table = table_of(net, "mx_save_torch");
    if (!table || !path)
        return table ? mx_fail(MX_ERR_ARGUMENT, "mx_save_torch: path is NULL, wanted a text") : mx_error_code();
    mx_listing l = {0};
    mx_torch_place *places = mx_listing_fill(&l, net) ? NULL : mx_torch_places(table, &l);
    const mx_code code = places ? write(&l, places, path) : mx_error_code();
    mx_torch_places_free(places, l.names.length);
    mx_listing_free(&l);
    return code;
}
