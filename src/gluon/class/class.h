/* The class entries behind gluon/class.h: descriptions of layers, losses, initializers, optimizers, schedules, metrics.
 *
 * A file in gluon/def describes a family: an array `mx_class mx_classes_<file>[]`, ended by an empty entry.
 * `methods` points to the table of its kind (struct mx_layer, mx_initializer_methods ...: core.h, initialize.h,
 * learning.h).
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
    int positional;    /* how many leading options C callers pass by position */
    int by_name;       /* how many trailing options are keyword-only in front ends */
    const char *hint;  /* of automatic names; NULL: the name in lower case */
    const char *node;  /* name of the layer's operator in graphs, "fwd"; NULL: named after the operator */
    const void *methods;
    const char *c_name; /* constructor without mx_; NULL: the name in snake case */
    const char *group;  /* "transforms": submodule of front ends; NULL: that of its kind */

    /* Filled in by the registry. */
    int id;
    void *defaults; /* options struct with default values */
};

extern mx_class *const mx_class_families[]; /* generated from the file names in gluon/def; NULL-ended */

/* An object of the class; options: its typed struct, NULL for defaults.  prefix and params: for layers and losses. */
void *mx_class_make(mx_class *cls, const void *options, const char *prefix, void *params);
/* The same, found by kind and literal name. */
void *mx_class_make_named(mx_class_kind kind, const char *name, const void *options, const char *prefix, void *params);

/* A copy of options for an object: strings interned, objects retained.  *kept is NULL for classes without options. */
mx_code mx_options_keep(const mx_class *cls, const void *options, void **kept);
void mx_options_forget(const mx_class *cls, void *options); /* NULL is ignored */
/* Index of the choice ("uniform|gaussian") that a string option names; an error names `who`, the option, the choices. */
mx_code mx_option_choice(const char *who, const char *option, const char *value, const char *choices, int *index);

#endif
