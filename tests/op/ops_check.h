/* The checks of one sample; each function reports through ops_fail.  SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_OPS_CHECK_H
#define TESTS_OPS_CHECK_H

#include "ops_case.h"

/* Values in every type against the reference; given and aliased outputs, guards; false if no type works. */
bool ops_check_values(const ops_case *c);
/* One call in float32 (or the first type that works): what it allocates must be freed afterwards. */
void ops_check_leak(const ops_case *c);
/* Zero-size first axis: the right shape or an error. */
void ops_check_empty(const ops_case *c);
/* One thread and several give the same numbers on inputs large enough to be split. True if it could be checked. */
bool ops_check_threads(const ops_case *c);
/* Inference on arrays without data, and with unknown parts. */
void ops_check_abstract(const ops_case *c);
/* First and second order gradients against finite differences. */
void ops_check_gradients(const ops_case *c);

/* Relative accuracy that a result of this type has. */
double ops_tolerance(mx_dtype dtype);
/* Compares n numbers of type dtype; wanted[i] beyond the type's range are skipped. Reports the first mismatch. */
void ops_compare(const ops_case *c, const char *what, mx_dtype dtype, const double *got, const double *wanted,
                 int64_t n, double tolerance);
/* The first type (and types of the inputs) in which the sample runs, of the given list ended by MX_DTYPE_NONE. */
bool ops_first_type(const ops_case *c, const mx_dtype *list, mx_dtype *dtype, int *types);

#endif
