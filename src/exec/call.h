/* Convenient forms of mx_invoke, for the generated functions and for C code inside the library.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_CALL_H
#define MX_EXEC_CALL_H

#include "op/op.h"

/* mx_invoke into arrays that are all NULL; hidden outputs are handed out as well where they are dense arrays. */
mx_code mx_invoke_all(mx_op *op, const void *attrs, int n_in, mx_array *const *in, mx_array *out[MX_MAX_OUTPUTS]);
/* First visible output; `out` NULL: a new array. */
mx_array *mx_call_one(mx_op *op, const void *attrs, int n_in, mx_array *const *in, mx_array *out);
/* All visible outputs; out.v NULL: new arrays. */
mx_arrays mx_call_many(mx_op *op, const void *attrs, int n_in, mx_array *const *in, mx_arrays out);
/* The same for operators whose last input is a list. */
mx_arrays mx_call_list(mx_op *op, const void *attrs, int n_before, mx_array *const *before, mx_arrays list,
                       mx_arrays out);

/* The result of an operator that only changes the shape, sharing x's memory; differentiable. */
mx_array *mx_call_view(mx_op *op, const void *attrs, mx_array *x);

/* For benchmarks: the time of kernels is added here.  NULL: not measured. */
extern double *mx_kernel_seconds;

#endif
