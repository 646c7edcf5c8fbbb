/* Users' operators: what a node Custom calls (see op/control.h).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GRAPH_CUSTOM_H
#define MX_GRAPH_CUSTOM_H

#include "gluon/custom.h"
#include "op/control.h"

typedef struct mx_custom_use {
    mx_callee callee;
    const mx_custom_class *custom; /* never freed */
    void *self;
    int n[3];                    /* by mx_custom_list */
    const char *const *names[3]; /* they belong to self */
    int n_options;
    char **keys, **texts; /* (n_options) owned */
} mx_custom_use;

bool mx_op_is_custom(const mx_op *op);
const char *mx_custom_type(const void *attrs); /* op_type in the attributes of Custom */
/* A use of a registered class: new reference; NULL with an error. */
mx_callee *mx_custom_callee(const char *op_type, int n, const char *const *keys, const char *const *values);
/* Running it, defined by exec/control/custom.c. */
mx_code mx_custom_run_on(mx_callee *callee, int n_in, mx_array *const *in, int n_out, mx_array **out);
/* Shapes and types of outputs from those of the inputs, by inference. */
mx_code mx_custom_infer(const mx_callee *callee, mx_infer *infer);

#endif
