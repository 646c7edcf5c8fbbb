/* Parameters of networks in files.
 *
 * A network is saved by structure: keys are paths of attribute names, "0.weight", "features.1.bias".  A file whose
 * keys have no dots is in the older format with full names; the block's prefix is prepended to its keys.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "exec/list.h"
#include "gluon/block/listing.h"

void mx_listing_free(mx_listing *l)
{
    for (int64_t i = 0; i < l->names.length; i++)
        mx_strfree(l->names.items[i]);
    mx_vec_free(&l->names);
    mx_vec_free(&l->params);
}

static mx_code list_add(mx_listing *l, char *name, mx_parameter *p)
{
    if (!name || !mx_vec_push(&l->names, name)) {
        mx_strfree(name);
        return mx_error_code();
    }
    return mx_vec_push(&l->params, p) ? MX_OK : mx_error_code();
}

static bool path_ok(const char *path, const char *function)
{
    return path || (mx_fail(MX_ERR_ARGUMENT, "%s: path is NULL, wanted a text", function), false);
}

static char *join(const char *before, const char *name, const char *after)
{
    mx_text text = {0};
    mx_text_add(&text, before);
    mx_text_add(&text, name);
    mx_text_add(&text, after);
    return mx_text_take(&text);
}

static char *key_of(const mx_block *block, const char *prefix, const char *attribute)
{
    if (!block->layer || !block->layer->file_key)
        return join(prefix, attribute, "");
    mx_text text = {0};
    mx_text_add(&text, prefix);
    block->layer->file_key(block, attribute, &text);
    return mx_text_take(&text);
}

static mx_code list_structure(mx_block *block, const char *prefix, mx_listing *l)
{
    for (int64_t i = 0; i < block->attributes.length; i++)
        if (list_add(l, key_of(block, prefix, block->attributes.entries[i].key), block->attributes.entries[i].pointer))
            return mx_error_code();
    for (int64_t i = 0; i < block->children.length; i++) {
        char *deeper = join(prefix, block->children.entries[i].key, ".");
        mx_code code = deeper ? list_structure(block->children.entries[i].pointer, deeper, l) : mx_error_code();
        mx_strfree(deeper);
        if (code)
            return code;
    }
    return MX_OK;
}

mx_code mx_listing_fill(mx_listing *l, mx_block *block) { return list_structure(block, "", l); }

/* ---- writing ----------------------------------------------------------------------------------------------------- */

mx_array *mx_listing_value(mx_parameter *p)
{
    mx_array *data = mx_parameter_data(p, p->count ? p->contexts[0] : (mx_context){0});
    return data ? mx_array_to(mx_detach(data), mx_cpu(0)) : NULL;
}

static mx_code write_listing(const mx_listing *l, const char *file)
{
    MX_SCOPE;
    mx_array **values = mx_list_new(l->params.length);
    if (!values)
        return mx_error_code();
    for (int64_t i = 0; i < l->params.length; i++)
        if (!(values[i] = mx_listing_value(l->params.items[i])))
            return mx_error_code();
    return mx_save(file, (mx_arrays){values, l->params.length}, (const char *const *)l->names.items);
}

mx_code mx_save_parameters(mx_block *block, const char *file)
{
    if (!mx_is_kind(block, &mx_block_kind, "mx_save_parameters", "block") || !path_ok(file, "mx_save_parameters"))
        return mx_error_code();
    mx_listing l = {0};
    mx_code code = mx_listing_fill(&l, block);
    if (!code)
        code = write_listing(&l, file);
    mx_listing_free(&l);
    return code;
}

