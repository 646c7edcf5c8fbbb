/* The rows behind gluon/class.h: what a layer, loss, initializer, optimizer, schedule or metric is.
 *
 * A file in gluon/def describes a family: an array `mx_class mx_classes_<file>[]`, ended by an empty row.
 * `methods` points to the table that its kind wants (struct mx_layer, mx_initializer_methods ...: core.h,
 * initialize.h, learning.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_CLASS_CLASS_H
#define MX_GLUON_CLASS_CLASS_H

#include "gluon/class.h"
#include "op/schema.h"

struct mx_class {
    mx_class_kind kind;
    const char *name;    /* "Dense" */
    const char *aliases; /* "a b", lower case; NULL: only the name in lower case */
    const char *doc;
    mx_schema *schema; /* options; NULL: none */
    int positional;    /* how many of the first options C callers give by position */
    int by_name;       /* how many of the last options front ends take by name only */
    const char *hint;  /* of automatic names; NULL: the name in lower case */
    const char *node;  /* name of the layer's operator in graphs, "fwd"; NULL: named after the operator */
    const void *methods;
    const char *c_name; /* constructor without mx_; NULL: the name in snake case */
    const char *group;  /* "transforms": where front ends put it apart from the others of its kind; NULL: nowhere */

    /* Filled in by the registry. */
    int id;
    void *defaults; /* options struct with default values */
};

extern mx_class *const mx_class_families[]; /* generated from the file names in gluon/def; NULL-ended */

/* An object of the class; options: its typed struct, NULL for defaults.  prefix and params: for layers and losses. */
void *mx_class_make(mx_class *cls, const void *options, const char *prefix, void *params);
/* The same, found by kind and literal name. */
void *mx_class_make_named(mx_class_kind kind, const char *name, const void *options, const char *prefix, void *params);

/* A copy of options for an object to keep: texts interned, objects retained.  *kept is NULL for classes without. */
mx_code mx_options_keep(const mx_class *cls, const void *options, void **kept);
void mx_options_forget(const mx_class *cls, void *options); /* NULL is ignored */
/* Which of the choices ("uniform|gaussian") a text option names; an error names who, the option and the choices. */
mx_code mx_option_choice(const char *who, const char *option, const char *value, const char *choices, int *index);

#endif
