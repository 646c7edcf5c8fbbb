/* Initializers composed of others: by name pattern, or from the arrays of a file.
 *
 * Both are custom initializers whose user data is a list of rules, tried in order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <regex.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/block/core.h"
#include "gluon/block/initialize.h"

/* ---- Mixed ------------------------------------------------------------------------------------------------------- */

typedef struct mixed {
    int count;
    struct rule {
        regex_t pattern;
        mx_initializer *init; /* retained */
    } rules[];
} mixed;

static size_t mixed_bytes(int count) { return sizeof(mixed) + (size_t)count * sizeof(struct rule); }

static void free_mixed(mixed *list, int capacity)
{
    for (int i = 0; i < list->count; i++) {
        regfree(&list->rules[i].pattern);
        mx_release(list->rules[i].init);
    }
    mx_free(list, mixed_bytes(capacity));
}

static void release_mixed(void *user) { free_mixed(user, ((mixed *)user)->count); }

static mx_code fill_mixed(void *user, const char *name, mx_array *array)
{
    const mixed *list = user;
    for (int i = 0; i < list->count; i++)
        if (!regexec(&list->rules[i].pattern, name, 0, NULL, 0))
            return mx_initializer_fill(list->rules[i].init, name, array);
    return mx_fail(MX_ERR_PARAMETER, "Mixed: no pattern matches parameter %s; add the pattern \".*\" at the end", name);
}

static mx_code add_rule(mixed *list, const char *pattern, mx_initializer *init)
{
    if (!pattern)
        return mx_fail(MX_ERR_ARGUMENT, "mx_initializer_mixed: pattern %d is NULL", list->count);
    if (!mx_is_kind(init, &mx_initializer_kind, "mx_initializer_mixed", "initializers"))
        return mx_error_code();
    if (regcomp(&list->rules[list->count].pattern, pattern, REG_EXTENDED | REG_NOSUB))
        return mx_fail(MX_ERR_ARGUMENT, "mx_initializer_mixed: '%s' is not a regular expression", pattern);
    list->rules[list->count++].init = mx_retain(init);
    return MX_OK;
}

mx_initializer *mx_initializer_mixed(const char *const *patterns, mx_initializer *const *initializers, int count)
{
    if (!patterns || !initializers || count <= 0)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_initializer_mixed: wanted patterns and as many initializers, got %d",
                            count);
    mixed *list = mx_alloc_zero(mixed_bytes(count));
    if (!list)
        return NULL;
    mx_code code = MX_OK;
    for (int i = 0; !code && i < count; i++)
        code = add_rule(list, patterns[i], initializers[i]);
    mx_initializer *init = code ? NULL : mx_initializer_custom(fill_mixed, list, release_mixed);
    if (!init)
        free_mixed(list, count);
    return init;
}

/* ---- Load -------------------------------------------------------------------------------------------------------- */

typedef struct loaded {
    mx_array_dict *arrays;    /* retained */
    mx_initializer *fallback; /* retained; NULL: unknown names are an error */
} loaded;

static void release_loaded(void *user)
{
    loaded *load = user;
    mx_release(load->arrays);
    mx_release(load->fallback);
    mx_free(load, sizeof *load);
}

static const char *bare(const char *name)
{
    return name && (!strncmp(name, "arg:", 4) || !strncmp(name, "aux:", 4)) ? name + 4 : name;
}

static mx_array *find(const mx_array_dict *arrays, const char *name)
{
    const int64_t n = mx_array_dict_count(arrays);
    for (int64_t i = 0; i < n; i++) {
        const char *key = bare(mx_array_dict_name(arrays, i));
        if (key && !strcmp(key, name))
            return mx_array_dict_at(arrays, i);
    }
    return NULL;
}

static mx_code fill_loaded(void *user, const char *name, mx_array *array)
{
    const loaded *load = user;
    char want[MX_SHAPE_TEXT], have[MX_SHAPE_TEXT];
    mx_array *value = find(load->arrays, bare(name));
    if (!value && load->fallback)
        return mx_initializer_fill(load->fallback, name, array);
    if (!value)
        return mx_fail(MX_ERR_PARAMETER, "Load: the arrays have no %s, and there is no fallback initializer", name);
    mx_shape_t a = mx_array_shape(array), b = mx_array_shape(value);
    if (!mx_shape_equal(&a, &b))
        return mx_fail(MX_ERR_SHAPE, "Load: parameter %s has shape %s, the loaded array %s", name,
                       mx_shape_text(&a, want), mx_shape_text(&b, have));
    return mx_array_set(array, value);
}

mx_initializer *mx_initializer_load(mx_array_dict *arrays, mx_initializer *fallback)
{
    if (!arrays)
        return mx_has_error() ? NULL : mx_fail_null(MX_ERR_ARGUMENT, "mx_initializer_load: arrays is NULL");
    if (mx_array_dict_count(arrays) == 0 && mx_has_error()) /* it is something else */
        return NULL;
    if (fallback && !mx_is_kind(fallback, &mx_initializer_kind, "mx_initializer_load", "fallback"))
        return NULL;
    loaded *load = mx_alloc_zero(sizeof *load);
    if (!load)
        return NULL;
    load->arrays = mx_retain(arrays), load->fallback = mx_retain(fallback);
    mx_initializer *init = mx_initializer_custom(fill_loaded, load, release_loaded);
    if (!init)
        release_loaded(load);
    return init;
}