mx_code mx_params_save(mx_params *params, const char *file, const char *strip_prefix)
{
    if (!mx_is_kind(params, &mx_params_kind, "mx_params_save", "params") || !path_ok(file, "mx_params_save"))
        return mx_error_code();
    mx_listing l = {0};
    mx_code code = MX_OK;
    const size_t strip = strip_prefix ? strlen(strip_prefix) : 0;
    for (int64_t i = 0; !code && i < params->entries.length; i++) {
        const char *name = params->entries.entries[i].key;
        if (strncmp(name, strip ? strip_prefix : "", strip))
            code =
                mx_fail(MX_ERR_ARGUMENT, "mx_params_save: parameter %s does not begin with '%s'", name, strip_prefix);
        else
            code = list_add(&l, mx_strdup(name + strip), params->entries.entries[i].pointer);
    }
    if (!code)
        code = write_listing(&l, file);
    mx_listing_free(&l);
    return code;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static const char *without_tag(const char *key) /* "arg:" and "aux:" of exported models */
{
    return !strncmp(key, "arg:", 4) || !strncmp(key, "aux:", 4) ? key + 4 : key;
}

/* key: what the file calls the parameter. */
static mx_code check_value(const mx_parameter *p, const char *key, const mx_array *value, const char *file,
                           const struct mx_load_options *o)
{
    char have[MX_SHAPE_TEXT], want[MX_SHAPE_TEXT];
    mx_shape_t shape = mx_array_shape(value), merged = p->shape;
    if (!mx_shape_merge(&merged, &shape, NULL))
        return mx_fail(MX_ERR_SHAPE, "%s: '%s' has shape %s in the file, parameter %s has %s", file, key,
                       mx_shape_text(&shape, have), p->name, mx_shape_text(&p->shape, want));
    if (p->dtype != (mx_dtype)value->dtype && !o->cast_dtype)
        return mx_fail(MX_ERR_DTYPE, "%s: '%s' is %s in the file, parameter %s is %s; set cast_dtype to convert", file,
                       key, mx_dtype_name((mx_dtype)value->dtype), p->name, mx_dtype_name(p->dtype));
    return MX_OK;
}

/* The array for every name of the listing, NULL where the file has none. */
static mx_code match(const mx_listing *l, const mx_array_dict *dict, const char *prefix, const char *file,
                     const struct mx_load_options *o, mx_array **values)
{
    mx_dict numbers = {0}; /* name -> its number in the listing + 1 */
    mx_code code = MX_OK;
    for (int64_t i = 0; i < l->names.length; i++)
        if (!mx_dict_set_number(&numbers, l->names.items[i], i + 1))
            code = mx_error_code();
    for (int64_t k = 0; !code && k < mx_array_dict_count(dict); k++) {
        const char *name = mx_array_dict_name(dict, k);
        char *key = name ? join(prefix, without_tag(name), "") : NULL;
        int64_t i = key ? mx_dict_get_number(&numbers, key, 0) : 0;
        if (key && !i)
            i = mx_dict_get_number(&numbers, without_tag(name), 0); /* exported models have the prefix already */
        if (i)
            values[i - 1] = mx_array_dict_at(dict, k);
        else if (!name)
            code = mx_fail(MX_ERR_FILE, "%s: the file holds arrays without names, wanted parameters", file);
        else if (!key)
            code = mx_error_code();
        else if (!o->ignore_extra)
            code = mx_fail(MX_ERR_PARAMETER, "%s: parameter '%s' of the file is not in the network", file, key);
        mx_strfree(key);
    }
    mx_dict_free(&numbers);
    return code;
}

/* Everything is checked before anything is set: a wrong file leaves the network unchanged. */
static mx_code load_listing(const mx_listing *l, const mx_array_dict *dict, const char *prefix, const char *file,
                            const struct mx_load_options *o)
{
    mx_array **values = mx_list_new(l->names.length);
    if (!values || match(l, dict, prefix, file, o, values))
        return mx_error_code();
    for (int64_t i = 0; i < l->names.length; i++) {
        if (!values[i] && !o->allow_missing)
            return mx_fail(MX_ERR_PARAMETER, "%s: parameter '%s' of the network is not in the file", file,
                           l->names.items[i]);
        if (values[i] && check_value(l->params.items[i], l->names.items[i], values[i], file, o))
            return mx_error_code();
    }
    for (int64_t i = 0; i < l->names.length; i++)
        if (values[i] && mx_parameter_load(l->params.items[i], values[i]))
            return mx_error_code();
    return MX_OK;
}

/* Paths have dots, unless all parameters are the block's own: then every key is one of its attributes. */
static bool is_structural(const mx_block *block, const mx_array_dict *dict)
{
    bool own = true;
    for (int64_t k = 0; k < mx_array_dict_count(dict); k++) {
        const char *name = mx_array_dict_name(dict, k);
        if (name && strchr(name, '.'))
            return true;
        own &= name && mx_dict_find(&block->attributes, name);
    }
    return own;
}

static mx_code list_names(mx_params *params, mx_listing *l)
{
    for (int64_t i = 0; i < params->entries.length; i++)
        if (list_add(l, mx_strdup(params->entries.entries[i].key), params->entries.entries[i].pointer))
            return mx_error_code();
    return MX_OK;
}

mx_code mx_load_parameters_with(mx_block *block, const char *file, const struct mx_load_options *options)
{
    MX_SCOPE;
    const struct mx_load_options none = {0}, *o = options ? options : &none;
    if (!mx_is_kind(block, &mx_block_kind, "mx_load_parameters", "block") || !path_ok(file, "mx_load_parameters"))
        return mx_error_code();
    mx_array_dict *dict = mx_load(file);
    if (!dict)
        return mx_error_code();
    mx_listing l = {0};
    const bool structural = is_structural(block, dict);
    mx_params *all = structural ? NULL : mx_collect_params(block);
    mx_code code = structural ? mx_listing_fill(&l, block) : all ? list_names(all, &l) : mx_error_code();
    if (!code)
        code = load_listing(&l, dict, structural ? "" : block->prefix, file, o);
    mx_listing_free(&l);
    return code;
}

mx_code mx_load_parameters(mx_block *block, const char *file) { return mx_load_parameters_with(block, file, NULL); }

mx_code mx_params_load(mx_params *params, const char *file, const struct mx_load_options *options)
{
    MX_SCOPE;
    const struct mx_load_options none = {0}, *o = options ? options : &none;
    if (!mx_is_kind(params, &mx_params_kind, "mx_params_load", "params") || !path_ok(file, "mx_params_load"))
        return mx_error_code();
    mx_array_dict *dict = mx_load(file);
    if (!dict)
        return mx_error_code();
    mx_listing l = {0};
    mx_code code = list_names(params, &l);
    if (!code)
        code = load_listing(&l, dict, o->restore_prefix ? o->restore_prefix : "", file, o);
    mx_listing_free(&l);
    return code;
}
