/* Operators as objects: finding them, describing them, calling them.
 *
 * Most programs call operators through the generated functions of <gluon/op.gen.h>, such as
 * mx_softmax(x, .axis = 1).  This header is for language bindings and tools.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_OP_H
#define GLUON_OP_H

#include "gluon/array.h"

typedef struct mx_op mx_op;

MX_API mx_op *mx_op_find(const char *name); /* by name or alias; NULL with an error if there is none */
MX_API mx_op *mx_op_at(int i);              /* operator number i, in order of registration; NULL past the end */
MX_API const char *mx_op_name(const mx_op *op);
MX_API const char *mx_op_describe(const mx_op *op); /* everything about it as JSON; belongs to the scope */

/* The one entry point.  Runs `op` on arrays (while recording also appends to the tape; on abstract arrays only infers).
 * attrs: the operator's attribute struct, NULL for defaults.  out[i]: NULL, or an array to write to; on return
 * the results, owned by the scope.  n_out: entries of `out`, at least the visible outputs. */
MX_API mx_code mx_invoke(mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out);

/* The same with attributes as text and all results as a list that belongs to the scope. */
MX_API mx_arrays mx_invoke_text(mx_op *op, mx_arrays in, int n_attrs, const char *const *names,
                                const char *const *values, mx_arrays out);

#endif
