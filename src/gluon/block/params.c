/* Dictionaries of parameters.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "gluon/block/core.h"
#include "gluon/block/initialize.h"

static void destroy_params(mx_object *object)
{
    mx_params *params = (mx_params *)object;
    for (int64_t i = 0; i < params->entries.length; i++)
        mx_release(params->entries.entries[i].pointer);
    mx_dict_free(&params->entries);
    mx_release(params->shared);
    mx_strfree(params->prefix);
    mx_free(params, sizeof *params);
}
const mx_kind mx_params_kind = {"parameter dictionary", destroy_params};

static bool ok(const mx_params *params, const char *function)
{
    return mx_is_kind(params, &mx_params_kind, function, "params");
}

mx_params *mx_params_new(const char *prefix, mx_params *shared)
{
    if (shared && !mx_is_kind(shared, &mx_params_kind, "mx_params_new", "shared"))
        return NULL;
    mx_params *params = mx_alloc_zero(sizeof *params);
    if (!params)
        return NULL;
    mx_object_init(&params->object, &mx_params_kind);
    params->prefix = mx_strdup(prefix ? prefix : "");
    params->shared = mx_retain(shared);
    if (!params->prefix) {
        mx_release(params);
        return NULL;
    }
    return mx_scope_add(params);
}

const char *mx_params_prefix(const mx_params *params) { return ok(params, "mx_params_prefix") ? params->prefix : NULL; }
int64_t mx_params_count(const mx_params *params) { return ok(params, "mx_params_count") ? params->entries.length : 0; }

mx_parameter *mx_params_at(const mx_params *params, int64_t i)
{
    if (!ok(params, "mx_params_at") || i < 0 || i >= params->entries.length)
        return NULL;
    return params->entries.entries[i].pointer;
}

mx_parameter *mx_params_find(const mx_params *params, const char *full_name)
{
    if (!ok(params, "mx_params_find"))
        return NULL;
    if (!full_name)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_params_find: full_name is NULL, wanted a text");
    mx_parameter *p = mx_dict_get(&params->entries, full_name);
    return p || !params->shared ? p : mx_params_find(params->shared, full_name);
}

static mx_code put(mx_params *params, mx_parameter *p)
{
    if (!mx_dict_set(&params->entries, p->name, p))
        return mx_error_code();
    mx_retain(p);
    return MX_OK;
}

mx_code mx_params_set(mx_params *params, int64_t n, const char *const *names, mx_parameter *const *parameters)
{
    mx_dict fresh = {0};
    for (int64_t i = 0; i < n; i++)
        if (!mx_dict_set(&fresh, names[i], parameters[i])) {
            mx_dict_free(&fresh);
            return mx_error_code();
        }
    for (int64_t i = 0; i < fresh.length; i++)
        mx_retain(fresh.entries[i].pointer);
    mx_dict before = params->entries;
    params->entries = fresh;
    for (int64_t i = 0; i < before.length; i++)
        mx_release(before.entries[i].pointer);
    mx_dict_free(&before);
    return MX_OK;
}

mx_code mx_params_add(mx_params *params, mx_parameter *p)
{
    if (!ok(params, "mx_params_add") || !mx_is_kind(p, &mx_parameter_kind, "mx_params_add", "parameter"))
        return mx_error_code();
    mx_parameter *have = mx_dict_get(&params->entries, p->name);
    if (have == p)
        return MX_OK;
    if (have)
        return mx_fail(MX_ERR_PARAMETER,
                       "two different parameters are named %s; give one of their blocks another prefix", p->name);
    return put(params, p);
}

/* An existing parameter is reused only if it does not contradict the requested options. */
static mx_code agree(mx_parameter *p, const struct mx_parameter_options *o)
{
    if (o->dtype != MX_DTYPE_NONE && o->dtype != p->dtype)
        return mx_fail(MX_ERR_PARAMETER, "parameter %s is %s, wanted %s", p->name, mx_dtype_name(p->dtype),
                       mx_dtype_name(o->dtype));
    if (!p->init)
        p->init = mx_retain(o->init);
    return o->shape.n < 0 ? MX_OK : mx_parameter_set_shape(p, o->shape);
}

mx_parameter *mx_params_get_with(mx_params *params, const struct mx_parameter_options *options)
{
    if (!ok(params, "mx_params_get"))
        return NULL;
    if (!options || !options->name)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_params_get: name is NULL, wanted a text");
    MX_SCOPE;
    mx_text name = {0};
    mx_text_print(&name, "%s%s", params->prefix, options->name);
    const char *full = mx_text_to_scope(&name);
    if (!full)
        return NULL;
    mx_parameter *p = mx_params_find(params, full);
    if (p) {
        if (agree(p, options))
            return NULL;
        return mx_dict_get(&params->entries, full) || !put(params, p) ? p : NULL;
    }
    struct mx_parameter_options named = *options;
    named.name = full;
    if (named.dtype == MX_DTYPE_NONE)
        named.dtype = MX_FLOAT32;
    p = mx_parameter_make(&named);
    return p && !put(params, p) ? p : NULL; /* the dictionary holds it now */
}

#define FOR_EACH(params, p) \
    for (int64_t i_ = 0; i_ < (params)->entries.length; i_++) \
        for (mx_parameter *p = (params)->entries.entries[i_].pointer; p; p = NULL)

mx_code mx_params_initialize(mx_params *params, mx_initializer *init, const mx_context *contexts, int count, bool force)
{
    MX_SCOPE;
    if (!ok(params, "mx_params_initialize") ||
        (init && !mx_is_kind(init, &mx_initializer_kind, "mx_initialize", "init")))
        return mx_error_code();
    if (!init && !(init = mx_initializer_named("uniform")))
        return mx_error_code();
    FOR_EACH(params, p)
        if (mx_parameter_initialize(p, init, contexts, count, force))
            return mx_error_code();
    return MX_OK;
}

mx_code mx_params_zero_grad(mx_params *params)
{
    if (!ok(params, "mx_params_zero_grad"))
        return mx_error_code();
    FOR_EACH(params, p)
        if (mx_parameter_zero_grad(p))
            return mx_error_code();
    return MX_OK;
}

mx_code mx_params_reset_ctx(mx_params *params, const mx_context *contexts, int count)
{
    if (!ok(params, "mx_params_reset_ctx"))
        return mx_error_code();
    FOR_EACH(params, p)
        if (mx_parameter_reset_ctx(p, contexts, count))
            return mx_error_code();
    return MX_OK;
}

static void describe(mx_text *text, const mx_parameter *p)
{
    char shape[MX_SHAPE_TEXT];
    mx_dims dims = mx_parameter_shape(p);
    mx_text_print(text, "%s %s (shape=%s, dtype=%s)", p->constant ? "Constant" : "Parameter", p->name,
                  dims.n < 0 ? "None" : mx_dims_text(&dims, shape), mx_dtype_name(p->dtype));
}

const char *mx_params_text(const mx_params *params)
{
    if (!ok(params, "mx_params_text"))
        return NULL;
    mx_text text = {0};
    mx_text_print(&text, "%s%s(\n", params->prefix, *params->prefix ? " " : "");
    FOR_EACH(params, p) {
        mx_text_add(&text, "  ");
        describe(&text, p);
        mx_text_add(&text, "\n");
    }
    mx_text_add(&text, params->entries.length ? ")" : "\n)");
    return mx_text_to_scope(&text);
}
