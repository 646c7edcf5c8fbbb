/* Operators written by users: registered under a name (op_type), called on arrays and on symbols, saved in files.
 *
 *     mx_custom_register(&square_class);
 *     struct mx_custom_args args = {.op_type = "square", .n_in = 1, .in = &x};
 *     mx_arrays y = mx_custom(&args);
 *
 * A symbol holds such a call as a node Custom with op_type and the options as attributes; running the graph (in an
 * executor or a plan of a hybridized block) calls back.  The class must be registered before a file that names it is
 * read.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_CUSTOM_H
#define GLUON_CUSTOM_H

#include "gluon/array.h"
#include "gluon/sparse.h"

enum mx_custom_list { MX_CUSTOM_ARGUMENTS, MX_CUSTOM_OUTPUTS, MX_CUSTOM_AUXILIARY };

/* Shapes (n == -1: unknown; 0 inside: unknown size) and types (MX_DTYPE_NONE: unknown) of arguments, outputs and
 * auxiliary states.  The shape of the first argument is known. */
typedef struct mx_custom_shapes {
    int n_arguments, n_outputs, n_auxiliary;
    mx_dims *arguments, *outputs, *auxiliary;
    mx_dtype *argument_types, *output_types, *auxiliary_types;
} mx_custom_shapes;

/* One run.  Forward writes into `outputs`, backward into `argument_grads` (both are allocated, gradients are zeros). */
typedef struct mx_custom_run {
    mx_arrays arguments, outputs, auxiliary, output_grads, argument_grads;
    bool training;
    mx_context context;
    void *state; /* NULL when forward is called; what it stores here is passed to backward */
} mx_custom_run;

/* Storage types of a call with sparse arguments.  Forward: those of the outputs are found.  Backward: those of the gradients of
 * outputs, as it wants them, and of arguments, as it gives them; all are dense if it changes nothing. */
typedef struct mx_custom_storage {
    bool backward;
    int n_arguments, n_outputs;
    const mx_stype *arguments;
    mx_stype *outputs;
    mx_stype *output_grads, *argument_grads; /* backward only */
} mx_custom_storage;

typedef struct mx_custom_class {
    const char *op_type;
    void *user;
    /* The properties of one use, with options as text; NULL: failed. */
    void *(*create)(void *user, int n, const char *const *keys, const char *const *values);
    void (*release)(void *self); /* may be NULL */
    /* Names of arguments, outputs or auxiliary states (n of them); they are valid as long as `self`.  NULL: failed. */
    const char *const *(*names)(void *self, enum mx_custom_list which, int *n);
    mx_code (*infer)(void *self, const mx_custom_shapes *shapes); /* fills in what is unknown */
    mx_code (*forward)(void *self, mx_custom_run *run);
    mx_code (*backward)(void *self, mx_custom_run *run); /* NULL: it has no gradient */
    void (*release_state)(void *state);                  /* may be NULL */
    bool (*takes_sparse)(void *self);                    /* NULL or false: it gets dense copies of sparse arguments */
    mx_code (*storage)(void *self, const mx_custom_storage *storage); /* if it takes them */
} mx_custom_class;
/* The class is copied; one of the same name is replaced. */
MX_API mx_code mx_custom_register(const mx_custom_class *custom);

struct mx_custom_args {
    const char *op_type;
    const char *name; /* of the node; NULL: automatic */
    bool symbolic;    /* create a node even if no input is symbolic */
    int n_in;
    const char *const *in_names; /* NULL, or per input its name; NULL entries are by position */
    mx_array *const *in;
    int n_options;
    const char *const *keys, *const *values;
};
/* On symbols, missing arguments and auxiliary states become variables. */
MX_API mx_arrays mx_custom(const struct mx_custom_args *args);

#endif
