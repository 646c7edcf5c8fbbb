/* The registry of classes (see class.h).  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/class/class.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dict.h"
#include "base/error.h"
#include "base/suggest.h"
#include "base/vec.h"
#include "gluon/block/core.h"
#include "gluon/train/learning.h"

static mx_dict by_name[MX_CLASS_KINDS]; /* lower-case names and aliases -> mx_class */
static MX_VEC(mx_class *) classes;
static pthread_once_t filled = PTHREAD_ONCE_INIT;

static const char *const kind_names[MX_CLASS_KINDS] = {
    "layer", "loss", "initializer", "optimizer", "learning-rate schedule", "metric"};

static const char *lower(const char *text, size_t length, char *buffer)
{
    size_t n = 0;
    for (; n < length && n < 127; n++)
        buffer[n] = (char)tolower((unsigned char)text[n]);
    buffer[n] = 0;
    return buffer;
}

static bool add(mx_class *cls)
{
    char name[128];
    cls->id = (int)classes.length;
    if (cls->schema) {
        mx_schema_layout(cls->schema);
        cls->defaults = mx_alloc_zero(cls->schema->size);
        if (!cls->defaults)
            return false;
        mx_schema_defaults(cls->schema, cls->defaults);
    }
    bool ok =
        mx_vec_push(&classes, cls) && mx_dict_set(&by_name[cls->kind], lower(cls->name, strlen(cls->name), name), cls);
    for (const char *p = cls->aliases ? cls->aliases : ""; ok && *(p += strspn(p, " ")); p += strcspn(p, " "))
        ok = mx_dict_set(&by_name[cls->kind], lower(p, strcspn(p, " "), name), cls);
    return ok;
}

static void fill(void)
{
    for (mx_class *const *family = mx_class_families; *family; family++)
        for (mx_class *cls = *family; cls->name; cls++)
            if (!add(cls))
                return;
}

mx_class *mx_class_find(mx_class_kind kind, const char *name)
{
    char key[128];
    pthread_once(&filled, fill);
    if ((int)kind < 0 || kind >= MX_CLASS_KINDS)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_class_find: %d is not a kind of class", (int)kind);
    mx_class *cls = name ? mx_dict_get(&by_name[kind], lower(name, strlen(name), key)) : NULL;
    if (cls)
        return cls;
    mx_suggestion s = {.word = name};
    for (int64_t i = 0; i < by_name[kind].length; i++)
        mx_suggest(&s, by_name[kind].entries[i].key);
    return mx_fail_null(MX_ERR_ARGUMENT, "there is no %s named '%s'%s", kind_names[kind], name ? name : "NULL",
                        mx_suggest_text(&s));
}

mx_class *mx_class_at(int i)
{
    pthread_once(&filled, fill);
    return i >= 0 && i < classes.length ? classes.items[i] : NULL;
}

const char *mx_class_name(const mx_class *cls) { return cls ? cls->name : NULL; }
mx_class_kind mx_class_kind_of(const mx_class *cls) { return cls ? cls->kind : MX_CLASS_KINDS; }

void *mx_class_make(mx_class *cls, const void *options, const char *prefix, void *params)
{
    if (!cls)
        return NULL;
    if (!options)
        options = cls->defaults;
    if (cls->schema && mx_schema_check(cls->schema, options, cls->name))
        return NULL;
    switch (cls->kind) {
    case MX_LAYER:
    case MX_LOSS: return mx_layer_make(cls, options, &(mx_block_naming){.prefix = prefix, .params = params});
    case MX_INITIALIZER: return mx_initializer_make(cls, options);
    case MX_OPTIMIZER: return mx_optimizer_make(cls, options);
    case MX_LR_SCHEDULER: return mx_lr_scheduler_make(cls, options);
    default: return mx_metric_make(cls, options);
    }
}

void *mx_class_make_named(mx_class_kind kind, const char *name, const void *options, const char *prefix, void *params)
{
    return mx_class_make(mx_class_find(kind, name), options, prefix, params);
}

void *mx_class_create(mx_class *cls, const char *options)
{
    if (!cls)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_class_create: cls is NULL");
    if (!cls->schema || !options || !*options) {
        if (options && *options)
            return mx_fail_null(MX_ERR_ATTRIBUTE, "%s has no options, got '%.80s'", cls->name, options);
        return mx_class_make(cls, NULL, NULL, NULL);
    }
    void *typed = mx_alloc(cls->schema->size);
    if (!typed)
        return NULL;
    memcpy(typed, cls->defaults, cls->schema->size);
    void *made = mx_schema_parse(cls->schema, typed, cls->name, options) ? NULL : mx_class_make(cls, typed, NULL, NULL);
    mx_free(typed, cls->schema->size);
    return made;
}
