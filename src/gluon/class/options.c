/* The options of an object: a copy of the typed struct with strings interned and objects retained, so that the caller
 * may free its own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/object.h"
#include "gluon/class/class.h"

static void **slot(void *options, const mx_field *field) { return (void **)((char *)options + field->offset); }

static mx_code check_objects(const mx_class *cls, const void *options)
{
    for (int i = 0; i < cls->schema->count; i++) {
        const mx_field *field = &cls->schema->fields[i];
        const mx_object *object =
            field->type == MX_FIELD_PTR ? *(void *const *)((const char *)options + field->offset) : NULL;
        if (object && object->guard != MX_OBJECT_ALIVE)
            return mx_fail(MX_ERR_ARGUMENT, "%s: %s was freed or is not a Gluon object, wanted %s", cls->name,
                           field->name, field->rule);
    }
    return MX_OK;
}

mx_code mx_options_keep(const mx_class *cls, const void *options, void **kept)
{
    *kept = NULL;
    if (!cls->schema)
        return MX_OK;
    if (check_objects(cls, options))
        return mx_error_code();
    void *copy = mx_alloc(cls->schema->size);
    if (!copy)
        return mx_error_code();
    memcpy(copy, options, cls->schema->size);
    bool complete = true;
    for (int i = 0; i < cls->schema->count; i++) {
        const mx_field *field = &cls->schema->fields[i];
        void **value = slot(copy, field);
        if (field->type == MX_FIELD_PTR)
            mx_retain(*value);
        else if (field->type == MX_FIELD_STR && *value)
            complete &= (*value = (void *)(uintptr_t)mx_intern(*value)) != NULL;
    }
    if (!complete) {
        mx_options_forget(cls, copy);
        return mx_error_code();
    }
    *kept = copy;
    return MX_OK;
}

void mx_options_forget(const mx_class *cls, void *options)
{
    if (!options)
        return;
    for (int i = 0; i < cls->schema->count; i++)
        if (cls->schema->fields[i].type == MX_FIELD_PTR)
            mx_release(*slot(options, &cls->schema->fields[i]));
    mx_free(options, cls->schema->size);
}

mx_code mx_option_choice(const char *who, const char *option, const char *value, const char *choices, int *index)
{
    char choice[64];
    for (*index = 0; value && mx_rule_choice(choices, *index, choice); ++*index)
        if (!strcmp(choice, value))
            return MX_OK;
    return mx_fail(MX_ERR_ATTRIBUTE, "%s: %s='%.80s', wanted one of %s", who, option, value ? value : "None", choices);
}
