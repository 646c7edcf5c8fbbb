/* Initializers as objects: of a class, of a value, of a user's function.  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/block/initialize.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/block/core.h"

static void destroy(mx_object *object)
{
    mx_initializer *init = (mx_initializer *)object;
    if (init->cls)
        mx_options_forget(init->cls, init->options);
    if (init->release)
        init->release(init->user);
    mx_release(init->value);
    mx_free(init, sizeof *init);
}
const mx_kind mx_initializer_kind = {"initializer", destroy};

static mx_initializer *new_initializer(void)
{
    mx_initializer *init = mx_alloc_zero(sizeof *init);
    if (init)
        mx_object_init(&init->object, &mx_initializer_kind);
    return init;
}

mx_initializer *mx_initializer_make(mx_class *cls, const void *options)
{
    const mx_initializer_methods *methods = cls->methods;
    if (methods->check && methods->check(options))
        return NULL;
    mx_initializer *init = new_initializer();
    if (!init)
        return NULL;
    init->cls = cls;
    if (mx_options_keep(cls, options, &init->options)) {
        mx_release(init);
        return NULL;
    }
    return mx_scope_add(init);
}

mx_initializer *mx_initializer_custom(mx_fill_fn fill, void *user, void (*release)(void *user))
{
    if (!fill)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_initializer_custom: fill is NULL, wanted a function");
    mx_initializer *init = new_initializer();
    if (!init)
        return NULL;
    init->fill = fill, init->user = user;
    init = mx_scope_add(init);
    if (init)
        init->release = release; /* on failure the user's data stays the caller's */
    return init;
}

mx_initializer *mx_initializer_of_value(mx_array *value)
{
    if (!mx_array_ok(value, "mx_initializer_of_value", "value"))
        return NULL;
    mx_initializer *init = new_initializer();
    if (!init)
        return NULL;
    init->value = mx_retain(value);
    return mx_scope_add(init);
}

mx_initializer *mx_initializer_named(const char *name)
{
    return mx_class_create(mx_class_find(MX_INITIALIZER, name), NULL);
}

static mx_code fill_on_host(mx_initializer *init, const char *name, mx_array *array)
{
    if (init->fill)
        return init->fill(init->user, name, array)
                   ? mx_fail(MX_ERR_CALLBACK, "the initializer of parameter %s failed", name)
                   : MX_OK;
    if (!init->cls)
        return mx_array_set(array, init->value);
    return ((const mx_initializer_methods *)init->cls->methods)->fill(init->options, name, array);
}

mx_code mx_initializer_fill(mx_initializer *init, const char *name, mx_array *array)
{
    MX_SCOPE;
    if (!mx_is_kind(init, &mx_initializer_kind, "mx_initializer_fill", "init") ||
        !mx_array_ok(array, "mx_initializer_fill", "array"))
        return mx_error_code();
    name = name ? name : "";
    if (mx_context_is_host(array->context))
        return fill_on_host(init, name, array);
    mx_shape_t shape = mx_array_shape(array);
    mx_array *host = mx_scope_add(mx_array_new(&shape, (mx_dtype)array->dtype, mx_cpu(0)));
    return host && !fill_on_host(init, name, host) ? mx_array_set(array, host) : mx_error_code();
}
